"""Named columns from whatever a table is kept in.

Loading is the holder's own business: bad data is refused here with a clear error, to the
holder. What is merely missing or out of bounds is left for clipping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_present", "column_array", "column_names", "is_missing", "numeric_columns"]


def numeric_columns(table: Any, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the named columns of a table as float arrays of one length.

    A table is a mapping of columns, a two-axis NumPy array whose columns are in the order of
    ``names``, or a pandas, Polars or Arrow table.

    Examples
    --------
    >>> numeric_columns({"age": [40, 50]}, ["age"])
    {'age': array([40., 50.])}
    """
    if isinstance(table, np.ndarray):
        if table.ndim != 2 or table.shape[1] != len(names):
            raise ParameterError(
                f"an array must have one column for each of {list(names)}, got shape {table.shape}"
            )
        found: dict[str, Any] = {name: table[:, k] for k, name in enumerate(names)}
    else:
        found = {name: _column(table, name) for name in names}
    columns = {name: _as_floats(name, values) for name, values in found.items()}
    lengths = {values.size for values in columns.values()}
    if len(lengths) > 1:
        raise ParameterError(f"columns must have one length, got {sorted(lengths)}")
    return columns


def _column(table: Any, name: str) -> Any:
    available = column_names(table)
    if not available:
        raise ParameterError(
            "data must be a mapping of columns, a two-axis array, or a pandas, Polars or Arrow "
            f"table, got {type(table).__name__}"
        )
    if name not in available:
        raise ParameterError(f"there is no column {name!r}: the table has {available[:20]}")
    return table[name]


def column_names(table: Any) -> list[Any]:
    """Return the names of the columns of a mapping or a table; none of anything else."""
    if isinstance(table, Mapping):
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


def _as_floats(name: str, values: Any) -> NDArray[np.float64]:
    try:
        array = column_array(values)
        if array.ndim != 1:
            raise ParameterError(f"column {name!r} must have one axis, got {array.ndim}")
        if array.dtype == object:  # None and pandas' NA mark missing values
            array = np.array([_number_or_nan(value) for value in array.tolist()])
    except (ValueError, TypeError) as error:
        if isinstance(error, ParameterError):
            raise
        raise ParameterError(f"column {name!r} must be numeric and regular: {error}") from None
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ParameterError(f"column {name!r} must be numeric, got {array.dtype}")
    if np.issubdtype(array.dtype, np.complexfloating):
        raise ParameterError(f"column {name!r} must be real")
    return array.astype(np.float64)


def check_present(array: NDArray[Any], what: str) -> None:
    """Raise where a number is missing, naming the first row; to the holder."""
    if array.dtype.kind not in "fO" or not len(array):
        return
    table = np.isnan(array if array.dtype.kind == "f" else array.astype(np.float64))
    table = table.reshape(len(array), -1)
    rows = np.flatnonzero(table.any(axis=1))
    if rows.size:
        column = int(np.flatnonzero(table[rows[0]])[0])
        where = f", column {column}" if table.shape[1] > 1 else ""
        raise ParameterError(
            f"row {rows[0] + 1} of {what}{where} is missing ({rows.size} rows in all): fill them "
            "in, or take them out"
        )


def is_missing(value: Any) -> bool:
    """Whether a value marks a missing one: None, NaN or pandas' NA and NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def _number_or_nan(value: Any) -> Any:
    """Return a value, or NaN for the marks of a missing one."""
    return np.nan if is_missing(value) else value
