"""log p(y | θ) of an order statistic, whichever mechanism released it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tacit._core.arrays import Array
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.orders.ranks import WINDOWS, Ranks
from tacit.posterior.numerics.orders.simulated import level_of
from tacit.posterior.numerics.orders.smooth import SmoothOrders
from tacit.posterior.numerics.populations.base import Population
from tacit.posterior.numerics.statistics import OrderStatistic

__all__ = ["order_law"]


def order_law(
    release: NoisyStatistic, population: Population, windows: int = WINDOWS
) -> Ranks | SmoothOrders:
    """Return what knows log p(y | θ) of a released order statistic.

    Parameters
    ----------
    release
        What was released.
    population
        The law of the data, of which only the numbers that many people share are asked.
    windows
        How many windows of people a draw is seen through.
    """
    statistic = release.statistic
    assert isinstance(statistic, OrderStatistic)
    ties = population.ties(release.bounds)
    return _law(
        statistic,
        release.bounds,
        release.size,
        release.noise,
        float(release.values[0]),
        None if ties is None else tuple(ties.tolist()),
        windows,
    )


@lru_cache(maxsize=512)
def _law(
    statistic: OrderStatistic,
    bounds: tuple[float, float],
    size: int,
    noise: NoiseLaw,
    value: float,
    ties: tuple[float, ...] | None,
    windows: int,
) -> Ranks | SmoothOrders:
    from tacit.posterior.numerics.orders.domain import Domain

    domain = Domain.of(statistic, bounds, noise.step)
    shared: Array | None = (
        None if ties is None else domain.base.values(np.array(ties), bounds)[:, 0]
    )
    if noise.kind == "exponential":
        place = float(domain.inward(np.array(value)))
        level = level_of(statistic.quantile)
        return Ranks(domain, size, level, 1.0 / noise.scale, place, windows, shared)
    rank = statistic.rank(size)
    return SmoothOrders(domain, size, rank, noise.scale, noise.beta, value, shared)
