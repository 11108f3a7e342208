"""A federation on loopback whose server, and one of whose sites, were taken over.

The sites that are attacked are `tacit site` as it is, each behind its wall. Controls have no wall
(``engine = "trusted"``) and a data process that takes builds.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

from experiments._hostile import bridge, builds
from experiments._hostile.homes import Home
from experiments._hostile.parties import Sites
from tacit.errors import SiteFailure
from tacit.federation.engine import nvflare, processes
from tacit.federation.engine.kit import client_command, prepare, server_command
from tacit.federation.engine.processes import end
from tacit.federation.engine.sites import RunningSite, running_site
from tacit.federation.files import CoordinatorConfig, SiteConfig
from tacit.federation.provision import init_federation

ROGUE = "Rogue"  # a site of the federation that was taken over
_SCRIPT = str(Path(__file__).with_name("rogue_engine.py"))
_PATIENCE = 60.0  # seconds for processes to start and to find each other
COORDINATOR = 'sites = {sites}\n[[computation]]\ncomputation = "regression"\n'


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.socket() as one:
        one.bind(("localhost", 0))
        found: int = one.getsockname()[1]
        return found


class Puppet:
    """A process of the engine that sends what it is told to.

    Parameters
    ----------
    place
        A folder for its socket and what it prints.
    kind
        See `experiments._hostile.rogue_engine`.
    command
        What the engine's own program is given.
    kit
        Where it runs.
    environment
        What to add to the environment.
    """

    def __init__(
        self, place: Path, kind: str, command: Sequence[str], kit: Path, **environment: str
    ) -> None:
        address = str(place / f"{kind}.sock")
        self._listener, self._orders = Listener(address), None
        words = [sys.executable, "-u", _SCRIPT, address, kind, *command[4:]]
        self.log = place / f"{kind}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=kit,
                start_new_session=True, env={**os.environ, **_path(), **environment},
            )  # fmt: skip

    @property
    def orders(self) -> Connection:
        """The line to it; waits until it is there."""
        if self._orders is None:
            self._orders = _accept(self._listener, self.process)
        return self._orders

    def send(
        self,
        target: str,
        channel: str,
        topic: str,
        body: Any = "",
        *,
        form: str = "admin",
        headers: Mapping[str, Any] | None = None,
        timeout: float = 5.0,
    ) -> bytes:
        """Have it send a message; return the text of the reply."""
        order = {"target": target, "channel": channel, "topic": topic, "body": body}
        order |= {"form": form, "headers": dict(headers or {}), "timeout": timeout}
        self.orders.send(order)
        return str(self.orders.recv()).encode()

    def close(self) -> None:
        """End it."""
        if self._orders is not None:
            self._orders.close()
        self._listener.close()
        end(self.process)


def _path() -> dict[str, str]:
    """Have a process find the experiments, whatever it is told about paths."""
    found = [str(builds.ROOT / "src"), str(builds.ROOT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, found))}


def _accept(listener: Listener, process: subprocess.Popen[bytes]) -> Connection:
    """Wait for whoever was started to call back."""
    inner = listener._listener._socket  # type: ignore[attr-defined]
    inner.settimeout(1.0)
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(TimeoutError):
            return listener.accept()
    raise SiteFailure("a process that was taken over did not call back")


class Federation(Sites):
    """A rogue server, sites, and a rogue site among them.

    Parameters
    ----------
    place
        An empty folder.
    names
        Those who are attacked.
    controls
        Which of them have no wall.
    """

    def __init__(self, place: Path, names: Sequence[str], controls: Collection[str]) -> None:
        self.place, self.controls = place, frozenset(controls)
        self.stack = contextlib.ExitStack()
        self.port = free_port()
        self.whole = init_federation(place / "ours", [*names, ROGUE], port=self.port)
        homes = {name: Home(place, name) for name in names}
        super().__init__(homes, control=self.controls == set(names))
        self.config = self.whole / "coordinator" / "coordinator.toml"
        self.config.write_text(COORDINATOR.format(sites=json.dumps([*names, ROGUE])))
        self.running: dict[str, RunningSite] = {}
        self.aliases: dict[str, Path] = {}
        self._session: Any = None
        self._bridge: Connection | None = None
        with contextlib.ExitStack() as starting:
            starting.callback(self.stack.close)
            self._start()
            starting.pop_all()

    def _start(self) -> None:
        server = self.whole / "coordinator" / "server"
        allow(server, "experiments._hostile.bridge.Bridge", "experiments._hostile.bridge.Idle")
        prepare(server)
        self._calls = Listener(str(self.place / "bridge.sock"))
        self.stack.callback(self._calls.close)
        at = {bridge.ADDRESS: str(self.place / "bridge.sock")}
        self.server = Puppet(self.place, "server", server_command(server), server, **at)
        self.stack.callback(self.server.close)
        for name, home in self.homes.items():
            shutil.move(self.whole / "sites" / name, home.folder)
            # whoever attacks knows where the site lies, and may not say its name to learn it
            self.aliases[name] = self.place / f"alias-{name}"
            self.aliases[name].symlink_to(home.folder)
            self.aliases[name].with_suffix(".csv").symlink_to(home.table)
            given = SiteConfig.read(home.file).partners
            partners = {site: key.hex() for site, key in given.items()}
            control = name in self.controls
            home.write(partners, *(['engine = "trusted"'] if control else []))
            with builds.started() if control else contextlib.nullcontext():
                self.running[name] = self.stack.enter_context(running_site(home.file))
        kit = self.whole / "sites" / ROGUE / "kit"
        prepare(kit)
        self.rogue = Puppet(self.place, "client", client_command(kit), kit)
        self.stack.callback(self.rogue.close)

    def __enter__(self) -> Federation:
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def pid(self, name: str) -> int:
        return self.running[name].data.pid

    @property
    def session(self) -> Any:
        """The coordinator's own way to its server, once all sites are there."""
        if self._session is None:
            config = CoordinatorConfig.read(self.config)
            self._session = processes._session(config, self.server.process, _PATIENCE)
            self.stack.callback(_quietly, self._session.close)
            processes._wait_for_sites(self._session, config, _PATIENCE)
        return self._session

    @property
    def bridge(self) -> Connection:
        """The line to the coordinator's job, which is submitted first."""
        if self._bridge is None:
            job = nvflare.write_job(self.place / "jobs", "bridge", self.names)
            _rewrite(job / "app" / "config" / "config_fed_server.json",
                     nvflare.CLASSES[2], "experiments._hostile.bridge.Bridge")  # fmt: skip
            meta = json.loads((job / "meta.json").read_text())
            meta["deploy_map"] = {"app": ["server", *self.names]}
            (job / "meta.json").write_text(json.dumps(meta))
            self.session.submit_job(str(job))
            self._bridge = _accept(self._calls, self.server.process)
            self.stack.callback(self._bridge.close)
        return self._bridge

    def send(self, name: str, method: str, data: bytes) -> bytes:
        ((_, found),) = self.call(method, data, (name,), 60.0)
        if isinstance(found, Exception):
            raise found
        return found

    def call(
        self,
        method: str,
        data: bytes | Mapping[str, bytes],
        names: tuple[str, ...],
        timeout: float,
    ) -> Iterator[tuple[str, bytes | Exception]]:
        self.bridge.send((method, data, names, timeout))
        answers: list[tuple[str, bytes | Exception]] = []
        while (found := self.bridge.recv()) is not None:  # all, or the next call would get them
            name, answer = found
            self.said[name].append(answer.encode() if isinstance(answer, str) else answer)
            answers.append((name, SiteFailure(answer) if isinstance(answer, str) else answer))
        yield from answers


def _quietly(action: Any) -> None:
    with contextlib.suppress(Exception):
        action()


def _rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def allow(kit: Path, *classes: str) -> None:
    """Have an engine take classes that are none of tacit's."""
    path = kit / "local" / "resources.json.tacit"
    found = json.loads(path.read_text())
    found["class_allow_list"] += classes
    path.write_text(json.dumps(found))
