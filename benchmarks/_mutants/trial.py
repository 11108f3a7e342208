"""Trying mistakes: each in a copy of the source, by two workers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks._mutants.mutant import ONE_THREAD, ROOT, SOURCE, Mutant
from benchmarks._mutants.worker import TIMEOUT, WARM

WORKERS = 2
CANNOT_START = "tests that cannot start"  # with the mistake; they can without


@dataclass(frozen=True)
class Trial:
    """What became of a mistake: the test (or what else) that caught it, or nothing.

    ``said`` is what pytest says where it cannot run the tests, with the mistake or without.
    """

    mutant: Mutant
    caught_by: str
    seconds: float
    tests: int
    said: str = ""


class Worker:
    """A process with a copy of the source of its own, and what was compiled of it.

    Parameters
    ----------
    folder
        Where the copy is made.
    home
        Where the tests are: their names begin there.
    warm
        What is imported once, before the first test.
    """

    def __init__(self, folder: Path, home: Path = ROOT, warm: Sequence[str] = WARM) -> None:
        self.source = folder / "src"
        shutil.copytree(SOURCE, self.source / "tacit")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._mutants.worker", str(self.source), *warm],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT),
                 "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a worker has died")
        found: dict[str, Any] = json.loads(line)
        return found

    def run(self, tests: Sequence[str], seconds: float, every: bool = False) -> dict[str, Any]:
        """Run tests on the copy as it is, until one fails or all of them."""
        assert self._process.stdin is not None
        job = {"tests": list(tests), "seconds": seconds, "all": every}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self._read()

    def try_out(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> Trial:
        """Plant a mistake, run tests, and take it out again."""
        path = self.source / "tacit" / mutant.file
        text, before = path.read_text(encoding="utf-8"), path.stat()

        def planted(seconds: float) -> dict[str, Any]:
            path.write_text(mutant.applied(text), encoding="utf-8")
            try:
                return self.run(tests, seconds)
            finally:
                path.write_text(text, encoding="utf-8")
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as it was compiled

        found = planted(seconds)
        caught_by, said = next(iter(found["failed"]), ""), ""
        if found["unusable"] or caught_by == TIMEOUT:
            sound = self.run(tests, 4.0 * seconds)
            if sound["unusable"] or sound["failed"]:
                caught_by, said = "", sound["said"] or TIMEOUT
            elif found["unusable"]:
                caught_by = CANNOT_START
            elif seconds < 3.0 * sound["seconds"]:  # is it the mistake that takes so long?
                found = planted(3.0 * sound["seconds"])
                caught_by = next(iter(found["failed"]), "")
        return Trial(mutant, caught_by, found["seconds"], len(tests), said)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@contextmanager
def workers(count: int = WORKERS) -> Iterator[list[Worker]]:
    """Start workers; end them."""
    with TemporaryDirectory() as folder:
        found = [Worker(Path(folder) / str(k)) for k in range(count)]
        try:
            yield found
        finally:
            for worker in found:
                worker.close()


def try_all(
    mutants: Sequence[Mutant],
    tests_for: Callable[[Mutant], Sequence[str]],
    seconds: float,
    note: Callable[[Trial], None],
) -> tuple[list[Trial], list[str]]:
    """Try mistakes, two at a time.

    Returns the trials, and those tests that caught something but fail without any mistake too, or
    cannot be run at all: they catch nothing.
    """
    trials: list[Trial] = []
    with workers() as found, ThreadPoolExecutor(len(found)) as pool:
        free: Queue[Worker] = Queue()
        for worker in found:
            free.put(worker)

        def one(mutant: Mutant) -> Trial:
            worker = free.get()
            try:
                return worker.try_out(mutant, tests_for(mutant), seconds)
            finally:
                free.put(worker)

        for trial in pool.map(one, mutants):
            note(trial)
            trials.append(trial)
        broken = _broken(found[0], sorted({t.caught_by for t in trials if ".py" in t.caught_by}))
    return trials, broken + [f"tests of {t.mutant.name} cannot run" for t in trials if t.said]


def _broken(worker: Worker, tests: list[str]) -> list[str]:
    """Return the tests that fail on the source as it is, or all where none can be run."""
    if not tests:
        return []
    found = worker.run(tests, 900.0, every=True)
    failed: list[str] = found["failed"]
    return tests if found["unusable"] else failed
