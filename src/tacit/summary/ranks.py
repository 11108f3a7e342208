"""How a column's quantiles were found, and how far they may be off.

A quantile q of n rows is off for two reasons. The sample's own quantile lies at another level of
the population: the number of rows below the population's quantile is binomial, and normal with
variance n·q·(1 − q) for all that matters here. And the release is not the sample's quantile:

- *Splits* draw a value with a probability ∝ exp(−r·|its rank − the target|), so that its rank is
  off by a Laplace law of scale 1/r; what is split later inherits a share of that
  (`Quantiles.rank_scales`).
- *Cells* have noise each, whose sum up to a value v is that of its rank.

**From ranks to values.** Around a quantile that was split, ranks are turned into values along the
curve through all released quantiles, on scales on which it is nearly straight for most shapes:
the logit of the level across, the logit of the place in the range upwards. Cells say themselves
how many rows lie up to their edges; within a cell the density is taken to be a line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.noise_sums import reach, spread

__all__ = ["Ranks"]

_PARTS = 8  # of a cell, between which ranks are looked at
_LEAST = 2.0**-32  # share of the range that a place is kept away from its ends


_NOTHING = np.empty(0)


@dataclass(frozen=True)
class Ranks:
    """Quantiles of one column, and what is public or released about their errors.

    Attributes
    ----------
    levels, values, resolution
        One of each per quantile, in ascending order.
    scales
        Of splits: b of the Laplace errors in ranks, (quantiles, draws).
    counts, edges, variance
        Of cells: their released counts, their edges, and the variance of the noise on each count.
    """

    levels: Array
    values: Array
    resolution: Array
    scales: Array = field(default_factory=lambda: _NOTHING)
    counts: Array = field(default_factory=lambda: _NOTHING)
    edges: Array = field(default_factory=lambda: _NOTHING)
    variance: float = 0.0

    def tells(self, rows: float | None, beside: int = 0) -> bool:
        """Whether what was released says how far the quantiles may be off.

        Parameters
        ----------
        rows
            The number of rows, as released; None where it was not.
        beside
            How many quantiles are known besides.
        """
        return bool(self.counts.size) or (rows is not None and len(self.values) + beside > 1)

    def intervals(
        self,
        level: float,
        rows: tuple[float, float],
        dependence: float,
        bounds: tuple[float, float],
        beside: tuple[Array, Array] = (_NOTHING, _NOTHING),
        step: float = 0.0,
    ) -> tuple[Array, Array]:
        """Return (quantiles, 2) intervals, and the share of the noise in each one's variance.

        Parameters
        ----------
        level
            Their probability.
        rows
            How many rows there are, and the variance of that number.
        dependence
            By how much rows that are not independent multiply the sampling variance at most.
        bounds
            The range of the column.
        beside
            Levels and values of further quantiles, to draw the curve by.
        step
            How far apart the values of the column are; 0 where that is not known.
        """
        low, high = bounds[0] - step / 2.0, bounds[1] + step / 2.0
        n = max(rows[0], 1.0)
        found, shares = [], []
        curve = None
        if not self.counts.size:
            levels = np.concatenate([self.levels, beside[0]])
            curve = _Curve.through(levels, np.concatenate([self.values, beside[1]]), low, high)
        for k, q in enumerate(self.levels):
            sampling = dependence * n * q * (1.0 - q)
            if curve is None:
                part, noise = self._within_cells(float(q), level, sampling, rows)
            else:
                off = reach(level, sampling, self.scales[k]) / n
                part = (curve.at(q - off), curve.at(q + off))
                noise = spread(0.0, self.scales[k]) ** 2
            value = float(np.clip(self.values[k], low, high))
            found.append((min(max(part[0], low), value), max(min(part[1], high), value)))
            shares.append(noise / (noise + sampling))
        ends = np.array(found)
        return self._on_grid(ends, bounds, step) if step else ends, np.array(shares)

    def rounded(self, bounds: tuple[float, float], step: float) -> Array:
        """Return the quantiles, of values that are so far apart.

        Parameters
        ----------
        bounds, step
            As in `intervals`.
        """
        return _nearest(self.values, bounds, step) if step else self.values

    def _on_grid(self, ends: Array, bounds: tuple[float, float], step: float) -> Array:
        """Return intervals that end at values.

        A quantile that was split lies within half a step of a value, as every value was spread
        over its step. Of a cell nobody knows where in it the rows lie: all its values count.
        """
        if self.counts.size:
            last = len(self.edges) - 1
            first = np.searchsorted(self.edges, ends[:, 0], side="right") - 1
            after = np.searchsorted(self.edges, ends[:, 1], side="left")
            low = self.edges[np.clip(first, 0, last)]
            high = self.edges[np.clip(after, 0, last)]
            slack = 1e-9 * step  # an edge may be a value
            inner = np.column_stack(
                [
                    bounds[0] + step * np.ceil((low - bounds[0] - slack) / step),
                    bounds[0] + step * np.floor((high - bounds[0] + slack) / step),
                ]
            )
            value = self.rounded(bounds, step)
            return np.column_stack(
                [np.minimum(inner[:, 0], value), np.maximum(inner[:, 1], value)]
            )
        return _nearest(ends, bounds, step)

    def _within_cells(
        self, q: float, level: float, sampling: float, rows: tuple[float, float]
    ) -> tuple[tuple[float, float], float]:
        """Return the values at which the noisy ranks do not contradict a quantile.

        The surplus of rows up to a value v is (1 − q)·A − q·U, with A rows up to v and U beyond.
        What the number of rows says about A + U moves both, in proportion to their variances.

        The noise of ranks is a walk along the cells, which may contradict a value and not the
        next: where it is more than the rows of a cell, the walk passes a bound again and again,
        and an interval that ends at the last value with too few rows, or the first with too many,
        has tried many values at once (82 of 100 held where 90 were told). The surplus itself
        never falls. So the nearest curve that does not is looked at instead (isotonic
        regression, by the precision at each place), which passes each bound once.
        """
        places, rank = self._finer()
        upto = np.linspace(0.0, self.variance * len(self.counts), places.size)
        beyond = upto[-1] - upto
        surplus, noise = rank - q * rank[-1], upto * (1.0 - q) ** 2 + beyond * q**2
        known = upto[-1] + rows[1]
        if 0.0 < known < math.inf:
            share = (1.0 - q) * upto - q * beyond
            surplus = surplus + share / known * (rows[0] - rank[-1])
            noise = noise - share**2 / known
        far = reach(level, 1.0) * np.sqrt(np.maximum(noise, 0.0) + sampling)
        surplus = _rising(surplus, noise + sampling)
        few, many = np.flatnonzero(surplus < -far), np.flatnonzero(surplus > far)
        first = int(few[-1]) if few.size else -1
        last = int(many[0]) if many.size else places.size
        ends = [
            float(places[0]) if first < 0 else _zero(surplus + far, places, first),
            float(places[-1]) if last == places.size else _zero(surplus - far, places, last - 1),
        ]
        middle = (max(first, 0) + min(last, places.size - 1)) // 2
        return (min(ends), max(ends)), float(max(noise[middle], 0.0))

    def _finer(self) -> tuple[Array, Array]:
        """Return places along the cells and the ranks there.

        Within a cell the density is a line whose slope is that of the counts on either side.
        """
        counts, share = self.counts, np.linspace(0.0, 1.0, _PARTS + 1)[:-1]
        slope = np.gradient(counts) if len(counts) > 1 else np.zeros(1)
        slope = np.clip(slope, -np.abs(counts), np.abs(counts))
        before = np.concatenate([[0.0], np.cumsum(counts)])
        rank = before[:-1, None] + np.outer(counts, share)
        rank -= np.outer(slope, share * (1.0 - share) / 2.0)
        places = self.edges[:-1, None] + np.outer(np.diff(self.edges), share)
        return np.append(places.ravel(), self.edges[-1]), np.append(rank.ravel(), before[-1])


@dataclass(frozen=True)
class _Curve:
    """The quantile curve on its two logit scales."""

    across: Array
    upwards: Any
    low: float
    high: float

    @classmethod
    def through(cls, levels: Array, values: Array, low: float, high: float) -> _Curve:
        from scipy.interpolate import PchipInterpolator

        order = np.argsort(levels)
        across, ordered = _logit(levels[order]), np.maximum.accumulate(values[order])
        places = _logit((ordered - low) / (high - low))
        return cls(across, PchipInterpolator(across, places), low, high)

    def at(self, level: float) -> float:
        """Return the value at a level; beyond the outermost ones the curve goes on straight."""
        if not 0.0 < level < 1.0:
            return self.low if level <= 0.0 else self.high
        here = float(_logit(np.array(level)))
        end = float(np.clip(here, self.across[0], self.across[-1]))
        place = float(self.upwards(end)) + (here - end) * float(self.upwards(end, 1))
        share = 1.0 / (1.0 + math.exp(-min(max(place, -700.0), 700.0)))
        return self.low + share * (self.high - self.low)


def _nearest(numbers: Array, bounds: tuple[float, float], step: float) -> Array:
    """Return the nearest values of a column whose values are so far apart."""
    most = round((bounds[1] - bounds[0]) / step)
    return np.asarray(bounds[0] + step * np.clip(np.rint((numbers - bounds[0]) / step), 0.0, most))


def _logit(share: Array) -> Array:
    inside = np.clip(share, _LEAST, 1.0 - _LEAST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _rising(heights: Array, variance: Array) -> Array:
    """Return the nearest curve that never falls, by the precision at each place."""
    from scipy.optimize import isotonic_regression

    floor = max(float(variance.max()), 1.0) * 1e-9
    return np.asarray(isotonic_regression(heights, weights=1.0 / np.maximum(variance, floor)).x)


def _zero(heights: Array, places: Array, before: int) -> float:
    """Return where a line between two neighbouring places passes 0, or the nearer of them."""
    at = min(max(before, 0), places.size - 2)
    here, there = heights[at], heights[at + 1]
    if here * there >= 0.0:
        return float(places[at] if abs(here) <= abs(there) else places[at + 1])
    return float(places[at] - here / (there - here) * (places[at + 1] - places[at]))
