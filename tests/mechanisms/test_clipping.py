"""Clipping and contribution bounds, unit by unit."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from tacit.errors import ParameterError
from tacit.mechanisms.clipping import bound_contributions, clip_factors, clip_rows, clip_values

anything = st.floats(allow_nan=True, allow_infinity=True, width=64)
tables = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=anything
)
norms = st.floats(1e-6, 1e6)


def exceeds(row, norm, order):
    """Whether a row's L1 or L2 length is above ``norm``, in exact arithmetic."""
    numbers = [Fraction(abs(number)) for number in row.tolist()]
    if order == 1:
        return sum(numbers) > Fraction(norm)
    return sum(number**2 for number in numbers) > Fraction(norm) ** 2


# --- values ---------------------------------------------------------------------------------


@given(hnp.arrays(np.float64, st.integers(0, 8), elements=anything), st.floats(-10, 10), norms)
def test_clipped_values_lie_within_the_bounds(values, low, width):
    clipped = clip_values(values, low, low + width)
    assert np.all((clipped >= low) & (clipped <= low + width))


def test_values_within_the_bounds_are_left_alone():
    assert clip_values([0.0, 0.25, 1.0], 0, 1).tolist() == [0.0, 0.25, 1.0]


def test_what_is_not_a_number_becomes_the_middle():
    assert clip_values([math.nan, math.inf, -math.inf], 2, 6).tolist() == [4.0, 6.0, 2.0]


def test_clipping_copies():
    values = np.array([5.0, math.nan])
    clip_values(values, 0, 1)
    assert values[0] == 5.0
    assert math.isnan(values[1])


# --- rows -----------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(tables, norms, st.sampled_from([1, 2]))
def test_clipped_rows_never_exceed_the_norm(rows, norm, order):
    rows = np.where(np.abs(rows) > 1e290, np.inf, rows)  # larger numbers: see below
    for row in clip_rows(rows, norm, order=order):
        assert not exceeds(row, norm, order)


# norm/length is subnormal here and has few bits left; one unit can choose such a number
@pytest.mark.parametrize("norm", [1.4e-15, 1e-9, 1e-3, 0.25])
@pytest.mark.parametrize("order", [1, 2])
def test_the_largest_numbers_do_not_escape_the_clip(norm, order):
    for huge in (1.7976931348623157e308, 1.2e308, 0.7e308):
        assert not exceeds(clip_rows([[huge]], norm, order=order)[0], norm, order)


# NumPy adds up a column-ordered table one number after the other: an error of up to d·2⁻⁵³
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("size", [10, 1000, 10_000])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_long_rows_never_exceed_the_norm_in_any_memory_layout(size, order, layout):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(4, size)) * np.exp(2 * rng.normal(size=(4, size)))
    rows = np.asarray(np.vstack([rows, np.full((1, size), 0.1)]), order=layout)
    for row in clip_rows(rows, 1.0, order=order):
        assert not exceeds(row, 1.0, order)


@given(tables, norms, st.sampled_from([1, 2]))
def test_factors_are_between_zero_and_one(rows, norm, order):
    factors = clip_factors(rows, norm, order=order)
    assert factors.shape == (len(rows),)
    assert np.all((factors >= 0) & (factors <= 1))


@given(hnp.arrays(np.float64, (3, 4), elements=st.floats(-1, 1)), st.sampled_from([1, 2]))
def test_short_rows_are_left_alone(rows, order):
    np.testing.assert_array_equal(clip_rows(rows, 10.0, order=order), rows)


@given(hnp.arrays(np.float64, (2, 3), elements=st.floats(1, 1e100)), norms)
def test_long_rows_keep_their_direction_and_reach_the_norm(rows, norm):
    clipped = clip_rows(rows, norm)
    for row, short in zip(rows, clipped, strict=True):
        size = math.hypot(*row)
        expected = row * min(1.0, norm / size)
        np.testing.assert_allclose(short, expected, rtol=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("order", [1, 2])
def test_rows_that_are_not_finite_become_zero_and_touch_no_other(bad, order):
    rows = np.array([[1.0, bad, 2.0], [0.1, 0.2, 0.3]])
    assert clip_factors(rows, 1.0, order=order)[0] == 0
    assert clip_rows(rows, 1.0, order=order).tolist() == [[0, 0, 0], [0.1, 0.2, 0.3]]


def test_squares_do_not_overflow_or_vanish():
    assert clip_rows([[3e200, 4e200]], 1.0)[0] == pytest.approx([0.6, 0.8])
    assert clip_rows([[3e-200, 4e-200]], 1e-200)[0] == pytest.approx([6e-201, 8e-201])


def test_each_row_is_clipped_on_its_own():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20, 3)) * 3
    alone = np.vstack([clip_rows(row[None], 1.0) for row in rows])
    np.testing.assert_array_equal(clip_rows(rows, 1.0), alone)


def test_zero_rows_stay_zero_and_keep_factor_one():
    assert clip_factors(np.zeros((2, 3)), 1.0).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "arguments", [{"norm": 0}, {"norm": -1.0}, {"norm": math.nan}, {"norm": 1.0, "order": 3}]
)
def test_bad_norms_are_refused(arguments):
    with pytest.raises(ParameterError):
        clip_factors(np.ones((1, 1)), **arguments)


# --- contribution bounds -----------------------------------------------------------------------


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 6), st.integers(0, 2**32))
def test_each_unit_keeps_at_most_its_limit_and_no_fewer_than_it_can(units, limit, seed):
    kept = bound_contributions(np.array(units, int), limit, np.random.default_rng(seed))
    assert kept.shape == (len(units),)
    after = Counter(unit for unit, keep in zip(units, kept, strict=True) if keep)
    assert after == {unit: min(count, limit) for unit, count in Counter(units).items()}


def test_units_may_be_text():
    kept = bound_contributions(["b", "a", "b", "b"], 2, np.random.default_rng(1))
    assert kept[1]
    assert kept.sum() == 3


def test_no_records_give_an_empty_mask():
    assert bound_contributions([], 2, np.random.default_rng(1)).tolist() == []


# NaN differs from itself; one person's unidentified records must not escape the limit
def test_records_without_a_unit_share_one_limit():
    units = np.array([1.0, math.nan, math.nan, math.nan, 1.0])
    kept = bound_contributions(units, 1, np.random.default_rng(1))
    assert kept[np.isnan(units)].sum() <= 1


def test_the_choice_is_uniform_over_subsets():
    rng = np.random.default_rng(3)
    units = np.array([7, 1, 7, 7, 2, 7])  # unit 7 holds records 0, 2, 3, 5
    chosen = Counter(
        tuple(np.flatnonzero(bound_contributions(units, 2, rng) & (units == 7)).tolist())
        for _ in range(6000)
    )
    assert len(chosen) == 6
    assert stats.chisquare(list(chosen.values())).pvalue > 1e-4


def test_the_choice_of_one_unit_does_not_depend_on_the_records_of_another():
    """Adding a unit leaves the law of the others' choices alone."""
    rng = np.random.default_rng(4)
    few, many = np.array([0, 0, 0]), np.array([0, 0, 0, *[1] * 50])
    first = [
        Counter(int(np.argmax(bound_contributions(units, 1, rng)[:3])) for _ in range(6000))
        for units in (few, many)
    ]
    for counts in first:
        assert stats.chisquare([counts[k] for k in range(3)]).pvalue > 1e-4


def test_limit_is_a_positive_whole_number():
    with pytest.raises(ParameterError, match="limit"):
        bound_contributions([1], 0, np.random.default_rng(1))
