"""Gibbs sampling of regression coefficients when every site's S is unknown.

Given S_j, ẑ_j ~ N(S_jβ, σ²S_j + τ_z²I) (Proposition 1, with z integrated out), so that β has a
Gaussian conditional (Proposition 3). The S_j are drawn too, under the isotropic symmetric noise
that was really added: p(Ŝ_j | S_j) ∝ exp(−‖Ŝ_j − S_j‖²/(2τ_j²)). Their prior ties the sites:

    S_j | Σ ~ Wishart(ν_j, n_jΣ/ν_j),   Σ ~ IW(Λ, κ),

with mean n_jΣ, and ν_j = n_j, the law of normal features (``MCMC-normalX``). What drops that
assumption is `tacit.regression.numerics.hamiltonian.kernel`. With every S_j held at the nearest
positive semi-definite matrix it is ``MCMC-fixedS``.

Σ is integrated out as well (Proposition 2 is its law given S, for who wants it):

    p(S_1 … S_J) ∝ Π_j |S_j|^((ν_j−d−1)/2) · |Λ + Σ_j (ν_j/n_j)·S_j|^(−(κ+Σν_j)/2).

**Moves on S.** A Wishart proposal with mean S has the same *relative* spread in all directions,
but isotropic noise leaves the same *absolute* uncertainty in all: with eigenvalues that differ
hundredfold the proposal hardly moves the small ones. So it alternates with a proposal that is
reversible for a Gaussian, S' = μ + √(1−ρ²)(S − μ) + ρ·N(0, q), where (μ, q) blends, entry by
entry, the summary and what the other sites say. Both also exist for all sites at once (a shift
of all S_j in proportion to n_j, and a congruence T·S_j·Tᵀ), because the prior ties the S_j to one
another. Degrees of freedom, ρ and steps adapt during warm-up only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit._core import kernels
from tacit._core.arrays import Array
from tacit.regression.numerics.moments import Moments, Prior
from tacit.regression.numerics.start import SiteArrays

__all__ = ["GibbsInfo", "GibbsState", "SiteGramSampler"]


class GibbsState(NamedTuple):
    """A chain, in the sampler's basis.

    The S_j with their Cholesky factors, β, log σ², what was tuned, and the number of steps taken.
    """

    grams: Array
    factors: Array
    coefficients: Array
    scales: Array
    tuning: Array
    steps: int


class GibbsInfo(NamedTuple):
    """Draws of β and of the scales (log σ² first), and acceptance rates by kind of move."""

    coefficients: Array
    scales: Array
    acceptance: dict[str, float]


class SiteGramSampler:
    """A kernel: β, σ² and every site's S from noisy moments under normal features, without yᵀy.

    ``fixed`` holds every S_j at the nearest positive semi-definite matrix (``MCMC-fixedS``).
    """

    in_step = False  # whether one state holds all chains

    def __init__(self, moments: Sequence[Moments], prior: Prior, *, fixed: bool = False) -> None:
        precision = prior.known_sd() ** -2
        self.sites = SiteArrays(moments, prior, precision, squares=False, fixed=fixed)
        self.basis, self.data = self.sites.basis, self.sites.data
        # congruences move the total by about its noise, or by half where noise is all there is
        total, d = self.data.seen.sum(axis=0), self.sites.total.dimension
        least = 1e-12 * self.sites.size * self.data.rows.sum()
        diagonal = np.maximum(np.diag(total), least)
        reach = np.minimum(0.5, self.sites.total.gram_sd / np.sqrt(2.0) / diagonal)
        self.reach = np.tile(reach, (d, 1))

    def init(self, rng: np.random.Generator) -> GibbsState:
        """Start near the pooled summary, each chain elsewhere."""
        start = self.sites.start(rng)
        count, d = self.data.cross.shape
        factors = np.tile(np.eye(d), (count, 1, 1))
        if not self.sites.fixed:
            factors = np.asarray(np.linalg.cholesky(start.grams), np.float64)
        tuning = np.concatenate([np.tile([np.log(200.0), -0.5], count), [-1.0, -0.5, np.log(0.5)]])
        scales = np.array([np.log(start.variance)])
        return GibbsState(start.grams, factors, start.coefficients, scales, tuning, 0)

    def step(self, rng: np.random.Generator, state: GibbsState) -> tuple[GibbsState, GibbsInfo]:
        """Take one iteration, without adapting."""
        return self.run(rng, state, 1)

    def run(
        self,
        rng: np.random.Generator,
        state: GibbsState,
        draws: int,
        *,
        adapt: bool = False,
        thin: int = 1,
        compiled: bool = True,
    ) -> tuple[GibbsState, GibbsInfo]:
        """Take ``draws``·``thin`` iterations and keep each ``thin``-th, in the user's basis."""
        from tacit.regression.numerics.wishart.loop import sweeps

        count, d = self.data.cross.shape
        after = GibbsState._make([*(a.copy() for a in state[:5]), state.steps])
        out = np.empty((draws, d)), np.empty((draws, 1)), np.zeros(len(state.tuning))
        function = kernels.compiled(sweeps) if compiled else sweeps
        function(rng, self.data, self.reach, after, adapt, thin, out)
        steps = draws * thin
        rates = out[2] / max(steps, 1)
        # the two kinds of moves on S take turns
        acceptance = {
            "noise variance": rates[-1],
            "S, Wishart": 2.0 * float(rates[0 : 2 * count : 2].mean()),
            "S, Gaussian": 2.0 * float(rates[1 : 2 * count : 2].mean()),
            "all S, congruence": 2.0 * rates[2 * count],
            "all S, Gaussian": 2.0 * rates[2 * count + 1],
        }
        shown = {name: float(rate) for name, rate in acceptance.items() if rate > 0.0}
        after = after._replace(steps=state.steps + steps)
        return after, GibbsInfo(out[0] @ self.basis.T, out[1], shown)
