"""Holdouts: per cell, per slice (cold start) and per member of an entity."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.data.relations import Relation
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Holdout",
    "hold_out_cells",
    "hold_out_listed",
    "hold_out_per_member",
    "hold_out_slices",
    "members_of",
    "split_members",
]


class Holdout(NamedTuple):
    """A relation to learn from, and the cells that were taken out of it, with their values."""

    train: Relation
    cells: NDArray[np.int32]
    values: NDArray[np.float64]


def hold_out_cells(relation: Relation, share: float, rng: np.random.Generator) -> Holdout:
    """Hold out a random share of the observed cells, observed zeros included.

    With observed zeros the held-out cells are drawn from all cells of the relation, which must
    then be small enough to number them.
    """
    check("share", share, Real(0, 1, open_low=True, open_high=True))
    if relation.zeros == "missing":
        picked = rng.permutation(relation.cells)[: round(share * relation.cells)]
        return _take_listed(relation, picked)
    observed = np.ones(math.prod(relation.shape), bool)
    if len(relation.held_out):
        observed[np.ravel_multi_index(tuple(relation.held_out.T), relation.shape)] = False
    codes = np.flatnonzero(observed)
    picked = rng.permutation(len(codes))[: round(share * len(codes))]
    return _take_codes(relation, np.sort(codes[picked]))


def hold_out_listed(
    relation: Relation, share: float, rng: np.random.Generator, zeros: float = 10.0
) -> Holdout:
    """Hold out a share of the listed cells, first, and then a sample of the observed zeros.

    Relations of any size: cells are never numbered one by one. ``zeros`` is how many of them are
    held out for each listed cell, at most; never more than their share.

    Examples
    --------
    >>> links = Relation.from_cells("ab", [[0, 0], [1, 1]], zeros="observed", shape=(1000, 1000))
    >>> held = hold_out_listed(links, 0.5, np.random.default_rng(0), zeros=3)
    >>> held.values.tolist(), held.train.cells
    ([1.0, 0.0, 0.0, 0.0], 1)
    """
    check("share", share, Real(0, 1, open_low=True, open_high=True))
    picked = np.sort(rng.permutation(relation.cells)[: round(share * relation.cells)])
    taken = _take_listed(relation, picked)
    if relation.zeros == "missing":
        return taken
    room = share * (relation.observed - relation.cells)
    codes = _unlisted(relation, int(min(room, max(1.0, zeros * len(picked)))), rng)
    cells = np.column_stack(np.unravel_index(codes, relation.shape)).astype(np.int32)
    train = _rest(taken.train, np.ones(taken.train.cells, bool), cells)
    values = np.concatenate([taken.values, np.zeros(len(cells))])
    return Holdout(train, np.concatenate([taken.cells, cells]), values)


def _unlisted(relation: Relation, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the numbers of random cells that are neither listed nor held out."""
    known = [relation.indices, relation.held_out.reshape(-1, relation.modes)]
    taken = np.ravel_multi_index(tuple(np.concatenate(known).T), relation.shape)
    found = np.empty(0, np.int64)
    while len(found) < count:  # at most a share of what is free: half of the draws are new
        drawn = rng.integers(math.prod(relation.shape), size=2 * (count - len(found)) + 16)
        found = np.union1d(found, drawn[~np.isin(drawn, taken)])
    return np.asarray(np.sort(rng.permutation(found)[:count]))


def hold_out_slices(relation: Relation, entity: str, members: Any) -> Holdout:
    """Hold out everything about some members of an entity: the cold start."""
    mode = _mode(relation, entity)
    gone = np.zeros(relation.shape[mode], bool)
    gone[np.asarray(members)] = True
    if relation.zeros == "missing":
        return _take_listed(relation, np.flatnonzero(gone[relation.indices[:, mode]]))
    axes = [
        np.flatnonzero(gone) if m == mode else np.arange(n) for m, n in enumerate(relation.shape)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, relation.modes)
    return _take_codes(relation, np.sort(np.ravel_multi_index(tuple(grid.T), relation.shape)))


