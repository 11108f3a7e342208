"""Kernels where nothing can be kept: a read-only installation, no home, a damaged cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tacit
from tacit._core import kernels

PACKAGE = Path(tacit.__file__).parent

# A process that may write nowhere but in some folders, whoever runs it: root is refused as well.
READ_ONLY = """
import errno, os, sys
ALLOWED = tuple(os.path.realpath(p) + os.sep for p in sys.argv[1].split(os.pathsep) if p)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

def refuse(event, args):
    if event == "open":
        path, _, flags = args
        if isinstance(path, int) or not flags & WRITES:
            return
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir"):
        path = args[0]
    else:
        return
    path = os.path.realpath(os.fsdecode(path)) + os.sep
    if not path.startswith((*ALLOWED, "/dev/", "/proc/")):
        raise OSError(errno.EROFS, "Read-only file system", path)

sys.addaudithook(refuse)
"""


def in_a_read_only_process(
    code: str, allowed: Path | None = None, *arguments: str, **environment: str | None
) -> str:
    """Run code that may write nowhere but in one folder, without a home; return what it prints."""
    own = {"PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": None, **environment}
    env = {name: value for name, value in {**os.environ, **own}.items() if value is not None}
    ran = subprocess.run(
        [sys.executable, "-c", READ_ONLY + code, str(allowed or ""), *arguments],
        capture_output=True, text=True, check=False, env=env, timeout=600,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


SUM = """
import numpy as np
from tacit._core import kernels
out = np.zeros(2, np.int64)
kernels.sum_on_grid(np.ones((3, 2)), np.ones(3), 4.0, out)
print(out.tolist())
"""


@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": None, "XDG_CACHE_HOME": None},
        {"HOME": "/nonexistent"},
        {"NUMBA_CACHE_DIR": "/nonexistent/cache"},
        {"HOME": "~", "XDG_CACHE_HOME": None},
    ],
    ids=["no home", "a home that is not there", "a cache that cannot be kept", "no absolute home"],
)
def test_a_kernel_runs_where_nothing_can_be_written(environment: Any) -> None:
    assert in_a_read_only_process(SUM, **environment) == "[12, 12]\n"


def test_the_process_of_these_tests_really_cannot_write(tmp_path: Path) -> None:
    code = """
import tempfile
for folder in (sys.argv[2], sys.argv[3]):
    try:
        tempfile.TemporaryFile(dir=folder)
    except OSError as error:
        print(error.errno == errno.EROFS)
    else:
        print("written")
"""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    assert in_a_read_only_process(code, allowed, str(PACKAGE), str(allowed)) == "True\nwritten\n"


def twice(x: Any) -> Any:
    return x + x


@pytest.mark.parametrize("trouble", ["load_overload", "save_overload"])
def test_a_cache_that_fails_on_the_way_costs_time_only(
    trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from numba.core import caching

    def full(*given: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(caching.FunctionCache, trouble, full)
    kernels._compile.cache_clear()
    assert kernels.compiled(twice)(21.0) == 42.0


def test_a_damaged_cache_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels._compile.cache_clear()
    kernel: Any = kernels.compiled(twice)
    assert kernel(1.0) == 2.0
    kept = list(Path(kernel._cache.cache_path).glob("*twice*"))
    assert kept, "nothing was cached here: this test would show nothing"
    try:
        for file in kept:
            file.write_bytes(b"no cache at all")
        kernels._compile.cache_clear()
        assert kernels.compiled(twice)(np.float64(3.0)) == 6.0
    finally:
        for file in kept:
            file.unlink(missing_ok=True)


def test_a_cache_is_kept_where_it_can_be() -> None:
    kernels._compile.cache_clear()
    kernel: Any = kernels.compiled(kernels._square_norms, reassociate=True)
    kernel(0, 1, np.ones((1, 2)), np.zeros(1))
    assert sum(kernel.stats.cache_hits.values()) + sum(kernel.stats.cache_misses.values()) == 1
