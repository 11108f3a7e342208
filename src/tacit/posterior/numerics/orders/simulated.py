"""The exponential mechanism on simulated people: draws, and their density given the people.

With t = q·n and C(v) how many lie below v, v has the density exp(−r·|C(v) − t|)/Z.
"""

from __future__ import annotations

import numpy as np

from tacit._core.arrays import Array
from tacit.posterior.numerics.orders.domain import Domain

__all__ = ["draws_log_density", "level_of", "simulated_draws"]

_LEVEL = 2.0**30  # the mechanism's levels are multiples of its inverse


def level_of(quantile: float) -> float:
    """Return the level that the mechanism draws, a multiple of 2⁻³⁰."""
    return round(quantile * _LEVEL) / _LEVEL


def _gaps(domain: Domain, x: Array, rng: np.random.Generator | None = None) -> tuple[Array, Array]:
    """Return sorted places (…, n) and the lengths of the gaps around them (…, n + 1).

    Values of a grid lie spread over their step: at random, or without a generator as on average.
    """
    s = domain.base.values(x, domain.bounds)[..., 0]
    s = np.clip(s, domain.low, domain.high)
    if domain.step and rng is not None:
        s = domain.low + domain.step * np.rint((s - domain.low) / domain.step)
        s += domain.step * (rng.random(s.shape) - 0.5)
    s = np.sort(s, axis=-1)
    if domain.step and rng is None:
        flat = s.reshape(-1, s.shape[-1])
        for row in flat:
            row[:] = domain.low + domain.step * np.rint((row - domain.low) / domain.step)
            _, first, counts = np.unique(row, return_index=True, return_counts=True)
            order = np.arange(row.size) - np.repeat(first, counts)
            row += domain.step * ((order + 0.5) / np.repeat(counts, counts) - 0.5)
        s = flat.reshape(s.shape)
    low, high = domain.ends
    ends = np.full((*s.shape[:-1], 1), low), np.full((*s.shape[:-1], 1), high)
    return s, np.diff(np.concatenate([ends[0], s, ends[1]], axis=-1), axis=-1)


def _exponents(size: int, quantile: float, rate: float) -> Array:
    return np.asarray(-rate * np.abs(np.arange(size + 1.0) - level_of(quantile) * size))


def draws_log_density(
    domain: Domain, quantile: float, rate: float, x: Array, value: float
) -> Array:
    """Return the log density of a released statistic given people (…, n), on the domain's scale.

    Parameters
    ----------
    domain, quantile, rate
        Where, which quantile, and r.
    x
        People's numbers.
    value
        What was released.
    """
    s, gaps = _gaps(domain, x)
    exponents = _exponents(s.shape[-1], quantile, rate)
    place = float(domain.inward(np.array(value)))
    below = (s < place).sum(axis=-1)
    return np.asarray(exponents[below] - np.log(gaps @ np.exp(exponents)))


def simulated_draws(
    rng: np.random.Generator, domain: Domain, quantile: float, rate: float, x: Array
) -> Array:
    """Return draws of the statistic of people (…, n), for studies: this is no privacy noise.

    Parameters
    ----------
    rng
        A generator.
    domain, quantile, rate
        Where, which quantile, and r.
    x
        People's numbers.
    """
    s, gaps = _gaps(domain, x, rng)
    chances = np.cumsum(gaps * np.exp(_exponents(s.shape[-1], quantile, rate)), axis=-1)
    level = rng.random((*s.shape[:-1], 1)) * chances[..., -1:]
    gap = (chances < level).sum(axis=-1, keepdims=True)
    low, high = domain.ends
    ends = np.full((*s.shape[:-1], 1), low), np.full((*s.shape[:-1], 1), high)
    points = np.concatenate([ends[0], s, ends[1]], axis=-1)
    start = np.take_along_axis(points, gap, axis=-1)
    end = np.take_along_axis(points, gap + 1, axis=-1)
    return domain.outward(start + (end - start) * rng.random(start.shape))
