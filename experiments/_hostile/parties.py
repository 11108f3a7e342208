"""Sites to attack: real data processes, what they ever said, and what calls cost them.

Here whoever attacks stands where the engine does, at the one door of a site's data process.
`experiments._hostile.engine` puts the engine in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from experiments._hostile import builds
from experiments._hostile.homes import Home
from tacit.errors import SiteFailure
from tacit.federation.engine import frames
from tacit.federation.secure import keys

_TICKS = os.sysconf("SC_CLK_TCK")


class Sites(ABC):
    """Sites that run.

    Parameters
    ----------
    homes
        Site → its folder; all who are pinned, of whom some may not run.
    control
        Whether checks can be taken out.
    """

    def __init__(self, homes: Mapping[str, Home], *, control: bool) -> None:
        self.homes, self.control, self.build = dict(homes), control, ""
        self.said: dict[str, list[bytes]] = {name: [] for name in homes}

    @abstractmethod
    def send(self, name: str, method: str, data: bytes) -> bytes:
        """Call a site and return what it says; raise where it says nothing."""

    @abstractmethod
    def pid(self, name: str) -> int:
        """Return the process that has a site's data."""

    @property
    def victim(self) -> Home:
        """The one whom everybody is after."""
        return self.homes[max(self.homes)]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self.homes)

    def weaken(self, build: str) -> None:
        """Take out one check at all of them, where these are controls."""
        self.build = build if self.control else ""
        for home in self.homes.values():
            if self.control:
                home.weaken(build)

    def ask(self, method: str, data: bytes) -> bytes:
        """Call the victim."""
        return self.send(self.victim.name, method, data)

    def call(
        self,
        method: str,
        data: bytes | Mapping[str, bytes],
        names: tuple[str, ...],
        timeout: float,
    ) -> Iterator[tuple[str, bytes | Exception]]:
        """Carry an honest coordinator's calls (`tacit.federation.coordinate.Transport`)."""
        for name in names:
            own = data if isinstance(data, bytes) else data[name]
            try:
                yield name, self.send(name, method, own)
            except Exception as error:
                yield name, error

    def costing(self, method: str, data: bytes) -> tuple[float, float]:
        """Call the victim; return the megabytes and the seconds that it took for the answer.

        Seconds are those of the clock, less what the carrying took beyond the process's own.
        """
        process = Path(f"/proc/{self.pid(self.victim.name)}")
        (process / "clear_refs").write_text("5")  # the peak begins anew
        before, busy = _status(process, "VmRSS"), _busy(process)
        started = time.perf_counter()
        with contextlib.suppress(SiteFailure):
            self.ask(method, data)
        seconds = time.perf_counter() - started
        if len(data) > 1 << 20:
            seconds = _busy(process) - busy
        return (_status(process, "VmHWM") - before) / 1024, seconds


def _status(process: Path, name: str) -> int:
    """Return a field of a process's status, in kB."""
    lines = (process / "status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(name + ":")]
    return int(line.split()[1])


def _busy(process: Path) -> float:
    """Return the seconds of processors that a process has had."""
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class AtTheDoor(Sites):
    """Sites whose engines were taken over: frames are written to their doors by hand."""

    def __init__(
        self, place: Path, names: Sequence[str], running: Sequence[str], *, control: bool
    ):
        homes = {name: Home(place, name) for name in names}
        super().__init__(homes, control=control)
        partners = {}
        for name, home in homes.items():
            home.folder.mkdir(parents=True)
            identity = keys.fresh_identity()
            (home.folder / "identity.key").write_text(identity.hex() + "\n")
            partners[name] = keys.identity_public(identity).hex()
        self._doors: dict[str, tuple[subprocess.Popen[bytes], socket.socket, int]] = {}
        self._locks = {name: threading.Lock() for name in names}
        with builds.started() if control else contextlib.nullcontext():
            for name, home in homes.items():
                home.write(partners)
                if name in running:
                    self._doors[name] = _start(home)
        for name, (_, _, status) in self._doors.items():
            with open(status, encoding="utf-8") as told:
                line = told.readline()
            if json.loads(line or "{}") != {"ready": True}:
                raise SiteFailure(f"{name} did not start: {line}")

    def __enter__(self) -> AtTheDoor:
        return self

    def __exit__(self, *error: object) -> None:
        for process, door, _ in self._doors.values():
            door.close()
            process.kill()
            process.wait()

    def send(self, name: str, method: str, data: bytes) -> bytes:
        with self._locks[name]:
            door = self._doors[name][1]
            answer = bytes(frames.ask(door, frames.CALLS.index(method), data))
        self.said[name].append(answer)
        return answer

    def pid(self, name: str) -> int:
        return self._doors[name][0].pid


def _start(home: Home) -> tuple[subprocess.Popen[bytes], socket.socket, int]:
    """Start a data process as `tacit site` does; return it, its door and where it says ready."""
    ours, theirs = socket.socketpair()
    told, telling = os.pipe()
    words = [sys.executable, "-m", "tacit.federation.engine.data", str(home.file)]
    words += [str(telling), str(theirs.fileno()), str(os.getpid())]
    with theirs, open(home.folder / "log", "wb") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            pass_fds=[telling, theirs.fileno()], env={**os.environ, "TACIT_NUM_THREADS": "1"},
        )  # fmt: skip
    os.close(telling)
    return process, ours, told
