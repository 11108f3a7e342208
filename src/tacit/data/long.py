"""Tables with one row per cell: ids and values read row by row, and all that is wrong in one list.

Loading is the holder's own business: errors name file, row and column, to the holder alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.codes import coded
from tacit.data.columns import column_array, is_missing
from tacit.data.features import ANY_NUMBER
from tacit.data.members import (
    Members,
    distinct_values,
    find_column,
    id_column,
    id_values,
    key,
    shown,
)
from tacit.data.problems import Problem, raise_for
from tacit.data.reading import Table
from tacit.data.values import NA_WORDS, lowered
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["long_cells"]

_REMEDY = "values must be finite numbers: mend them. Leave missing cells out"
_KEPT = 20  # places of one kind of trouble that are kept


def long_cells(
    frame: Any,
    columns: Mapping[str, str],
    value: str | None,
    labels: Mapping[str, tuple[Any, ...]],
) -> tuple[NDArray[np.int32], NDArray[np.float64], dict[str, tuple[Any, ...]]]:
    """Return positions (rows, modes), values, and the members of every entity.

    Parameters
    ----------
    frame
        The table.
    columns
        Entity → the column of its ids.
    value
        The column of values; ones if None.
    labels
        Entity → its members in order; of the others, the ids that occur, in their order.
    """
    for column in [*columns.values(), *([] if value is None else [value])]:
        id_column(frame, column)  # raises where there is none, and says which there are
    known, indices, problems = dict(labels), [], []
    for entity, column in columns.items():
        place, problem = _places(frame, entity, column, known)
        if isinstance(frame, Table) and list(columns.values()).count(column) == 1:
            frame.let_go(column)
        indices.append(place)
        problems += problem
    lengths = {len(place) for place in indices}
    numbers = np.ones(len(indices[0]))
    if value is not None:
        numbers, problem = _numbers(frame, value)
        problems += problem
        lengths.add(len(numbers))
    if len(lengths) > 1:
        raise ParameterError(f"columns must have one length, got {sorted(lengths)}")
    raise_for(problems)
    return np.column_stack(indices), numbers, known


def _places(
    frame: Any, entity: str, column: str, known: dict[str, tuple[Any, ...]]
) -> tuple[NDArray[np.int32], list[Problem]]:
    """Return where the member of each row stands, and what is wrong with the column."""
    different, rows = coded(id_column(frame, column))
    values, missing = id_values(different, f"column {column!r}")
    missing = missing | _for_nobody(frame, values, known.get(entity, ()))
    remedy = f"it must name a member of {entity!r} in every row: fill it in, or take the row out"
    problems = _trouble(frame, "missing", column, missing[rows], lambda row: "", remedy)
    filled = np.flatnonzero(~missing)
    found, each = distinct_values(
        values[filled] if isinstance(values, np.ndarray) else [values[k] for k in filled]
    )
    if entity in known:
        where = Members(entity, len(known[entity]), known[entity]).known(found)
    else:
        known[entity], where = tuple(found), np.arange(len(found))
    place = np.full(len(values), -1, np.int32)
    place[filled] = where[each] if len(where) else place[filled]
    unknown = (place < 0) & ~missing
    remedy = (
        f"it is not among the given labels of {entity!r}, {shown(known[entity])}: mend it, or "
        "state it"
    )
    problems += _trouble(
        frame, "unknown", column, unknown[rows], lambda row: key(values[rows[row]]), remedy
    )
    return place[rows], problems


def _for_nobody(frame: Any, values: Any, members: tuple[Any, ...]) -> NDArray[np.bool_]:
    """Return which ids are a word for a missing value, and no stated member."""
    if isinstance(values, np.ndarray):
        return np.zeros(len(values), bool)
    names = {key(member) for member in members}
    words = lowered(frame.na if isinstance(frame, Table) else NA_WORDS)
    return np.array(
        [
            isinstance(one, str) and one.strip().lower() in words and key(one) not in names
            for one in values
        ],
        bool,
    )


def _numbers(frame: Any, value: str) -> tuple[NDArray[np.float64], list[Problem]]:
    """Return the values of all rows, and what is wrong with them."""
    if isinstance(frame, Table):
        column = frame.column(value)
        if not column.dtype.is_nested():
            return _read_numbers(frame, value)
        found: Any = column.to_list()
    else:
        found = column_array(frame[find_column(frame, value)])
        if found.ndim != 1:
            raise ParameterError(f"column {value!r} must have one axis, got {found.ndim}")
    if isinstance(found, np.ndarray) and found.dtype.kind in "iufb":
        numbers = found.astype(np.float64)
    else:
        numbers = np.array([_number(one) for one in found], np.float64)
    wrong = ~np.isfinite(numbers)
    return numbers, _trouble(frame, "no number", value, wrong, lambda r: str(found[r]), _REMEDY)


def _read_numbers(table: Table, value: str) -> tuple[NDArray[np.float64], list[Problem]]:
    """Return values as their file writes numbers, and what is wrong with them."""
    numbers, column = table.parse(value, ANY_NUMBER).values, table.column(value)
    shown = lambda row: "" if column[row] is None else str(column[row])  # noqa: E731
    return numbers, _trouble(table, "no number", value, ~np.isfinite(numbers), shown, _REMEDY)


def _number(value: Any) -> float:
    """Return a number, or NaN where there is none."""
    if is_missing(value) or (isinstance(value, str) and "_" in value):  # 1_0 is Python's own
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return np.nan


def _trouble(
    frame: Any,
    what: str,
    column: str,
    where: NDArray[np.bool_],
    text: Callable[[int], str],
    remedy: str,
) -> list[Problem]:
    """Return one kind of trouble in a column, where there is any."""
    rows = np.flatnonzero(where)
    if not rows.size:
        return []
    places = []
    for row in rows[:_KEPT].tolist():
        file, number = frame.place(row) if isinstance(frame, Table) else ("the table", row + 1)
        places.append((file, number, text(row)[:60]))
    return [Problem(what, column, tuple(places), int(rows.size), remedy)]
