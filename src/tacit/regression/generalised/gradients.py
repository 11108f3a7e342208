"""Sums of gradients that are weighted, clipped and rounded row by row.

For a row x, mapped to [−1, 1], a request gives a frame F and coefficients v: u = F·(1, x) and
η = v·u. With the weight w = min(1, 1/‖u‖), the mean μ(η) and a residual ρ = (μ − y)/R clipped to
[−1, 1] the row contributes

    s·(ρ·w·u,  h·w²‖u‖²,  h·w²(d·u)²,  k·ρ²),   with k = 0 for a response without dispersion,

where d is the direction of v without its intercept. What follows the gradient says how long rows
are, how far they spread along v, and how much counts vary.

**How far one row moves the sum.** ‖w·u‖ ≤ 1, ‖d‖ ≤ 1 and |ρ| ≤ 1 whatever the request is, so the
squared length is at most s²(1 + 2h² + k²); s is chosen so that this is 1, less what rounding
needs. u is finite because its request is in range, and one that were not counts as nothing.

**Rounding.** Each number is rounded to the grid by floor(x/g + ½), which moves a row of m numbers
by at most g·√m/2, so rows are scaled to 1 − g·√m first: the rounded row is no longer than 1, and k
rows of a person are no longer than k. Everything about a row is computed from that row and the
request, one after the other, in the same order whatever rows stand beside it: no product of
matrices, whose last bits depend on how many rows are multiplied at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.kernels import compiled
from tacit.mechanisms.grid import Grid, GridSum, wide_sum

__all__ = [
    "DISPERSION",
    "LENGTH",
    "framed",
    "gradient_rows_reference",
    "gradient_sum",
    "numbers",
    "unit",
]

LENGTH = 0.3  # h
DISPERSION = 0.5  # k, of counts
_ROOM = 1.0 - 2.0**-40  # what the errors of floating-point sums and roots may add


def numbers(size: int, link: str) -> int:
    """Return how many numbers a row contributes, for so many coefficients."""
    return size + (3 if link == "poisson" else 2)


def unit(grid: Grid, size: int, link: str) -> float:
    """Return the factor s of every row's contribution.

    >>> round(unit(Grid(-40), 5, "logistic"), 4)
    0.9206
    """
    dispersion = DISPERSION if link == "poisson" else 0.0
    room = 1.0 - grid.step * math.sqrt(numbers(size, link))
    return _ROOM * room / math.sqrt(1.0 + 2.0 * LENGTH**2 + dispersion**2)


def direction(coefficients: Array) -> Array:
    """Return the direction of slopes; nothing where they are zero.

    >>> direction(np.array([7.0, 3.0, 4.0])).round(6).tolist()
    [0.0, 0.6, 0.8]
    """
    slopes = np.concatenate([[0.0], coefficients[1:]])
    length = float(np.linalg.norm(slopes))
    # a length that is too small to divide by leaves nothing, and rounding no more than one
    return np.asarray(slopes / (length * (1.0 + 2.0**-45))) if length > 1e-150 else 0.0 * slopes


def framed(x: Array, frame: NDArray[np.float64]) -> Array:
    """Return u = F·(1, x) of every row."""
    found = np.empty((len(x), len(frame)))
    compiled(_framed, reassociate=True, unchecked=True)(x, np.ascontiguousarray(frame), found)
    return found


def gradient_sum(
    rows: Iterable[tuple[Array, Array]],
    coefficients: NDArray[np.float64],
    residual: float,
    link: str,
    top: float,
    grid: Grid,
) -> GridSum:
    """Return the sum of all rows' contributions.

    Parameters
    ----------
    rows
        Pieces (u, y): rows in the frame, and their responses.
    coefficients, residual
        v and R of a request.
    link, top
        The link, and the largest response.
    grid
        To which every number is rounded.
    """
    counts = link == "poisson"
    size = len(coefficients)
    parts = []
    kernel = compiled(_gradient_rows, reassociate=True, unchecked=True)
    for u, y in rows:
        total = np.zeros(numbers(size, link), np.int64)
        kernel(
            u,
            y,
            np.ascontiguousarray(coefficients),
            direction(coefficients),
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


def _framed(x: Any, frame: Any, out: Any) -> None:
    """Write every row in the frame."""
    rows, features = x.shape
    for i in range(rows):
        for j in range(frame.shape[0]):
            found = frame[j, 0]
            for k in range(features):
                found += frame[j, k + 1] * x[i, k]
            out[i, j] = found


def _gradient_rows(
    rows: Any,
    y: Any,
    coefficients: Any,
    along: Any,
    inverse: float,
    counts: bool,
    far: float,
    steps: float,
    length: float,
    dispersion: float,
    total: Any,
) -> None:
    """Add every row's contribution, in steps of the grid."""
    size = len(coefficients)
    for i in range(len(y)):
        squares = 0.0
        eta = 0.0
        part = 0.0
        for j in range(size):
            squares += rows[i, j] * rows[i, j]
            part += along[j] * rows[i, j]
            eta += coefficients[j] * rows[i, j]
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
            total[j] += np.int64(np.floor(rows[i, j] * factor + 0.5))
        whole = min(squares * weight * weight, 1.0)
        total[size] += np.int64(np.floor(steps * length * whole + 0.5))
        own = min(part * part * weight * weight, whole)
        total[size + 1] += np.int64(np.floor(steps * length * own + 0.5))
        if counts:
            total[size + 2] += np.int64(np.floor(steps * dispersion * rest * rest + 0.5))


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
    own = (u @ direction(coefficients)) * weights
    parts = [u * (weights * rest)[:, None], LENGTH * np.minimum(norms * weights, 1.0) ** 2]
    parts.append(LENGTH * own**2)
    return np.column_stack([*parts, *([DISPERSION * rest**2] if counts else [])])
