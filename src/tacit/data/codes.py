"""Columns of ids as their different values and which of them each row has.

What is done about an id (its text, whether it is missing, where its member stands) is done once
for each different value, not once for each row: tens of millions of rows name some thousand
members. Values are compared as they are; what stands for the same member is found later, value by
value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["coded"]

_WIDE = 4  # a table over the span of whole numbers may be so many times as long as the column


def coded(ids: Any) -> tuple[Any, NDArray[np.integer[Any]]]:
    """Return the different values of a column as they appear, and which of them each row has.

    None comes last. Text and whole numbers are told apart at once; anything else counts as
    different in each row.

    >>> coded(np.array([7, 5, 7])), coded(["b", None, "b"])[0]
    ((array([7, 5]), array([0, 1, 0])), ['b', None])
    """
    if isinstance(ids, np.ndarray) and ids.ndim == 1 and ids.dtype.kind in "iu":
        return _whole(ids)
    column = _as_text(ids)
    return (ids, np.arange(len(ids))) if column is None else _texts(column)


def _whole(ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    if not len(ids):
        return ids, np.empty(0, np.int64)
    low, high = int(ids.min()), int(ids.max())
    if high - low >= _WIDE * len(ids) or high >= 2**63:
        found, first, place = np.unique(ids, return_index=True, return_inverse=True)
    else:  # by a table over the span
        place = (ids - ids.dtype.type(low)).astype(np.int64)
        first_row = np.full(high - low + 1, len(ids), np.int64)
        first_row[place[::-1]] = np.arange(len(ids) - 1, -1, -1)
        used = np.flatnonzero(first_row < len(ids))
        number = np.empty(high - low + 1, np.int64)
        number[used] = np.arange(len(used))
        first, place = first_row[used], number[place]
        found = ids[first]
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return found[order], rank[np.asarray(place).reshape(-1)]


def _as_text(ids: Any) -> pl.Series | None:
    """Return a column of text, some of it missing, as a series; None where it is not text."""
    import polars as pl

    if isinstance(ids, pl.Series):
        return ids if ids.dtype == pl.String else None
    if isinstance(ids, np.ndarray):
        if ids.ndim != 1 or ids.dtype.kind not in "OU":
            return None
        ids = ids.tolist()
    if not isinstance(ids, list) or not {type(value) for value in ids} <= {str, type(None)}:
        return None
    try:
        return pl.Series(ids, dtype=pl.String)
    except (UnicodeEncodeError, TypeError):  # halves of characters, which no file can hold
        return None


def _texts(column: pl.Series) -> tuple[list[Any], NDArray[np.int32]]:
    import polars as pl

    found = column.unique(maintain_order=True)
    known = found.drop_nulls()
    nothing = len(known) < len(found)
    place = column.cast(pl.Enum(known)).to_physical() if len(known) else column.cast(pl.UInt32)
    codes = place.fill_null(len(known)).to_numpy().astype(np.int32)
    if not nothing:
        return known.to_list(), codes
    distinct: list[Any] = [*known.to_list(), None]
    return distinct, codes
