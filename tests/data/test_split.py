"""Holdouts: what is taken out is missing, and only that."""

import numpy as np
import pytest

from tacit.data.relations import Relation
from tacit.data.split import (
    hold_out_cells,
    hold_out_listed,
    hold_out_per_member,
    hold_out_slices,
    members_of,
    split_members,
)
from tacit.errors import ParameterError


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def dense(relation, missing=np.nan):
    """Return the relation as an array, ``missing`` where nothing is observed."""
    fill = 0.0 if relation.zeros == "observed" else missing
    array = np.full(relation.shape, fill)
    array[tuple(relation.indices.T)] = relation.values
    if len(relation.held_out):
        array[tuple(relation.held_out.T)] = missing
    return array


def sparse(rng, zeros):
    array = rng.poisson(0.4, (12, 9, 4)).astype(float)
    cells = np.argwhere(array > 0)
    values = array[tuple(cells.T)]
    return Relation.from_cells("abc", cells, values, shape=array.shape, zeros=zeros)


@pytest.mark.parametrize("zeros", ["missing", "observed"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_cells_are_held_out_with_their_values(rng, zeros, share):
    relation = sparse(rng, zeros)
    split = hold_out_cells(relation, share, rng)
    assert len(split.cells) == round(share * relation.observed)
    before, after = dense(relation), dense(split.train)
    at = tuple(split.cells.T)
    np.testing.assert_array_equal(before[at], split.values)
    assert np.isnan(after[at]).all()
    after[at] = split.values
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_a_slice_loses_everything_about_its_member(rng, zeros):
    relation = sparse(rng, zeros)
    split = hold_out_slices(relation, "b", [2, 5])
    assert np.isnan(dense(split.train)[:, [2, 5]]).all()
    assert set(np.unique(split.cells[:, 1])) == {2, 5}
    others = [k for k in range(9) if k not in (2, 5)]
    np.testing.assert_array_equal(dense(split.train)[:, others], dense(relation)[:, others])


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_members_keep_at_least_one_cell(rng, zeros):
    relation = sparse(rng, zeros)
    split = hold_out_per_member(relation, "a", 3, rng)
    before = np.bincount(relation.indices[:, 0], minlength=12)
    taken = np.bincount(split.cells[:, 0], minlength=12)
    np.testing.assert_array_equal(taken, np.minimum(3, np.maximum(before - 1, 0)))
    assert np.isnan(dense(split.train)[tuple(split.cells.T)]).all()


def test_bad_splits_are_refused(rng):
    relation = sparse(rng, "observed")
    for share in (0.0, 1.0, "x"):
        with pytest.raises(ParameterError, match="share"):
            hold_out_cells(relation, share, rng)
    with pytest.raises(ParameterError, match="'z'"):
        hold_out_slices(relation, "z", [0])


def test_slices_of_a_split_leave_its_held_out_cells_apart(rng):
    outer = hold_out_cells(sparse(rng, "observed"), 0.5, rng)
    entity = outer.train.entities[0]
    inner = hold_out_slices(outer.train, entity, [0])
    held = {tuple(c) for c in outer.cells.tolist()}
    assert not held & {tuple(c) for c in inner.cells.tolist()}
    assert (inner.cells[:, 0] == 0).all()


def test_held_out_cells_stay_apart_in_a_split_of_a_split(rng):
    relation = Relation.from_cells(
        ("a", "b"), [[0, 0], [1, 2], [3, 3]], shape=(4, 5), zeros="observed"
    )
    outer = hold_out_cells(relation, 0.5, rng)
    inner = hold_out_cells(outer.train, 0.5, rng)
    first, second = ({tuple(c) for c in split.cells.tolist()} for split in (outer, inner))
    assert len(first) == 10
    assert len(second) == 5
    assert not first & second
    assert {tuple(c) for c in inner.train.held_out.tolist()} == first | second


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_the_part_of_some_members_is_their_slice(zeros):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 4, (6, 5)).astype(float)
    table[rng.random(table.shape) < 0.3] = np.nan
    labels = {"user": tuple("abcdef")}
    whole = Relation.from_dense(("user", "item"), table, zeros=zeros, labels=labels)
    part = members_of(whole, "user", [4, 1, 2])
    found = np.full((3, 5), np.nan)
    listed = part.listed()
    found[tuple(listed.indices.T)] = listed.values
    np.testing.assert_array_equal(found, table[[4, 1, 2]])
    assert part.labels["user"] == ("e", "b", "c") and part.zeros == zeros


def test_groups_of_members_are_a_partition():
    relation = Relation.from_dense(("user", "item"), np.ones((10, 3)))
    groups = split_members(relation, "user", 3, np.random.default_rng(0))
    assert sorted(np.concatenate(groups)) == list(range(10))
    assert {len(group) for group in groups} == {3, 4}
    with pytest.raises(ParameterError, match="not 'place'"):
        split_members(relation, "place", 2, np.random.default_rng(0))


def test_listed_cells_and_a_sample_of_zeros_are_held_out():
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, 3000, (400, 2)), axis=0)
    apart = np.array([[1, 2], [2, 1]])
    links = Relation.from_cells(
        ("a", "b"), cells, zeros="observed", shape=(3000, 3000), held_out=apart
    )
    held = hold_out_listed(links, 0.25, rng, zeros=3.0)
    listed = round(0.25 * links.cells)
    assert held.train.cells == links.cells - listed and (held.values[:listed] == 1.0).all()
    assert (held.values[listed:] == 0.0).all() and len(held.values) == 4 * listed
    known = set(map(tuple, np.concatenate([links.indices, apart]).tolist()))
    assert not known & set(map(tuple, held.cells[listed:].tolist()))
    assert held.train.observed == links.observed - len(held.cells)
    small = hold_out_listed(links.subset(slice(0, 40)), 0.5, rng)
    assert len(np.unique(small.cells, axis=0)) == len(small.cells)
