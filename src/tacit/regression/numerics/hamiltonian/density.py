"""The density of ``auto`` and its gradient, in two sets of coordinates, for compiled trajectories.

**What a site says.** With M = σ²S + τ_z²I, r = ẑ − Sβ, w = M⁻¹r and p = M⁻¹β,

    log p(ẑ | S, β, σ²) = −½log|M| − ½rᵀw,
    û | ẑ, S, β, σ² ~ N(m, V),   m = 2βᵀẑ − βᵀSβ + nσ² − 2τ_z²·βᵀw,
                                 V = 4σ²τ_z²·pᵀSβ + σ⁴(2n + sd_n²) + sd_u²,

the conditional law of two correlated Gaussians (Cov(ẑ, û) = 2σ²Sβ), simplified by σ²S = M − τ_z²I.
From dM = σ²dS and d(M⁻¹) = −M⁻¹·dM·M⁻¹ follow

    ∂m/∂S = −ββᵀ + 2τ_z²·sym(pβᵀ + σ²pwᵀ),   ∂m/∂β = 2σ²Sw + 2τ_z²Sp,
    ∂V/∂S = 4σ²τ_z⁴·ppᵀ,                      ∂V/∂β = 8σ²τ_z²·Sp.

**Own coordinates**: S_j = L_jL_jᵀ with Σ integrated out. The Wishart law and the Jacobian of
S ↦ (log L_ii, L_ik) leave Π_i L_ii^(ν_j−i), i from 0, times |A|^(−F/2) with
A = ℓΛ + Σ_j (ν_j/n_j)·S_j and F = κ + Σν_j.

**Common coordinates**: Σ = CCᵀ, and L_j = C·T_j with the T_j held: all S_j move as one. The
inverse Wishart law and the Jacobian leave Π_i C_ii^(−κ−i)·exp(−½tr(ℓΛΣ⁻¹)). Sites whose S_j is
exact stay, and join the prior of Σ: ℓΛ gains (ν_j/n_j)·S_j, κ gains ν_j.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tacit._core.linear import (
    add_lower_gram,
    cholesky,
    copy,
    fill,
    inlined,
    invert_lower,
    log_diagonal,
    lower_product,
    lower_square,
    matvec,
    multiply_lower,
)

__all__ = ["Law", "Scratch", "Target", "from_factor", "log_density", "site_terms", "to_factor"]


class Law(NamedTuple):
    """What a trajectory holds: ν_j, ν_j/n_j, F, κ and ℓΛ, and the coefficients' precision.

    That of an intercept differs by ``extra``: C⁻¹ = precision·I + extra·q·qᵀ along its axis q.
    """

    freedom: Any
    shares: Any
    total_freedom: float
    kappa: float
    sized: Any
    precision: float
    extra: float


class Scratch(NamedTuple):
    """Where a density is computed: S_j and L_j of the position, slopes in S_j, and room."""

    grams: Any
    factors: Any
    slopes: Any
    matrices: Any
    vectors: Any


class Target(NamedTuple):
    """What a density is of: own or common coordinates, the data, the law, and the T_j."""

    common: bool
    data: Any
    law: Any
    bases: Any
    scratch: Any


@inlined
def site_terms(
    gram: Any, seen: Any, cross: Any, known: Any, noise: Any, beta: Any, variance: float,
    scratch: Any, slope: Any, slope_beta: Any,
) -> tuple[bool, float, float]:  # fmt: skip
    """Return whether M is definite, log p(Ŝ, ẑ, û | S, β, σ²), and its slope in log σ².

    Its slope in S goes into ``slope`` (lower triangle), that in β is added to ``slope_beta``.
    """
    d, gram_var, cross_var = len(beta), noise[0], noise[1]
    matrices, vectors = scratch.matrices, scratch.vectors
    shifted, factor, inverse = matrices[0], matrices[1], matrices[2]
    fitted, residual, w = vectors[0], vectors[1], vectors[2]
    p, sw, sp = vectors[3], vectors[4], vectors[5]
    for i in range(d):
        for k in range(i + 1):
            shifted[i, k] = variance * gram[i, k]
        shifted[i, i] += cross_var
    if not cholesky(shifted, factor):
        return False, 0.0, 0.0
    invert_lower(factor, inverse)
    matvec(gram, beta, fitted)
    for i in range(d):
        residual[i] = cross[i] - fitted[i]
        w[i], p[i] = 0.0, 0.0
    misfit, trace, norm, of_mean, of_spread = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(d):  # w = XᵀX·r and p = XᵀX·β with X = inverse
        a, b = 0.0, 0.0
        for k in range(i + 1):
            a += inverse[i, k] * residual[k]
            b += inverse[i, k] * beta[k]
        misfit += a * a
        for k in range(i + 1):
            w[k] += a * inverse[i, k]
            p[k] += b * inverse[i, k]
    fill(slope, 0.0)
    add_lower_gram(inverse, slope)  # M⁻¹
    matvec(gram, w, sw)
    value = -log_diagonal(factor) - 0.5 * misfit
    for i in range(d):
        trace += slope[i, i]
        norm += w[i] * w[i]
        slope_beta[i] += sw[i]
    slope_scale = 0.5 * (misfit - cross_var * norm - d + cross_var * trace)
    if not math.isnan(known[0]):
        matvec(gram, p, sp)
        fit, linear, overlap, doubt, mixed, twice = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(d):
            fit += beta[i] * fitted[i]
            linear += beta[i] * cross[i]
            overlap += beta[i] * w[i]
            doubt += p[i] * fitted[i]
            mixed += p[i] * sw[i]
            twice += p[i] * sp[i]
        mean = 2.0 * linear - fit + known[1] * variance - 2.0 * cross_var * overlap
        errors = variance * variance * (2.0 * known[1] + known[3])
        spread = 4.0 * variance * cross_var * max(doubt, 0.0) + errors + known[2]
        of_mean = (known[0] - mean) / spread
        of_spread = 0.5 * (of_mean * of_mean - 1.0 / spread)
        value -= 0.5 * (math.log(spread) + of_mean * of_mean * spread)
        slope_scale += of_mean * variance * (known[1] + 2.0 * cross_var * mixed)
        slope_scale += of_spread * (4.0 * variance * cross_var**2 * twice + 2.0 * errors)
        both = 2.0 * cross_var * of_mean + 8.0 * variance * cross_var * of_spread
        for i in range(d):
            slope_beta[i] += 2.0 * variance * of_mean * sw[i] + both * sp[i]
    precision = 1.0 / gram_var if gram_var > 0.0 else 0.0
    square = 4.0 * variance * cross_var**2 * of_spread
    for i in range(d):
        for k in range(i + 1):
            gap = seen[i, k] - gram[i, k]
            value -= (0.5 if i == k else 1.0) * precision * gap * gap
            slope[i, k] = (
                precision * gap
                + 0.5 * variance * (w[i] * w[k] - slope[i, k])
                + 0.5 * (w[i] * beta[k] + w[k] * beta[i])
                - of_mean * beta[i] * beta[k]
                + of_mean * cross_var * (p[i] * beta[k] + p[k] * beta[i])
                + of_mean * cross_var * variance * (p[i] * w[k] + p[k] * w[i])
                + square * p[i] * p[k]
            )
    return True, value, slope_scale


@inlined
def to_factor(position: Any, start: int, out: Any) -> None:
    """Unpack (log L_ii, L_ik) row by row into a lower triangle."""
    index = start
    for i in range(out.shape[0]):
        for k in range(i):
            out[i, k] = position[index]
            index += 1
        out[i, i] = math.exp(min(max(position[index], -300.0), 300.0))
        index += 1
        for k in range(i + 1, out.shape[0]):
            out[i, k] = 0.0


@inlined
def from_factor(factor: Any, position: Any, start: int) -> None:
    """Pack a lower triangle; the inverse of `to_factor`."""
    index = start
    for i in range(factor.shape[0]):
        for k in range(i):
            position[index] = factor[i, k]
            index += 1
        position[index] = math.log(factor[i, i])
        index += 1


@inlined
def add_factor_slope(slope: Any, factor: Any, power: float, out: Any, start: int) -> float:
    """Add the slope of a factor to the packed one; return Σ_i (power − i)·log L_ii.

    slope: with respect to the factor's entries.
    """
    index, value = start, 0.0
    for i in range(factor.shape[0]):
        for k in range(i):
            out[index] += slope[i, k]
            index += 1
        out[index] += slope[i, i] * factor[i, i] + power - i
        value += (power - i) * math.log(factor[i, i])
        index += 1
    return value


@inlined
def _frame_terms(sized: Any, frame: Any, inner: Any, inverse: Any, work: Any, out: Any) -> float:
    """Return −½tr(ℓΛΣ⁻¹) and its slope in C, XᵀX·ℓΛ·Xᵀ with X = C⁻¹ (lower triangle)."""
    d = frame.shape[0]
    invert_lower(frame, inverse)
    fill(inner, 0.0)
    fill(out, 0.0)
    for a in range(d):
        for b in range(d):
            total = 0.0
            for k in range(b + 1):
                total += sized[a, k] * inverse[b, k]
            work[a, b] = total  # ℓΛ·Xᵀ
    value = 0.0
    for a in range(d):
        for b in range(a + 1):
            for k in range(d):
                inner[a, k] += inverse[a, b] * work[b, k]  # X·ℓΛ·Xᵀ
        value -= 0.5 * inner[a, a]
    for m in range(d):
        for a in range(m + 1):
            for k in range(a + 1):
                out[a, k] += inverse[m, a] * inner[m, k]
    return value


@inlined
def _room(matrices: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the matrices that `log_density` works in: the first three are `site_terms`'s too."""
    return matrices[1], matrices[2], matrices[3], matrices[4], matrices[5]


