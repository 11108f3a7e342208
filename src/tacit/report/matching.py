"""How far recovered components are from the true ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["matched_error", "matching", "nearest_error"]


def _distances(found: Any, truth: Any) -> NDArray[np.float64]:
    gap = np.asarray(found, float)[:, None, :] - np.asarray(truth, float)[None]
    return np.asarray(np.linalg.norm(gap, axis=2))


def nearest_error(found: Any, truth: Any) -> float:
    """Return the mean distance of every found component to the nearest true one.

    The measure of Imtiaz & Sarwate (2017). It forgives finding one component several times.

    >>> nearest_error([[0, 0], [0, 0]], [[0, 0], [3, 4]])
    0.0
    """
    return float(_distances(found, truth).min(axis=1).mean())


def matching(found: Any, truth: Any) -> NDArray[np.intp]:
    """Return for every true component the found one, each used once, that is nearest overall."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(_distances(found, truth))
    return np.asarray(rows[np.argsort(columns)])


def matched_error(found: Any, truth: Any) -> float:
    """Return the mean distance under the best one-to-one matching.

    >>> matched_error([[0, 0], [0, 0]], [[0, 0], [3, 4]])
    2.5
    """
    order = matching(found, truth)
    return float(np.linalg.norm(np.asarray(found, float)[order] - truth, axis=1).mean())
