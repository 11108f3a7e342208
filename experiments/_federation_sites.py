"""The parties of a federation as processes, to be killed, paused, cut off and started again.

A site is two of them, as behind its wall: one with the data, which answers frames, and one that
has the line, passes whole frames on and writes down all that leaves. The coordinator is two as
well: one that submits, and the job that drives the rounds, which is submitted again where it died.
What carries bytes is a local socket in place of the engine; every other line is tacit's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tacit.federation.engine import frames, linux
from tacit.federation.engine.relay import Relay

CONTEXT = get_context("forkserver")  # a party is forked from a process that has run nothing
PRELOAD = ["tacit.federation.service", "tacit.federation.coordinate", "tacit.networks.sides",
           "tacit.moments.topics", "tacit.recommender.estimator", "polars"]  # fmt: skip
CONNECT = 1.0  # seconds that a call waits for a line
_LENGTHS = struct.Struct(">BQQ")


def _with_parent() -> None:
    with contextlib.suppress(OSError):
        linux.die_with_parent(signal.SIGKILL, os.getppid())


def _end_with(experiment: int) -> None:
    """End with the experiment: the server that forked us lasts for as long as we do."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            select.select([os.pidfd_open(experiment)], [], [])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# -- a site ------------------------------------------------------------------------------------


def _data(file: str, door: socket.socket, experiment: int) -> None:
    """Have the data: answer frames until the other side is gone."""
    _end_with(experiment)
    from tacit.federation.engine.door import Door
    from tacit.federation.files import SiteConfig
    from tacit.federation.service import SiteService

    service = SiteService(SiteConfig.read(file))
    Door(service.call, limit=service.limit).attend(door)


class _Line(Relay):
    """Passes frames on, writes down every answer before it leaves, and can be cut."""

    def __init__(
        self, upstream: socket.socket, path: str, log: str, calls: Any, hold: Any
    ) -> None:
        self._path, self._calls, self._hold = path, calls, hold
        self._open = set[socket.socket]()
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        super().__init__(upstream, _listener(path), lambda: os._exit(1), connections=16)

    def _visit(self, connection: socket.socket) -> None:
        self._open.add(connection)
        try:
            super()._visit(connection)
        finally:
            self._open.discard(connection)

    def _ask(self, call: int, body: memoryview) -> memoryview:
        with self._calls.get_lock():
            self._calls.value += 1
        while 0 < self._hold.value <= self._calls.value:  # until it is killed
            time.sleep(0.01)
        reply = super()._ask(call, body)
        os.write(self._log, _LENGTHS.pack(call, len(body), len(reply)) + bytes(body) + reply)
        return reply

    def cut(self, seconds: float) -> None:
        """Be unreachable for a while; what is under way is lost."""
        os.unlink(self._path)
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        time.sleep(seconds)
        self._listener = _listener(self._path)
        self.start()


def _listener(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    return listener


def _client(
    path: str,
    upstream: socket.socket,
    log: str,
    calls: Any,
    hold: Any,
    seconds: Any,
    experiment: int,
) -> None:
    """Have the line, and no data."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    _end_with(experiment)
    line = _Line(upstream, path, log, calls, hold)
    line.start()
    while True:
        signal.sigwait({signal.SIGUSR1})
        line.cut(seconds.value)


class SiteProcesses:
    """A site: its data, its line, how often it was called, and which call is held back."""

    def __init__(self, home: Path, number: int) -> None:
        self.calls, self.seconds = CONTEXT.Value("q", 0), CONTEXT.Value("d", 0.0)
        self.hold = CONTEXT.Value("q", 0)
        self.log = home / f"sent-{number:04d}.log"
        inner, outer = socket.socketpair()
        with inner, outer:
            self.data = CONTEXT.Process(
                target=_data,
                args=(str(home / "site.toml"), inner, os.getpid()),
                daemon=True,
            )
            self.client = CONTEXT.Process(
                target=_client, daemon=True,
                args=(str(home / "line.sock"), outer, str(self.log), self.calls, self.hold,
                      self.seconds,
                      os.getpid()),
            )  # fmt: skip
            self.data.start()
            self.client.start()

    @property
    def alive(self) -> bool:
        """Whether both are there; where one ends the site's command ends the other."""
        return self.data.is_alive() and self.client.is_alive()

    def cut(self, seconds: float) -> None:
        """Cut its line for a while."""
        self.seconds.value = seconds
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.client.pid, signal.SIGUSR1)

    def end(self) -> None:
        """Kill both, also paused ones."""
        for process in (self.client, self.data):
            process.kill()
            process.join()


