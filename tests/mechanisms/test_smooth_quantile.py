"""Smooth sensitivity of order statistics, against brute force and its own definition."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit._core.order_statistics import best_pair
from tacit.errors import ParameterError
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.smooth_quantile import SmoothQuantile, smooth_sensitivity
from tacit.privacy.events import ApproximateDpEvent

LOW, HIGH = 0.0, 1.0
unit_interval = st.floats(LOW, HIGH)
betas = st.floats(1e-3, 3.0)


def brute_force(values, rank, beta):
    """Definition 7 with the corrections of PRIVACY B4: every pair, padded by the bounds."""
    padded = [LOW, *sorted(values), HIGH]
    return max(
        math.exp(-beta * (j - i - 1)) * (padded[j] - padded[i])
        for i in range(rank + 1)
        for j in range(rank, len(padded))
        if i < j
    )


def local_sensitivity(values, rank):
    """How far replacing one value moves the order statistic, by trying replacements."""
    centre = sorted(values)[rank - 1]
    return max(
        abs(sorted([*values[:k], new, *values[k + 1 :]])[rank - 1] - centre)
        for k in range(len(values))
        for new in (LOW, HIGH, *values)
    )


def smooth(values, rank, beta):
    return smooth_sensitivity(sorted(values), rank, beta, LOW, HIGH)


# --- S_β ------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(unit_interval, min_size=1, max_size=12), betas)
def test_equals_brute_force_for_every_rank(values, beta):
    for rank in range(1, len(values) + 1):
        assert smooth(values, rank, beta) == pytest.approx(
            brute_force(values, rank, beta), rel=1e-12
        )


@pytest.mark.parametrize("size", [50, 200])
def test_equals_brute_force_on_larger_data(size):
    rng = np.random.default_rng(1)
    for values in (rng.random(size), rng.beta(0.2, 3.0, size), np.round(rng.random(size), 1)):
        for rank in (1, 2, size // 2, size - 1, size):
            for beta in (0.003, 0.05, 1.0):
                assert smooth(values.tolist(), rank, beta) == pytest.approx(
                    brute_force(values.tolist(), rank, beta), rel=1e-12
                )


def test_rounding_stays_below_what_the_mechanism_sets_aside():
    """Products of e^−β do not drift with n: 2⁻⁴³ in long double arithmetic, n = 3000."""
    rng, rank, beta = np.random.default_rng(8), 1500, 2e-3
    values = np.sort(rng.random(3000))
    padded = np.r_[LOW, values, HIGH].astype(np.longdouble)
    i, j = np.arange(rank + 1)[:, None], np.arange(rank, 3002)
    decay = np.exp(-np.longdouble(beta) * (j - i - 1))
    exact = np.max(np.where(j > i, decay * (padded[j] - padded[i]), 0))
    assert abs(smooth(values, rank, beta) / exact - 1) <= 2.0**-43


@settings(max_examples=200, deadline=None)
@given(st.lists(unit_interval, min_size=1, max_size=8), betas, st.data())
def test_neighbours_differ_by_at_most_e_to_the_beta(values, beta, data):
    position = data.draw(st.integers(0, len(values) - 1))
    neighbour = [*values]
    neighbour[position] = data.draw(unit_interval)
    for rank in range(1, len(values) + 1):
        here, there = smooth(values, rank, beta), smooth(neighbour, rank, beta)
        assert here <= math.exp(beta) * there * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(unit_interval, min_size=1, max_size=7), betas)
def test_is_at_least_the_local_sensitivity(values, beta):
    for rank in range(1, len(values) + 1):
        assert smooth(values, rank, beta) >= local_sensitivity(values, rank) * (1 - 1e-12)


@pytest.mark.parametrize("values", [[0.1, 0.4, 0.5], [0.2, 0.9, 0.3, 0.95], [0.5], [0.0, 1.0]])
def test_local_sensitivity_of_the_maximum(values):
    """max(A − x_n, x_n − x_{n−1}), the corrected formula; a large β leaves only this term."""
    ordered = [LOW, *sorted(values)]
    expected = max(HIGH - ordered[-1], ordered[-1] - ordered[-2])
    assert local_sensitivity(values, len(values)) == pytest.approx(expected)
    assert smooth(values, len(values), 60.0) == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(st.lists(unit_interval, min_size=1, max_size=8), betas)
def test_decreases_with_beta_and_stays_within_the_range(values, beta):
    rank = (len(values) + 1) // 2
    assert smooth(values, rank, 2 * beta) <= smooth(values, rank, beta) <= HIGH - LOW


def test_mirrored_data_have_mirrored_sensitivity():
    values = np.random.default_rng(2).beta(0.5, 2.0, 31)
    for rank in range(1, 32):
        here = smooth(values.tolist(), rank, 0.1)
        there = smooth((1.0 - values).tolist(), 32 - rank, 0.1)
        assert here == pytest.approx(there, rel=1e-9)


def test_compiled_search_equals_its_own_source():
    padded = np.r_[LOW, np.sort(np.random.default_rng(5).random(30)), HIGH]
    for rank in (1, 7, 30):
        assert best_pair(padded, rank, 0.1, np.empty((128, 4), np.int64)) == pytest.approx(
            smooth_sensitivity(padded[1:-1], rank, 0.1, LOW, HIGH), rel=1e-12
        )


@pytest.mark.speed
def test_time_grows_little_faster_than_linearly():
    rng = np.random.default_rng(3)

    def seconds(size):
        ordered = np.sort(rng.random(size))
        best = math.inf
        for _ in range(9):
            start = time.process_time()
            smooth_sensitivity(ordered, size // 2, 1e-4, LOW, HIGH)
            best = min(best, time.process_time() - start)
        return best

    seconds(1000)  # compiles
    # two doublings: 4.6 times as long if it is n·log n, 16 times if it is n²
    assert seconds(400_000) < 9 * seconds(100_000)


# --- the mechanism ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantile", "size", "rank"),
    [(0.0, 5, 1), (0.5, 5, 3), (0.5, 4, 2), (1.0, 5, 5), (0.01, 5, 1), (0.9, 10, 9)],
)
def test_rank_of_a_quantile(quantile, size, rank):
    assert SmoothQuantile(1.0, 0.01, (0.0, 1.0), size, quantile).rank == rank


# 0.07·100 is 7.000000000000001 in floating point
@pytest.mark.parametrize("percent", [7, 14, 28, 29, 55, 56, 57, 58])
def test_rank_of_a_percentile_of_a_hundred_values(percent):
    assert SmoothQuantile(1.0, 0.01, (0.0, 1.0), 100, percent / 100).rank == percent


def test_event_and_smoothness():
    mechanism = SmoothQuantile(2.0, 1e-3, (0.0, 1.0), 9)
    assert mechanism.event == ApproximateDpEvent(2.0, 1e-3)
    assert mechanism.beta == pytest.approx(2.0 / (2 * math.log(2 / 1e-3)))


def test_noise_scale_is_twice_the_smooth_sensitivity_over_epsilon():
    values = [0.2, 0.7, 0.1, 0.9, 0.4]
    mechanism = SmoothQuantile(2.0, 1e-3, (0.0, 1.0), 5)
    centre, scale = mechanism.statistic(values)
    assert centre == pytest.approx(0.4, abs=1e-9)
    assert scale == pytest.approx(2 * brute_force(values, 3, mechanism.beta) / 2.0, rel=1e-6)


def test_values_outside_the_bounds_are_clipped_first():
    mechanism = SmoothQuantile(1.0, 1e-3, (0.0, 1.0), 3, 1.0)
    assert mechanism.statistic([0.2, 7.0, -3.0]) == mechanism.statistic([0.2, 1.0, 0.0])
    assert mechanism.statistic([0.2, math.nan, 0.1]) == mechanism.statistic([0.2, 0.5, 0.1])


def test_bounds_shift_and_stretch_everything():
    unit = SmoothQuantile(1.0, 1e-3, (0.0, 1.0), 3)
    wide = SmoothQuantile(1.0, 1e-3, (-2.0, 6.0), 3)
    values = np.array([0.3, 0.5, 0.6])
    centre, scale = unit.statistic(values)
    assert wide.statistic(8 * values - 2) == pytest.approx((8 * centre - 2, 8 * scale))


def realised_delta(mechanism, here, there):
    """δ of two Laplace laws at the mechanism's ε, by integration on a fine grid."""
    (c, s), (c2, s2) = mechanism.statistic(here), mechanism.statistic(there)
    y = np.linspace(min(c, c2) - 40 * max(s, s2), max(c, c2) + 40 * max(s, s2), 40_001)
    gap = stats.laplace.pdf(y, c, s) - math.exp(mechanism.epsilon) * stats.laplace.pdf(y, c2, s2)
    return float(np.clip(gap, 0, None).sum() * (y[1] - y[0]))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("delta", [0.1, 1e-2, 1e-6])
