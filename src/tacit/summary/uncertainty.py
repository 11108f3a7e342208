"""How far every statistic of a summary may be off: standard errors and intervals.

**What is estimated.** Counts, sums, histograms and counts of categories are those of the table
itself, so that noise alone makes them uncertain. Means, variances, quantiles and shares are those
of the population that rows were sampled from: sampling and noise both count.

**Ratios** (Fieller 1954). A mean, a variance or a share is A/N with noise on both. For the true
value θ the number A − θ·N is 0 but for sampling and noise, whose law is known: all θ for which it
is not too far from 0 make up the interval, within the bounds. Nothing is linearised, so that it
holds where the count itself is mostly noise; then it is the whole range.

**Sampling.** Σ(t − θ)² is estimated by released sums, Σt² − 2θΣt + θ²N, and is uncertain itself;
Student's law with as many degrees of freedom as make up for that (Satterthwaite) widens the
interval. Rows of one person may depend on one another in any way: the variance of a sum over
people with at most k rows is at most k times that over independent rows, and k times is taken.

Variances need fourth moments. A histogram gives them; without one, the largest that is possible,
(1 + |mean|)²·variance, is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from tacit._core.answers import LEVEL
from tacit._core.arrays import Array
from tacit._core.noise_sums import reach
from tacit.summary.block import Block, Law
from tacit.summary.cells import cell_quantiles
from tacit.summary.layout import W0, W1, W2, W3, Layout

__all__ = [
    "Estimate",
    "cell_estimates",
    "count_estimate",
    "estimates",
    "noise_sd",
    "share_estimates",
    "standard_errors",
]

_ONE_SD = 0.6826894921370859  # the probability of one standard deviation of a normal law
_FREEDOM = 12.0  # degrees of freedom that are believed at least: fewer say more than is known
_TAILS = 3.0  # (kurtosis − 1) of a column that sampling variances are told with


class Estimate(NamedTuple):
    """A number with what it leaves open.

    Attributes
    ----------
    value, error
        The number and its standard error; None where what was released does not tell.
    low, high
        The interval.
    noise
        The share of its variance that is privacy noise.
    """

    value: float
    error: float | None
    low: float | None
    high: float | None
    noise: float | None

    def scaled(self, middle: float, half: float) -> Estimate:
        """Return it in other units."""
        assert self.error is not None and self.low is not None and self.high is not None
        ends = (middle + half * self.low, middle + half * self.high)
        return Estimate(middle + half * self.value, half * self.error, *ends, self.noise)


def count_estimate(block: Block, level: float) -> Estimate:
    """Return the number of rows of the table itself."""
    assert block.count is not None
    error, far = block.law.sd * block.count_weight, block.law.reach(level, [block.count_weight])
    return _of_table(block.count, max(0.0, block.count), error, far)


def cell_estimates(block: Block, level: float, cells: Array) -> list[Estimate]:
    """Return counts of cells or of a category's values, in the table itself.

    Before those below 0 are raised, all are moved alike so that they add up to the count.
    """
    error, far = _cell_error(block, len(cells), level)
    moved = 0.0 if block.count is None else (block.count - float(cells.sum())) / len(cells)
    return [
        _of_table(float(found), float(value), error, far)
        for found, value in zip(cells + moved, block.shown(cells), strict=True)
    ]


def _cell_error(block: Block, cells: int, level: float) -> tuple[float, float]:
    """Return the standard error of a cell that adds up with the others, and its reach."""
    own, others = 1.0 / W3, 0.0
    if block.count is not None:  # 1 − 1/k of its own noise, 1/k of the others' and of the count's
        own *= 1.0 - 1.0 / cells
        others = ((cells - 1) / W3**2 + block.count_weight**2) / cells**2
    rest = block.law.variance([math.sqrt(others)])
    error = math.sqrt(block.law.variance([own]) + rest)
    return error, block.law.reach(level, [own], rest)


def share_estimates(block: Block, level: float, cells: Array) -> list[Estimate]:
    """Return shares of a category's values in the population."""
    if block.count is None:
        return [Estimate(float(v), None, None, None, None) for v in _shares(block.shown(cells))]
    found = []
    for cell, share in zip(cells, _shares(block.shown(cells)), strict=True):
        sampling = _dependence(block) * block.size * share * (1.0 - share)
        ratio = _Ratio(float(cell), (1.0 / W3,), 0.0, sampling)
        found.append(ratio.estimate(block, level, float(share), 0.0, 1.0))
    return found


