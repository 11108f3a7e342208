"""Coverage of 90 % intervals of summaries and regressions, privacy noise included.

For every ε and every number of rows, tables are simulated and go through `PrivateSummary` and
`PrivateLinearRegression` as they are by default, and every interval of `summary()` is compared
with the truth: the number of rows of the table for counts, the population's for everything else.

- **Columns** (`experiments._coverage_tables`): a bell, a long tail, an even column, small whole
  numbers; means, counts and three quantiles, with all the statistics of the default beside them.
  The number of rows is not known to anybody.
- **Regressions** on three features, coefficients drawn anew for every table.

Bars, for each statistic, shape, ε and n: at least 0.87 of the intervals hold the truth, and at
most 0.93 where intervals are not cut: where at most one in twenty ends at a bound, or, in a
regression, is about as wide as what was believed before any data, which the answer warns of.

Two kinds are too wide by nature, and are missed bars all the same:

- quantiles of whole numbers: the released quantile *is* the population's as soon as noise is less
  than the rows that share one value, and no interval that holds the released value misses;
- some quantiles of the long tail in a range five times as wide as it needs, where they are read
  from cells: two rows in three lie in one cell, nothing that was released says how, and the
  interval has to hold for all of the ways.

Of a thousand tables a coverage has a standard error of a hundredth, and one in a few hundred
settings lies three of them away. The bars are those of the first thousand tables ("first"); a
setting that misses one is simulated on to four thousand, which tell chance from a defect.

"Oracle" is the width relative to an interval without privacy for who knows the law. The quick form
has few tables, and allows for three standard errors.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import tacit as tc
from experiments._coverage_tables import FEATURES, RESPONSE, regression_rows, shapes
from experiments.runner import Outcome

LEAST, MOST = 0.87, 0.93
_CUT = 0.05  # of the intervals of a setting that counts as not cut
EPSILONS, SIZES, TABLES = (0.1, 1.0, 10.0), (100, 1_000, 10_000, 100_000), 1_000
MORE = 4 * TABLES  # where a bar is missed
DELTA = 1e-6
CHUNK = 50
QUICK = {"tables": 20, "sizes": (1_000,), "epsilons": (1.0,), "shapes": ("normal", "lognormal")}
OPTIONS = {
    "--processes": {"type": int, "default": 2, "help": "how many run at once"},
    "--only": {"default": "", "help": "summaries or regressions"},
    "--where": {"default": "", "help": "a part of a setting's name, as 'uniform, n = 1,000'"},
}

# name → (low, high, whether it is cut)
Found = dict[str, list[tuple[float, float, bool]]]


def of_summaries(shape: str, rows: int, epsilon: float, seeds: range) -> Found:
    """Return the intervals of count, mean and quantiles of so many tables."""
    column, found = shapes()[shape], {}
    for seed in seeds:
        x = column.draw(np.random.default_rng([seed, rows]), rows)
        model = tc.PrivateSummary(
            {"x": tc.number(*column.bounds, step=column.step)}, noise="grid",
            privacy=tc.Privacy(epsilon, DELTA), random_state=_seed(shape, rows, epsilon, seed),
        ).fit({"x": x})  # fmt: skip
        told = model.summary().table("statistics").columns
        for name, low, high in zip(told["statistic"], told["low"], told["high"], strict=True):
            least, most = (0.0, math.inf) if name == "count" else column.bounds
            cut = low <= least or high >= most
            found.setdefault(name, []).append((low, high, cut))
    return {
        name: found[name]
        for name in found
        if name in ("count", "mean") or name.startswith("quantile")
    }


def of_regressions(shape: str, rows: int, epsilon: float, seeds: range) -> Found:
    """Return the intervals of the coefficients of so many tables, less the truth."""
    found: Found = {}
    for seed in seeds:
        table, truth = regression_rows(seed, rows)
        model = tc.PrivateLinearRegression(
            bounds=FEATURES, target="y", y_bounds=RESPONSE, privacy=tc.Privacy(epsilon, DELTA),
            noise="grid", random_state=_seed(shape, rows, epsilon, seed),
        ).fit(table)  # fmt: skip
        answer = model.summary()
        told = answer.table("coefficients").columns
        hardly = [w.partition(":")[0] for w in answer.warnings if w.startswith("Hardly")]
        unknown = set(hardly[0].partition("about ")[2].split(", ")) if hardly else set()
        for name, low, high in zip(told["coefficient"], told["low"], told["high"], strict=True):
            ends = (low - truth[name], high - truth[name])
            found.setdefault(name, []).append((*ends, name in unknown))
    return found


def _seed(*setting: Any) -> int:
    """Return a seed of the noise that no other table has."""
    return zlib.crc32(repr(setting).encode())


def _work(task: tuple[str, str, int, float, range]) -> tuple[Any, Found]:
    kind, shape, rows, epsilon, seeds = task
    function = of_summaries if kind == "summary" else of_regressions
    return (kind, shape, rows, epsilon), function(shape, rows, epsilon, seeds)


def _tasks(quick: bool, only: str) -> Iterator[tuple[str, str, int, float, range]]:
    """Yield parts of the settings, the tables of one setting after another."""
    tables = range(QUICK["tables"] if quick else TABLES)
    kinds = [("regression", "")] if only == "regressions" else []
    names = QUICK["shapes"] if quick else list(shapes())
    if only != "regressions":
        kinds += [("summary", name) for name in names]
    if only == "":
        kinds += [("regression", "")]
    for kind, shape in kinds:
        for rows in QUICK["sizes"] if quick else SIZES:
            for epsilon in QUICK["epsilons"] if quick else EPSILONS:
                yield from _chunks((kind, shape, rows, epsilon), tables)


def _chunks(setting: Any, seeds: range) -> Iterator[tuple[str, str, int, float, range]]:
    """Yield the tables of a setting, some at a time."""
    for start in range(0, len(seeds), CHUNK):
        yield (*setting, seeds[start : start + CHUNK])


def _name(kind: str, shape: str, rows: int, epsilon: float) -> str:
    return ", ".join(filter(None, (kind, shape, f"n = {rows:,}", f"ε = {epsilon:g}")))


def run(quick: bool, processes: int = 2, only: str = "", where: str = "") -> Outcome:
    outcome, known = Outcome(), shapes()
    again: list[tuple[Any, Found]] = []
    tasks = [task for task in _tasks(quick, only) if where in _name(*task[:4])]
    for setting, found in _gathered(tasks, 1 if quick else processes):
        told = [_judged(setting, name, found[name], known, quick) for name in found]
        if quick or all(bar[-1] for _, bars in told for bar in bars):
            _record(outcome, told)
        else:
            again.append((setting, found))
    tasks = [task for setting, _ in again for task in _chunks(setting, range(TABLES, MORE))]
    first = dict(again)
    for setting, found in _gathered(tasks, processes):
        every = {name: first[setting][name] + found[name] for name in found}
        _record(outcome, [_judged(setting, name, every[name], known, quick) for name in every])
    return outcome


def _gathered(tasks: list[Any], processes: int) -> Iterator[tuple[Any, Found]]:
    """Yield every setting with all intervals that its tasks found."""
    gathered: dict[Any, Found] = {}
    last = {task[:4]: k for k, task in enumerate(tasks)}
    for k, (setting, found) in enumerate(_done(tasks, processes)):
        every = gathered.setdefault(setting, {})
        for name, intervals in found.items():
            every.setdefault(name, []).extend(intervals)
        if last[setting] == k:
            yield setting, gathered.pop(setting)


def _done(tasks: list[Any], processes: int) -> Iterator[tuple[Any, Found]]:
    """Yield what came of all tasks, in order."""
    if processes == 1:
        yield from map(_work, tasks)
        return
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        yield from pool.map(_work, tasks)


def _record(outcome: Outcome, told: list[tuple[dict[str, Any], list[Any]]]) -> None:
    """Take down the statistics of one setting."""
    for row, bars in told:
        outcome.add(row)
        for bar in bars:
            outcome.check(*bar)


def _judged(
    setting: Any, name: str, intervals: Any, known: Any, quick: bool
) -> tuple[dict[str, Any], list[tuple[str, float, str, bool]]]:
    """Return one statistic of one setting as a row, and its bars."""
    kind, shape, rows, epsilon = setting
    ends = np.array(intervals, float)
    truth = known[shape].truth(name, rows) if shape else 0.0
    inside = (ends[:, 0] <= truth) & (truth <= ends[:, 1])
    cover, width = inside.mean(), float(np.mean(ends[:, 1] - ends[:, 0]))
    cut = ends[:, 2].mean()
    oracle = known[shape].oracle(name, rows) if shape else None
    row: dict[str, Any] = {"of": kind, "shape": shape, "statistic": name, "n": rows, "ε": epsilon}
    row |= {
        "tables": len(ends),
        "coverage": float(cover),
        "±": math.sqrt(cover * (1.0 - cover) / len(ends)),
        "first": float(inside[:TABLES].mean()),
        "cut": float(cut),
        "width": width,
        "oracle": None if oracle is None else width / oracle,
    }
    where = ", ".join(filter(None, (kind, shape, name, f"n = {rows:,}", f"ε = {epsilon:g}")))
    few = 3.0 * math.sqrt(0.9 * 0.1 / len(ends)) if quick else 0.0  # of so few tables
    least, most = round(LEAST - few, 3), round(MOST + few, 3)
    cover = row["first"]
    bars = [(f"{where}: coverage", float(cover), f"≥ {least:g}", bool(cover >= least))]
    if cut <= _CUT:
        bars.append((f"{where}: coverage", float(cover), f"≤ {most:g}", bool(cover <= most)))
    return row, bars
