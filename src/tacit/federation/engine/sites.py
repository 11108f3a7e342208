"""Running a site: its data process, and the engine beside it, with the wall in between."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tacit.errors import TacitError
from tacit.federation.engine.access import may_read
from tacit.federation.engine.greet import greet, listener_for
from tacit.federation.engine.isolation import KIT, find_isolation, make_plan, outer_environment
from tacit.federation.engine.kit import check_kit, pack
from tacit.federation.engine.processes import end
from tacit.federation.engine.tree import Tree
from tacit.federation.engine.wall import Wall
from tacit.federation.files import SiteConfig

__all__ = ["RunningSite", "ending_on_termination", "running_engine", "running_site"]

_RELAY = "/tmp/site.sock"  # in the sandbox's own folder
_LONGEST_LOG = 1 << 26  # bytes that an engine may print before no more is written down


@dataclass(frozen=True)
class RunningSite:
    """The processes of a site.

    Attributes
    ----------
    data
        The one with the data.
    engine
        The root of the engine's tree; None where another user has to start it.
    isolation
        What lies between them, in words.
    start
        The command that the engine's user has to run, where this one cannot.
    """

    data: subprocess.Popen[bytes]
    engine: subprocess.Popen[bytes] | None
    isolation: str
    start: str | None = None

    def wait(self) -> str:
        """Wait until one of them ends; say which."""
        while True:
            for name, process in (("data process", self.data), ("engine", self.engine)):
                if process is not None and process.poll() is not None:
                    return f"the {name} ended with status {process.returncode}"
            time.sleep(0.2)


@contextlib.contextmanager
def running_site(path: Path, within: Sequence[str] = ()) -> Iterator[RunningSite]:
    """Run a site's processes for as long as the context lasts.

    They end with the thread that entered it, however that ends.

    Parameters
    ----------
    path
        The site's file.
    within
        A command to run the engine within, such as ``("ip", "netns", "exec", "ward")``.
    """
    config = SiteConfig.read(path)
    start = {"isolated": _isolated, "user": _as_another_user, "trusted": _trusted}
    with contextlib.ExitStack() as stack:
        yield start[config.wall.engine](config, path, within, stack)


def private_paths(config: SiteConfig, file: Path) -> list[Path]:
    """Return what the engine must not see."""
    sources = [config.folder / str(s["file"]) for s in config.data.values() if "file" in s]
    found = [file.resolve(), config.folder, config.state, config.folder / config.ledger["file"]]
    return found + sources + ([] if config.identity is None else [config.identity])


def _isolated(
    config: SiteConfig, path: Path, within: Sequence[str], stack: contextlib.ExitStack
) -> RunningSite:
    """Start both, the engine in the best sandbox that works, with a pair of sockets between."""
    plan = make_plan()
    plan.check(private_paths(config, path))
    way, failed = find_isolation(config.folder)
    if way is None:
        tried = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        raise TacitError(
            f"the engine cannot be kept apart from the data on this machine ({tried}). Install "
            "bubblewrap or allow user namespaces; or give the engine a Unix user of its own and "
            'write engine = "user:NAME"; or use the compose file; or write engine = "trusted" '
            "into the site's file, which takes the wall away"
        )
    packed = pack(config.kit)
    inner, outer = socket.socketpair()
    with inner, outer:
        data = _start_data(config, path, inner, stack)
        tree = Tree(KIT, "client", len(packed), _RELAY, outer.fileno())
        command = [*within, *way.wrap(plan, [outer.fileno()]), *tree.command()]
        engine = _start_engine(command, stack, door=outer, log=config.state / "engine.log")
    assert engine.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it ended already: whoever waits will see
        engine.stdin.write(packed)
        engine.stdin.flush()
    data.wait_until_ready()
    return RunningSite(data.process, engine, way.name)


def _trusted(
    config: SiteConfig, path: Path, within: Sequence[str], stack: contextlib.ExitStack
) -> RunningSite:
    """Start both without a wall: the same socket, but nothing to keep the engine to it."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tacit-"))
    inner, outer = socket.socketpair()
    with inner, outer:
        data = _start_data(config, path, inner, stack)
        at = f"{folder}/site.sock"
        tree = Tree(str(config.kit), "client", 0, at, outer.fileno(), os.getpid())
        added = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        engine = _start_engine([*within, *tree.command()], stack, door=outer, environment=added)
    data.wait_until_ready()
    return RunningSite(data.process, engine, "NONE: THE ENGINE IS TRUSTED")