def estimates(block: Block, level: float) -> Iterator[tuple[str, str, Estimate]]:
    """Yield (column, statistic, estimate) of everything that is asked of columns of numbers."""
    layout, wanted = block.layout, block.layout.statistics
    for c, (name, low, high) in enumerate(layout.bounds):
        middle, half = float(layout.middle[c]), float(layout.half[c])
        if "sum" in wanted:
            yield name, "sum", _sum(block, c, level)
        if "mean" in wanted:
            yield name, "mean", _mean(block, c, level).scaled(middle, half)
        if "variance" in wanted:
            variance = _variance(block, c, level).scaled(0.0, half**2)
            yield name, "variance", variance
            yield name, "standard deviation", _root(variance)
        if "quantiles" in wanted:
            ranks = block.ranks_of(c)
            found = dict(zip(ranks.levels, _quantiles(block, c, level, (low, high)), strict=True))
            for q in layout.levels:
                yield name, f"quantile {q:g}", found[q]


def standard_errors(block: Block) -> dict[str, Any]:
    """Return the standard errors of one group's statistics, under their names."""
    layout = block.layout
    found: dict[str, Any] = {}
    for name, statistic, one in estimates(block, LEVEL):
        error = math.nan if one.error is None else one.error
        if statistic.startswith("quantile"):
            found.setdefault("quantiles", {}).setdefault(name, []).append(error)
        elif statistic in layout.statistics:
            found.setdefault(statistic, {})[name] = error
    if "quantiles" in found:
        found["quantiles"] = {name: np.array(each) for name, each in found["quantiles"].items()}
    if "histogram" in layout.statistics:
        error, _ = _cell_error(block, layout.bins, LEVEL)
        found["histogram"] = {name: np.full(layout.bins, error) for name in layout.columns}
    if layout.categories:
        found["counts"] = {
            name: np.full(size, _cell_error(block, size, LEVEL)[0])
            for name, size in layout.categories
        }
    if "count" in layout.statistics:
        found["count"] = block.law.sd * block.count_weight
    return found


def noise_sd(layout: Layout, law: Law) -> dict[str, Any]:
    """Return the standard deviation of the noise on each number, by column."""
    found: dict[str, Any] = {}
    for c, name in enumerate(layout.columns):
        found[name], half = {}, layout.half[c]
        if layout.moments:
            found[name]["sum"] = float(half * law.sd / W1)
        if layout.squared:
            found[name]["squares"] = float(half**2 * law.sd / W2)
        if layout.cells:
            found[name]["cell"] = law.sd / W3
    found |= {name: {"cell": law.sd / W3} for name, _ in layout.categories}
    if layout.counted or layout.counting:
        found["count"] = 0.0 if layout.counted else law.sd / W0  # the name of no column's entry
    return found


def _of_table(found: float, value: float, error: float, far: float) -> Estimate:
    """Return a count of the table itself, which is not negative."""
    low, high = max(0.0, found - far), max(0.0, found) + far
    return Estimate(value, error, min(low, value), max(high, value), _noisy(error))


def _noisy(error: float) -> float:
    """Return the share of noise in what has no other error."""
    return 1.0 if error > 0.0 else 0.0


def _sum(block: Block, c: int, level: float) -> Estimate:
    """Return the sum over the table itself: half·Σt + middle·N."""
    middle, half = float(block.layout.middle[c]), float(block.layout.half[c])
    weights = [half / W1, middle * block.count_weight]
    value = half * block.moment(c) + middle * (block.count or 0.0)
    error, far = math.sqrt(block.law.variance(weights)), block.law.reach(level, weights)
    return Estimate(value, error, value - far, value + far, _noisy(error))


class _Ratio(NamedTuple):
    """A/N, of which A − θ·N has a known law.

    Attributes
    ----------
    top
        A, as released.
    weights
        Of the noise on the numbers in A other than the count.
    counted
        How often the count is in A.
    sampling
        The variance of A − θ·N by sampling.
    doubt
        The variance of the estimate of that.
    """

    top: float
    weights: tuple[float, ...]
    counted: float
    sampling: float
    doubt: float = 0.0

    def estimate(
        self, block: Block, level: float, value: float, low: float, high: float
    ) -> Estimate:
        """Return the ratio with its error and interval within bounds."""
        count, per_count = block.count or 0.0, block.count_weight
        fixed = self.sampling + block.law.variance(self.weights)
        moving = block.law.variance([per_count])  # times (counted − θ)²
        weights = (*self.weights, (self.counted - value) * per_count)
        noise = block.law.variance(weights)
        sd = math.sqrt(self.sampling + noise)
        error = min(sd / block.size, high - low)
        if sd == 0.0:
            return Estimate(value, 0.0, value, value, 0.0)
        far = block.law.reach(level, weights, self.sampling) / sd * self._wider(level, sd)
        a = count**2 - far**2 * moving
        if count <= 0.0 or a <= 0.0:  # no count is excluded, and neither is any ratio
            return Estimate(value, error, low, high, noise / sd**2)
        b = self.top * count - far**2 * moving * self.counted
        c = self.top**2 - far**2 * (fixed + moving * self.counted**2)
        root = math.sqrt(max(0.0, b * b - a * c))
        ends = ((b - root) / a, (b + root) / a)
        if ends[1] < low or ends[0] > high:  # all beyond a bound: what is nearest to it
            ends = (value - far * error, value + far * error)
        inside = (min(max(ends[0], low), value), max(min(ends[1], high), value))
        return Estimate(value, error, *inside, noise / sd**2)

    def _wider(self, level: float, sd: float) -> float:
        """Return how much wider Student's law is than the normal one."""
        if self.doubt <= 0.0:
            return 1.0
        from scipy.special import stdtrit

        freedom = max(_FREEDOM, 2.0 * sd**4 / self.doubt)
        return float(stdtrit(freedom, 0.5 + level / 2.0)) / reach(level, 1.0)


