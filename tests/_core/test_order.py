"""Orders by counting are those of a stable comparison sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit._core import order
from tacit._core.order import are_different, by_group, lexical_order


@pytest.fixture(autouse=True)
def by_counting(monkeypatch):
    monkeypatch.setattr(order, "_FEW", 0)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(3, 60),
    st.integers(0, 2**32 - 1),
)
def test_counting_orders_like_lexsort(sizes, count, seed):
    rng = np.random.default_rng(seed)
    keys = [rng.integers(0, size, count) for size in sizes]
    np.testing.assert_array_equal(lexical_order(keys, sizes), np.lexsort(keys))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_any_whole_numbers_do(dtype):
    keys = np.array([[3, 0, 3, 1], [1, 1, 0, 0]], dtype)
    found = lexical_order([keys[0], keys[1]], [4, 2])
    assert found.tolist() == [3, 2, 1, 0]


@given(
    st.integers(1, 9), st.integers(1, 90), st.integers(1, 400), st.integers(0, 2**32 - 1),
    st.booleans(),
)  # fmt: skip
def test_cells_are_grouped_as_a_stable_sort_would(groups, keys, count, seed, ordered):
    """Short groups and long ones, with the same pair several times, sorted already or not."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, groups, count), rng.integers(0, keys, count)
    if ordered:
        first, second = np.sort(first), np.sort(second)
    values = rng.normal(size=count)
    table = np.column_stack([first, second]).astype(np.int32)  # columns with a stride
    starts, found, beside = by_group(table[:, 0], table[:, 1], values, (groups, keys))
    order = np.lexsort((second, first))
    assert starts.tolist() == np.searchsorted(first[order], np.arange(groups + 1)).tolist()
    np.testing.assert_array_equal(found, second[order])
    np.testing.assert_array_equal(beside, values[order])


def test_sizes_far_beyond_the_cells_need_no_memory():
    assert lexical_order([np.array([2**31 - 2, 5])], [2**31 - 1]).tolist() == [1, 0]


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_pairs_are_different_where_none_comes_twice(users, items, count, seed):
    rng = np.random.default_rng(seed)
    pairs = np.column_stack([rng.integers(0, users, count), rng.integers(0, items, count)])
    known = are_different(pairs[:, 0], pairs[:, 1], (users, items))
    truly = len(np.unique(pairs, axis=0)) == count
    assert known == (truly and max(users, items) <= 4 * count)


def test_pairs_that_are_few_for_their_numbers_are_left_to_a_sort():
    assert not are_different(np.array([2**31 - 2, 5]), np.array([0, 0]), (2**31 - 1, 1))
