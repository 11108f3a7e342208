"""Additive noise on a power-of-two grid: what Gaussian and Laplace noise share."""

from __future__ import annotations

import dataclasses
import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit._core.check import OneOf, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.grid import Grid, GridSum
from tacit.mechanisms.noise import RESOLUTION, Noise
from tacit.privacy.events import ADD_REMOVE, REPLACE, DpEvent, NonPrivateDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GridMechanism"]

_LARGEST_SUM = 2.0**62  # half of what 64 bits hold: the other half is for noise


@dataclass(frozen=True)
class GridMechanism(Mechanism):
    """Noise on a power-of-two grid; see `tacit.mechanisms.grid`.

    Parameters
    ----------
    scale
        Scale of the noise (standard deviation for Gaussian); 0 means no noise at all, for
        runs at ε = ∞ that keep the clipping.
    sensitivity
        How far one neighbour moves the value before rounding, in the norm of the noise and
        for the stated relation.
    shape
        Shape of the value.
    neighbours
        The relation that ``sensitivity`` is stated for.
    source
        ``"grid"`` or ``"exact"``; the noise source of `privatize` must be of the same kind.
    """

    scale: float
    sensitivity: float
    shape: tuple[int, ...] = ()
    neighbours: str = ADD_REMOVE
    source: str = "grid"

    additive = True
    norm = 2  # of the sensitivity

    def __post_init__(self) -> None:
        check("scale", self.scale, Real(0))
        check("sensitivity", self.sensitivity, Real(0, open_low=True))
        check("neighbours", self.neighbours, OneOf(ADD_REMOVE, REPLACE))
        check("source", self.source, OneOf(*RESOLUTION))

    @classmethod
    def calibrated(
        cls, multiplier: float, sensitivity: float, shape: tuple[int, ...] = (), **more: Any
    ) -> Self:
        """Return the mechanism whose event has (at least) the given noise multiplier.

        The scale is raised by what rounding to the grid adds to the sensitivity; ``more`` are
        further fields.
        """
        if math.isinf(multiplier):
            raise ParameterError("an infinite noise multiplier releases nothing at all")
        draft = cls(1.0, sensitivity, shape, **more)
        reach = Grid(-draft.bits).growth(draft.size, cls.norm, REPLACE)
        room = 1.0 - multiplier * reach  # the step is at most scale·2^-bits
        if room < 0.5:
            raise ParameterError(
                f"a release of {draft.size} numbers with noise {multiplier:g} times the "
                "sensitivity is too fine for the grid: release fewer numbers at once"
            )
        scale = multiplier * sensitivity / room * (1.0 + 1e-12)
        enough = dataclasses.replace(draft, scale=scale)
        # the same grid (or a finer one) with no more noise than it takes
        growth = enough.grid.growth(draft.size, cls.norm, REPLACE)
        scale = multiplier * (sensitivity + growth)
        for _ in range(8):
            tight = dataclasses.replace(enough, scale=scale)
            if tight.noise_multiplier >= multiplier:
                return tight
            scale = math.nextafter(scale, math.inf)
        return enough

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Log2 of the scale in grid steps."""
        return RESOLUTION[self.source]

    @property
    def grid(self) -> Grid:
        """The grid, fixed by the scale alone (by the sensitivity where there is no noise)."""
        if self.scale == 0.0:
            return Grid.for_scale(self.sensitivity, 40)
        return Grid.for_scale(self.scale, self.bits)

    @property
    def room(self) -> int | None:
        """How many contributions a sum of 64-bit whole numbers has room for, noise included.

        None without noise, where sums grow beyond 64 bits as they need (`grid.wide_sum`).
        """
        if self.scale == 0.0:
            return None
        longest = self.sensitivity + self.grid.growth(self.size, self.norm, REPLACE)
        return int(_LARGEST_SUM / (longest / self.grid.step + 1.0))

    @property
    def noise_multiplier(self) -> float:
        """The scale over the sensitivity after rounding.

        The growth is that of replacement also where a unit is added or removed: a float value
        may be a statistic, which is rounded on both sides.
        """
        growth = self.grid.growth(self.size, self.norm, REPLACE)
        return self.scale / (self.sensitivity + growth)

    @property
    def rounding(self) -> float:
        """The variance that rounding to the grid adds."""
        return self.grid.step**2 / 12.0 if self.scale else 0.0

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        return NonPrivateDpEvent() if self.scale == 0.0 else self._event()

    @abstractmethod
    def _event(self) -> DpEvent: ...

    @abstractmethod
    def _noise(self, noise: Noise, count: int, scale: float) -> NDArray[np.int64]: ...

    def check(self, value: Any) -> None:
        """Check the shape, and that a sum lies on this mechanism's grid."""
        found = value.shape if isinstance(value, GridSum) else np.shape(value)
        if tuple(found) != tuple(self.shape):
            raise ParameterError(f"value must have shape {self.shape}, got {tuple(found)}")
        if isinstance(value, GridSum) and value.grid != self.grid:
            raise ParameterError("the sum was rounded to another grid: use mechanism.grid.sum")

    def distance(self, value: Any, other: Any) -> float:
        """Return the distance after rounding over the sensitivity after rounding."""
        ours, theirs = (
            part.integers if isinstance(part, GridSum) else self.grid.round(part)
            for part in (value, other)
        )
        moved = np.abs((ours - theirs).astype(np.float64)).ravel() * self.grid.step
        far = float(np.sqrt((moved**2).sum()) if self.norm == 2 else moved.sum())
        return far / (self.sensitivity + self.grid.growth(self.size, self.norm, REPLACE))

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Add noise on the grid. A float array counts as one unit's contribution."""
        integers = value.integers if isinstance(value, GridSum) else self.grid.round(value)
        if self.scale > 0.0:
            steps = math.ldexp(self.scale, -self.grid.exponent)
            drawn = self._noise(noise, self.size, steps).reshape(self.shape)
            integers = integers + drawn
        return self.grid.values(integers)

    def bias(self, value: Any) -> float:
        """Additive noise is centred."""
        return 0.0
