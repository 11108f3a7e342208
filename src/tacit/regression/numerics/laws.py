"""Laws that the compiled sampler of Wishart matrices reads, and how it tunes."""

from __future__ import annotations

import math
from typing import Any

from tacit._core.linear import (
    add_outer_solve,
    cholesky,
    fill,
    inlined,
    log_diagonal,
    solve_lower,
)

__all__ = ["accepted", "describe", "freedom_of", "tune"]


@inlined
def freedom_of(rows: float, side: int) -> float:
    """ν_j under normal features: n_j, at least d + 1."""
    return rows if rows > side + 1.0 else side + 1.0


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
def accepted(rng: Any, log_ratio: float) -> bool:
    """Draw whether a move with this Metropolis–Hastings ratio is taken."""
    return log_ratio >= 0.0 or math.log(rng.random()) < log_ratio


@inlined
def tune(tuning: Any, index: int, took: bool, target: float, gain: float) -> None:
    """Move a log step towards a target acceptance."""
    tuning[index] += gain * ((1.0 if took else 0.0) - target)
