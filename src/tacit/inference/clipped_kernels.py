"""The compiled loops of `tacit.inference.clipped`; their twins are in `clipped_reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable

__all__ = ["FLOOR", "entry_kernel", "owner_kernel", "rows_kernel", "slope_of_loss"]

FLOOR = 1e-100  # positive estimates below this count as this

# -- pieces of the kernels ------------------------------------------------------------------


# They take arrays, not the table: taking an array out of a tuple is counted by atomics.


def _gather_cell(
    c: int, v: int, own_at: int, starts: Any, columns: Any, depth: int, width: int, plain: bool,
    theta: Any, own: Any, picked: Any,
) -> float:  # fmt: skip
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
    v: int, p: int, columns: Any, depth: int, width: int, columns_of: int, plain: bool,
    picked: Any, out: Any,
) -> None:  # fmt: skip
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
    return (x / max(estimate, FLOOR) - 1.0) * weight


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


_gather, _q, _slope_of, _factor, _rounded = (
    register_jitable(f) for f in (_gather_cell, _others, slope_of_loss, _shrink, _round)
)


def entry_kernel(
    first: int, last: int, table: Any, theta: Any, free: Any, counted: Any, clip: float,
    inverse_grid: float, cuts: Any, totals: Any, plain_totals: Any,
) -> None:  # fmt: skip
    """Add up the picked cells' clipped gradients, in blocks ``first`` to ``last`` of cells."""
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    powers, weights = table.powers, table.weights
    widest = max(1, widths.max())
    nothing = np.zeros(1)
    for block in range(first, last):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        gradient = np.empty((starts.shape[1], widest))
        for n in range(cuts[block], cuts[block + 1]):
            c, v = n, kinds[n]
            depth, width, simple = depths[v], sizes[v], plain[v]
            estimate = _gather(
                c, v, -1, starts, columns, depth, width, simple, theta, nothing, picked
            )
            slope = _slope_of(values[c], estimate, powers[v], weights[v])
            square = 0.0
            numbers = 0
            for p in range(depth):
                if counted[v, p]:
                    span, start = widths[v, p], starts[c, p]
                    _q(v, p, columns, depth, width, span, simple, picked, gradient)
                    for k in range(span):
                        value = gradient[p, k] * slope * free[start + k]
                        gradient[p, k] = value
                        square += value * value
                    numbers += span
            scale = _factor(square, numbers, clip)
            if scale == 0.0:
                continue
            if inverse_grid > 0.0:
                scale *= inverse_grid
                for p in range(depth):
                    if counted[v, p]:
                        start = starts[c, p]
                        for k in range(widths[v, p]):
                            totals[block, start + k] += _rounded(gradient[p, k] * scale)
            else:
                for p in range(depth):
                    if counted[v, p]:
                        start = starts[c, p]
                        for k in range(widths[v, p]):
                            plain_totals[block, start + k] += gradient[p, k] * scale


def _ridge_row(
    low: int, high: int, kinds: Any, values: Any, starts: Any, columns: Any, widths: Any,
    depths: Any, sizes: Any, plain: Any, weights: Any, own: Any, theta: Any, free: Any, fixed: Any,
    precision: float, picked: Any, q: Any, normal: Any, row: Any,
) -> None:  # fmt: skip
    """Solve an owner's row: (Σ q qᵀ/φ + λ)·row = Σ q·x/φ, fixed columns held."""
    width = row.shape[0]
    for k in range(width):
        row[k] = 0.0
        for m in range(width):
            normal[k, m] = 0.0
    for c in range(low, high):
        v = kinds[c]
        at = own[v]
        _gather(
            c, v, at, starts, columns, depths[v], sizes[v], plain[v], theta, fixed, picked
        )  # fmt: skip
        _q(v, at, columns, depths[v], sizes[v], widths[v, at], plain[v], picked, q)
        left = values[c]
        for k in range(width):
            left -= (1.0 - free[k]) * q[at, k] * fixed[k]
        for k in range(width):
            scaled = weights[v] * q[at, k]
            row[k] += scaled * left
            for m in range(k + 1):
                normal[k, m] += scaled * q[at, m]
    for k in range(width):
        if free[k] == 0.0:
            row[k] = fixed[k]
        for m in range(k + 1):
            if free[k] == 0.0 or free[m] == 0.0:
                normal[k, m] = 0.0
        normal[k, k] = normal[k, k] + precision if free[k] != 0.0 else 1.0
    # Cholesky, then the two triangular systems
    for k in range(width):
        for m in range(k + 1):
            total = normal[k, m]
            for n in range(m):
                total -= normal[k, n] * normal[m, n]
            normal[k, m] = np.sqrt(max(total, 1e-300)) if k == m else total / normal[m, m]
    for k in range(width):
        total = row[k]
        for n in range(k):
            total -= normal[k, n] * row[n]
        row[k] = total / normal[k, k]
    for k in range(width - 1, -1, -1):
        total = row[k]
        for n in range(k + 1, width):
            total -= normal[n, k] * row[n]
        row[k] = total / normal[k, k]


