"""Private linear regression: summaries against a bare BLAS product, and the samplers.

**Summaries.** Ten million rows × 20 features in memory, one thread: a site's whole summary (map
to public bounds, clip, round, exact sum of the outer products of 22 numbers) against ``X.T @ X``
on the same array, in turns, medians of five. Bar: at least half the speed of the bare product.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks._regression_samplers import samplers, whole_posteriors
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.regression.design import Design
from tacit.regression.rows import summarise

FEATURES = 20


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    summarise_rows(outcome, quick)
    whole_posteriors(outcome, quick)
    samplers(outcome, quick)
    return outcome


def summarise_rows(outcome: Outcome, quick: bool) -> None:
    """Compare a site's summary with the bare product."""
    rows = 1_000_000 if quick else 10_000_000
    rng = generator(0)
    x, y = rng.random((rows, FEATURES)), rng.random(rows)
    design = Design((0.5,) * (FEATURES + 1), (0.5,) * (FEATURES + 1))
    summarise((x[:10_000], y[:10_000]), design)  # compile

    def bare() -> Any:
        return x.T @ x

    def summary() -> Any:
        return summarise((x, y), design, checked=False)

    def checked() -> Any:
        return summarise((x, y), design)

    with threadpool_limits(1):
        seconds = in_turns({"bare": bare, "summary": summary, "checked": checked}, 5)
    for name, what in (("bare", "X.T @ X"), ("summary", "summary"),
                       ("checked", "summary, missing values refused")):  # fmt: skip
        outcome.rows.append({
            "what": f"{rows:,} × {FEATURES}: {what}", "threads": 1, "ms": seconds[name] * 1e3,
            "GB/s": x.nbytes / seconds[name] / 1e9,
        })  # fmt: skip
    ratio = seconds["bare"] / seconds["summary"]
    outcome.check("speed of a summary over bare BLAS, one thread", ratio, "≥ 0.5", ratio >= 0.5)


def in_turns(work: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each piece of work; they take turns, so that load is shared."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for repeat in range(repeats + 1):
        for name, piece in work.items():
            started = time.perf_counter()
            piece()
            if repeat:  # the first round warms up
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}
