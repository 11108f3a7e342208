"""The compiled sweep behind `tacit.inference.regression_gibbs`, and the densities it evaluates.

β is integrated out of every move on S. With M = σ²S + τ_z²I, K = S·M⁻¹·S and k = S·M⁻¹ẑ,

    ∫ Π_j p(ẑ_j | S_j, β, σ²)·p(β) dβ ∝ Π_j |M_j|^(−½)·e^(−½ẑ_jᵀM_j⁻¹ẑ_j) · |P|^(−½)·e^(½bᵀP⁻¹b)

with P = C⁻¹ + ΣK_j and b = C⁻¹m + Σk_j. Where û is used, β = P⁻¹b + L⁻ᵀξ moves along with S, and
ξ, which is N(0, I) but for û, stays: the ratio is that of these integrals times that of
p(û | ẑ, S, β, σ²).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.linear import (
    add_outer_solve,
    bartlett,
    cayley,
    cholesky,
    congruence,
    copy,
    fill,
    from_precision,
    inlined,
    log_diagonal,
    lower_product,
    lower_square,
    matvec,
    solve_lower,
    squared_norm_of_inverse,
    to_white,
)

__all__ = ["sweeps"]

# target acceptance: Wishart or congruence, Gaussian-reversible, walks on log σ² and log h
_TARGETS = (0.25, 0.35, 0.44)
_SPREAD_SCALE = 0.1  # half-Cauchy scale of √h, the relative difference between sites
_SIZE_CENTER, _SIZE_SD = math.log(0.01), math.log(100.0)  # normal prior of log ℓ, Λ in units ℓ


# --- densities ---------------------------------------------------------------------------------


@inlined
def _freedom(rows: Any, spread: Any, side: int) -> Any:
    """ν_j: n_j under normal features (spread < 0), else d + 1/(1/n_j + h)."""
    if spread < 0.0:
        return rows if rows > side + 1.0 else side + 1.0
    return side + 1.0 / (1.0 / rows + spread)


@inlined
def _describe(
    gram: Any, cross: Any, variance: float, cross_var: float, work: Any, vectors: Any, factor: Any,
    precision: Any, linear: Any,
) -> tuple[bool, float]:  # fmt: skip
    """Write M's factor, K and k; return whether M is definite, and log N(ẑ; 0, M)."""
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
def _evidence(precision: Any, linear: Any, work: Any, factor: Any) -> float:
    """Return ½bᵀP⁻¹b − ½log|P|, and P's factor; −∞ if P is not definite."""
    if not cholesky(precision, factor):
        return -math.inf
    solve_lower(factor, linear, work)
    value = -log_diagonal(factor)
    for i in range(len(linear)):
        value += 0.5 * work[i] * work[i]
    return value


@inlined
def _cross_term(gram: Any, factor: Any, cross: Any, beta: Any, vectors: Any) -> float:
    """Return log p(ẑ | S, β, σ²); leave Sβ and M's whitened residual in ``vectors``."""
    d = len(beta)
    matvec(gram, beta, vectors[0])
    for i in range(d):
        vectors[1, i] = cross[i] - vectors[0, i]
    solve_lower(factor, vectors[1], vectors[2])
    total = -log_diagonal(factor)
    for i in range(d):
        total -= 0.5 * vectors[2, i] * vectors[2, i]
    return total


@inlined
def _square_term(known: Any, variance: float, beta: Any, factor: Any, vectors: Any) -> Any:
    """Return log p(û | ẑ, S, β, σ²), after `_cross_term`; 0 where û was not released.

    known: û, n, and the variances of the noise on û and on n.
    """
    if math.isnan(known[0]):
        return 0.0
    d = len(beta)
    fit = 0.0
    for i in range(d):
        fit += beta[i] * vectors[0, i]
    solve_lower(factor, vectors[0], vectors[3])  # Cov(ẑ, û) = 2σ²Sβ
    explained, shift = 0.0, 0.0
    for i in range(d):
        explained += vectors[3, i] * vectors[3, i]
        shift += vectors[3, i] * vectors[2, i]
    mean = fit + known[1] * variance + 2.0 * variance * shift
    spread = max(4.0 * variance * fit - 4.0 * variance * variance * explained, 0.0)
    spread += variance * variance * (2.0 * known[1] + known[3]) + known[2]
    gap = known[0] - mean
    return -0.5 * math.log(spread) - 0.5 * gap * gap / spread