@inlined
def log_density(target: Any, position: Any, out: Any) -> Any:
    """Return the log density in own or common coordinates, and its slope in ``out``; −∞ outside.

    position: the packed L_j or C, then β, then log σ².
    """
    common, data, law, bases, scratch = target
    grams, factors, slopes = scratch.grams, scratch.factors, scratch.slopes
    noise, shares, vectors = data.noise, law.shares, scratch.vectors
    count, d = grams.shape[0], grams.shape[1]
    packed = d * (d + 1) // 2
    blocks = 1 if common else count
    beta, slope_beta = vectors[6], vectors[7]
    factor, inverse, pooled, work, frame = _room(scratch.matrices)
    for i in range(d):
        beta[i] = position[blocks * packed + i]
        slope_beta[i] = 0.0
    scale = min(max(position[blocks * packed + d], -300.0), 300.0)
    variance = math.exp(scale)
    fill(out, 0.0)
    if common:
        to_factor(position, 0, frame)
    else:
        copy(law.sized, pooled)
    value, slope_scale = 0.0, 0.0
    for j in range(count):
        if noise[j, 0] > 0.0:
            if common:
                lower_product(frame, bases[j], 1.0, factors[j])
            else:
                to_factor(position, j * packed, factors[j])
            lower_square(factors[j], grams[j])
        possible, term, rise = site_terms(
            grams[j], data.seen[j], data.cross[j], data.known[j], noise[j], beta, variance,
            scratch, slopes[j], slope_beta,
        )  # fmt: skip
        if not (possible and math.isfinite(term)):
            return -math.inf
        value += term
        slope_scale += rise
        if not common:
            for a in range(d):
                for b in range(a + 1):
                    pooled[a, b] += shares[j] * grams[j, a, b]
    if common:
        value += _frame_terms(law.sized, frame, factor, inverse, work, pooled)
        for j in range(count):
            if noise[j, 0] > 0.0:
                multiply_lower(slopes[j], factors[j], 2.0, work)
                for a in range(d):
                    for b in range(a + 1):
                        total = 0.0
                        for k in range(b + 1):
                            total += work[a, k] * bases[j, b, k]
                        pooled[a, b] += total
        value += add_factor_slope(pooled, frame, -law.kappa, out, 0)
    else:
        if not cholesky(pooled, factor):
            return -math.inf
        value -= law.total_freedom * log_diagonal(factor)
        invert_lower(factor, inverse)
        fill(pooled, 0.0)
        add_lower_gram(inverse, pooled)
        for j in range(count):
            if noise[j, 0] > 0.0:
                for a in range(d):
                    for b in range(a + 1):
                        slopes[j, a, b] -= 0.5 * law.total_freedom * shares[j] * pooled[a, b]
                multiply_lower(slopes[j], factors[j], 2.0, work)
                value += add_factor_slope(work, factors[j], law.freedom[j], out, j * packed)
    along = 0.0
    for i in range(d):
        along += data.axis[i] * (beta[i] - data.center[i])
    value -= 0.5 * law.extra * along * along
    for i in range(d):
        gap = beta[i] - data.center[i]
        value -= 0.5 * law.precision * gap * gap
        slope = slope_beta[i] - law.precision * gap
        out[blocks * packed + i] = slope - law.extra * along * data.axis[i]
    value -= data.prior[1] * scale + data.prior[2] / variance
    out[blocks * packed + d] = slope_scale - data.prior[1] + data.prior[2] / variance
    return value
