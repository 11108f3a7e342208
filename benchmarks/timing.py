"""Timing for benchmarks: medians after a warm-up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def median_seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the median time of some runs, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def in_turns(works: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Return the median time of several works, run in turns: other load hits all alike."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(found) for name, found in times.items()}


def processor_seconds(work: Callable[[], object]) -> float:
    """Return what processor time one run takes in all threads of this process."""
    started = time.process_time()
    work()
    return time.process_time() - started