@inlined
def _squares(
    grams: Any, factors: Any, cross: Any, known: Any, beta: Any, variance: float, vectors: Any
) -> float:
    """Return Σ_j log p(û_j | ẑ_j, S_j, β, σ²)."""
    total = 0.0
    for j in range(grams.shape[0]):
        _cross_term(grams[j], factors[j], cross[j], beta, vectors)
        total += _square_term(known[j], variance, beta, factors[j], vectors)
    return total


@inlined
def _misfit(seen: Any, gram: Any) -> float:
    """‖Ŝ − S‖², all entries."""
    total = 0.0
    for a in range(seen.shape[0]):
        for b in range(seen.shape[0]):
            gap = seen[a, b] - gram[a, b]
            total += gap * gap
    return total


@inlined
def _log_multigamma(x: float, side: int) -> float:
    total = 0.0
    for i in range(side):
        total += math.lgamma(x - 0.5 * i)
    return total


@inlined
def _log_spread(
    grams: Any, log_dets: Any, rows: Any, freedoms: Any, scale: Any, kappa: float, spread: float,
    work: Any, factor: Any,
) -> float:  # fmt: skip
    """Return log p(S_1 … S_J | h) with all that depends on h, and its half-Cauchy prior on √h."""
    count, d = grams.shape[0], grams.shape[1]
    copy(scale, work)
    total_freedom = kappa
    result = 0.0
    for j in range(count):
        nu = _freedom(freedoms[j], spread, d)
        total_freedom += nu
        for a in range(d):
            for b in range(d):
                work[a, b] += nu / rows[j] * grams[j, a, b]
        result += 0.5 * (nu - d - 1.0) * log_dets[j] + 0.5 * d * nu * math.log(nu / rows[j])
        result -= _log_multigamma(0.5 * nu, d)
    if not cholesky(work, factor):
        return -math.inf
    result += _log_multigamma(0.5 * total_freedom, d) - total_freedom * log_diagonal(factor)
    # density of log √h under a half-Cauchy
    return result + 0.5 * math.log(spread) - math.log(1.0 + spread / _SPREAD_SCALE**2)


