"""Factors as people handle them: named arrays with a shape, compared, aligned and kept.

Inference works on two-axis arrays (rows, latent combinations); here a factor has one axis for
its entity and one for each latent index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["factor_match_score", "normalise_columns"]


def normalise_columns(
    factors: Mapping[str, Any],
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Return weights and factors with columns of unit length, heaviest component first.

    For CP models: every factor has shape (rows, rank).
    """
    arrays = {name: np.asarray(values, np.float64) for name, values in factors.items()}
    ranks = {array.shape[1] for array in arrays.values() if array.ndim == 2}
    if len(ranks) != 1 or any(array.ndim != 2 for array in arrays.values()):
        raise ParameterError("factors must be matrices with the same number of columns")
    weights = np.ones(ranks.pop())
    unit = {}
    for name, array in arrays.items():
        lengths = np.linalg.norm(array, axis=0)
        unit[name] = array / np.where(lengths > 0, lengths, 1.0)
        weights = weights * lengths
    order = np.argsort(-weights)
    return weights[order], {name: array[:, order] for name, array in unit.items()}


def factor_match_score(first: Mapping[str, Any], second: Mapping[str, Any]) -> float:
    """Return how well two CP models agree: 1 if equal up to scale and order of components.

    The mean over optimally matched components of the product over factors of the absolute
    cosines (Acar et al. 2011), with the smaller over the larger weight as a further factor.

    >>> a = {"u": np.eye(3)[:, :2], "v": np.eye(4)[:, :2]}
    >>> float(round(factor_match_score(a, {"u": a["u"][:, ::-1], "v": a["v"][:, ::-1]}), 6))
    1.0
    """
    if set(first) != set(second):
        raise ParameterError("the two models must have the same factors")
    (weights_a, unit_a), (weights_b, unit_b) = normalise_columns(first), normalise_columns(second)
    cosines = np.ones((len(weights_a), len(weights_b)))
    for name in unit_a:
        cosines *= np.abs(unit_a[name].T @ unit_b[name])
    larger = np.maximum.outer(weights_a, weights_b)
    penalty = 1.0 - np.abs(np.subtract.outer(weights_a, weights_b)) / np.where(
        larger > 0, larger, 1
    )
    score = penalty * cosines
    rows, columns = linear_sum_assignment(-score)
    return float(score[rows, columns].mean())
