"""Records that stand in several rows count once, by a rule that looks at the rows of one record.

Rows that agree in the key, and in the person where people are named, are one record. A record
belongs to one person, or is itself the unit of privacy where nobody is named: all its rows come
and go together. So what counts of it is a function of one unit (PRIVACY A13), and however many
rows a record has, it moves a sum as one row does. Rows of another person are never looked at, also
where they have the same key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.kinds import Date, Kind, Number
from tacit.data.problems import Problem, trouble
from tacit.data.reading import Table
from tacit.data.rows import numbered

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["counted_once", "record_codes", "records_note"]

_RULES = {
    "first": "the first of them counts",
    "mean": "their mean counts",
    "sum": "their sum counts",
}


def records_note(key: Sequence[str], rule: str, person: str | None) -> str:
    """Return what a certificate says about records."""
    whose = "rows" if person is None else "rows of one person"
    same = f"{whose} with the same {' and '.join(key)} are one record"
    return f"{same}, and {_RULES[rule]}" if rule in _RULES else f"{same}, which has one row"


def record_codes(
    table: Table,
    key: Sequence[str],
    kinds: Mapping[str, Kind],
    people: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int64], list[Problem]]:
    """Return a number for the record of each row, and where a key is missing.

    Parameters
    ----------
    table, key
        The table, and the columns that name a record.
    kinds
        Those of columns that have one: a number or a date is the same however it is written.
        Others are ids, compared as text.
    people
        A number for the person of each row, where people are named.
    """
    codes = np.zeros(table.rows, np.int64) if people is None else people
    problems: list[Problem] = []
    for name in key:
        if isinstance(kinds.get(name), Number | Date):
            parsed = table.parse(name, kinds[name])
            absent, own = parsed.missing | parsed.bad, _numbered(parsed.values)
        else:
            names, absent = table.names(name)
            own = numbered(names)
        remedy = "a row must say which record it is of: fill it in, or take the row out"
        problems += trouble(table, "missing", name, absent, table.column(name), remedy)
        codes = _numbered(codes * table.rows + own)
    return codes, problems


def _numbered(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return a number below the number of rows for every value, equal for equal ones only."""
    return np.asarray(np.unique(values, return_inverse=True)[1], np.int64).reshape(-1)


class _Named:
    """Rows by what names their record, for an error to the holder."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._columns = {name: table.column(name) for name in names}

    def __getitem__(self, row: int) -> str:
        return ", ".join(f"{name}={column[row]!r}" for name, column in self._columns.items())


class _Repeated:
    """Those records among some rows that stand in several of them."""

    def __init__(self, codes: NDArray[np.int64], keep: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(keep)
        order = rows[np.argsort(codes[rows], kind="stable")]
        new = np.ones(len(order), bool)
        new[1:] = codes[order[1:]] != codes[order[:-1]]
        lengths = np.diff(np.append(np.flatnonzero(new), len(order)))
        self.rows = order[np.repeat(lengths > 1, lengths)]  # record by record, in their order
        self.lengths = lengths[lengths > 1]
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.first = self.rows[self.starts]
        self.size = len(codes)

    def marks(self, which: NDArray[np.bool_] | bool = True) -> NDArray[np.bool_]:
        """Return some of their rows as marks among all rows."""
        found = np.zeros(self.size, bool)
        found[self.rows] = which
        return found

    def differing(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return the rows whose value is not that of the first row of their record."""
        return self.marks(values[self.rows] != np.repeat(values[self.first], self.lengths))

    def combined(self, values: NDArray[Any], rule: str) -> NDArray[Any]:
        """Return a column where the first row of each record has what counts of all."""
        found, mended = np.add.reduceat(values[self.rows], self.starts), values.copy()
        mended[self.first] = found / self.lengths if rule == "mean" else found
        return mended


def counted_once(
    table: Table,
    kinds: Mapping[str, Kind],
    values: dict[str, NDArray[Any]],
    keep: NDArray[np.bool_],
    codes: NDArray[np.int64],
    rules: tuple[str, str],
    named: Sequence[str],
) -> list[Problem]:
    """Put rows of one record together in its first row, and leave the others out.

    Parameters
    ----------
    table, kinds
        The table, and the kinds of the columns that are read.
    values, keep
        The columns as numbers, and which rows are left; both are changed.
    codes
        A number for the record of each row.
    rules
        What counts of several rows, and what becomes of a sum outside its range.
    named
        The columns that name a record, and whose it is.

    Returns
    -------
    list of Problem
        Where a rule does not say what counts.
    """
    rule, outside = rules
    again = _Repeated(codes, keep)
    if not len(again.rows):
        return []
    problems: list[Problem] = []
    if rule == "error":
        remedy = "mend the data, or pass duplicates='first', 'mean' or 'sum'"
        return trouble(table, "duplicate", "", again.marks(), _Named(table, named), remedy)
    for name, kind in kinds.items():
        if rule == "first":
            continue
        if not (isinstance(kind, Number) or (rule == "mean" and isinstance(kind, Date))):
            what = "different in the rows of one record"
            remedy = f"it has no {rule}: mend it, or pass duplicates='first'"
            differ = again.differing(values[name])
            problems += trouble(table, what, name, differ, table.column(name), remedy)
            continue
        values[name] = again.combined(values[name], rule)
        low, high = kind.range
        beyond = (values[name] < low) | (values[name] > high)
        if outside == "error" and rule == "sum":
            what = "outside its range once the rows of a record are added up"
            problems += trouble(
                table, what, name, beyond & keep, table.column(name), kind.remedy_outside
            )
        elif outside == "drop":
            keep[beyond] = False
        else:  # a mean of rounded numbers may pass the end of the range by a hair
            values[name] = np.clip(values[name], low, high)
    first = keep[again.first]
    keep[again.rows] = False
    keep[again.first] = first
    return problems
