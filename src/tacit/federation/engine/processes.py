"""Running the coordinator: its server, and jobs on it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tacit.errors import SiteFailure, TacitError
from tacit.federation.engine.nvflare import COORDINATOR, write_job
from tacit.federation.engine.tree import Tree
from tacit.federation.files import CoordinatorConfig
from tacit.federation.provision import ADMIN

__all__ = ["end", "run_coordinator", "running_server"]


def end(process: subprocess.Popen[bytes]) -> None:
    """End a tree by its root, which ends the rest; where it does not, end all of it."""
    if process.stdin is not None:
        process.stdin.close()
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=15.0)
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        psutil.wait_procs(family, timeout=10.0)
    process.wait()


@contextlib.contextmanager
def running_server(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the coordinator's server for as long as the context lasts.

    A port that somebody else has is refused: what answers there would not be this server.
    """
    config = CoordinatorConfig.read(path)
    _check_port(_address(config)[1])
    tree = Tree(
        str(config.kit),
        "server",
        parent=os.getpid(),
        environment={COORDINATOR: str(path.resolve())},
    )
    process = subprocess.Popen(
        tree.command(),
        stdin=subprocess.PIPE,  # its end tells the tree that we are gone
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        end(process)


def _check_port(port: int) -> None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # an old connection is no server
        try:
            one.bind(("", port))
        except OSError as error:
            raise TacitError(
                f"port {port} cannot be had ({error.strerror}): another server runs there. End "
                "it, or choose another port"
            ) from None


def run_coordinator(
    path: Path,
    *,
    wait: float = 300.0,
    show: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Start the server, wait for all sites, submit, and see the computations through.

    A job that died is submitted again, as often as the file says; it resumes where it was.

    Parameters
    ----------
    path
        The coordinator's file.
    wait
        Seconds to wait for sites.
    show
        Called with every line of progress.
    """
    config = CoordinatorConfig.read(path)
    with running_server(path) as server:
        session = _session(config, server, wait)
        try:
            for attempt in range(config.retries + 1):
                _wait_for_sites(session, config, wait)
                for old in ("failed.json", "complete"):
                    (config.output / old).unlink(missing_ok=True)
                job = write_job(config.output / "jobs", f"tacit-{attempt}", config.sites)
                job_id = session.submit_job(str(job))
                if _follow(session, job_id, config, show):
                    return
            raise SiteFailure(_reason(config))
        finally:
            with contextlib.suppress(Exception):
                session.close()


def _session(config: CoordinatorConfig, server: subprocess.Popen[bytes], wait: float) -> Any:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    deadline = time.monotonic() + wait
    while True:
        if server.poll() is not None:
            raise TacitError(f"the server ended: see {config.kit / 'process.log'}")
        try:
            # The engine's session leaves its sockets open where nobody listens yet: look first.
            with socket.create_connection(_address(config), timeout=10.0):
                pass
            return new_secure_session(ADMIN, str(config.admin), timeout=10.0)
        except Exception as error:
            if time.monotonic() > deadline:
                raise TacitError(f"the server cannot be reached: {error}") from None
            time.sleep(0.3)


def _address(config: CoordinatorConfig) -> tuple[str, int]:
    """Return host and port of the server, as the kit of who submits names them."""
    file = config.admin / "startup" / "fed_admin.json"
    admin = json.loads(file.read_text(encoding="utf-8"))["admin"]
    return str(admin["host"]), int(admin["port"])


def _wait_for_sites(session: Any, config: CoordinatorConfig, wait: float) -> None:
    deadline = time.monotonic() + wait
    while True:
        here = {client.name for client in session.get_system_info().client_info}
        missing = sorted(set(config.sites) - here)
        if not missing:
            return
        if time.monotonic() > deadline:
            raise SiteFailure(f"{', '.join(missing)} did not connect within {wait:g} s")
        time.sleep(0.3)


def _follow(
    session: Any,
    job: str,
    config: CoordinatorConfig,
    show: Callable[[dict[str, Any]], None] | None,
) -> bool:
    """Wait for a job; return whether it is complete, raise where trying again is no use."""
    seen: dict[Path, int] = {}
    while True:
        for step in config.steps:
            file = config.output / step.name / "progress.jsonl"
            if show is not None and file.exists():
                lines = file.read_text(encoding="utf-8").splitlines()
                for line in lines[seen.get(file, 0) :]:
                    show(json.loads(line))
                seen[file] = len(lines)
        if (config.output / "complete").exists():
            return True
        if (config.output / "failed.json").exists():
            content = json.loads((config.output / "failed.json").read_text(encoding="utf-8"))
            if content["final"]:
                raise TacitError(content["reason"])
            return False
        status = str(session.get_job_meta(job).get("status", ""))
        if status.startswith("FINISHED") and not (config.output / "complete").exists():
            return False
        time.sleep(0.2)


def _reason(config: CoordinatorConfig) -> str:
    path = config.output / "failed.json"
    if path.exists():
        return str(json.loads(path.read_text(encoding="utf-8"))["reason"])
    return f"the job died: see {config.kit / 'process.log'}"
