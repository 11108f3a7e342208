"""What samplers ask of a model: weights of particles, and the law of a statistic.

Two kinds of model answer the same six questions, so that one loop serves both:

- `BuiltIn`, a tuple of numbers and arrays, for built-in populations and powers of x: compiled;
- `Simulated`, any population and statistic, with NumPy over all particles at once.

| question | answer |
|---|---|
| `log_target(model, θ)` | log p(y; θ) of all releases for which it can be computed |
| `log_weights(model, z, θ, out)` | log h(y_t given z, θ) of simulated people z (groups, N, n) |
| `log_normal_weights(model, z, θ, out)` | the same where z is S_n in units of its own spread |
| `draw_statistic(model, rng, θ, out)` | u ~ f(u given θ), the normal law of S_n |
| `log_statistic(model, u, θ, out)` | log f(u given θ) |
| `log_release(model, u, out)` | log g(y given u) |

Three views of a release: ``CLT`` (z is S_n in units of its own spread), ``BATCH`` (z are n
people) and ``LOCAL`` (one group for each person).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.extending import overload

from tacit._core.arrays import Array
from tacit.errors import ParameterError
from tacit.posterior.numerics.likelihood import has_likelihood, moments
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.particles_built_in import (
    BATCH,
    CLT,
    LOCAL,
    BuiltIn,
    built_in,
    is_built_in,
    normal_density,
    normal_draw,
    normal_weights,
    people_weights,
    release_density,
    table_target,
    total_log_likelihood,
)
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.splines import Table
from tacit.posterior.numerics.statistics import Additive

__all__ = [
    "BATCH",
    "CLT",
    "LOCAL",
    "BuiltIn",
    "Simulated",
    "check_view",
    "draw_statistic",
    "is_built_in",
    "log_normal_weights",
    "log_release",
    "log_statistic",
    "log_target",
    "log_weights",
    "model_for",
    "seen_first",
    "shape",
]


def shape(release: NoisyStatistic, view: int) -> tuple[int, int]:
    """Return (groups, numbers in each) of the latent variables."""
    if view == LOCAL:
        return release.size, 1
    return 1, release.size if view == BATCH else len(release.values)


# --- any model, with NumPy ---------------------------------------------------------------------


class Simulated:
    """Any population and statistic; ``release`` is seen through particles, ``known`` are not."""

    def __init__(
        self,
        release: NoisyStatistic,
        known: Sequence[NoisyStatistic],
        population: Population,
        view: int,
    ) -> None:
        self.release, self.known, self.population, self.view = release, known, population, view

    def target(self, theta: Array) -> float:
        """Return log p(y | θ) of the releases for which it is known."""
        return total_log_likelihood(self.known, self.population, theta)

    def weights(self, z: Array, theta: Array, out: Array) -> None:
        """Fill in log h of particles of people."""
        release = self.release
        x = self.population.simulate(theta, z)
        if self.view == LOCAL:
            centre, _ = release.centre(x[..., 0])
            out[:] = release.noise.log_density(release.values[:, None] - centre)
        else:
            out[0] = release.log_density(x[0])

    def normal_weights(self, z: Array, theta: Array, out: Array) -> None:
        """Fill in log h of particles of S_n."""
        mean, factor = self._law(theta)
        gap = self.release.values - (mean + z[0] @ factor.T)
        out[0] = self.release.noise.log_density(gap).sum(axis=-1)

    def _law(self, theta: Array) -> tuple[Array, Array]:
        """Return mean and Cholesky factor of S_n."""
        assert isinstance(self.release.statistic, Additive)
        mean, cov = moments(self.population, self.release.statistic, self.release.bounds, theta)
        cov = cov / self.release.size
        floor = 1e-14 * max(float(np.trace(cov)), 1e-300)
        return mean, np.asarray(np.linalg.cholesky(cov + floor * np.eye(len(mean))), np.float64)

    def sample(self, rng: np.random.Generator, theta: Array, out: Array) -> None:
        """Draw statistics."""
        mean, factor = self._law(theta)
        out[:] = mean + rng.standard_normal(out.shape) @ factor.T

    def statistic(self, u: Array, theta: Array, out: Array) -> None:
        """Fill in log f(u | θ)."""
        mean, factor = self._law(theta)
        white = np.linalg.solve(factor, (u - mean).T)
        out[:] = -0.5 * (white * white).sum(axis=0) - np.log(np.diag(factor)).sum()

    def noise(self, u: Array, out: Array) -> None:
        """Fill in log g(y | u)."""
        out[:] = self.release.noise.log_density(self.release.values - u).sum(axis=-1)


# --- the six questions -------------------------------------------------------------------------


def log_target(model: Any, theta: Any) -> Any:
    """Return log p(y | θ) of all releases for which it is known."""
    if isinstance(model, Table):
        return table_target(model, theta)
    return table_target(model.known, theta) if isinstance(model, BuiltIn) else model.target(theta)


def _question(name: str, answer: Any) -> Any:
    """Return a question: a built-in model has a function for it, any other a method.

    What compiled loops reach is always built in.
    """

    def ask(model: Any, *given: Any) -> None:
        if isinstance(model, BuiltIn):
            answer(model, *given)
        else:
            getattr(model, name)(*given)

    forms = {
        3: lambda a, b, c: lambda a, b, c: answer(a, b, c),
        4: lambda a, b, c, d: lambda a, b, c, d: answer(a, b, c, d),
    }
    overload(ask, strict=False)(forms[answer.__code__.co_argcount])
    return ask


log_weights = _question("weights", people_weights)
log_normal_weights = _question("normal_weights", normal_weights)
draw_statistic = _question("sample", normal_draw)
log_statistic = _question("statistic", normal_density)
log_release = _question("noise", release_density)


@overload(log_target, strict=False)  # type: ignore[untyped-decorator]
def _compiled_target(model: Any, theta: Any) -> Any:
    """Answer `log_target` for the type of a model."""
    if model.instance_class is Table:
        return lambda model, theta: table_target(model, theta)
    return lambda model, theta: table_target(model.known, theta)


def seen_first(releases: Sequence[NoisyStatistic]) -> list[NoisyStatistic]:
    """Return releases with the one first that needs particles most."""
    return sorted(
        releases,
        key=lambda r: (
            has_likelihood(r),
            r.count is not None,
            r.local or not r.additive,
            r.size,
        ),
    )


def check_view(releases: Sequence[NoisyStatistic], view: int) -> None:
    """Raise unless the releases can be seen in this way."""
    release, *known = seen_first(releases)
    if release.count is not None:
        raise ParameterError(
            "how many people there are is private, and nobody is simulated: pass sampler='auto'"
        )
    for other in known:
        if not has_likelihood(other):
            raise ParameterError(
                f"how probable a released {release.statistic.name} or {other.statistic.name} is "
                "has no formula: of several releases one may be such"
            )
    if view == LOCAL and not release.local:
        raise ParameterError("the sequential sampler needs each person's own answer")
    if view != LOCAL and release.local:
        raise ParameterError("each person's own answer goes with 'mhaar-sequential' or 'mh'")
    if view == CLT and not release.additive:
        raise ParameterError(f"{release.statistic.name} is not additive: use sampler='mhaar'")


def model_for(
    releases: Sequence[NoisyStatistic],
    population: Population,
    priors: tuple[ScalarPrior, ...],
    view: int,
) -> BuiltIn | Simulated:
    """Return the model of particle samplers, compiled where that is possible."""
    release, *known = releases
    scalar = population.dimension == 1 and release.statistic.dimension(release.bounds) == 1
    if scalar and is_built_in(release, population):
        return built_in(release, known, population, priors[0], view)
    return Simulated(release, known, population, view)
