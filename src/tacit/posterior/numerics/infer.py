"""From noisy statistics to draws of p(θ | y): the choice of a sampler, chains, diagnostics.

**The default.** ``inversion`` wherever p(y | θ) of one parameter can be computed: additive
statistics of at least 30 people (the central limit theorem) with Gaussian noise, or one number
with Laplace noise; order statistics of any number of people; each person's own answers. Its draws
are independent. For several parameters ``mh`` walks. ``mhaar-rb`` takes vectors with Laplace
noise; ``mhaar``, exact for any statistic and any n, everything else. Of several releases, one may
be such a case: it is seen through particles, and the others through p(y | θ).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._core.answers import Answer, Answering
from tacit._core.arrays import Array
from tacit._core.chains import autocorrelation_time, effective_samples, inference_data, r_hat
from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.draws import draws_answer
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.posterior.numerics.likelihood import has_likelihood, moments
from tacit.posterior.numerics.metropolis.kernel import (
    SAMPLERS,
    MetropolisKernel,
    State,
    check_particles,
    check_sampler,
)
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.orders.likelihood import order_law
from tacit.posterior.numerics.orders.ranks import Ranks
from tacit.posterior.numerics.particles import seen_first
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.splines import from_line, line_range, scale_codes
from tacit.posterior.numerics.statistics import Additive, OrderStatistic
from tacit.posterior.numerics.tabulate import search

__all__ = ["INVERSION", "ParameterPosterior", "check_inference", "choose_sampler", "infer"]

INVERSION = "inversion"  # of the table of a posterior, instead of a walk
ENOUGH = 30  # people from which a mean counts as normal
_AGREED, _EXTENSIONS = 1.05, 3  # R-hat up to which chains agree; how often they are extended
_FAR = 7.0  # standard deviations beyond which a prior counts as excluding the data
_NEAR = 0.1  # standard deviations by which the nearest parameter may be missed


@dataclass(frozen=True)
class ParameterPosterior(Answering):
    """Draws of the parameters.

    Parameters
    ----------
    sampler
        Which sampler made them.
    names
        The parameters' names.
    draws
        (chains, draws, parameters).
    diagnostics
        By parameter ``r_hat``, ``effective_samples`` and ``autocorrelation_time``; ``acceptance``
        by chain, and ``thin``, the iterations for each draw, where a chain walked.
    """

    sampler: str
    names: tuple[str, ...]
    draws: Array = field(repr=False)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    @property
    def flat(self) -> Array:
        """All draws, (chains·draws, parameters)."""
        return self.draws.reshape(-1, self.draws.shape[-1])

    @property
    def mean(self) -> Array:
        """Posterior means."""
        return np.asarray(self.flat.mean(axis=0))

    @property
    def sd(self) -> Array:
        """Posterior standard deviations."""
        return np.asarray(self.flat.std(axis=0))

    def _answer(self, level: float) -> Answer:
        return draws_answer(f"Posterior by {self.sampler}", self.names, self.draws, level)

    def interval(self, level: float = 0.9) -> Array:
        """Return the central interval of each parameter, (parameters, 2)."""
        check("level", level, Real(0, 1, open_low=True, open_high=True))
        return np.asarray(np.quantile(self.flat, [0.5 - level / 2, 0.5 + level / 2], axis=0).T)

    def to_arviz(self) -> Any:
        """Return an ArviZ InferenceData (extra ``diagnostics``), our diagnostics as attributes."""
        names = ("r_hat", "effective_samples", "autocorrelation_time")
        found = {key: self.diagnostics[key] for key in names if key in self.diagnostics}
        return inference_data(
            {name: self.draws[..., k] for k, name in enumerate(self.names)},
            attrs={"sampler": self.sampler, **found},
        )


def choose_sampler(releases: Sequence[NoisyStatistic], population: Population) -> str:
    """Return the sampler that suits the releases; see the module's docstring."""
    release, *known = seen_first(releases)
    exact = "inversion" if population.dimension == 1 else "mh"
    if known and has_likelihood(release):
        few = [r for r in releases if r.additive and not r.local and r.size < ENOUGH]
        few = [r for r in few if r.count is None]
        if len(few) != 1:
            return exact
    if not release.additive or release.local or release.count is not None:
        return exact
    if release.additive and release.size >= ENOUGH:
        simple = release.noise.kind == "gaussian" or len(release.values) == 1
        return exact if simple else "mhaar-rb"
    return "mhaar"


