"""What the sites say and its gradient: the compiled half of the density of ``auto``.

With M = σ²S + τ_z²I, r = ẑ − Sβ, w = M⁻¹r and p = M⁻¹β,

    log p(ẑ | S, β, σ²) = −½log|M| − ½rᵀw,
    û | ẑ, S, β, σ² ~ N(m, V),   m = 2βᵀẑ − βᵀSβ + nσ² − 2τ_z²·βᵀw,
                                 V = 4σ²τ_z²·pᵀSβ + σ⁴(2n + sd_n²) + sd_u²,

the conditional law of two correlated Gaussians (Cov(ẑ, û) = 2σ²Sβ), simplified by σ²S = M − τ_z²I.
From dM = σ²dS and d(M⁻¹) = −M⁻¹·dM·M⁻¹ follow

    ∂m/∂S = −ββᵀ + 2τ_z²·sym(pβᵀ + σ²pwᵀ),   ∂m/∂β = 2σ²Sw + 2τ_z²Sp,
    ∂V/∂S = 4σ²τ_z⁴·ppᵀ,                      ∂V/∂β = 8σ²τ_z²·Sp.

The first fit on a machine waits for the compiler, which takes about a millisecond for every index
and every operation that it reads. So what is done once a chain is left to NumPy
(`tacit.regression.numerics.hamiltonian.coordinates`), and this is short: matrix b of a stack is
rows b·d to b·d + d of a table, as slices take longest.
"""

from __future__ import annotations

import math
from typing import Any

from tacit._core.linear import inlined

__all__ = ["site_slopes", "site_terms"]

_BETA, _SLOPE, _RESIDUAL, _W, _P, _SW, _SP = range(7)  # rows of the room for vectors


@inlined
def _invert(a: Any, o: int, row: Any) -> float:
    """Replace the lower triangle of A, of rows o and on, by all of A⁻¹; return log|A|, or NaN.

    Each sweep takes a pivot out; after all of them −A⁻¹ is left (Goodnight 1979).
    """
    d, log_det = a.shape[1], 0.0
    for k in range(d):
        pivot = a[o + k, k]
        if not pivot > 0.0:
            return math.nan
        log_det += math.log(pivot)
        inverse = 1.0 / pivot
        for i in range(d):
            row[i] = a[o + i, k] if i > k else a[o + k, i]
        for i in range(d):
            share = row[i] * inverse
            if i == k:
                for j in range(k):
                    a[o + i, j] = row[j] * inverse
                a[o + i, k] = -inverse
            else:
                for j in range(i + 1):
                    a[o + i, j] -= share * row[j]
                if i > k:
                    a[o + i, k] = share
    for i in range(d):
        for j in range(i + 1):
            entry = -a[o + i, j]
            a[o + i, j] = entry
            a[o + j, i] = entry
    return log_det


@inlined
def _square_terms(j: int, data: Any, variance: float, vectors: Any) -> Any:
    """Return log p(û | ẑ, S, β, σ²), its slope in log σ², and those in m and V; 0 without û."""
    cross, known, cross_var = data[1], data[2], data[3][j, 1]
    if math.isnan(known[j, 0]):
        return 0.0, 0.0, 0.0, 0.0
    mean, doubt, mixed, twice = known[j, 1] * variance, 0.0, 0.0, 0.0
    for i in range(vectors.shape[1]):
        p, z = vectors[_P, i], cross[j, i]
        fitted = z - vectors[_RESIDUAL, i]
        mean += vectors[_BETA, i] * (2.0 * z - fitted - 2.0 * cross_var * vectors[_W, i])
        doubt += p * fitted
        mixed += p * vectors[_SW, i]
        twice += p * vectors[_SP, i]
    errors = variance * variance * (2.0 * known[j, 1] + known[j, 3])
    noise = 4.0 * variance * cross_var
    spread = noise * max(doubt, 0.0) + errors + known[j, 2]
    of_mean = (known[j, 0] - mean) / spread
    of_spread = 0.5 * (of_mean * of_mean - 1.0 / spread)
    value = -0.5 * (math.log(spread) + of_mean * of_mean * spread)
    rise = of_mean * variance * (known[j, 1] + 2.0 * cross_var * mixed)
    rise += of_spread * (noise * cross_var * twice + 2.0 * errors)
    return value, rise, of_mean, of_spread


