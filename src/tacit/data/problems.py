"""Everything that is wrong with a holder's table, in one list, for the holder alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.reading import Table
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BadTable", "Problem", "gathered", "raise_for", "trouble"]

_SHOWN = 3  # places of one kind that are spelled out
_PLACES = 20  # places of one kind that are kept


@dataclass(frozen=True)
class Problem:
    """One kind of trouble in one column: what, where (rows count from 1), and what to do.

    Attributes
    ----------
    what
        ``"missing"``, ``"unreadable"``, ``"outside"``, ``"unknown"``, ``"duplicate"`` …
    column
        The column, or an empty text for the table as a whole.
    places
        (file, row, value) of the first few.
    count
        How many there are in all.
    remedy
        What to do.
    """

    what: str
    column: str
    places: tuple[tuple[str, int, str], ...]
    count: int
    remedy: str

    def __str__(self) -> str:
        shown = [f"{file}, row {row}: {value!r}" for file, row, value in self.places[:_SHOWN]]
        more = self.count - len(shown)
        where = "; ".join(shown) + (f" and {more:,} more" if more > 0 and shown else "")
        about = f"column {self.column!r}, " if self.column else ""
        what = f"{self.what}: {where}" if where else self.what
        first = self.remedy.split(" ", 1)[0]
        remedy = self.remedy if "." in first else self.remedy[:1].upper() + self.remedy[1:]
        return f"{about}{what}. {remedy}"  # the name of a file stays as it is

    def described(self) -> dict[str, Any]:
        """Return it as plain data, for ``tacit check --json``."""
        keys = ("file", "row", "value")
        places = [dict(zip(keys, place, strict=True)) for place in self.places]
        return {
            "what": self.what,
            "column": self.column,
            "count": self.count,
            "places": places,
            "remedy": self.remedy,
        }


class BadTable(ParameterError):
    """A table cannot be used as it is; ``problems`` lists everything, found in one pass.

    It is for the holder: a site never sends it (`tacit.federation.refusals`), and a record of a
    run, which others may see, holds `said` instead.
    """

    said = "its data cannot be used: the holder sees why with model.check on them alone"

    def __init__(self, problems: Sequence[Problem], site: str = "") -> None:
        self.problems, self.site = tuple(problems), site
        where = f"site {site!r}: " if site else ""
        super().__init__("\n".join(f"{where}{problem}" for problem in problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems, self.site)


def raise_for(problems: Iterable[Problem]) -> None:
    """Raise one error for all problems, if there are any."""
    found = list(problems)
    if found:
        raise BadTable(found)


def gathered(*readings: Callable[[], Any]) -> list[Any]:
    """Return what some readings give, or raise all that is wrong with any of them at once."""
    found: list[Any] = []
    problems: list[Problem] = []
    for reading in readings:
        try:
            found.append(reading())
        except BadTable as error:
            problems += error.problems
    raise_for(problems)
    return found


def _shown(column: Any, row: int) -> Any:
    """Return what stands in a row; a moment that Python cannot hold has no text of its own."""
    if str(getattr(column, "dtype", "")).startswith(("List", "Array")):
        return f"a list of {len(column[row])}" if column[row] is not None else None
    if str(getattr(column, "dtype", "")).startswith("Datetime"):
        within = column[row : row + 1].dt.year()[0]
        if within is not None and not 1 <= within <= 9999:
            return f"a day in the year {within}"
    return column[row]


def trouble(
    table: Table, what: str, name: str, where: NDArray[np.bool_], column: Any, remedy: str
) -> list[Problem]:
    """Return one kind of trouble in a column, where there is any."""
    rows = np.flatnonzero(where)
    if not rows.size:
        return []
    places = []
    for row in rows[:_PLACES].tolist():
        file, number = table.place(row)
        value = _shown(column, row)
        places.append((file, number, "" if value is None else str(value)[:60]))
    return [Problem(what, name, tuple(places), int(rows.size), remedy)]
