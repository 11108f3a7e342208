"""Losses: β-divergences d_p for any p ≥ 0, negative binomial counts, and a logit link.

p = 0 is the Euclidean cost ½(x − y)² (Gaussian), p = 1 Kullback–Leibler (Poisson), p = 2
Itakura–Saito (gamma), p = 3 inverse Gaussian; in between, compound Poisson–gamma laws and positive
stable ones. d_p is the β-divergence with β = 2 − p, and ∂d_p(x, y)/∂y = (y − x)·y^(−p).

**Negative binomial** counts have variance y + φ·y²: d(x, y) = x·log(x/y) − (x + r)·log((x + r)/(y
+ r)) with r = 1/φ, and ∂d/∂y = (1 + φx)/(1 + φy) − x/y. For φ → 0 that is Kullback–Leibler.

**A logit link** is for x ∈ [0, 1]: d(x, ψ) = log(1 + e^ψ) − x·ψ, with a real estimate ψ of the log
odds; the expected value is y = 1/(1 + e^(−ψ)), and ∂d/∂ψ = y − x.

A loss travels through compiled code as one number, `loss_code`: p itself; −φ; −∞.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats

__all__ = [
    "LOGIT",
    "NEGATIVE_BINOMIAL",
    "as_power",
    "divergence",
    "expected",
    "loss_code",
    "loss_name",
    "majorisation_powers",
]

# what stands for p where a loss is no β-divergence
NEGATIVE_BINOMIAL, LOGIT = -1.0, -2.0
_NAMES = {
    "euclidean": 0.0,
    "gaussian": 0.0,
    "kl": 1.0,
    "poisson": 1.0,
    "is": 2.0,
    "itakura-saito": 2.0,
    "gamma": 2.0,
    "inverse-gaussian": 3.0,
    "negative-binomial": NEGATIVE_BINOMIAL,
    "logit": LOGIT,
    "bernoulli": LOGIT,
}
_LARGEST = 10.0


def as_power(value: Any) -> float:
    """Return p for a name or a number, or what stands for it.

    >>> as_power("kl"), as_power(0.5), as_power("logit") == LOGIT
    (1.0, 0.5, True)
    """
    if isinstance(value, str):
        if value not in _NAMES:
            raise ParameterError(
                f"divergence must be one of {', '.join(sorted(_NAMES))} or a number p from 0 "
                f"to {_LARGEST:g}, got {value!r}"
            )
        return _NAMES[value]
    if value in (NEGATIVE_BINOMIAL, LOGIT):
        return float(value)
    check("divergence", value, Real(0, _LARGEST))
    return float(value)


def loss_name(power: float) -> str:
    """Return what a loss is called in errors.

    >>> loss_name(LOGIT), loss_name(1.5)
    ("divergence='logit'", 'p = 1.5')
    """
    named = {NEGATIVE_BINOMIAL: "negative-binomial", LOGIT: "logit"}
    return f"divergence={named[power]!r}" if power in named else f"p = {power:g}"


def loss_code(power: float, dispersion: float) -> float:
    """Return the number that stands for a loss in compiled code."""
    if power == NEGATIVE_BINOMIAL:
        return -dispersion
    return -math.inf if power == LOGIT else power


def expected(estimates: Floats, power: float) -> Floats:
    """Return expected values: the estimates themselves, but under a logit link."""
    return np.asarray(special.expit(estimates)) if power == LOGIT else estimates


def divergence(x: Any, y: Any, power: float) -> Floats:
    """Return d(x, y) elementwise, of a loss with that code.

    For p > 0 and counts y > 0; x ≥ 0 for p ≥ 1 and counts (x > 0 for p ≥ 2). Under a logit link y
    is the log odds.

    >>> divergence([1.0, 4.0], [2.0, 4.0], 0.0).tolist()
    [0.5, 0.0]
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    for limit in (1.0, 2.0):  # near these the general formula cancels
        if abs(power - limit) < 1e-9:
            power = limit
    if power == 0.0:
        return np.asarray(0.5 * (x - y) ** 2)
    if power == -math.inf:
        return np.asarray(np.logaddexp(0.0, y) - x * y)
    if power < 0.0:
        r = -1.0 / power
        return np.asarray(special.xlogy(x, x / y) - (x + r) * np.log((x + r) / (y + r)))
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


def majorisation_powers(power: float, times: int = 1) -> tuple[float, float]:
    """Return (s, t): the cost along θ ← u·θ is majorised by A·u^s/s − B·u^t/t.

    A and B are the denominator and numerator of the multiplicative update, and equality holds
    at u = 1. The convex part of d_p is bounded by Jensen's inequality and the concave part by
    its tangent (Févotte & Idier 2011): for p ≤ 1, y^β/β and −x·y^(β−1)/(β−1) are both convex in
    y, which gives s = β, t = β − 1; for p > 1, y^β/β is concave and its tangent gives s = 1. For
    negative binomial counts (x + r)·log(y + r) is concave and −x·log y convex: s = 1, t = 0.

    Costs with different powers add up after one more bound: for s ≤ S, u^s/s ≤ u^S/S + const,
    and for t ≥ T, −u^t/t ≤ −u^T/T + const, with equality at u = 1 (t = 0 stands for log u). So
    the update u = (B/A)^γ with γ = 1/(max s − min t) never increases the sum.

    **A factor that occurs m times in a relation** (``times``) multiplies estimates by a product of
    m such u, of different rows or of one. A mean of powers is at least their product: for s > 0
    and for t < 0, (u₁⋯u_m)^s ≤ (u₁^(ms) + … + u_m^(ms))/m. For t > 0, −u₁⋯u_m/t is at most −(log
    u₁ + … + log u_m) + const, as for t = 0. So every position adds its own A and B, with powers
    m·s and m·min(t, 0): the square root of the usual update for Kullback–Leibler and m = 2.
    """
    beta = 2.0 - power
    s, t = (beta, beta - 1.0) if power <= 1.0 else (1.0, beta - 1.0)
    if power == NEGATIVE_BINOMIAL:
        s, t = 1.0, 0.0
    return (s, t) if times == 1 else (times * s, times * min(t, 0.0))
