"""The compiled sweep behind `wishart.kernel`, and the densities it evaluates.

β is integrated out of every move on S. With M = σ²S + τ_z²I, K = S·M⁻¹·S and k = S·M⁻¹ẑ,

    ∫ Π_j p(ẑ_j | S_j, β, σ²)·p(β) dβ ∝ Π_j |M_j|^(−½)·e^(−½ẑ_jᵀM_j⁻¹ẑ_j) · |P|^(−½)·e^(½bᵀP⁻¹b)

with P = C⁻¹ + ΣK_j and b = C⁻¹m + Σk_j.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tacit._core.linear import (
    cayley,
    cholesky,
    congruence,
    copy,
    from_precision,
    inlined,
    log_diagonal,
    lower_square,
    matvec,
    solve_lower,
)
from tacit.regression.numerics.laws import accepted, describe, freedom_of, tune
from tacit.regression.numerics.wishart.proposals import (
    common_shift,
    logistic,
    propose_shift,
    propose_wishart,
    reference,
)

__all__ = ["sweeps"]

# target acceptance: Wishart or congruence, Gaussian-reversible, the walk on log σ²
_TARGETS = (0.25, 0.35, 0.44)


# --- densities ---------------------------------------------------------------------------------


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
    """Return log p(ẑ | S, β, σ²)."""
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
def _misfit(seen: Any, gram: Any) -> float:
    """‖Ŝ − S‖², all entries."""
    total = 0.0
    for a in range(seen.shape[0]):
        for b in range(seen.shape[0]):
            gap = seen[a, b] - gram[a, b]
            total += gap * gap
    return total


class Sites(NamedTuple):
    """All sites, of the state or of a proposal.

    S_j with their factors, factors of M_j, K_j, k_j and log N(ẑ_j; 0, M_j).
    """

    grams: Any
    factors: Any
    whitens: Any
    precisions: Any
    linears: Any
    values: Any


@inlined
def _describe(j: int, data: Any, variance: float, work: Any, vectors: Any, sites: Any) -> bool:
    """Set what follows from S_j; return whether M_j is definite."""
    into = sites.whitens[j], sites.precisions[j], sites.linears[j]
    possible, sites.values[j] = describe(
        sites.grams[j], data.cross[j], variance, data.noise[j, 1], work, vectors, *into
    )
    return possible


@inlined
def _copy_site(j: int, source: Any, target: Any) -> None:
    """Copy everything about one site."""
    copy(source.grams[j], target.grams[j])
    copy(source.factors[j], target.factors[j])
    copy(source.whitens[j], target.whitens[j])
    copy(source.precisions[j], target.precisions[j])
    copy(source.linears[j], target.linears[j])
    target.values[j] = source.values[j]


def sweeps(rng: Any, data: Any, reach: Any, state: Any, adapt: bool, thin: int, out: Any) -> None:
    """Run ``thin`` iterations per draw, from and into the state's arrays.

    data: see `Data`; its prior: κ, a, b, and the precisions of intercept and coefficients. reach:
    sd of G in the congruence that moves all S_j. state: see `GibbsState`. out: draws of β and of
    log σ², and how often each kind of move was accepted.
    """
    seen, noise, rows, scale = data.seen, data.noise, data.rows, data.scale
    grams, factors, beta = state.grams, state.factors, state.coefficients
    scales, tuning, started = state.scales, state.tuning, state.steps
    out_beta, out_scales, accepts = out
    count, d = grams.shape[0], grams.shape[1]
    prior = data.prior
    kappa, shape, rate, prior_precision = prior[0], prior[1], prior[2], prior[4]
    center, axis = data.center, data.axis
    start, start_linear = np.zeros((d, d)), np.zeros(d)
    for a in range(d):
        start[a, a] = prior_precision
        for b in range(d):
            start[a, b] += (prior[3] - prior_precision) * axis[a] * axis[b]
    matvec(start, center, start_linear)
    matrices, lines = np.empty((6, count, d, d)), np.empty((2, count, d))
    numbers = np.empty((2, count))
    old = Sites(grams, factors, matrices[0], matrices[1], lines[0], numbers[0])
    new = Sites(matrices[2], matrices[3], matrices[4], matrices[5], lines[1], numbers[1])
    grams_new, factors_new = new.grams, new.factors
    pooled, pooled_new, pooled_factor = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    precision, precision_new = np.empty((d, d)), np.empty((d, d))
    linear, linear_new, white = np.empty(d), np.empty(d), np.empty(d)
    root, root_new = np.empty((d, d)), np.empty((d, d))  # factors of P
    work, triangle = np.empty((d, d)), np.empty((d, d))
    ref_mean, ref_var = np.empty((d, d)), np.empty((d, d))
    vectors = np.empty((3, d))
    log_dets, freedom, shares = np.empty(count), np.empty(count), np.zeros(count)
    moved, moved_rows = 0, 0.0
    for j in range(count):
        if noise[j, 0] > 0.0:
            moved += 1
            moved_rows += rows[j]
    for j in range(count):
        if noise[j, 0] > 0.0:
            shares[j] = rows[j] / moved_rows
    joint, own = 2 * count, 2 * count + 2

    for step in range(out_beta.shape[0] * thin):
        variance = math.exp(scales[0])
        gain = 3.0 / (1.0 + started + step) ** 0.6 if adapt else 0.0
        parity = (started + step) % 2
        target = _TARGETS[parity]
        # more degrees of freedom are smaller steps; every other knob goes the other way
        direction = -2.0 if parity == 0 else 1.0

        # what the state implies, afresh: errors of rounding never add up
        copy(scale, pooled)
        copy(start, precision)
        copy(start_linear, linear)
        total_freedom = kappa
        for j in range(count):
            freedom[j] = freedom_of(data.freedoms[j], d)
            total_freedom += freedom[j]
            log_dets[j] = 2.0 * log_diagonal(factors[j])
            _describe(j, data, variance, work, vectors, old)
            for a in range(d):
                linear[a] += old.linears[j, a]
                for b in range(d):
                    pooled[a, b] += freedom[j] / rows[j] * grams[j, a, b]
                    precision[a, b] += old.precisions[j, a, b]
        evidence = _evidence(precision, linear, vectors[0], root)
        cholesky(pooled, pooled_factor)
        half_log = log_diagonal(pooled_factor)

        # --- S_j, one site at a time
        for j in range(count):
            if noise[j, 0] == 0.0:
                continue
            index = 2 * j + parity
            possible = True
            if parity == 0:
                alpha = d + 1.0 + math.exp(tuning[index])
                ratio = propose_wishart(
                    rng, factors[j], alpha, triangle, vectors[0], factors_new[j]
                )
                lower_square(factors_new[j], grams_new[j])
            else:
                reference(j, seen[j], grams, rows, freedom[j], noise[j, 0], ref_mean, ref_var)
                ratio = propose_shift(
                    rng, grams[j], ref_mean, ref_var, logistic(tuning[index]), grams_new[j]
                )
                possible = cholesky(grams_new[j], factors_new[j])
            if possible:
                possible = _describe(j, data, variance, work, vectors, new)
            if possible:
                for a in range(d):
                    linear_new[a] = linear[a] + new.linears[j, a] - old.linears[j, a]
                    for b in range(d):
                        pooled_new[a, b] = pooled[a, b] + freedom[j] / rows[j] * (
                            grams_new[j, a, b] - grams[j, a, b]
                        )
                        precision_new[a, b] = (
                            precision[a, b] + new.precisions[j, a, b] - old.precisions[j, a, b]
                        )
                possible = cholesky(pooled_new, pooled_factor)
            took = False
            if possible:
                log_det = 2.0 * log_diagonal(factors_new[j])
                half_new = log_diagonal(pooled_factor)
                evidence_new = _evidence(precision_new, linear_new, vectors[0], root_new)
                ratio += 0.5 * (freedom[j] - d - 1.0) * (log_det - log_dets[j])
                ratio -= total_freedom * (half_new - half_log)
                change = _misfit(seen[j], grams_new[j]) - _misfit(seen[j], grams[j])
                ratio -= 0.5 / noise[j, 0] * change
                ratio += new.values[j] - old.values[j] + evidence_new - evidence
                took = accepted(rng, ratio)
                if took:
                    _copy_site(j, new, old)
                    log_dets[j] = log_det
                    copy(pooled_new, pooled)
                    copy(precision_new, precision)
                    copy(linear_new, linear)
                    copy(root_new, root)
                    half_log, evidence = half_new, evidence_new
            accepts[index] += 1.0 if took else 0.0
            tune(tuning, index, took, target, direction * gain)

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
                common_shift(rng, seen, grams, noise, shares, logistic(tuning[index]), ref_mean)
            copy(scale, pooled_new)
            copy(start, precision_new)
            copy(start_linear, linear_new)
            for j in range(count):
                if noise[j, 0] == 0.0:
                    _copy_site(j, old, new)
                elif possible:
                    if parity == 0:
                        congruence(ref_mean, grams[j], work, grams_new[j])
                        # the shift is reversible for this part of the target already
                        change = _misfit(seen[j], grams_new[j]) - _misfit(seen[j], grams[j])
                        ratio -= 0.5 / noise[j, 0] * change
                    else:
                        for a in range(d):
                            for b in range(d):
                                grams_new[j, a, b] = grams[j, a, b] + shares[j] * ref_mean[a, b]
                    possible = cholesky(grams_new[j], factors_new[j])
                    if possible:
                        possible = _describe(j, data, variance, work, vectors, new)
                if possible:
                    ratio += new.values[j] - old.values[j]
                    change = 2.0 * log_diagonal(factors_new[j]) - log_dets[j]
                    ratio += 0.5 * (freedom[j] - d - 1.0) * change
                    for a in range(d):
                        linear_new[a] += new.linears[j, a]
                        for b in range(d):
                            pooled_new[a, b] += freedom[j] / rows[j] * grams_new[j, a, b]
                            precision_new[a, b] += new.precisions[j, a, b]
            took = False
            if possible and cholesky(pooled_new, pooled_factor):
                evidence_new = _evidence(precision_new, linear_new, vectors[0], root_new)
                ratio += evidence_new - evidence
                ratio -= total_freedom * (log_diagonal(pooled_factor) - half_log)
                took = accepted(rng, ratio)
                if took:
                    copy(grams_new, grams)
                    copy(factors_new, factors)
                    copy(new.whitens, old.whitens)
                    copy(precision_new, precision)
                    copy(linear_new, linear)
                    copy(root_new, root)
                    for j in range(count):
                        log_dets[j] = 2.0 * log_diagonal(factors[j])
            accepts[index] += 1.0 if took else 0.0
            tune(tuning, index, took, target, gain)

        # --- β: Proposition 3, with C⁻¹m inside the bracket
        for i in range(d):
            white[i] = rng.standard_normal()
        from_precision(root, linear, white, vectors[0], beta)

        # --- log σ²
        candidate = scales[0] + math.exp(tuning[own]) * rng.standard_normal()
        variance_new = math.exp(candidate)
        # IG(a, b) as a density of log σ²
        ratio = -shape * (candidate - scales[0]) - rate * (1.0 / variance_new - 1.0 / variance)
        possible = True
        for j in range(count):
            ratio -= _cross_term(grams[j], old.whitens[j], data.cross[j], beta, vectors)
            for a in range(d):
                for b in range(a + 1):
                    work[a, b] = variance_new * grams[j, a, b]
                work[a, a] += noise[j, 1]
            possible = possible and cholesky(work, triangle)
            if possible:
                ratio += _cross_term(grams[j], triangle, data.cross[j], beta, vectors)
        took = possible and accepted(rng, ratio)
        if took:
            scales[0] = candidate
        accepts[own] += 1.0 if took else 0.0
        tune(tuning, own, took, _TARGETS[2], gain)

        if (step + 1) % thin == 0:
            row = (step + 1) // thin - 1
            copy(beta, out_beta[row])
            copy(scales, out_scales[row])
