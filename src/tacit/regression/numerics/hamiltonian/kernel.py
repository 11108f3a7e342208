"""Hamiltonian sampling of regression coefficients when sites' S are unknown and only partly alike.

The model of ``auto``. As in `tacit.regression.numerics.wishart.kernel`,

    ẑ_j ~ N(S_jβ, σ²S_j + τ_z²I),   p(Ŝ_j | S_j) ∝ exp(−‖Ŝ_j − S_j‖²/(2τ_j²)),
    S_j | Σ ~ Wishart(ν_j, n_jΣ/ν_j),   Σ ~ IW(ℓΛ, κ),

but 1/ν_j ≈ 1/n_j + h with the spread h learned: heavy tails and sites that differ make h grow, and
each S_j then follows its own summary as far as the known noise allows. ℓ, the size of Λ ∝ I, is
learned too: how nearly collinear features may be. Where yᵀy was released, û_j joins ẑ_j:
u = βᵀSβ + 2βᵀr + ‖e‖² with r = z − Sβ, and ‖e‖² is taken as N(nσ², 2nσ⁴), uncorrelated with r; the
error of that is of order 1/√n.

J sites and d coefficients make J·d(d + 1)/2 unknowns, and a random walk needs many times as many
steps for one independent draw. Hamiltonian trajectories need a handful. Their scales and steps
adapt during warm-up only; how they move stands in `tacit.regression.numerics.hamiltonian.loop`.
All chains go in step, so that most of an iteration is a few operations of NumPy over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit._core import kernels
from tacit._core.arrays import Array
from tacit.regression.numerics.moments import Moments, Prior
from tacit.regression.numerics.start import SiteArrays
from tacit.regression.numerics.wishart.kernel import GibbsInfo

__all__ = ["TiedGramSampler", "TiedState"]


class TiedState(NamedTuple):
    """Chains that go in step, in the sampler's basis.

    Of every chain the S_j, β, (log σ², log h, log prior variance of β, log ℓ), and what was tuned:
    log steps of own and common trajectories, of the walks on log h (twice) and on log ℓ. Of all
    chains together the scale of every coordinate, own and common, and sums for these; the number
    of steps taken, and that at which the scales were last set.
    """

    grams: Array
    coefficients: Array
    scales: Array
    tuning: Array
    widths: Array
    running: Array
    steps: int
    window: int


class TiedGramSampler:
    """A kernel: β, σ², every site's S and how much sites differ, from noisy moments.

    The prior's ``sd`` and ``features`` are learned if None.
    """

    in_step = True  # whether one state holds all chains

    def __init__(self, moments: Sequence[Moments], prior: Prior) -> None:
        learned = (len(moments) > 1, prior.sd is None, prior.features is None)
        self.sites = SiteArrays(moments, prior, *map(float, learned), squares=True)
        self.basis, self.data = self.sites.basis, self.sites.data
        self.settings = (
            self.data.prior
        )  # κ, a, b, the intercept's, and whether h, β's variance and ℓ are learned
        self.prior = prior

    def init(self, rng: np.random.Generator, chains: int = 1) -> TiedState:
        """Start near the pooled summary, each chain elsewhere."""
        starts = [self.sites.start(rng) for _ in range(chains)]
        grams = np.array([start.grams for start in starts])
        coefficients = np.array([start.coefficients for start in starts])
        fixed = [0.01, self.prior.known_sd() ** 2, 1.0]
        scales = np.log([[start.variance, *fixed] for start in starts])
        if self.settings[5]:
            scales[:, 2] = np.log(0.1 + np.square(coefficients).mean(axis=1))
        if self.settings[6]:
            scales[:, 3] = np.log(0.1)
        widths = self._widths(starts[0].grams, starts[0].variance)
        tuning = np.tile([-2.0, -2.0, 0.0, 0.0, 0.5], (chains, 1))
        running = np.zeros((2, *widths.shape))
        return TiedState(grams, coefficients, scales, tuning, widths, running, 0, 0)

    def _widths(self, grams: Array, variance: float) -> Array:
        """Return a first guess of every coordinate's posterior sd, (2, own or common)."""
        count, d = self.data.cross.shape
        widths = np.zeros((2, count * d * d + d + 1))
        for j in range(count):
            sd = np.sqrt(self.data.noise[j, 0])
            if sd > 0.0:
                widths[0, j * d * d : (j + 1) * d * d] = _factor_widths(grams[j], sd).ravel()
        common = _factor_widths(grams.sum(axis=0), self.sites.total.gram_sd)
        # C is that of the mean of a row: entries but for logs shrink by √n
        common[~np.eye(d, dtype=bool)] /= np.sqrt(self.data.rows.sum())
        widths[1, : d * d] = common.ravel()
        precision = self.sites.conditional(grams, variance)[1]
        beta = np.sqrt(np.diag(np.linalg.inv(precision)))
        for kind, blocks in ((0, count), (1, 1)):
            edge = blocks * d * d
            widths[kind, edge : edge + d] = beta
            widths[kind, edge + d] = 0.3
        return widths

    def step(self, rng: np.random.Generator, state: TiedState) -> tuple[TiedState, GibbsInfo]:
        """Take one iteration, without adapting."""
        return self.run(rng, state, 1)

    def run(
        self,
        rng: np.random.Generator,
        state: TiedState,
        draws: int,
        *,
        adapt: bool = False,
        thin: int = 1,
        compiled: bool = True,
    ) -> tuple[TiedState, GibbsInfo]:
        """Take ``draws``·``thin`` iterations and keep each ``thin``-th, in the user's basis.

        Draws are (chains, draws, d), and scales (chains, draws, 4).
        """
        from tacit.regression.numerics.hamiltonian.density import site_slopes
        from tacit.regression.numerics.hamiltonian.loop import MOVES, Chains

        chains, d = state.coefficients.shape
        after = TiedState._make([*(a.copy() for a in state[:6]), *state[6:]])
        beta, scales = np.empty((chains, draws, d)), np.empty((chains, draws, 4))
        kernel = site_slopes
        if compiled:
            kernel = kernels.compiled(site_slopes, reassociate=True, unchecked=True)
        # a chain that leaves the numbers a computer can hold is turned down
        with np.errstate(all="ignore"):
            moving = Chains(self.data, after, kernel)
            for row in range(draws):
                for _ in range(thin):
                    moving.iterate(rng, adapt)
                beta[:, row], scales[:, row] = after.coefficients, after.scales
        rates = moving.accepts / max(draws * thin, 1)
        shown = {name: float(rate) for name, rate in zip(MOVES, rates, strict=True) if rate > 0.0}
        after = after._replace(steps=moving.step, window=moving.window)
        return after, GibbsInfo(beta @ self.basis.T, scales, shown)


def _factor_widths(gram: Array, sd: float) -> Array:
    """Return about by how much noise moves (log L_ii, L_ik) of S = L·Lᵀ; 0 above the diagonal.

    dS_ik ≈ L_kk·dL_ik and dS_ii ≈ 2·L_ii²·d log L_ii; never more than half of what S_ii allows.
    """
    factor = np.linalg.cholesky(gram)
    own = np.diag(factor)
    widths = np.minimum(sd / np.sqrt(2.0) / own[None, :], 0.5 * np.sqrt(np.diag(gram))[:, None])
    np.fill_diagonal(widths, np.minimum(sd / (2.0 * own**2), 0.5))
    return np.tril(widths)
