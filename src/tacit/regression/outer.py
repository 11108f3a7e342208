"""Exact sums of outer products Σ a·aᵀ of clipped rows, and their way onto a mechanism's grid.

A Gram matrix cannot be rounded row by row to the grid of its noise at a bearable price: that is
p² roundings a row. Instead the *row* is rounded, and everything after that is exact.

**Rows on a lattice.** A row a with p numbers is scaled so that ‖a‖ ≤ B·(1 − 2⁻⁴⁰) − h·√p/2 and
then rounded to the nearest multiples of h = 2^e. Rounding moves it by at most h·√p/2, and the
floating- point errors of norm, factor and product are parts in 2⁴⁰ for every p < 2¹⁰, so the
rounded row has ‖a‖ ≤ B, exactly. A neighbour is the same row on every machine only up to those
last bits, but its bound is not.

**Sums without error.** In units of h the row holds whole numbers of at most 2^16, and a product of
two is a whole number of at most 2^32. BLAS adds up some thousand of them at a time, and up to 2^20
rows are added in float64: every partial sum, in whatever order and with whatever fused
operations, is a whole number of at most 2^52 and so is exact. Beyond that the totals are Python
integers. The result does not depend on the order of rows or on the size of pieces, bit for bit,
and one row moves it by its own outer product and nothing else. Hence

    add or remove one row:  ‖a·aᵀ‖_F = ‖a‖² ≤ B²,
    replace one row:        ‖a·aᵀ − b·bᵀ‖_F² = ‖a‖⁴ + ‖b‖⁴ − 2(aᵀb)² ≤ 2·B⁴

hold for what is computed, not only for real numbers. `onto_grid` multiplies the total by √weight
and rounds it to the mechanism's grid in integer arithmetic, which moves each number by at most
half a step; `GridMechanism` counts that in its noise multiplier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.kernels import compiled
from tacit.errors import ParameterError
from tacit.mechanisms.grid import Grid, GridSum, wide_sum

__all__ = ["ExactSum", "OuterSum", "RowMap", "onto_grid"]

PIECE = 1 << 13  # rows that BLAS adds up at once: they fit into cache
# rounding to 2^-15 of the largest number adds a variance of n·h²/12 to a diagonal entry: 8e-4 for
# ten million rows, where noise is of the order of B² > 1
BITS = 16
_FLUSH = 1 << 20  # rows whose products of at most 2^32 a float64 holds exactly
_ROOM = 1.0 - 2.0**-40


@dataclass(frozen=True)
class RowMap:
    """How a row (x, y) becomes the vector a = s·(c, (x − middle)/half, (y − middle)/half).

    Numbers outside [−1, 1] after the map are clipped, and what is not a number counts as the
    middle. The factor s ≤ 1 scales the whole vector, so that a linear relation between x and
    y survives.

    Parameters
    ----------
    middle, half
        Public centre and half-range of each feature and, last, of the response.
    constant
        The constant c in front; 0 leaves it out.
    norm
        The bound: of ‖a‖ where ``joint``, else of the part before the response, which then
        lies in [−1, 1] by itself.
    joint
        Whether the response counts in the norm.
    inner
        A bound of the part before the response where the response counts in the norm: rows are
        scaled to it first, by a factor that does not depend on the response.
    product
        A bound of the norm of the part before the response times the size of the response.
    weights
        Public weights of the features, at most 1, which multiply them after the map; all 1 unless
        given.
    """

    middle: tuple[float, ...]
    half: tuple[float, ...]
    constant: float
    norm: float
    joint: bool = True
    inner: float = math.inf
    product: float = math.inf
    weights: tuple[float, ...] = ()

    @property
    def square(self) -> float:
        """The square of the longest part before the response."""
        weighed = sum(one * one for one in self.weights) if self.weights else self.features
        return self.constant**2 + weighed

    @property
    def features(self) -> int:
        """How many features a row has."""
        return len(self.middle) - 1

    @property
    def size(self) -> int:
        """How many numbers the vector a has."""
        return self.features + 1 + (self.constant > 0.0)

    def __post_init__(self) -> None:
        # below zero rounding alone would exceed the norm
        if min(self.limit / self.norm, self._kept) < 0.5:
            raise ParameterError(
                f"rows of {self.size} numbers cannot be scaled to norm {self.norm:g} on a lattice "
                f"of {math.ldexp(1.0, self.exponent):g}: pass a larger clip"
            )

    @property
    def bits(self) -> int:
        """How many bits a number of a row has."""
        return BITS

    @property
    def exponent(self) -> int:
        """The exponent e of the lattice: no number of a row exceeds 2^16 steps of h = 2^e."""
        # a number is at most 1 (or the constant) before scaling, and at most the norm after
        largest = max(1.0, self.constant)
        return math.frexp(min(self.norm, largest) if self.joint else largest)[1] - self.bits

    @property
    def limit(self) -> float:
        """The norm to which a row is scaled before it is rounded."""
        step = math.ldexp(1.0, self.exponent)
        return self.norm * _ROOM - step * math.sqrt(self.size) / 2.0

    @property
    def factor(self) -> float:
        """The product to which a row is scaled before it is rounded.

        Rounding moves the norm by e = h·√p/2 at most and the response, at most 1, by h/2, so the
        product by no more than e + (R + e)·h/2.
        """
        step = math.ldexp(1.0, self.exponent)
        moved = step * math.sqrt(self.size) / 2.0
        return self.product * _ROOM - moved - (self.norm + moved) * step / 2.0

    @property
    def _kept(self) -> float:
        """The share of the product that rounding leaves."""
        return self.factor / self.product if math.isfinite(self.product) else 1.0

    @property
    def least_weight(self) -> float:
        """The smallest weight s² to which a row can be scaled: that of a row in a corner."""
        squares = self.square
        scale = min(self.inner, self.limit) / math.sqrt(squares)
        if self.joint:
            scale = min(scale, self.limit / math.sqrt(squares + 1.0))
        scale = min(scale, math.sqrt(self.factor / math.sqrt(squares)))
        return min(scale, 1.0) ** 2


class OuterSum:
    """Adds up outer products of rows, piece by piece.

    Examples
    --------
    >>> rows = RowMap((0.0, 0.0), (1.0, 1.0), constant=0.5, norm=10.0)
    >>> total = OuterSum(rows)
    >>> total.add(np.array([[0.5], [-0.5]]), np.array([1.0, 0.0]))
    >>> total.result().value().tolist()
    [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5], [0.5, 0.5, 1.0]]
    """

    def __init__(self, rows: RowMap) -> None:
        self.rows = rows
        self.count = 0
        self._map = (
            np.array(rows.middle),
            1.0 / np.array(rows.half),
            np.array(rows.weights or (1.0,) * rows.features),
            rows.constant,
            rows.limit,
            min(rows.inner, rows.limit),
            rows.joint,
            rows.factor,
            math.ldexp(1.0, -rows.exponent),
        )
        width = -(-rows.size // 4) * 4  # BLAS is fastest on whole vectors
        self._buffer = np.zeros((self._piece, width))
        self._sum = np.zeros((width, width))  # whole numbers below 2^53
        self._whole = np.zeros((rows.size, rows.size), object)
        self._recent = 0

    @property
    def _piece(self) -> int:
        """How many rows are added up at once."""
        return PIECE

    def _vectors(self, rows: Array) -> Array:
        """Return the vectors whose products are added up, from rows on the lattice."""
        return rows

    def add(self, x: Any, y: Any) -> None:
        """Add rows: ``x`` (rows × features) and ``y`` (rows), of any float or integer type."""
        self.count += len(y)
        kernel = compiled(_lattice_rows, reassociate=True, unchecked=True)
        size = len(self._buffer)
        for start in range(0, len(y), size):
            part = slice(start, start + size)
            piece = self._buffer[: len(y[part])]
            kernel(x[part], y[part], *self._map, piece)
            piece = self._vectors(piece)
            if self._recent + len(piece) > _FLUSH:
                self._flush()
            self._sum += piece.T @ piece
            self._recent += len(piece)

    def _flush(self) -> None:
        """Empty the float total into Python integers, constant first."""
        features, size = self.rows.features, self.rows.size
        order = np.r_[features + 1 : size, : features + 1]
        self._whole = self._whole + self._sum[np.ix_(order, order)].astype(np.int64).astype(object)
        self._sum[:] = 0.0
        self._recent = 0

    def result(self) -> ExactSum:
        """Return the exact total."""
        self._flush()
        return ExactSum(self._whole.copy(), 2 * self.rows.exponent)


@dataclass(frozen=True)
class ExactSum:
    """Whole numbers times 2^exponent / divisor."""

    integers: NDArray[Any]
    exponent: int
    divisor: int = 1

    def __add__(self, other: ExactSum) -> ExactSum:
        if (self.exponent, self.divisor) != (other.exponent, other.divisor):
            raise ParameterError("sums of rows on different lattices cannot be added")
        return ExactSum(self.integers + other.integers, self.exponent, self.divisor)

    def value(self) -> Array:
        """Return the sum as floats."""
        scale = Fraction(2) ** self.exponent / self.divisor
        flat = [float(int(number) * scale) for number in self.integers.ravel()]
        return np.array(flat).reshape(self.integers.shape)


def onto_grid(total: ExactSum, pairs: Any, weights: Any, grid: Grid) -> GridSum:
    """Return √weight times some entries of a sum, each rounded to the nearest step of a grid.

    An entry is a pair (row, column). Its weight is the *squared* factor: 2 for a number that
    stands twice in a symmetric matrix.

    >>> onto_grid(ExactSum(np.array([[3]], object), 0), [(0, 0)], [2.0], Grid(-4)).integers
    array([68])
    """
    shift = Fraction(2) ** (total.exponent - grid.exponent) / total.divisor
    rounded = []
    for (i, j), weight in zip(pairs, weights, strict=True):
        number = int(total.integers[i, j])
        squared = Fraction(weight) * (number * shift) ** 2
        # floor(√s + ½) = floor((floor(√(4s)) + 1)/2) for s ≥ 0, as whole numbers
        magnitude = (math.isqrt(4 * squared.numerator // squared.denominator) + 1) // 2
        rounded.append(magnitude * (1 if number >= 0 else -1))
    return GridSum(wide_sum([np.array(rounded, object)]), grid)


def _lattice_rows(
    x: Any,
    y: Any,
    middle: Any,
    inverse: Any,
    weights: Any,
    constant: float,
    limit: float,
    inner: float,
    joint: bool,
    product: float,
    unit: float,
    out: Any,
) -> None:
    """Write the rows a in units of the lattice: features, response, constant.

    In three passes, so that no row waits for the root and the quotient of the one before.
    """
    rows, features = x.shape
    factors = np.empty(rows)
    for i in range(rows):
        squares = 0.0
        for j in range(features):
            t = (x[i, j] - middle[j]) * inverse[j]
            t = t if t == t else 0.0
            t = min(max(t, -1.0), 1.0) * weights[j]
            out[i, j] = t
            squares += t * t
        factors[i] = squares
    responses = np.empty(rows)
    for i in range(rows):
        t = (y[i] - middle[features]) * inverse[features]
        t = t if t == t else 0.0
        responses[i] = min(max(t, -1.0), 1.0)
    # on plain arrays, so that roots and quotients are taken several at a time; no squares at all:
    # a bound over 0 is ∞
    for i in range(rows):
        squares = factors[i] + constant * constant
        scale = min(inner / np.sqrt(squares), 1.0)
        far = limit / np.sqrt(squares + responses[i] * responses[i])
        scale = min(far, scale) if joint else scale
        longest = np.sqrt(product / (np.sqrt(squares) * np.abs(responses[i])))
        factors[i] = unit * min(longest, scale)
    for i in range(rows):
        factor = factors[i]
        for j in range(features):
            out[i, j] = np.floor(out[i, j] * factor + 0.5)
        out[i, features] = np.floor(responses[i] * factor + 0.5)
        if constant > 0.0:
            out[i, features + 1] = np.floor(constant * factor + 0.5)


def lattice_rows_reference(x: Any, y: Any, rows: RowMap) -> Array:
    """Return what the kernel writes, by NumPy."""
    with np.errstate(invalid="ignore", over="ignore"):
        table = np.column_stack([x, y]).astype(np.float64)
        t = (table - np.array(rows.middle)) * (1.0 / np.array(rows.half))
    t = np.clip(np.where(np.isnan(t), 0.0, t), -1.0, 1.0)
    t[:, :-1] *= np.array(rows.weights or (1.0,) * rows.features)
    squares = np.square(t[:, :-1]).sum(axis=1) + rows.constant**2
    inner = min(rows.inner, rows.limit)
    factors = np.minimum(1.0, inner / np.maximum(np.sqrt(squares), 1e-300))
    if rows.joint:
        lengths = np.sqrt(squares + np.square(t[:, -1]))
        factors = np.minimum(factors, rows.limit / np.maximum(lengths, 1e-300))
    products = np.sqrt(squares) * np.abs(t[:, -1])
    factors = np.minimum(factors, np.sqrt(rows.factor / np.maximum(products, 1e-300)))
    if rows.constant > 0.0:
        t = np.column_stack([t, np.full(len(t), rows.constant)])
    unit = math.ldexp(1.0, -rows.exponent)
    return np.asarray(np.floor(t * (factors * unit)[:, None] + 0.5))