def test_no_pair_of_neighbours_exceeds_the_stated_delta(epsilon, delta):
    rng = np.random.default_rng(4)
    for size, quantile in [(1, 0.5), (2, 1.0), (3, 0.5), (5, 1.0), (6, 0.3)]:
        mechanism = SmoothQuantile(epsilon, delta, (0.0, 1.0), size, quantile)
        for _ in range(6):
            here = rng.choice([0, 0.02, 0.1, 0.3, 0.5, 0.7, 1.0], size)
            there = here.copy()
            there[rng.integers(size)] = rng.choice([0, 0.02, 0.1, 0.3, 0.5, 0.7, 1.0])
            assert realised_delta(mechanism, here, there) <= delta
            assert realised_delta(mechanism, there, here) <= delta


# For large n and close values S_β is far below the grid step. Were it computed from unrounded
# data, the noise would always be 0 and the rounded order statistic would tell two neighbours on
# either side of a rounding boundary apart with certainty.
def test_neighbours_on_either_side_of_a_rounding_boundary_stay_hidden():
    size = 2001
    mechanism = SmoothQuantile(1.0, 1e-6, (LOW, HIGH), size, source="grid")
    boundary = (2**29 + 0.5) * Grid.for_scale(HIGH - LOW, 30).step
    here = np.r_[np.full(1001, boundary - 1e-13), np.full(1000, boundary + 1e-13)]
    there = here.copy()
    there[0] = boundary + 1e-13
    noise = Noise("grid", seed=5)
    drawn = [{mechanism.draw(values, noise) for _ in range(100)} for values in (here, there)]
    # disjoint outcomes in 100 + 100 releases at ε = 1, δ = 1e-6 have probability below 1e-12
    assert drawn[0] & drawn[1]


