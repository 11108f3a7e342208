"""Relations from tables, and their members by the names that were stated.

Loading is the holder's own business: errors go to the holder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tacit.data.columns import column_names
from tacit.data.members import as_columns, find_column, key, members_stated
from tacit.data.problems import BadTable, Problem
from tacit.data.reading import Table
from tacit.data.relations import Relation
from tacit.data.wide import is_wide
from tacit.errors import ParameterError

__all__ = ["relation_of", "with_members"]

_VALUES = ("value", "rating", "count", "result")  # of several columns, the one of values


def relation_of(
    data: Any,
    entities: Sequence[str],
    stated: Mapping[str, Any] | None = None,
    *,
    value: str | None = None,
    duplicates: str = "error",
) -> Relation:
    """Return a table as a relation: one row per cell, or a wide frame; never one for the other.

    Parameters
    ----------
    data
        A table whose columns are named like the entities, with one more for the value; or a frame
        of pandas whose index and columns are members.
    entities
        One name per mode.
    stated
        Entity → its public members in order, or how many there are.
    value
        The column of values.
    duplicates
        As in `Relation.from_cells`.
    """
    known = dict(stated or {})
    listed = {e: range(n) if isinstance(n, int) else n for e, n in known.items() if e in entities}
    table = as_columns(data)
    names = list(table) if isinstance(table, Table) else column_names(table)
    columns = {entity: find_column(table, entity) for entity in entities}
    if None not in columns.values():
        rest = [name for name in names if name not in columns.values()]
        found = _value(rest, value, names)
        read = Relation.from_frame(table, columns, found, labels=listed, duplicates=duplicates)
        return _only_stated_names(read, known)
    if is_wide(data, entities, known):
        return _only_stated_names(Relation.from_dense(entities, data, labels=listed), known)
    first, second = columns.get(entities[0]), entities[1] if len(entities) == 2 else None
    if first is not None and second in known and not isinstance(known[second], int):
        place = members_stated(str(second), known[second]).place
        if all(key(name) in place for name in names if name != first):
            frame = _indexed(table, first, names)
            return _only_stated_names(Relation.from_dense(entities, frame, labels=listed), known)
    raise ParameterError(_ambiguous(entities, names))


def _indexed(table: Any, first: str, names: Sequence[Any]) -> Any:
    """Return a table with a column of ids and a column for each member as a frame of pandas."""
    import pandas

    columns = {name: table[name] for name in names if name != first}
    return pandas.DataFrame(columns, index=list(table[first]))


def _only_stated_names(relation: Relation, stated: Mapping[str, Any]) -> Relation:
    """Return a relation without the numbers that stand for names where only a number is stated."""
    numbered = {entity for entity, members in stated.items() if isinstance(members, int)}
    labels = {e: names for e, names in relation.labels.items() if e not in numbered}
    return replace(relation, labels=labels)


def _value(rest: Sequence[Any], value: str | None, names: Sequence[Any]) -> Any:
    """Return the column of values."""
    if value is not None or len(rest) <= 1:
        return value if value is not None else (rest[0] if rest else None)
    lowered = {str(name).strip().lower(): name for name in rest}
    found = [lowered[word] for word in _VALUES if word in lowered]
    if len(found) == 1:
        return found[0]
    raise ParameterError(
        f"which of {list(rest)[:20]} holds the values? Pass tc.Relation.from_frame(table, "
        "{entity: column, …}, value=…)"
    )


def _ambiguous(entities: Sequence[str], names: Sequence[Any]) -> str:
    """Return what to do about a table that could be one row per cell, or a matrix."""
    pairs = ", ".join(f"{entity!r}: …" for entity in entities)
    wide = (
        f", and tc.Relation.from_dense({tuple(entities)!r}, frame) for a matrix with a row for "
        f"each {entities[0]} and a column for each {entities[1]}"
        if len(entities) == 2
        else ""
    )
    return (
        f"the table has the columns {[str(name) for name in names][:8]}, which do not say whether "
        f"a row is one cell: pass tc.Relation.from_frame(table, {{{pairs}}}, value=…) for one row "
        f"per cell{wide}"
    )


def with_members(relation: Relation, stated: Mapping[str, Any]) -> Relation:
    """Return the same cells with stated members of some entities, found by name.

    Parameters
    ----------
    relation
        The cells.
    stated
        Entity → its members' names in order, or how many there are. Members without names, such
        as those of an array, stand in this order already.
    """
    indices, held_out = relation.indices.copy(), relation.held_out.copy()
    shape = list(relation.shape)
    labels, unstated = dict(relation.labels), relation.unstated
    for mode, entity in enumerate(relation.entities):
        if entity not in stated:
            continue
        members, own = members_stated(entity, stated[entity]), relation.labels.get(entity)
        size = relation.shape[mode]
        counted = own is None and entity in relation.unstated and size <= members.size
        if own is None and members.size != size and not counted:
            raise ParameterError(
                f"{entity!r} has {members.size} members, the new data {size} without names: pass "
                "a table that names them, or pass the labels of the fit to the Relation"
            )
        try:
            place = members.find(range(size) if own is None else own, positions=own is None)
        except ParameterError as error:  # a fact about the data: for their holder alone
            raise BadTable([Problem("unknown", entity, (), 1, str(error))]) from None
        indices[:, mode] = place[indices[:, mode]]
        if len(held_out):
            held_out[:, mode] = place[held_out[:, mode]]
        shape[mode], unstated = members.size, unstated - {entity}
        labels.pop(entity, None)
        if members.names is not None:
            labels[entity] = members.names
    return replace(
        relation,
        shape=tuple(shape),
        indices=indices,
        held_out=held_out,
        labels=labels,
        unstated=unstated,
    )
