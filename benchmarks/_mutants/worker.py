"""A process that runs tests on a copy of the source, again and again.

It imports what tests need besides tacit once and forks for every run, so that a run costs the
tests and not the start. Reads jobs as JSON lines, answers with JSON lines:
``{"tests", "seconds", "all"}`` → ``{"failed", "unusable", "seconds", "said"}``. ``failed`` has the
tests that failed as pytest itself names them, the first alone unless ``all`` are asked for: a name
that is read from what pytest prints ends at its first blank.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress

WARM = ("pytest", "numpy", "scipy.stats", "scipy.optimize", "scipy.special",
        "scipy.linalg", "numba", "sklearn.base", "dp_accounting", "dp_accounting.pld",
        "opendp.prelude", "cryptography.hazmat.primitives.ciphers.aead", "mpmath",
        "hypothesis.strategies", "hypothesis.extra.numpy")  # fmt: skip
TIMEOUT = "timeout"
QUIET = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")  # hypothesis
NOT_SELECTED, NO_TESTS, NOT_THE_COPY, BROKEN = 4, 5, 98, 99  # exit statuses


class Watch:
    """What pytest calls: writes the names of what fails, one JSON line each, as it fails."""

    def __init__(self, number: int) -> None:
        self._file = number

    def pytest_runtest_logreport(self, report) -> None:
        """Take down a test that failed."""
        if report.failed:
            os.write(self._file, json.dumps(report.nodeid).encode() + b"\n")

    pytest_collectreport = pytest_runtest_logreport  # a file that cannot be read


def main() -> None:
    """Serve until there are no more jobs."""
    source, *warm = sys.argv[1:]
    for name in warm:
        with suppress(ImportError):
            importlib.import_module(name)
    if "tacit" in sys.modules:
        raise SystemExit("tacit was imported before the copy was in place")
    sys.path.insert(0, source)
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.getcwd()])
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(_run(job["tests"], job["seconds"], job["all"], source)), flush=True)


def _run(tests: list[str], seconds: float, every: bool, source: str) -> dict[str, object]:
    """Run tests until the first fails (or all of them), or the time is over."""
    started = time.monotonic()
    code, failed, said = _forked(tests, started + seconds, every, source)
    if code == NOT_SELECTED:  # a name that is not there any more: the files that they stand in
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        code, failed, said = _forked(files, started + seconds, every, source)
    if code is None:
        failed = [*failed, TIMEOUT] if every else failed or [TIMEOUT]
    elif code < 0:
        failed = failed or [f"signal {-code}"]
    elif code in (NOT_SELECTED, NOT_THE_COPY, BROKEN):
        failed = []
    return {
        "failed": failed,
        "unusable": not failed and code not in (0, NO_TESTS),
        "seconds": time.monotonic() - started,
        "said": said[-2000:],
    }


def _forked(
    tests: list[str], until: float, every: bool, source: str
) -> tuple[int | None, list[str], str]:
    """Return the exit status (None: it took too long), what failed, and what was said."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as names:
        child = os.fork()
        if child == 0:
            os.setsid()
            for number in (1, 2):
                os.dup2(out.fileno(), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os._exit(_pytest(tests, every, Watch(names.fileno()), source))
        code = _wait(child, until)
        out.seek(0)
        names.seek(0)
        failed = [json.loads(line) for line in names.read().splitlines()]
        return code, list(dict.fromkeys(failed)), out.read().decode(errors="replace")


def _pytest(tests: list[str], every: bool, watch: Watch, source: str) -> int:
    import pytest

    try:
        until = "--continue-on-collection-errors" if every else "-x"
        code = pytest.main(
            [until, "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=line", *QUIET, *tests],
            plugins=[watch],
        )
        found = getattr(sys.modules.get("tacit"), "__file__", source)
        if not found.startswith(source):
            print(f"{found} was tested")
            return NOT_THE_COPY
        if code == pytest.ExitCode.INTERRUPTED:  # a file that cannot be collected
            code = pytest.ExitCode.TESTS_FAILED
        return int(code)
    except BaseException:
        traceback.print_exc()
        return BROKEN
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _wait(child: int, until: float) -> int | None:
    """Return a child's exit status; None where it had to be ended."""
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    for end in (os.killpg, os.kill):  # a child that is just starting has no group of its own yet
        with suppress(ProcessLookupError):
            end(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main()
