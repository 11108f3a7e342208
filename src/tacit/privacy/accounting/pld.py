"""Privacy-loss distributions of events, composed on a grid of losses rounded upwards.

Built with dp_accounting, except for the Poisson-sampled Gaussian and for shuffled messages, whose
hockey sticks are evaluated all at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tacit.errors import NotCertified
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.shuffled import shuffled_deltas, shuffled_reach
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    DiscreteLaplaceDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    ShuffledDpEvent,
    pure_epsilon,
)

__all__ = [
    "clear_caches",
    "composed_distribution",
    "composed_epsilon",
    "gaussian_mu",
    "loss_interval",
]


def gaussian_mu(counts: Mapping[DpEvent, int]) -> float:
    """Return μ of a bag of Gaussians: their squares add."""
    return math.sqrt(
        math.fsum(
            n * gaussian.inverse_square(leaf.noise_multiplier)
            for leaf, n in counts.items()
            if isinstance(leaf, GaussianDpEvent)
        )
    )


_Key = tuple[tuple[DpEvent, int], ...]


def _key(counts: Mapping[DpEvent, int]) -> _Key:
    """Return a bag as a hashable value in a fixed order, so that sums do not depend on it."""
    return tuple(sorted(counts.items(), key=repr))


def loss_interval(counts: Mapping[DpEvent, int]) -> float:
    """Return the grid of losses: 1e-4, or finer where the whole loss is small.

    The spread of the composed loss is about sqrt(Σ n·s²), with s the size of one loss; a
    thousandth of it keeps the rounding of each event well below the answer.
    """
    spread = widest = 0.0
    for leaf, n in counts.items():
        match leaf:
            case GaussianDpEvent(multiplier):
                size, reach = 1.0 / multiplier, 10.0 / multiplier
            case PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier), _):
                size, reach = rate / multiplier, 10.0 / multiplier
            case ApproximateDpEvent(epsilon, _):
                size = reach = epsilon
            case ShuffledDpEvent(local, people):
                reach = shuffled_reach(local, people)
                size = reach / 8.0
            case _:
                size = reach = float(pure_epsilon(leaf) or 0.0)
        spread += n * size * size
        widest = max(widest, reach)
    # the grid of a single loss has at most some 200,000 points
    return float(max(min(1e-4, math.sqrt(spread) / 1000.0), widest / 200_000.0, 1e-9))


@lru_cache(maxsize=64)
def _composed(key: _Key) -> Any:
    """Return the composed privacy-loss distribution of a bag of events."""
    from dp_accounting.pld import privacy_loss_distribution as library

    counts = dict(key)
    interval = loss_interval(counts)
    total = library.identity(value_discretization_interval=interval)
    gaussians: dict[DpEvent, int] = {
        leaf: n for leaf, n in counts.items() if isinstance(leaf, GaussianDpEvent)
    }
    if gaussians:
        merged = GaussianDpEvent(1.0 / gaussian_mu(gaussians))
        total = total.compose(_single_distribution(merged, interval))
    for leaf, n in key:
        if leaf not in gaussians:
            total = total.compose(_single_distribution(leaf, interval).self_compose(n))
    return total


@lru_cache(maxsize=256)
def _single_distribution(leaf: DpEvent, interval: float) -> Any:
    """Return the privacy-loss distribution of one elementary event."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as library

    grid = {"value_discretization_interval": interval}
    match leaf:
        case GaussianDpEvent(multiplier):
            return library.from_gaussian_mechanism(multiplier, **grid)
        case LaplaceDpEvent(multiplier):
            return library.from_laplace_mechanism(multiplier, **grid)
        case DiscreteLaplaceDpEvent(parameter, sensitivity):
            return library.from_discrete_laplace_mechanism(parameter, sensitivity, **grid)
        case RandomizedResponseDpEvent(noise, buckets):
            if noise == 1.0:
                return library.identity(**grid)
            return library.from_randomized_response(noise, buckets, **grid)
        case ApproximateDpEvent(epsilon, delta):
            pair = common.DifferentialPrivacyParameters(epsilon, delta)
            return library.from_privacy_parameters(pair, **grid)
        case PoissonSampledDpEvent(rate, LaplaceDpEvent(multiplier), _):
            return library.from_laplace_mechanism(multiplier, sampling_prob=rate, **grid)
        case PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier), neighbours):
            if neighbours == REPLACE:
                relation = NeighboringRelation.REPLACE_ONE
                return library.from_gaussian_mechanism(
                    multiplier, sampling_prob=rate, neighboring_relation=relation, **grid
                )
            return _sampled_gaussian(rate, multiplier, interval)
        case ShuffledDpEvent(local, people):
            return _shuffled(local, people, interval)
    raise NotCertified(f"the pld accountant cannot account for {leaf}")