@inlined
def _half_log_pooled(
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


# --- proposals -----------------------------------------------------------------------------------


@inlined
def _accepted(rng: Any, log_ratio: float) -> bool:
    return log_ratio >= 0.0 or math.log(rng.random()) < log_ratio


@inlined
def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


@inlined
def _tune(tuning: Any, index: int, accepted: bool, target: float, gain: float) -> None:
    tuning[index] += gain * ((1.0 if accepted else 0.0) - target)


@inlined
def _reference(
    j: int, seen: Any, grams: Any, rows: Any, freedom: float, noise_var: float, mean: Any,
    variance: Any,
) -> None:  # fmt: skip
    """Entry by entry: what Ŝ_j and the other sites say about S_j, as a Gaussian."""
    count, d = grams.shape[0], grams.shape[1]
    others = 0.0
    fill(mean, 0.0)
    for k in range(count):
        if k != j:
            others += rows[k]
            for a in range(d):
                for b in range(a + 1):
                    mean[a, b] += grams[k, a, b]
    scale = rows[j] / others if count > 1 else 0.0
    for a in range(d - 1, -1, -1):  # diagonals last: off the diagonal their sums are needed
        for b in range(d):
            if b < a:
                noise = 0.5 * noise_var
                spread = mean[a, a] * mean[b, b] * scale * scale / freedom * (1.0 + scale)
                if count == 1:
                    spread = 1e30
                center = mean[a, b] * scale
                variance[a, b] = spread / (spread + noise) * noise
                mean[a, b] = center + spread / (spread + noise) * (seen[a, b] - center)
        center = mean[a, a] * scale
        spread = 2.0 * center * center / freedom * (1.0 + scale)
        if count == 1:
            spread = 1e30
        variance[a, a] = spread / (spread + noise_var) * noise_var
        mean[a, a] = center + spread / (spread + noise_var) * (seen[a, a] - center)


@inlined
def _propose_wishart(
    rng: Any, factor: Any, alpha: float, triangle: Any, work: Any, out: Any
) -> Any:
    """Draw the factor of S' ~ W(S/α, α); return log q(S | S') − log q(S' | S)."""
    d = factor.shape[0]
    bartlett(rng, alpha, triangle)
    lower_product(factor, triangle, 1.0 / math.sqrt(alpha), out)
    norm = 0.0
    for i in range(d):
        for k in range(i + 1):
            norm += triangle[i, k] * triangle[i, k]
    growth = 2.0 * log_diagonal(triangle) - d * math.log(alpha)  # log|S'| − log|S|
    inverse = squared_norm_of_inverse(triangle, work)
    return -(alpha - 0.5 * (d + 1)) * growth + 0.5 * (norm - alpha * alpha * inverse)


@inlined
def _propose_shift(rng: Any, gram: Any, mean: Any, variance: Any, rho: float, out: Any) -> float:
    """Draw S' reversibly for N(mean, variance); return log φ(S) − log φ(S')."""
    keep = math.sqrt(1.0 - rho * rho)
    ratio = 0.0
    for a in range(gram.shape[0]):
        for b in range(a + 1):
            sd = math.sqrt(variance[a, b])
            old = (gram[a, b] - mean[a, b]) / sd
            new = keep * old + rho * rng.standard_normal()
            ratio += 0.5 * (new * new - old * old)
            out[a, b] = mean[a, b] + sd * new
            out[b, a] = out[a, b]
    return ratio


@inlined
def _common_shift(
    rng: Any, seen: Any, grams: Any, noise: Any, shares: Any, rho: float, out: Any
) -> None:
    """Draw Δ of S_j' = S_j + share_j·Δ, reversibly for Π_j p(Ŝ_j | S_j) along Δ."""
    keep = math.sqrt(1.0 - rho * rho)
    precision = 0.0
    for j in range(grams.shape[0]):
        if noise[j, 0] > 0.0:
            precision += shares[j] * shares[j] / noise[j, 0]
    for a in range(grams.shape[1]):
        for b in range(a + 1):
            twice = 2.0 if a == b else 1.0
            gap = 0.0
            for j in range(grams.shape[0]):
                if noise[j, 0] > 0.0:
                    gap += shares[j] / noise[j, 0] * (seen[j, a, b] - grams[j, a, b])
            sd = math.sqrt(0.5 * twice / precision)
            out[a, b] = (1.0 - keep) * gap / precision + rho * sd * rng.standard_normal()
            out[b, a] = out[a, b]


# --- sweeps --------------------------------------------------------------------------------------


def sweeps(
    rng: Any, seen: Any, cross: Any, known: Any, noise: Any, rows: Any, freedoms: Any, scale: Any,
    prior: Any, center: Any, reach: Any, grams: Any, factors: Any, beta: Any, scales: Any,
    tuning: Any, started: int, adapt: bool, thin: int, out_beta: Any, out_scales: Any,
    accepts: Any,
) -> None:  # fmt: skip
    """Run ``thin`` iterations per row of ``out_beta``, from and into the state's arrays.

    seen, cross: Ŝ_j, ẑ_j. known: û_j (NaN: none), n_j, noise variances of û_j and n_j.
    noise: τ_j² (0: S_j stays), τ_z². rows, freedoms: n_j, and n_j as degrees of freedom. scale: Λ.
    prior: κ, a, b, and whether h, the coefficients' variance and ℓ are learned. center: m.
    reach: sd of G in the congruence that moves all S_j.
    """
    count, d = grams.shape[0], grams.shape[1]
    kappa, shape, rate = prior[0], prior[1], prior[2]
    learn_spread, learn_variance, learn_size = prior[3] > 0.0, prior[4] > 0.0, prior[5] > 0.0
    sized = np.empty((d, d))  # ℓΛ
    # of the state, and of a proposal: factors of M_j, K_j, k_j
    whitens, whitens_new = np.empty((count, d, d)), np.empty((count, d, d))
    precisions, precisions_new = np.empty((count, d, d)), np.empty((count, d, d))
    linears, linears_new = np.empty((count, d)), np.empty((count, d))
    values, values_new = np.empty(count), np.empty(count)
    grams_new, factors_new = np.empty((count, d, d)), np.empty((count, d, d))
    pooled, pooled_new, pooled_factor = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    precision, precision_new = np.empty((d, d)), np.empty((d, d))
    linear, linear_new, beta_new = np.empty(d), np.empty(d), np.empty(d)
    white, white_new = np.empty(d), np.empty(d)
    root, root_new = np.empty((d, d)), np.empty((d, d))  # factors of P
    work, triangle = np.empty((d, d)), np.empty((d, d))
    ref_mean, ref_var = np.empty((d, d)), np.empty((d, d))
    vectors = np.empty((4, d))
    log_dets, freedom, shares = np.empty(count), np.empty(count), np.zeros(count)
    moved, moved_rows = 0, 0.0
    any_square = False
    for j in range(count):
        if not math.isnan(known[j, 0]):
            any_square = True
        if noise[j, 0] > 0.0:
            moved += 1
            moved_rows += rows[j]
    for j in range(count):
        if noise[j, 0] > 0.0:
            shares[j] = rows[j] / moved_rows
    joint, own = 2 * count, 2 * count + 2

    for step in range(out_beta.shape[0] * thin):
        variance = math.exp(scales[0])
        spread = math.exp(scales[1]) if learn_spread else -1.0
        prior_precision = math.exp(-scales[2])
        gain = 3.0 / (1.0 + started + step) ** 0.6 if adapt else 0.0
        parity = (started + step) % 2
        target = _TARGETS[parity]
        # more degrees of freedom are smaller steps; every other knob goes the other way
        direction = -2.0 if parity == 0 else 1.0

        for a in range(d):
            for b in range(d):
                sized[a, b] = math.exp(scales[3]) * scale[a, b]
        # what the state implies, afresh: errors of rounding never add up
        copy(sized, pooled)
        fill(precision, 0.0)
        total_freedom = kappa
        for i in range(d):
            precision[i, i] = prior_precision
            linear[i] = prior_precision * center[i]
        for j in range(count):
            freedom[j] = _freedom(freedoms[j], spread, d)
            total_freedom += freedom[j]
            log_dets[j] = 2.0 * log_diagonal(factors[j])
            _, values[j] = _describe(
                grams[j], cross[j], variance, noise[j, 1], work, vectors, whitens[j],
                precisions[j], linears[j],
            )  # fmt: skip
            for a in range(d):
                linear[a] += linears[j, a]
                for b in range(d):
                    pooled[a, b] += freedom[j] / rows[j] * grams[j, a, b]
                    precision[a, b] += precisions[j, a, b]
        evidence = _evidence(precision, linear, vectors[0], root)
        cholesky(pooled, pooled_factor)
        half_log = log_diagonal(pooled_factor)
        square = 0.0
        if any_square:
            to_white(root, linear, beta, white)
            square = _squares(grams, whitens, cross, known, beta, variance, vectors)

        # --- S_j, one site at a time
        copy(grams, grams_new)
        copy(whitens, whitens_new)
        for j in range(count):
            if noise[j, 0] == 0.0:
                continue
            index = 2 * j + parity
            possible = True
            if parity == 0:
                alpha = d + 1.0 + math.exp(tuning[index])
                ratio = _propose_wishart(
                    rng, factors[j], alpha, triangle, vectors[0], factors_new[j]
                )
                lower_square(factors_new[j], grams_new[j])
            else:
                _reference(j, seen[j], grams, rows, freedom[j], noise[j, 0], ref_mean, ref_var)
                ratio = _propose_shift(
                    rng, grams[j], ref_mean, ref_var, _logistic(tuning[index]), grams_new[j]
                )
                possible = cholesky(grams_new[j], factors_new[j])
            if possible:
                possible, values_new[j] = _describe(
                    grams_new[j], cross[j], variance, noise[j, 1], work, vectors, whitens_new[j],
                    precisions_new[j], linears_new[j],
                )  # fmt: skip
            if possible:
                for a in range(d):
                    linear_new[a] = linear[a] + linears_new[j, a] - linears[j, a]
                    for b in range(d):
                        pooled_new[a, b] = pooled[a, b] + freedom[j] / rows[j] * (
                            grams_new[j, a, b] - grams[j, a, b]
                        )
                        precision_new[a, b] = (
                            precision[a, b] + precisions_new[j, a, b] - precisions[j, a, b]
                        )
                possible = cholesky(pooled_new, pooled_factor)
            accepted = False
            if possible:
                log_det = 2.0 * log_diagonal(factors_new[j])
                half_new = log_diagonal(pooled_factor)
                evidence_new = _evidence(precision_new, linear_new, vectors[0], root_new)
                ratio += 0.5 * (freedom[j] - d - 1.0) * (log_det - log_dets[j])
                ratio -= total_freedom * (half_new - half_log)
                ratio -= (
                    0.5 / noise[j, 0]
                    * (_misfit(seen[j], grams_new[j]) - _misfit(seen[j], grams[j]))
                )  # fmt: skip
                ratio += values_new[j] - values[j] + evidence_new - evidence
                square_new = 0.0
                if any_square:
                    from_precision(root_new, linear_new, white, vectors[0], beta_new)
                    square_new = _squares(
                        grams_new, whitens_new, cross, known, beta_new, variance, vectors
                    )
                    ratio += square_new - square
                accepted = _accepted(rng, ratio)
                if accepted:
                    copy(grams_new[j], grams[j])
                    copy(factors_new[j], factors[j])
                    copy(whitens_new[j], whitens[j])
                    copy(precisions_new[j], precisions[j])
                    copy(linears_new[j], linears[j])
                    values[j] = values_new[j]
                    log_dets[j] = log_det
                    copy(pooled_new, pooled)
                    copy(precision_new, precision)
                    copy(linear_new, linear)
                    copy(root_new, root)
                    half_log, evidence = half_new, evidence_new
                    if any_square:
                        copy(beta_new, beta)
                        square = square_new
            if not accepted:
                copy(grams[j], grams_new[j])
                copy(whitens[j], whitens_new[j])
            accepts[index] += 1.0 if accepted else 0.0
            _tune(tuning, index, accepted, target, direction * gain)

        # --- all S_j at once
        if moved > 0:
            index = joint + parity
            ratio = 0.0
            if parity == 0:
                size = math.exp(tuning[index])
                for a in range(d):
                    for b in range(d):
                        work[a, b] = size * reach[a, b] * rng.standard_normal()
                possible, growth = cayley(work, triangle, ref_mean)
                ratio += (d + 1.0) * moved * growth  # S ↦ T·S·Tᵀ has Jacobian |T|^(d+1)
            else:
                possible = True
                _common_shift(rng, seen, grams, noise, shares, _logistic(tuning[index]), ref_mean)
            copy(sized, pooled_new)
            fill(precision_new, 0.0)
            for i in range(d):
                precision_new[i, i] = prior_precision
                linear_new[i] = prior_precision * center[i]
            for j in range(count):
                if noise[j, 0] == 0.0:
                    copy(grams[j], grams_new[j])
                    copy(factors[j], factors_new[j])
                    copy(whitens[j], whitens_new[j])
                    copy(precisions[j], precisions_new[j])
                    copy(linears[j], linears_new[j])
                    values_new[j] = values[j]
                elif possible:
                    if parity == 0:
                        congruence(ref_mean, grams[j], work, grams_new[j])
                        # the shift is reversible for this part of the target already
                        ratio -= (
                            0.5 / noise[j, 0]
                            * (_misfit(seen[j], grams_new[j]) - _misfit(seen[j], grams[j]))
                        )  # fmt: skip
                    else:
                        for a in range(d):
                            for b in range(d):
                                grams_new[j, a, b] = grams[j, a, b] + shares[j] * ref_mean[a, b]
                    possible = cholesky(grams_new[j], factors_new[j])
                    if possible:
                        possible, values_new[j] = _describe(
                            grams_new[j], cross[j], variance, noise[j, 1], work, vectors,
                            whitens_new[j], precisions_new[j], linears_new[j],
                        )  # fmt: skip
                if possible:
                    ratio += values_new[j] - values[j]
                    ratio += (
                        0.5
                        * (freedom[j] - d - 1.0)
                        * (2.0 * log_diagonal(factors_new[j]) - log_dets[j])
                    )
                    for a in range(d):
                        linear_new[a] += linears_new[j, a]
                        for b in range(d):
                            pooled_new[a, b] += freedom[j] / rows[j] * grams_new[j, a, b]
                            precision_new[a, b] += precisions_new[j, a, b]
            accepted = False
            if possible and cholesky(pooled_new, pooled_factor):
                evidence_new = _evidence(precision_new, linear_new, vectors[0], root_new)
                ratio += evidence_new - evidence
                ratio -= total_freedom * (log_diagonal(pooled_factor) - half_log)
                square_new = 0.0
                if any_square:
                    from_precision(root_new, linear_new, white, vectors[0], beta_new)
                    square_new = _squares(
                        grams_new, whitens_new, cross, known, beta_new, variance, vectors
                    )
                    ratio += square_new - square
                accepted = _accepted(rng, ratio)
                if accepted:
                    copy(grams_new, grams)
                    copy(factors_new, factors)
                    copy(whitens_new, whitens)
                    copy(precision_new, precision)
                    copy(linear_new, linear)
                    copy(root_new, root)
                    for j in range(count):
                        log_dets[j] = 2.0 * log_diagonal(factors[j])
                    if any_square:
                        copy(beta_new, beta)
                        square = square_new
            accepts[index] += 1.0 if accepted else 0.0
            _tune(tuning, index, accepted, target, gain)

        # --- β: Proposition 3, with C⁻¹m inside the bracket; û enters by Metropolis–Hastings
        if any_square:
            for index in (own + 2, own + 3):
                rho = 1.0 if index == own + 3 else _logistic(tuning[index])
                keep = math.sqrt(1.0 - rho * rho)
                for i in range(d):
                    white_new[i] = keep * white[i] + rho * rng.standard_normal()
                from_precision(root, linear, white_new, vectors[0], beta_new)
                square_new = _squares(grams, whitens, cross, known, beta_new, variance, vectors)
                accepted = _accepted(rng, square_new - square)
                if accepted:
                    copy(beta_new, beta)
                    copy(white_new, white)
                    square = square_new
                accepts[index] += 1.0 if accepted else 0.0
                if index == own + 2:
                    _tune(tuning, index, accepted, _TARGETS[1], gain)
        else:
            for i in range(d):
                white[i] = rng.standard_normal()
            from_precision(root, linear, white, vectors[0], beta)
            accepts[own + 2] += 1.0

        # --- log σ²
        candidate = scales[0] + math.exp(tuning[own]) * rng.standard_normal()
        variance_new = math.exp(candidate)
        # IG(a, b) as a density of log σ²
        ratio = -shape * (candidate - scales[0]) - rate * (1.0 / variance_new - 1.0 / variance)
        possible = True
        for j in range(count):
            ratio -= _cross_term(grams[j], whitens[j], cross[j], beta, vectors)
            ratio -= _square_term(known[j], variance, beta, whitens[j], vectors)
            for a in range(d):
                for b in range(a + 1):
                    work[a, b] = variance_new * grams[j, a, b]
                work[a, a] += noise[j, 1]
            possible = possible and cholesky(work, triangle)
            if possible:
                ratio += _cross_term(grams[j], triangle, cross[j], beta, vectors)
                ratio += _square_term(known[j], variance_new, beta, triangle, vectors)
        accepted = possible and _accepted(rng, ratio)
        if accepted:
            scales[0] = candidate
        accepts[own] += 1.0 if accepted else 0.0
        _tune(tuning, own, accepted, _TARGETS[2], gain)

        # --- log ℓ, the size of Λ: how small the smallest directions of the features may be
        if learn_size:
            candidate = scales[3] + math.exp(tuning[own + 4]) * rng.standard_normal()
            ratio = 0.5 * d * kappa * (candidate - scales[3])
            ratio -= total_freedom * (
                _half_log_pooled(grams, rows, freedom, scale, math.exp(candidate), work, triangle)
                - _half_log_pooled(
                    grams, rows, freedom, scale, math.exp(scales[3]), work, triangle
                )
            )
            new, old = candidate - _SIZE_CENTER, scales[3] - _SIZE_CENTER
            ratio -= 0.5 * (new * new - old * old) / _SIZE_SD**2
            accepted = _accepted(rng, ratio)
            if accepted:
                scales[3] = candidate
                for a in range(d):
                    for b in range(d):
                        sized[a, b] = math.exp(candidate) * scale[a, b]
            _tune(tuning, own + 4, accepted, _TARGETS[2], gain)

        # --- log h, how much sites differ beyond n_j rows
        if learn_spread:
            candidate = scales[1] + math.exp(tuning[own + 1]) * rng.standard_normal()
            ratio = _log_spread(
                grams, log_dets, rows, freedoms, sized, kappa, math.exp(candidate), work, triangle
            ) - _log_spread(grams, log_dets, rows, freedoms, sized, kappa, spread, work, triangle)
            accepted = _accepted(rng, ratio)
            if accepted:
                scales[1] = candidate
            accepts[own + 1] += 1.0 if accepted else 0.0
            _tune(tuning, own + 1, accepted, _TARGETS[2], gain)

        # --- the coefficients' prior variance: IG(2, 0.2), so that β is Student's t with four
        if learn_variance:
            norm = 0.0
            for i in range(d):
                norm += (beta[i] - center[i]) ** 2
            scales[2] = math.log(0.2 + 0.5 * norm) - math.log(rng.standard_gamma(2.0 + 0.5 * d))

        if (step + 1) % thin == 0:
            row = (step + 1) // thin - 1
            copy(beta, out_beta[row])
            copy(scales, out_scales[row])
