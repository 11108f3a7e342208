"""The sampler of Bernstein and Sheldon for many sites and any dimension (``MCMC-B&S``).

Source: Bernstein & Sheldon (2019), algorithm 1; Alparslan (2023), section 7.1.2. With features
x ~ N(0, Σ) the pair w = (x, y) is N(0, Ω),

    Ω = [ Σ, Σβ ; βᵀΣ, βᵀΣβ + σ² ],

and by the central limit theorem T_j = Σ w·wᵀ is Gaussian with mean n_jΩ and Cov(T_ab, T_cd) =
n_j(Ω_ac·Ω_bd + Ω_ad·Ω_bc), the fourth moments. **In Ω's eigenbasis these are diagonal**: T_ab has
variance n_j·λ_a·λ_b·(1 + δ_ab). Isotropic symmetric noise is diagonal in every basis. So drawing
T_j given T̂_j is one eigendecomposition and a draw per entry, O(d³), where forming the D × D
covariance, D = (d+1)(d+2)/2, and solving with it costs O(d⁶). (Σ_post uses
Σ_ss⁻¹/n_j, PRIVACY B5.)

Noise that is not isotropic over (S, z, u) is split into an isotropic part and a rest that is
diagonal in the given basis: T̂ = (T + iso) + rest, with T + iso as one more variable.

Given the T_j, Σ ~ IW(Λ + ΣS_j, κ + n) and (β, σ²) is normal–inverse-gamma with
b_n = b₀ + ½(Σu_j + mᵀC⁻¹m − m_nᵀΛ_n·m_n). A Gaussian T_j need not be positive semi-definite; the
sum is projected where it is not. The conditionals fit together only as far as the central limit
theorem goes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit._core import kernels
from tacit._core.arrays import Array
from tacit._core.linear import (
    bartlett,
    cholesky,
    congruence,
    copy,
    fill,
    from_precision,
    matvec,
    solve_lower,
)
from tacit.errors import ParameterError
from tacit.regression.numerics.moments import Moments, Prior, nearest_psd, pooled
from tacit.regression.numerics.wishart.kernel import GibbsInfo

__all__ = ["MomentSampler", "MomentState"]


class MomentState(NamedTuple):
    """A chain: Σ, β, (log σ²), and the sites' T_j + isotropic noise, in scaled units."""

    features: Array
    coefficients: Array
    scales: Array
    between: Array


class MomentData(NamedTuple):
    """What the sites released, y in scaled units, and the prior.

    seen: T̂_j. iso: variance of its isotropic noise. rest: variances of further noise, by entry.
    rows: n_j. scale: Λ. prior: κ, a₀, b₀ and mᵀC⁻¹m. precision, linear: C⁻¹ and C⁻¹m.
    """

    seen: Any
    iso: Any
    rest: Any
    rows: Any
    scale: Any
    prior: Any
    precision: Any
    linear: Any


