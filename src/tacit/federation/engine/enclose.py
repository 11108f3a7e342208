"""Runs a command as the first process of a sandbox made of namespaces.

What bubblewrap does, with the kernel's own calls, for machines that lack it. The new root is a
memory file system that holds what the plan lists and nothing else.

``python -m tacit.federation.engine.enclose PLAN PARENT COMMAND …``, where PLAN is JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from tacit.federation.engine import linux

__all__ = ["enclose"]

USER = 1000  # what the caller is called inside
_DEVICES = ("null", "zero", "full", "random", "urandom")


def enclose(plan: Mapping[str, Any], parent: int, command: Sequence[str]) -> int:
    """Run a command within a plan; return its exit status.

    Parameters
    ----------
    plan
        ``read``: pairs of a path outside and one inside; ``links``: pairs of a target and a path
        inside; ``memory``: folders to write in, which are forgotten in the end; ``keep``:
        descriptors that the command inherits; ``environment``: all that it finds there.
    parent
        The process whose end ends this one.
    command
        What to run; a path inside.
    """
    if os.geteuid() == 0:
        os.setgroups([])
    spaces = linux.NEW_MOUNTS | linux.NEW_PID | linux.NEW_IPC | linux.NEW_UTS | linux.NEW_CGROUP
    linux.enter_user_namespace(spaces, user=USER, group=USER)
    linux.die_with_parent(signal.SIGKILL, parent)  # a change of credentials would have unset it
    ours = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            linux.die_with_parent(signal.SIGKILL, ours)
            _furnish(plan)
            linux.drop_capabilities()
            linux.forgo_privileges()
            os.execve(command[0], list(command), plan["environment"])
        except OSError as error:
            print(f"sandbox: {error}", file=sys.stderr)
        os._exit(125)
    for descriptor in plan["keep"]:
        os.close(descriptor)  # or the other side would not notice the command's end

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGINT, pass_on)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _furnish(plan: Mapping[str, Any]) -> None:
    """Make the plan's root ours. In between, ``/old`` is what was there before."""
    linux.mount("none", "/", flags=linux.RECURSIVE | linux.PRIVATE)
    linux.mount("tmpfs", "/tmp", "tmpfs", linux.NO_SUID | linux.NO_DEVICES, "mode=0755")
    os.chdir("/tmp")
    os.mkdir("new", 0o755)
    os.mkdir("old", 0o755)
    linux.mount("new", "new", flags=linux.BIND | linux.RECURSIVE)
    linux.pivot_root(".", "old")
    os.chdir("/")
    _make_own("/new", plan["memory"])
    for outside, inside in plan["read"]:
        linux.protect_mount(_bind(outside, inside))
    for target, inside in plan["links"]:
        os.makedirs(os.path.dirname("/new" + inside), exist_ok=True)
        if not os.path.lexists("/new" + inside):
            os.symlink(target, "/new" + inside)
    linux.unmount("/old")
    os.chdir("/new")
    linux.pivot_root(".", ".")
    linux.unmount(".")
    os.chdir("/")
    linux.protect_mount("/", recursive=False)


def _bind(outside: str, inside: str) -> str:
    source, target = "/old" + outside, "/new" + inside
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        open(target, "a").close()
    linux.mount(source, target, flags=linux.BIND | linux.RECURSIVE)
    return target


def _make_own(root: str, memory: Sequence[str]) -> None:
    """Make a private /tmp, /dev, /proc and what else is to be written."""
    quiet = linux.NO_SUID | linux.NO_DEVICES | linux.NO_EXECUTION
    for name in ("dev", "proc"):
        os.mkdir(f"{root}/{name}", 0o755)
    for name in ("/tmp", "/dev/shm", *memory):
        os.mkdir(root + name)
        linux.mount("tmpfs", root + name, "tmpfs", quiet, "mode=0700")
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"/dev/{name}")
    linux.mount("proc", f"{root}/proc", "proc", quiet)
    with (  # no namespaces within: they open more of the kernel
        contextlib.suppress(OSError),
        open(f"{root}/proc/sys/user/max_user_namespaces", "w") as limit,
    ):
        limit.write("0")
    linux.protect_mount(f"{root}/proc")  # root's uid could write the kernel's settings


if __name__ == "__main__":
    sys.exit(enclose(json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