def _sampled_gaussian(rate: float, multiplier: float, interval: float) -> Any:
    """Return the distribution of a Poisson-sampled Gaussian, all losses at once.

    With P = (1 − q)·N₀ + q·N₁ against N₀, (P − e^ε·N₀)₊ = q·(N₁ − e^ε'·N₀)₊ where
    e^ε' = 1 + (e^ε − 1)/q, and (N₀ − e^ε·P)₊ = c·(N₀ − e^ε''·N₁)₊ where c = 1 − e^ε·(1 − q) and
    e^ε'' = q·e^ε/c. So both hockey sticks are those of the plain Gaussian, evaluated elsewhere;
    the dots are connected as dp_accounting does.
    """
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as library
    from dp_accounting.pld import privacy_loss_mechanism as losses

    mu = 1.0 / multiplier
    masses = []
    for side in (losses.AdjacencyType.REMOVE, losses.AdjacencyType.ADD):
        bounds = losses.GaussianPrivacyLoss(
            multiplier, sampling_prob=rate, adjacency_type=side
        ).connect_dots_bounds()
        lower = math.floor(bounds.epsilon_lower / interval)
        upper = math.ceil(bounds.epsilon_upper / interval)
        epsilon = np.arange(lower, upper + 1) * interval
        delta = np.zeros(epsilon.size)
        if side is losses.AdjacencyType.REMOVE:
            ratio = 1.0 + np.expm1(epsilon) / rate
            inner = ratio > 0.0
            delta[~inner] = -np.expm1(epsilon[~inner])
            delta[inner] = rate * gaussian.gdp_deltas(mu, np.log(ratio[inner]))
        else:
            weight = rate - (1.0 - rate) * np.expm1(epsilon)  # c, without cancellation
            inner = weight > 0.0
            shifted = epsilon[inner] + math.log(rate) - np.log(weight[inner])
            delta[inner] = weight[inner] * gaussian.gdp_deltas(mu, shifted)
        masses.append(
            pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, lower, upper, delta)
        )
    return library.PrivacyLossDistribution(*masses)


def _shuffled(local: float, people: int, interval: float) -> Any:
    """Return the distribution of shuffled messages; the pair is symmetric."""
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld import privacy_loss_distribution as library

    upper = math.ceil(shuffled_reach(local, people) / interval)
    delta = shuffled_deltas(local, people, np.arange(-upper, upper + 1) * interval)
    return library.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -upper, upper, delta)
    )


def composed_distribution(counts: Mapping[DpEvent, int]) -> Any:
    """Return the composed privacy-loss distribution of a bag of elementary events."""
    return _composed(_key(counts))


def composed_epsilon(counts: Mapping[DpEvent, int], delta: float) -> float:
    """Return its ε at δ, which ledger and certificate of a run both ask for."""
    return _epsilon(_key(counts), delta)


@lru_cache(maxsize=256)
def _epsilon(key: _Key, delta: float) -> float:
    return float(_composed(key).get_epsilon_for_delta(delta))


def clear_caches() -> None:
    """Forget computed distributions, for measurements of speed."""
    _epsilon.cache_clear()
    _composed.cache_clear()
    _single_distribution.cache_clear()
