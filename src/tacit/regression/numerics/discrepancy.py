"""How far two sets of draws are apart: the maximum mean discrepancy of the thesis's Figure 7.3."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.errors import ParameterError

__all__ = ["mmd"]

_PIECE = 1 << 22  # of numbers of a kernel matrix at once


def mmd(one: Any, two: Any) -> float:
    """Return the squared maximum mean discrepancy of two sets of draws, kernel exp(−‖x − y‖²/2).

    Unbiased: zero on average where both sets have one law, and so it may be negative (Gretton et
    al. 2012; Alparslan 2023, section 7.2, whose kernel this is).

    Parameters
    ----------
    one, two
        Draws, (count, d) each, or (count,) of one number; they need not be as many.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> same = mmd(rng.normal(size=(400, 2)), rng.normal(size=(300, 2)))
    >>> apart = mmd(rng.normal(size=(400, 2)), rng.normal(1.0, 1.0, size=(300, 2)))
    >>> bool(abs(same) < 0.02 < 0.1 < apart)
    True
    """
    first, second = _draws(one, "one"), _draws(two, "two")
    if first.shape[1] != second.shape[1]:
        raise ParameterError(
            "one and two must have draws of one length, got "
            f"{first.shape[1]} and {second.shape[1]}"
        )
    n, m = len(first), len(second)
    inside = (_total(first, first) - n) / (n * (n - 1))
    inside += (_total(second, second) - m) / (m * (m - 1))
    return float(inside - 2.0 * _total(first, second) / (n * m))


def _draws(values: Any, name: str) -> Array:
    found = np.asarray(values, float)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or len(found) < 2 or not np.isfinite(found).all():
        raise ParameterError(f"{name} must hold two draws at least, (count, d), all finite")
    return found


def _total(one: Array, two: Array) -> float:
    """Return the sum of the kernel over all pairs."""
    squares, total = np.square(two).sum(axis=1), 0.0
    step = max(1, _PIECE // len(two))
    for start in range(0, len(one), step):
        part = one[start : start + step]
        gaps = np.square(part).sum(axis=1)[:, None] + squares - 2.0 * part @ two.T
        total += float(np.exp(-0.5 * np.maximum(gaps, 0.0)).sum())
    return total
