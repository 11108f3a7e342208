"""Metrics: of predictions, and of how far recovered components are from the true ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special, stats

from tacit._core.check import Integer, check
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "auc",
    "mae",
    "matched_error",
    "matching",
    "nearest_error",
    "poisson_log_likelihood",
    "precision_at_k",
    "rmse",
]


def _pair(truth: Any, predicted: Any) -> tuple[Any, Any]:
    x, y = np.asarray(truth, np.float64), np.asarray(predicted, np.float64)
    if x.shape != y.shape or not x.size:
        raise ParameterError(f"truth and prediction must have one shape, got {x.shape}, {y.shape}")
    return x, y


def rmse(truth: Any, predicted: Any) -> float:
    """Return the root mean squared error.

    >>> rmse([1, 2], [1, 4]) == 2**0.5
    True
    """
    x, y = _pair(truth, predicted)
    return float(np.sqrt(np.mean((x - y) ** 2)))


def mae(truth: Any, predicted: Any) -> float:
    """Return the mean absolute error."""
    x, y = _pair(truth, predicted)
    return float(np.mean(np.abs(x - y)))


def auc(labels: Any, scores: Any) -> float:
    """Return the probability that a positive scores above a negative, ties counting half.

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    y, s = _pair(labels, scores)
    positive = y > 0
    n, m = int(positive.sum()), int((~positive).sum())
    if not n or not m:
        raise ParameterError("AUC needs at least one positive and one negative")
    ranks = stats.rankdata(s)
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def precision_at_k(labels: Any, scores: Any, k: int) -> float:
    """Return the share of positives among the k highest scores.

    >>> precision_at_k([1, 0, 1], [0.9, 0.8, 0.1], 2)
    0.5
    """
    check("k", k, Integer(1))
    y, s = _pair(labels, scores)
    top = np.argsort(-s, kind="stable")[:k]
    return float((y[top] > 0).mean())


def poisson_log_likelihood(counts: Any, rates: Any) -> float:
    """Return the mean log-likelihood of counts under Poisson rates."""
    x, y = _pair(counts, rates)
    return float(np.mean(special.xlogy(x, y) - y - special.gammaln(x + 1.0)))


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
