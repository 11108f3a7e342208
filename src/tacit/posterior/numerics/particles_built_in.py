"""Models that compiled loops understand: built-in populations and powers of x.

A `BuiltIn` is a tuple of numbers, arrays and tables; the functions here answer the questions of
`tacit.posterior.numerics.particles` about it, and run compiled or as plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.linear import inlined
from tacit._core.order_statistics import best_pair
from tacit.posterior.numerics.likelihood import log_likelihood, moments
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic, log_noise
from tacit.posterior.numerics.populations.laws import Population, transform
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.splines import (
    SCALES,
    Table,
    everywhere,
    from_line,
    line_range,
    look_up,
    look_up_within,
    spline,
    to_line,
)
from tacit.posterior.numerics.statistics import OrderStatistic, Power, power
from tacit.posterior.numerics.tabulate import tabulate

__all__ = [
    "BATCH",
    "CLT",
    "LOCAL",
    "BuiltIn",
    "built_in",
    "is_built_in",
    "normal_density",
    "normal_draw",
    "normal_weights",
    "people_weights",
    "release_density",
    "table_target",
    "total_log_likelihood",
]

CLT, BATCH, LOCAL = range(3)  # views of a release; see `tacit.posterior.numerics.particles`
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
    return plain and population.code >= 0 and release.noise.kind != "exponential"


def built_in(
    release: NoisyStatistic,
    known: Sequence[NoisyStatistic],
    population: Population,
    prior: ScalarPrior,
    view: int,
) -> BuiltIn:
    """Describe a release to compiled loops; functions of θ become splines."""
    statistic = release.statistic
    rank = statistic.rank(release.size) if isinstance(statistic, OrderStatistic) else 0
    base = statistic.of if isinstance(statistic, OrderStatistic) else statistic
    assert isinstance(base, Power)
    low, high = base.range(release.bounds)
    scale = SCALES.index(population.scales[0])
    mean = variance = others = everywhere(scale)
    if known:
        others = tabulate(
            lambda t: total_log_likelihood(known, population, np.array([t])), prior, scale
        )[0]
    if view == CLT:
        eta = np.linspace(*line_range(prior, scale), _MOMENT_NODES)
        rows = [
            moments(population, base, release.bounds, np.array([from_line(scale, e)])) for e in eta
        ]
        mean = spline(scale, eta, np.array([row[0][0] for row in rows]))
        variance = spline(scale, eta, np.array([row[1][0, 0] for row in rows]))
    return BuiltIn(
        view,
        population.code,
        float(population.constant),
        int(base.absolute),
        float(base.exponent),
        rank,
        float(release.bounds[0]),
        float(release.bounds[1]),
        float(low[0]),
        float(high[0]),
        release.noise.code,
        float(release.noise.scale),
        float(release.noise.beta),
        float(release.size),
        release.values,
        mean,
        variance,
        others,
    )


def total_log_likelihood(
    releases: Sequence[NoisyStatistic], population: Population, theta: Array
) -> float:
    """Return log p(y | θ) of several releases of different people."""
    return sum(log_likelihood(release, population, theta) for release in releases)


# --- compiled answers --------------------------------------------------------------------------


@inlined
def _one(model: Any, theta: float, z: float) -> Any:
    """Return s of one person, clipped."""
    x = transform(model.population, model.constant, theta, z, model.high)
    x = min(max(x, model.low), model.high)
    return min(max(power(model.absolute, model.exponent, x), model.s_low), model.s_high)


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
def people_weights(model: Any, z: Any, theta: Any, out: Any) -> None:
    """Answer `log_weights`."""
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
def normal_weights(model: Any, z: Any, theta: Any, out: Any) -> None:
    """Answer `log_normal_weights`."""
    mean, sd = _spread(model, theta[0])
    for j in range(z.shape[1]):
        u = mean + sd * z[0, j, 0]
        out[0, j] = log_noise(model.noise, model.noise_scale, model.y[0] - u)


@inlined
def normal_draw(model: Any, rng: Any, theta: Any, out: Any) -> None:
    """Answer `draw_statistic`."""
    mean, sd = _spread(model, theta[0])
    for j in range(out.shape[0]):
        out[j, 0] = mean + sd * rng.standard_normal()


@inlined
def normal_density(model: Any, u: Any, theta: Any, out: Any) -> None:
    """Answer `log_statistic`."""
    mean, sd = _spread(model, theta[0])
    for j in range(u.shape[0]):
        out[j] = log_noise(0, sd, u[j, 0] - mean)


@inlined
def release_density(model: Any, u: Any, out: Any) -> None:
    """Answer `log_release`."""
    for j in range(u.shape[0]):
        out[j] = log_noise(model.noise, model.noise_scale, model.y[0] - u[j, 0])


@inlined
def table_target(model: Any, theta: Any) -> Any:
    """Answer `log_target`."""
    return look_up_within(model, to_line(model.scale, theta[0]))
