"""Metropolis–Hastings samplers of p(θ | y) as kernels: ``init`` and ``step``.

| sampler | thesis | latent state |
|---|---|---|
| ``mh`` | 9 | none: p(y; θ) is known |
| ``pseudo-marginal`` | 10 | N particles of S_n |
| ``correlated`` | 3 | the same, moved with correlation ρ |
| ``mhaar-rb`` | 11 | u = S_n |
| ``gibbs`` | 2.5.2 | u = S_n |
| ``mhaar`` | 12 | n people, exact for any statistic |
| ``mhaar-sequential`` | 13 | one person for each answer |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit._core import kernels
from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.posterior.numerics.inversion import independent_draws
from tacit.posterior.numerics.likelihood import has_likelihood, log_likelihood
from tacit.posterior.numerics.metropolis import loops
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.particles import (
    BATCH,
    CLT,
    LOCAL,
    BuiltIn,
    Simulated,
    check_view,
    draw_statistic,
    log_normal_weights,
    log_release,
    log_target,
    model_for,
    seen_first,
    shape,
)
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.splines import (
    Table,
    clip_to_range,
    from_line,
    scale_codes,
    to_line,
)
from tacit.posterior.numerics.tabulate import tabulate

__all__ = ["SAMPLERS", "Info", "MetropolisKernel", "State", "check_particles", "check_sampler"]

# name → (loop, view of the release, particles N by default, target acceptance of the walk)
SAMPLERS: dict[str, tuple[Any, int | None, int, float]] = {
    "mh": (loops.marginal, None, 0, 0.44),
    "pseudo-marginal": (loops.pseudo_marginal, CLT, 20, 0.3),
    "correlated": (loops.pseudo_marginal, CLT, 20, 0.35),
    "mhaar-rb": (loops.rao_blackwell, CLT, 20, 0.4),
    "gibbs": (loops.gibbs, CLT, 1, 0.44),
    "mhaar": (loops.averaged, BATCH, 50, 0.35),
    "mhaar-sequential": (loops.averaged, LOCAL, 50, 0.35),
}
_STARTS = 100  # draws of the prior among which a chain starts at the likeliest


class State(NamedTuple):
    """What the next step needs: θ, latent variables, the walk's step and its shape."""

    theta: Array
    latent: Array
    step: float
    walk: Array


class Info(NamedTuple):
    """What a person wants to see: draws (draws, p) and the acceptance rate."""

    draws: Array
    acceptance: float


def check_sampler(sampler: str, releases: Sequence[NoisyStatistic]) -> None:
    """Raise unless a sampler suits the releases, which may be planned ones."""
    view = SAMPLERS[sampler][1]
    if view is not None:
        check_view(releases, view)
        return
    for release in releases:
        if not has_likelihood(release):
            raise ParameterError(
                f"how probable a released {release.statistic.name} is has no formula: use "
                "sampler='mhaar' or 'mhaar-rb'"
            )


def check_particles(sampler: str, particles: int | None) -> None:
    """Raise unless a sampler can do with so many particles."""
    check("particles", particles, AnyOf(Integer(1), None))
    if sampler.startswith("mhaar") and particles == 1:
        raise ParameterError("averaged acceptance ratios need at least two particles")


