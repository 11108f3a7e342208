"""What samplers ask of a model: weights of particles, and the law of a statistic.

Two kinds of model answer the same five questions, so that one loop serves both:

- `BuiltIn`, a tuple of numbers and arrays, for built-in populations and powers of x: compiled;
- `Simulated`, any population and statistic, with NumPy over all particles at once.

| question | answer |
|---|---|
| `log_target(model, θ)` | log p(y; θ), where it can be computed |
| `log_weights(model, z, θ, out)` | log h(y_t given z, θ) of particles z (groups, N, numbers) |
| `draw_statistic(model, rng, θ, out)` | u ~ f(u given θ), the normal law of S_n |
| `log_statistic(model, u, θ, out)` | log f(u given θ) |
| `log_release(model, u, out)` | log g(y given u) |

Three views of a release: ``CLT`` (z is S_n in units of its own spread), ``BATCH`` (z are n
people) and ``LOCAL`` (one group for each person).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba.extending import overload

from tacit._core.linear import inlined
from tacit._core.smooth import best_pair
from tacit.errors import ParameterError
from tacit.inference.likelihood import log_likelihood, moments
from tacit.inference.tables import (
    SCALES,
    Table,
    from_line,
    line_range,
    look_up,
    spline,
    to_line,
)
from tacit.models.populations import Population, transform
from tacit.models.priors import ScalarPrior
from tacit.models.releases import NoisyStatistic, log_noise
from tacit.models.statistics import Additive, OrderStatistic, Power, power

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "BATCH",
    "CLT",
    "LOCAL",
    "BuiltIn",
    "Simulated",
    "check_view",
    "draw_statistic",
    "is_built_in",
    "log_release",
    "log_statistic",
    "log_target",
    "log_weights",
    "model_for",
    "shape",
]

CLT, BATCH, LOCAL = range(3)
_MOMENT_NODES = 513


class BuiltIn(NamedTuple):
    """A model that compiled loops understand."""

    kind: int
    population: int
    constant: float
    absolute: int
    exponent: float
    rank: int  # 0 for an additive statistic
    low: float
    high: float
    s_low: float
    s_high: float
    noise: int
    noise_scale: float
    beta: float
    size: float
    y: Array
    mean: Table
    variance: Table


def is_built_in(release: NoisyStatistic, population: Population) -> bool:
    """Whether compiled loops understand a release."""
    plain = isinstance(release.statistic, Power | OrderStatistic)
    return plain and population.code >= 0


def built_in(
    release: NoisyStatistic, population: Population, prior: ScalarPrior, view: int
) -> BuiltIn:
    """Describe a release to compiled loops; moments become splines over the prior's range."""
    statistic = release.statistic
    rank = statistic.rank(release.size) if isinstance(statistic, OrderStatistic) else 0
    base = statistic.of if isinstance(statistic, OrderStatistic) else statistic
    assert isinstance(base, Power)
    low, high = base.range(release.bounds)
    scale = SCALES.index(population.scales[0])
    empty = Table(scale, 0.0, 1.0, np.zeros((1, 4)))
    mean = variance = empty
    if view == CLT:
        eta = np.linspace(*line_range(prior, scale), _MOMENT_NODES)
        rows = [
            moments(population, base, release.bounds, np.array([from_line(scale, e)])) for e in eta
        ]
        mean = spline(scale, eta, np.array([row[0][0] for row in rows]))
        variance = spline(scale, eta, np.array([row[1][0, 0] for row in rows]))
    return BuiltIn(
        view, population.code, float(population.constant), int(base.absolute),
        float(base.exponent), rank,
        float(release.bounds[0]), float(release.bounds[1]), float(low[0]), float(high[0]),
        release.noise.code, float(release.noise.scale), float(release.noise.beta),
        float(release.size), release.values, mean, variance,
    )  # fmt: skip


def shape(release: NoisyStatistic, view: int) -> tuple[int, int]:
    """Return (groups, numbers in each) of the latent variables."""
    if view == LOCAL:
        return release.size, 1
    return 1, release.size if view == BATCH else len(release.values)


# --- compiled answers --------------------------------------------------------------------------


@inlined
def _one(model: Any, theta: float, z: float) -> Any:
    """Return s of one person, clipped."""
    x = transform(model.population, model.constant, theta, z, model.high)
    x = min(max(x, model.low), model.high)
    return power(model.absolute, model.exponent, x)


@inlined
def _spread(model: Any, theta: float) -> Any:
    """Return mean and standard deviation of S_n under the central limit theorem."""
    eta = to_line(model.mean.scale, theta)
    variance = max(look_up(model.variance, eta), 0.0) / model.size
    return look_up(model.mean, eta), math.sqrt(variance) + 1e-300


@inlined
def _batch_weight(model: Any, z: Any, theta: float, padded: Any, stack: Any) -> Any:
    """Return log h(y | z, θ) of one particle of n people."""
    n = z.shape[0]
    if model.rank == 0:
        total = 0.0
        for i in range(n):
            total += _one(model, theta, z[i])
        return log_noise(model.noise, model.noise_scale, model.y[0] - total / n)
    for i in range(n):
        padded[i + 1] = _one(model, theta, z[i])
    padded[1 : n + 1].sort()
    smooth = best_pair(padded, model.rank, model.beta, stack)
    scale = max(2.0 * smooth / model.noise_scale, 1e-300)
    return log_noise(1, scale, model.y[0] - padded[model.rank])