def _positive_row(
    low: int, high: int, kinds: Any, values: Any, starts: Any, columns: Any, widths: Any,
    depths: Any, sizes: Any, plain: Any, weights: Any, own: Any, theta: Any, free: Any, fixed: Any,
    shape: float, rate: float, steps: int, first: float, picked: Any, q: Any, normal: Any,
    row: Any,
) -> None:  # fmt: skip
    """Take multiplicative steps: row ← (row·Σ (x/x̂)·q/φ + shape − 1) / (Σ q/φ + rate)."""
    width = row.shape[0]
    for k in range(width):
        row[k] = first if free[k] != 0.0 else fixed[k]
    for _ in range(steps):
        for k in range(width):
            normal[k, 0] = 0.0
            normal[k, 1] = rate
        for c in range(low, high):
            v = kinds[c]
            at = own[v]
            estimate = _gather(
                c, v, at, starts, columns, depths[v], sizes[v], plain[v], theta, row, picked
            )
            _q(v, at, columns, depths[v], sizes[v], widths[v, at], plain[v], picked, q)
            ratio = values[c] / max(estimate, FLOOR)
            for k in range(width):
                scaled = q[at, k] * weights[v]
                normal[k, 0] += ratio * scaled
                normal[k, 1] += scaled
        for k in range(width):
            if free[k] != 0.0:
                row[k] = (row[k] * normal[k, 0] + shape - 1.0) / max(normal[k, 1], 1e-100)


_ridge, _positive = register_jitable(_ridge_row), register_jitable(_positive_row)


def rows_kernel(
    first: int, last: int, picks: Any, table: Any, theta: Any, rule: Any, cuts: Any, out: Any
) -> None:
    """Solve the picked owners' rows, in blocks ``first`` to ``last`` of owners."""
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    powers, weights = table.powers, table.weights
    own, ends = table.own, table.owner_starts
    own_free, fixed = rule.free, rule.fixed
    widest = max(2, widths.max())
    for block in range(first, last):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        q = np.empty((starts.shape[1], widest))
        normal = np.empty((widest, widest))
        row = np.empty(own_free.shape[0])
        for n in range(cuts[block], cuts[block + 1]):
            low, high = ends[picks[n]], ends[picks[n] + 1]
            if powers[0] == 0.0:
                _ridge(low, high, kinds, values, starts, columns, widths, depths, sizes, plain,
                       weights, own, theta, own_free, fixed, rule.precision, picked, q, normal,
                       row)  # fmt: skip
            else:
                _positive(low, high, kinds, values, starts, columns, widths, depths, sizes, plain,
                          weights, own, theta, own_free, fixed, rule.shape, rule.rate, rule.steps,
                          rule.start, picked, q, normal, row)  # fmt: skip
            for k in range(row.shape[0]):
                out[n, k] = row[k]


def owner_kernel(
    first: int, last: int, picks: Any, table: Any, theta: Any, free: Any, rule: Any, clip: float,
    inverse_grid: float, cuts: Any, totals: Any, plain_totals: Any,
) -> None:  # fmt: skip
    """Add up the picked owners' clipped gradients, in blocks ``first`` to ``last`` of owners."""
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    powers, weights = table.powers, table.weights
    own, ends = table.own, table.owner_starts
    own_free, fixed = rule.free, rule.fixed
    widest = max(2, widths.max())
    size = theta.shape[0]
    for block in range(first, last):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        q = np.empty((starts.shape[1], widest))
        normal = np.empty((widest, widest))
        row = np.empty(own_free.shape[0])
        gradient = np.empty(size)
        stamp = np.full(size, -1, np.int64)
        touched = np.empty(size + 1, np.int64)
        lengths = np.empty(size + 1, np.int64)
        for n in range(cuts[block], cuts[block + 1]):
            low, high = ends[picks[n]], ends[picks[n] + 1]
            if low == high:
                continue
            if powers[0] == 0.0:
                _ridge(low, high, kinds, values, starts, columns, widths, depths, sizes, plain,
                       weights, own, theta, own_free, fixed, rule.precision, picked, q, normal,
                       row)  # fmt: skip
            else:
                _positive(low, high, kinds, values, starts, columns, widths, depths, sizes, plain,
                          weights, own, theta, own_free, fixed, rule.shape, rule.rate, rule.steps,
                          rule.start, picked, q, normal, row)  # fmt: skip
            rows = 0
            numbers = 0
            for c in range(low, high):
                v = kinds[c]
                depth, width, simple = depths[v], sizes[v], plain[v]
                estimate = _gather(
                    c, v, own[v], starts, columns, depth, width, simple, theta, row, picked
                )
                slope = _slope_of(values[c], estimate, powers[v], weights[v])
                for p in range(depth):
                    if p == own[v]:
                        continue
                    start, span = starts[c, p], widths[v, p]
                    _q(v, p, columns, depth, width, span, simple, picked, q)
                    if stamp[start] != n:
                        stamp[start] = n
                        touched[rows] = start
                        lengths[rows] = span
                        numbers += span
                        rows += 1
                        for k in range(span):
                            gradient[start + k] = slope * q[p, k]
                    else:
                        for k in range(span):
                            gradient[start + k] += slope * q[p, k]
            square = 0.0
            for m in range(rows):
                for k in range(touched[m], touched[m] + lengths[m]):
                    gradient[k] *= free[k]
                    square += gradient[k] * gradient[k]
            scale = _factor(square, numbers, clip)
            if scale == 0.0:
                continue
            if inverse_grid > 0.0:
                scale *= inverse_grid
                for m in range(rows):
                    for k in range(touched[m], touched[m] + lengths[m]):
                        totals[block, k] += _rounded(gradient[k] * scale)
            else:
                for m in range(rows):
                    for k in range(touched[m], touched[m] + lengths[m]):
                        plain_totals[block, k] += gradient[k] * scale
