"""What each member adds to sums over items, scaled so that no member moves them by more than one.

A member's message is a table over its items: for cell k, left_k ⊗ right_r(k). It is multiplied by
1/√(‖message‖² + s²): its norm is below one whatever the cells hold, members with few cells are
not blown up, and those with many do not drown the others. Every number is rounded to a grid on its
own and summed as an integer, so the sum does not depend on the order of anything.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.kernels import compiled
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember

__all__ = ["LATTICE", "isometric", "lattice_gram", "message_scales", "sum_messages"]

LATTICE = -30  # products of rows on a lattice are whole numbers of 2^-30
_PIECE = 1 << 20  # rows whose products, at most 2^30 each, a float64 adds up without error
_ROOT = math.isqrt(1 << 61)  # √2 in steps of 2^-30, rounded down: no norm grows
_ROOM = 1.0 - 2.0**-40  # for the rounding of norms and products


def message_scales(
    cells: ByMember, left: Floats, right: Floats, which: Integers, soft: float
) -> Floats:
    """Return the factor of every cell's part: that of its member's whole message.

    Every cell has a vector ``left``, (cells, a), beside a row of ``right``, (rows, b); ``soft`` is
    s > 0.
    """
    squares, lengths = left[:, 0] ** 2, (right**2).sum(axis=1)
    for column in left.T[1:]:
        squares += column**2
    squares *= lengths[0] if len(lengths) == 1 else lengths[which]
    return cells.spread(_ROOM / np.sqrt(cells.sums(squares) + soft**2))


def _sum_messages(
    items: Any, left: Any, right: Any, which: Any, scales: Any, inverse_grid: float, out: Any
) -> None:
    width = right.shape[1]
    for k in range(items.shape[0]):
        for a in range(left.shape[1]):
            factor = scales[k] * left[k, a] * inverse_grid
            for b in range(width):
                value = factor * right[which[k], b] + 0.5
                if abs(value) < 4.0e18:  # neither NaN nor beyond 64 bits
                    out[items[k], a * width + b] += np.int64(np.floor(value))


def sum_messages(
    items: NDArray[np.int32],
    size: int,
    left: Floats,
    right: Floats,
    which: Integers,
    scales: Floats,
    inverse_grid: float,
) -> Integers:
    """Return the sum by item of all scaled parts (`message_scales`) in grid steps, (size, a·b)."""
    out = np.zeros((size, left.shape[1] * right.shape[1]), np.int64)
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
    compiled(_sum_messages)(items, left, right, which, scales, inverse_grid, out)
    return out


def lattice_gram(rows: Floats, lengths: Floats | float = 1.0) -> Integers:
    """Return Σ x·xᵀ over rows of norm below one, each rounded to a lattice first, in steps; exact.

    ``lengths`` are those to which rows are shrunk, at most one: with √β the outer product of a
    member of weight β has a norm below β.

    On the lattice of 2⁻¹⁵ a row holds whole numbers of at most 2¹⁵, so products are at most 2³⁰
    steps of 2⁻³⁰. A float64 adds up 2²⁰ of them without error, in whatever order BLAS likes, and
    64 bits hold the sums of 2³² rows. Rows are first scaled down by what rounding can add, so
    their norm stays below one.
    """
    step = 2.0**-15
    shrunk = rows * np.maximum(lengths - step * np.sqrt(rows.shape[1]), 0.0)
    whole = np.floor(shrunk / step + 0.5)
    total = np.zeros((rows.shape[1],) * 2, np.int64)
    for start in range(0, len(whole), _PIECE):
        piece = whole[start : start + _PIECE]
        total += (piece.T @ piece).astype(np.int64)
    return total


def isometric(steps: NDArray[Any], twice: NDArray[np.bool_], shift: int) -> NDArray[Any]:
    """Return floor(x·w/2^shift + ½) of whole numbers x: w is √2 where an entry stands twice, or 1.

    Coordinates of a symmetric matrix, in which its norm is that of its entries, are rounded once,
    of the whole sum: no floating point is between, so that two sums whose coordinates differ by δ
    give numbers that differ by at most δ + 1.

    >>> isometric(np.array([6, 10]), np.array([False, True]), 1).tolist()
    [3, 7]
    """
    factors, down = np.where(twice, _ROOT, 1 << 30), shift + 30
    if steps.dtype == object or down < 32:
        exact = steps.astype(object) * factors.astype(object)
        return np.asarray((exact + ((1 << down) >> 1)) >> down if down > 0 else exact << -down)
    # in two halves, as the product may need 92 bits: a sum of 64 bits is high·2³¹ + low
    high, low = steps >> 31, steps & ((1 << 31) - 1)
    total = high * factors + ((low * factors) >> 31) + (1 << min(down - 32, 62))
    return np.asarray(total >> min(down - 31, 63))
