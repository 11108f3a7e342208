"""The grid on which contributions are rounded, summed and perturbed.

Floating-point sums have a larger sensitivity than real ones, and their low bits leak. So each
unit's clipped contribution is rounded to a power-of-two grid first, by floor(x/g + ½), the
contributions are summed as int64, and noise on the same grid is added as integers.

Rounding moves one contribution of d numbers by at most g/2 each, so an L2 sensitivity grows by
g·√d/2 when one unit is added or removed and by g·√d when one is replaced; an L1 sensitivity by
g·d/2 and g·d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core import kernels
from tacit.errors import ParameterError
from tacit.privacy.events import REPLACE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Grid", "GridSum"]

_LARGEST = 2.0**62


@dataclass(frozen=True)
class Grid:
    """Multiples of 2^exponent."""

    exponent: int

    @classmethod
    def for_scale(cls, scale: float, bits: int) -> Grid:
        """Return the grid with between 2^bits and 2^(bits+1) steps in ``scale``."""
        return cls(math.frexp(scale)[1] - 1 - bits)

    @property
    def step(self) -> float:
        """The grid step g."""
        return math.ldexp(1.0, self.exponent)

    def growth(self, size: int, norm: int, neighbours: str) -> float:
        """Return by how much rounding raises an L1 or L2 sensitivity of ``size`` numbers."""
        reach = math.sqrt(size) if norm == 2 else float(size)
        return self.step * reach * (1.0 if neighbours == REPLACE else 0.5)

    def round(self, value: Any) -> NDArray[np.int64]:
        """Round one contribution to the grid; what is not finite counts as zero."""
        clean = np.nan_to_num(np.asarray(value, float), posinf=0, neginf=0)
        with np.errstate(over="ignore"):  # what overflows is clipped below
            scaled = np.ldexp(clean, -self.exponent)
        return np.asarray(np.floor(np.clip(scaled, -_LARGEST, _LARGEST) + 0.5), dtype=np.int64)

    def values(self, integers: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return whole numbers of steps as floats; a product with a power of two is exact."""
        return np.asarray(integers * self.step)

    def sum(self, rows: Any, scales: Any = None) -> GridSum:
        """Round every row (one unit's contribution) and add them up.

        Parameters
        ----------
        rows
            Array (units, size) of finite, clipped contributions.
        scales
            Optional factor per row, such as the clip factors of `tacit.mechanisms.clipping`.
        """
        rows = np.ascontiguousarray(rows)
        if rows.dtype != np.float32:  # whose products with the factors are of float64 as well
            rows = rows.astype(np.float64, copy=False)
        if rows.ndim != 2:
            raise ParameterError(f"rows must have two axes (units, numbers), got {rows.ndim}")
        factors = np.ones(len(rows)) if scales is None else np.asarray(scales, np.float64)
        total = np.zeros(rows.shape[1], np.int64)
        kernels.sum_on_grid(rows, factors, math.ldexp(1.0, -self.exponent), total)
        return GridSum(total, self)


@dataclass(frozen=True)
class GridSum:
    """A sum of contributions that were rounded one by one, as whole numbers of a grid step."""

    integers: NDArray[np.int64]
    grid: Grid

    def __add__(self, other: GridSum) -> GridSum:
        if other.grid != self.grid:
            raise ParameterError("sums on different grids cannot be added")
        return GridSum(self.integers + other.integers, self.grid)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sum."""
        return self.integers.shape

    def value(self) -> NDArray[np.float64]:
        """Return the sum as floats."""
        return self.grid.values(self.integers)
