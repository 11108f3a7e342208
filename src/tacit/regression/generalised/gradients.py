"""Sums of gradients that are weighted, clipped and rounded row by row.

For a row x, mapped to [−1, 1], a request gives a frame F and coefficients v: u = F·(1, x) and
η = v·u. With the weight w = min(1, 1/‖u‖), the mean μ(η) and a residual ρ = (μ − y)/R clipped to
[−1, 1] the row contributes

    s·(ρ·w·u,  h·w²‖u‖²,  k·ρ²),   with k = 0 for a response that has no dispersion.

**How far one row moves the sum.** ‖w·u‖ ≤ 1 and |ρ| ≤ 1 whatever the request is, so the squared
length is at most s²(1 + h² + k²); s is chosen so that this is 1, less what rounding needs. u is
finite because its request is in range, and a number that were not counts as nothing.

**Rounding.** Each number is rounded to the grid by floor(x/g + ½), which moves a row of m numbers
by at most g·√m/2, so rows are scaled to 1 − g·√m first: the rounded row is no longer than 1, and k
rows of a person are no longer than k. Everything about a row is computed from that row and the
request, one after the other, in the same order whatever rows stand beside it: no product of
matrices, whose last bits depend on how many rows are multiplied at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.kernels import compiled
from tacit.mechanisms.grid import Grid, GridSum, pieces, wide_sum

__all__ = ["DISPERSION", "LENGTH", "gradient_rows_reference", "gradient_sum", "numbers", "unit"]

LENGTH = 0.3  # h
DISPERSION = 0.5  # k, of counts
_ROOM = 1.0 - 2.0**-40  # what the errors of floating-point sums and roots may add


def numbers(size: int, link: str) -> int:
    """Return how many numbers a row contributes, for so many coefficients."""
    return size + (2 if link == "poisson" else 1)


def unit(grid: Grid, size: int, link: str) -> float:
    """Return the factor s of every row's contribution.

    >>> round(unit(Grid(-40), 5, "logistic"), 4)
    0.9578
    """
    dispersion = DISPERSION if link == "poisson" else 0.0
    room = 1.0 - grid.step * math.sqrt(numbers(size, link))
    return _ROOM * room / math.sqrt(1.0 + LENGTH**2 + dispersion**2)


def gradient_sum(
    x: Array,
    y: Array,
    frame: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    residual: float,
    link: str,
    top: float,
    grid: Grid,
) -> GridSum:
    """Return the sum of all rows' contributions.

    Parameters
    ----------
    x, y
        Features in [−1, 1] and responses.
    frame, coefficients, residual
        F, v and R of a request.
    link, top
        The link, and the largest response.
    grid
        To which every number is rounded.
    """
    counts = link == "poisson"
    size = len(coefficients)
    parts = []
    kernel = compiled(_gradient_rows, reassociate=True, unchecked=True)
    for part in pieces(len(y)):
        total = np.zeros(numbers(size, link), np.int64)
        kernel(
            x[part],
            y[part],
            np.ascontiguousarray(frame),
            np.ascontiguousarray(coefficients),
            1.0 / residual,
            counts,
            math.log(top) if counts else 0.0,
            unit(grid, size, link) * math.ldexp(1.0, -grid.exponent),
            LENGTH,
            DISPERSION,
            total,
        )
        parts.append(total)
    return GridSum(wide_sum(parts), grid)


def _gradient_rows(
    x: Any,
    y: Any,
    frame: Any,
    coefficients: Any,
    inverse: float,
    counts: bool,
    far: float,
    steps: float,
    length: float,
    dispersion: float,
    total: Any,
) -> None:
    """Add every row's contribution, in steps of the grid."""
    rows, features = x.shape
    size = len(coefficients)
    u = np.empty(size)
    for i in range(rows):
        squares = 0.0
        eta = 0.0
        for j in range(size):
            found = frame[j, 0]
            for k in range(features):
                found += frame[j, k + 1] * x[i, k]
            u[j] = found
            squares += found * found
            eta += coefficients[j] * found
        if not (squares < np.inf and abs(eta) < np.inf):
            continue
        weight = 1.0
        if squares > 1.0:
            weight = 1.0 / np.sqrt(squares)
        if counts:
            mean = np.exp(min(eta, far))
        elif eta >= 0.0:
            mean = 1.0 / (1.0 + np.exp(-eta))
        else:
            mean = 1.0 - 1.0 / (1.0 + np.exp(eta))
        rest = min(max((mean - y[i]) * inverse, -1.0), 1.0)
        factor = steps * weight * rest
        for j in range(size):
            total[j] += np.int64(np.floor(u[j] * factor + 0.5))
        whole = min(squares * weight * weight, 1.0)
        total[size] += np.int64(np.floor(steps * length * whole + 0.5))
        if counts:
            total[size + 1] += np.int64(np.floor(steps * dispersion * rest * rest + 0.5))


def gradient_rows_reference(
    x: Array, y: Array, frame: Array, coefficients: Array, residual: float, link: str, top: float
) -> Array:
    """Return every row's contribution before it is rounded and scaled by s, by NumPy."""
    u = np.column_stack([np.ones(len(x)), x]) @ frame.T
    norms = np.linalg.norm(u, axis=1)
    weights = 1.0 / np.maximum(norms, 1.0)
    eta = u @ coefficients
    counts = link == "poisson"
    with np.errstate(over="ignore"):
        mean = np.exp(np.minimum(eta, math.log(top))) if counts else 1.0 / (1.0 + np.exp(-eta))
    rest = np.clip((mean - y) / residual, -1.0, 1.0)
    parts = [u * (weights * rest)[:, None], LENGTH * np.minimum(norms * weights, 1.0) ** 2]
    return np.column_stack([*parts, *([DISPERSION * rest**2] if counts else [])])
