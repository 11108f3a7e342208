"""Whether two fits found the same: components matched, or predictions compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from tacit.factorization.arrays import Factors, Floats

__all__ = ["agreement_of_fits", "factor_match"]


def factor_match(first: Factors, second: Factors) -> float:
    """Return how well the components of two CP models agree: 1 up to order, signs and sizes.

    The mean over optimally matched components of the product over factors of absolute cosines
    (Acar et al. 2011), times one minus the relative difference of their weights. Components that
    one model has more count as unmatched.

    >>> a = {"u": np.eye(3)[:, :2], "v": np.eye(4)[:, :2]}
    >>> round(factor_match(a, {"u": 2 * a["u"][:, ::-1], "v": -0.5 * a["v"][:, ::-1]}), 6)
    1.0
    """
    (unit_a, weights_a), (unit_b, weights_b) = _normal(first), _normal(second)
    cosines = np.ones((len(weights_a), len(weights_b)))
    for name, table in unit_a.items():
        cosines *= np.abs(table.T @ unit_b[name])
    larger = np.maximum(np.maximum.outer(weights_a, weights_b), 1e-300)
    score = cosines * (1.0 - np.abs(np.subtract.outer(weights_a, weights_b)) / larger)
    rows, columns = linear_sum_assignment(-score)
    return float(score[rows, columns].sum() / max(score.shape))


def _normal(factors: Factors) -> tuple[dict[str, Floats], Floats]:
    """Return factors with columns of length one, and the product of the lengths."""
    lengths = {n: np.maximum(np.linalg.norm(a, axis=0), 1e-300) for n, a in factors.items()}
    weights = np.prod(list(lengths.values()), axis=0)
    return {n: a / lengths[n] for n, a in factors.items()}, weights


def agreement_of_fits(first: Any, second: Any, data: Any) -> float:
    """Return how alike two fits of one model are, from 0 to 1.

    Of forms over one latent index that is `factor_match`; factors of others turn without any
    prediction changing, as draws of a chain do along the way, so that predictions are compared:
    one minus the mean square of their differences over their own variance.
    """
    bound = first._bound
    one = {spec.latents for spec in bound.factors.values()}
    if len(one) == 1 and len(one.pop()) == 1 and first.inference in ("map", "vb"):
        return factor_match(first._flat_means(), second._flat_means())
    shares = []
    for relation in bound.relations:
        cells = data[relation.name].indices
        if len(cells):
            a, b = (fit.predict(relation.name, cells, positions=True) for fit in (first, second))
            spread = max(float(np.var(a) + np.var(b)) / 2.0, 1e-300)
            shares.append(max(0.0, 1.0 - float(np.mean((a - b) ** 2)) / spread))
    return float(np.mean(shares)) if shares else float("nan")
