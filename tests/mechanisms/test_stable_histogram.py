"""Stable histograms: the threshold against exact sums, and what a unit counts for."""

from __future__ import annotations

import itertools

import mpmath
import pytest

from tacit.errors import ParameterError
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.stable_histogram import StableHistogram
from tacit.privacy.events import ADD_REMOVE, REPLACE


def chance_to_leave(mechanism, threshold):
    """P(1 + noise ≥ T) in 40 digits, of the noise that is drawn."""
    with mpmath.workdps(40):
        ratio = mpmath.e ** (-1 / mpmath.mpf(mechanism.scale))
        return ratio ** (threshold - 1) / (1 + ratio)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("delta", [0.4, 1e-3, 1e-12])
@pytest.mark.parametrize("most", [1, 2, 50])
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_the_threshold_is_the_least_that_delta_pays_for(epsilon, delta, most, neighbours):
    mechanism = StableHistogram(epsilon, delta, most, neighbours)
    threshold = mechanism.threshold
    assert most * chance_to_leave(mechanism, threshold) <= delta
    assert threshold == 2 or most * chance_to_leave(mechanism, threshold - 1) > delta * 0.999999


def law(mechanism, counts):
    """The joint law of what leaves, for few keys and much privacy loss, up to 1e-12."""
    ratio = mpmath.e ** (-1 / mpmath.mpf(mechanism.scale))
    laws = []
    for count in counts:
        one = {}
        if count == 0:
            one[0] = mpmath.mpf(1)
        else:
            for move in range(-30, 31):
                left = count + move if count + move >= mechanism.threshold else 0
                one[left] = one.get(left, 0) + ratio ** abs(move) * (1 - ratio) / (1 + ratio)
        laws.append(one)
    return {
        tuple(k for k, _ in choice): mpmath.fprod(p for _, p in choice)
        for choice in itertools.product(*(one.items() for one in laws))
    }


@pytest.mark.parametrize(
    ("neighbours", "most", "here", "there"),
    [
        (ADD_REMOVE, 1, (0, 3), (1, 3)),
        (ADD_REMOVE, 1, (4,), (5,)),
        (ADD_REMOVE, 2, (1, 3), (0, 2)),
        (ADD_REMOVE, 2, (1, 1), (0, 0)),
        (REPLACE, 1, (1, 0), (0, 1)),
        (REPLACE, 1, (3, 0), (2, 1)),
        (REPLACE, 2, (1, 1, 0), (0, 0, 1)),
    ],
)
def test_neighbours_are_within_epsilon_and_delta_exactly(neighbours, most, here, there):
    mechanism = StableHistogram(2.0, 0.05, most, neighbours)
    one, two = law(mechanism, here), law(mechanism, there)
    for p, q in ((one, two), (two, one)):
        excess = mpmath.fsum(
            max(mass - mpmath.e**mechanism.epsilon * q.get(k, 0), 0) for k, mass in p.items()
        )
        assert excess <= mechanism.delta


def test_a_unit_counts_once_for_each_of_its_first_keys():
    histogram = StableHistogram(1.0, 0.1, 2)
    assert histogram.counts([["b", "b", "a", "c"], "a", {"z", "y", "x"}, 7]) == {
        7: 1, "a": 2, "b": 1, "x": 1, "y": 1,
    }  # fmt: skip


def test_the_order_of_units_does_not_show():
    histogram = StableHistogram(5.0, 0.1)
    units = ["b"] * 40 + ["a"] * 40 + [3] * 40
    first, second = (
        histogram.draw(given, Noise(seed=1)) for given in (units, list(reversed(units)))
    )
    assert list(first.items()) == list(second.items())
    assert list(first) == [3, "a", "b"]


def test_keys_without_delta_are_refused():
    with pytest.raises(ParameterError, match="delta"):
        StableHistogram(1.0, 0.0)
