"""What a holder reads: features and responses in pieces, and their exact sum.

`row_pieces` goes through a source once and yields pairs (x, y) of arrays: rows × features, and
rows; never all in memory at once. NumPy arrays and memory maps are not copied. Loading is the
holder's own business: a missing value is refused here with a clear error, to the holder. Constant
and collinear features are not: that would be a function of all rows that nobody paid for.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit.data.columns import column_names, is_missing
from tacit.data.features import Features, numbers, one_column
from tacit.data.files import Source
from tacit.data.matrices import WrongType, as_array, check_lengths, check_shape
from tacit.data.reading import Table, read_rows
from tacit.data.schema import Columns
from tacit.errors import MissingExtra, ParameterError
from tacit.regression.design import Design
from tacit.regression.outer import ExactSum

__all__ = [
    "SiteSum",
    "check_piece",
    "collect",
    "read_columns",
    "row_pieces",
    "summarise",
]

# rows of a piece: small enough for memory, large enough to make Python's share vanish
PIECE = 1 << 16


@dataclass(frozen=True)
class SiteSum:
    """A site's exact sum over so many rows: private, and never leaves the site."""

    total: ExactSum
    count: int


def summarise(
    data: Any,
    design: Design,
    names: Sequence[str] | None = None,
    target: str | None = None,
    *,
    checked: bool = True,
) -> SiteSum:
    """Go through a site's rows (`row_pieces`) once and add up their outer products, exactly.

    Where it is ``checked``, a value that is not finite is an error, to the holder; else it counts
    as the middle of its bounds.
    """
    total = design.outer_sum()
    shown = names or tuple(f"column {k}" for k in range(design.features))
    for x, y in row_pieces(data, names or design.features, target):
        if checked:
            check_piece(x, y, total.count, shown)
        total.add(x, y)
    return SiteSum(total.result(), total.count)


def collect(data: Any, names: Sequence[str] | int, target: str | None) -> tuple[Array, Array]:
    """Return all features and responses of a site as they are: checked, not mapped, in memory."""
    parts: list[tuple[NDArray[Any], NDArray[Any]]] = []
    rows = 0
    shown = tuple(f"column {k}" for k in range(names)) if isinstance(names, int) else names
    for x, y in row_pieces(data, names, target):
        check_piece(x, y, rows, shown)
        parts.append((np.array(x, float), np.array(y, float)))
        rows += len(y)
    if not parts:
        return np.empty((0, len(shown))), np.empty(0)
    return np.concatenate([x for x, _ in parts]), np.concatenate([y for _, y in parts])


def read_columns(data: Any, columns: Columns, target: str, design: Design) -> SiteSum:
    """Add up the rows of a table by what is public about its columns; see `Columns.read`."""
    features = Features(columns, target)
    rows = features.read(data)
    x, y = rows.matrix(features.names), rows.matrix([target])
    return summarise((x, y[:, 0]), design)