@pytest.mark.parametrize("low", [1e6, 1e9, 1e10, 1e15])
def test_bounds_far_from_zero_give_a_release_near_the_data(low):
    try:
        mechanism = SmoothQuantile(1.0, 1e-3, (low, low + 1.0), 5, source="grid")
    except ParameterError:
        return
    centre, scale = mechanism.statistic(np.linspace(low, low + 1.0, 5))
    assert centre == pytest.approx(low + 0.5, abs=0.26)
    assert scale > 0.1


def test_release_lies_on_a_grid_that_depends_on_the_range_only():
    mechanism = SmoothQuantile(1.0, 1e-3, (-3.0, 5.0), 4, source="grid")
    step = Grid.for_scale(8.0, 30).step
    noise = Noise("grid", seed=6)
    for values in ([0.1, 0.2, 0.3, 0.4], [-3, -3, 5, 5], [0, 0, 0, 0]):
        assert (mechanism.draw(values, noise) / step).is_integer()


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0.0},
        {"epsilon": 10.5},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": 0.1000001},
        {"bounds": (1.0, 0.0)},
        {"bounds": (0.0, math.inf)},
        {"size": 0},
        {"quantile": 1.5},
        {"source": "other"},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(bad):
    good = {"epsilon": 1.0, "delta": 0.01, "bounds": (0.0, 1.0), "size": 3}
    with pytest.raises(ParameterError, match=next(iter(bad))):
        SmoothQuantile(**{**good, **bad})


# noise beyond 2⁶³ steps would fail after the charge
@pytest.mark.parametrize("epsilon", [1e-9, 1e-12])
def test_an_epsilon_that_cannot_be_drawn_is_refused_when_building(epsilon):
    try:
        mechanism = SmoothQuantile(epsilon, 1e-6, (0.0, 1.0), 3, source="grid")
    except ParameterError:
        return
    noise = Noise("grid", seed=7)
    for _ in range(200):
        mechanism.draw([0.1, 0.5, 0.9], noise)


def test_one_replaced_value_is_one_apart_and_keeps_both_promises():
    rng = np.random.default_rng(5)
    for _ in range(200):
        size = int(rng.integers(1, 9))
        epsilon, level = float(rng.uniform(0.5, 5)), float(rng.choice([0.0, 0.3, 0.5, 1.0]))
        mechanism = SmoothQuantile(epsilon, 1e-3, (0.0, 1.0), size, level)
        x = rng.choice([0.0, 0.2, 0.9, 1.0, rng.random()], size)
        other = x.copy()
        other[0] = rng.choice([-3.0, 0.0, 0.5, 1.0])
        same = np.clip(other[0], 0, 1) == x[0]
        assert mechanism.distance(x, other[::-1]) == (0.0 if same else 1.0)
    assert mechanism.distance(np.zeros(size), np.ones(size)) >= size


def test_a_sensitivity_that_is_not_smooth_is_far_apart(monkeypatch):
    mechanism = SmoothQuantile(1.0, 1e-3, (0.0, 1.0), 3)

    def at_the_data(x, rank, beta, low, high):
        return max(x[rank] - x[rank - 1], 1.0)

    monkeypatch.setattr("tacit.mechanisms.smooth_quantile.smooth_sensitivity", at_the_data)
    ours, theirs = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.0, 0.0])
    assert mechanism.distance(ours, theirs) == mechanism.distance(theirs, ours) > 100.0


def test_a_sensitivity_that_is_too_small_is_far_apart_in_either_direction(monkeypatch):
    mechanism = SmoothQuantile(1.0, 1e-3, (0.0, 1.0), 3)
    monkeypatch.setattr("tacit.mechanisms.smooth_quantile.smooth_sensitivity", lambda *given: 1.0)
    ours, theirs = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])
    assert mechanism.distance(ours, theirs) == mechanism.distance(theirs, ours) > 100.0


@pytest.mark.parametrize("bounds", [(0.1, 0.7), (-0.3, 5.0), (1e6 + 0.1, 1e6 + 1.0), (-7.7, -7.1)])
def test_values_are_counted_from_the_grid_point_at_or_below_the_lower_bound(bounds):
    mechanism = SmoothQuantile(1.0, 1e-3, bounds, 3)
    step = mechanism.grid.step
    assert mechanism._origin * step <= bounds[0] < (mechanism._origin + 1) * step
    assert mechanism._steps(np.array([bounds[0]])).min() >= 0.0
