"""Quantiles by the exponential mechanism: the exact law on every neighbour, ties, extremes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit._core.choice import LARGEST, choose
from tacit._core.rng import WordStream
from tacit.errors import ParameterError
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.quantiles import Quantiles
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import ADD_REMOVE, REPLACE, NonPrivateDpEvent

PLACES = (0.0, 0.02, 0.5, 0.98)
LEVELS = [(0.5,), (0.9,), (0.0,), (1.0,), (0.25, 0.5), (0.2, 0.3, 0.9), (0.0, 1.0)]


def neighbours_of(values, relation):
    """Yield every data set over the places that differs by one value."""
    if relation == ADD_REMOVE:
        yield from ((*values, place) for place in PLACES)
        return
    for k, place in itertools.product(range(len(values)), PLACES):
        yield (*values[:k], place, *values[k + 1 :])


def largest_loss(mechanism, relation, sizes):
    """Return the largest change of a log density, over all small data, neighbours and releases."""
    between = (0.01, 0.3, 0.7, 0.99)
    releases = np.array(
        [
            row
            for row in itertools.product(between, repeat=len(mechanism.levels))
            if list(row) == sorted(row)
        ]
    )
    largest = 0.0
    for size in sizes:
        for values in itertools.combinations_with_replacement(PLACES, size):
            here = mechanism.log_density(values, releases)
            for other in neighbours_of(values, relation):
                there = mechanism.log_density(other, releases)
                largest = max(largest, float(np.abs(here - there).max()))
    return largest


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("levels", LEVELS, ids=str)
def test_no_neighbour_moves_a_density_by_more_than_epsilon(levels, relation):
    mechanism = Quantiles(2.0, (0.0, 1.0), levels, relation)
    found = largest_loss(
        mechanism, relation, (0, 1, 2, 3) if relation == ADD_REMOVE else (1, 2, 3)
    )
    assert found <= 2.0


@pytest.mark.parametrize(("relation", "levels"), [
    (ADD_REMOVE, (0.5,)), (REPLACE, (0.5,)), (ADD_REMOVE, (1.0,)), (REPLACE, (0.0,)),
    (ADD_REMOVE, (0.9,)),
], ids=str)  # fmt: skip
def test_the_bound_of_one_quantile_is_reached(relation, levels):
    """Much of the line on the one side of the quantile, little on the other."""
    mechanism = Quantiles(2.0, (0.0, 1.0), levels, relation)
    sizes = {0.9: (20,), 0.5: (4,)}.get(levels[0], (3,))
    largest = 0.0
    release = np.array([[0.001], [0.5], [0.9999]])
    for size in sizes:
        for low in range(size + 1):
            values = [0.002] * low + [0.9998] * (size - low)
            here = mechanism.log_density(values, release)
            extra = [[*values, x] for x in (0.0, 0.002, 0.9998, 0.99999)]
            if relation == REPLACE:
                extra = [[*values[1:], x] for x in (0.0, 0.002, 0.9998, 0.99999)]
            for other in extra:
                largest = max(largest, np.abs(here - mechanism.log_density(other, release)).max())
    assert 1.9 < largest <= 2.0


def test_a_rate_that_is_too_high_would_be_noticed():
    class Bold(Quantiles):
        def rate(self, q, first):
            return 1.5 * super().rate(q, first)

    assert largest_loss(Bold(2.0, (0.0, 1.0), (0.5,)), ADD_REMOVE, (0, 1, 2, 3)) > 2.0


def test_equal_values_do_not_bend_the_other_quantiles():
    values = np.r_[np.full(400, 2.0), np.full(500, 5.0), np.full(100, 9.0)]
    mechanism = Quantiles(50.0, (0.0, 10.0), (0.2, 0.6, 0.7, 0.95))
    found = mechanism.draw(values, Noise(seed=1))
    np.testing.assert_allclose(found, [2.0, 5.0, 5.0, 9.0], atol=1e-6)


def test_quantiles_ascend_and_stay_within_the_bounds():
    noise = Noise(seed=3)
    rng = np.random.default_rng(0)
    levels = tuple(k / 16 for k in range(1, 16))
    for size in (0, 1, 2, 50):
        found = Quantiles(0.5, (-3.0, 8.0), levels).draw(rng.normal(2, 4, size), noise)
        assert np.all(np.diff(found) >= 0)
        assert found.min() >= -3.0 and found.max() <= 8.0


def test_without_noise_they_are_numpys():
    values = np.random.default_rng(1).normal(50, 10, 1001)
    levels = (0.1, 0.5, 0.99)
    mechanism = Quantiles(math.inf, (0.0, 100.0), levels)
    np.testing.assert_allclose(mechanism.draw(values, Noise()), np.quantile(values, levels))
    assert isinstance(mechanism.event, NonPrivateDpEvent)
    assert not mechanism.bias(values).any() and not mechanism.variance(values).any()
    assert mechanism.truth([]).tolist() == pytest.approx([10.0, 50.0, 99.0])


def test_a_large_column_is_off_by_a_few_ranks():
    values = np.sort(np.random.default_rng(2).lognormal(3, 1, 100_000))
    noise = Noise(seed=4)
    ranks = [
        np.searchsorted(values, Quantiles(1.0, (0, 1000), (0.5,), REPLACE).draw(values, noise)[0])
        for _ in range(20)
    ]
    assert np.sqrt(np.mean(np.square(np.array(ranks) - 50_000))) < 6


def test_all_quantiles_cost_their_epsilon():
    assert epsilon_of(Quantiles(0.7, (0, 1), (0.1, 0.5)).event, 0.0) == 0.7
    assert [Quantiles(1.0, (0, 1), tuple(np.arange(1, m + 1) / (m + 1))).depth
            for m in (1, 2, 3, 4, 7, 8, 9)] == [1, 2, 2, 3, 3, 4, 4]  # fmt: skip


@pytest.mark.parametrize("bad", [
    {"epsilon": 0.0}, {"levels": ()}, {"levels": (0.5, 0.5)}, {"levels": (0.6, 0.5)},
    {"levels": (1.5,)}, {"bounds": (1.0, 0.0)}, {"neighbours": "any"}, {"levels": [0.5]},
], ids=str)  # fmt: skip
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        Quantiles(**{"epsilon": 1.0, "bounds": (0.0, 1.0), **bad})


# --- the choice -------------------------------------------------------------------------------


def test_a_choice_follows_its_weights():
    stream = WordStream(5)
    widths, exponents = np.array([100, 0, 200, 700]), np.array([0.0, 0.0, 1.0, 3.0])
    places = np.array([choose(stream, widths, exponents) for _ in range(20_000)])
    weights = widths * np.exp(-exponents)
    found = np.histogram(places, [0, 100, 300, 1000])[0] / places.size
    expected = weights[[0, 2, 3]] / weights.sum()
    assert np.abs(found - expected).max() < 6 * np.sqrt(0.25 / places.size)
    assert abs(places[places < 100].mean() - 49.5) < 6 * 29 / np.sqrt(9000)


def test_what_is_too_far_keeps_the_largest_weight_of_the_far():
    stream = WordStream(6)
    widths = np.array([5, 7, 9])
    places = {choose(stream, widths, np.array([LARGEST, 1e9, LARGEST + 1])) for _ in range(500)}
    assert places == set(range(21))


# --- values on a grid ---------------------------------------------------------------------------


def test_a_draw_from_a_grid_rounds_to_the_quantile():
    values = np.repeat([0.0, 2.0, 3.0, 7.0], [100, 300, 200, 400])
    mechanism = Quantiles(5.0, (0.0, 10.0), (0.05, 0.2, 0.5, 0.9), step=1.0)
    found = mechanism.draw(values, Noise(seed=2))
    np.testing.assert_array_equal(np.rint(found), [0.0, 2.0, 3.0, 7.0])
    assert mechanism.reach == (-0.5, 10.5)


def test_a_value_is_spread_by_its_own_bits_whatever_the_others_are(monkeypatch):
    """So a neighbour changes one point, as the derivation has it."""
    seen = []

    def first_choice(stream, widths, exponents):
        seen.append(np.cumsum(widths)[:-1])
        return 0

    monkeypatch.setattr("tacit.mechanisms.quantiles.choose", first_choice)
    mechanism = Quantiles(1.0, (0.0, 4.0), (0.5,), step=1.0)
    for values in ([3.0, 0.0, 3.0, 1.0], [3.0, 0.0, 3.0]):
        mechanism.draw(values, Noise(seed=5))
    with_it, without = (set(points.tolist()) for points in seen)
    assert without < with_it
    assert len(with_it - without) == 1


@pytest.mark.parametrize("step", [-1.0, 3.0, 1e-12])
def test_a_step_fits_into_the_bounds(step):
    with pytest.raises(ParameterError, match="step"):
        Quantiles(1.0, (0.0, 2.0), step=step)