def hold_out_per_member(
    relation: Relation, entity: str, count: int, rng: np.random.Generator
) -> Holdout:
    """Hold out up to ``count`` listed cells of every member of an entity.

    Members keep at least one listed cell. Held-out cells are missing, not zero, in ``train``.
    """
    check("count", count, Integer(1))
    mode = _mode(relation, entity)
    order = rng.permutation(relation.cells)
    owner = relation.indices[order, mode]
    by_owner = np.argsort(owner, kind="stable")
    sorted_owner = owner[by_owner]
    starts = np.searchsorted(sorted_owner, sorted_owner)
    rank = np.arange(relation.cells) - starts
    sizes = np.bincount(relation.indices[:, mode], minlength=relation.shape[mode])
    allowed = np.minimum(count, np.maximum(sizes - 1, 0))[sorted_owner]
    return _take_listed(relation, order[by_owner[rank < allowed]])


def members_of(relation: Relation, entity: str, members: Any) -> Relation:
    """Return the part of a relation about some members of an entity, numbered anew in order.

    Members are positions, as `split_members` gives them, or names that are text.

    >>> whole = Relation.from_dense(("user", "item"), [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> members_of(whole, "user", [2, 0]).values.tolist()
    [5.0, 6.0, 1.0, 2.0]
    """
    mode = _mode(relation, entity)
    texts = any(isinstance(one, str) for one in members)
    members = relation.members(entity).find(members, positions=not texts)
    number = np.full(relation.shape[mode], -1, np.int64)
    number[members] = np.arange(len(members))
    shape = tuple(len(members) if m == mode else n for m, n in enumerate(relation.shape))

    def renumbered(cells: Any) -> tuple[Any, Any]:
        kept = number[cells[:, mode]] >= 0
        found = cells[kept].astype(np.int64)
        found[:, mode] = number[found[:, mode]]
        order = np.lexsort(found.T[::-1])
        return found[order], np.flatnonzero(kept)[order]

    cells, positions = renumbered(relation.indices)
    labels = dict(relation.labels)
    if entity in labels:
        labels[entity] = tuple(labels[entity][k] for k in members)
    apart = renumbered(relation.held_out)[0] if len(relation.held_out) else None
    found = Relation.from_cells(
        relation.entities,
        cells,
        relation.values[positions],
        shape=shape,
        zeros=relation.zeros,
        held_out=apart,
        labels=labels,
    )
    return _like(relation, found)


def _like(relation: Relation, part: Relation) -> Relation:
    """Return a part of a relation with what the whole says about how it was made."""
    return replace(
        part,
        columns=relation.columns,
        unstated=relation.unstated,
        duplicates=relation.duplicates,
    )


def split_members(
    relation: Relation, entity: str, parts: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the members of an entity in random groups of equal size, give or take one."""
    check("parts", parts, Integer(1))
    order = rng.permutation(relation.shape[_mode(relation, entity)])
    return [np.sort(part) for part in np.array_split(order, parts)]


def _mode(relation: Relation, entity: str) -> int:
    if entity not in relation.entities:
        raise ParameterError(f"the relation has the entities {relation.entities}, not {entity!r}")
    return relation.entities.index(entity)


def _take_listed(relation: Relation, positions: NDArray[np.intp]) -> Holdout:
    """Take out listed cells by position."""
    kept = np.ones(relation.cells, bool)
    kept[positions] = False
    cells = relation.indices[positions]
    return Holdout(_rest(relation, kept, cells), cells, relation.values[positions])


def _rest(relation: Relation, kept: NDArray[np.bool_], cells: NDArray[np.int32]) -> Relation:
    """Return a relation with some of its listed cells, and with cells held out among zeros."""
    apart = None
    if relation.zeros == "observed":
        apart = np.concatenate([relation.held_out.reshape(-1, relation.modes), cells])
    rest = Relation.from_cells(
        relation.entities,
        relation.indices[kept],
        relation.values[kept],
        shape=relation.shape,
        zeros=relation.zeros,
        held_out=apart,
        labels=relation.labels,
    )
    return _like(relation, rest)


def _take_codes(relation: Relation, codes: NDArray[np.int64]) -> Holdout:
    """Take out cells by their number, zeros included; what is held out already stays apart."""
    if len(relation.held_out):
        before = np.ravel_multi_index(tuple(relation.held_out.T), relation.shape)
        codes = np.setdiff1d(codes, before)
    listed = np.ravel_multi_index(tuple(relation.indices.T), relation.shape)
    gone = np.isin(listed, codes)
    cells = np.column_stack(np.unravel_index(codes, relation.shape)).astype(np.int32)
    values = np.zeros(len(codes))
    values[np.searchsorted(codes, listed[gone])] = relation.values[gone]
    return Holdout(_rest(relation, ~gone, cells), cells, values)
