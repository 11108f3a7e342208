"""Rows of numbers as scikit-learn's users pass them, checked in scikit-learn's words.

What cannot be used is refused to the holder, before anything is paid; the words are those that
scikit-learn's own checks look for, with the row and the column beside them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.columns import column_array, column_names, is_missing
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "WrongType",
    "as_column",
    "as_matrix",
    "as_numbers",
    "check_finite",
    "check_lengths",
    "in_order",
    "row_shape",
    "text_names",
    "warn_of_column",
]

_PIECE = 1 << 16  # rows that are looked at together, so that a memory map is never copied
_SHOWN = 5  # names in an error


class WrongType(ParameterError, TypeError):
    """Something of another type than numbers: also what scikit-learn expects for such."""


def as_matrix(X: Any, what: str = "X", *, images: bool = False) -> NDArray[Any]:
    """Return rows of real numbers, (rows, features); what is missing becomes NaN.

    Arrays and memory maps of numbers are not copied.

    Parameters
    ----------
    X
        An array, a list of rows or a frame.
    what
        What an error calls it.
    images
        Whether rows may have several axes.

    Examples
    --------
    >>> as_matrix([[1, None], [2, 3.5]])
    array([[1. , nan],
           [2. , 3.5]])
    """
    array = as_numbers(X, what)
    check_shape(array.shape, what, images=images)
    return array


def row_shape(X: Any, what: str = "X", *, images: bool = False) -> tuple[int, ...]:
    """Return the shape of rows, checked; no value is looked at where X knows its shape."""
    _check_dense(X, what)
    shape = getattr(X, "shape", None)
    if isinstance(X, Mapping):
        shape = (len(next(iter(X.values()), ())), len(X))
    found = np.asarray(X, object).shape if shape is None else tuple(int(n) for n in shape)
    check_shape(found, what, images=images)
    return found


def check_shape(shape: tuple[int, ...], what: str = "X", *, images: bool = False) -> None:
    """Raise unless a shape is that of one row or more, with one feature or more."""
    if len(shape) < 2 or (len(shape) > 2 and not images):
        raise ParameterError(
            f"{what} must have two axes, samples × features, got shape {shape}: one row per "
            "example. Reshape your data with X.reshape(-1, 1) if it has a single feature, or "
            "X.reshape(1, -1) if it is a single example"
        )
    for axis, name in ((0, "sample"), (1, "feature")):
        if not shape[axis]:
            raise ParameterError(
                f"Found array with 0 {name}(s) (shape={shape}) while a minimum of 1 is required."
            )


def as_numbers(values: Any, what: str) -> NDArray[Any]:
    """Return an array of real numbers; None, pandas' NA and what is masked become NaN."""
    _check_dense(values, what)
    if isinstance(values, np.ma.MaskedArray):
        values = np.where(np.ma.getmaskarray(values), np.nan, values.data)
    try:
        array = column_array(values)
        if array.dtype == object:
            flat = [np.nan if is_missing(v) else float(v) for v in array.ravel().tolist()]
            array = np.array(flat).reshape(array.shape)
    except TypeError as error:
        raise WrongType(f"{what} must hold numbers, row by row of one length: {error}") from None
    except (ValueError, OverflowError):
        raise ParameterError(f"{what} must hold numbers, row by row of one length") from None
    if array.dtype.kind == "c":
        raise ParameterError(f"Complex data not supported: {what} must hold real numbers")
    if array.dtype == bool:
        array = array.astype(np.float64)
    if array.dtype.kind not in "iuf":
        raise ParameterError(f"{what} must hold real numbers, got {array.dtype}")
    odd = array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8)
    return array.astype(np.float64) if odd or not array.dtype.isnative else array


def _check_dense(values: Any, what: str) -> None:
    if hasattr(values, "tocsr"):
        raise WrongType(
            f"{what} must hold numbers in an array: sparse data was passed, but dense data is "
            "required, pass .toarray()"
        )


def as_column(y: Any, rows: int, what: str = "y") -> NDArray[Any]:
    """Return one number for each row.

    >>> as_column([[1], [2]], 2)
    array([1, 2])
    """
    array = as_numbers(y, what)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array.reshape(-1)
    if array.ndim != 1:
        raise ParameterError(
            f"{what} should be a 1d array: it must have one value for each row of X, got shape "
            f"{array.shape}"
        )
    check_lengths(rows, len(array), what)
    return array


def warn_of_column(y: Any) -> None:
    """Warn where a caller's y has a second axis, as scikit-learn does."""
    shape: tuple[int, ...] = getattr(y, "shape", ())
    if len(shape) == 2 and shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: pass y.ravel()",
            DataConversionWarning,
            stacklevel=3,
        )


def check_lengths(rows: int, values: int, what: str = "y") -> None:
    """Raise unless there is one value for each row."""
    if rows != values:
        raise ParameterError(
            f"{what} must have one value for each row of X: found input variables with "
            f"inconsistent numbers of samples: [{rows}, {values}]"
        )


def check_finite(
    array: NDArray[Any], what: str = "X", names: Sequence[Any] = (), *, clipped: bool = False
) -> None:
    """Raise where a number is missing or infinite, naming the first row and column.

    Parameters
    ----------
    array
        Numbers, a row each.
    what
        What an error calls it.
    names
        How the columns are called, where they have names.
    clipped
        Whether an infinite value is clipped to its bounds, and only a missing one is refused.
    """
    if array.dtype.kind != "f":
        return
    is_bad = np.isnan if clipped else lambda piece: ~np.isfinite(piece)
    for start in range(0, len(array), _PIECE):
        piece = array[start : start + _PIECE].reshape(len(array[start : start + _PIECE]), -1)
        wrong = is_bad(piece)
        if not wrong.any():
            continue
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        value = "NaN" if np.isnan(piece[row, column]) else "infinity (inf)"
        called = f", column {names[column]!r}" if len(names) else f", column {column}"
        where = called if array.ndim > 1 else ""
        raise ParameterError(
            f"row {start + row + 1} of {what}{where} is missing: input {what} contains {value}, "
            "and must be finite. Fill such rows in, or take them out, before loading"
        )


def text_names(table: Any) -> list[str]:
    """Return how a frame's columns are called, where all of them have names that are text."""
    names = column_names(table)
    return list(names) if names and all(isinstance(name, str) for name in names) else []


def in_order(table: Any, names: Sequence[str]) -> Any:
    """Return the named columns of a frame in that order; further ones are not looked at."""
    found = column_names(table)
    missing = [name for name in names if name not in found]
    if missing:
        unseen = [name for name in found if name not in set(names)]
        raise ParameterError(
            "The feature names should match those that were passed during fit.\n"
            + _listed("Feature names unseen at fit time:", unseen)
            + _listed("Feature names seen at fit time, yet now missing:", missing)
            + f"there is no column {missing[0]!r} to predict from"
        )
    if isinstance(table, Mapping):
        return np.column_stack([as_numbers(table[name], f"column {name!r}") for name in names])
    if list(names) == found:
        return table
    return table.select(list(names)) if hasattr(table, "select") else table[list(names)]


def _listed(words: str, names: Sequence[Any]) -> str:
    if not names:
        return ""
    shown = sorted(map(str, names))
    more = "- ...\n" if len(shown) > _SHOWN else ""
    return f"{words}\n" + "".join(f"- {name}\n" for name in shown[:_SHOWN]) + more
