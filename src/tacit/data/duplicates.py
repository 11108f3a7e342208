"""What is done about a cell that is listed several times: one rule, applied cell by cell.

A cell belongs to one unit of privacy, and only the values listed for that cell are looked at
(PRIVACY A13).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import OneOf, check
from tacit._core.order import are_different, lexical_order
from tacit.data.members import Members, key
from tacit.data.problems import BadTable, Problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RULES", "duplicates_note", "merged"]

RULES = ("error", "first", "mean", "sum")
_WORDS = {"first": "by the first value", "mean": "by the mean", "sum": "by the sum"}
_KEPT = 20  # cells that are named


def duplicates_note(rules: Sequence[str]) -> tuple[str, ...]:
    """Return what certificates say about cells that are listed several times."""
    words = sorted({_WORDS[rule] for rule in rules if rule != "error"})
    return (f"a cell that is listed several times counts once, {' or '.join(words)}",) * bool(
        words
    )


def merged(
    cells: NDArray[np.integer[Any]],
    values: NDArray[np.float64],
    rule: str,
    members: Sequence[Members],
) -> tuple[NDArray[np.integer[Any]], NDArray[np.float64]]:
    """Return every cell once, in the order in which cells appear first.

    Parameters
    ----------
    cells, values
        What is listed, (cells, modes) and (cells,).
    rule
        ``"error"``, ``"first"``, ``"mean"`` or ``"sum"``.
    members
        Of every mode, for the error.

    Examples
    --------
    >>> two = [Members("user", 1), Members("item", 2)]
    >>> cells = np.array([[0, 1], [0, 0], [0, 1]])
    >>> merged(cells, np.array([1.0, 5.0, 3.0]), "mean", two)[1].tolist()
    [2.0, 5.0]
    """
    check("duplicates", rule, OneOf(*RULES))
    if not len(cells):
        return cells, values
    sizes = [one.size for one in members]
    if len(sizes) == 2 and are_different(cells[:, 0], cells[:, 1], (sizes[0], sizes[1])):
        return cells, values
    order = lexical_order(list(cells.T), sizes)
    ordered = cells[order]
    new = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    if new.all():
        return cells, values
    if rule == "error":
        raise BadTable([_problem(ordered, order, new, members)])
    starts = np.flatnonzero(new)
    first = order[starts]  # the sort is stable: the first row of each cell
    found = values[first]
    if rule != "first":
        found = np.add.reduceat(values[order], starts)
        if rule == "mean":
            found = found / np.diff(np.append(starts, len(order)))
    back = np.argsort(first, kind="stable")
    return cells[first[back]], np.asarray(found[back], np.float64)


def _problem(
    ordered: NDArray[np.integer[Any]],
    order: NDArray[Any],
    new: NDArray[np.bool_],
    members: Sequence[Members],
) -> Problem:
    """Return which cells are listed several times, and in which rows."""
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(order)))
    groups = np.flatnonzero(lengths > 1)
    places = []
    for group in groups[:_KEPT].tolist():
        low, times = int(starts[group]), int(lengths[group])
        rows = [int(row) + 1 for row in order[low : low + times][:5]]
        text = _cell([int(part) for part in ordered[low]], members)
        word = "twice" if times == 2 else f"{times} times"
        places.append(("the cells", rows[1], f"cell {text} is listed {word}, in rows {rows}"))
    remedy = "mend the data, or pass duplicates='first', 'mean' or 'sum'"
    return Problem("duplicate", "", tuple(places), len(groups), remedy)


def _cell(cell: list[int], members: Sequence[Members]) -> str:
    if all(one.names is None for one in members):
        return str(cell)
    pairs = zip(members, cell, strict=True)
    return f"({', '.join(f'{one.entity} {key(one.name(at))}' for one, at in pairs)})"
