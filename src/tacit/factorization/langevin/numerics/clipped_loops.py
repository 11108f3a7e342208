"""The compiled loops of `clipped_gradients`; their twins are in `tests/oracles/clipped.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

__all__ = [
    "FLOOR",
    "NONE",
    "entry_kernel",
    "gather",
    "products",
    "rounded",
    "shrinkage",
    "slope_at",
    "slope_of_loss",
    "widest_of",
]

FLOOR = 1e-100  # positive estimates below this count as this

# -- pieces of the kernels ------------------------------------------------------------------


# They take arrays, not the table: taking an array out of a tuple is counted by atomics.


def _gather_cell(
    c: int,
    v: int,
    own_at: int,
    starts: Any,
    columns: Any,
    depth: int,
    width: int,
    plain: bool,
    theta: Any,
    own: Any,
    picked: Any,
) -> float:
    """Load the factors of a cell at every combination; return its estimate."""
    for p in range(depth):
        start = starts[c, p]
        if p == own_at:
            for r in range(width):
                picked[p, r] = own[columns[v, p, r]]
        elif plain:
            for r in range(width):
                picked[p, r] = theta[start + r]
        else:
            for r in range(width):
                picked[p, r] = theta[start + columns[v, p, r]]
    estimate = 0.0
    if depth == 2:
        for r in range(width):
            estimate += picked[0, r] * picked[1, r]
    else:
        for r in range(width):
            product = 1.0
            for p in range(depth):
                product *= picked[p, r]
            estimate += product
    return estimate


def _others(
    v: int,
    p: int,
    columns: Any,
    depth: int,
    width: int,
    columns_of: int,
    plain: bool,
    picked: Any,
    out: Any,
) -> None:
    """Write q_p, the product of the other factors added up per column, to ``out``."""
    if plain and depth == 2:
        for r in range(width):
            out[p, r] = picked[1 - p, r]
        return
    for k in range(columns_of):
        out[p, k] = 0.0
    for r in range(width):
        product = 1.0
        for other in range(depth):
            if other != p:
                product *= picked[other, r]
        out[p, columns[v, p, r]] += product


def slope_of_loss(x: float, estimate: float, power: float, weight: float) -> float:
    """Return (x − x̂)·x̂^(−p)/φ."""
    if power == 0.0:
        return (x - estimate) * weight
    return (x / (FLOOR if estimate < FLOOR else estimate) - 1.0) * weight


def _shrink(square: float, numbers: int, clip: float) -> float:
    """Return the factor that brings a norm within the clip; 0 for what is not finite."""
    if not square < 1e300:
        return 0.0
    # a sum of d numbers is off by up to d parts in 2^53, in the norm and after scaling
    limit = clip * (1.0 - (numbers + 8) * 2.0**-51)
    length = np.sqrt(square)
    return limit / length if length > limit else 1.0


def _round(value: float) -> np.int64:
    """Return floor(value + ½), 0 for what does not fit."""
    value += 0.5
    return np.int64(np.floor(value)) if abs(value) < 4.0e18 else np.int64(0)


def _widest(widths: Any) -> int:
    """Return the most columns that a factor has; NumPy's maximum takes longer to compile."""
    most = 2
    for v in range(widths.shape[0]):
        for p in range(widths.shape[1]):
            if widths[v, p] > most:
                most = widths[v, p]
    return most


# only kernels call them: entries for Python and C would be compiled for nothing
_piece = register_jitable(no_cpython_wrapper=True, no_cfunc_wrapper=True)
gather, products, slope_at, shrinkage, rounded, widest_of = (
    _piece(f) for f in (_gather_cell, _others, slope_of_loss, _shrink, _round, _widest)
)
NONE = np.int32(-1)  # that no factor is the owner's, of the type of those that are


def entry_kernel(
    first: int,
    last: int,
    table: Any,
    theta: Any,
    free: Any,
    counted: Any,
    clip: float,
    inverse_grid: float,
    cuts: Any,
    totals: Any,
) -> None:
    """Add up the picked cells' clipped gradients, in blocks ``first`` to ``last`` of cells."""
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    powers, weights = table.powers, table.weights
    widest = widest_of(widths)
    nothing, on_grid = np.zeros(1), inverse_grid > 0.0
    for block in range(first, last):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        gradient = np.empty((starts.shape[1], widest))
        for n in range(cuts[block], cuts[block + 1]):
            c, v = n, kinds[n]
            depth, width, simple = depths[v], sizes[v], plain[v]
            estimate = gather(
                c, v, NONE, starts, columns, depth, width, simple, theta, nothing, picked
            )
            slope = slope_at(values[c], estimate, powers[v], weights[v])
            square = 0.0
            numbers = 0
            for p in range(depth):
                if counted[v, p]:
                    span, start = widths[v, p], starts[c, p]
                    products(v, p, columns, depth, width, span, simple, picked, gradient)
                    for k in range(span):
                        value = gradient[p, k] * slope * free[start + k]
                        gradient[p, k] = value
                        square += value * value
                    numbers += span
            scale = shrinkage(square, numbers, clip)
            if scale == 0.0:
                continue
            scale *= inverse_grid if on_grid else 1.0
            for p in range(depth):
                if counted[v, p]:
                    start = starts[c, p]
                    for k in range(widths[v, p]):
                        value = gradient[p, k] * scale
                        if on_grid:
                            totals[block, start + k] += rounded(value)
                        else:
                            totals[block, start + k] += value
