"""Everything that is wrong with a table of cells, one row each, in one list for its holder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.data.features import ANY_NUMBER
from tacit.data.problems import Problem, trouble
from tacit.data.reading import Table
from tacit.data.values import few, plain_text, texts

__all__ = ["cell_problems"]


def cell_problems(
    table: Table,
    columns: Mapping[str, str],
    value: str | None,
    labels: Mapping[str, Sequence[Any]],
) -> list[Problem]:
    """Return what is wrong with a table of cells.

    Parameters
    ----------
    table
        One row per cell.
    columns
        Entity → the column that names its member.
    value
        The column of values, where there is one.
    labels
        Entity → its known members.

    Examples
    --------
    >>> from tacit.data.reading import read_rows
    >>> table = read_rows({"who": ["a", ""], "what": ["x", "q"], "n": ["1", "?"]})
    >>> columns = {"who": "who", "what": "what"}
    >>> [p.what for p in cell_problems(table, columns, "n", {"what": ["x", "y"]})]
    ['missing', 'unknown', 'unreadable']
    """
    absent = [name for name in (*columns.values(), value) if name and not table.has(name)]
    if absent:
        remedy = f"the table has {table.frame.columns[:20]}"
        return [Problem("no such column", name, (), 1, remedy) for name in absent]
    found: list[Problem] = []
    for entity, name in columns.items():
        column = table.column(name)
        named = texts(column)
        known = [plain_text(member) for member in labels.get(entity, ())]
        nobody = table.names(name)[1] & ~named.is_in(known).fill_null(False).to_numpy()
        remedy = f"every row must name its {entity}: fill it in, or take the row out"
        found += trouble(table, "missing", name, nobody, column, remedy)
        if entity in labels:
            strange = ~named.is_in(known).fill_null(True).to_numpy() & ~nobody
            remedy = f"it is none of the stated {few(known)}: mend it, or state it too"
            found += trouble(table, "unknown", name, strange, column, remedy)
    if value is not None:
        column = table.column(value)
        parsed = table.parse(value, ANY_NUMBER)
        found += trouble(table, "unreadable", value, parsed.bad, column, ANY_NUMBER.remedy)
        remedy = "leave cells without a value out"
        found += trouble(table, "missing", value, parsed.missing, column, remedy)
        wild = np.asarray(parsed.outside, bool)
        found += trouble(table, "infinite", value, wild, column, "a finite number is needed")
    return found
