"""Fisher information by Monte Carlo: thesis Algorithms 6, 7 and 8, with standard errors.

The score of y is the mean of a score over latent variables given y (Fisher's identity), estimated
by self-normalised importance sampling. The thesis squares one estimate, which adds its variance to
F; here the scores of two independent halves of the particles are multiplied, so that variance
averages out.

With x = φ_θ(z) the score may be taken through φ (``pathwise``: ∂ log h(y | z, θ)/∂θ, for
continuous populations, also those whose support moves with θ) or through the density
(Σ_t ∂ log p(x_t | θ)/∂θ, for counts).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.posterior.numerics.likelihood import moments_and_slopes
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.populations.base import Population, difference_step
from tacit.posterior.numerics.statistics import Additive

__all__ = ["importance", "simulated"]

_BLOCK = 2_000_000  # numbers held at once
_BATCHES = 25  # independent sets of particles where people are simulated


def _summarise(values: Array, times: float) -> tuple[Array, Array]:
    """Return mean and standard error of products of two independent scores (outer, p, p)."""
    count = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(count)
    return times * values.mean(axis=0), times * error


def _products(log_weights: Array, scores: Array) -> Array:
    """Return the symmetric product of the two halves' weighted scores.

    log_weights (outer, 2, M), scores (outer, 2, M, p).
    """
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mean = np.einsum("ohm,ohmp->ohp", weights, scores)
    product = mean[:, 0, :, None] * mean[:, 1, None, :]
    return np.asarray(0.5 * (product + product.transpose(0, 2, 1)))


def importance(
    release: NoisyStatistic,
    population: Population,
    theta: Array,
    rng: np.random.Generator,
    outer: int,
    inner: int,
) -> tuple[Array, Array]:
    """Algorithm 6: u ~ f(u | θ) is normal, w = g(y | u), score ∂ log f(u | θ)."""
    assert isinstance(release.statistic, Additive)
    mean, cov, mean_slopes, cov_slopes = moments_and_slopes(
        population, release.statistic, release.bounds, theta
    )
    cov, cov_slopes = cov / release.size, cov_slopes / release.size
    factor, inverse = np.linalg.cholesky(cov), np.linalg.inv(cov)
    half, k = inner // 2, len(mean)
    trace = np.einsum("ab,pba->p", inverse, cov_slopes)
    products = []
    chunk = max(1, _BLOCK // (inner * k))
    for start in range(0, outer, chunk):
        count = min(chunk, outer - start)
        truth = mean + rng.standard_normal((count, k)) @ factor.T
        y = release.noise.perturb(rng, truth)
        gap = rng.standard_normal((count, 2, half, k)) @ factor.T
        turned = gap @ inverse
        scores = turned @ mean_slopes.T
        scores += 0.5 * (np.einsum("ohma,pab,ohmb->ohmp", turned, cov_slopes, turned) - trace)
        seen = y[:, None, None, :] - mean - gap
        products.append(_products(release.noise.log_density(seen).sum(axis=-1), scores))
    return _summarise(np.concatenate(products), 1.0)


def simulated(
    release: NoisyStatistic,
    population: Population,
    theta: Array,
    rng: np.random.Generator,
    outer: int,
    inner: int,
) -> tuple[Array, Array]:
    """Algorithms 7 and 8: people are simulated; the score is pathwise or that of the density.

    Simulating n people for every particle of every y would cost outer·inner·n. Here the values of
    y of one batch share their particles; batches are independent, and so the standard error is
    that of their means.
    """
    batches = min(_BATCHES, outer)
    count, people = max(1, outer // batches), 1 if release.local else release.size
    products = []
    for _ in range(batches):
        truth = population.simulate(theta, rng.standard_normal((count, people)))
        y = release.noise.perturb(rng, *release.centre(truth))[:, None]
        laws, scores = _particles(release, population, theta, rng, inner // 2 * 2)

        def weigh(law: tuple[Array, Any], y: Array = y) -> Array:
            terms = release.noise.log_density(y - law[0], law[1]).sum(axis=-1)
            return np.asarray(terms.reshape(count, 2, -1))

        log_weights = weigh(laws[0])
        if scores is None:  # pathwise: a difference for each parameter
            slopes = []
            for k in range(len(theta)):
                step = 2.0 * _path_step(population, theta, k)
                slopes.append((weigh(laws[2 * k + 2]) - weigh(laws[2 * k + 1])) / step)
            each = np.stack(slopes, axis=-1)
        else:
            each = np.broadcast_to(
                scores.reshape(1, 2, -1, len(theta)), (*log_weights.shape, len(theta))
            )
        products.append(_products(log_weights, each).mean(axis=0))
    times = float(release.size) if release.local else 1.0
    return _summarise(np.array(products), times)


def _path_step(population: Population, theta: Array, k: int) -> float:
    return 0.1 * difference_step(theta, population.scales, k)


def _particles(
    release: NoisyStatistic,
    population: Population,
    theta: Array,
    rng: np.random.Generator,
    count: int,
) -> tuple[list[tuple[Array, Any]], Array | None]:
    """Return what would be released of simulated people at θ, θ − h and θ + h; or their scores.

    Counts have no derivative in θ: they, and a custom population with a density, give scores.
    """
    pathwise = population.code not in (3, 5) and (
        population.code >= 0 or not population.has_density
    )
    points = [theta]
    for k in range(len(theta) if pathwise else 0):
        for sign in (-1.0, 1.0):
            points.append(theta.copy())
            points[-1][k] += sign * _path_step(population, theta, k)
    people = 1 if release.local else release.size
    parts: list[list[tuple[Array, Any]]] = [[] for _ in points]
    scores = []
    chunk = max(1, _BLOCK // people)
    for start in range(0, count, chunk):
        z = rng.standard_normal((min(chunk, count - start), people))
        for at, found in zip(points, parts, strict=True):
            x = population.simulate(at, z)
            found.append(release.centre(x))
        if not pathwise:
            scores.append(population.score(x, theta).sum(axis=-2))
    laws = [
        (
            np.concatenate([c for c, _ in found]),
            None if found[0][1] is None else np.concatenate([s for _, s in found]),
        )
        for found in parts
    ]
    return laws, None if pathwise else np.concatenate(scores)
