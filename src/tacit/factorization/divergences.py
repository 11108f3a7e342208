"""β-divergences d_p and their likelihoods, for any p ∈ [0, 2].

p = 0 is the Euclidean cost ½(x − y)² (Gaussian), p = 1 Kullback–Leibler (Poisson), p = 2
Itakura–Saito (gamma); in between, compound Poisson–gamma laws. d_p is the β-divergence with
β = 2 − p, and ∂d_p(x, y)/∂y = (y − x)·y^(−p).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats

__all__ = ["as_power", "divergence", "majorisation_powers"]

_NAMES = {
    "euclidean": 0.0,
    "gaussian": 0.0,
    "kl": 1.0,
    "poisson": 1.0,
    "is": 2.0,
    "itakura-saito": 2.0,
    "gamma": 2.0,
}


def as_power(value: Any) -> float:
    """Return p for a name or a number.

    >>> as_power("kl"), as_power(0.5)
    (1.0, 0.5)
    """
    if isinstance(value, str):
        if value not in _NAMES:
            raise ParameterError(
                f"divergence must be one of {', '.join(sorted(_NAMES))} or a number in [0, 2], "
                f"got {value!r}"
            )
        return _NAMES[value]
    check("divergence", value, Real(0, 2))
    return float(value)


def divergence(x: Any, y: Any, power: float) -> Floats:
    """Return d_p(x, y) elementwise; y > 0, and x ≥ 0 for p ≥ 1 (x > 0 for p = 2).

    >>> divergence([1.0, 4.0], [2.0, 4.0], 0.0).tolist()
    [0.5, 0.0]
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    for limit in (1.0, 2.0):  # near these the general formula cancels
        if abs(power - limit) < 1e-9:
            power = limit
    if power == 0.0:
        return np.asarray(0.5 * (x - y) ** 2)
    if power == 1.0:
        logs = np.where(x > 0, x * np.log(np.where(x > 0, x, 1.0) / y), 0.0)
        return np.asarray(logs - x + y)
    if power == 2.0:
        ratio = x / y
        return np.asarray(ratio - np.log(ratio) - 1.0)
    beta = 2.0 - power
    return np.asarray(
        x**beta / (beta * (beta - 1.0)) + y**beta / beta - x * y ** (beta - 1.0) / (beta - 1.0)
    )


def majorisation_powers(power: float) -> tuple[float, float]:
    """Return (s, t): the cost along θ ← u·θ is majorised by A·u^s/s − B·u^t/t.

    A and B are the denominator and numerator of the multiplicative update, and equality holds
    at u = 1. The convex part of d_p is bounded by Jensen's inequality and the concave part by
    its tangent (Févotte & Idier 2011): for p ≤ 1, y^β/β and −x·y^(β−1)/(β−1) are both convex in
    y, which gives s = β, t = β − 1; for p > 1, y^β/β is concave and its tangent gives s = 1.

    Costs with different powers add up after one more bound: for s ≤ S, u^s/s ≤ u^S/S + const,
    and for t ≥ T, −u^t/t ≤ −u^T/T + const, with equality at u = 1 (t = 0 stands for log u). So
    the update u = (B/A)^γ with γ = 1/(max s − min t) never increases the sum.
    """
    beta = 2.0 - power
    return (beta, beta - 1.0) if power <= 1.0 else (1.0, beta - 1.0)
