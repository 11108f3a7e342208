"""Rows of numbers for a model: by what is public about columns, or by the names of a table.

`Features` says which columns of a table a model reads where `Columns` are stated. Where ranges
are stated by position, `numbers` reads a table by the names that the fit saw: a frame whose
columns come in another order is put in order or refused, and never read by position. Each value
is read by itself; a number column is never taken for text, or text for numbers, because of the
other values in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.files import Source
from tacit.data.kinds import Kind, Number
from tacit.data.matrices import as_array, check_lengths, check_shape
from tacit.data.problems import Problem, raise_for, trouble
from tacit.data.reading import Table, is_table, read_rows
from tacit.data.rows import Rows
from tacit.data.schema import Columns
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "ANY_NUMBER",
    "Features",
    "by_position",
    "common_names",
    "labels_of",
    "numbers",
    "one_column",
    "settled",
    "with_response",
]

ANY_NUMBER = Number(-8e307, 8e307)  # any number that is finite: its range is twice that
_FILL_IN = "fill it in, or take the row out"


@dataclass(frozen=True)
class Features:
    """Which columns of a table a model reads.

    Parameters
    ----------
    columns
        What is public about the table.
    target
        The column that is explained; None where there is none.
    positions
        Whether a model sees categories as positions in their lists, and not as indicators.
    beside
        Columns that are read and are no features, such as weights.

    Examples
    --------
    >>> from tacit.data.stating import category, number
    >>> columns = Columns(age=number(20, 90), sex=category("f", "m"), dose=number(0, 5))
    >>> features = Features.of(columns, "dose", "a network")
    >>> features.names, list(features.ranges)
    (('age', 'sex'), ['age', 'sex=m'])
    >>> features.encode({"sex": ["m"], "age": [40]}).tolist()
    [[40.0, 1.0]]
    """

    columns: Columns
    target: str | None = None
    positions: bool = False
    beside: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        columns: Columns,
        target: str | None,
        what: str,
        *,
        explains: bool = True,
        positions: bool = False,
        beside: Sequence[str] = (),
    ) -> Features:
        """Return the features of a model, or raise what is wrong with them.

        ``what`` names the model in errors; one that ``explains`` nothing has no target. Columns
        ``beside`` are read and are no features.
        """
        name = (target or columns.target) if explains else None
        if explains and (name is None or name not in columns):
            raise ParameterError(
                f"target must be one of the columns, got {name!r}: pass target='the column to "
                "explain'"
            )
        for own, kind in columns.items():
            if not kind.modelled:
                raise ParameterError(f"column {own!r} is {kind.word}, which {what} does not read")
        found = cls(columns, name, positions, tuple(beside))
        if not found.names:
            raise ParameterError("columns must name a feature besides the target")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """The caller's own columns that are features, in the order in which they were stated."""
        return tuple(n for n in self.columns if n != self.target and n not in self.beside)

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """The numbers that a model sees of the features: name → public range."""
        return self.columns.encoded(self.names, positions=self.positions)

    def matrix(self, rows: Rows) -> NDArray[np.float64]:
        """Return what a model sees of a holder's rows; a row per unit."""
        return rows.matrix(self.names, positions=self.positions)

    @property
    def response(self) -> Kind:
        """The kind of the target."""
        assert self.target is not None
        return self.columns[self.target]

    def read(self, data: Any) -> Rows:
        """Return a holder's rows, or raise everything that is wrong with them.

        Data are a table with all columns, or a pair: features, and their responses beside them.
        """
        names = [*self.names, *self.beside]
        if self.target is not None:
            names.append(self.target)
            if isinstance(data, tuple) and len(data) == 2:
                data = with_response(read_rows(data[0], names[:-1]), data[1], self.target)
        return self.columns.read(data, names)

    def encode(self, X: Any) -> NDArray[np.float64]:
        """Return what a model sees of rows to predict for, found by name."""
        return self.columns.encode(X, self.names, positions=self.positions)


def with_response(table: Table, y: Any, target: str) -> Table:
    """Return a table of features with a column of responses."""
    named = read_rows({target: one_column(y)})
    check_lengths(table.rows, named.rows)
    return Table(
        table.frame.with_columns(named.column(target)), table.na, table.places, table.written
    )


def one_column(y: Any) -> Any:
    """Return responses as one column: of a table with one column that one, of a row each."""
    if is_table(y):
        table = read_rows(y)
        if table.frame.width != 1:
            raise ParameterError(
                f"y must be one column of responses, got {table.frame.columns[:20]}"
            )
        return table.column(table.frame.columns[0])
    if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1:
        return y[:, 0]
    return y


# -- ranges by position, columns by name ---------------------------------------------------------


def settled(data: Any) -> Any:
    """Return data that can be read more than once: a stream of Arrow batches is read here."""
    return read_rows(data) if hasattr(data, "read_all") else data