def moment_sweeps(rng: Any, data: Any, state: Any, thin: int, out: Any) -> None:
    """Run ``thin`` iterations per draw, from and into the state's arrays.

    data, state: see `MomentData` and `MomentState`. out: draws of β and of log σ².
    """
    seen, iso, rest, rows, scale, prior, precision0, linear0 = data
    features, beta, scales, between = state
    out_beta, out_scales = out
    count, e = seen.shape[0], seen.shape[1]
    d = e - 1
    omega, total, drawn = np.empty((e, e)), np.empty((e, e)), np.empty((e, e))
    rotated, work, turn = np.empty((e, e)), np.empty((e, e)), np.empty((e, e))
    gram, factor, triangle = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    linear, vector, white = np.empty(d), np.empty(d), np.empty(d)
    all_rows = rows.sum()
    for step in range(out_beta.shape[0] * thin):
        # Ω of (Σ, β, σ²)
        matvec(features, beta, vector)
        fit = 0.0
        for i in range(d):
            fit += beta[i] * vector[i]
            omega[i, d] = vector[i]
            omega[d, i] = vector[i]
            for k in range(d):
                omega[i, k] = features[i, k]
        omega[d, d] = fit + math.exp(scales[0])
        levels, basis = np.linalg.eigh(omega)
        for i in range(e):
            levels[i] = max(levels[i], 1e-300)
            for k in range(e):
                turn[i, k] = basis[k, i]
        # T_j, and what lies between T_j and T̂_j
        fill(total, 0.0)
        for j in range(count):
            congruence(turn, between[j], work, rotated)
            for a in range(e):
                for b in range(a + 1):
                    twice = 2.0 if a == b else 1.0
                    spread = rows[j] * levels[a] * levels[b] * twice
                    noise = 0.5 * twice * iso[j]
                    mean = rows[j] * levels[a] if a == b else 0.0
                    weight = spread / (spread + noise)
                    value = mean + weight * (rotated[a, b] - mean)
                    value += math.sqrt(weight * noise) * rng.standard_normal()
                    rotated[a, b] = value
                    rotated[b, a] = value
            for i in range(e):
                for k in range(e):
                    work[i, k] = basis[i, k]
            congruence(work, rotated, omega, drawn)
            for a in range(e):
                for b in range(a + 1):
                    if rest[j, a, b] > 0.0:
                        noise = (1.0 if a == b else 0.5) * iso[j]
                        weight = noise / (noise + rest[j, a, b])
                        value = drawn[a, b] + weight * (seen[j, a, b] - drawn[a, b])
                        value += math.sqrt(weight * rest[j, a, b]) * rng.standard_normal()
                        between[j, a, b] = value
                        between[j, b, a] = value
                    total[a, b] += drawn[a, b]
                    if a != b:
                        total[b, a] += drawn[a, b]
        levels, basis = np.linalg.eigh(total)
        if levels[0] < 0.0:
            fill(rotated, 0.0)
            for i in range(e):
                rotated[i, i] = max(levels[i], 0.0)
            for i in range(e):
                for k in range(e):
                    work[i, k] = basis[i, k]
            congruence(work, rotated, omega, total)
        # Σ | T
        for i in range(d):
            for k in range(d):
                gram[i, k] = scale[i, k] + total[i, k]
        cholesky(gram, factor)
        bartlett(rng, prior[0] + all_rows, triangle)
        for i in range(d):  # Σ = L·(B·Bᵀ)⁻¹·Lᵀ
            solve_lower(triangle, factor[i], gram[i])
        for i in range(d):
            for k in range(d):
                value = 0.0
                for c in range(d):
                    value += gram[i, c] * gram[k, c]
                features[i, k] = value
        # σ², then β
        for i in range(d):
            linear[i] = linear0[i] + total[i, d]
            white[i] = 0.0
            for k in range(d):
                gram[i, k] = precision0[i, k] + total[i, k]
        cholesky(gram, factor)
        from_precision(factor, linear, white, vector, beta)
        excess = total[d, d] + prior[3]
        for i in range(d):
            excess -= linear[i] * beta[i]
        rate = prior[2] + 0.5 * max(excess, 0.0)
        variance = rate / rng.standard_gamma(prior[1] + 0.5 * all_rows)
        scales[0] = math.log(variance)
        for i in range(d):
            white[i] = rng.standard_normal()
            for k in range(i + 1):
                factor[i, k] /= math.sqrt(variance)
            linear[i] /= variance
        from_precision(factor, linear, white, vector, beta)
        if (step + 1) % thin == 0:
            row = (step + 1) // thin - 1
            copy(beta, out_beta[row])
            out_scales[row, 0] = scales[0]


