"""Gibbs sampling of regression coefficients when every site's S is unknown.

Given S_j, ẑ_j ~ N(S_jβ, σ²S_j + τ_z²I) (Proposition 1, with z integrated out), so that β has a
Gaussian conditional (Proposition 3). The S_j are drawn too, under the isotropic symmetric noise
that was really added: p(Ŝ_j | S_j) ∝ exp(−‖Ŝ_j − S_j‖²/(2τ_j²)). Their prior ties the sites:

    S_j | Σ ~ Wishart(ν_j, n_jΣ/ν_j),   Σ ~ IW(ℓΛ, κ),

with mean n_jΣ whatever ν_j is. ν_j = n_j is the law of normal features (``MCMC-normalX``).
Learning the spread, 1/ν_j ≈ 1/n_j + h, drops that assumption (``auto``): heavy tails and sites
that differ make h grow, and each S_j then follows its own summary as far as the known noise
allows. ``auto`` also learns ℓ, the size of Λ ∝ I: how nearly collinear features may be; ℓ = 1
elsewhere. With every S_j held at the nearest positive semi-definite matrix it is ``MCMC-fixedS``.

Σ is integrated out as well (Proposition 2 is its law given S, for who wants it):

    p(S_1 … S_J) ∝ Π_j |S_j|^((ν_j−d−1)/2) · |ℓΛ + Σ_j (ν_j/n_j)·S_j|^(−(κ+Σν_j)/2).

Where yᵀy was released, û_j joins ẑ_j: u = βᵀSβ + 2βᵀr + ‖e‖² with r = z − Sβ, and ‖e‖² is taken
as N(nσ², 2nσ⁴), uncorrelated with r; the error of that is of order 1/√n.

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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit._core import kernels
from tacit.models.regression import Moments, Prior, nearest_psd, pooled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GibbsInfo", "GibbsState", "SiteGramSampler"]


class GibbsState(NamedTuple):
    """A chain, in the sampler's basis.

    The S_j with their Cholesky factors, β, (log σ², log h, log prior variance of β, log ℓ), what
    was tuned, and the number of steps taken.
    """

    grams: NDArray[np.float64]
    factors: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    scales: NDArray[np.float64]
    tuning: NDArray[np.float64]
    steps: int


class GibbsInfo(NamedTuple):
    """Draws of β and of the scales, and acceptance rates by kind of move."""

    coefficients: NDArray[np.float64]
    scales: NDArray[np.float64]
    acceptance: dict[str, float]


class SiteGramSampler:
    """A kernel: β, σ² and every site's S from noisy moments.

    Parameters
    ----------
    moments
        The sites' moments, checked.
    prior
        The prior; its ``sd`` is learned if None and ``learn``.
    learn
        Learn how much sites differ, and use yᵀy where it was released (``auto``). Otherwise the
        features are normal and yᵀy is not used (``MCMC-normalX``).
    fixed
        Hold every S_j at the nearest positive semi-definite matrix (``MCMC-fixedS``).
    """

    def __init__(
        self,
        moments: Sequence[Moments],
        prior: Prior,
        *,
        learn: bool = False,
        fixed: bool = False,
    ) -> None:
        sites, d = len(moments), moments[0].dimension
        total = pooled(moments)
        # isotropic noise looks the same in every basis: use that of the pooled summary
        self.basis = np.asarray(np.linalg.eigh(total.gram)[1])
        q = self.basis
        self.seen = np.array([q.T @ m.gram @ q for m in moments])
        self.cross = np.array([q.T @ m.cross for m in moments])
        rows = np.array([max(float(m.rows), 1.0) for m in moments])
        self.rows = rows
        # a count with noise is one more reason for S_j to differ from n_jΣ
        rows_sd = np.array([m.rows_sd for m in moments])
        self.freedoms = 1.0 / (1.0 / rows + (rows_sd / rows) ** 2)
        self.noise = np.array([[0.0 if fixed else m.gram_sd**2, m.cross_sd**2] for m in moments])
        squares = [m.square if learn and m.square is not None else np.nan for m in moments]
        square_sd = np.array([m.square_sd for m in moments])
        self.known = np.column_stack([squares, rows, square_sd**2, rows_sd**2])
        size = max(np.trace(total.gram) / d, total.gram_sd, 1e-12) / rows.sum()
        features = np.eye(d) * size if prior.features is None else prior.features
        self.scale = np.asarray(q.T @ np.asarray(features, float) @ q)
        self.prior = prior
        self.fixed = fixed
        self.learn_spread = learn and sites > 1
        self.learn_variance = learn and prior.sd is None
        self.learn_size = learn and prior.features is None
        kappa = d + 1.0 if prior.freedom is None else float(prior.freedom)
        # a common prior mean m·1 is not a common mean in the new basis
        self.center = q.T @ np.full(d, prior.mean)
        self.settings = np.array(
            [
                kappa, prior.noise_shape, prior.noise_scale,
                float(self.learn_spread), float(self.learn_variance), float(self.learn_size),
            ]
        )  # fmt: skip
        # congruences move the total by about its noise, or by half where noise is all there is
        diagonal = np.maximum(np.diag(self.seen.sum(axis=0)), 1e-12 * size * rows.sum())
        reach = np.minimum(0.5, total.gram_sd / np.sqrt(2.0) / diagonal)
        self.reach = np.tile(reach, (d, 1))
        self.total = total

    def init(self, rng: np.random.Generator) -> GibbsState:
        """Start near the pooled summary, each chain elsewhere."""
        sites, d = self.cross.shape
        n = self.rows.sum()
        noise = self.total.gram_sd
        grams = np.empty((sites, d, d))
        factors = np.tile(np.eye(d), (sites, 1, 1))
        smallest = 1e-10 * max(np.trace(self.seen.sum(axis=0)) / d, 1e-12)
        floor = max(0.5 * noise * np.sqrt(d), smallest)
        common = nearest_psd(self.seen.sum(axis=0), floor) / n
        for j in range(sites):
            if self.noise[j, 0] == 0.0:
                grams[j] = nearest_psd(self.seen[j], 0.0 if self.fixed else smallest)
            else:
                # between the site's own summary and what all say, as noise allows, off by noise
                expected = common * self.rows[j]
                tau = np.sqrt(self.noise[j, 0])
                size = 0.1 * np.trace(expected) / d
                own = size**2 / (size**2 + tau**2)
                wobble = rng.standard_normal((d, d))
                wobble = 0.5 * tau * (wobble + wobble.T) / 2.0
                blend = own * (self.seen[j] + wobble) + (1.0 - own) * expected
                lowest = max(0.1 * tau * np.sqrt(d), smallest)
                grams[j] = nearest_psd(blend, lowest) * np.exp(0.05 * (1 - own) * rng.normal())
            if not self.fixed:
                factors[j] = np.linalg.cholesky(grams[j])
        a, b = self.prior.noise_shape, self.prior.noise_scale
        variance = b / (a + 1.0)
        squares = self.known[:, 0]
        released = not np.isnan(squares).any()
        if released:
            variance = max(0.5 * squares.sum() / n, variance)
        coefficients = self._conditional_mean(grams, variance, smallest)
        # two turns of β and its residual: a chain that starts with far too large a σ² may stay
        # there for long, with S to match
        for _ in range(2 if released else 0):
            fitted = sum(coefficients @ g @ coefficients - 2.0 * coefficients @ c
                         for g, c in zip(grams, self.cross, strict=True))  # fmt: skip
            residual = (squares.sum() + float(fitted)) / n
            spread = np.sqrt(np.sum(self.known[:, 2])) / n
            variance = float(np.clip(residual, max(spread, 1e-4 * variance), variance))
            coefficients = self._conditional_mean(grams, variance, smallest)
        variance *= np.exp(0.3 * rng.standard_normal())
        scales = np.array(
            [np.log(variance), np.log(0.01), 2.0 * np.log(self.prior.known_sd()), 0.0]
        )
        if self.learn_size:
            scales[3] = np.log(0.1)
        if self.learn_variance:
            scales[2] = np.log(0.1 + coefficients @ coefficients / d)
        tuning = np.concatenate(
            [
                np.tile([np.log(200.0), -0.5], sites),
                [-1.0, -0.5],
                np.log([0.5, 1.0]),
                [0.0, 0.0, 0.5],
            ]
        )
        return GibbsState(grams, factors, coefficients, scales, tuning, 0)

    def _conditional_mean(
        self, grams: NDArray[np.float64], variance: float, smallest: float
    ) -> NDArray[np.float64]:
        """Return the mean of β given S_j and σ² (Proposition 3)."""
        d = len(self.center)
        precision = np.eye(d) / self.prior.known_sd() ** 2
        linear = precision @ self.center
        for gram, cross, (_, cross_var) in zip(grams, self.cross, self.noise, strict=True):
            solved = np.linalg.solve(
                variance * gram + (cross_var + smallest) * np.eye(d),
                np.column_stack([gram, cross]),
            )
            precision = precision + gram @ solved[:, :d]
            linear = linear + gram @ solved[:, d]
        return np.asarray(np.linalg.solve(precision, linear))

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
        from tacit.inference.regression_sweep import sweeps

        sites, d = self.cross.shape
        grams, factors, beta, scales, tuning = (a.copy() for a in state[:5])
        out_beta, out_scales = np.empty((draws, d)), np.empty((draws, 4))
        accepts = np.zeros(len(tuning))
        function = kernels.compiled(sweeps) if compiled else sweeps
        function(
            rng, self.seen, self.cross, self.known, self.noise, self.rows, self.freedoms,
            self.scale, self.settings, self.center, self.reach, grams, factors, beta, scales,
            tuning, state.steps, adapt, thin, out_beta, out_scales, accepts,
        )  # fmt: skip
        steps = draws * thin
        rates = accepts / max(steps, 1)
        # the two kinds of moves on S take turns
        acceptance = {
            "coefficients": rates[-3],
            "noise variance": rates[-5],
            "S, Wishart": 2.0 * float(rates[0 : 2 * sites : 2].mean()),
            "S, Gaussian": 2.0 * float(rates[1 : 2 * sites : 2].mean()),
            "all S, congruence": 2.0 * rates[2 * sites],
            "all S, Gaussian": 2.0 * rates[2 * sites + 1],
            "spread": rates[-4],
        }
        shown = {name: float(rate) for name, rate in acceptance.items() if rate > 0.0}
        after = GibbsState(grams, factors, beta, scales, tuning, state.steps + steps)
        return after, GibbsInfo(out_beta @ self.basis.T, out_scales, shown)