def sent(log: Path, start: int = 0) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the call, the request and the answer of everything that left."""
    content = log.read_bytes()[start:] if log.exists() else b""
    at = 0
    while at + _LENGTHS.size <= len(content):
        call, asked, told = _LENGTHS.unpack_from(content, at)
        at += _LENGTHS.size
        yield frames.CALLS[call], content[at : at + asked], content[at + asked : at + asked + told]
        at += asked + told


# -- the coordinator ---------------------------------------------------------------------------


class Lines:
    """A transport over the sites' sockets."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        self._paths = dict(paths)

    def call(
        self, method: str, data: Any, names: tuple[str, ...], timeout: float
    ) -> Iterator[tuple[str, Any]]:
        """Call all sites at once; yield answers as they come."""
        found: queue.Queue[tuple[str, Any]] = queue.Queue()
        for name in names:
            body = data[name] if isinstance(data, Mapping) else data
            threading.Thread(
                target=self._one, args=(name, method, body, timeout, found), daemon=True
            ).start()
        for _ in names:
            yield found.get()

    def _one(self, name: str, method: str, body: bytes, timeout: float, found: Any) -> None:
        try:
            with self._connected(name) as line:
                line.settimeout(timeout)
                found.put((name, frames.ask(line, frames.CALLS.index(method), body)))
        except Exception as error:
            found.put((name, error))

    def _connected(self, name: str) -> socket.socket:
        deadline = time.monotonic() + CONNECT
        while True:
            line = socket.socket(socket.AF_UNIX)
            try:
                line.connect(self._paths[name])
                return line
            except OSError:
                line.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def _job(file: str, paths: Mapping[str, str]) -> None:
    """Drive the rounds of a coordinator's file, as the engine's job does."""
    from threadpoolctl import threadpool_limits

    from experiments._federation_audit import arrays_of
    from tacit.errors import TacitError
    from tacit.federation import coordinate as module
    from tacit.federation.files import CoordinatorConfig
    from tacit.rounds.messages import Message

    config = CoordinatorConfig.read(file)
    config.output.mkdir(parents=True, exist_ok=True)
    drive = module.drive

    def noted(coordinator: Any, *arguments: Any, **options: Any) -> Any:
        """Write down whose answers each round took in, and what was learned."""
        absorb = coordinator.absorb

        def absorbing(round: int, collected: Any) -> None:
            with open(config.output / "absorbed.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps([round, list(collected.sites)]) + "\n")
            absorb(round, collected)

        coordinator.absorb = absorbing
        with threadpool_limits(1):
            record = drive(coordinator, *arguments, **options)
        learned = arrays_of(getattr(coordinator, "inner", coordinator).result)
        (config.output / "learned.tacit").write_bytes(Message(0, learned).to_bytes())
        return record

    module.drive = noted
    try:
        module.coordinate(config, Lines(paths))
    except Exception as error:
        known = isinstance(error, TacitError)
        text = json.dumps({"reason": str(error) if known else repr(error), "known": known})
        (config.output / "failed.json").write_text(text, encoding="utf-8")
        return
    (config.output / "complete").touch()


def _coordinator(file: str, output: str, paths: Mapping[str, str], job: Any) -> None:
    """Submit the job, and once more where it died."""
    _with_parent()
    for _ in range(2):
        (Path(output) / "failed.json").unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            try:
                _with_parent()
                _job(file, paths)
            finally:
                os._exit(0)
        job.value = child
        os.waitpid(child, 0)
        job.value = 0
        if (Path(output) / "complete").exists():
            return


class CoordinatorProcesses:
    """The coordinator's command, and the job that it has submitted."""

    def __init__(self, file: Path, output: Path, paths: Mapping[str, str]) -> None:
        self._job = CONTEXT.Value("q", 0)
        self.process = CONTEXT.Process(
            target=_coordinator, args=(str(file), str(output), dict(paths), self._job), daemon=True
        )
        self.process.start()

    @property
    def job(self) -> int:
        """The process of the job; 0 where there is none."""
        return int(self._job.value)

    def end(self) -> None:
        """Kill it, and with it the job."""
        self.process.kill()
        self.process.join()
