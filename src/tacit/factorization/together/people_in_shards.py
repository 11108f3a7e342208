"""A site's cells in shards, everything about a member of the protected entity in one of them.

Tables with a row for each cell are laid out anew by member (`tacit.data.spooling`). Arrays, wide
frames and relations are parts of their members' data by themselves: that nobody is in two of them
is looked at where they are read (`tacit.estimators.loading`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.data.members import as_columns, distinct_ids, find_column
from tacit.data.reading import is_table
from tacit.data.relations import Relation
from tacit.data.shards import Shards
from tacit.data.spooling import by_unit
from tacit.errors import ParameterError
from tacit.factorization.language.binding import joined_members, without_cells

__all__ = ["head_of_shards", "joined_shards", "members_together"]

Relations = Callable[[Any], dict[str, Relation]]


def members_together(shards: Shards, relations: tuple[str, ...], protected: str) -> Shards:
    """Return shards in which each member of an entity lies in one; as they are where they do.

    Parameters
    ----------
    shards
        Of each piece, relation → table, array or `Relation`; of one relation, just that.
    relations
        The names of the relations that there may be.
    protected
        The entity.
    """
    if shards.units is not None or len(shards) == 1:
        return shards
    first = shards.pieces[0].read()
    named = _by_relation(first, relations)
    tables = {name: _member_column(held, protected) for name, held in named.items()}
    if None in tables.values():
        return shards
    columns: dict[str, list[str]] = {name: [column] for name, column in tables.items() if column}
    return by_unit(shards, columns if named is first else columns[next(iter(columns))])


def _by_relation(data: Any, relations: tuple[str, ...]) -> Mapping[str, Any]:
    """Return data by relation; of one relation they may have no name."""
    if isinstance(data, Mapping) and set(data) <= set(relations):
        return data
    if len(relations) > 1:
        raise ParameterError(f"each shard must name its relations, some of {sorted(relations)}")
    return {relations[0]: data}


def _member_column(data: Any, protected: str) -> str | None:
    """Return the column of a long table that names members; None of data in another form."""
    if isinstance(data, Relation) or not is_table(data):
        return None
    found = find_column(as_columns(data), protected)
    return None if found is None else str(found)


def head_of_shards(shards: Shards, read: Relations, protected: str) -> dict[str, Relation]:
    """Return what is public about all shards together: relations without their cells.

    Parameters
    ----------
    shards
        As `members_together` returned them.
    read
        How a piece becomes relations.
    protected
        The entity whose members are parted; there are as many as in all shards.
    """
    heads = without_cells(read(shards.pieces[0].read()))
    for name, head in heads.items():
        if protected not in head.entities:
            raise ParameterError(
                f"every relation in shards must name {protected!r}, whose members are parted, and "
                f"{name!r} does not: if it is no secret, pass it as public=…, else one table"
            )
        lacking = sorted(head.unstated - {protected})
        if lacking:
            raise ParameterError(
                f"shards are read one by one, and the members of {lacking[0]!r} follow from none "
                f"of them: pass entities={{{lacking[0]!r}: […]}}, their names or how many"
            )
    units = shards.units
    if units is None:
        sizes = [_members(read(piece.read()), protected) for piece in shards]
        units = sum(sizes)
    return {name: _with_members(head, protected, units) for name, head in heads.items()}


def _members(relations: Mapping[str, Relation], protected: str) -> int:
    return max(found.shape[found.entities.index(protected)] for found in relations.values())


def _with_members(head: Relation, protected: str, size: int) -> Relation:
    """Return a relation without cells with so many members of an entity, who have no names."""
    shape = tuple(
        size if entity == protected else n
        for entity, n in zip(head.entities, head.shape, strict=True)
    )
    labels = {entity: names for entity, names in head.labels.items() if entity != protected}
    return replace(head, shape=shape, labels=labels)


def joined_shards(shards: Shards, read: Relations, protected: str) -> dict[str, Relation]:
    """Return all shards as one: for what looks at all of them at once.

    Parameters
    ----------
    shards, read, protected
        As in `head_of_shards`.
    """
    parts = [read(piece.read()) for piece in shards]
    found = {name: _joined([part[name] for part in parts], protected) for name in parts[0]}
    return joined_members(found)


def _joined(parts: list[Relation], protected: str) -> Relation:
    """Return parts of a relation with different members of an entity as one."""
    first, at = parts[0], parts[0].entities.index(protected)
    ends = np.cumsum([0, *(part.shape[at] for part in parts)])
    step = np.zeros((len(parts), first.modes), np.int32)
    step[:, at] = ends[:-1]

    def moved(cells: list[Any]) -> Any:
        pairs = zip(cells, step, strict=True)
        return np.concatenate([one.reshape(-1, first.modes) + by for one, by in pairs])

    indices, held = moved([p.indices for p in parts]), moved([p.held_out for p in parts])
    labels, size = dict(first.labels), int(ends[-1])
    if protected in labels:  # in the order that one table would have
        names = [name for part in parts for name in part.labels[protected]]
        found, place = distinct_ids(names, f"the members of {protected!r}")
        labels[protected], size = tuple(found), len(found)
        indices[:, at], held[:, at] = place[indices[:, at]], place[held[:, at]]
    whole = Relation.from_cells(
        first.entities,
        indices,
        np.concatenate([part.values for part in parts]),
        shape=[size if k == at else n for k, n in enumerate(first.shape)],
        zeros=first.zeros,
        held_out=held if first.zeros == "observed" else None,
        labels=labels,
        duplicates=first.duplicates,
    )
    return replace(whole, columns=first.columns, unstated=first.unstated)
