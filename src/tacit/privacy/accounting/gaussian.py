"""Exact formulas of the Gaussian mechanism, and conversions between notions of privacy.

μ-GDP is what Gaussian noise with standard deviation Δ/μ gives; ρ-zCDP bounds Rényi
divergences by ρ·α. All conversions to (ε, δ) are upper bounds; the Gaussian ones are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, special

from tacit._core.check import Real, check
from tacit.errors import NotCertified

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "dp_to_gdp",
    "dp_to_zcdp",
    "gdp_delta",
    "gdp_deltas",
    "gdp_to_dp",
    "gdp_to_zcdp",
    "inverse_square",
    "pure_to_gdp",
    "pure_to_zcdp",
    "solve_decreasing",
    "zcdp_delta",
    "zcdp_to_dp",
]

_CLOSE = 0.01  # μ below which Mills ratios a and b are too close to be subtracted
_ROUNDING = 1e-11  # relative, of a δ
_EPSILON = Real(0, allow_inf=True)
_DELTA = Real(0, 1, open_low=True, open_high=True)


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the smallest δ for which a μ-GDP mechanism is (ε, δ)-private.

    δ = Φ(−a) − e^ε·Φ(−b) with a = ε/μ − μ/2 and b = ε/μ + μ/2 (Balle & Wang 2018). Since
    b² − a² = 2ε, e^ε·φ(b) = φ(a), so δ = φ(a)·(R(a) − R(b)) with R the Mills ratio, which
    does not cancel in the tail.

    >>> round(gdp_delta(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    return float(gdp_deltas(mu, np.array([epsilon]))[0])


def gdp_deltas(mu: float, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `gdp_delta` for many ε at once, which may be negative; 0 < μ < ∞."""
    a, b = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    # below −5 the Mills ratio overflows, and nothing cancels there
    direct = special.ndtr(-a) - np.exp(np.minimum(epsilon, 700.0) + special.log_ndtr(-b))
    safe = np.minimum(np.maximum(a, -5.0), 1e100)
    mills = special.erfcx(safe / math.sqrt(2.0)) - special.erfcx(
        np.maximum(b, safe) / math.sqrt(2.0)
    )
    if mu < _CLOSE:  # R(a) − R(b) = ∫ (1 − x·R(x)) dx, by three nodes: nothing cancels
        mills = np.zeros_like(safe)
        for node, weight in (
            (-math.sqrt(0.6), 5.0 / 18.0),
            (0.0, 8.0 / 18.0),
            (math.sqrt(0.6), 5.0 / 18.0),
        ):
            x = safe + mu * (0.5 + 0.5 * node)
            ratio = math.sqrt(math.pi / 2.0) * special.erfcx(x / math.sqrt(2.0))
            mills += weight * mu * math.sqrt(2.0 / math.pi) * np.maximum(1.0 - x * ratio, 0.0)
    tail = 0.5 * np.exp(-safe * safe / 2.0) * mills
    return np.asarray(np.clip(np.where(a < -5.0, direct, tail) * (1.0 + _ROUNDING), 0.0, 1.0))


def solve_decreasing(
    function: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    *,
    tolerance: float = 1e-12,
    enough: float = 1e-300,
) -> float:
    """Return the smallest x with function(x) ≤ target, up to a relative tolerance from above.

    ``function`` decreases; ``low`` and ``high`` are positive guesses and are widened as needed.
    The search works on logarithms, where costs are nearly linear in noise, and the answer is
    always checked to satisfy the target, so that a bound stays a bound. No x is looked at twice.
    Where the function is nought at no more than ``enough``, no smaller x is looked for.
    """
    function = cache(function)
    if not 0.0 < low <= high < math.inf:
        raise NotCertified("no search can begin there: ε or δ is beyond the range of numbers")
    step = 2.0  # grows, so that a root that is far away is bracketed soon
    while function(high) > target:
        if high >= 1e300:
            raise NotCertified("no finite amount of noise reaches the target")
        low, high, step = high, min(high * step, 1e300), min(step * step, 1e20)
    step = 2.0
    while function(low) <= target:
        if low <= 1e-300 or (low <= enough and function(low) == 0.0):
            return low
        high, low, step = low, max(low / step, 1e-300), min(step * step, 1e20)

    ends = {math.log(low): low, math.log(high): high}

    def excess(log_x: float) -> float:
        value = function(ends.get(log_x, math.exp(log_x)))
        # what is far below the target, or nought, is simply below
        value = min(max(value, 1e-3 * target, 1e-300), 1e300)
        return math.log(value) - math.log(max(target, 1e-300))

    if len(ends) == 1:  # nothing lies between them
        return high
    found = optimize.toms748(excess, *sorted(ends), xtol=tolerance, rtol=4e-15, maxiter=200)
    root = ends.get(found, math.exp(found))
    step = tolerance
    while function(root) > target:
        root, step = root * (1.0 + step), step * 2.0
    return min(root, high)


