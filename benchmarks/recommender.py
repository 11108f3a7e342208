"""Recommenders: HDPMF epochs against a plain loop and Surprise, and one GD-DR round at full size.

**Epochs.** HDPMF on ratings of MovieLens 100K's shape, K = 10, 100 epochs, one thread, noise
included, against a plain-Python loop over ratings (one epoch, on a part) and Surprise's SVD (where
installed; 20 epochs, 10 factors, no biases) in the same run. **GD-DR.** One round over 140,000
users and 27,000 items, 20 million ratings, q = 2,700, d = 15: seconds and peak memory.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tacit as tc
from benchmarks.timing import in_turns
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.estimators.fit import Place, fit
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.published.hua2015_hu2023 import GradientFactorization
from tacit.published.hua2015_hu2023_epochs import gradient_epoch_reference, visits
from tacit.recommender.local.one_answer import LocalGradient
from tacit.recommender.method import Rated, Task

RANK = 10


def spread_cells(users: int, items: int, ratings: int, seed: int) -> ByMember:
    """Return ratings at random places, popular items more often, every user about as many."""
    rng = generator(seed, "cells")
    each = max(1, ratings // users)
    kept, counts = [], np.empty(users, np.int64)
    for i in range(users):
        drawn = np.unique((items * rng.random(each) ** 2).astype(np.int32))
        kept.append(drawn)
        counts[i] = len(drawn)
    starts = np.concatenate([[0], np.cumsum(counts)])
    values = rng.integers(1, 6, starts[-1]).astype(np.float64)
    return ByMember(starts.astype(np.int64), np.concatenate(kept), values)


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    epochs_bench(outcome, quick)
    one_round(outcome, quick)
    return outcome


def epochs_bench(outcome: Outcome, quick: bool) -> None:
    """Rating updates per second."""
    users, items = 943, 1682
    cells = spread_cells(users, items, 140_000, 0)
    epochs = 20 if quick else 100
    privacy = tc.Privacy(1.0, 1e-5, unit="entry", trust="aggregator")
    weights = tc.PrivacyWeights.drawn(users, items, generator(0, "weights"))
    task = Task(users, items, (1.0, 5.0), RANK, privacy, tuple(weights.items), weights.users)
    public = GradientFactorization("hdpmf", epochs=epochs).agree(task)
    rated = Rated(cells, weights.users)

    def ours() -> Any:
        return fit(public, [tc.Site("raters", None)], {"raters": rated}, Place("bench", seed=0))

    count = len(cells.values)
    peer = surprise_work(cells)
    times = in_turns({"ours": ours, **({} if peer is None else {"Surprise": peer[0]})}, 5)
    fast = count * epochs / times["ours"]
    part = slice(0, 5_000)
    rng = generator(0, "plain")
    u, v = 0.1 * rng.standard_normal((users, RANK)), 0.1 * rng.standard_normal((items, RANK))
    started = time.perf_counter()
    gradient_epoch_reference(
        visits(5_000, rng), cells.owners[part].astype(np.uint32),
        cells.items[part].astype(np.uint32), cells.values[part], np.zeros_like(v),
        0.005, 0.01, True, u, v,
    )  # fmt: skip
    slow = 5_000 / (time.perf_counter() - started)
    outcome.rows.append({"what": f"HDPMF, {count:,} ratings, K = {RANK}", "updates/s": fast})
    outcome.rows.append({"what": "plain loop over ratings (NumPy rows)", "updates/s": slow})
    outcome.check("HDPMF over a plain loop", fast / slow, "≥ 100", fast / slow >= 100)
    if peer is None:
        outcome.check("HDPMF over Surprise's SVD", "not installed", "≥ 3", False)
    else:
        speed = count * peer[1] / times["Surprise"]
        outcome.rows.append({"what": "Surprise SVD", "updates/s": speed})
        outcome.check("HDPMF over Surprise's SVD", fast / speed, "≥ 3", fast / speed >= 3)


def surprise_work(cells: ByMember) -> tuple[Callable[[], object], int] | None:
    """Return Surprise's training and its number of epochs, or None where it is not installed."""
    try:
        import pandas
        from surprise import SVD, Dataset, Reader
    except ImportError:
        return None
    frame = pandas.DataFrame({"user": cells.owners, "item": cells.items, "rating": cells.values})
    train = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()
    epochs = 20
    work = SVD(n_factors=RANK, n_epochs=epochs, biased=False, random_state=0)
    return lambda: work.fit(train), epochs


def forget_peak() -> None:
    """Let the largest memory of this process count from now on, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_gigabytes() -> float:
    """Return the largest memory of this process, ratings included."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(li for li in status.read_text().splitlines() if li.startswith("VmHWM"))
        return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def one_round(outcome: Outcome, quick: bool) -> None:
    """One GD-DR round."""
    users, items, ratings, q = (
        (14_000, 2_700, 1_000_000, 270) if quick else (140_000, 27_000, 24_000_000, 2_700)
    )
    cells = spread_cells(users, items, ratings, 1)
    privacy = tc.Privacy(1.0, unit="user", neighbours="replace-one", trust="local")
    task = Task(users, items, (1.0, 5.0), 15, privacy)
    public, rated = LocalGradient(1, dimensions=q).agree(task), Rated(cells, np.ones(users))
    forget_peak()  # of simulating the ratings
    started = time.perf_counter()
    found = fit(public, [tc.Site("raters", None)], {"raters": rated}, Place("bench", seed=0))
    found.holders["raters"].finish(found.result)
    seconds = time.perf_counter() - started
    peak = peak_gigabytes()
    outcome.rows.append({"what": f"GD-DR round, {users:,} × {items:,}, q = {q}, "
                         f"{len(cells.values):,} ratings", "seconds": seconds,
                         "peak GB": peak})  # fmt: skip
    outcome.check("GD-DR round, seconds", seconds, "< 60", seconds < 60)
    outcome.check("GD-DR round, peak memory in GB", peak, "< 4", peak < 4)
