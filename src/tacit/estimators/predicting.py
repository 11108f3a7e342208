"""Tables of rows to predict for: what they may hold, and answers beside them.

Some models predict for a row by itself. Others (a recommender, a factorization) predict from
somebody's own values: then rows with a value are that person's own, and rows without one are what
is asked for. Predictions from one's own values are one's own too: they are no release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.data.kinds import Category, Date, Kind, Number
from tacit.data.reading import Table
from tacit.data.schema import Columns
from tacit.data.truth import Boolean
from tacit.data.values import plain_text, texts
from tacit.errors import ParameterError

__all__ = [
    "beside",
    "columns_schema",
    "own_and_asked",
    "part_of",
    "predicted",
    "schema_of",
    "shown_level",
    "spread_about",
]


def predicted(model: Any, table: Table) -> dict[str, list[Any]]:
    """Return what a model predicts for every row by itself."""
    if not hasattr(model, "predict"):
        raise ParameterError(
            f"{type(model).__name__} predicts nothing: look at it with tacit report"
        )
    return beside(table, {"prediction": model.predict(dict(table))})


def schema_of(model: Any) -> dict[str, dict[str, Any]]:
    """Return what a row holds that a model predicts for by itself; empty: it predicts nothing."""
    if not hasattr(model, "predict"):
        return {}
    names, count = getattr(model, "_names_in", ()), getattr(model, "n_features_in_", 0)
    return columns_schema(model._stated_columns, names, count)


def beside(
    table: Table, found: Mapping[str, Any], rows: Sequence[int] | None = None
) -> dict[str, list[Any]]:
    """Return answers beside the rows that they are for.

    Parameters
    ----------
    table
        Rows; their cells are shown as they were written, such as ``0012``.
    found
        Name → one answer for each row.
    rows
        Which rows the answers are for; all unless given.
    """
    own: dict[str, list[Any]] = {
        name: texts(table.column(name)).to_list() for name in table if name not in found
    }
    if rows is not None:
        own = {name: [cells[k] for k in rows] for name, cells in own.items()}
    answers = {name: np.asarray(values).tolist() for name, values in found.items()}
    return own | answers


def own_and_asked(table: Table, value: str) -> tuple[list[int], list[int]]:
    """Return which rows have a value of their own, and which ask for one.

    Parameters
    ----------
    table
        Rows.
    value
        The column of values; where it is missing every row asks.
    """
    if not table.has(value):
        return [], list(range(table.rows))
    _, absent = table.names(value)
    return np.flatnonzero(~absent).tolist(), np.flatnonzero(absent).tolist()


def part_of(table: Table, rows: Sequence[int], names: Sequence[str]) -> dict[str, Any]:
    """Return some columns of some rows."""
    return {name: np.asarray(table[name])[list(rows)] for name in names}


def spread_about(mean: Any, sd: Any, interval: float) -> dict[str, Any]:
    """Return the bounds that hold a normal number with a probability.

    Parameters
    ----------
    mean, sd
        Of every row.
    interval
        The probability.
    """
    from scipy.special import ndtri

    if not 0.0 < interval < 1.0:
        raise ParameterError(f"interval must lie between 0 and 1, got {interval:g}")
    reach = float(ndtri(0.5 + interval / 2.0)) * np.asarray(sd)
    return {"low": np.asarray(mean) - reach, "high": np.asarray(mean) + reach}


def columns_schema(
    columns: Columns | None, names: Sequence[str], count: int = 0
) -> dict[str, dict[str, Any]]:
    """Return what a row holds, column by column, as JSON Schema says it.

    Parameters
    ----------
    columns
        What is public about the table, where it was stated.
    names
        The columns that are read; numbered ones without names.
    count
        How many there are, where they have no names.
    """
    known = list(names) or [str(k) for k in range(count)]
    if columns is None:
        return {name: {"type": "number"} for name in known}
    return {name: _schema(columns[name]) for name in known if name in columns}


def _schema(kind: Kind) -> dict[str, Any]:
    if isinstance(kind, Category):
        return {"type": "string", "enum": [plain_text(level) for level in kind.levels]}
    if isinstance(kind, Boolean):
        return {"type": "boolean"}
    if isinstance(kind, Date):
        return {"type": "string", "description": "a date, such as 2026-01-31"}
    if isinstance(kind, Number):
        low, high = kind.range
        return {"type": "number", "description": f"from {low:g} to {high:g}"}
    return {"type": "string"}


def shown_level(label: Any) -> str:
    """Return the name of a column with the probability of a label."""
    return f"p({plain_text(label)})"