@inlined
def site_terms(
    b: int, j: int, data: Any, grams: Any, variance: float, vectors: Any, row: Any, slopes: Any
) -> tuple[float, float]:
    """Return log p(Ŝ, ẑ, û | S, β, σ²), NaN where M is not definite, and its slope in log σ².

    Site j has S from row b·d of ``grams`` on. Its slope in S goes into ``slopes``, that in β is
    added to its row of ``vectors``.
    """
    seen, cross, noise = data[0], data[1], data[3]
    d = grams.shape[1]
    o, s = b * d, (j - b) * d
    precision, cross_var = noise[j, 0], noise[j, 1]
    precision = 1.0 / precision if precision > 0.0 else 0.0
    for i in range(d):
        total = cross[j, i]
        for k in range(d):
            slopes[o + i, k] = variance * grams[o + i, k]
            total -= grams[o + i, k] * vectors[_BETA, k]
        slopes[o + i, i] += cross_var
        vectors[_RESIDUAL, i] = total
    value = -0.5 * _invert(slopes, o, row)  # M⁻¹
    rise = -0.5 * d
    for i in range(d):
        of_w, of_p = 0.0, 0.0
        for k in range(d):
            of_w += slopes[o + i, k] * vectors[_RESIDUAL, k]
            of_p += slopes[o + i, k] * vectors[_BETA, k]
        vectors[_W, i], vectors[_P, i] = of_w, of_p
        misfit = 0.5 * of_w * vectors[_RESIDUAL, i]
        value -= misfit
        rise += misfit + 0.5 * cross_var * (slopes[o + i, i] - of_w * of_w)
    for i in range(d):
        of_w, of_p = 0.0, 0.0
        for k in range(d):
            of_w += grams[o + i, k] * vectors[_W, k]
            of_p += grams[o + i, k] * vectors[_P, k]
        vectors[_SW, i], vectors[_SP, i] = of_w, of_p
    term, more, of_mean, of_spread = _square_terms(j, data, variance, vectors)
    value += term
    mixed = 2.0 * variance * of_mean
    square = 4.0 * variance * cross_var * of_spread
    both = 2.0 * (cross_var * of_mean + square)
    of_mean_noise, square = cross_var * of_mean, cross_var * square
    for i in range(d):
        w, p, beta = vectors[_W, i], vectors[_P, i], vectors[_BETA, i]
        vectors[_SLOPE, i] += (1.0 + mixed) * vectors[_SW, i] + both * vectors[_SP, i]
        # what multiplies w_k, p_k and β_k
        of_w = 0.5 * (variance * w + beta + cross_var * mixed * p)
        of_p = of_mean_noise * beta + 0.5 * cross_var * mixed * w + square * p
        of_beta = 0.5 * w - of_mean * beta + of_mean_noise * p
        for k in range(d):
            gap = precision * (seen[o + s + i, k] - grams[o + i, k])
            value -= 0.5 * gap * (seen[o + s + i, k] - grams[o + i, k])
            inverse = slopes[o + i, k]
            slopes[o + i, k] = (
                gap - 0.5 * variance * inverse + of_w * vectors[_W, k]
                + of_p * vectors[_P, k] + of_beta * vectors[_BETA, k]
            )  # fmt: skip
    return value, rise + more


def site_slopes(
    data: Any, places: Any, grams: Any, factors: Any, pull: Any, room: Any, out: Any, totals: Any
) -> None:
    """Write what all sites of all chains say, and the slopes of that.

    Parameters
    ----------
    data
        Ŝ_j, ẑ_j, (û_j or NaN, n_j, noise variances of both), (τ_j² or 0, τ_z²).
    places
        β and log σ² of every chain, (chains, d + 1).
    grams, factors
        S_j and L_j of every chain, one below the other.
    pull
        What is taken off the slope in S_j, but for a factor of each site: matrices, (chains·d, d),
        and these factors, (chains, J).
    room
        Slopes in S_j, seven vectors, and a vector.
    out
        The slopes in L_j, 2·slope·L, of which only the lower triangles are written.
    totals
        The log density and its slopes in β and log σ², (chains, d + 2).
    """
    slopes, vectors, row = room
    matrices, shares = pull
    d = grams.shape[1]
    for c in range(places.shape[0]):
        variance = math.exp(places[c, d])
        value, rise = 0.0, 0.0
        for i in range(d):
            vectors[_BETA, i], vectors[_SLOPE, i] = places[c, i], 0.0
        for j in range(shares.shape[1]):
            b = c * shares.shape[1] + j
            term, more = site_terms(b, j, data, grams, variance, vectors, row, slopes)
            value += term
            rise += more
            for i in range(d):
                for k in range(i + 1):
                    out[b * d + i, k] = 0.0
                for m in range(d):
                    share = slopes[b * d + i, m] - shares[c, j] * matrices[c * d + i, m]
                    for k in range(min(i, m) + 1):
                        out[b * d + i, k] += 2.0 * share * factors[b * d + m, k]
        totals[c, 0], totals[c, d + 1] = value, rise
        for i in range(d):
            totals[c, i + 1] = vectors[_SLOPE, i]
