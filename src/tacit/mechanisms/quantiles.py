"""Quantiles without δ: the exponential mechanism over public bounds, split after split.

Sources: Smith (2011) for one quantile, Kaplan, Schnapp & Stemmer (2022) for many.

**One quantile.** Values are rounded to 2³⁰ cells of the public range, one by one, and each gets 20
random bits of its own below that, so that equal values lie beside each other in random order. For
a point v let C(v) count the values below it. The mechanism draws v ∝ exp(−r·|C(v) − q·n|).

**Sensitivity** (both are tested against exhaustive neighbours). The random bits of the other
values are the same on both sides. Let ℓ(v) = |C(v) − q·n| be the loss. Probabilities change by a
factor of at most exp(r·R), where R is the *range* of the change of ℓ over v: what all points have
in common cancels in the normalisation.

- *Add or remove one*, n unknown: with x added, C(v) − q·n moves by −q at v ≤ x and by 1 − q above,
  so ℓ moves by at most max(q, 1 − q) up or down: R = 2·max(q, 1 − q), which data reach. For the
  minimum and the maximum (q = 0, 1) all points lie on one side: ℓ moves by 0 or by 1 in one
  direction, R = 1.
- *Replace one*, n public: C(v) moves by 1, in one direction, between the two values. That is up
  on one side of the quantile and down on the other: R = 2. For q = 0 and q = 1: R = 1.

**Many quantiles.** The middle one is drawn first; the values below it and those from it on are two
disjoint sets, whose quantiles are drawn in the same way, with q relative to the set. So each level
of the recursion is paid once under add-remove (one value lies in one set); L = ⌈log₂(m + 1)⌉
levels get ε/L each. Under replace-one a value may leave one set for another: below the first level
two sets change, each by one value more or less, and pay ε/(2L) each. (Where the value stays in its
set, R = 2 costs ε/(2L)·2/(2·max(q, 1 − q)) ≤ ε/L.)

**Values on a grid** (whole numbers, days): points between two grid values are no values, and yet
the mechanism would draw them. With ``step`` each value is spread evenly over the step around it,
by random bits of its own as above, so that the draw sees a column without gaps: its quantile,
rounded to the grid, is the column's. Nothing changes about sensitivity.

**Units with several values**, at most k: one after the other is added, removed or replaced, and
each of the k steps costs ε/k.

**Arithmetic.** q is a multiple of 2⁻³⁰, so losses are whole numbers of 2⁻³⁰; weights are rounded
to a share of 2⁻⁴¹ (`tacit._core.choice`), which moves log-ratios by at most 2⁻³⁹ on each of up to
13 levels, and the draw is exact. A share of 2⁻¹⁴ of ε ≥ 2⁻²⁰ for one value pays for that.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit._core.check import Bounds, InstanceOf, Integer, OneOf, Real, check
from tacit._core.choice import choose
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    ApproximateDpEvent,
    DpEvent,
    NonPrivateDpEvent,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LEAST", "Quantiles"]

LEAST = 2.0**-20  # the smallest ε for one value: below it, rounding would cost too much of it
_CELLS = 30  # log2 of the cells of the range
_TIES = 20  # random bits below a cell
_LEVEL = 30  # bits of a quantile's level
_KEPT = 1.0 - 2.0**-14  # of ε: the rest pays for rounding
_MOST = 1 << 12  # quantiles at once


@dataclass(frozen=True)
class Quantiles(Mechanism):
    """Private quantiles of numbers within public bounds, purely ε-private.

    Parameters
    ----------
    epsilon
        ε of all quantiles together; infinity returns those of the data.
    bounds
        The public range of the data; values outside are clipped, missing ones are the middle.
    levels
        Which quantiles, in ascending order, each in [0, 1]: 0.5 is the median.
    neighbours
        The relation. Under replace-one the number of values is public.
    values
        How many values one unit has at most.
    step
        Where values lie on a grid that begins at the lower bound, how far apart its points are.
        Draws then lie within half a step of the bounds, and are to be rounded (`on_grid`).

    Examples
    --------
    >>> ages = np.random.default_rng(0).normal(50, 10, 10_000)
    >>> median = Quantiles(1.0, (0, 100), (0.5,)).draw(ages, Noise(seed=1))
    >>> bool(abs(median[0] - np.median(ages)) < 0.1)
    True
    """

    epsilon: float
    bounds: tuple[float, float]
    levels: tuple[float, ...] = (0.5,)
    neighbours: str = ADD_REMOVE
    values: int = 1
    step: float = 0.0

    def __post_init__(self) -> None:
        check("step", self.step, Real(0))
        check("values", self.values, Integer(1))
        check("epsilon", self.epsilon, Real(LEAST * self.values, allow_inf=True))
        check("bounds", self.bounds, Bounds())
        check("levels", self.levels, InstanceOf(tuple))
        for level in self.levels:
            check("levels", level, Real(0, 1))
        if not 1 <= len(self.levels) <= _MOST or list(self.levels) != sorted(set(self.levels)):
            raise ParameterError(
                f"levels must hold 1 to {_MOST} different quantiles in ascending order"
            )
        check("neighbours", self.neighbours, OneOf(ADD_REMOVE, REPLACE))
        if self.step and not 1 <= (self.bounds[1] - self.bounds[0]) / self.step <= 2.0**_CELLS:
            raise ParameterError(
                f"step must fit into the bounds, and at most 2^{_CELLS} times, got {self.step}"
            )

    @property
    def depth(self) -> int:
        """How many levels the recursion has: what each unit pays for."""
        return len(self.levels).bit_length()

    @property
    def event(self) -> DpEvent:
        """What all quantiles cost together."""
        if math.isinf(self.epsilon):
            return NonPrivateDpEvent()
        return ApproximateDpEvent(self.epsilon)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The public inputs."""
        low, high = self.bounds
        known = ("the number of values is public",) if self.neighbours == REPLACE else ()
        return (f"values in [{low:g}, {high:g}]", *known)

    def check(self, value: Any) -> None:
        """Check that there is one number per unit."""
        if np.ndim(value) != 1:
            raise ParameterError(f"value must hold one number per unit, got {np.ndim(value)} axes")

    def rate(self, q: Fraction, first: bool) -> float:
        """Return r of the quantile at ``q`` of its set, the whole of the data or a later one."""
        share = self.epsilon * _KEPT / (self.values * self.depth)
        extreme = q in (0, 1)
        added = 1.0 if extreme else 2.0 * max(float(q), 1.0 - float(q))  # R of one value more
        replaced = 1.0 if extreme else 2.0
        if self.neighbours == ADD_REMOVE:
            return share / added
        return share / replaced if first else share / (2.0 * added)

    @cached_property
    def rank_scales(self) -> NDArray[np.float64]:
        """Return b of the Laplace errors of each quantile's rank, (quantiles, draws); public.

        A draw ∝ exp(−r·|rank − target|) has a rank that is off by about a Laplace error of scale
        1/r, where values lie about evenly. The target of a later draw lies at a share of the way
        between two earlier ones, and moves with them by that share.
        """
        count = len(self.levels)
        found = np.zeros((count + 2, count))  # with both ends of the range, which are no draws

        def split(part: _Part, start: int, below: int, above: int) -> None:
            """Fill in the draws of a part, whose first level is ``start``, between two rows."""
            if not part.levels:
                return
            q, draw = part.q, start + len(part.levels) // 2
            rate = self.rate(q, part.first)
            found[draw] = (1.0 - float(q)) * found[below] + float(q) * found[above]
            found[draw, draw] = 1.0 / rate if rate > 0.0 else math.inf
            lower, upper = part.halves()
            split(lower, start, below, draw)
            split(upper, draw + 1, draw, above)

        split(self._parts, 0, count, count + 1)
        return found[:count]

    # -- drawing ---------------------------------------------------------------------------

    @property
    def reach(self) -> tuple[float, float]:
        """Between which numbers a draw lies."""
        low, high = self.bounds
        if not self.step:
            return low, high
        return low - self.step / 2.0, low + (self._grid - 0.5) * self.step

    @property
    def _grid(self) -> int:
        """How many cells there are: points of the grid, where there is one."""
        low, high = self.bounds
        return 1 + round((high - low) / self.step) if self.step else 1 << _CELLS

    def cells(self, value: Any) -> NDArray[np.int64]:
        """Return the cell of every value, in the order of units."""
        low, high = self.bounds
        if self.step:
            place = np.rint((clip_values(value, low, high) - low) / self.step)
            return np.asarray(np.clip(place, 0, self._grid - 1), np.int64)
        share = (clip_values(value, low, high) / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
        place = np.floor(np.clip(share, 0.0, 1.0) * 2.0**_CELLS)
        return np.asarray(np.minimum(place, 2.0**_CELLS - 1.0), np.int64)

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Return the quantiles, in ascending order."""
        if math.isinf(self.epsilon):
            return self.truth(value)
        cells = self.cells(value)
        width = (1 << (_CELLS + _TIES)) // self._grid
        words = noise.stream.words(cells.size)
        ties = words % np.uint64(width) if self.step else words >> np.uint64(64 - _TIES)
        points = np.sort(cells * width + ties.astype(np.int64))

        def split(points: NDArray[np.int64], low: int, high: int, part: _Part) -> list[int]:
            """Return quantiles of sorted points, from the places in [low, high)."""
            if low == high or not part.levels:  # no values lie there, and there is no choice
                return [low] * len(part.levels)
            edges = np.concatenate([[low], points + 1, [high]])
            exponents = _losses(points.size, part.q) * self.rate(part.q, part.first)
            place = low + choose(noise.stream, np.diff(edges), exponents)
            cut = int(np.searchsorted(points, place))
            below, above = part.halves()
            return [
                *split(points[:cut], low, place, below),
                place,
                *split(points[cut:], place, high, above),
            ]

        end = width * self._grid
        found = split(points, 0, end, self._parts)
        return self._numbers(np.array(found) / float(end))

    @property
    def _parts(self) -> _Part:
        whole = tuple(Fraction(round(level * 2**_LEVEL), 2**_LEVEL) for level in self.levels)
        return _Part(whole, Fraction(0), Fraction(1), True)

    def _numbers(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numbers at shares of the range."""
        low, high = self.reach
        return np.clip(low * (1.0 - shares) + high * shares, low, high)

    def _places(self, value: Any) -> NDArray[np.float64]:
        """Return where values lie, as shares of the range; those of one cell are alike.

        On a grid they are spread over their cell, and lie here where they lie on average.
        """
        ordered = np.sort(self.cells(value))
        if not self.step:
            return np.asarray(ordered / 2.0**_CELLS)
        _, first, counts = np.unique(ordered, return_index=True, return_counts=True)
        order = np.arange(ordered.size) - np.repeat(first, counts)
        within = (order + 0.5) / np.repeat(counts, counts)
        return np.asarray((ordered + within) / self._grid)

    # -- the law ---------------------------------------------------------------------------

    def truth(self, value: Any) -> NDArray[np.float64]:
        """Return the quantiles of the clipped data (of nothing, those of the range); private."""
        known = clip_values(value, *self.bounds)
        known = known if known.size else np.array(self.bounds, np.float64)
        return np.asarray(np.quantile(known, self.levels))

    def log_density(self, value: Any, released: Any) -> NDArray[np.float64]:
        """Return the log density of releases (…, quantiles) over the range; private.

        Values in one cell count as equal.
        """
        low, high = self.reach
        points = self._places(value)

        def density(points: Any, found: Any, start: float, end: float, part: _Part) -> float:
            if not part.levels or start == end:
                return 0.0
            middle = len(part.levels) // 2
            place, (below, above) = float(found[middle]), part.halves()
            losses = _losses(points.size, part.q) * self.rate(part.q, part.first)
            widths = np.diff(np.concatenate([[start], points, [end]]))
            cut = int(np.searchsorted(points, place))
            return float(
                -losses[cut]
                - np.log(widths @ np.exp(-losses))
                + density(points[:cut], found[:middle], start, place, below)
                + density(points[cut:], found[middle + 1 :], place, end, above)
            )

        shares = (np.asarray(released, np.float64) - low) / (high - low)
        rows = shares.reshape(-1, len(self.levels))
        return np.array([density(points, row, 0.0, 1.0, self._parts) for row in rows])

    def distance(self, value: Any, other: Any) -> float:
        """Return how many values were added and removed, or replaced, for each that may be."""
        moved = Counter(self.cells(value).tolist())
        moved.subtract(self.cells(other).tolist())
        more = sum(n for n in moved.values() if n > 0)
        less = sum(-n for n in moved.values() if n < 0)
        steps = more + less if self.neighbours == ADD_REMOVE else max(more, less)
        return steps / self.values

    def bias(self, value: Any) -> NDArray[np.float64]:
        """Return the expected error of each quantile; for few values (see `variance`)."""
        low, high = self.reach
        if math.isinf(self.epsilon):
            return np.zeros(len(self.levels))
        mean = self._moments(self._places(value), 0.0, 1.0, self._parts)[0]
        return np.asarray(low + (high - low) * mean - self.truth(value))

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return the variance of each quantile.

        By summing over all gaps between values where earlier quantiles may lie: for few values,
        since n of them and L levels take n^L terms.
        """
        low, high = self.reach
        if math.isinf(self.epsilon):
            return np.zeros(len(self.levels))
        mean, square = self._moments(self._places(value), 0.0, 1.0, self._parts)
        return np.asarray((high - low) ** 2 * (square - mean**2))

    def _moments(
        self, points: NDArray[np.float64], low: float, high: float, part: _Part
    ) -> NDArray[np.float64]:
        """Return mean and mean square of each quantile, as shares of the range."""
        if not part.levels:
            return np.empty((2, 0))
        widths = np.diff(np.concatenate([[low], points, [high]]))
        exponents = _losses(points.size, part.q) * self.rate(part.q, part.first)
        chances = widths * np.exp(-exponents)
        chances /= chances.sum()
        below, above = part.halves()
        nodes, weights = np.polynomial.legendre.leggauss(8)
        found = np.zeros((2, len(part.levels)))
        for gap in np.flatnonzero(chances):
            end = high if gap == points.size else points[gap]
            for place, weight in zip(end - widths[gap] * (1 - nodes) / 2, weights, strict=True):
                parts = (
                    self._moments(points[:gap], low, place, below),
                    np.array([[place], [place**2]]),
                    self._moments(points[gap:], place, high, above),
                )
                found += chances[gap] * weight / 2 * np.hstack(parts)
        return found


class _Part(NamedTuple):
    """Levels to be found among the values between two that were found before."""

    levels: tuple[Fraction, ...]
    low: Fraction
    high: Fraction
    first: bool  # whether it is the whole of the data

    @property
    def _middle(self) -> int:
        return len(self.levels) // 2

    @property
    def q(self) -> Fraction:
        """The middle level relative to the part, as a multiple of 2⁻³⁰."""
        span = self.high - self.low
        share = (self.levels[self._middle] - self.low) / span if span else Fraction(1, 2)
        return Fraction(round(share * 2**_LEVEL), 2**_LEVEL)

    def halves(self) -> tuple[_Part, _Part]:
        """Return what is left to be found below and above the middle level."""
        here = self.levels[self._middle]
        return (
            _Part(self.levels[: self._middle], self.low, here, False),
            _Part(self.levels[self._middle + 1 :], here, self.high, False),
        )


def _losses(count: int, q: Fraction) -> NDArray[np.float64]:
    """Return |C − q·n| for every C from 0 to n; exact but for the last bit."""
    target = int(q * count * 2**_LEVEL)  # a whole number
    steps = np.abs((np.arange(count + 1, dtype=np.int64) << _LEVEL) - target)
    return np.asarray(np.ldexp(steps.astype(np.float64), -_LEVEL))