def infer(
    releases: Sequence[NoisyStatistic] | NoisyStatistic,
    population: Population,
    priors: Sequence[ScalarPrior] | ScalarPrior | None = None,
    sampler: str = "auto",
    *,
    particles: int | None = None,
    correlation: float = 0.95,
    refresh: bool = True,
    chains: int = 4,
    draws: int = 2000,
    warmup: int = 1000,
    rng: np.random.Generator | None = None,
) -> ParameterPosterior:
    """Return the posterior of the parameters given what was released.

    Parameters
    ----------
    releases
        One noisy statistic, or several of different people.
    population
        The law of the data.
    priors
        One for each parameter; None is flat over what the public bounds leave possible.
    sampler
        One of `SAMPLERS`, ``"inversion"`` or ``"auto"``.
    particles, correlation, refresh
        See `MetropolisKernel`.
    chains, draws, warmup
        How much to sample. Chains that do not agree (R-hat above 1.05) go on, thinned, up to
        eight times as long.
    rng
        A generator for inference; None makes one.

    Examples
    --------
    >>> from tacit.posterior.numerics.populations.laws import Bernoulli
    >>> from tacit.posterior.numerics.noisy_statistic import NoiseLaw
    >>> from tacit.posterior.numerics.statistics import Power
    >>> share = NoisyStatistic(Power(), (0, 1), 1000, NoiseLaw("gaussian", 0.01), [0.3])
    >>> infer(share, Bernoulli(), rng=generator(1)).mean.round(2)
    array([0.3])
    """
    check("chains", chains, Integer(1, 64))
    check("draws", draws, Integer(4))
    check("warmup", warmup, Integer(0))
    releases = [releases] if isinstance(releases, NoisyStatistic) else list(releases)
    name, priors = check_inference(releases, population, priors, sampler, particles)
    rng = generator(None) if rng is None else rng
    if population.dimension == 1:
        check_prior(releases, population, priors[0])
    kernel = MetropolisKernel(
        "mh" if name == INVERSION else name,
        releases,
        population,
        priors,
        particles=particles,
        correlation=correlation,
        refresh=refresh,
    )
    if name == INVERSION:
        values = kernel.independent(rng, (chains, draws))
        return ParameterPosterior(name, population.names, values, _diagnosed(values))
    states = [_warm_up(kernel, rng, warmup) for _ in range(chains)]
    thin = 1
    for extension in range(_EXTENSIONS + 1):
        found = [kernel.run(rng, state, draws, thin=thin) for state in states]
        states = [state for state, _ in found]
        values = np.array([info.draws for _, info in found])
        hats = [r_hat(values[..., k]) for k in range(values.shape[-1])]
        if max(hats) <= _AGREED or extension == _EXTENSIONS:
            break
        thin *= 2
    walked = {
        "acceptance": [info.acceptance for _, info in found],
        "thin": thin,
        "step": [state.step for state in states],
    }
    return ParameterPosterior(name, population.names, values, _diagnosed(values) | walked)


def _diagnosed(values: Array) -> dict[str, Any]:
    """Return how well chains (chains, draws, parameters) mixed."""
    each = [values[..., k] for k in range(values.shape[-1])]
    return {
        "r_hat": [r_hat(v) for v in each],
        "effective_samples": [effective_samples(v) for v in each],
        "autocorrelation_time": [autocorrelation_time(v) for v in each],
    }


def check_inference(
    releases: Sequence[NoisyStatistic],
    population: Population,
    priors: Sequence[ScalarPrior] | ScalarPrior | None = None,
    sampler: str = "auto",
    particles: int | None = None,
) -> tuple[str, tuple[ScalarPrior, ...]]:
    """Return the sampler and the priors; raise where nothing could be inferred.

    Only public facts are used, so that planned releases may be checked before anybody pays.
    """
    check("sampler", sampler, OneOf("auto", INVERSION, *SAMPLERS))
    if not releases:
        raise ParameterError("there is no release to infer from")
    for release in releases:
        population.check_bounds(release.bounds)
    if priors is None:
        priors = population.default_prior(releases[0].bounds)
    priors = (priors,) if isinstance(priors, ScalarPrior) else tuple(priors)
    if len(priors) != population.dimension:
        raise ParameterError(f"prior must hold {population.dimension} law(s), got {len(priors)}")
    for prior, scale in zip(priors, scale_codes(population.scales), strict=True):
        line_range(prior, int(scale))
    name = choose_sampler(releases, population) if sampler == "auto" else sampler
    if name == INVERSION and population.dimension > 1:
        raise ParameterError("inversion is for one parameter: pass sampler='mh'")
    kind = "mh" if name == INVERSION else name
    check_sampler(kind, releases)
    check_particles(kind, particles)
    return name, priors