def labels_of(data: Any) -> tuple[str, ...]:
    """Return the names of a table's columns; none of an array. No value is looked at.

    >>> labels_of({"age": [40], "dose": [1.0]}), labels_of(np.zeros((1, 2)))
    (('age', 'dose'), ())
    """
    if not is_table(data):
        return ()
    if isinstance(data, Mapping):
        return tuple(str(name) for name in data)
    if isinstance(data, str | os.PathLike | Source):
        return tuple(read_rows(data).frame.columns)
    import narwhals as nw

    if isinstance(data, Table):
        return tuple(data.frame.columns)
    if hasattr(data, "read_all"):  # a stream, which is not read here
        return tuple(str(name) for name in data.schema.names)
    if hasattr(data, "iloc"):
        return tuple(str(name) for name in data.columns)
    return tuple(str(name) for name in nw.from_native(data).collect_schema().names())


def by_position(labels: Sequence[str]) -> bool:
    """Whether labels are 0, 1, 2 …: those of a frame whose columns nobody named."""
    return list(labels) == [str(k) for k in range(len(labels))]


def common_names(found: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the names that the features go by: those of the first table that has names.

    >>> common_names([(), ("0", "1"), ("age", "dose"), ("dose", "age")])
    ('age', 'dose')
    """
    named = [tuple(labels) for labels in found if labels]
    return next((labels for labels in named if not by_position(labels)), (named or [()])[0])


def numbers(
    data: Any,
    names: Sequence[str] = (),
    *,
    fitted: bool = False,
    images: bool = False,
    finite: bool = True,
    missing: bool = False,
) -> NDArray[Any]:
    """Return rows as numbers, or raise everything that is wrong with them.

    Parameters
    ----------
    data
        A table wherever it is kept, or an array with one row per unit.
    names
        The features in their order, where they have names: a table's columns are found by them,
        in any order and in another case, and those that are not named are not looked at.
    fitted
        Whether the names are those of an earlier fit: a table is then refused where it had none.
    images
        Whether rows of an array may have several axes.
    finite
        Whether an infinite number is wrong, or merely outside its bounds.
    missing
        Whether what is missing comes out as NaN, instead of being wrong.

    Examples
    --------
    >>> numbers({"b": ["2", "4"], "a": [1, 3]}, ["a", "b"]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if is_table(data):
        return _from_table(read_rows(data), names, fitted, finite, missing)
    array = as_array(data)
    check_shape(array.shape, images=images)
    if names and array.ndim == 2 and array.shape[1] != len(names):
        raise ParameterError(f"X must have the columns {list(names)[:20]}, got {array.shape[1]}")
    if array.dtype.kind not in "iuf":
        if array.ndim != 2:
            raise ParameterError(f"X must hold numbers, got {array.dtype}")
        own = list(names) or [str(k) for k in range(array.shape[1])]
        return _from_table(read_rows(array, own), own, False, finite, missing)
    _check_numbers(array, names, finite, missing)
    return array


def _from_table(
    table: Table, names: Sequence[str], fitted: bool, finite: bool, missing: bool
) -> NDArray[np.float64]:
    own = list(table.frame.columns)
    if not names and fitted and not by_position(own):
        raise ParameterError(
            "the model was fitted without names, so nothing says which column is which: pass an "
            f"array in the order of the fit, instead of a table with {own[:20]}"
        )
    wanted = list(names) or own
    if not wanted:
        raise ParameterError("the table has no columns: a model needs at least one feature")
    remedy = f"the table has {own[:20]}"
    raise_for(
        Problem("no such column", name, (), 1, remedy) for name in wanted if not table.has(name)
    )
    problems: list[Problem] = []
    parts = []
    for name in wanted:
        column = table.column(name)
        parsed = table.parse(name, ANY_NUMBER)
        problems += trouble(table, "unreadable", name, parsed.bad, column, ANY_NUMBER.remedy)
        if not missing:
            problems += trouble(table, "missing", name, parsed.missing, column, _FILL_IN)
        if finite:
            remedy = "a finite number is needed"
            problems += trouble(table, "infinite", name, parsed.outside, column, remedy)
        parts.append(parsed.values)
    raise_for(problems)
    return np.column_stack(parts)


def _check_numbers(array: NDArray[Any], names: Sequence[str], finite: bool, missing: bool) -> None:
    """Raise where numbers of an array are missing or infinite, column by column."""
    kinds: dict[str, Callable[[Any], Any]] = {} if missing else {"missing": np.isnan}
    if finite:
        kinds["infinite"] = np.isinf
    if array.dtype.kind != "f" or not kinds:
        return
    flat = array.reshape(len(array), -1)
    problems: list[Problem] = []
    for k in _columns_with(flat, list(kinds.values())):
        column = flat[:, k]
        label = names[k] if names and array.ndim == 2 else str(k)
        for what, is_wrong in kinds.items():
            rows = np.flatnonzero(is_wrong(column))
            if rows.size:
                shown = [(row + 1, str(column[row])) for row in rows[:20].tolist()]
                places = tuple(("X", row, "NaN" if v == "nan" else v) for row, v in shown)
                problems.append(Problem(what, label, places, int(rows.size), _FILL_IN))
    raise_for(problems)


def _columns_with(flat: NDArray[Any], wrong: Sequence[Callable[[Any], Any]]) -> list[int]:
    """Return the columns that hold what is wrong; pieces keep what is large out of memory."""
    found = np.zeros(flat.shape[1], bool)
    for start in range(0, len(flat), 1 << 14):
        piece = flat[start : start + (1 << 14)]
        for is_wrong in wrong:
            found |= is_wrong(piece).any(axis=0)
    return np.flatnonzero(found).tolist()
