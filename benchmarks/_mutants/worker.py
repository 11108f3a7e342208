"""A process that runs tests on a copy of the source, again and again.

It imports what tests need besides tacit once and forks for every run, so that a run costs the
tests and not the start. Reads jobs as JSON lines, answers with JSON lines:
``{"tests", "seconds"}`` → ``{"failed", "unusable", "seconds", "said"}``.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress

WARM = ("pytest", "numpy", "scipy.stats", "scipy.optimize", "scipy.special",
        "scipy.linalg", "numba", "sklearn.base", "dp_accounting", "dp_accounting.pld",
        "opendp.prelude", "cryptography.hazmat.primitives.ciphers.aead", "mpmath")  # fmt: skip
NO_TESTS, NOT_THE_COPY, BROKEN = 5, 98, 99  # exit statuses
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def main() -> None:
    """Serve until there are no more jobs."""
    source = sys.argv[1]
    for name in WARM:
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
        print(json.dumps(_run(job["tests"], job["seconds"], source)), flush=True)


def _run(tests: list[str], seconds: float, source: str) -> dict[str, object]:
    """Run tests until the first fails, or the time is over."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if child == 0:
            os.setsid()
            for number in (1, 2):
                os.dup2(out.fileno(), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os._exit(_pytest(tests, source))
        code = _wait(child, started + seconds)
        out.seek(0)
        said = out.read().decode(errors="replace")
    found = _FAILED.search(said)
    failed = "timeout" if code is None else (found[1] if found and code == 1 else "")
    if not failed and code is not None and code < 0:
        failed = f"signal {-code}"
    return {
        "failed": failed,
        "unusable": not failed and code not in (0, NO_TESTS),
        "seconds": time.monotonic() - started,
        "said": said[-2000:],
    }


def _pytest(tests: list[str], source: str) -> int:
    import pytest

    try:
        code = pytest.main(
            ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=line", *tests]
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
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main()
