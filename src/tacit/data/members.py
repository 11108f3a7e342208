"""The members of an entity by their own names: ids in, positions inside, the same ids out.

An id is compared as the text that stands for it: ``"0012"`` is not ``12``, whole numbers are the
same whatever their dtype, and a day is the same day whether a date, a timestamp or text says so.
Blanks around an id are no part of it, and letters are composed (NFC). Where members have no names,
their numbers are their names.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.codes import coded
from tacit.data.columns import column_array, column_names, is_missing
from tacit.data.reading import Table, is_table, read_rows
from tacit.data.values import plain_text, texts, trimmed, writable
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Members",
    "as_columns",
    "cells_of",
    "distinct_ids",
    "distinct_values",
    "find_column",
    "id_column",
    "id_values",
    "key",
    "marked",
    "members_stated",
    "shown",
]

_SHOWN = 5  # ids that an error spells out
_EXACT = 2.0**53  # from here on, neighbouring whole numbers are one float


def key(name: Any) -> str:
    """Return the text that an id is compared by.

    >>> key("0012"), key(12), key(12.0), key(np.int8(12)), key(dt.date(2026, 1, 31))
    ('0012', '12', '12', '12', '2026-01-31')
    """
    if type(name) is str:  # most are
        return trimmed(name)
    if isinstance(name, bytes):
        return name.decode("utf-8", errors="replace").strip()
    if isinstance(name, np.datetime64):
        return key(_moments(np.array([name]))[0])
    if isinstance(name, tuple):  # of an index with several levels
        return f"({', '.join(key(part) for part in name)})"
    if isinstance(name, dt.datetime) and name.tzinfo is not None:
        return name.isoformat()
    if isinstance(name, Decimal) and name.is_finite() and name == name.to_integral_value():
        return str(int(name))
    return trimmed(plain_text(name))


def shown(names: Iterable[Any]) -> str:
    """Return the first of some names as an error shows them."""
    found = list(names)
    more = f" and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return ", ".join(_quoted(name) for name in found[:_SHOWN]) + more


def _quoted(name: Any) -> str:
    plain = isinstance(name, int | float | np.number | np.bool_)
    return key(name) if plain else repr(key(name))


# -- ids as they come ----------------------------------------------------------------------------


def marked(names: Iterable[Any]) -> NDArray[np.uint64]:
    """Return a number of each name, the same wherever and in whatever type it is held.

    >>> bool(marked(["7"])[0] == marked([7])[0])
    True
    """
    digests = (blake2b(key(name).encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), np.uint64)


def distinct_ids(ids: Any, what: str) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different ids of a column in their order, and which of them each row has.

    Parameters
    ----------
    ids
        Numbers, texts, dates, categories, or a mix of them.
    what
        What they are, for the error that a missing one is.
    """
    different, rows = coded(ids)
    values, missing = id_values(different, what)
    _refuse_missing(missing[rows], what)
    found, place = distinct_values(values)
    return found, place[rows]


