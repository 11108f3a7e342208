"""Wide frames: a row for each member of one entity, a column for each of another.

A frame with one row per cell (user, item, rating) is never taken for one. Only a frame that says
that it is wide is: by names of its axes, by columns that are stated members, or by an index and
columns that no long frame has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.columns import column_array
from tacit.data.members import Members, key, members_stated
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["is_wide", "wide_cells"]

# columns of tables with one row per cell, whatever their entities are called
_LONG = (
    "id",
    "rating",
    "value",
    "count",
    "score",
    "weight",
    "result",
    "timestamp",
    "date",
    "time",
)


def is_wide(frame: Any, entities: Sequence[str], stated: Mapping[str, Any]) -> bool:
    """Whether a frame of pandas can only be a matrix over two entities.

    Parameters
    ----------
    frame
        The frame.
    entities
        Of its rows and of its columns.
    stated
        Entity → its members, where they are public.
    """
    if len(entities) != 2 or not hasattr(frame, "iloc"):
        return False
    rows, columns = entities
    if columns in stated and not isinstance(stated[columns], int):
        place = members_stated(columns, stated[columns]).place
        return len(frame.columns) > 0 and all(key(name) in place for name in frame.columns)
    names = frame.index.name, frame.columns.name
    if names[0] == rows or names[1] == columns or None not in names:
        return True
    plain = _counts(frame.columns)
    if not plain and not any(isinstance(name, str) for name in frame.columns):
        return True  # numbers, dates or tuples that somebody chose
    if _numbered(frame.index) or not frame.index.is_unique or names[0] is not None:
        return False
    said = [str(name).lower() for name in frame.columns]
    words = (*_LONG, *(str(entity).lower() for entity in entities))
    return not plain and not any(_like(name, word) for name in said for word in words)


def _counts(axis: Any) -> bool:
    """Whether an axis only counts from 0: nobody named anything."""
    return all(name == k for k, name in enumerate(axis)) if _numbered(axis) else False


def _numbered(axis: Any) -> bool:
    return bool(len(axis) == 0 or column_array(axis).dtype.kind in "iuf")


def _like(name: str, word: str) -> bool:
    """Whether a column is called like something: userId, user_id, movie id."""
    return name == word or name.startswith(word) or (word == "id" and name.endswith("id"))


def wide_cells(
    entities: Sequence[str], frame: Any, stated: Mapping[str, Any]
) -> tuple[NDArray[np.float64], dict[str, tuple[Any, ...]]]:
    """Return the numbers of a wide frame of pandas, and the names of its rows and columns.

    Parameters
    ----------
    entities
        Of its rows and of its columns.
    frame
        The frame.
    stated
        Entity → its members in order; a member without a row or column has no cells.
    """
    if len(entities) != 2:
        raise ParameterError(f"a wide frame is a matrix over two entities, not {list(entities)}")
    try:
        dense = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise ParameterError(
            "a wide frame holds numbers only: for one row per cell pass "
            "Relation.from_frame(frame, {entity: column, …}, value)"
        ) from None
    names = {}
    for axis, (entity, own) in enumerate(zip(entities, (frame.index, frame.columns), strict=True)):
        found = tuple(_labels(own))
        _ = Members(entity, len(found), found).place  # distinct
        if entity in stated:
            members = members_stated(entity, stated[entity])
            whole = np.full(
                [members.size if a == axis else n for a, n in enumerate(dense.shape)], np.nan
            )
            place = members.find(found)
            whole[(slice(None),) * axis + (place,)] = dense
            dense, found = whole, members.names or tuple(range(members.size))
        names[entity] = found
    return dense, names


def _labels(axis: Any) -> list[Any]:
    """Return the labels of an axis as Python's own values."""
    ids = column_array(axis.to_flat_index() if hasattr(axis, "levels") else axis)
    if ids.dtype.kind == "M":
        return list(ids.astype("datetime64[us]").tolist())
    return list(ids.tolist())
