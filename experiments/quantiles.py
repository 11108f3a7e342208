"""Quantiles of one holder at the same ε: `PrivateSummary` beside its alternatives.

Normal values (mean 50, standard deviation 10) in [0, 100] and lognormal ones (location 3, scale 1)
in [0, 1000]; one median under replace-one, where the number of rows is public, and nine deciles
under add-remove. Errors are root mean squares over data sets and quantiles, against the *sample's*
quantile: in ranks, the distance of q·n from the ranks that a value has, and in units. The methods:

- ``exponential``: Smith (2011) for the median and Kaplan et al. (2022) for the deciles, in the
  ten lines of floating point that textbooks have;
- ``histogram``: 32 equal cells with Laplace noise, cells below two standard deviations dropped,
  interpolated; no count is paid for;
- ``smooth``: smooth sensitivity at δ = 1e-6, clamped to the bounds (the median only: nine of them
  would share ε and δ);
- ``PrivateSummary`` with ``statistics=("quantiles",)``;
- the same beside count and mean (the task "beside"), where quantiles have a third of ε: the
  alternatives get the same third.

`ANCHORS` are figures of a plain exponential mechanism, measured elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tacit as tc
from experiments.runner import Outcome
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.smooth_quantile import SmoothQuantile

BINS, DELTA = 32, 1e-6
MEDIAN, DECILES = (0.5,), tuple(k / 10 for k in range(1, 10))
# as many as leave a doubt of about 2 % in a ratio; the quick form has one setting of each task
RUNS = {
    "median": {100: 4_000, 1_000: 4_000, 100_000: 1_500},
    "deciles": {100: 1_500, 1_000: 1_500, 100_000: 400},
    "beside": {100: 1_500, 1_000: 1_500, 100_000: 400},
}
QUICK = {"median": 2_500, "deciles": 600, "beside": 600}
SHARE = {"beside": 1 / 3}  # of ε, where other statistics are asked for: one part of three
ASKED = {"beside": ("count", "mean", "quantiles")}
RANGES = {"normal": (0.0, 100.0), "lognormal": (0.0, 1000.0)}
# RMSE in ranks of ten lines of the exponential mechanism, or of 32 cells where these are better
ANCHORS = {
    ("median", "normal", 100, 0.5): 8.7,
    ("median", "normal", 100, 1.0): 2.9,
    ("median", "normal", 1_000, 0.1): 27.0,
    ("median", "normal", 1_000, 1.0): 2.6,
    ("median", "normal", 100_000, 1.0): 2.7,
    ("median", "lognormal", 1_000, 1.0): 2.6,
    ("median", "lognormal", 100_000, 1.0): 2.7,
    ("deciles", "normal", 100, 1.0): 7.3,
    ("deciles", "normal", 100_000, 1.0): 7.7,
    ("deciles", "lognormal", 1_000, 0.1): 65.0,
    ("deciles", "lognormal", 1_000, 1.0): 7.4,
}


def values(kind: str, rows: int, rng: np.random.Generator) -> Any:
    """Return sorted values of one data set."""
    drawn = rng.normal(50, 10, rows) if kind == "normal" else rng.lognormal(3, 1, rows)
    return np.sort(np.clip(drawn, *RANGES[kind]))


def exponential(x: Any, low: float, high: float, target: float, rate: float, rng: Any) -> float:
    """Draw one quantile: a gap between values by its width and rank, then a place within."""
    edges = np.concatenate([[low], x, [high]])
    widths = np.diff(edges)
    with np.errstate(divide="ignore"):
        scores = np.log(widths) - rate * np.abs(np.arange(widths.size) - target)
    gap = int(np.argmax(scores + rng.gumbel(size=widths.size)))
    return float(edges[gap] + rng.uniform() * widths[gap])


def by_splits(
    x: Any, low: float, high: float, levels: Any, epsilon: float, rng: Any
) -> list[float]:
    """Draw many quantiles under add-remove: the middle one, then those on either side."""
    share = epsilon / len(levels).bit_length()

    def split(x: Any, low: float, high: float, levels: Any, a: float, b: float) -> list[float]:
        if not levels:
            return []
        k = len(levels) // 2
        q = (levels[k] - a) / (b - a)
        place = exponential(x, low, high, q * len(x), share / (2 * max(q, 1 - q)), rng)
        cut = int(np.searchsorted(x, place))
        return [
            *split(x[:cut], low, place, levels[:k], a, levels[k]),
            place,
            *split(x[cut:], place, high, levels[k + 1 :], levels[k], b),
        ]

    return split(x, low, high, levels, 0.0, 1.0)


def by_histogram(x: Any, low: float, high: float, levels: Any, scale: float, rng: Any) -> Any:
    """Read quantiles from equal cells with Laplace noise."""
    counts, edges = np.histogram(x, BINS, (low, high))
    noisy = counts + rng.laplace(0.0, scale, BINS)
    kept = np.where(noisy > 2 * math.sqrt(2) * scale, noisy, 0.0)
    kept = kept if kept.any() else np.ones(BINS)
    return np.interp(levels, np.r_[0.0, np.cumsum(kept)] / kept.sum(), edges)


def by_smooth(x: Any, bounds: tuple[float, float], epsilon: float, noise: Noise) -> Any:
    """Draw a median by smooth sensitivity, clamped to the bounds."""
    mechanism = SmoothQuantile(epsilon, DELTA, bounds, len(x), source="grid")
    return np.clip([mechanism.draw(x, noise)], *bounds)


def by_summary(
    x: Any,
    bounds: Any,
    levels: Any,
    epsilon: float,
    relation: str,
    seed: int,
    statistics: tuple[str, ...] = ("quantiles",),
) -> Any:
    """Fit `PrivateSummary`, for quantiles alone unless more is asked for."""
    model = tc.PrivateSummary(
        {"x": bounds},
        statistics=statistics,
        quantiles=levels,
        bins=BINS,
        privacy=tc.Privacy(epsilon, neighbours=relation),
        noise="grid",
        random_state=seed,
    )
    return model.fit({"x": x}).quantiles_["x"]


def errors(x: Any, levels: Any, found: Any) -> tuple[Any, Any]:
    """Return the errors in ranks and in units against the sample's quantiles."""
    target = np.array(levels) * len(x)
    below, upto = np.searchsorted(x, found, "left"), np.searchsorted(x, found, "right")
    ranks = np.maximum(0.0, np.maximum(below - target, target - upto))
    return ranks, np.asarray(found) - np.quantile(x, levels)


