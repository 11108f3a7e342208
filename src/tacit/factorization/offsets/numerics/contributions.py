"""What each member adds to sums over items, scaled so that no member moves them by more than one.

A member's message is a table over its items: for cell k, left_k ⊗ right_r(k). It is multiplied by
1/√(‖message‖² + s²): its norm is below one whatever the cells hold, members with few cells are
not blown up, and those with many do not drown the others. Every number is rounded to a grid on its
own and summed as an integer, so the sum does not depend on the order of anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.kernels import compiled
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember

__all__ = ["MOST_ROWS", "lattice_gram", "message_scales", "sum_messages"]

MOST_ROWS = 1 << 23  # of products of at most 2^30 whose sum a float64 holds without error
_ROOM = 1.0 - 2.0**-40  # for the rounding of norms and products


def message_scales(
    cells: ByMember, left: Floats, right: Floats, which: Integers, soft: float
) -> Floats:
    """Return the factor of every cell's part: that of its member's whole message.

    Every cell has a vector ``left``, (cells, a), beside a row of ``right``, (rows, b); ``soft`` is
    s > 0.
    """
    squares = (left**2).sum(axis=1) * (right**2).sum(axis=1)[which]
    return np.asarray((_ROOM / np.sqrt(cells.sums(squares) + soft**2))[cells.owners])


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


def lattice_gram(rows: Floats) -> Floats:
    """Return Σ x·xᵀ over rows of norm below one, each rounded to a lattice first; exact.

    On the lattice of 2⁻¹⁵ a row holds whole numbers of at most 2¹⁵, so products are at most 2³⁰
    and a float64 adds up `MOST_ROWS` of them without error, in whatever order BLAS likes. Rows
    are first scaled down by what rounding can add, so their norm stays below one.
    """
    step = 2.0**-15
    shrunk = rows * (1.0 - step * np.sqrt(rows.shape[1]))
    whole = np.floor(shrunk / step + 0.5)
    total = np.zeros((rows.shape[1],) * 2)
    for start in range(0, len(whole), 1 << 20):
        piece = whole[start : start + (1 << 20)]
        total += (piece.T @ piece) * step**2
    return total
