"""Fisher information of a released order statistic, by quadrature over what may be released.

F(θ) = 4∫(∂√p(y | θ)/∂θ)² dy: differences of square roots of densities stay bounded where those of
logarithms do not, so a step of a fifth of a posterior's spread is small enough.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.orders.domain import Domain, Spread
from tacit.posterior.numerics.orders.ranks import Ranks
from tacit.posterior.numerics.orders.simulated import level_of
from tacit.posterior.numerics.orders.smooth import SmoothOrders
from tacit.posterior.numerics.populations.base import Population, difference_step
from tacit.posterior.numerics.statistics import OrderStatistic

__all__ = ["order_information"]

_WINDOWS = 16  # people around each y, the same for all θ: chance cancels in a difference
_STEP = 0.1  # of a posterior's spread
_RANKS, _EVEN, _SPARSE = 28, 25, 3  # nodes on each side, over the range, of them for a first look


def order_information(
    release: NoisyStatistic, population: Population, theta: Array
) -> tuple[Array, Array]:
    """Return F(θ), (p, p), and by how much half of the nodes would change it.

    Parameters
    ----------
    release
        A planned release of an order statistic.
    population, theta
        The law of the data.
    """
    values = _nodes(release, population, theta)
    steps = np.array(
        [10.0 * difference_step(theta, population.scales, k) for k in range(len(theta))]
    )
    for nodes in (values[::_SPARSE], values):
        laws = [_law(release, population, float(y)) for y in nodes]
        slopes = _slopes(laws, nodes, population, theta, steps)
        found = _squared(slopes, nodes)
        wanted = _STEP / np.sqrt(np.maximum(np.diag(found), 1e-300))
        steps = np.minimum(wanted, _room(population, theta))
    return found, np.abs(found - _squared(slopes[:, ::2], values[::2]))


def _squared(slopes: Array, nodes: Array) -> Array:
    """Return 4∫∂√p·∂√pᵀ dy."""
    return np.asarray(4.0 * np.trapezoid(slopes[:, None] * slopes[None], nodes))


def _slopes(
    laws: list[Any], nodes: Array, population: Population, theta: Array, steps: Array
) -> Array:
    """Return ∂√p by central differences, (p, nodes)."""
    slopes = []
    for k, step in enumerate(steps):
        pair = []
        for sign in (-1.0, 1.0):
            moved = theta.copy()
            moved[k] += sign * step
            density = np.exp([law.log_density(population, moved) for law in laws])
            pair.append(np.sqrt(density / np.trapezoid(density, nodes)))
        slopes.append((pair[1] - pair[0]) / (2.0 * step))
    return np.array(slopes)


def _room(population: Population, theta: Array) -> Array:
    """Return the largest steps that stay within the parameters' range."""
    found = []
    for value, scale in zip(theta, population.scales, strict=True):
        left = {"real": math.inf, "positive": value, "unit": min(value, 1.0 - value)}[scale]
        found.append(0.3 * left)
    return np.array(found)


def _law(release: NoisyStatistic, population: Population, y: float) -> Ranks | SmoothOrders:
    statistic, noise, size = release.statistic, release.noise, release.size
    assert isinstance(statistic, OrderStatistic)
    domain, ties = release.domain, population.ties(release.bounds)
    if ties is not None:
        ties = domain.base.values(ties, release.bounds)[:, 0]
    if noise.kind == "smooth":
        rank = statistic.rank(size)
        return SmoothOrders(domain, size, rank, noise.scale, noise.beta, y, ties)
    level = level_of(statistic.quantile)
    return Ranks(domain, size, level, 1.0 / noise.scale, y, _WINDOWS, ties)


def _nodes(release: NoisyStatistic, population: Population, theta: Array) -> Array:
    """Return where a release may lie: on the mechanism's scale, close where it is likely."""
    statistic, size, domain = release.statistic, release.size, release.domain
    assert isinstance(statistic, OrderStatistic)
    q, (low, high) = statistic.quantile, domain.ends
    middle = _quantiles(domain, population, theta, np.array([q]), 0.5 * (low + high))
    # ranks by which sampling and mechanism move it
    moved = math.sqrt(size * q * (1.0 - q) + 1.0)
    rate = release.noise.scale if release.noise.kind == "smooth" else 1.0 / release.noise.scale
    moved = math.hypot(moved, 3.0 / rate)
    ranks = moved * np.sinh(np.linspace(0.0, math.asinh(size / moved), _RANKS + 1))[1:]
    levels = np.clip(q + np.concatenate([-ranks[::-1], [0.0], ranks]) / size, 0.0, 1.0)
    places = _quantiles(domain, population, theta, levels, float(middle[0]))
    places = np.unique(np.concatenate([places, np.linspace(low, high, _EVEN)]))
    if release.noise.kind == "exponential":
        return places
    values = domain.outward(np.clip(places, domain.low, domain.high))
    beyond = (values[-1] - values[0]) * np.geomspace(0.02, 60.0 / release.noise.scale, _RANKS)
    return np.unique(np.concatenate([values[0] - beyond, values, values[-1] + beyond]))


def _quantiles(
    domain: Domain, population: Population, theta: Array, levels: Array, around: float
) -> Array:
    spread = Spread(domain, around)
    shares = spread.shares(population, theta)
    kept = np.concatenate([[True], np.diff(shares) > 0.0])
    return np.asarray(np.interp(levels, shares[kept], spread.points[kept]))