def gdp_to_dp(mu: float, delta: float) -> float:
    """Return the smallest ε for which a μ-GDP mechanism is (ε, δ)-private.

    >>> round(gdp_to_dp(1.0, 1e-5), 3)
    4.377
    """
    check("mu", mu, Real(0, allow_inf=True))
    check("delta", delta, _DELTA)
    if math.isinf(mu):
        return math.inf
    # Chernoff: μ²/2 + μ·sqrt(2·ln(1/δ)) always suffices
    high = mu * mu / 2.0 + mu * math.sqrt(-2.0 * math.log(delta))
    if mu > 1e6:  # no need to be exact about no privacy
        return high
    if mu < 1e-150 or gdp_delta(mu, 0.0) <= delta:
        return 0.0
    return solve_decreasing(lambda epsilon: gdp_delta(mu, epsilon), delta, high / 2.0, high)


def dp_to_gdp(epsilon: float, delta: float) -> float:
    """Return the largest μ for which μ-GDP implies (ε, δ).

    >>> round(1 / dp_to_gdp(1.0, 1e-4), 2)
    3.19
    """
    check("epsilon", epsilon, _EPSILON)
    check("delta", delta, _DELTA)
    if math.isinf(epsilon):
        return math.inf
    if max(epsilon, delta) < 1e-290:  # δ(0) < 0.4·μ
        return delta
    # noise 1/μ: classical calibration sqrt(2·ln(1.25/δ))/ε is a fair start
    start = math.sqrt(2.0 * (math.log(1.25) - math.log(delta))) / max(epsilon, 1e-9)
    return 1.0 / solve_decreasing(
        lambda noise: gdp_delta(1.0 / noise, epsilon), delta, start / 2.0, start
    )


def inverse_square(noise: float) -> float:
    """Return 1/noise² without raising where it overflows or vanishes."""
    inverse = 1.0 / noise
    return inverse * inverse


def gdp_to_zcdp(mu: float) -> float:
    """Return ρ = μ²/2: a Gaussian mechanism is exactly that concentrated."""
    return mu * mu / 2.0


def pure_to_zcdp(epsilon: float) -> float:
    """Return ρ = ε²/2 (Bun & Steinke 2016, Proposition 1.4)."""
    return epsilon * epsilon / 2.0


def pure_to_gdp(epsilon: float) -> float:
    """Return the smallest μ for which every ε-private mechanism is μ-GDP.

    The worst ε-private mechanism is binary randomized response; its trade-off curve touches
    that of N(0, 1) against N(μ, 1) at the fixed point 1/(1 + e^ε) = Φ(−μ/2).
    """
    return float(-2.0 * special.ndtri(1.0 / (1.0 + math.exp(min(epsilon, 700.0)))))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return a δ for which ρ-zCDP implies (ε, δ), minimised over the Rényi order.

    δ = exp((α−1)(αρ − ε)) / (α−1) · (1 − 1/α)^α (Canonne, Kamath & Steinke 2020, Prop. 12).
    """
    if rho == 0.0:
        return 0.0

    def log_delta(log_order: float) -> float:
        excess = math.exp(log_order)  # α − 1
        alpha = 1.0 + excess
        return (
            excess * (alpha * rho - epsilon) - math.log(excess) + alpha * math.log1p(-1.0 / alpha)
        )

    best = max((epsilon - rho) / (2.0 * rho), 1e-3)
    found = optimize.minimize_scalar(
        log_delta, bounds=(math.log(best) - 6.0, math.log(best) + 3.0), method="bounded"
    )
    return float(min(1.0, math.exp(min(0.0, found.fun))))


def zcdp_to_dp(rho: float, delta: float) -> float:
    """Return an ε for which ρ-zCDP implies (ε, δ), with the best Rényi order.

    >>> zcdp_to_dp(0.5, 1e-5) < 0.5 + 2 * (0.5 * math.log(1e5)) ** 0.5
    True
    """
    check("rho", rho, Real(0, allow_inf=True))
    check("delta", delta, _DELTA)
    if rho == 0.0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    high = rho + 2.0 * math.sqrt(-rho * math.log(delta))  # Bun & Steinke 2016, Prop. 1.3
    return min(
        high, solve_decreasing(lambda epsilon: zcdp_delta(rho, epsilon), delta, high / 2.0, high)
    )


def dp_to_zcdp(epsilon: float, delta: float) -> float:
    """Return the largest ρ for which ρ-zCDP implies (ε, δ)."""
    check("epsilon", epsilon, _EPSILON)
    check("delta", delta, _DELTA)
    start = 1.0 / max(epsilon, 1e-9) ** 2
    return 1.0 / solve_decreasing(
        lambda inverse: zcdp_to_dp(1.0 / inverse, delta), epsilon, start, 100.0 * start
    )
