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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core import kernels
from tacit.errors import ParameterError
from tacit.privacy.events import REPLACE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Grid", "GridSum", "pieces", "wide_sum"]

_LARGEST = 2.0**62
_PIECE = 1 << 20  # contributions, of 2^41 steps at most without noise, that 64 bits surely hold


def pieces(units: int) -> Iterator[slice]:
    """Yield the parts of many contributions whose sums 64 bits hold, whatever the noise.

    >>> [(part.start, part.stop) for part in pieces(2**20 + 1)]
    [(0, 1048576), (1048576, 1048577)]
    """
    for start in range(0, max(units, 1), _PIECE):
        yield slice(start, min(start + _PIECE, units))


def wide_sum(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Return the sum of whole numbers: of 64 bits where they hold it, else Python's own.

    >>> wide_sum([np.array([2**61]), np.array([2**61]), np.array([2**62])])
    array([9223372036854775808], dtype=object)
    """
    total: NDArray[Any] | None = None
    reach = 0  # of the numbers of the total
    for part in parts:
        most = _reach(part)
        if total is not None and total.dtype != object and reach + most >= 1 << 62:
            total, reach = total.astype(object), _reach(total)
        total = part.copy() if total is None else total + part
        reach += most
    if total is None:
        raise ParameterError("there is nothing to add up")
    return total.astype(np.int64) if total.dtype == object and _reach(total) < 1 << 62 else total


def _reach(integers: NDArray[Any]) -> int:
    """Return the largest magnitude."""
    return max(int(integers.max()), -int(integers.min())) if integers.size else 0


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
        return np.asarray(integers * self.step, np.float64)

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
        inverse = math.ldexp(1.0, -self.exponent)

        def part(one: slice) -> NDArray[np.int64]:
            total = np.zeros(rows.shape[1], np.int64)
            kernels.sum_on_grid(rows[one], factors[one], inverse, total)
            return total

        return GridSum(wide_sum(part(one) for one in pieces(len(rows))), self)


@dataclass(frozen=True)
class GridSum:
    """A sum of contributions that were rounded one by one, as whole numbers of a grid step.

    They have 64 bits; without noise they are Python's own where 64 bits do not hold them.
    """

    integers: NDArray[Any]
    grid: Grid

    def __add__(self, other: GridSum) -> GridSum:
        if other.grid != self.grid:
            raise ParameterError("sums on different grids cannot be added")
        return GridSum(wide_sum([self.integers, other.integers]), self.grid)

    def onto(self, grid: Grid) -> GridSum:
        """Return the sum on another grid, by floor(x/g + ½): rounded once, however many parts.

        >>> GridSum(np.array([5, 6]), Grid(-3)).onto(Grid(-1)).integers
        array([1, 2])
        """
        shift = self.grid.exponent - grid.exponent
        if shift >= 0:
            return GridSum(self.integers << shift, grid)
        half = 1 << (-shift - 1)
        return GridSum((self.integers + half) >> -shift, grid)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the sum."""
        return self.integers.shape

    def value(self) -> NDArray[np.float64]:
        """Return the sum as floats."""
        return self.grid.values(self.integers)
