"""What an array of rows must be like, in the words that scikit-learn's users and checks know.

Shapes, lengths and types are checked here; what the values say is read by `tacit.data.features`.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.columns import column_array
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "WrongType",
    "as_array",
    "check_lengths",
    "check_shape",
    "real_array",
    "row_shape",
    "warn_of_column",
]


class WrongType(ParameterError, TypeError):
    """A cell of another type than numbers: also what scikit-learn expects for such."""


def as_array(values: Any, what: str = "X") -> NDArray[Any]:
    """Return values as a dense array; what is masked becomes NaN, truth values zeros and ones.

    Arrays and memory maps of numbers are not copied.

    Parameters
    ----------
    values
        An array, a SciPy matrix, a list of rows or a column of a frame.
    what
        What an error calls it.

    Examples
    --------
    >>> as_array(np.ma.masked_equal([[1.0, 2.0]], 2.0))
    array([[ 1., nan]])
    """
    if hasattr(values, "toarray"):
        values = values.toarray()
    if isinstance(values, np.ma.MaskedArray):
        values = np.where(np.ma.getmaskarray(values), np.nan, values.data)
    try:
        array = column_array(values)
    except Exception:  # an object of the caller's may raise what it likes
        raise ParameterError(f"{what} must hold numbers, row by row of one length") from None
    if array.dtype.kind == "c":
        raise ParameterError(f"Complex data not supported: {what} must hold real numbers")
    if array.dtype == object:
        _check_cells(array, what)
    odd = array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8)
    if array.dtype == bool or odd or not array.dtype.isnative:
        return array.astype(np.float64)
    return array


def real_array(given: Any, what: str) -> NDArray[np.float64]:
    """Return public numbers that a caller states as an array, for nothing else than numbers.

    Text that reads as numbers, dates, truth values of something hidden behind a mask and complex
    numbers are refused by name.

    Examples
    --------
    >>> real_array([[1, 2.5]], "embeddings")
    array([[1. , 2.5]])
    >>> real_array(["1"], "embeddings")
    Traceback (most recent call last):
    tacit.errors.ParameterError: embeddings must be an array of numbers
    """
    if np.ma.is_masked(given):
        raise ParameterError(f"{what} hides entries behind a mask: pass {what}.filled(…)")
    try:
        array = np.asarray(given.toarray() if hasattr(given, "toarray") else given)
    except Exception:  # an object of the caller's may raise what it likes
        raise ParameterError(f"{what} must be an array of numbers") from None
    if array.dtype == object and all(isinstance(x, Real) for x in array.ravel().tolist()):
        array = array.astype(np.float64)
    if array.dtype.kind == "c":
        raise ParameterError(f"{what} must hold real numbers")
    if array.dtype.kind not in "biuf" or array.dtype.names:
        raise ParameterError(f"{what} must be an array of numbers")
    return np.asarray(array, np.float64)


def _check_cells(array: NDArray[Any], what: str) -> None:
    """Raise where a cell holds several values."""
    for cell in array.ravel().tolist():
        if isinstance(cell, Collection) and not isinstance(cell, str | bytes):
            raise WrongType(
                f"{what} must hold numbers, row by row of one length: an argument must be a "
                f"string or a number, not {type(cell).__name__!r}"
            )


def row_shape(X: Any, what: str = "X", *, images: bool = False) -> tuple[int, ...]:
    """Return the shape of rows, checked; no value is looked at where X knows its shape."""
    shape = getattr(X, "shape", None)
    found = np.asarray(X, object).shape if shape is None else tuple(int(n) for n in shape)
    check_shape(found, what, images=images)
    return found


def check_shape(shape: tuple[int, ...], what: str = "X", *, images: bool = False) -> None:
    """Raise unless a shape is that of one row or more, with one feature or more.

    Parameters
    ----------
    shape
        Of an array.
    what
        What an error calls it.
    images
        Whether rows may have several axes.
    """
    if len(shape) < 2 or (len(shape) > 2 and not images):
        raise ParameterError(
            f"{what} must have two axes, samples × features, and one row per example, got shape "
            f"{shape}. Reshape your data with X.reshape(-1, 1) if it has a single feature, or "
            "X.reshape(1, -1) if it is a single example"
        )
    for axis, name in ((0, "sample"), (1, "feature")):
        if not shape[axis]:
            raise ParameterError(
                f"Found array with 0 {name}(s) (shape={shape}) while a minimum of 1 is required."
            )


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