class MetropolisKernel:
    """A sampler of p(θ | y), one of `SAMPLERS`, with a prior for each parameter.

    Of several releases, of different people, one may be seen through particles. Their number is
    the sampler's default unless given; with ``"gibbs"`` it is that of moves of u for each of θ.
    ``correlation`` is ρ of ``"correlated"``, and ``refresh`` says whether a rejection draws the
    latent variables anew (averaged acceptance ratios).
    """

    def __init__(
        self,
        sampler: str,
        releases: Sequence[NoisyStatistic],
        population: Population,
        priors: Sequence[ScalarPrior],
        *,
        particles: int | None = None,
        correlation: float = 0.95,
        refresh: bool = True,
    ) -> None:
        check("sampler", sampler, OneOf(*SAMPLERS))
        check("correlation", correlation, Real(0, 1, open_high=True))
        self.sampler, self.population = sampler, population
        self.releases = seen_first(releases)
        self.priors = tuple(priors)
        if len(self.priors) != population.dimension:
            raise ParameterError(
                f"prior must hold {population.dimension} law(s), got {len(self.priors)}"
            )
        self._loop, self._view, default, goal = SAMPLERS[sampler]
        self.particles = default if particles is None else particles
        check_particles(sampler, particles)
        p = population.dimension
        self.goal = goal if p == 1 else 0.3
        self._priors = np.array([[prior.code, prior.a, prior.b] for prior in self.priors])
        self._scales = scale_codes(population.scales)
        rho = correlation if sampler == "correlated" else 0.0
        paired = sampler in ("pseudo-marginal", "correlated")
        self._options = np.array([rho if paired else self.particles, float(refresh)])
        self.model = self._build()

    def _build(self) -> Table | BuiltIn | Simulated:
        check_sampler(self.sampler, self.releases)
        if self._view is not None:
            return model_for(self.releases, self.population, self.priors, self._view)
        if self.population.dimension > 1:
            return Simulated(self.releases[0], self.releases, self.population, CLT)

        def total(theta: float) -> float:
            at = np.array([theta])
            return sum(log_likelihood(r, self.population, at) for r in self.releases)

        table, self.eta, self.log_posterior = tabulate(total, self.priors[0], int(self._scales[0]))
        return table

    @property
    def is_compiled(self) -> bool:
        """Whether chains run at native speed."""
        return isinstance(self.model, Table | BuiltIn)

    def independent(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        """Return independent draws of the one parameter of a tabulated posterior, (…, 1)."""
        assert isinstance(self.model, Table)
        found = independent_draws(
            rng, self.model, self.eta, self.log_posterior, self.priors[0], shape
        )
        return np.asarray(found[..., None])

    def with_values(self, values: Any) -> MetropolisKernel:
        """Return the same kernel for other noisy numbers of its one release."""
        other = object.__new__(MetropolisKernel)
        other.__dict__.update(self.__dict__)
        other.releases = [self.releases[0].replace(values)]
        if isinstance(self.model, BuiltIn):
            other.model = self.model._replace(y=other.releases[0].values)
        else:
            other.model = other._build()
        return other

    def latent_shape(self) -> tuple[int, int, int]:
        """Return (groups, particles kept, numbers in each)."""
        if self._view is None:
            return 1, 1, 1
        groups, size = shape(self.releases[0], self._view)
        kept = self.particles if self._loop is loops.pseudo_marginal else 1
        return groups, kept, size

    def init(self, rng: np.random.Generator) -> State:
        """Start at the likeliest of some draws of the prior, so that warm-up is short."""
        theta = np.column_stack(
            [
                clip_to_range(prior, int(scale), prior.sample(rng, _STARTS))
                for prior, scale in zip(self.priors, self._scales, strict=True)
            ]
        )
        spread = np.std(
            [[to_line(s, v) for s, v in zip(self._scales, row, strict=True)] for row in theta],
            axis=0,
        )
        walk = np.diag(np.maximum(spread, 1e-12))
        latents = [self.draw_latent(rng, row) for row in theta]
        scores = [self._score(row, z) for row, z in zip(theta, latents, strict=True)]
        best = int(np.argmax(scores))
        if isinstance(self.model, Table):  # the whole posterior is known: start inside of it
            weights = np.exp(self.log_posterior - self.log_posterior.max())
            mean = np.average(self.eta, weights=weights)
            sd = np.sqrt(np.average((self.eta - mean) ** 2, weights=weights))
            level = rng.choice(self.eta, p=weights / weights.sum())
            start = np.array([from_line(int(self._scales[0]), float(level))])
            return State(start, latents[0], 2.4, np.array([[max(sd, 1e-12)]]))
        return State(theta[best].copy(), latents[best], 0.5, walk)

    def draw_latent(self, rng: np.random.Generator, theta: Array) -> Array:
        """Draw latent variables given θ alone."""
        latent = rng.standard_normal(self.latent_shape())
        if self._loop in (loops.rao_blackwell, loops.gibbs):
            draw_statistic(self.model, rng, theta, latent[0])
        return latent

    def _score(self, theta: Array, latent: Array) -> float:
        if isinstance(self.model, Table):
            return 0.0
        if self._view is None:
            return float(log_target(self.model, theta))
        if self._loop in (loops.rao_blackwell, loops.gibbs):
            out = np.empty(1)
            log_release(self.model, latent[0], out)
            return float(out[0])
        weights = np.empty(latent.shape[:2])
        if self._view == CLT:
            log_normal_weights(self.model, latent, theta, weights)
        else:  # with NumPy over all people at once, whatever the model
            plain = Simulated(self.releases[0], (), self.population, self._view)
            plain.weights(latent, theta, weights)
        return float(np.logaddexp.reduce(weights, axis=1).sum())

    def step(self, rng: np.random.Generator, state: State) -> tuple[State, Info]:
        """Take one iteration."""
        return self.run(rng, state, 1)

    def run(
        self,
        rng: np.random.Generator,
        state: State,
        draws: int,
        *,
        adapt: bool = False,
        thin: int = 1,
        compiled: bool = True,
    ) -> tuple[State, Info]:
        """Take ``draws``·``thin`` iterations, compiled where the model allows it."""
        theta, latent, p = state.theta.copy(), state.latent.copy(), len(state.theta)
        out, (eta, new, new_eta) = np.empty((draws, p)), np.empty((3, p))
        law = self._priors, self._scales, state.walk, self.goal, adapt, thin
        walk = loops.Walk(*law, theta, eta, new, new_eta, out)
        fast = compiled and self.is_compiled
        loop = kernels.compiled(self._loop, unchecked=True) if fast else self._loop
        acceptance, step = loop(rng, self.model, walk, latent, float(state.step), self._options)
        return State(theta, latent, float(step), state.walk), Info(out, float(acceptance))

    def line(self, draws: Array) -> Array:
        """Return draws on the scale of the walk."""
        columns = [
            np.array([to_line(int(s), v) for v in draws[:, k]]) for k, s in enumerate(self._scales)
        ]
        return np.column_stack(columns)
