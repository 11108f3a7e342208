"""Smooth sensitivity of order statistics: Laplace noise that adapts to the data.

Source: Nissim, Raskhodnikova & Smith (2007); Alparslan (2023), Definition 7, with the
corrections of PRIVACY B4. For the order statistic x_(m) of n public-size data in [low, high],

    S_β(x) = max over i ≤ m ≤ j, i < j of exp(−β·(j − i − 1))·(x_(j) − x_(i)),

with x_(0) = low and x_(n+1) = high. Noise of scale 2·S_β/ε with β = ε/(2·ln(2/δ)) is
(ε, δ)-private for one number under replace-one, for ε ≤ 10 and δ ≤ 0.1.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Bounds, Integer, OneOf, Real, check
from tacit._core.order_statistics import smooth_sensitivity
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.noise import RESOLUTION, Noise
from tacit.privacy.amounts import as_exact
from tacit.privacy.events import ApproximateDpEvent, DpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LARGEST_DELTA", "SmoothQuantile", "smooth_sensitivity"]

LARGEST_DELTA = 0.1  # of which the noise keeps its promise at every ε ≤ 10
# Bits of the output grid relative to the public range: it must not depend on the data.
_RANGE_BITS = 30
# The scale is raised by this share, and β lowered by it and by 2⁻⁴¹, to cover the rounding of S_β:
# e^−β·k is off by at most 2⁻⁵³·(k·β + 70) ≤ 2⁻⁴³ before it underflows (k·β < 745), whatever n is,
# and two neighbours by twice that.
_SAFETY, _ROUNDING = 2.0**-30, 2.0**-41


@dataclass(frozen=True)
class SmoothQuantile(Mechanism):
    """A private quantile (median, maximum, …) with smooth-sensitivity Laplace noise.

    Parameters
    ----------
    epsilon, delta
        1e-6 ≤ ε ≤ 10 (the realised δ passes the target above ε ≈ 11), 0 < δ ≤ 0.1 (and above
        that); replace-one.
    bounds
        The public range of the data.
    size
        The public number of values n.
    quantile
        In [0, 1]: 0.5 is the median, 1 the maximum. The rank is max(1, ⌈quantile·n⌉).
    source
        The kind of noise source.
    """

    epsilon: float
    delta: float
    bounds: tuple[float, float]
    size: int
    quantile: float = 0.5
    source: str = "exact"

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(1e-6, 10))
        check("delta", self.delta, Real(0, LARGEST_DELTA, open_low=True))
        check("bounds", self.bounds, Bounds())
        check("size", self.size, Integer(1))
        check("quantile", self.quantile, Real(0, 1))
        check("source", self.source, OneOf(*RESOLUTION))

    @property
    def rank(self) -> int:
        """Which order statistic is released."""
        return max(1, math.ceil(as_exact(self.quantile) * self.size))

    @property
    def beta(self) -> float:
        """The smoothness β = ε/(2·ln(2/δ))."""
        return self.epsilon / (2.0 * math.log(2.0 / self.delta))

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        return ApproximateDpEvent(self.epsilon, self.delta)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The public inputs."""
        low, high = self.bounds
        return (f"values in [{low:g}, {high:g}]", f"the number of values, {self.size}, is public")

    def check(self, value: Any) -> None:
        """Check the public number of values."""
        if np.shape(value) != (self.size,):
            raise ParameterError(f"value must have shape ({self.size},), got {np.shape(value)}")

    @property
    def grid(self) -> Grid:
        """The grid of data and releases; it depends on the public range only."""
        low, high = self.bounds
        return Grid.for_scale(high - low, _RANGE_BITS)

    @property
    def _origin(self) -> int:
        """The grid point at or below the lower bound, from which values are counted."""
        return math.floor(self.bounds[0] / self.grid.step)

    def _integers(self, value: Any) -> tuple[int, float]:
        """Return the order statistic and the noise scale, in steps above the origin; both private.

        Values are rounded to the grid one by one *before* the sensitivity is computed, so that
        it is the sensitivity of what is released.
        """
        low, high = self.bounds
        step, origin = self.grid.step, self._origin * self.grid.step
        ordered = np.sort(self._steps(value))
        ends = [math.floor((end - origin) / step + 0.5) for end in (low, high)]
        smooth = smooth_sensitivity(
            ordered,
            self.rank,
            self.beta * (1.0 - _SAFETY) - _ROUNDING,
            float(ends[0]),
            float(ends[1]),
        )
        return int(ordered[self.rank - 1]), 2.0 * smooth / self.epsilon * (1.0 + _SAFETY)

    def _steps(self, value: Any) -> NDArray[np.float64]:
        """Return every value, clipped, in steps above the origin."""
        origin = self._origin * self.grid.step
        clipped = clip_values(value, *self.bounds)
        return np.asarray(np.floor((clipped - origin) / self.grid.step + 0.5))

    def statistic(self, value: Any) -> tuple[float, float]:
        """Return the order statistic and the noise scale; both are private."""
        centre, scale = self._integers(value)
        return self._place(centre), scale * self.grid.step

    def _place(self, count: int) -> float:
        """Return the grid point that lies ``count`` steps above the origin."""
        return float((self._origin + count) * Fraction(self.grid.step))

    def distance(self, value: Any, other: Any) -> float:
        """Return how many values were replaced, or by how much S_β breaks its promise if more.

        One replaced value may move the order statistic by S_β of either data at most, and S_β
        by a factor of at most e^β.
        """
        replaced = Counter(self._steps(value).tolist())
        replaced.subtract(self._steps(other).tolist())
        (here, wide), (there, narrow) = self._integers(value), self._integers(other)
        smooth = min(wide, narrow) * self.epsilon / 2.0
        moved = abs(here - there) / smooth if here != there else 0.0
        grown = abs(math.log(wide / narrow)) / self.beta if wide != narrow else 0.0
        return float(max(sum(n for n in replaced.values() if n > 0), moved, grown))

    def draw(self, value: Any, noise: Noise) -> float:
        """Release the order statistic with noise on the grid."""
        centre, scale = self._integers(value)
        return self._place(centre + int(noise.laplace(1, scale)[0]))

    def bias(self, value: Any) -> float:
        """Centred at the order statistic of the clipped data."""
        return 0.0

    def variance(self, value: Any) -> float:
        """Return 2·scale²; it depends on the data and must not be released."""
        return 2.0 * self.statistic(value)[1] ** 2
