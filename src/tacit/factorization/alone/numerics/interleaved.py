"""Small systems of linear equations, eight at a time: one row of a factor to each lane.

A Cholesky factorization of one small matrix waits for itself: every pivot needs the one before, a
root and a division. Eight of them, entry by entry beside each other, wait together, and their
arithmetic fills whole vector registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._core.rows_in_registers import LANES, take_products

__all__ = ["TOGETHER", "solve_together"]

TOGETHER = 2 * LANES


def solve_together(
    first: int, last: int, precisions: Any, diagonal: Any, right: Any, noise: Any, out: Any
) -> None:
    """Solve the blocks of eight rows from ``first`` to ``last``, as `solve_rows` says.

    With UᵀU = P: forward Uᵀy = b, then backward U·x = y + ξ. Row i·(n + 1) + j of ``u`` holds the
    eight U_ij, for j = n the eight y_i, and x_i in the end. What is left of a last block repeats
    its last row.
    """
    rows, size = right.shape
    wide = size + 1
    u, inverse = np.zeros((size * wide, TOGETHER)), np.ones((wide, TOGETHER))  # and a row of ones
    picked = np.empty(TOGETHER, np.int64)
    for block in range(first, last):
        start = block * TOGETHER
        for lane in range(TOGETHER):
            picked[lane] = min(start + lane, rows - 1)
        for i in range(size):
            for j in range(i, size):
                for lane in range(TOGETHER):
                    u[i * wide + j, lane] = precisions[picked[lane] * size + i, j]
            for lane in range(TOGETHER):
                u[i * wide + i, lane] += diagonal[i]
                u[i * wide + size, lane] = right[picked[lane], i]
        for i in range(size):
            take_products(u, i * wide + i, inverse, size, i, wide, i, wide, i)
            for lane in range(TOGETHER):
                # rounding may leave less than nothing of a pivot that other cells explain
                inverse[i, lane] = 1.0 / np.sqrt(max(u[i * wide + i, lane], 1e-300))
            for j in range(i + 1, wide):
                take_products(u, i * wide + j, inverse, i, i, wide, j, wide, i)
        for i in range(size):
            for lane in range(TOGETHER):
                u[i * wide + size, lane] += noise[picked[lane], i]
        for i in range(size - 1, -1, -1):
            at, past = i * wide + size, i + 1  # U_ij·x_j over j > i
            take_products(
                u, at, inverse, i, at - size + past, 1, past * wide + size, wide, size - past
            )
        for lane in range(min(TOGETHER, rows - start)):
            for i in range(size):
                out[start + lane, i] = u[i * wide + size, lane]