def _warm_up(kernel: MetropolisKernel, rng: np.random.Generator, warmup: int) -> State:
    """Adapt the step, and for several parameters the shape of the walk."""
    state = kernel.init(rng)
    p = len(state.theta)
    if warmup < 4:
        return state
    state, info = kernel.run(rng, state, warmup // 2, adapt=True)
    if p > 1:
        eta = kernel.line(info.draws[len(info.draws) // 3 :])
        spread = np.cov(eta.T) + 1e-12 * np.eye(p)
        if np.isfinite(spread).all() and np.linalg.eigvalsh(spread)[0] > 0.0:
            walk = np.asarray(np.linalg.cholesky(spread), np.float64)
            state = state._replace(walk=walk, step=2.4 / math.sqrt(p))
    state, _ = kernel.run(rng, state, warmup - warmup // 2, adapt=True)
    return state


def check_prior(
    releases: Sequence[NoisyStatistic], population: Population, prior: ScalarPrior
) -> None:
    """Raise where no parameter of the prior could have given what was released."""
    scale = int(scale_codes(population.scales)[0])
    low, high = line_range(prior, scale)
    for release in releases:

        def near(eta: float, release: NoisyStatistic = release) -> float:
            theta = np.array([from_line(scale, eta)])
            return -_distance(release, population, theta)

        gap = -float(search(near, low, high, _NEAR, -_FAR).values.max())
        if gap > _FAR:
            ends = " to ".join(f"{from_line(scale, end):g}" for end in (low, high))
            raise ParameterError(
                f"the prior excludes the data: what was released of {release.statistic.name} lies "
                f"{gap:.3g} standard deviations from what any {population.names[0]} from "
                f"{ends} predicts. Pass a wider prior, or check bounds and noise"
            )


def _distance(release: NoisyStatistic, population: Population, theta: Array) -> float:
    """Return how far a release lies from what θ predicts, in standard deviations or as heavy."""
    if release.noise.kind == "exponential":
        law = order_law(release, population)
        assert isinstance(law, Ranks)
        return _as_normal(law.distance(population, theta))
    if isinstance(release.statistic, OrderStatistic):
        low, high = release.statistic.range(release.bounds)
        outside = max(low - release.values[0], release.values[0] - high, 0.0)
        return _as_normal(outside / (2.0 * (high - low) / release.noise.scale))
    if release.noise.kind == "response":
        return 0.0
    assert isinstance(release.statistic, Additive)
    mean, cov = moments(population, release.statistic, release.bounds, theta)
    laplace = release.noise.kind == "laplace"
    noise = release.noise.scale**2 * (2.0 if laplace else 1.0)
    if release.local:
        spread = math.sqrt((cov[0, 0] + noise) / release.size)
        return abs(float(release.values.mean()) - float(mean[0])) / spread
    sd = np.sqrt(np.maximum(np.diag(cov), 0.0) / release.size)
    gap = np.abs(release.values - mean)
    if (count := release.count) is not None:
        if count.value < 2.0 * _FAR * count.sd:  # a mean of about nobody lies anywhere
            return 0.0
        sd = np.hypot(sd, (mean - release.middle) * count.sd / release.size)
    if laplace:
        return max(
            _as_normal(max(g - 6.0 * s, 0.0) / release.noise.scale)
            for g, s in zip(gap, sd, strict=True)
        )
    return float(np.max(gap / np.sqrt(sd**2 + noise)))


def _as_normal(scales: float) -> float:
    """Return the normal distance with the same tail as e^−scales, about √(2·scales)."""
    return math.sqrt(2.0 * scales)
