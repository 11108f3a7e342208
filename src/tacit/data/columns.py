"""The names and the arrays of a frame's columns, where it is read piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["column_array", "column_names", "is_missing"]


def column_names(table: Any) -> list[Any]:
    """Return the names of the columns of a mapping or a table; none of anything else."""
    if isinstance(table, Mapping) and not hasattr(table, "toarray"):  # SciPy's hold cells by key
        return list(table)
    for attribute in ("column_names", "columns"):  # Arrow; pandas and Polars
        names = getattr(table, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return []


def column_array(values: Any) -> NDArray[Any]:
    """Return a column as an array, whatever table it comes from."""
    if hasattr(values, "to_numpy"):
        try:
            return np.asarray(values.to_numpy())
        except (TypeError, ValueError):  # Arrow refuses to copy unless told to
            return np.asarray(values.to_numpy(zero_copy_only=False))
    return np.asarray(values)


def is_missing(value: Any) -> bool:
    """Whether a value marks a missing one: None, NaN or pandas' NA and NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