@inlined
def _built_in_weights(model: Any, z: Any, theta: Any, out: Any) -> None:
    at = theta[0]
    if model.kind == 0:
        mean, sd = _spread(model, at)
        for j in range(z.shape[1]):
            u = mean + sd * z[0, j, 0]
            out[0, j] = log_noise(model.noise, model.noise_scale, model.y[0] - u)
    elif model.kind == 1:
        padded = np.empty(z.shape[2] + 2)
        padded[0], padded[-1] = model.s_low, model.s_high
        stack = np.empty((128, 4), np.int64)
        for j in range(z.shape[1]):
            out[0, j] = _batch_weight(model, z[0, j], at, padded, stack)
    else:
        for t in range(z.shape[0]):
            for j in range(z.shape[1]):
                s = _one(model, at, z[t, j, 0])
                out[t, j] = log_noise(model.noise, model.noise_scale, model.y[t] - s)


@inlined
def _built_in_draw(model: Any, rng: Any, theta: Any, out: Any) -> None:
    mean, sd = _spread(model, theta[0])
    for j in range(out.shape[0]):
        out[j, 0] = mean + sd * rng.standard_normal()


@inlined
def _built_in_statistic(model: Any, u: Any, theta: Any, out: Any) -> None:
    mean, sd = _spread(model, theta[0])
    for j in range(u.shape[0]):
        out[j] = log_noise(0, sd, u[j, 0] - mean)


@inlined
def _built_in_release(model: Any, u: Any, out: Any) -> None:
    for j in range(u.shape[0]):
        out[j] = log_noise(model.noise, model.noise_scale, model.y[0] - u[j, 0])


@inlined
def _table_target(model: Any, theta: Any) -> Any:
    return look_up(model, to_line(model.scale, theta[0]))


# --- any model, with NumPy ---------------------------------------------------------------------


class Simulated:
    """Any population and additive statistic, or order statistics of a custom population."""

    def __init__(self, releases: list[NoisyStatistic], population: Population, view: int) -> None:
        self.releases, self.population, self.view = releases, population, view
        self.release = releases[0]

    def target(self, theta: Array) -> float:
        """Return log p(y | θ) of all releases."""
        return sum(log_likelihood(r, self.population, theta) for r in self.releases)

    def weights(self, z: Array, theta: Array, out: Array) -> None:
        """Fill in log h of all particles."""
        release = self.release
        if self.view == CLT:
            mean, factor = self._law(theta)
            gap = release.values - (mean + z[0] @ factor.T)
            out[0] = release.noise.log_density(gap).sum(axis=-1)
            return
        x = self.population.simulate(theta, z)
        centre, scale = release.centre(x[..., 0] if self.view == LOCAL else x[0])
        if self.view == LOCAL:
            out[:] = release.noise.log_density(release.values[:, None] - centre)
        else:
            out[0] = release.noise.log_density(release.values - centre, scale).sum(axis=-1)

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


# --- the five questions ------------------------------------------------------------------------


def log_target(model: Any, theta: Any) -> Any:
    """Return log p(y | θ)."""
    return _table_target(model, theta) if isinstance(model, Table) else model.target(theta)


def log_weights(model: Any, z: Any, theta: Any, out: Any) -> None:
    """Fill in log h(y_t | z, θ) of all particles."""
    if isinstance(model, BuiltIn):
        _built_in_weights(model, z, theta, out)
    else:
        model.weights(z, theta, out)


def draw_statistic(model: Any, rng: Any, theta: Any, out: Any) -> None:
    """Draw u ~ f(u | θ) into (N, numbers)."""
    if isinstance(model, BuiltIn):
        _built_in_draw(model, rng, theta, out)
    else:
        model.sample(rng, theta, out)


def log_statistic(model: Any, u: Any, theta: Any, out: Any) -> None:
    """Fill in log f(u | θ)."""
    if isinstance(model, BuiltIn):
        _built_in_statistic(model, u, theta, out)
    else:
        model.statistic(u, theta, out)


def log_release(model: Any, u: Any, out: Any) -> None:
    """Fill in log g(y | u)."""
    if isinstance(model, BuiltIn):
        _built_in_release(model, u, out)
    else:
        model.noise(u, out)


def _compile_as(question: Any, answer: Any) -> None:
    """Let compiled loops ask a question: what they reach is always built in."""
    count = answer.__code__.co_argcount
    forms = {
        2: lambda a, b: lambda a, b: answer(a, b),
        3: lambda a, b, c: lambda a, b, c: answer(a, b, c),
        4: lambda a, b, c, d: lambda a, b, c, d: answer(a, b, c, d),
    }
    overload(question, strict=False)(forms[count])


for _question, _answer in (
    (log_target, _table_target),
    (log_weights, _built_in_weights),
    (draw_statistic, _built_in_draw),
    (log_statistic, _built_in_statistic),
    (log_release, _built_in_release),
):
    _compile_as(_question, _answer)


def check_view(releases: Sequence[NoisyStatistic], view: int) -> None:
    """Raise unless the releases can be seen in this way."""
    if len(releases) > 1:
        raise ParameterError("particle samplers take one release: use sampler='mh' for several")
    release = releases[0]
    if view == LOCAL and not release.local:
        raise ParameterError("the sequential sampler needs each person's own answer")
    if view != LOCAL and release.local:
        raise ParameterError("each person's own answer goes with 'mhaar-sequential' or 'mh'")
    if view == CLT and not release.additive:
        raise ParameterError(f"{release.statistic.name} is not additive: use sampler='mhaar'")


def model_for(
    releases: list[NoisyStatistic],
    population: Population,
    priors: tuple[ScalarPrior, ...],
    view: int,
) -> BuiltIn | Simulated:
    """Return the model of particle samplers: one release, compiled where that is possible."""
    (release,) = releases
    scalar = population.dimension == 1 and release.statistic.dimension(release.bounds) == 1
    if scalar and is_built_in(release, population):
        return built_in(release, population, priors[0], view)
    return Simulated(releases, population, view)
