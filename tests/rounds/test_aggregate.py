"""Aggregators: everything, or only the sum of enough sites."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import ParameterError, SiteFailure
from tacit.rounds.aggregate import PlainAggregator, SumAggregator
from tacit.rounds.messages import Message

LARGEST = 2**63 - 1


def replies(*arrays, name="a"):
    return {f"site {k}": Message(0, {name: array}) for k, array in enumerate(arrays)}


def test_a_plain_aggregator_passes_everything_on():
    given_replies = replies(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    collected = PlainAggregator().collect(given_replies)
    assert collected.sites == ("site 0", "site 1")
    assert collected.by_site == given_replies
    assert collected.total["a"].tolist() == [4.0, 6.0]


def test_a_sum_aggregator_reveals_only_the_sum():
    parts = [np.array([1.25, 2.0]), np.array([3.0, 4.5]), np.array([5.0, -6.0])]
    collected = SumAggregator().collect(replies(*parts))
    assert collected.by_site is None
    assert collected.sites == ("site 0", "site 1", "site 2")
    assert set(collected.total) == {"a"}
    assert collected.total["a"].tolist() == [9.25, 0.5]


def test_the_sum_is_no_view_of_a_reply():
    part = np.array([1.0, 2.0])
    for aggregator in (PlainAggregator(), SumAggregator(minimum=1)):
        total = aggregator.collect(replies(part)).total["a"]
        total += 1.0
        assert part.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("minimum", [2, 3, 5])
def test_the_sum_of_too_few_sites_is_not_revealed(minimum):
    aggregator = SumAggregator(minimum)
    enough = [np.ones(2)] * minimum
    assert aggregator.collect(replies(*enough)).total["a"].tolist() == [minimum] * 2
    with pytest.raises(SiteFailure, match=f"only {minimum - 1} sites answered"):
        aggregator.collect(replies(*enough[1:]))


def test_by_default_a_single_site_is_not_revealed():
    with pytest.raises(SiteFailure, match="from 2 on"):
        SumAggregator().collect(replies(np.ones(2)))


@pytest.mark.parametrize("minimum", [0, -1, 1.5, None, "2"])
def test_a_minimum_must_be_a_positive_number(minimum):
    with pytest.raises(ParameterError, match="minimum must be"):
        SumAggregator(minimum)


@given(
    st.lists(
        st.lists(st.integers(-LARGEST - 1, LARGEST), min_size=3, max_size=3),
        min_size=2,
        max_size=6,
    )
)
def test_whole_numbers_are_summed_modulo_two_to_the_64(parts):
    total = SumAggregator().collect(replies(*(np.array(p, np.int64) for p in parts))).total["a"]
    assert total.dtype == np.int64
    for k in range(3):
        assert (int(total[k]) - sum(part[k] for part in parts)) % 2**64 == 0


@pytest.mark.parametrize("shape", [(), (1,), (2, 2)])
def test_shares_that_wrap_around_cancel(shape):
    """As masks of secure aggregation do."""
    mask, secret = np.full(shape, LARGEST), np.full(shape, 41)
    with np.errstate(over="ignore"):
        first = mask + secret
    total = SumAggregator().collect(replies(first, -mask, np.full(shape, 1))).total["a"]
    assert np.array_equal(total, np.full(shape, 42))


def test_unsigned_numbers_wrap_too():
    parts = [np.array([2**64 - 1], np.uint64), np.array([3], np.uint64)]
    assert SumAggregator().collect(replies(*parts)).total["a"].tolist() == [2]


def test_flags_cannot_be_summed():
    with pytest.raises(SiteFailure, match="array 'a' cannot be summed"):
        SumAggregator().collect(replies(np.array([True]), np.array([False])))


@given(
    st.dictionaries(st.text(min_size=1, max_size=4), st.floats(-1e6, 1e6), min_size=2, max_size=8),
    st.randoms(),
)
def test_the_order_of_arrival_does_not_change_a_single_bit(values, random):
    names = list(values)
    random.shuffle(names)
    first = {name: Message(0, {"a": np.array([values[name]])}) for name in values}
    second = {name: first[name] for name in names}
    for aggregator in (PlainAggregator(), SumAggregator()):
        totals = [aggregator.collect(r).total["a"].tobytes() for r in (first, second)]
        assert totals[0] == totals[1]


def test_arrays_of_different_shapes_have_no_sum():
    replies = {
        "a": Message(0, {"cells": np.zeros((3, 2)), "members": np.array([3])}),
        "b": Message(0, {"cells": np.zeros((5, 2)), "members": np.array([4])}),
    }
    collected = PlainAggregator().collect(replies)
    assert set(collected.total) == {"members"}
    assert collected.by_site is not None
    assert collected.by_site["b"]["cells"].shape == (5, 2)
    with pytest.raises(SiteFailure, match="'cells' has another shape at another site"):
        SumAggregator().collect(replies)
