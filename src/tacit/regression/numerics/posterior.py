"""From many sites' noisy moments to one posterior of the coefficients.

`posterior` is the only entry: it takes a list of `Moments` and the name of a method.

| method | S_j | what it is |
|---|---|---|
| ``auto`` | unknown, sites tied as far as they agree | the default |
| ``MCMC-normalX`` | unknown, normal features | Alparslan (2023), algorithm 16 |
| ``MCMC-interceptX`` | unknown, normal features beside a constant | section 5.2.4.2 |
| ``MCMC-fixedS`` | nearest positive semi-definite | algorithm 17 |
| ``Bayes-fixedS-fast`` | the same, σ² fixed | algorithm 18, closed form |
| ``MCMC-B&S`` | unknown, normal by the central limit theorem | section 7.1.2 |
| ``adaSSP`` | summed, with a ridge | section 7.1.1, a point |
| ``OLS``, ``conjugate`` | taken as exact | not for noisy moments |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacit._core.answers import Answer, Answering
from tacit._core.arrays import Array
from tacit._core.chains import inference_data
from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit._core.draws import draws_answer
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.regression.numerics.alike import alike_summed
from tacit.regression.numerics.moments import (
    Moments,
    NormalInverseGamma,
    Prior,
    check_moments,
    check_prior,
    nearest_psd,
    pooled,
)
from tacit.regression.numerics.running import Plan, run

__all__ = ["METHODS", "Posterior", "posterior"]

_ROUNDED = 1e-7  # of the largest eigenvalue, where features have equal size: that is rounding
_WARMUP = 300  # iterations in which the trajectories' scales settle, of all chains together
METHODS = (
    "auto",
    "MCMC-normalX",
    "MCMC-interceptX",
    "MCMC-fixedS",
    "Bayes-fixedS-fast",
    "MCMC-B&S",
    "adaSSP",
    "OLS",
    "conjugate",
)


@dataclass(frozen=True)
class Posterior(Answering):
    """Draws of the coefficients and of σ²; a point estimate is a single draw.

    Parameters
    ----------
    method
        The method that made it.
    draws
        Coefficients, (chains, draws, d).
    noise_variance
        σ², (chains, draws); NaN where a method does not know it.
    diagnostics
        R-hat and effective samples per coefficient, acceptance rates, iterations, and how many
        summaries were sampled from: of ``auto`` those of alike sites count as one.
    """

    method: str
    draws: Array = field(repr=False)
    noise_variance: Array = field(repr=False)
    diagnostics: dict[str, Any] = field(default_factory=dict)

    @property
    def point(self) -> bool:
        """Whether this is a point estimate without a spread."""
        return self.draws.shape[:2] == (1, 1)

    def _answer(self, level: float) -> Answer:
        count = self.draws.shape[-1]
        return draws_answer(
            f"Posterior of {count} coefficients by {self.method}",
            [f"coefficient {k}" for k in range(1, count + 1)],
            self.draws,
            level,
        )

    @property
    def flat(self) -> Array:
        """All draws of the coefficients, (chains·draws, d)."""
        return self.draws.reshape(-1, self.draws.shape[-1])

    @property
    def mean(self) -> Array:
        """Posterior mean of the coefficients."""
        return np.asarray(self.flat.mean(axis=0))

    @property
    def covariance(self) -> Array:
        """Posterior covariance of the coefficients; NaN for a point estimate."""
        side = self.draws.shape[-1]
        if self.point:
            return np.full((side, side), np.nan)
        return np.asarray(np.cov(self.flat.T).reshape(side, side))

    @property
    def sd(self) -> Array:
        """Posterior standard deviation of each coefficient; NaN for a point estimate."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def interval(self, level: float = 0.9) -> Array:
        """Return the central interval of each coefficient, (d, 2)."""
        check("level", level, Real(0, 1, open_low=True, open_high=True))
        self._needs_spread()
        tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        return np.asarray(np.quantile(self.flat, tails, axis=0).T)

    def predict(self, rows: Array) -> Array:
        """Return the posterior predictive mean at each row."""
        return np.asarray(np.asarray(rows, float) @ self.mean)

    def predict_interval(self, rows: Array, level: float = 0.9, *, noise: bool = True) -> Array:
        """Return the central predictive interval at each row, (rows, 2).

        Parameters
        ----------
        rows
            Rows on the model's scale, (rows, d).
        level
            Probability of the interval.
        noise
            Whether it is for a new response; else for its mean.
        """
        check("level", level, Real(0, 1, open_low=True, open_high=True))
        self._needs_spread()
        variance = self.noise_variance.reshape(-1)
        if noise and np.isnan(variance).any():
            raise ParameterError(f"{self.method} does not know σ²: pass noise=False")
        rows = np.atleast_2d(np.asarray(rows, float))
        tails = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        error = np.zeros_like(variance)
        if noise:  # one quantile of the noise per draw, in random order: less Monte-Carlo error
            from scipy.special import ndtri

            shuffled = generator(0, "predictive noise").permutation(len(variance))
            error = np.sqrt(variance) * ndtri((shuffled + 0.5) / len(variance))
        out = np.empty((len(rows), 2))
        chunk = max(1, 2_000_000 // len(variance))
        for start in range(0, len(rows), chunk):
            part = slice(start, start + chunk)
            out[part] = np.quantile(rows[part] @ self.flat.T + error, tails, axis=1).T
        return out

    def to_arviz(self) -> Any:
        """Return an ArviZ InferenceData (extra ``diagnostics``)."""
        return inference_data({"coefficients": self.draws, "noise_variance": self.noise_variance})

    def _needs_spread(self) -> None:
        if self.point:
            raise ParameterError(
                f"{self.method} is a point estimate without intervals: use method='auto'"
            )


def posterior(
    moments: Sequence[Moments],
    method: str = "auto",
    *,
    prior: Prior | None = None,
    chains: int = 4,
    draws: int = 1000,
    warmup: int | None = None,
    thin: int | None = None,
    noise_variance: float | None = None,
    ridges: Sequence[float] | None = None,
    ridge: float | None = None,
    free: bool = False,
    constant: float = 1.0,
    rng: np.random.Generator | None = None,
    progress: Callable[[int], None] | None = None,
) -> Posterior:
    """Return the posterior of the coefficients given the sites' moments.

    Parameters
    ----------
    moments
        One summary per site.
    method
        One of `METHODS`.
    prior
        The prior; see `Prior` for the defaults.
    chains, draws
        Chains, and draws kept of each; fewer where ``auto`` has 1,000 effective draws of every
        coefficient before.
    warmup
        Draws thrown away first, during which proposals adapt; None is as many as ``draws``, and
        at most 300 of ``auto``.
    thin
        Iterations per draw. None is 1, or grows with d and the number of sites for random walks.
    noise_variance
        σ² of ``Bayes-fixedS-fast``; None takes the mean squared response where it was released
        (an upper bound of σ²), else the prior's mode.
    ridges
        λ_j of ``adaSSP``, one per site, as the sites released them. None computes
        max(0, √(d·ln(2d²/0.05))·gram_sd − λ_min(Ŝ_j)) from the released Ŝ_j.
    ridge, free
        A stated λ of ``OLS`` and ``adaSSP``, added to S, and whether the first coefficient is free
        of it, being an intercept.
    constant
        What stands in front of a row, for ``MCMC-interceptX``.
    rng
        A generator for inference; None makes one.
    progress
        Called with 1 after the warm-up and after the draws of each chain.

    >>> rng = generator(1)
    >>> x = rng.standard_normal((1000, 2))
    >>> site = Moments.of(x, x @ [1.0, -1.0] + 0.1 * rng.standard_normal(1000))
    >>> posterior([site], draws=500, rng=rng).mean.round(1)
    array([ 1., -1.])
    """
    check("method", method, OneOf(*METHODS))
    check("chains", chains, Integer(1))
    check("draws", draws, Integer(4))
    check("warmup", warmup, AnyOf(Integer(0), None))
    check("thin", thin, AnyOf(Integer(1), None))
    check("noise_variance", noise_variance, AnyOf(Real(0, open_low=True), None))
    moments = list(moments)
    check_moments(moments)
    prior = Prior() if prior is None else prior
    rng = generator(None) if rng is None else rng
    d = moments[0].dimension
    check_prior(prior, d)
    moments = [
        replace(site, gram=np.asarray(site.gram, float), cross=np.asarray(site.cross, float))
        for site in moments
    ]
    if warmup is None:
        warmup = min(draws, _WARMUP) if method == "auto" else draws
    plan = Plan(chains, draws, warmup, thin, rng, progress or (lambda done: None))
    penalty = np.full(d, ridge or 0.0)
    penalty[0] *= not free
    try:
        return _infer(moments, method, prior, plan, noise_variance, ridges, penalty, constant)
    except (np.linalg.LinAlgError, ArithmeticError):
        raise _contradiction(method) from None


def _contradiction(method: str) -> ParameterError:
    return ParameterError(
        f"{method} left the numbers a computer can hold: the summaries contradict the stated "
        "noise; check that gram_sd, cross_sd and rows describe them"
    )


def _infer(
    moments: list[Moments],
    method: str,
    prior: Prior,
    plan: Plan,
    noise_variance: float | None,
    ridges: Sequence[float] | None,
    penalty: Array,
    constant: float,
) -> Posterior:
    """Return the posterior from arguments that were checked."""
    d, shape = moments[0].dimension, (plan.chains, plan.draws)
    exact = all(site.exact and site.square is not None for site in moments)
    if method == "conjugate" or (method == "auto" and exact):
        beta, variance = _conjugate(moments, prior).sample(plan.rng, math.prod(shape))
        return Posterior(method, beta.reshape(*shape, d), variance.reshape(shape))
    if method in ("OLS", "adaSSP"):
        point = _ols(moments, penalty) if method == "OLS" else _adassp(moments, ridges, penalty)
        return Posterior(method, point.reshape(1, 1, d), np.full((1, 1), np.nan))
    if method == "Bayes-fixedS-fast":
        return _fixed_fast(moments, prior, noise_variance, shape, plan.rng)
    if method == "auto":
        moments = alike_summed(moments, prior)
    thin = plan.thin
    if thin is None:
        walks = method in ("MCMC-normalX", "MCMC-interceptX", "MCMC-B&S")
        thin = max(3, round(d * math.sqrt(len(moments)) / 5)) if walks else 1
    beta, variance, told = run(_kernel(method, moments, prior, constant), plan, thin)
    if not (np.isfinite(beta).all() and np.isfinite(variance).all()):
        raise _contradiction(method)
    return Posterior(method, beta, variance, {**told, "summaries": len(moments)})


def _kernel(method: str, moments: Sequence[Moments], prior: Prior, constant: float) -> Any:
    # imported here: they need Numba, which takes half a second
    from tacit.regression.numerics.bernstein_sheldon import MomentSampler
    from tacit.regression.numerics.hamiltonian.kernel import TiedGramSampler
    from tacit.regression.numerics.intercept import InterceptSampler
    from tacit.regression.numerics.wishart.kernel import SiteGramSampler

    if method == "MCMC-interceptX":
        return InterceptSampler(moments, prior, constant)
    if method == "MCMC-B&S":
        return MomentSampler(moments, prior)
    if method == "auto":
        return TiedGramSampler(moments, prior)
    return SiteGramSampler(moments, prior, fixed=method == "MCMC-fixedS")


def _conjugate(moments: Sequence[Moments], prior: Prior) -> NormalInverseGamma:
    """The normal–inverse-gamma posterior that takes the moments as exact.

    Its prior is β | σ² ~ N(m, σ²·C); C is chosen such that a coefficient's sd is the prior's at
    the least-squares residual variance.
    """
    total = pooled(moments)
    total = replace(total, rows=max(total.rows, 1.0))  # a noisy count may be negative
    if total.square is None:
        raise ParameterError("the conjugate posterior needs yᵀy: pass moments with `square`")
    residual = max(total.square - float(total.cross @ _ols(moments)), 1e-12 * abs(total.square))
    values, vectors = np.linalg.eigh(total.gram)
    if values[0] < -_ROUNDED * abs(np.trace(total.gram)):
        raise ParameterError(
            "conjugate takes the moments as exact, and their sum of S is not positive "
            "semi-definite: use method='auto'"
        )
    # what rounding leaves below zero, where there are fewer rows than coefficients, is zero
    if values[0] < 0.0:
        total = replace(total, gram=(vectors * np.maximum(values, 0.0)) @ vectors.T)
    precision = prior.precision(total.dimension) * max(residual, 1e-300) / total.rows
    mean = np.full(total.dimension, prior.mean)
    return NormalInverseGamma(mean, precision, prior.noise_shape, prior.noise_scale).given(total)


def _ols(moments: Sequence[Moments], penalty: Array | None = None) -> Array:
    """Least squares from the sums; the shortest solution where features are collinear."""
    total = pooled(moments)
    if penalty is not None:
        total = replace(total, gram=total.gram + np.diag(penalty))
    # what rounding of rows leaves along a direction with nothing in it is no information
    own = np.abs(np.diag(total.gram))
    size = np.sqrt(np.maximum(own, max(1e-9 * own.sum(), 1e-300)))
    scaled = total.gram / np.outer(size, size)
    found = np.linalg.pinv(scaled, rcond=_ROUNDED, hermitian=True) @ (total.cross / size)
    return np.asarray(found / size)


def _adassp(moments: Sequence[Moments], ridges: Sequence[float] | None, penalty: Array) -> Array:
    """(7.2): sums over sites with the sum of their ridges."""
    total = pooled(moments)
    d = total.dimension
    if ridges is None:
        width = math.sqrt(d * math.log(2.0 * d * d / 0.05))
        ridges = [
            max(0.0, width * m.gram_sd - float(np.linalg.eigvalsh(m.gram)[0])) for m in moments
        ]
    elif len(ridges) != len(moments):
        raise ParameterError(
            f"ridges must hold one λ per site: {len(moments)} sites, got {len(ridges)}"
        )
    ridged = total.gram + np.diag(sum(ridges) + penalty)
    return np.asarray(np.linalg.lstsq(ridged, total.cross, rcond=None)[0])


def _fixed_fast(
    moments: Sequence[Moments],
    prior: Prior,
    noise_variance: float | None,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> Posterior:
    """Algorithm 18: Proposition 3 once, at a fixed σ² and the nearest semi-definite S_j."""
    d = moments[0].dimension
    if noise_variance is None:
        total = pooled(moments)
        mode = prior.noise_scale / (prior.noise_shape + 1.0)
        square = 0.0 if total.square is None else total.square
        noise_variance = max(square / max(total.rows, 1.0), mode)
    precision = prior.precision(d)
    linear = precision @ np.full(d, prior.mean)
    for site in moments:
        gram = nearest_psd(site.gram)
        covariance = noise_variance * gram + site.cross_sd**2 * np.eye(d)
        # without noise on z a singular S leaves M singular, on a subspace where S is 0 as well
        solved = np.linalg.lstsq(covariance, np.column_stack([gram, site.cross]), rcond=None)[0]
        precision = precision + gram @ solved[:, :d]
        linear = linear + gram @ solved[:, d]
    factor = np.linalg.cholesky(0.5 * (precision + precision.T))
    mean = np.linalg.solve(factor.T, np.linalg.solve(factor, linear))
    white = rng.standard_normal((d, math.prod(shape)))
    white -= white.mean(axis=1, keepdims=True)  # the mean of the draws is m_post itself
    beta = mean + np.linalg.solve(factor.T, white).T
    variance = np.full(shape, noise_variance)
    return Posterior("Bayes-fixedS-fast", beta.reshape(*shape, d), variance)
