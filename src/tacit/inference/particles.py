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

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba.extending import overload

from tacit._core.linear import inlined
from tacit._core.smooth import best_pair
from tacit.errors import ParameterError
from tacit.inference.likelihood import has_likelihood, log_likelihood, moments
from tacit.inference.tables import (
    SCALES,
    Table,
    everywhere,
    from_line,
    line_range,
    look_up,
    look_up_within,
    spline,
    tabulate,
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
    "log_normal_weights",
    "log_release",
    "log_statistic",
    "log_target",
    "log_weights",
    "model_for",
    "seen_first",
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
    known: Table  # log p(y; θ) of the other releases


def is_built_in(release: NoisyStatistic, population: Population) -> bool:
    """Whether compiled loops understand a release."""
    plain = isinstance(release.statistic, Power | OrderStatistic)
    return plain and population.code >= 0


def built_in(
    release: NoisyStatistic, known: Sequence[NoisyStatistic], population: Population,
    prior: ScalarPrior, view: int,
) -> BuiltIn:  # fmt: skip
    """Describe a release to compiled loops; functions of θ become splines."""
    statistic = release.statistic
    rank = statistic.rank(release.size) if isinstance(statistic, OrderStatistic) else 0
    base = statistic.of if isinstance(statistic, OrderStatistic) else statistic
    assert isinstance(base, Power)
    low, high = base.range(release.bounds)
    scale = SCALES.index(population.scales[0])
    mean = variance = others = everywhere(scale)
    if known:
        others = tabulate(lambda t: _total(known, population, np.array([t])), prior, scale)[0]
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
        float(release.size), release.values, mean, variance, others,
    )  # fmt: skip


def _total(releases: Sequence[NoisyStatistic], population: Population, theta: Array) -> float:
    """Return log p(y | θ) of several releases of different people."""
    return sum(log_likelihood(release, population, theta) for release in releases)


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
def _sort(values: Any, first: int, stop: int) -> None:
    """Sort a part of an array by Shell's method, which compiles much faster than NumPy's."""
    gap = 1
    while gap < (stop - first) // 2:
        gap = int(gap * 2.25) + 1
    while gap > 0:
        for i in range(first + gap, stop):
            kept, j = values[i], i
            while j >= first + gap and values[j - gap] > kept:
                values[j] = values[j - gap]
                j -= gap
            values[j] = kept
        gap = 0 if gap == 1 else max(1, int(gap / 2.25))


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
    _sort(padded, 1, n + 1)
    smooth = best_pair(padded, model.rank, model.beta, stack)
    scale = max(2.0 * smooth / model.noise_scale, 1e-300)
    return log_noise(1, scale, model.y[0] - padded[model.rank])


@inlined
def _built_in_weights(model: Any, z: Any, theta: Any, out: Any) -> None:
    at = theta[0]
    if model.kind == 1:
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
def _built_in_normal_weights(model: Any, z: Any, theta: Any, out: Any) -> None:
    mean, sd = _spread(model, theta[0])
    for j in range(z.shape[1]):
        u = mean + sd * z[0, j, 0]
        out[0, j] = log_noise(model.noise, model.noise_scale, model.y[0] - u)


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
    return look_up_within(model, to_line(model.scale, theta[0]))


# --- any model, with NumPy ---------------------------------------------------------------------


class Simulated:
    """Any population and statistic; ``release`` is seen through particles, ``known`` are not."""

    def __init__(
        self, release: NoisyStatistic, known: Sequence[NoisyStatistic], population: Population,
        view: int,
    ) -> None:  # fmt: skip
        self.release, self.known, self.population, self.view = release, known, population, view

    def target(self, theta: Array) -> float:
        """Return log p(y | θ) of the releases for which it is known."""
        return _total(self.known, self.population, theta)

    def weights(self, z: Array, theta: Array, out: Array) -> None:
        """Fill in log h of particles of people."""
        release = self.release
        x = self.population.simulate(theta, z)
        centre, scale = release.centre(x[..., 0] if self.view == LOCAL else x[0])
        if self.view == LOCAL:
            out[:] = release.noise.log_density(release.values[:, None] - centre)
        else:
            out[0] = release.noise.log_density(release.values - centre, scale).sum(axis=-1)

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
        return _table_target(model, theta)
    return _table_target(model.known, theta) if isinstance(model, BuiltIn) else model.target(theta)


def log_weights(model: Any, z: Any, theta: Any, out: Any) -> None:
    """Fill in log h(y_t | z, θ) of particles of people."""
    if isinstance(model, BuiltIn):
        _built_in_weights(model, z, theta, out)
    else:
        model.weights(z, theta, out)


def log_normal_weights(model: Any, z: Any, theta: Any, out: Any) -> None:
    """Fill in log h(y | z, θ) of particles of S_n."""
    if isinstance(model, BuiltIn):
        _built_in_normal_weights(model, z, theta, out)
    else:
        model.normal_weights(z, theta, out)


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
        3: lambda a, b, c: lambda a, b, c: answer(a, b, c),
        4: lambda a, b, c, d: lambda a, b, c, d: answer(a, b, c, d),
    }
    overload(question, strict=False)(forms[count])


def _compiled_target(model: Any, theta: Any) -> Any:
    """Answer `log_target` for the type of a model."""
    if model.instance_class is Table:
        return lambda model, theta: _table_target(model, theta)
    return lambda model, theta: _table_target(model.known, theta)


overload(log_target, strict=False)(_compiled_target)
for _question, _answer in (
    (log_weights, _built_in_weights),
    (log_normal_weights, _built_in_normal_weights),
    (draw_statistic, _built_in_draw),
    (log_statistic, _built_in_statistic),
    (log_release, _built_in_release),
):
    _compile_as(_question, _answer)


def seen_first(releases: Sequence[NoisyStatistic]) -> list[NoisyStatistic]:
    """Return releases with the one first that needs particles most."""
    return sorted(releases, key=lambda r: (has_likelihood(r), r.local, r.size))


def check_view(releases: Sequence[NoisyStatistic], view: int) -> None:
    """Raise unless the releases can be seen in this way."""
    release, *known = seen_first(releases)
    for other in known:
        if not has_likelihood(other):
            raise ParameterError(
                f"p(y | θ) of {release.statistic.name} and of {other.statistic.name} are both not "
                "known: of several releases one may be such"
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
