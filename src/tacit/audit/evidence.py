"""Many releases of one step, and how much each speaks for D against D′.

The best attack on a step with known values is its likelihood ratio (Neyman and Pearson), and on a
run the product over its steps. Where a law has a density that is easily written down, `score` is
its logarithm; elsewhere it is any function of the releases, and the bound is still one, only a
weaker one:

=======================  ================================================================
Gaussian, any shape      (‖o − v′‖² − ‖o − v‖²)/2σ²: a projection on the difference
Poisson-sampled          the same, and over many replays: the sample is part of the attack
Laplace, geometric       Σ(|o − v′| − |o − v|)/b
K-norm                   (‖o − v′‖ − ‖o − v‖)/b
randomized response      the sum of log p(o | v)/p(o | v′) over persons; one bit likewise
smooth sensitivity       log densities of Laplace laws with two centres and two scales
stable histogram         log p(o | v)/p(o | v′), key by key; one that only D has settles it
shuffled                 the sum of the numbers; the order is lost
others                   the projection on the difference of the values
=======================  ================================================================
"""

from __future__ import annotations

import dataclasses
import math
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray  # read by singledispatch

from tacit.audit.transcript import drawn
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.item_responses import ItemResponses
from tacit.mechanisms.knorm import KNorm
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.one_bit import OneBitMean
from tacit.mechanisms.quantiles import Quantiles
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.sampled import PoissonSampled
from tacit.mechanisms.shuffled import Shuffled
from tacit.mechanisms.smooth_quantile import SmoothQuantile
from tacit.mechanisms.stable_histogram import StableHistogram
from tacit.mechanisms.symmetric_operator import OperatorGaussian

__all__ = ["differ", "draw_many", "plain_value", "score"]

Floats = Any
_SURE = 1e6  # a log likelihood ratio that settles it


def plain_value(mechanism: Mechanism, value: Any) -> NDArray[np.float64]:
    """Return a value that went to the gate as an array of the numbers that noise is added to."""
    if isinstance(mechanism, PoissonSampled):
        return plain_value(mechanism.mechanism, value)
    if isinstance(mechanism, OperatorGaussian):
        quiet = dataclasses.replace(mechanism, scale=0.0)
        return np.asarray(drawn(quiet, value, Noise("grid", seed=0)))
    if isinstance(value, GridSum):
        return value.value()
    if isinstance(mechanism, StableHistogram):
        return np.array([*mechanism.counts(value).values()], np.float64)
    return np.asarray(value, np.float64)


def differ(mechanism: Mechanism, ours: Any, theirs: Any) -> bool:
    """Whether a step is given different values on D and on D′."""
    if isinstance(mechanism, StableHistogram):  # the same counts may be those of other keys
        return mechanism.counts(ours) != mechanism.counts(theirs)
    a, b = plain_value(mechanism, ours), plain_value(mechanism, theirs)
    return a.shape != b.shape or bool((a != b).any())


# -- drawing ------------------------------------------------------------------------------------


@singledispatch
def draw_many(mechanism: Mechanism, value: Any, runs: int, noise: Noise) -> NDArray[np.float64]:
    """Return many independent releases of one value, (runs, …)."""
    return np.array([np.asarray(drawn(mechanism, value, noise), np.float64) for _ in range(runs)])


@draw_many.register
def _(mechanism: GridMechanism, value: Any, runs: int, noise: Noise) -> NDArray[np.float64]:
    if isinstance(mechanism, KNorm):  # noise whose numbers belong together
        return np.array([np.asarray(drawn(mechanism, value, noise)) for _ in range(runs)])
    if isinstance(mechanism, OperatorGaussian):
        return _many_operators(mechanism, value, runs, noise)
    # independent numbers on a grid that the scale fixes: many releases are one of a larger shape
    wide = dataclasses.replace(mechanism)
    object.__setattr__(wide, "shape", (runs, *mechanism.shape))
    if isinstance(value, GridSum):
        integers = np.broadcast_to(value.integers, wide.shape)
        return np.asarray(drawn(wide, GridSum(integers, value.grid), noise))
    return np.asarray(drawn(wide, np.broadcast_to(np.asarray(value, float), wide.shape), noise))


@draw_many.register
def _(mechanism: TwoSidedGeometric, value: Any, runs: int, noise: Noise) -> NDArray[np.float64]:
    wide = dataclasses.replace(mechanism, shape=(runs, *mechanism.shape))
    many = np.broadcast_to(np.asarray(value), wide.shape)
    return np.asarray(drawn(wide, many, noise), np.float64)


@draw_many.register(RandomizedResponse)
@draw_many.register(OneBitMean)
def _(mechanism: Any, value: Any, runs: int, noise: Noise) -> NDArray[np.float64]:
    people = np.asarray(value)
    found = drawn(mechanism, np.tile(people, runs), noise)
    return np.asarray(found, np.float64).reshape(runs, len(people))


@draw_many.register
def _(mechanism: ItemResponses, value: Any, runs: int, noise: Noise) -> NDArray[np.float64]:
    rows = np.asarray(value)
    found = drawn(mechanism, np.tile(rows, (runs, 1)), noise)
    return np.asarray(found).reshape(runs, *rows.shape)


@draw_many.register
def _(mechanism: StableHistogram, value: Any, runs: int, noise: Noise) -> Any:
    return [drawn(mechanism, value, noise) for _ in range(runs)]


@draw_many.register
def _(mechanism: PoissonSampled, value: Any, runs: int, noise: Noise) -> NDArray[np.float64]:
    return draw_many(mechanism.mechanism, value, runs, noise)


