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
        rows: float,
        dependence: float,
        bounds: tuple[float, float],
        beside: tuple[Array, Array] = (_NOTHING, _NOTHING),
    ) -> tuple[Array, Array]:
        """Return (quantiles, 2) intervals, and the share of the noise in each one's variance.

        Parameters
        ----------
        level
            Their probability.
        rows
            How many rows there are, as far as is known.
        dependence
            By how much rows that are not independent multiply the sampling variance at most.
        bounds
            The range of the column.
        beside
            Levels and values of further quantiles, to draw the curve by.
        """
        low, high = bounds
        n = max(rows, 1.0)
        found, shares = [], []
        curve = None
        if not self.counts.size:
            levels = np.concatenate([self.levels, beside[0]])
            curve = _Curve.through(levels, np.concatenate([self.values, beside[1]]), low, high)
        for k, q in enumerate(self.levels):
            sampling = dependence * n * q * (1.0 - q)
            if curve is None:
                part, noise = self._within_cells(float(q), level, sampling)
            else:
                off = reach(level, sampling, self.scales[k]) / n
                part = (curve.at(q - off), curve.at(q + off))
                noise = spread(0.0, self.scales[k]) ** 2
            value = float(np.clip(self.values[k], low, high))
            found.append((min(max(part[0], low), value), max(min(part[1], high), value)))
            shares.append(noise / (noise + sampling))
        return np.array(found), np.array(shares)

    def _within_cells(
        self, q: float, level: float, sampling: float
    ) -> tuple[tuple[float, float], float]:
        """Return the values at which the noisy ranks do not contradict a quantile.

        The noise of ranks is a walk along the cells, which may contradict a value and not the
        next. From the first to the last value that is not contradicted is more than was asked for,
        and is taken where the range cuts it short; else what lies between two sides on which all
        is contradicted.
        """
        cells = len(self.counts)
        places, rank = self._finer()
        upto = np.linspace(0.0, cells, places.size)
        noise = self.variance * (upto * (1.0 - q) ** 2 + (cells - upto) * q**2)
        surplus, far = rank - q * rank[-1], reach(level, 1.0) * np.sqrt(noise + sampling)
        possible = np.flatnonzero(np.abs(surplus) <= far)
        below, above = surplus < -far, surplus > far
        if possible.size and possible[0] > 0 and possible[-1] < places.size - 1:
            first, last = np.flatnonzero(below)[-1], np.flatnonzero(above)[0]
            first, last = min(first, last), max(first, last)
        elif possible.size:
            first, last = max(possible[0] - 1, 0), min(possible[-1] + 1, places.size - 1)
        else:
            first = int(np.argmin(np.abs(surplus)))
            last = first
        ends = (_zero(surplus + far, places, first), _zero(surplus - far, places, last - 1))
        return ends, float(noise[(first + last) // 2])

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


def _logit(share: Array) -> Array:
    inside = np.clip(share, _LEAST, 1.0 - _LEAST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _zero(heights: Array, places: Array, before: int) -> float:
    """Return where a line between two neighbouring places passes 0, or the nearer of them."""
    at = min(max(before, 0), places.size - 2)
    here, there = heights[at], heights[at + 1]
    if here * there >= 0.0:
        return float(places[at] if abs(here) <= abs(there) else places[at + 1])
    return float(places[at] - here / (there - here) * (places[at + 1] - places[at]))
