"""The sandbox of the engine's client, found by trying: bubblewrap, or the kernel's own calls.

The client lives in user, mount, PID, IPC, UTS and cgroup namespaces of its own. Its root is an
allow list: Python, its libraries and what the resolver needs, all of it read-only, and folders in
memory for its kit, which it is handed when it starts. It keeps the network. It sees nothing of the
home, no programs and no other process, and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tacit.errors import TacitError

__all__ = ["KIT", "Isolation", "Plan", "find_isolation", "make_plan", "outer_environment"]

KIT, PACKAGE = "/kit", "/app"  # where the kit and tacit itself are inside
_OURS = Path(__file__).resolve().parents[2]
_LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store")
_SYSTEM = (
    "ld.so.cache",
    "resolv.conf",
    "hosts",
    "host.conf",
    "nsswitch.conf",
    "gai.conf",
    "localtime",
)
# bubblewrap leaves files of /proc/sys writable that root's uid may write, whatever it dropped
_SEALED = ("--remount-ro", "/proc", "--remount-ro", "/")
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")


@dataclass(frozen=True)
class Plan:
    """What the engine's client finds: pairs of a path outside and one inside, and links."""

    read: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]

    def environment(self) -> dict[str, str]:
        """Return all that the client finds in its environment: nothing of ours."""
        kept = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        return kept | {
            "PATH": "/usr/bin:/bin",
            "HOME": KIT,
            "USER": "engine",
            "PYTHONPATH": os.pathsep.join([PACKAGE, *_libraries()]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
        }

    def check(self, private: Iterable[Path]) -> None:
        """Refuse a plan that shows what must stay hidden."""
        for path in private:
            for outside, _ in self.read:
                if path.resolve().is_relative_to(outside):
                    raise TacitError(
                        f"{path} lies within {outside}, which the engine needs: move one of them"
                    )


def outer_environment() -> dict[str, str]:
    """Return what a launcher finds in its environment: enough to start, and no secret."""
    names = ("PATH", "LD_LIBRARY_PATH", *_PASSED_ON)
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join([str(_OURS.parent), *_libraries()])}


def _libraries() -> list[str]:
    """Return where installed packages lie; other places that Python looks may hold anything."""
    return [p for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]


def _through_links(path: Path) -> tuple[list[tuple[str, str]], Path]:
    """Return a program's links, as (target, link), and what they lead to."""
    links = []
    while path.is_symlink():
        target = os.readlink(path)
        links.append((target, str(path)))
        path = Path(os.path.normpath(path.parent / target))
    return links, path


def make_plan() -> Plan:
    """Return what a client must see: the Python that runs here, and what that needs."""
    links, program = _through_links(Path(sys.executable))
    read = [(str(program.resolve()), str(program))]
    for name in _LIBRARIES:
        if os.path.islink(name):
            links.append((os.readlink(name), name))
        elif os.path.isdir(name):
            read.append((name, name))
    folders = [os.path.join(sys.base_prefix, "lib"), sysconfig.get_path("stdlib")]
    folders += [
        *_libraries(),
        str(Path(sys.prefix, "pyvenv.cfg")),
        *(f"/etc/{name}" for name in _SYSTEM),
    ]
    for folder in folders:
        shown = any(Path(folder).is_relative_to(inside) for _, inside in read)
        if os.path.exists(folder) and not shown:
            read.append((str(Path(folder).resolve()), folder))
    read.append((str(_OURS), f"{PACKAGE}/{_OURS.name}"))
    return Plan(tuple(read), tuple(links))


@dataclass(frozen=True)
class Isolation:
    """One way to make a sandbox.

    Attributes
    ----------
    name
        What to call it.
    wrap
        From a plan and descriptors that are inherited to the words before the command.
    """

    name: str
    wrap: Callable[[Plan, Sequence[int]], list[str]]


def _bubblewrap(*more: str) -> Callable[[Plan, Sequence[int]], list[str]]:
    def wrap(plan: Plan, keep: Sequence[int]) -> list[str]:
        words = [
            shutil.which("bwrap") or "bwrap",
            "--clearenv",
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--die-with-parent",
            "--new-session",
            "--as-pid-1",
            "--cap-drop",
            "ALL",
            "--uid",
            "1000",
            "--gid",
            "1000",
            *more,
            "--tmpfs",
            "/tmp",
            "--tmpfs",
            KIT,
            "--dev",
            "/dev",
            "--proc",
            "/proc",
        ]
        for outside, inside in plan.read:
            words += ["--ro-bind", outside, inside]
        for target, inside in plan.links:
            words += ["--symlink", target, inside]
        for name, value in plan.environment().items():
            words += ["--setenv", name, value]
        return [*words, *_SEALED, "--chdir", "/", "--"]

    return wrap


def _namespaces(plan: Plan, keep: Sequence[int]) -> list[str]:
    content = {
        "read": plan.read,
        "links": plan.links,
        "memory": [KIT],
        "keep": list(keep),
        "environment": plan.environment(),
    }
    module = "tacit.federation.engine.enclose"
    return [sys.executable, "-m", module, json.dumps(content), str(os.getpid())]


WAYS = (
    Isolation("bubblewrap", _bubblewrap("--disable-userns")),
    Isolation("namespaces", _namespaces),
    Isolation("bubblewrap without a limit on namespaces", _bubblewrap()),  # before its version 0.8
)

# What a sandbox must do to count: be alone, hide the canary, write its kit, not write Python.
_PROBE = """
import os, sys
canary, library = sys.argv[1:]
alone = os.getpid() == 1 and os.getppid() == 0
hidden = not os.path.exists(canary)
def writes(folder):
    try:
        open(folder + "/.tacit-probe", "w").close()
        os.remove(folder + "/.tacit-probe")
    except OSError:
        return False
    return True
sound = alone and hidden and writes("/kit") and not writes(library) and not writes("/app/tacit")
sys.exit(77 if sound else 1)
"""


def find_isolation(
    private: Path, ways: Sequence[Isolation] | None = None
) -> tuple[Isolation | None, dict[str, str]]:
    """Return the first way that works here, and why others before it did not.

    Parameters
    ----------
    private
        A folder that must not be seen; a file is made there and looked for from inside.
    ways
        What to try, the best first; all that are known unless given.
    """
    failed = {}
    plan = make_plan()
    with tempfile.NamedTemporaryFile(dir=private, prefix=".canary-") as canary:
        probe = [sys.executable, "-I", "-c", _PROBE, canary.name, sysconfig.get_path("stdlib")]
        for way in WAYS if ways is None else ways:
            try:
                done = subprocess.run(
                    [*way.wrap(plan, ()), *probe],
                    env=outer_environment(),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=60,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                failed[way.name] = str(error)
                continue
            if done.returncode == 77:
                return way, failed
            told = done.stderr.decode(errors="replace").strip().splitlines()
            failed[way.name] = told[-1] if told else f"exit status {done.returncode}"
    return None, failed
