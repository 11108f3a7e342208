"""The compiled loops of `clipped_gradients` where a whole owner is clipped."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.factorization.langevin.numerics.clipped_loops import (
    FLOOR,
    gather,
    products,
    rounded,
    shrinkage,
    slope_at,
    widest_of,
)

__all__ = ["owner_kernel", "positive_kernel", "ridge_kernel"]


def ridge_kernel(
    first: int, last: int, picks: Any, table: Any, theta: Any, rule: Any, cuts: Any, out: Any
) -> None:
    """Solve the picked owners' rows: (Σ q qᵀ/φ + λ)·row = Σ q·x/φ, fixed columns held."""
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    weights, own, ends = table.weights, table.own, table.owner_starts
    free, fixed, width = rule.free, rule.fixed, out.shape[1]
    widest = widest_of(widths)
    for block in range(first, last):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        q = np.empty((starts.shape[1], widest))
        normal = np.empty((widest, widest))
        row = np.empty(width)
        for n in range(cuts[block], cuts[block + 1]):
            for k in range(width):
                row[k] = 0.0
                for m in range(width):
                    normal[k, m] = 0.0
            for c in range(ends[picks[n]], ends[picks[n] + 1]):
                v = kinds[c]
                at = own[v]
                depth, size, simple = depths[v], sizes[v], plain[v]
                gather(c, v, at, starts, columns, depth, size, simple, theta, fixed, picked)
                products(v, at, columns, depth, size, widths[v, at], simple, picked, q)
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
                normal[k, k] = normal[k, k] + rule.precision if free[k] != 0.0 else 1.0
            # Cholesky, then the two triangular systems
            for k in range(width):
                for m in range(k + 1):
                    total = normal[k, m]
                    for j in range(m):
                        total -= normal[k, j] * normal[m, j]
                    normal[k, m] = (
                        np.sqrt(1e-300 if total < 1e-300 else total)
                        if k == m
                        else total / normal[m, m]
                    )
            for k in range(width):
                total = row[k]
                for j in range(k):
                    total -= normal[k, j] * row[j]
                row[k] = total / normal[k, k]
            for k in range(width - 1, -1, -1):
                total = row[k]
                for j in range(k + 1, width):
                    total -= normal[j, k] * row[j]
                row[k] = total / normal[k, k]
            for k in range(width):
                out[n, k] = row[k]


def positive_kernel(
    first: int, last: int, picks: Any, table: Any, theta: Any, rule: Any, cuts: Any, out: Any
) -> None:
    """Take owners' multiplicative steps: row ← (row·Σ (x/x̂)·q/φ + shape − 1) / (Σ q/φ + rate)."""
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    weights, own, ends = table.weights, table.own, table.owner_starts
    free, fixed, width = rule.free, rule.fixed, out.shape[1]
    widest = widest_of(widths)
    for block in range(first, last):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        q = np.empty((starts.shape[1], widest))
        normal = np.empty((widest, widest))
        row = np.empty(width)
        for n in range(cuts[block], cuts[block + 1]):
            for k in range(width):
                row[k] = rule.start if free[k] != 0.0 else fixed[k]
            for _ in range(rule.steps):
                for k in range(width):
                    normal[k, 0] = 0.0
                    normal[k, 1] = rule.rate
                for c in range(ends[picks[n]], ends[picks[n] + 1]):
                    v = kinds[c]
                    at = own[v]
                    depth, size, simple = depths[v], sizes[v], plain[v]
                    estimate = gather(
                        c, v, at, starts, columns, depth, size, simple, theta, row, picked
                    )
                    products(v, at, columns, depth, size, widths[v, at], simple, picked, q)
                    ratio = values[c] / (FLOOR if estimate < FLOOR else estimate)
                    for k in range(width):
                        scaled = q[at, k] * weights[v]
                        normal[k, 0] += ratio * scaled
                        normal[k, 1] += scaled
                for k in range(width):
                    if free[k] != 0.0:
                        grown = row[k] * normal[k, 0] + rule.shape - 1.0
                        row[k] = grown / (1e-100 if normal[k, 1] < 1e-100 else normal[k, 1])
            for k in range(width):
                out[n, k] = row[k]


def owner_kernel(
    first: int,
    last: int,
    picks: Any,
    table: Any,
    theta: Any,
    free: Any,
    rows: Any,
    clip: float,
    inverse_grid: float,
    cuts: Any,
    totals: Any,
) -> None:
    """Add up the picked owners' clipped gradients, in blocks ``first`` to ``last`` of owners."""
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    powers, weights, own, ends = table.powers, table.weights, table.own, table.owner_starts
    widest = widest_of(widths)
    size, on_grid = theta.shape[0], inverse_grid > 0.0
    for block in range(first, last):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        q = np.empty((starts.shape[1], widest))
        row = np.empty(rows.shape[1])
        gradient = np.empty(size)
        stamp = np.full(size, -1, np.int64)
        touched = np.empty(size + 1, np.int64)
        lengths = np.empty(size + 1, np.int64)
        for n in range(cuts[block], cuts[block + 1]):
            low, high = ends[picks[n]], ends[picks[n] + 1]
            if low == high:
                continue
            for k in range(row.shape[0]):
                row[k] = rows[n, k]
            count = 0
            numbers = 0
            for c in range(low, high):
                v = kinds[c]
                depth, width, simple = depths[v], sizes[v], plain[v]
                estimate = gather(
                    c, v, own[v], starts, columns, depth, width, simple, theta, row, picked
                )
                slope = slope_at(values[c], estimate, powers[v], weights[v])
                for p in range(depth):
                    if p == own[v]:
                        continue
                    start, span = starts[c, p], widths[v, p]
                    products(v, p, columns, depth, width, span, simple, picked, q)
                    if stamp[start] != n:
                        stamp[start] = n
                        touched[count] = start
                        lengths[count] = span
                        numbers += span
                        count += 1
                        for k in range(span):
                            gradient[start + k] = slope * q[p, k]
                    else:
                        for k in range(span):
                            gradient[start + k] += slope * q[p, k]
            square = 0.0
            for m in range(count):
                for k in range(touched[m], touched[m] + lengths[m]):
                    gradient[k] *= free[k]
                    square += gradient[k] * gradient[k]
            scale = shrinkage(square, numbers, clip)
            if scale == 0.0:
                continue
            scale *= inverse_grid if on_grid else 1.0
            for m in range(count):
                for k in range(touched[m], touched[m] + lengths[m]):
                    if on_grid:
                        totals[block, k] += rounded(gradient[k] * scale)
                    else:
                        totals[block, k] += gradient[k] * scale
