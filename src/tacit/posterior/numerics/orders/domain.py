"""Where a private order statistic lies, and how people are spread there.

The exponential mechanism draws on the scale of x or |x|, of which every power is a monotone
function: its quantile is the power of theirs, and the draw does not depend on the exponent. What
it sees of a person is a number within public ends, rounded to a cell and spread over that cell at
random (`tacit.mechanisms.quantiles`): 2⁻³⁰ of the range, or one step of the grid of the values. So
people's numbers have a continuous law F also where many are alike, at a bound or on a grid.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit.errors import ParameterError
from tacit.posterior.numerics.populations.base import Population
from tacit.posterior.numerics.statistics import OrderStatistic, Power

__all__ = ["Domain", "Spread"]

_CELLS = 2.0**-30  # of the range: what the mechanism rounds to
_NEAREST, _EACH = 1e-11, 220  # the innermost point beside a place, as a share; points on each side
_EDGES = 600  # of a grid of values: all that are kept


class Domain(NamedTuple):
    """The range in which the mechanism draws, the grid of its values (0: none), and x or |x|."""

    low: float
    high: float
    step: float
    absolute: bool
    exponent: float
    bounds: tuple[float, float]  # of the data

    @classmethod
    def of(cls, statistic: OrderStatistic, bounds: tuple[float, float], step: float) -> Domain:
        """Return the domain of an order statistic of data within bounds.

        >>> Domain.of(OrderStatistic(0.5, Power(2.0)), (-3.0, 2.0), 0.0)
        Domain(low=0.0, high=3.0, step=0.0, absolute=True, exponent=2.0, bounds=(-3.0, 2.0))
        """
        power = statistic.of
        absolute = power.absolute or power.exponent % 2.0 == 0.0
        low, high = (float(end[0]) for end in Power(1.0, absolute).range(bounds))
        if step:  # the values that lie on the grid
            low, high = step * math.ceil(low / step - 1e-9), step * math.floor(high / step + 1e-9)
            if not low + step <= high * (1 + 1e-12):
                raise ParameterError(f"bounds must hold two values of a grid of step {step:g}")
        return cls(low, high, step, absolute, power.exponent, bounds)

    @property
    def ends(self) -> tuple[float, float]:
        """Between which numbers a draw lies."""
        return self.low - self.step / 2.0, self.high + self.step / 2.0

    @property
    def base(self) -> Power:
        """What the mechanism sees of a person."""
        return Power(1.0, self.absolute)

    def outward(self, place: Array) -> Array:
        """Return the statistic at a place of the domain."""
        place = np.asarray(place, np.float64)
        return np.asarray(np.sign(place) * np.abs(place) ** self.exponent)

    def inward(self, value: Array) -> Array:
        """Return the place of a statistic."""
        value = np.asarray(value, np.float64)
        return np.asarray(np.sign(value) * np.abs(value) ** (1.0 / self.exponent))


class Spread:
    """F(s), the share of people up to s, at points that lie ever closer around one place.

    Parameters
    ----------
    domain
        Where people's numbers lie.
    place
        About which quantiles are to be exact.
    ties
        Further numbers that many people share.
    """

    def __init__(self, domain: Domain, place: float, ties: Array | None = None) -> None:
        low, high = domain.ends
        self.domain, self.place = domain, min(max(place, low), high)
        away = (high - low) * np.geomspace(_NEAREST, 1.0, _EACH)
        parts: list[Array] = [
            np.array([low, self.place, high]),
            self.place - away,
            self.place + away,
        ]
        if domain.step:
            count = round((high - low) / domain.step)
            middle = round((self.place - low) / domain.step)
            first = max(0, min(middle - _EDGES // 2, count - _EDGES))
            edges = np.arange(first, min(count, first + _EDGES) + 1)
            parts.append(np.asarray(low + domain.step * edges, np.float64))
        else:
            cell = _CELLS * (high - low)
            parts.append(np.array([low + cell, high - cell]))
            if ties is not None:
                parts += [ties, ties + cell]
        points = np.unique(np.concatenate(parts))
        self.points: Array = points[(points >= low) & (points <= high)]

    def shares(self, population: Population, theta: Array) -> Array:
        """Return F at `points`, from 0 to 1."""
        domain, at = self.domain, self.points
        if not domain.step:
            found = _at_most(population, theta, domain, at)
        else:  # values are spread evenly over the step around them
            low, _ = domain.ends
            k = np.floor((at - low) / domain.step * (1.0 + 1e-12))
            edges = np.stack([low + k * domain.step, low + (k + 1.0) * domain.step])
            below, above = _at_most(population, theta, domain, edges)
            found = below + (above - below) * np.clip((at - edges[0]) / domain.step, 0.0, 1.0)
        found[0], found[-1] = 0.0, 1.0
        return np.maximum.accumulate(np.clip(found, 0.0, 1.0))


def _at_most(population: Population, theta: Array, domain: Domain, s: Array) -> Array:
    """Return the share of people whose clipped x or |x| is at most s."""
    least, most = domain.bounds
    found = np.where(s >= most, 1.0, population.share_below(np.nextafter(s, np.inf), theta))
    if domain.absolute:
        found = found - np.where(-s <= least, 0.0, population.share_below(-s, theta))
    low, high = domain.ends
    return np.where(s <= low, 0.0, np.where(s >= high, 1.0, found))