def _as_another_user(
    config: SiteConfig, path: Path, within: Sequence[str], stack: contextlib.ExitStack
) -> RunningSite:
    """Start the data process, and the engine too where we may become its user."""
    wall = config.wall
    assert wall.user is not None and wall.socket is not None
    for private in private_paths(config, path):
        if may_read(wall.user, private):
            raise TacitError(f"the engine's user can read {private}: chmod -R go= {config.folder}")
    listener = stack.enter_context(listener_for(wall))
    inside, doorman = socket.socketpair()
    stack.enter_context(doorman)
    with inside:
        data = _start_data(config, path, inside, stack)
    data.wait_until_ready()
    greeting = threading.Thread(target=greet, args=(listener, wall.user, doorman), daemon=True)
    greeting.start()
    stack.callback(greeting.join)
    stack.callback(listener.shutdown, socket.SHUT_RDWR)
    name = f"another user ({wall.user})"
    if os.geteuid() != 0:
        start = shlex.join(["tacit", "engine", str(config.kit), "--socket", str(wall.socket)])
        return RunningSite(data.process, None, name, start)
    tree = Tree(str(config.kit), "client", socket=str(wall.socket), parent=os.getpid())
    home = {"HOME": str(config.kit)}
    engine = _start_engine(
        [*within, *tree.command()], stack, environment=home, identity=_identity(wall)
    )
    return RunningSite(data.process, engine, name)


def _identity(wall: Wall) -> dict[str, Any]:
    assert wall.user is not None and wall.socket is not None
    group = wall.socket.parent.stat().st_gid
    with contextlib.suppress(KeyError):
        own = pwd.getpwuid(wall.user).pw_gid
        return {"user": wall.user, "group": own, "extra_groups": [group]}
    return {"user": wall.user, "group": group, "extra_groups": []}


@dataclass(frozen=True)
class _DataProcess:
    process: subprocess.Popen[bytes]
    status: int
    log: Path

    def wait_until_ready(self) -> None:
        with open(self.status, encoding="utf-8", closefd=False) as told:
            line = told.readline()
        found = json.loads(line or '{"refused": null}')
        if "refused" in found:
            raise TacitError(found["refused"] or f"the data process died: see {self.log}")


def _start_data(
    config: SiteConfig, path: Path, door: socket.socket, stack: contextlib.ExitStack
) -> _DataProcess:
    config.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = config.state / "site.log"
    told, telling = os.pipe()
    stack.callback(os.close, told)
    module = "tacit.federation.engine.data"
    words = [sys.executable, "-m", module, path.resolve(), telling, door.fileno(), os.getpid()]
    # where tacit is, and the holder's own plugins
    found = [outer_environment()["PYTHONPATH"], os.environ.get("PYTHONPATH", "")]
    added = {"PYTHONPATH": os.pathsep.join(filter(None, found))}
    places = (Path(__file__).parent, os.path.expanduser("~"))  # of compiled kernels
    if not any(os.access(place, os.W_OK) for place in places):
        added["NUMBA_CACHE_DIR"] = str(config.state / "compiled")
    try:
        with _open_log(log) as file:
            process = subprocess.Popen(
                [str(word) for word in words],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **added},
                pass_fds=[telling, door.fileno()],
                start_new_session=True,
            )
    finally:
        os.close(telling)
    stack.callback(end, process)
    return _DataProcess(process, told, log)


def _start_engine(
    command: Sequence[str],
    stack: contextlib.ExitStack,
    *,
    environment: dict[str, str] | None = None,
    door: socket.socket | None = None,
    log: Path | None = None,
    identity: dict[str, Any] | None = None,
) -> subprocess.Popen[bytes]:
    """Start the engine's tree; what it prints goes to a file of the site, or of its kit."""
    process: subprocess.Popen[bytes] = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,  # its end tells the tree that we are gone
        stdout=subprocess.DEVNULL if log is None else subprocess.PIPE,
        stderr=subprocess.DEVNULL if log is None else subprocess.STDOUT,
        env=(environment or {}) | outer_environment(),
        pass_fds=[] if door is None else [door.fileno()],
        start_new_session=True,
        cwd="/",
        **(identity or {}),
    )
    if log is not None and process.stdout is not None:
        writing = threading.Thread(target=_write_log, args=(process.stdout, log), daemon=True)
        writing.start()
        stack.callback(writing.join)
    stack.callback(end, process)
    return process


def _write_log(printed: IO[bytes], log: Path) -> None:
    """Write down what the engine prints, up to a size: a stranger must not fill the disk."""
    written = 0
    with printed, _open_log(log) as file:
        while piece := os.read(printed.fileno(), 1 << 16):
            if written < _LONGEST_LOG:
                file.write(piece)
                file.flush()
                written += len(piece)


def _open_log(log: Path) -> IO[bytes]:
    return open(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


@contextlib.contextmanager
def running_engine(kit: Path, socket_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a site's engine alone, as the user who may do no more than that.

    Parameters
    ----------
    kit
        The start-up kit, which belongs to this user.
    socket_path
        Where the data process listens.
    """
    check_kit(kit)
    place = str(kit.resolve())
    tree = Tree(place, "client", socket=str(socket_path.absolute()), parent=os.getpid())
    with contextlib.ExitStack() as stack:
        yield _start_engine(tree.command(), stack, environment={"HOME": place})


@contextlib.contextmanager
def ending_on_termination() -> Iterator[None]:
    """Have SIGTERM end this process as Ctrl-C does, so that what it runs is ended too."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
