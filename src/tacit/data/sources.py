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

__all__ = ["numeric_columns"]


def numeric_columns(table: Any, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Return the named columns of a table as float arrays of one length.

    Parameters
    ----------
    table
        A mapping of columns, a two-axis NumPy array whose columns are in the order of
        ``names``, or a pandas, Polars or Arrow table.
    names
        Which columns.

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
    available = (
        list(table) if isinstance(table, Mapping)
        else list(getattr(table, "column_names", None) or getattr(table, "columns", None) or [])
    )  # fmt: skip
    if not available:
        raise ParameterError(
            "data must be a mapping of columns, a two-axis array, or a pandas, Polars or Arrow "
            f"table, got {type(table).__name__}"
        )
    if name not in available:
        raise ParameterError(f"there is no column {name!r}: the table has {available[:20]}")
    return table[name]


def _as_floats(name: str, values: Any) -> NDArray[np.float64]:
    if hasattr(values, "to_numpy"):
        try:
            values = values.to_numpy()
        except (TypeError, ValueError):  # Arrow refuses to copy unless told to
            values = values.to_numpy(zero_copy_only=False)
    array = np.asarray(values)
    if array.ndim != 1:
        raise ParameterError(f"column {name!r} must have one axis, got {array.ndim}")
    if array.dtype == object:
        array = np.array([np.nan if value is None else value for value in array.tolist()])
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ParameterError(f"column {name!r} must be numeric, got {array.dtype}")
    if np.issubdtype(array.dtype, np.complexfloating):
        raise ParameterError(f"column {name!r} must be real")
    return array.astype(np.float64)
