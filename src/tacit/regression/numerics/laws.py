"""Laws that the compiled samplers of regression share, and how they tune."""

from __future__ import annotations

import math
from typing import Any

from tacit._core.linear import (
    add_outer_solve,
    cholesky,
    copy,
    fill,
    inlined,
    log_diagonal,
    solve_lower,
)

__all__ = [
    "SIZE_CENTER",
    "SIZE_SD",
    "accepted",
    "describe",
    "draw_frame",
    "freedom_of",
    "half_log_pooled",
    "log_spread",
    "log_spread_prior",
    "tune",
]

SPREAD_SCALE = 0.1  # half-Cauchy scale of √h, the relative difference between sites
SIZE_CENTER, SIZE_SD = math.log(0.01), math.log(100.0)  # normal prior of log ℓ, Λ in units ℓ


@inlined
def freedom_of(rows: Any, spread: Any, side: int) -> Any:
    """ν_j: n_j under normal features (spread < 0), else d + 1/(1/n_j + h)."""
    if spread < 0.0:
        return rows if rows > side + 1.0 else side + 1.0
    return side + 1.0 / (1.0 / rows + spread)


@inlined
def describe(
    gram: Any,
    cross: Any,
    variance: float,
    cross_var: float,
    work: Any,
    vectors: Any,
    factor: Any,
    precision: Any,
    linear: Any,
) -> tuple[bool, float]:
    """Write the factor of M = σ²S + τ_z²I, K = S·M⁻¹·S and k = S·M⁻¹ẑ.

    Returns whether M is definite, and log N(ẑ; 0, M).
    """
    d = gram.shape[0]
    for i in range(d):
        for j in range(i + 1):
            work[i, j] = variance * gram[i, j]
        work[i, i] += cross_var
    if not cholesky(work, factor):
        return False, 0.0
    fill(precision, 0.0)
    add_outer_solve(factor, gram, work, precision)
    solve_lower(factor, cross, vectors[0])
    value = -log_diagonal(factor)
    for i in range(d):
        value -= 0.5 * vectors[0, i] * vectors[0, i]
        total = 0.0
        for k in range(d):
            total += work[i, k] * vectors[0, k]
        linear[i] = total
    return True, value


@inlined
def _log_multigamma(x: float, side: int) -> float:
    total = 0.0
    for i in range(side):
        total += math.lgamma(x - 0.5 * i)
    return total


@inlined
def log_spread_prior(spread: float) -> float:
    """Return the log density of log √h under a half-Cauchy law of √h."""
    return 0.5 * math.log(spread) - math.log(1.0 + spread / SPREAD_SCALE**2)


@inlined
def log_spread(
    grams: Any,
    log_dets: Any,
    rows: Any,
    freedoms: Any,
    scale: Any,
    kappa: float,
    spread: float,
    work: Any,
    factor: Any,
) -> float:
    """Return log p(S_1 … S_J | h) with all that depends on h, and its half-Cauchy prior on √h."""
    count, d = grams.shape[0], grams.shape[1]
    copy(scale, work)
    total_freedom = kappa
    result = 0.0
    for j in range(count):
        nu = freedom_of(freedoms[j], spread, d)
        total_freedom += nu
        for a in range(d):
            for b in range(d):
                work[a, b] += nu / rows[j] * grams[j, a, b]
        result += 0.5 * (nu - d - 1.0) * log_dets[j] + 0.5 * d * nu * math.log(nu / rows[j])
        result -= _log_multigamma(0.5 * nu, d)
    if not cholesky(work, factor):
        return -math.inf
    result += _log_multigamma(0.5 * total_freedom, d) - total_freedom * log_diagonal(factor)
    return result + log_spread_prior(spread)


@inlined
def half_log_pooled(
    grams: Any, rows: Any, freedom: Any, scale: Any, size: float, work: Any, factor: Any
) -> float:
    """Return ½·log|ℓΛ + Σ_j (ν_j/n_j)·S_j|."""
    d = scale.shape[0]
    for a in range(d):
        for b in range(d):
            total = size * scale[a, b]
            for j in range(grams.shape[0]):
                total += freedom[j] / rows[j] * grams[j, a, b]
            work[a, b] = total
    if not cholesky(work, factor):
        return math.inf
    return log_diagonal(factor)


@inlined
def accepted(rng: Any, log_ratio: float) -> bool:
    """Draw whether a move with this Metropolis–Hastings ratio is taken."""
    return log_ratio >= 0.0 or math.log(rng.random()) < log_ratio


@inlined
def tune(tuning: Any, index: int, took: bool, target: float, gain: float) -> None:
    """Move a log step towards a target acceptance."""
    tuning[index] += gain * ((1.0 if took else 0.0) - target)


@inlined
def draw_frame(rng: Any, factor: Any, freedom: float, work: Any, out: Any) -> None:
    """Draw C with CCᵀ ~ IW(RRᵀ, F) given R: C·H = R where HᵀH ~ Wishart(I, F)."""
    d = factor.shape[0]
    for i in range(d):
        for k in range(i):
            work[i, k] = rng.standard_normal()
        work[i, i] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (freedom - d + 1 + i)))
    for i in range(d):
        for k in range(d - 1, -1, -1):
            if k > i:
                out[i, k] = 0.0
            else:
                total = factor[i, k]
                for m in range(k + 1, i + 1):
                    total -= out[i, m] * work[m, k]
                out[i, k] = total / work[k, k]
