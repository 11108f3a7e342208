"""The likelihood of a release: p(y | θ) in closed form or by quadrature.

| release | p(y; θ) |
|---|---|
| additive, Gaussian noise | N(μ(θ), Σ(θ)/n + σ²I), S_n normal by the central limit theorem |
| 0/1 answers, one number, either noise | a sum over how many say yes |
| additive, Laplace noise, one number | a normal convolved with a Laplace law, in closed form |
| each person's own answer | Π_t ∫ p(x given θ)·g(y_t given s(x)) dx, by quadrature over x |
| order statistic | a sum over ranks, or an integral over the statistic: see `orders` |
| vectors with Laplace noise | only by simulation: see `particles` |
| any of these of a private number of people | a sum over how many there may be: see `counts` |

Moments are those of s of the **clipped** X, by quadrature, for every population and statistic.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import special, stats

from tacit._core.arrays import Array
from tacit.errors import ParameterError
from tacit.posterior.numerics.counts import NoisyCount, log_of_all_numbers
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic, normal_laplace
from tacit.posterior.numerics.orders.likelihood import order_law
from tacit.posterior.numerics.populations.base import Population, slopes
from tacit.posterior.numerics.populations.laws import Bernoulli
from tacit.posterior.numerics.statistics import Additive

__all__ = ["has_likelihood", "log_likelihood", "marginal", "moments", "moments_and_slopes"]

_WINDOWS = 16  # of people around a quantile, for each of some numbers of people
_SPREADS, _COUNTS = 40.0, 4096  # of 0/1 answers: how far sums go, and their longest
_BLOCK = 4_000_000  # numbers held at once by the quadrature over people


def moments(
    population: Population, statistic: Additive, bounds: tuple[float, float], theta: Array
) -> tuple[Array, Array]:
    """Return mean (k,) and covariance (k, k) of s(X).

    >>> from tacit.posterior.numerics.populations.laws import NormalVariance
    >>> from tacit.posterior.numerics.statistics import Power
    >>> mean, cov = moments(NormalVariance(), Power(2.0), (-50.0, 50.0), np.array([3.0]))
    >>> mean.round(6), cov.round(6)
    (array([3.]), array([[18.]]))
    """
    x, weights = population.nodes(theta, statistic.within(bounds))
    s = statistic.values(x, bounds)
    mean = weights @ s
    gap = s - mean
    return mean, (gap * weights[:, None]).T @ gap


def moments_and_slopes(
    population: Population, statistic: Additive, bounds: tuple[float, float], theta: Array
) -> tuple[Array, Array, Array, Array]:
    """Return μ, Σ and their derivatives (p, k) and (p, k, k), by fourth-order differences."""
    mean, cov = moments(population, statistic, bounds, theta)

    def rows(at: Array) -> Array:
        return np.vstack(moments(population, statistic, bounds, at))

    found = np.array(slopes(rows, theta, population.scales))
    return mean, cov, found[:, 0].copy(), found[:, 1:].copy()


def has_likelihood(release: NoisyStatistic) -> bool:
    """Whether p(y | θ) can be computed without simulation."""
    if release.local or not release.additive:
        return True
    return release.noise.kind == "gaussian" or len(release.values) == 1


def log_likelihood(release: NoisyStatistic, population: Population, theta: Array) -> float:
    """Return log p(y | θ) of a release for which `has_likelihood`."""
    if release.local:
        return _local(release, population, theta)
    if not release.additive and release.count is not None:
        return log_of_all_numbers(
            release.count,
            lambda people: order_law(
                replace(release, size=people, count=None), population, _WINDOWS
            ).log_density(population, theta),
        )
    if not release.additive:
        return order_law(release, population).log_density(population, theta)
    if not has_likelihood(release):
        raise ParameterError(f"{release.statistic.name} has no likelihood without simulation")
    assert isinstance(release.statistic, Additive)
    mean, cov = moments(population, release.statistic, release.bounds, theta)
    if release.count is not None:
        return _of_a_sum(release, release.count, mean, cov)
    if isinstance(population, Bernoulli) and len(mean) == 1:
        return _of_answers(release, float(theta[0]))
    return float(marginal(release, mean, cov)(release.values))


def _of_answers(release: NoisyStatistic, theta: float) -> float:
    """Return log Σ_k P(k people say yes)·g(y | their mean): exact for any number of people."""
    assert isinstance(release.statistic, Additive)
    ends = release.statistic.values(np.array([0.0, 1.0]), release.bounds)[:, 0]
    n, reach = release.size, _SPREADS * np.sqrt(release.size * theta * (1.0 - theta)) + _SPREADS
    first, last = max(0, int(n * theta - reach)), min(n, int(n * theta + reach) + 1)
    step = max(1, (last - first) // _COUNTS)  # a small part of their spread
    k = np.arange(first, last + 1, step)
    noise = release.noise.log_density(release.values[0] - ends[0] - (ends[1] - ends[0]) * k / n)
    return float(special.logsumexp(stats.binom.logpmf(k, n, theta) + noise) + np.log(step))


def _of_a_sum(release: NoisyStatistic, count: NoisyCount, mean: Array, cov: Array) -> float:
    """Return log Σ_n p(c | n)·p(t | θ, n) up to a constant."""
    total, drift = (release.values - release.middle) * release.size, mean - release.middle
    scale = release.noise.scale * release.size
    people, logs = count.numbers()
    if release.noise.kind == "laplace":
        sd = np.sqrt(people * max(float(cov[0, 0]), 0.0))
        logs = logs + normal_laplace(total[0] - people * drift[0], sd, scale)
        return float(special.logsumexp(logs))
    levels, axes = np.linalg.eigh(cov)  # the same axes for every n
    spread = people[:, None] * np.maximum(levels, 0.0) + scale**2
    gap = axes.T @ total - people[:, None] * (axes.T @ drift)
    logs = logs - 0.5 * (gap * gap / spread + np.log(spread)).sum(axis=1)
    return float(special.logsumexp(logs))


def marginal(release: NoisyStatistic, mean: Array, cov: Array):  # type: ignore[no-untyped-def]
    """Return the log density of y under the central limit theorem, given moments of s(X)."""
    if release.noise.kind == "gaussian":
        total = cov / release.size + release.noise.scale**2 * np.eye(len(mean))
        factor = np.linalg.cholesky(total)
        constant = np.log(np.diag(factor)).sum() + 0.5 * len(mean) * np.log(2.0 * np.pi)

        def normal(y: Array) -> Array:
            white = np.linalg.solve(factor, (np.asarray(y) - mean).T)
            return np.asarray(-0.5 * (white * white).sum(axis=0) - constant)

        return normal
    sd = float(np.sqrt(max(cov[0, 0], 0.0) / release.size))
    return lambda y: normal_laplace(np.asarray(y)[..., 0] - mean[0], sd, release.noise.scale)


def _local(release: NoisyStatistic, population: Population, theta: Array) -> float:
    """Return Σ_t log ∫ p(x | θ)·g(y_t | s(x)) dx."""
    assert isinstance(release.statistic, Additive)
    x, weights = population.nodes(theta, release.statistic.within(release.bounds))
    s = release.statistic.values(x, release.bounds)[:, 0]
    kept = weights > 0.0
    s, log_weights = s[kept], np.log(weights[kept])
    ties = population.ties(release.bounds)
    shared = () if ties is None else release.statistic.values(ties, release.bounds)[:, 0].tolist()
    ends = (float(end[0]) for end in release.statistic.range(release.bounds))
    answers, counts = release.counted((*ends, *shared))
    total = 0.0
    chunk = max(1, _BLOCK // len(s))
    for start in range(0, len(answers), chunk):
        gap = answers[start : start + chunk, None] - s
        terms = release.noise.log_density(gap) + log_weights
        top = terms.max(axis=1)
        values = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
        total += float(counts[start : start + chunk] @ values)
    return total