def distinct_values(
    values: NDArray[Any] | list[Any],
) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the different ids among values that `id_values` gave, and which each row has."""
    if isinstance(values, np.ndarray):
        found, place = np.unique(values, return_inverse=True)
        return found.tolist(), np.asarray(place, np.int64).reshape(-1)
    names: dict[str, Any] = {}
    if {type(value) for value in values} <= {str}:  # most ids are text: each is looked at once
        first = list(dict.fromkeys(values))
        for value in first:
            names.setdefault(trimmed(value), trimmed(value))
        order = {name: k for k, name in enumerate(sorted(names))}
        places = {value: order[trimmed(value)] for value in first}
        return list(order), np.array([places[value] for value in values], np.int64)
    keys = [key(value) for value in values]
    for name, value in zip(keys, values, strict=True):
        names.setdefault(name, value)
    order = {name: k for k, name in enumerate(_ordered(names))}
    place = np.array([order[name] for name in keys], np.int64)
    return [names[name] for name in order], place


def _ordered(names: Mapping[str, Any]) -> list[str]:
    """Return keys in the order of their values, where these have one, else of their texts."""
    kinds = {_order_of(value) for value in names.values()}
    if len(kinds) == 1 and None not in kinds:
        return sorted(names, key=lambda name: names[name])
    return sorted(names)


def _order_of(value: Any) -> type | None:
    for kind in (int, float, dt.datetime, dt.date):
        if isinstance(value, kind):
            aware = isinstance(value, dt.datetime) and value.tzinfo is not None
            return None if aware or isinstance(value, bool) else kind
    return None


def id_values(ids: Any, what: str) -> tuple[NDArray[Any] | list[Any], NDArray[np.bool_]]:
    """Return ids as an array of numbers or a list of Python's own values, and which are missing.

    Missing ids stay in their places: whoever goes on takes them out, or refuses them.
    """
    array = ids if isinstance(ids, np.ndarray) else None
    if array is None:
        plain = isinstance(ids, list | tuple | range) or not hasattr(ids, "__len__")
        array = _objects(list(ids)) if plain else column_array(ids)
    if array.ndim != 1:
        raise ParameterError(f"{what} must have one axis, got {array.ndim}")
    if array.dtype.kind in "iu":
        return array, np.zeros(len(array), bool)
    if array.dtype.kind == "f":
        if (np.abs(array[np.isfinite(array)]) >= _EXACT).any():
            raise ParameterError(
                f"{what} holds numbers above 2^53 as decimals, which can no longer be told apart: "
                "read them as text or as whole numbers"
            )
        missing = np.isnan(array)
        whole = bool((np.isfinite(array) & (array == np.floor(array)) | missing).all())
        return (np.where(missing, -1, array).astype(np.int64) if whole else array), missing
    if array.dtype.kind == "M":
        missing = np.isnat(array)
        return _moments(array), missing
    values = array.tolist()
    return list(values), np.array([_absent(value) for value in values], bool)


def _objects(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    whole = all(type(v) is int or isinstance(v, np.integer) for v in values)
    if whole and values and min(values) >= -(2**63) and max(values) < 2**63:
        return np.array([int(v) for v in values], np.int64)
    return array


def _absent(value: Any) -> bool:
    try:
        return bool(is_missing(value)) or (isinstance(value, str) and not value.strip())
    except (TypeError, ValueError):
        raise ParameterError(f"an id must be one value, got {type(value).__name__}") from None


def _refuse_missing(missing: NDArray[np.bool_], what: str) -> None:
    rows = np.flatnonzero(missing)
    if rows.size:
        raise ParameterError(
            f"{what} must name a member in every row: row {shown((rows + 1).tolist())} has none"
        )


def _moments(array: NDArray[Any]) -> list[Any]:
    """Return NumPy's dates as Python's own; those finer than microseconds as text."""
    rough = array.astype("datetime64[us]")
    if array.dtype.name == "datetime64[ns]" and (rough != array).any():
        return [str(text) for text in np.datetime_as_string(array)]
    whole_days = array.dtype.name in ("datetime64[D]", "datetime64[W]")
    return list((array.astype("datetime64[D]") if whole_days else rough).tolist())


# -- members -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Members:
    """The members of one entity.

    Attributes
    ----------
    entity
        What they are.
    size
        How many there are.
    names
        Their names in order; None where they are numbered from 0.

    Examples
    --------
    >>> items = Members("item", 2, ("0012", "12"))
    >>> items.find([12, "0012"]).tolist(), items.name(1)
    ([1, 0], '12')
    """

    entity: str
    size: int
    names: tuple[Any, ...] | None = None

    @cached_property
    def place(self) -> dict[str, int]:
        """The position of every name, by its key."""
        found = {writable(key(name)): k for k, name in enumerate(self.names or ())}
        if len(found) < len(self.names or ()):
            seen: dict[str, Any] = {}
            for name in self.names or ():
                if key(name) in seen:
                    raise ParameterError(
                        f"labels of {self.entity!r} must be distinct: {_quoted(name)} stands twice"
                    )
                seen[key(name)] = name
        return found

    def name(self, position: int) -> Any:
        """Return the name of a member; its number where it has none."""
        return int(position) if self.names is None else self.names[int(position)]

    def named(self, rows: Any) -> dict[Any, Any]:
        """Return name → row of an array with one row for each member."""
        return {self.name(k): row for k, row in enumerate(rows)}

    def find(self, ids: Any, *, positions: bool = False) -> NDArray[np.int64]:
        """Return where members stand.

        Parameters
        ----------
        ids
            Their names, or numbers where they have none.
        positions
            Whether they are given by position.
        """
        if positions or self.names is None:
            return self._numbered(ids, positions)
        found, place = distinct_ids(ids, f"the column of {self.entity!r}")
        known = self.known(found)
        unknown = [one for one, where in zip(found, known, strict=True) if where < 0]
        if unknown:
            numbers = all(isinstance(one, int | float) for one in unknown)
            hint = ", or pass positions=True if these are positions" if numbers else ""
            raise ParameterError(
                f"{self.entity} {shown(unknown)} is unknown: it is not among the {self.size} "
                f"known ones, {shown(self.names)}{hint}"
            )
        return known[place] if len(known) else np.empty(0, np.int64)

    def known(self, ids: Sequence[Any]) -> NDArray[np.int64]:
        """Return where members stand, by name; −1 where there is no such member."""
        return np.array([self.place.get(key(one), -1) for one in ids], np.int64)

    def _numbered(self, ids: Any, positions: bool) -> NDArray[np.int64]:
        what = f"the column of {self.entity!r}"
        values, missing = id_values(ids, what)
        _refuse_missing(missing, what)
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            low, high = values.min(initial=0), values.max(initial=0)
            if low >= 0 and (high < self.size or not len(values)):
                return values.astype(np.int64)
        found, place = distinct_values(values)
        bad = [one for one in found if not (_is_whole(one) and 0 <= int(one) < self.size)]
        if bad:
            why = "" if positions else ", which have no names"
            raise ParameterError(
                f"{self.entity} {shown(bad)} is unknown: cells must lie within 0 … "
                f"{self.size - 1}, as whole numbers, for the members of {self.entity!r}{why}"
            )
        numbers = np.array([int(one) for one in found], np.int64)
        return numbers[place] if len(numbers) else np.empty(0, np.int64)


def members_stated(entity: str, stated: Any) -> Members:
    """Return the members of an entity from their names, or from how many there are."""
    if isinstance(stated, int | np.integer) and not isinstance(stated, bool):
        return Members(entity, int(stated))
    orderless = isinstance(stated, str | bytes | Mapping | Set)
    if orderless or not hasattr(stated, "__iter__"):
        raise ParameterError(
            f"the members of {entity!r} must be a list of names, or their number, got {stated!r}"
        )
    values = stated.tolist() if isinstance(stated, np.ndarray) else list(stated)
    names = tuple(v.item() if isinstance(v, np.generic) else v for v in values)
    found = Members(entity, len(names), names)
    _ = found.place  # distinct
    return found


def _is_whole(value: Any) -> bool:
    """Whether an id is a whole number, or a text that stands for one as it is written."""
    if isinstance(value, str):
        return value.isascii() and value.isdigit() and str(int(value)) == value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or value.is_integer()


# -- tables of ids -------------------------------------------------------------------------------


def cells_of(
    cells: Any,
    members: Sequence[Members],
    columns: Mapping[str, str] | None = None,
    *,
    positions: bool = False,
) -> NDArray[np.int64]:
    """Return the positions of cells, one row each, (cells, modes).

    Parameters
    ----------
    cells
        A table whose columns are named like the entities (or like those of the fit), in any order;
        or rows of ids, one for each entity in the order of ``members``.
    members
        Whose ids they are.
    columns
        Entity → the column that named it in the fit.
    positions
        Whether members are given by position.
    """
    entities = [one.entity for one in members]
    if is_table(cells) and not _is_rows(cells):
        table, named = as_columns(cells), columns or {}
        ids: list[Any] = [id_column(table, one, named.get(one)) for one in entities]
    else:
        ids = _by_mode(cells, entities)
    found = [one.find(own, positions=positions) for one, own in zip(members, ids, strict=True)]
    if len({len(one) for one in found}) > 1:
        raise ParameterError(f"cells must have one id each of {entities}")
    return np.column_stack(found).astype(np.int64)


def _is_rows(cells: Any) -> bool:
    return isinstance(cells, list | tuple | np.ndarray)


def _by_mode(cells: Any, entities: Sequence[str]) -> list[Any]:
    """Return rows of ids as one column for each mode; values keep their own types."""
    modes = len(entities)
    array = cells if isinstance(cells, np.ndarray) else None
    if array is None:
        if not _is_row(cells):
            raise ParameterError(f"cells must be a table or rows of ids, got {cells!r}")
        rows = [tuple(row) if _is_row(row) else (row,) for row in cells]
        if any(len(row) != modes for row in rows):
            raise ParameterError(
                f"cells must have shape (cells, {modes}): one id each of {list(entities)} in a row"
            )
        return [[row[k] for row in rows] for k in range(modes)]
    if array.size == 0:
        return [[] for _ in entities]
    if array.ndim != 2 or array.shape[1] != modes:
        raise ParameterError(
            f"cells must have shape (cells, {modes}), one column each of {list(entities)}, got "
            f"{array.shape}"
        )
    return [array[:, k] for k in range(modes)]


def _is_row(row: Any) -> bool:
    return hasattr(row, "__iter__") and not isinstance(row, str | bytes)


def as_columns(data: Any) -> Any:
    """Return data as something with named columns that keep the types of their owner."""
    kept = isinstance(data, Mapping) or any(
        hasattr(data, own) for own in ("iloc", "get_column", "column_names")
    )
    if kept:
        return data
    found = read_rows(data)
    found.passing = True  # nobody else has it
    return found


def find_column(table: Any, *wanted: str) -> Any:
    """Return the column that has one of some names; another case will do where one fits."""
    names = column_names(table)
    for name in wanted:
        if name in names:
            return name
        near = [own for own in names if str(own).strip().lower() == str(name).strip().lower()]
        if len(near) == 1:
            return near[0]
    return None


def id_column(table: Any, entity: str, column: str | None = None) -> Any:
    """Return the ids of an entity from a table; those of a text file are text: 0012 is not 12."""
    import polars as pl

    wanted = [entity] if column is None else [column, entity]
    if isinstance(table, Table):
        name = next((own for own in wanted if table.has(own)), wanted[0])
        found = table.column(name)
        if found.dtype.is_numeric():
            return np.asarray(found.to_numpy())
        if found.dtype == pl.String:  # blanks are taken off where values are told apart
            return found
        return found.to_list() if found.dtype.is_temporal() else texts(found)
    name = find_column(table, *wanted)
    if name is None:
        raise ParameterError(
            f"there is no column {wanted[0]!r}: the table has {column_names(table)[:20]}"
        )
    return column_array(table[name])