class MomentSampler:
    """A kernel: β, σ², Σ and the sites' (S, z, u) from noisy moments with yᵀy.

    Of each site's moments every part is noisy, or none. The prior is β | σ² ~ N(m, σ²C),
    σ² ~ IG(a, b), Σ ~ IW(Λ, κ).
    """

    in_step = False  # whether one state holds all chains

    def __init__(self, moments: Sequence[Moments], prior: Prior) -> None:
        for j, site in enumerate(moments):
            if site.square is None:
                raise ParameterError(f"MCMC-B&S needs yᵀy: moments[{j}].square is None")
            noises = (site.gram_sd, site.cross_sd, site.square_sd)
            if not (site.exact or min(noises) > 0.0):
                raise ParameterError(
                    f"MCMC-B&S needs noise on all of S, z and u or on none, and moments[{j}] has "
                    f"standard deviations {noises}"
                )
        d = moments[0].dimension
        ratios = [m.gram_sd / (math.sqrt(2.0) * m.cross_sd) for m in moments if not m.exact]
        self.unit = float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0  # y in these units
        k = self.unit
        seen, iso = np.empty((len(moments), d + 1, d + 1)), np.empty(len(moments))
        rest = np.empty_like(seen)
        for j, m in enumerate(moments):
            seen[j, :d, :d] = m.gram
            seen[j, d, :d] = seen[j, :d, d] = k * m.cross
            seen[j, d, d] = k * k * float(m.square or 0.0)
            parts = np.array([m.gram_sd, math.sqrt(2.0) * k * m.cross_sd, k * k * m.square_sd])
            iso[j] = (parts**2).min()
            excess = parts**2 - iso[j]
            excess[excess < 1e-9 * iso[j]] = 0.0
            rest[j, :d, :d] = excess[0] * 0.5 * (1.0 + np.eye(d))
            rest[j, d, :d] = rest[j, :d, d] = 0.5 * excess[1]
            rest[j, d, d] = excess[2]
        rows = np.array([max(float(m.rows), 1.0) for m in moments])
        total = pooled(moments)
        self.size = max(np.trace(total.gram) / d, total.gram_sd, 1e-12) / rows.sum()
        features = np.eye(d) * self.size if prior.features is None else prior.features
        scale = np.asarray(features, float)
        kappa = d + 1.0 if prior.freedom is None else float(prior.freedom)
        mean = np.full(d, prior.mean * k)
        precision = prior.precision(d)
        linear = precision @ mean
        # b₀ and m change with the unit of y
        settings = np.array([kappa, prior.noise_shape, prior.noise_scale * k * k, mean @ linear])
        self.data = MomentData(seen, iso, rest, rows, scale, settings, precision, linear)

    def init(self, rng: np.random.Generator) -> MomentState:
        """Start near the pooled moments, each chain elsewhere."""
        data, d = self.data, len(self.data.linear)
        n = data.rows.sum()
        total = nearest_psd(data.seen.sum(axis=0), 1e-6 * self.size * n)
        noise = float(np.sqrt(data.iso.sum()))
        gram = nearest_psd(total[:d, :d], 0.5 * noise * math.sqrt(d) + 1e-9 * self.size * n)
        beta = np.linalg.solve(gram + data.precision, total[:d, d] + data.linear)
        beta = beta * (1.0 + 0.1 * rng.standard_normal(d))
        variance = max(0.5 * total[d, d] / n, 1e-9)
        scales = np.array([math.log(variance) + 0.3 * rng.standard_normal(), 0.0, 0.0])
        return MomentState(gram / n, beta, scales, data.seen.copy())

    def step(self, rng: np.random.Generator, state: MomentState) -> tuple[MomentState, GibbsInfo]:
        """Take one iteration."""
        return self.run(rng, state, 1)

    def run(
        self,
        rng: np.random.Generator,
        state: MomentState,
        draws: int,
        *,
        adapt: bool = False,
        thin: int = 1,
        compiled: bool = True,
    ) -> tuple[MomentState, GibbsInfo]:
        """Take ``draws``·``thin`` iterations; nothing adapts."""
        after = MomentState._make(a.copy() for a in state)
        out = np.empty((draws, len(state.coefficients))), np.zeros((draws, 3))
        function = kernels.compiled(moment_sweeps) if compiled else moment_sweeps
        function(rng, self.data, after, thin, out)
        out[1][:, 0] -= 2.0 * math.log(self.unit)
        return after, GibbsInfo(out[0] / self.unit, out[1], {})
