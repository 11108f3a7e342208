"""The grid: rounding, sums as integers, and the sensitivity that rounding adds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ParameterError
from tacit.mechanisms.clipping import clip_factors, clip_rows
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import Grid, GridSum
from tacit.mechanisms.laplace import Laplace
from tacit.privacy.events import ADD_REMOVE, REPLACE

exponents = st.integers(-60, 30)
numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


# --- rounding -------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(numbers, st.integers(-30, 10))
def test_rounding_is_floor_of_x_over_g_plus_half(x, exponent):
    exact = math.floor(Fraction(x) / Fraction(2) ** exponent + Fraction(1, 2))
    assert Grid(exponent).round(x) == exact


@pytest.mark.parametrize(
    ("x", "expected"), [(0.5, 1), (-0.5, 0), (1.5, 2), (2.5, 3), (-1.5, -1), (-2.5, -2), (0.0, 0)]
)
def test_halves_go_up_and_never_to_even(x, expected):
    assert Grid(0).round(x) == expected


@given(st.integers(-(2**40), 2**40), st.floats(-1000, 1000), st.integers(-10, 10))
def test_rounding_commutes_with_shifts_by_the_grid(shift, x, exponent):
    grid = Grid(exponent)
    moved = np.round(x * 2**20) / 2**20  # leaves room for the shift in a double
    assert grid.round(moved + shift * grid.step) == grid.round(moved) + shift


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_counts_as_zero(bad):
    assert Grid(-20).round([1.0, bad]).tolist() == [2**20, 0]


def test_huge_numbers_are_held_within_62_bits():
    assert Grid(0).round([1e300, -1e300]).tolist() == [2**62, -(2**62)]


@pytest.mark.parametrize("huge", [1e308, -1e308, 1.7e308])
def test_huge_numbers_on_a_fine_grid_raise_no_warning(huge):
    assert Grid(-40).round(huge) == math.copysign(2**62, huge)


@given(st.floats(1e-300, 1e300), st.sampled_from([20, 32, 40]))
def test_scale_holds_between_2_to_the_bits_and_twice_as_many_steps(scale, bits):
    steps = scale / Grid.for_scale(scale, bits).step
    assert 2.0**bits <= steps < 2.0 ** (bits + 1)


# --- sums -----------------------------------------------------------------------------------


def test_sum_is_the_exact_sum_of_rounded_rows():
    rng = np.random.default_rng(1)
    rows, grid = rng.normal(size=(500, 4)), Grid(-12)
    expected = sum(grid.round(row) for row in rows)
    np.testing.assert_array_equal(grid.sum(rows).integers, expected)


def test_sum_does_not_depend_on_order_or_grouping():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(1000, 3)) * 10.0 ** rng.integers(-8, 8, (1000, 1))
    grid = Grid(-20)
    whole = grid.sum(rows).integers
    np.testing.assert_array_equal(grid.sum(rows[rng.permutation(1000)]).integers, whole)
    parts = grid.sum(rows[:300]) + grid.sum(rows[300:])
    np.testing.assert_array_equal(parts.integers, whole)
    # which float sums do not keep
    assert len({float(rows[rng.permutation(1000)].sum()) for _ in range(20)}) > 1


def test_removing_a_row_removes_exactly_its_rounded_contribution():
    rng = np.random.default_rng(3)
    rows, grid = rng.normal(size=(200, 3)), Grid(-20)
    without = grid.sum(np.delete(rows, 17, axis=0)).integers
    np.testing.assert_array_equal(grid.sum(rows).integers - without, grid.round(rows[17]))


def test_scales_apply_before_rounding():
    rng = np.random.default_rng(4)
    rows, grid = rng.normal(size=(100, 3)) * 5, Grid(-20)
    factors = clip_factors(rows, 1.0)
    scaled = grid.sum(rows, factors)
    np.testing.assert_allclose(scaled.value(), clip_rows(rows, 1.0).sum(axis=0), atol=1e-3)
    assert np.abs(scaled.integers - grid.sum(clip_rows(rows, 1.0)).integers).max() <= 1


def test_sum_of_no_rows_is_zero():
    assert Grid(-5).sum(np.zeros((0, 3))).integers.tolist() == [0, 0, 0]


def test_value_is_the_sum_in_units_of_the_step():
    assert GridSum(np.array([3, -2]), Grid(-1)).value().tolist() == [1.5, -1.0]


def test_sums_on_different_grids_do_not_mix():
    with pytest.raises(ParameterError, match="different grids"):
        Grid(-1).sum(np.ones((1, 1))) + Grid(-2).sum(np.ones((1, 1)))


def test_rows_need_two_axes():
    with pytest.raises(ParameterError, match="two axes"):
        Grid(0).sum(np.ones(3))


def test_a_mechanism_refuses_a_sum_on_another_grid():
    mechanism = Gaussian(1.0, 1.0, (2,))
    with pytest.raises(ParameterError, match=r"mechanism\.grid\.sum"):
        mechanism.check(Grid(-3).sum(np.ones((4, 2))))
    mechanism.check(mechanism.grid.sum(np.ones((4, 2))))


# --- the sensitivity of rounded contributions ----------------------------------------------------


def length(integers, order):
    """Exact L1 length, or squared L2 length, of whole numbers."""
    return sum(abs(int(k)) if order == 1 else int(k) ** 2 for k in integers)


def within(moved, grid, bound, order):
    """Whether whole steps have at most the length ``bound``, in exact arithmetic."""
    limit = Fraction(bound) / Fraction(2) ** grid.exponent
    limit *= 1 + Fraction(1, 2**48)  # the growth itself is a rounded square root
    return length(moved, order) <= (limit if order == 1 else limit**2)


def worst_rows(rng, count, size, clip, grid):
    """Rows of length ≤ clip whose numbers sit at rounding boundaries, where rounding is worst."""
    whole = np.floor(rng.normal(size=(count, size)) * clip / grid.step / math.sqrt(size))
    rows = (whole + 0.5 + rng.choice([-1e-9, 0.0, 1e-9], (count, size))) * grid.step
    return clip_rows(rows, clip, order=2)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_no_row_moves_a_sum_by_more_than_clip_plus_growth(size, order):
    """Add-remove-one: the change is one rounded contribution."""
    rng, clip = np.random.default_rng(5), 1.0
    for exponent in (-2, -4, -10, -20):
        grid = Grid(exponent)
        bound = clip + grid.growth(size, order, ADD_REMOVE)
        rows = clip_rows(worst_rows(rng, 100, size, clip, grid), clip, order=order)
        for row in rows:
            assert within(grid.sum(row[None]).integers, grid, bound, order)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_no_replaced_row_moves_a_sum_by_more_than_twice_the_clip_plus_growth(size, order):
    rng, clip = np.random.default_rng(6), 1.0
    for exponent in (-2, -4, -10, -20):
        grid = Grid(exponent)
        bound = 2 * clip + grid.growth(size, order, REPLACE)
        rows = clip_rows(worst_rows(rng, 40, size, clip, grid), clip, order=order)
        for old, new in itertools.pairwise(rows):
            moved = grid.sum(new[None]).integers - grid.sum(old[None]).integers
            assert within(moved, grid, bound, order)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=4),
    st.sampled_from([1, 2]),
    st.integers(-8, 0),
)
def test_hypothesis_finds_no_contribution_beyond_the_bound(row, order, exponent):
    grid = Grid(exponent)
    clipped = clip_rows([row], 1.0, order=order)
    bound = 1.0 + grid.growth(len(row), order, ADD_REMOVE)
    assert within(grid.sum(clipped).integers, grid, bound, order)


def test_growth_is_reached():
    """The bound is tight: d numbers, each just below a boundary."""
    grid, size = Grid(-10), 16
    row = np.full((1, size), 0.5 * grid.step)
    moved = np.linalg.norm(grid.sum(row).value())
    assert moved - np.linalg.norm(row) == pytest.approx(grid.growth(size, 2, ADD_REMOVE))


def test_growth_follows_norm_and_relation():
    grid = Grid(-3)
    assert grid.growth(9, 2, REPLACE) == 3 * grid.step
    assert grid.growth(9, 2, ADD_REMOVE) == 1.5 * grid.step
    assert grid.growth(9, 1, REPLACE) == 9 * grid.step
    assert grid.growth(9, 1, ADD_REMOVE) == 4.5 * grid.step


# A float value may be a statistic, which is rounded on both sides: two values at distance Δ then
# differ by up to Δ + g·√d whatever the relation, not by Δ + g·√d/2 as one contribution does.
@pytest.mark.parametrize("kind", [Gaussian, Laplace])
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_float_values_at_the_sensitivity_stay_within_what_the_event_states(kind, neighbours):
    mechanism = kind(1.0, 1.0, (4,), neighbours)
    grid, order = mechanism.grid, kind.norm
    stated = mechanism.scale / mechanism.noise_multiplier
    each = 1.0 / (4 if order == 1 else 2)  # four equal changes of total length one
    value = np.full(4, 0.5 * grid.step * (1 - 2**-30))  # just below a boundary: rounds to 0
    neighbour = value + each  # just above one
    neighbour = np.floor(neighbour / grid.step) * grid.step + 0.5 * grid.step
    assert np.linalg.norm(neighbour - value, order) <= 1.0 + 1e-12
    try:
        mechanism.check(value)
    except ParameterError:
        return  # a mechanism that takes grid sums only has nothing to state about floats
    moved = grid.round(neighbour) - grid.round(value)
    assert np.linalg.norm(moved * grid.step, order) <= stated * (1 + 1e-12)


def test_sums_have_room_for_many_large_numbers():
    total = Grid(-20).sum(np.full((5000, 2), 1000.0)).integers
    assert total.tolist() == [5000 * 1000 * 2**20] * 2  # far beyond 32 bits