def _mean(block: Block, c: int, level: float) -> Estimate:
    """Return the mean of scaled values."""
    mean, (squares, noise) = block.mean(c), _squares(block, c)
    ratio = _Ratio(
        block.moment(c),
        (1.0 / W1,),
        0.0,
        _dependence(block) * squares,
        _dependence(block) ** 2 * (noise + _TAILS * squares**2 / block.size),
    )
    return ratio.estimate(block, level, mean, -1.0, 1.0)


def _squares(block: Block, c: int) -> tuple[float, float]:
    """Return Σ(t − mean)² and the variance of its noise."""
    mean, (weight, taken) = block.mean(c), block.layout.squares
    found = block.square(c) - 2.0 * mean * block.moment(c) + mean**2 * (block.count or 0.0)
    most = block.size * (1.0 - mean**2)
    weights = [1.0 / weight, 2.0 * mean / W1, (taken + mean**2) * block.count_weight]
    return min(max(found, 0.0), most), block.law.variance(weights)


def _variance(block: Block, c: int, level: float) -> Estimate:
    """Return the variance of scaled values: the mean of (t − mean)²."""
    mean, variance, (weight, taken) = block.mean(c), block.variance(c), block.layout.squares
    fourth = (1.0 + abs(mean)) ** 2 * variance
    if block.layout.cells:
        middles = (np.arange(block.layout.cells) + 0.5) / block.layout.cells * 2.0 - 1.0
        shares = _shares(block.shown(block.cells(c)))
        fourth = min(fourth, float(shares @ (middles - mean) ** 4))
    sampling = _dependence(block) * block.size * max(fourth - variance**2, 0.0)
    top = block.square(c) - 2.0 * mean * block.moment(c) + mean**2 * (block.count or 0.0)
    ratio = _Ratio(top, (1.0 / weight, 2.0 * mean / W1), taken + mean**2, sampling)
    return ratio.estimate(block, level, variance, 0.0, 1.0)


def _root(variance: Estimate) -> Estimate:
    """Return a standard deviation from a variance."""
    low, high = math.sqrt(variance.low or 0.0), math.sqrt(variance.high or 0.0)
    value = math.sqrt(variance.value)
    error = (variance.error or 0.0) / (2.0 * value) if value > 0.0 else high
    return Estimate(value, min(error, high), low, high, variance.noise)


def _quantiles(block: Block, c: int, level: float, bounds: tuple[float, float]) -> list[Estimate]:
    """Return quantiles; without a number of rows or a second quantile, without errors."""
    ranks, beside = block.ranks_of(c), (np.empty(0), np.empty(0))
    step = block.layout.grid_of(c)
    values = ranks.rounded(bounds, step)
    if len(ranks.levels) == 1 and block.layout.cells:  # a histogram says what lies on either side
        q = float(ranks.levels[0])
        flanks = (q / 2.0, (1.0 + q) / 2.0)
        cells = np.maximum(block.cells(c), 0.0)
        read = cell_quantiles(cells, block.edges(c), flanks, block.law.sd / W3)
        value = float(ranks.values[0])
        beside = (np.array(flanks), np.array([min(read[0], value), max(read[1], value)]))
    if not ranks.tells(block.count, len(beside[0])):
        return [Estimate(float(value), None, None, None, None) for value in values]
    rows = (float(ranks.counts.sum()), math.inf)
    if block.count is not None:
        rows = (block.count, block.law.variance([block.count_weight]))
    more = (rows, _dependence(block), bounds, beside)
    ends, noise = ranks.intervals(level, *more, step)
    near, _ = ranks.intervals(_ONE_SD, *more)  # as if there were values between
    return [
        Estimate(float(value), float(b - a) / 2.0, float(start), float(end), float(share))
        for value, (a, b), (start, end), share in zip(values, near, ends, noise, strict=True)
    ]


def _dependence(block: Block) -> float:
    """Return by how much rows of one person multiply the sampling variance at most."""
    return float(block.layout.rows_per_unit)


def _shares(cells: Array) -> Array:
    """Return shares of counts that are not negative."""
    whole = float(cells.sum())
    return cells / whole if whole > 0.0 else np.full(len(cells), 1.0 / len(cells))
