"""The root of an engine's process tree: starts it, passes frames on, and ends all of it.

It is the first process of a PID namespace, whose end the rest does not survive, or a subreaper, to
whom orphans come. It ends, and everything with it, on SIGTERM and SIGINT, when its standard input
closes (whoever started it is gone), when the data process closes its socket, and when the engine
ends.

``python -m tacit.federation.engine.tree JSON``, see `Tree`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType

from tacit.federation.engine import kit as kits
from tacit.federation.engine import linux
from tacit.federation.engine.relay import SOCKET, Relay

__all__ = ["Tree"]

_GRACE = 3.0  # seconds to end before being ended


@dataclass(frozen=True)
class Tree:
    """What to run.

    Attributes
    ----------
    kit
        The engine's start-up kit, as the tree sees it.
    handed
        How many bytes of standard input are the kit, for a folder that is empty; then what the
        engine prints goes to the standard output instead of the kit.
    role
        ``"client"`` or ``"server"``.
    socket
        Where the client's jobs find the data process.
    inherited
        The descriptor that leads there, if ``socket`` is to be served by a relay.
    parent
        Who started it; 0 if that process is not visible.
    environment
        What to add to the environment.
    """

    kit: str
    role: str
    handed: int = 0
    socket: str | None = None
    inherited: int | None = None
    parent: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, python: str = sys.executable) -> list[str]:
        """Return the command that runs it."""
        return [python, "-m", "tacit.federation.engine.tree", json.dumps(asdict(self))]

    def run(self) -> int:
        """Run until the end; return the engine's exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        with contextlib.suppress(OSError):  # elsewhere than on Linux the standard input tells
            linux.forgo_privileges()
            if os.getpid() != 1:
                linux.become_subreaper()
                linux.die_with_parent(signal.SIGTERM, self.parent or os.getppid())
        kit = Path(self.kit)
        if self.handed:
            kits.unpack(_read_input(self.handed), kit)
        else:
            with open(kit / "process.log", "ab") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
        kits.prepare(kit)
        try:
            relay = self._relay()
            engine = self._start(kit)  # before there are threads
            threading.Thread(target=_wait_for_end_of_input, daemon=True).start()
            if relay is not None:
                relay.start()
            return _reap_until(engine)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            _end_all()
            if self.inherited is not None and self.socket is not None:
                with contextlib.suppress(OSError):  # whoever made its folder may be gone
                    os.unlink(self.socket)
                    os.rmdir(os.path.dirname(self.socket))

    def _relay(self) -> Relay | None:
        if self.inherited is None or self.socket is None:
            return None
        upstream = socket.socket(fileno=self.inherited)
        upstream.set_inheritable(False)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket)
        os.chmod(self.socket, 0o600)
        listener.listen()
        return Relay(upstream, listener, _stop_self)

    def _start(self, kit: Path) -> subprocess.Popen[bytes]:
        command = kits.client_command(kit) if self.role == "client" else kits.server_command(kit)
        added = {"TMPDIR": str(kit / "tmp"), **self.environment}
        if self.socket is not None:
            added[SOCKET] = self.socket
        ours = os.getpid()

        def die_too() -> None:
            with contextlib.suppress(OSError):
                linux.die_with_parent(signal.SIGKILL, ours)

        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            cwd=kit,
            env={**os.environ, **added},
            start_new_session=True,
            preexec_fn=die_too,
        )


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _stop_self() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def _read_input(length: int) -> bytes:
    found = b""
    while len(found) < length:
        piece = os.read(0, length - len(found))
        if not piece:
            raise SystemExit(1)  # whoever started us is gone
        found += piece
    return found


def _wait_for_end_of_input() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    _stop_self()


def _reap_until(engine: subprocess.Popen[bytes]) -> int:
    """Collect every child that ends, orphans among them, until the engine has ended."""
    while True:
        found, status = os.wait()
        if found == engine.pid:
            engine.returncode = os.waitstatus_to_exitcode(status)
            return engine.returncode & 0xFF


def _descendants() -> list[int]:
    import psutil

    return [process.pid for process in psutil.Process().children(recursive=True)]


def _end_all() -> None:
    """End every process of the tree: ask first, then do not ask."""
    alone = os.getpid() == 1  # then -1 means all of the namespace, and ours ends it anyway
    for number, seconds in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, 2 * _GRACE)):
        deadline = time.monotonic() + seconds
        asked: set[int] = set()
        while time.monotonic() < deadline:
            for process in [-1] if alone else _descendants():
                if process not in asked:
                    asked.add(process)
                    with contextlib.suppress(OSError):
                        os.kill(process, number)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(Tree(**json.loads(sys.argv[1])).run())