def row_pieces(
    data: Any, features: Sequence[str] | int, target: str | None = None
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield (x, y) piece by piece, given the names of features, or their number for arrays.

    Data are a pair (X, y) of arrays, memory maps or tables; a mapping of columns; a pandas, Polars
    or Arrow table; a file, a Parquet file piece by piece; or an iterable of any of these.

    >>> [(x.shape, y.shape) for x, y in row_pieces(([[1.0, 2.0], [3.0, 4.0]], [0.5, 0.6]), 2)]
    [((2, 2), (2,))]
    """
    if isinstance(data, tuple) and len(data) == 2 and not _is_pair(data[0]):
        yield from _from_pair(data[0], data[1], features)
    elif isinstance(data, str | os.PathLike) and Path(data).suffix == ".parquet":
        yield from _from_parquet(data, *_named(features, target))
    elif isinstance(data, str | os.PathLike | Source | Table):  # text is read value by value
        wanted, last = _named(features, target)
        both = numbers(read_rows(data), [*wanted, last], finite=False)
        yield from _from_pair(both[:, :-1], both[:, -1], wanted)
    elif isinstance(data, np.ndarray):
        raise ParameterError(
            "a regression requires y to be passed, but the target y is None: pass fit(X, y), or "
            "the pair (X, y)"
        )
    elif column_names(data):
        yield from _from_table(data, *_named(features, target))
    elif isinstance(data, Iterable) and not isinstance(data, Mapping):
        for part in data:
            yield from row_pieces(part, features, target)
    else:
        raise ParameterError(
            "data must be a pair (X, y), a table, the path of a Parquet file or an iterable of "
            f"such pieces, got {type(data).__name__}"
        )


def check_piece(x: NDArray[Any], y: NDArray[Any], first: int, names: Sequence[str]) -> None:
    """Raise unless every number of a piece is finite, naming the row and the column."""
    if np.isfinite(x).all() and np.isfinite(y).all():
        return
    whole = np.column_stack([x, y])
    row, column = np.argwhere(~np.isfinite(whole))[0]
    name = [*names, "the response"][column]
    shown = str(whole[row, column]).replace("nan", "NaN")
    raise ParameterError(
        f"row {first + row} has no finite value of {name} ({shown}): drop or fill in such rows "
        "before loading"
    )


def _is_pair(data: Any) -> bool:
    """Whether a thing is itself a pair (X, y), so that what holds it is a list of pieces."""
    return isinstance(data, tuple)


def _named(features: Sequence[str] | int, target: str | None) -> tuple[list[str], str]:
    if isinstance(features, int) or target is None:
        raise ParameterError(
            "a table needs names: pass bounds={feature: (low, high)} and target='the column of "
            "the response'"
        )
    return list(features), target


def _numbers(values: Any, what: str) -> NDArray[Any]:
    """Return an array of real numbers; None and pandas' NA become NaN."""
    array = as_array(values, what)
    try:
        if array.dtype == object:
            flat = [np.nan if is_missing(v) else float(v) for v in array.ravel().tolist()]
            array = np.array(flat).reshape(array.shape)
    except TypeError as error:
        raise WrongType(f"{what} must hold numbers, row by row of one length: {error}") from None
    except (ValueError, OverflowError):
        raise ParameterError(f"{what} must hold numbers, row by row of one length") from None
    if array.dtype.kind not in "iuf":
        raise ParameterError(f"{what} must hold real numbers, got {array.dtype}")
    return array


def _from_pair(
    x: Any, y: Any, features: Sequence[str] | int
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    if hasattr(x, "toarray"):  # all of it would be in memory at once
        raise WrongType(
            "X must hold numbers in an array: sparse data was passed, but dense data is required, "
            "pass .toarray()"
        )
    width = features if isinstance(features, int) else len(features)
    names = column_names(x)
    if names:
        wanted = names if isinstance(features, int) else list(features)
        x = _columns(x, wanted)
    x, y = _numbers(x, "X"), _numbers(one_column(y), "y")
    check_shape(x.shape)
    if x.shape[1] != width:
        raise ParameterError(
            f"X must have {width} columns, one for each pair of bounds, got shape {x.shape}"
        )
    if y.ndim != 1:
        raise ParameterError(f"y should be a 1d array, one value for each row, got {y.shape}")
    check_lengths(len(x), len(y))
    for start in range(0, len(x), PIECE):
        yield x[start : start + PIECE], y[start : start + PIECE]


def _columns(table: Any, names: Sequence[str]) -> NDArray[Any]:
    available = column_names(table)
    for name in names:
        if name not in available:
            raise ParameterError(f"there is no column {name!r}: the table has {available[:20]}")
    arrays = [_numbers(table[name], f"column {name!r}") for name in names]
    if len({len(array) for array in arrays}) > 1:
        raise ParameterError("columns must have one length")
    return np.column_stack(arrays)


def _from_table(
    table: Any, features: list[str], target: str
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    if isinstance(table, Mapping):
        both = _columns(table, [*features, target])
        for start in range(0, len(both), PIECE):
            yield both[start : start + PIECE, :-1], both[start : start + PIECE, -1]
        return
    names = [*features, target]
    missing = [name for name in names if name not in column_names(table)]
    if missing:
        raise ParameterError(f"there is no column {missing[0]!r} in the table")
    rows = table.num_rows if hasattr(table, "num_rows") else len(table)
    for start in range(0, rows, PIECE):
        # pandas slices by position through iloc, Arrow and Polars through slice
        part = (
            table.iloc[start : start + PIECE]
            if hasattr(table, "iloc")
            else table.slice(start, PIECE)
        )
        both = _columns(part, names)
        yield both[:, :-1], both[:, -1]


def _from_parquet(
    path: str | os.PathLike[str], features: list[str], target: str
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    if not Path(path).exists():
        raise ParameterError(f"there is no file {path}")
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("reading Parquet", "frames") from None
    with parquet.ParquetFile(path) as file:
        known = file.schema_arrow.names
        for name in [*features, target]:
            if name not in known:
                raise ParameterError(f"there is no column {name!r}: {path} has {known[:20]}")
        for batch in file.iter_batches(batch_size=PIECE, columns=[*features, target]):
            both = _columns(batch, [*features, target])
            yield both[:, :-1], both[:, -1]
