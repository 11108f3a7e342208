"""What the tests of the wall share: processes to look for, other users, probes in sandboxes."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tacit.federation.engine import isolation

NOBODY = 65534
ROOT = os.geteuid() == 0
SOURCE = Path(isolation.__file__).resolve().parents[3]


def processes_of(folder: Path) -> set[int]:
    """Return processes that name a folder: in words, in the environment, or in their mounts."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        told = b""
        for name in ("cmdline", "environ", "mountinfo"):
            try:
                told += (entry / name).read_bytes()
            except OSError:
                continue
        if str(folder).encode() in told and int(entry.name) != os.getpid():
            found.add(int(entry.name))
    return found


pause = threading.Event()


def until(condition, seconds: float = 60.0):
    """Return what a condition gives once it holds; fail where it does not in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not happen in time"
        pause.wait(0.02)
    return found


@functools.cache
def python_of_nobody() -> str | None:
    """Return an interpreter like ours that a user without rights may run, if there is one."""
    same = f"import sys; sys.exit(sys.version_info[:2] != {tuple(sys.version_info[:2])})"
    if not ROOT:
        return None
    for candidate in (sys.executable, shutil.which("python3", path="/usr/bin:/bin")):
        if candidate is None:
            continue
        try:
            done = subprocess.run(
                [candidate, "-c", same], user=NOBODY, group=NOBODY, extra_groups=[], check=False,
                capture_output=True, cwd="/",
            )  # fmt: skip
        except OSError:
            continue
        if done.returncode == 0:
            return candidate
    return None


@functools.cache
def works(way: isolation.Isolation) -> str | None:
    """Return why a way to isolate does not work here; None where it does."""
    folder = Path(__file__).parent if os.access(Path(__file__).parent, os.W_OK) else Path("/tmp")
    found, failed = isolation.find_isolation(folder, (way,))
    return None if found is not None else failed[way.name]


def need(way: isolation.Isolation) -> None:
    """Skip a test where a way to isolate does not work."""
    reason = works(way)
    if reason is not None:
        pytest.skip(f"{way.name} does not work on this machine: {reason}")


def way_named(name: str) -> isolation.Isolation:
    return next(way for way in isolation.WAYS if way.name == name)
