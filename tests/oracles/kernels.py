"""NumPy twins of the compiled kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def invert_words_reference(
    words: NDArray[np.uint64],
    high: NDArray[np.uint64],
    tilt0: float,
    tilt1: float,
    curvature: float,
    width: float,
    scale: float,
    offset: float,
    signed: bool,
) -> NDArray[np.float64]:
    """NumPy twin: the real numbers whose floor `_invert_words` takes."""
    u = words >> np.uint64(1)
    k = np.searchsorted(high, u, side="right") - 1
    r = ((u - high[k]).astype(float) + 0.5) / (high[k + 1] - high[k]).astype(float)
    a, x = tilt0 + tilt1 * k, r.copy()
    nodes, weights = np.polynomial.legendre.leggauss(8)

    def integral(upper: NDArray[np.float64]) -> NDArray[np.float64]:
        at = upper[:, None] * (nodes + 1.0) / 2.0
        values = np.exp(-at * (a[:, None] + curvature * at)) @ weights
        return np.asarray(values * upper / 2.0)

    total = integral(np.ones_like(r))
    for _ in range(6):
        x = x - (integral(x) - r * total) * np.exp(x * (a + curvature * x))
    t = scale * width * (k + x)
    if signed:
        t = np.where(words & np.uint64(1), -t, t)
    return np.asarray(t + offset)


def sum_on_grid_reference(
    rows: NDArray[np.float64], scales: NDArray[np.float64], inverse_grid: float
) -> NDArray[np.int64]:
    """NumPy twin of `_sum_on_grid`."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = rows * (scales * inverse_grid)[:, None] + 0.5
        usable = np.where(np.abs(scaled) < 4.0e18, scaled, 0.0)
    return np.asarray(np.floor(usable).astype(np.int64).sum(axis=0))


def square_norms_reference(rows: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """NumPy twin of `_square_norms`."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.square(rows.astype(np.float64)).sum(axis=1))


def round_scaled_reference(
    rows: NDArray[np.floating[Any]], factors: NDArray[np.float64]
) -> NDArray[np.float64]:
    """NumPy twin of `_round_scaled`."""
    with np.errstate(all="ignore"):
        scaled = np.rint(rows.astype(np.float64) * factors[:, None])
    return np.where(factors[:, None] == 0.0, 0.0, scaled)


def round_directions_reference(
    rows: NDArray[np.floating[Any]], one: bool, steps: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """NumPy twin of `_round_directions`."""
    wide = rows.astype(np.float64)
    if one:
        wide = np.concatenate([wide, np.ones((len(wide), 1))], axis=1)
    with np.errstate(all="ignore"):
        lengths = np.sqrt(np.square(wide).sum(axis=1))
        good = (lengths > 0.0) & np.isfinite(lengths)
        scaled = np.rint(wide * (steps / lengths)[:, None])
    return np.where(good[:, None], scaled, 0.0), lengths