def _many_operators(
    mechanism: OperatorGaussian, value: Any, runs: int, noise: Noise
) -> NDArray[np.float64]:
    """Return releases of a symmetric matrix: the diagonal blocks of larger ones, same law."""
    size, matrix = mechanism.shape[0], plain_value(mechanism, value)
    blocks = max(1, min(runs, 64 // size))  # more cost noise between blocks, fewer cost calls
    wide = dataclasses.replace(mechanism, shape=(blocks * size,) * 2)
    found = []
    for _ in range(-(-runs // blocks)):
        whole = np.asarray(drawn(wide, np.kron(np.eye(blocks), matrix), noise))
        parts = whole.reshape(blocks, size, blocks, size)
        found.append(parts[np.arange(blocks), :, np.arange(blocks)])
    return np.concatenate(found)[:runs]


# -- scoring ------------------------------------------------------------------------------------


@singledispatch
def score(mechanism: Mechanism, released: Floats, ours: Any, theirs: Any) -> NDArray[np.float64]:
    """Return how much every release speaks for our value against theirs.

    ``released`` is (runs, …); the values on D and on D′ are as they went to the gate.

    Examples
    --------
    >>> mechanism = Gaussian(2.0, 1.0, (1,))
    >>> score(mechanism, np.array([[1.0], [0.0]]), [1.0], [0.0]).tolist()
    [0.125, -0.125]
    """
    first, second = plain_value(mechanism, ours), plain_value(mechanism, theirs)
    return _projected(released, first - second, (first + second) / 2.0)


def _projected(released: Floats, direction: Floats, middle: Floats) -> NDArray[np.float64]:
    flat = np.asarray(released, np.float64).reshape(len(released), -1)
    return np.asarray((flat - middle.reshape(-1)) @ direction.reshape(-1))


def _norms(released: Floats, value: Floats, order: int) -> NDArray[np.float64]:
    flat = (np.asarray(released, np.float64) - value).reshape(len(released), -1)
    return np.asarray(np.linalg.norm(flat, ord=order, axis=1))


@score.register
def _(mechanism: Gaussian, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    first, second = plain_value(mechanism, ours), plain_value(mechanism, theirs)
    return _projected(released, first - second, (first + second) / 2.0) / mechanism.scale**2


@score.register
def _(mechanism: PoissonSampled, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    """A mixture of two Gaussian laws against one, where ``ours`` is the value with the unit."""
    ratio = score(mechanism.mechanism, released, ours, theirs)
    absent = math.log1p(-mechanism.rate) if mechanism.rate < 1.0 else -math.inf
    return np.asarray(np.logaddexp(math.log(mechanism.rate) + ratio, absent))


@score.register
def _(mechanism: Laplace, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    first, second = plain_value(mechanism, ours), plain_value(mechanism, theirs)
    return (_norms(released, second, 1) - _norms(released, first, 1)) / mechanism.scale


@score.register
def _(mechanism: TwoSidedGeometric, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    first, second = np.asarray(ours, float), np.asarray(theirs, float)
    far = _norms(released, second, 1) - _norms(released, first, 1)
    return np.asarray(far * (mechanism.epsilon / mechanism.sensitivity))


@score.register
def _(mechanism: KNorm, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    first, second = plain_value(mechanism, ours), plain_value(mechanism, theirs)
    return (_norms(released, second, 2) - _norms(released, first, 2)) / mechanism.scale


@score.register
def _(mechanism: RandomizedResponse, released: Any, ours: Any, theirs: Any) -> Any:
    lie = mechanism.lie / mechanism.categories
    truth = 1.0 - mechanism.lie + lie
    gain = math.log(truth / lie)
    return gain * ((released == np.asarray(ours)).sum(1) - (released == np.asarray(theirs)).sum(1))


@score.register
def _(mechanism: OneBitMean, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    up = released > 0

    def log_chance(value: Any) -> Any:
        p = 0.5 + np.clip(np.asarray(value, float), -1, 1) / (2.0 * mechanism.magnitude)
        return np.where(up, np.log(p), np.log1p(-p)).sum(axis=1)

    return np.asarray(log_chance(ours) - log_chance(theirs))


@score.register
def _(mechanism: ItemResponses, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    items, first, second = mechanism.items, np.asarray(ours), np.asarray(theirs)
    bits = released[:, :, :items].reshape(len(released), -1)
    coins = score(
        RandomizedResponse(mechanism.bit_epsilon),
        bits,
        first[:, :items].ravel(),
        second[:, :items].ravel(),
    )
    numbers = released[:, :, items:]
    far = _norms(numbers, second[:, items:], 1) - _norms(numbers, first[:, items:], 1)
    return np.asarray(coins + far / mechanism.scale)


@score.register
def _(mechanism: SmoothQuantile, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    def log_density(value: Any) -> Any:
        centre, scale = mechanism.statistic(value)
        return -np.abs(released - centre) / scale - math.log(scale)

    return np.asarray(log_density(ours) - log_density(theirs)).reshape(len(released))


@score.register(Quantiles)
@score.register(StableHistogram)
def _(mechanism: Any, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    found = mechanism.log_density(ours, released) - mechanism.log_density(theirs, released)
    return np.asarray(np.clip(found, -_SURE, _SURE))  # a key that only one of them has


@score.register
def _(mechanism: Shuffled, released: Any, ours: Any, theirs: Any) -> NDArray[np.float64]:
    sign = 1.0 if np.sum(ours, axis=0)[0] >= np.sum(theirs, axis=0)[0] else -1.0
    return np.asarray(sign * np.asarray(released)[:, :, 0].sum(axis=1))
