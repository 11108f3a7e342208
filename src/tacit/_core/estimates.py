"""Estimates with standard errors, as tables and pictures have them: one form for every family."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit._core.answers import ERROR, Table
from tacit._core.pictures import Intervals

__all__ = ["HIGH", "LOW", "ends", "estimates", "few", "intervals", "strongest", "texts"]

LOW, HIGH = "low", "high"  # the ends of an interval, whatever its level is
MOST = 12  # bars, words or members that a picture shows


def ends(
    values: Any, errors: Any, level: float, within: tuple[float, float] = (-math.inf, math.inf)
) -> tuple[list[float | None], list[float | None]]:
    """Return the ends of normal intervals, cut at what is possible; None where none is known.

    >>> low, high = ends([1.0, 2.0], [0.5, None], 0.9, within=(0.5, 9.0))
    >>> low, [None if end is None else round(end, 2) for end in high]
    ([0.5, None], [1.82, None])
    """
    from scipy.special import ndtri

    far = float(ndtri(0.5 + level / 2.0))
    lows: list[float | None] = []
    highs: list[float | None] = []
    for value, error in zip(values, errors, strict=True):
        known = error is not None and math.isfinite(float(error))
        lows.append(max(within[0], float(value) - far * float(error)) if known else None)
        highs.append(min(within[1], float(value) + far * float(error)) if known else None)
    return lows, highs


def estimates(
    names: Mapping[str, Sequence[Any]],
    heading: str,
    values: Any,
    errors: Any,
    level: float,
    within: tuple[float, float] = (-math.inf, math.inf),
) -> dict[str, list[Any]]:
    """Return the columns of a table of estimates: names, value, standard error, interval.

    Parameters
    ----------
    names
        Heading → what each row is about, as the caller calls it.
    heading
        Of the values.
    values, errors
        Numbers and their standard errors; None, as a whole or one by one, where none is known.
    level, within
        Of the intervals, and what the numbers cannot leave.

    Examples
    --------
    >>> estimates({"item": ["tea"]}, "offset", [0.5], None, 0.9)
    {'item': ['tea'], 'offset': [0.5]}
    """
    found = [float(value) for value in np.ravel(np.asarray(values, np.float64))]
    columns: dict[str, list[Any]] = {one: texts(given) for one, given in names.items()}
    columns[heading] = found
    if errors is None:
        return columns
    known = [None if error is None else float(error) for error in errors]
    low, high = ends(found, known, level, within)
    return columns | {ERROR: known, LOW: low, HIGH: high}


def intervals(title: str, axis: str, table: Table, heading: str, *, reference: Any = None) -> Any:
    """Return a picture of the first rows of a table of estimates, labelled by its text columns.

    Without errors the intervals have no length.
    """
    columns = {name: list(values)[:MOST] for name, values in table.columns.items()}
    values = columns[heading]
    words = [column for name, column in columns.items() if _is_text(column) and name != heading]
    labels = [" · ".join(str(part) for part in row) for row in zip(*words, strict=True)]
    low, high = (
        [value if end is None else end for end, value in zip(found, values, strict=True)]
        for found in (columns.get(LOW, values), columns.get(HIGH, values))
    )
    return Intervals(title, axis, labels, values, low, high, reference)


def strongest(values: Any, most: int = MOST) -> list[int]:
    """Return the positions of the largest and the smallest numbers, from the top down.

    >>> strongest([3.0, 1.0, 2.0, -5.0, 0.0], 4)
    [0, 2, 4, 3]
    """
    order = np.argsort(-np.asarray(values, np.float64), kind="stable").tolist()
    if len(order) <= most:
        return [int(k) for k in order]
    return [int(k) for k in (*order[: (most + 1) // 2], *order[-(most // 2) :])]


def texts(names: Iterable[Any]) -> list[str]:
    """Return names as text: a number that is a name is not rounded and not added up."""
    return [str(name) for name in names]


def few(names: Sequence[Any], most: int = 3) -> str:
    """Return the first of some names in a sentence.

    >>> few(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    shown = ", ".join(texts(names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _is_text(column: Sequence[Any]) -> bool:
    return all(isinstance(value, str) for value in column)