def methods(
    task: str, bounds: tuple[float, float], epsilon: float, rng: Any, noise: Noise
) -> dict[str, Callable[[Any, int], Any]]:
    """Return every method for one setting, as a function of the data and of the run's number."""
    if task == "median":
        return {
            "exponential": lambda x, _: [exponential(x, *bounds, len(x) / 2, epsilon / 2, rng)],
            "histogram": lambda x, _: by_histogram(x, *bounds, MEDIAN, 2 / epsilon, rng),
            "smooth": lambda x, _: by_smooth(x, bounds, epsilon, noise),
            "PrivateSummary": lambda x, k: by_summary(
                x, bounds, MEDIAN, epsilon, "replace-one", k
            ),
        }
    share, asked = epsilon * SHARE.get(task, 1.0), ASKED.get(task, ("quantiles",))
    return {
        "exponential": lambda x, _: by_splits(x, *bounds, DECILES, share, rng),
        "histogram": lambda x, _: by_histogram(x, *bounds, DECILES, 1 / share, rng),
        "PrivateSummary": lambda x, k: by_summary(
            x, bounds, DECILES, epsilon, "add-remove-one", k, asked
        ),
    }


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    for task, levels in (("median", MEDIAN), ("deciles", DECILES), ("beside", DECILES)):
        sizes = {100: QUICK[task]} if quick else RUNS[task]
        for kind, bounds in list(RANGES.items())[: 1 if quick else None]:
            for rows, runs in sizes.items():
                for epsilon in (1.0,) if quick else (0.1, 0.5, 1.0):
                    rng, noise = np.random.default_rng(rows), Noise("grid", seed=rows)
                    row = {"task": task, "values": kind, "n": rows, "ε": epsilon, "runs": runs}
                    squares: dict[str, list[Any]] = {}
                    for k in range(runs):
                        x = values(kind, rows, rng)
                        for name, method in methods(task, bounds, epsilon, rng, noise).items():
                            found = errors(x, levels, np.asarray(method(x, k)))
                            squares.setdefault(name, []).append([np.mean(e**2) for e in found])
                    for name, all_runs in squares.items():
                        ranks, units = np.sqrt(np.mean(all_runs, axis=0))
                        row[f"{name}, ranks"], row[f"{name}, units"] = float(ranks), float(units)
                    _judge(outcome, row, {k: _doubt(v) for k, v in squares.items()})
                    outcome.add(row)
    return outcome


def _doubt(all_runs: list[Any]) -> float:
    """Return the relative standard error of an RMSE in ranks."""
    squares = np.array(all_runs)[:, 0]
    return float(squares.std() / np.sqrt(len(squares)) / squares.mean() / 2)


def _judge(outcome: Outcome, row: dict[str, Any], doubts: dict[str, float]) -> None:
    """Compare one setting with the better alternative; the anchor stands beside it."""
    ours, other = (
        row["PrivateSummary, ranks"],
        min(("exponential", "histogram"), key=lambda name: row[f"{name}, ranks"]),
    )
    row["ratio"] = ours / row[f"{other}, ranks"]
    row["ratio ±"] = row["ratio"] * math.hypot(doubts["PrivateSummary"], doubts[other])
    row["anchor, ranks"] = ANCHORS.get((row["task"], row["values"], row["n"], row["ε"]))
    where = f"{row['task']}, {row['values']}, n = {row['n']}, ε = {row['ε']:g}"
    ratio = row["ratio"]
    outcome.check(f"{where}: over the better one", ratio, "at most 1.1", ratio <= 1.1)
