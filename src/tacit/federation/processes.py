"""Starting and ending the processes of a federation: the server, its clients, and jobs on them."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from tacit.errors import SiteFailure, TacitError
from tacit.federation.files import CoordinatorConfig, SiteConfig
from tacit.federation.nvflare import COORDINATOR, SITE, write_job
from tacit.federation.provision import ADMIN

__all__ = ["run_coordinator", "running_server", "running_site"]

_SERVER = "nvflare.private.fed.app.server.server_train"
_CLIENT = "nvflare.private.fed.app.client.client_train"


def _prepare(kit: Path) -> None:
    """Make the kit's configuration point into the kit, wherever it lies now."""
    draft = kit / "local" / "resources.json.tacit"
    if draft.exists():
        text = draft.read_text().replace("{store}", json.dumps(str(kit / "store"))[1:-1])
        (kit / "local" / "resources.json").write_text(text)
    (kit / "transfer").mkdir(exist_ok=True)


def _start(
    kit: Path,
    module: str,
    config: str,
    settings: list[str],
    env: dict[str, str],
    within: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    if not (kit / "startup").is_dir():
        raise TacitError(f"{kit} is no start-up kit: `tacit federation init` writes them")
    _prepare(kit)
    log: IO[bytes]
    with open(kit / "process.log", "ab") as log:
        return subprocess.Popen(
            [
                *within,
                sys.executable,
                "-u",
                "-m",
                module,
                "-m",
                str(kit),
                "-s",
                config,
                "--set",
                "secure_train=true",
                *settings,
                "org=tacit",
                "config_folder=config",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=kit,
            env={**os.environ, "TMPDIR": _own(kit / "tmp"), **env},
            start_new_session=True,
        )


def _own(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    return str(folder)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and the jobs that it started, which have sessions of their own."""
    with contextlib.suppress(psutil.NoSuchProcess):
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(True)]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.terminate()
        _, left = psutil.wait_procs(family, timeout=3.0)
        for member in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                left += [child for child in member.children(True) if child not in left]
                member.kill()
        psutil.wait_procs(left, timeout=10.0)
    process.wait()


@contextlib.contextmanager
def running_site(path: Path, within: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """Run a site's process for as long as the context lasts.

    Parameters
    ----------
    path
        The site's file.
    within
        A command to run it within, such as ``("ip", "netns", "exec", "ward")``.
    """
    config = SiteConfig.read(path)
    process = _start(
        config.kit,
        _CLIENT,
        "fed_client.json",
        [f"uid={config.name}"],
        {SITE: str(path.resolve())},
        within,
    )
    try:
        yield process
    finally:
        _end(process)


@contextlib.contextmanager
def running_server(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the coordinator's server for as long as the context lasts."""
    config = CoordinatorConfig.read(path)
    process = _start(
        config.kit, _SERVER, "fed_server.json", [], {COORDINATOR: str(path.resolve())}
    )
    try:
        yield process
    finally:
        _end(process)


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
