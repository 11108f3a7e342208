"""One way in: a table from wherever it is kept, as named columns.

Files are read with every column as text (`tacit.data.files`); frames come through narwhals and
keep the types that their owner gave them, values of mixed types one by one as text. Loading is the
holder's own business: errors name file and row, to the holder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tacit._core.threads import threads
from tacit.data.files import FILES, Source, clear_numbers, plain_numbers, read_file, source
from tacit.data.kinds import Kind, Number, Parsed
from tacit.data.values import NA_WORDS, floats, lowered, plain_text, repeated, texts, trimmed
from tacit.errors import MissingExtra, ParameterError

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

_T = TypeVar("_T")
_EXACT = 2.0**53  # whole numbers up to here are told apart as decimals
_MANY = 20_000  # rows, from which on threads pay

__all__ = ["Source", "Table", "is_table", "joined", "read_rows", "source"]


class Table(Mapping[str, "NDArray[Any]"]):
    """A table as it was found: columns by name, and where each row came from.

    As a mapping it shows columns as they were found: numbers of a typed source, else text. What a
    text stands for is never guessed from the rest of its column: whoever knows the kinds of
    columns reads them by those (`tacit.data.schema.Columns`, `tacit.data.features.numbers`).
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        na: tuple[str, ...] = NA_WORDS,
        places: tuple[tuple[str, int], ...] = (("the table", 0),),  # name, first row
        written: Source | None = None,
        origin: tuple[pl.Series, pl.Series] | None = None,  # of each row, where rows were moved
    ) -> None:
        self.frame, self.na, self.places, self.written = frame, na, places, written
        self._origin = origin
        self.passing = False  # whether columns may be let go once they were read

    def __len__(self) -> int:
        return int(self.frame.width)

    def __iter__(self) -> Iterator[str]:
        return iter(self.frame.columns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.frame.columns:
            raise KeyError(name)
        column = self.frame[name]
        if column.dtype.is_numeric():
            return floats(column) if column.null_count() else column.to_numpy()
        return np.array(texts(column).fill_null("").to_list())

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.frame.height)

    def place(self, row: int) -> tuple[str, int]:
        """Return the file of a row and its number there, counted from 1."""
        if self._origin is not None:
            return self._origin[0][row], self._origin[1][row]
        found = [(name, first) for name, first in self.places if first <= row]
        name, first = found[-1]
        return name, row - first + 1

    def origins(self) -> tuple[pl.Series, pl.Series]:
        """Return `place` of every row."""
        import polars as pl

        if self._origin is not None:
            return self._origin
        names, starts = [name for name, _ in self.places], [first for _, first in self.places]
        rows = np.arange(self.rows)
        which = np.searchsorted(starts, rows, side="right") - 1
        files = pl.Series(names, dtype=pl.String).gather(which)
        return files, pl.Series(rows - np.array(starts)[which] + 1)

    def let_go(self, name: str) -> None:
        """Forget a column that was read, where nobody else has the table."""
        if self.passing and name in self.frame.columns:
            self.frame = self.frame.drop(name)

    def column(self, name: str) -> pl.Series:
        """Return a column by name; another case will do where only one column fits."""
        if name in self.frame.columns:
            return self.frame[name]
        near = self.near(name)
        if len(near) == 1:
            return self.frame[near[0]]
        both = f" ({near} both fit)" if near else ""
        raise ParameterError(
            f"there is no column {name!r} in {self.places[0][0]}{both}: it has "
            f"{self.frame.columns[:20]}"
        )

    def near(self, name: str) -> list[str]:
        """Return the columns whose names differ in case, blanks or composed letters only."""
        wanted = trimmed(name).lower()
        return [own for own in self.frame.columns if trimmed(own).lower() == wanted]

    def parsed(
        self, kinds: Mapping[str, Kind], meanwhile: Callable[[], _T]
    ) -> tuple[dict[str, Parsed], _T]:
        """Return columns as their kinds read them, and what was done meanwhile."""
        if self.rows < _MANY or threads() < 2:
            return {name: self.parse(name, kind) for name, kind in kinds.items()}, meanwhile()
        with ThreadPoolExecutor(threads()) as pool:  # readers wait for no lock of Python's
            found = pool.map(self.parse, kinds, kinds.values())
            other = meanwhile()
            return dict(zip(kinds, found, strict=True)), other

    def parse(self, name: str, kind: Kind) -> Parsed:
        """Return a column as its kind reads it; numbers as the file writes them."""
        import polars as pl

        column, words = self.column(name), self.na
        if self.written is None or not kind.numeric:
            return kind.parse(column, words)
        words = (*words, *plain_numbers(pl.Series(words), self.written))
        clear = clear_numbers(column, self.written) if isinstance(kind, Number) else None
        if clear is None:
            return kind.parse(plain_numbers(column, self.written), words)
        found = kind.parse(clear, words)
        left = np.flatnonzero(clear.is_null().to_numpy())
        if left.size:
            others = kind.parse(plain_numbers(column[left], self.written), words)
            for own, part in zip(found, others, strict=True):
                own[left] = part
        return found

    def names(self, name: str) -> tuple[pl.Series, NDArray[np.bool_]]:
        """Return a column of ids as text, and where there is none."""
        column = self.column(name)
        if column.dtype.is_float() and bool((column.abs() > _EXACT).any()):
            raise ParameterError(
                f"column {name!r} holds ids above 2^53 as decimals, which can no longer be told "
                "apart: read them as text or as whole numbers"
            )
        found = texts(column).fill_null("")
        short = np.flatnonzero(found.str.len_bytes() <= max(len(w.encode()) for w in self.na))
        absent = np.zeros(len(found), bool)
        absent[short] = found[short].str.to_lowercase().is_in(lowered(self.na)).to_numpy()
        return found, absent

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        try:
            self.column(name)
        except ParameterError:
            return False
        return True


def is_table(data: Any) -> bool:
    """Whether data have named columns, or are a place where such are kept."""
    if isinstance(data, str | os.PathLike | Source | Table):
        return True
    if hasattr(data, "toarray"):  # SciPy's matrices by keys are mappings of cells
        return False
    return isinstance(data, Mapping) or _is_frame(data)


def read_rows(data: Any, names: Sequence[str] = (), folder: Path | None = None) -> Table:
    """Return a table from wherever it is kept.

    Parameters
    ----------
    data
        A path, a `Source`, a mapping of columns, a pandas, Polars or Arrow table, an Arrow reader,
        a DuckDB relation, or an array or SciPy matrix with columns in the order of ``names``.
    names
        The names of an array's columns.
    folder
        Where relative paths begin.

    Examples
    --------
    >>> read_rows({"age": [40, 50]}).column("AGE").to_list()
    [40, 50]
    """
    import polars as pl

    if isinstance(data, Table):
        return data
    if isinstance(data, str | os.PathLike):
        data = Source(data)
    if isinstance(data, Source):
        return _from_source(data, folder)
    if isinstance(data, Mapping) and is_table(data):
        columns = {str(name): _series(str(name), values) for name, values in data.items()}
        _one_length(columns)
        return Table(pl.DataFrame(columns))
    if _is_frame(data):
        return Table(_from_frame(data))
    return Table(_from_matrix(data, names))


# -- files ---------------------------------------------------------------------------------------


def _from_source(where: Source, folder: Path | None) -> Table:
    if where.query is not None:
        return Table(_from_database(where), where.na, (("the query's result", 0),))
    path = Path(os.path.expandvars(str(where.file)))
    path = path if folder is None else folder / path
    if path.is_dir():
        files = sorted(f for f in path.iterdir() if f.suffix.lower() in FILES)
        if not files:
            raise ParameterError(f"{path} holds no {', '.join(FILES)} file")
    elif path.exists():
        files = [path]
    else:
        raise ParameterError(f"{path} cannot be read: there is no such file")
    frames = [read_file(file, where) for file in files]
    return _joined(frames, files, where)


def _joined(frames: list[pl.DataFrame], files: list[Path], where: Source) -> Table:
    first, starts, rows = frames[0].columns, [], 0
    for frame, file in zip(frames, files, strict=True):
        if set(frame.columns) != set(first):
            odd = sorted(set(frame.columns) ^ set(first))
            raise ParameterError(f"{file.name} and {files[0].name} differ in columns {odd}")
        starts.append((file.name, rows))
        rows += frame.height
    return Table(joined(frames), where.na, tuple(starts), where)


def joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Return frames with the same columns as one; value by value as text where types differ.

    A type of one of them says nothing about the others.
    """
    import polars as pl

    if len(frames) == 1:
        return frames[0]
    parts = [frame.select(frames[0].columns) for frame in frames]
    if len({tuple(part.dtypes) for part in parts}) > 1:
        parts = [_as_texts(part) for part in parts]
    return pl.concat(parts)


def _as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns([texts(frame[name]) for name in frame.columns])


# -- databases -----------------------------------------------------------------------------------


def _from_database(where: Source) -> pl.DataFrame:
    import polars as pl

    names, rows = _rows_of(where)
    columns = {name: _series(name, [row[k] for row in rows]) for k, name in enumerate(names)}
    return pl.DataFrame(columns)


def _rows_of(where: Source) -> tuple[list[str], list[Any]]:
    if where.connection is not None:
        cursor = where.connection.cursor()
        try:
            cursor.execute(where.query)
            return [column[0] for column in cursor.description], cursor.fetchall()
        finally:
            cursor.close()
    try:
        import sqlalchemy
    except ImportError:
        raise MissingExtra("reading a table from a database", "sql") from None
    try:
        engine = sqlalchemy.create_engine(os.path.expandvars(str(where.url)))
        try:
            with engine.connect() as connection:
                result = connection.execute(sqlalchemy.text(str(where.query)))
                return list(result.keys()), list(result.fetchall())
        finally:
            engine.dispose()
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        kind = type(error).__name__  # the message may hold the url and its password
        raise ParameterError(f"the database cannot be asked: {kind}") from None


# -- frames and arrays ---------------------------------------------------------------------------


def _is_frame(data: Any) -> bool:
    if hasattr(data, "read_all") and hasattr(data, "schema"):  # an Arrow reader
        return True
    import narwhals as nw

    if hasattr(data, "iloc"):  # a frame of pandas, whatever its names are; not a column
        return getattr(data, "ndim", 0) == 2
    try:
        nw.from_native(data)
    except TypeError:
        return False
    except nw.exceptions.DuplicateError:  # a frame all the same, whose reader says what is wrong
        return True
    return True


def _from_frame(data: Any) -> pl.DataFrame:
    import narwhals as nw
    import polars as pl

    if hasattr(data, "read_all"):
        data = data.read_all()
    if hasattr(data, "column_names"):  # Arrow
        _distinct([str(name) for name in data.column_names])
    if hasattr(data, "iloc"):  # pandas: names may be numbers or tuples, and may stand twice
        data = data.set_axis([str(name) for name in data.columns], axis=1)
        _distinct(list(data.columns))
    frame = nw.from_native(data)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    names = [str(name) for name in frame.columns]
    _distinct(names)
    columns = {}
    for name, own in zip(names, frame.columns, strict=True):
        values = frame.get_column(own)
        plain = values.dtype not in (nw.Object, nw.Unknown)
        try:
            columns[name] = values.to_polars() if plain else _series(name, values.to_native())
        except UnicodeEncodeError:
            columns[name] = _series(name, values.to_list())
    return pl.DataFrame([column.alias(name) for name, column in columns.items()])


def _distinct(names: list[str]) -> None:
    if twice := repeated(names):
        raise ParameterError(f"columns must have distinct names, and {twice[:9]} stand twice")


def _from_matrix(data: Any, names: Sequence[str]) -> pl.DataFrame:
    import polars as pl

    if hasattr(data, "toarray") and hasattr(data, "shape"):
        data = data.toarray()
    array = data if isinstance(data, np.ndarray) else np.asarray(data)
    if array.ndim == 1 and array.dtype.names:  # a record array has names of its own
        return read_rows({name: array[name] for name in array.dtype.names}).frame
    if array.ndim != 2 or not names:
        raise ParameterError(
            "data must be a table with named columns, a file, or an array with two axes, got "
            f"{type(data).__name__}"
        )
    if array.shape[1] != len(names):
        raise ParameterError(
            f"an array must have one column for each of {list(names)}, got shape {array.shape}"
        )
    return pl.DataFrame({name: _series(name, array[:, k]) for k, name in enumerate(names)})


def _series(name: str, values: Any) -> pl.Series:
    """Return a column; values of several types, or of Python's own, one by one as text."""
    import polars as pl

    if isinstance(values, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(values).tolist()
        pairs = zip(values.data.tolist(), hidden, strict=True)
        values = [None if away else value for value, away in pairs]
    if isinstance(values, pl.Series):
        return values.alias(name)
    array = values if isinstance(values, np.ndarray) else None
    if array is None and hasattr(values, "to_numpy"):
        try:
            array = np.asarray(values.to_numpy())
        except (TypeError, ValueError):  # Arrow refuses to copy unless told to
            array = np.asarray(values.to_numpy(zero_copy_only=False))
    elif array is None and hasattr(values, "__array__"):
        array = np.asarray(values)
    if array is not None and array.dtype.kind in "iufb" and array.ndim == 1:
        odd = array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8)
        array = array.astype(np.float64) if odd or not array.dtype.isnative else array
        return pl.Series(name, np.ascontiguousarray(array))
    if array is not None and array.dtype.kind == "M" and array.ndim == 1:
        moments = array.astype("datetime64[us]")
        if (moments.astype(array.dtype) != array)[~np.isnat(array)].any():
            raise ParameterError(f"column {name!r} holds moments that are too far away")
        return pl.Series(name, moments)
    try:
        items = list(values) if array is None else array.tolist()
    except TypeError:
        kind = type(values).__name__
        raise ParameterError(f"column {name!r} must be a list of values, got {kind}") from None
    if array is not None and array.ndim != 1:
        raise ParameterError(f"column {name!r} must have one axis, got {array.ndim}")
    if all(type(item) is float for item in items):
        return pl.Series(name, items, dtype=pl.Float64)
    if all(type(item) is int and -(2**63) <= item < 2**63 for item in items):
        return pl.Series(name, items, dtype=pl.Int64)
    found = [_item(item) for item in items]
    try:
        return pl.Series(name, found, dtype=pl.String)
    except UnicodeEncodeError:  # half a character, which no file could hold: each stays itself
        plain = [t if t is None else t.encode(errors="backslashreplace").decode() for t in found]
        return pl.Series(name, plain, dtype=pl.String)


def _item(item: Any) -> str | None:
    """Return a value as text, or None for the marks of a missing one."""
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return None
    try:
        if item != item:
            return None
    except (TypeError, ValueError, ArithmeticError):
        raise ParameterError(f"a cell must hold one value, got {type(item).__name__}") from None
    if isinstance(item, bytes):
        return item.decode("utf-8", errors="replace")
    return plain_text(item)


def _one_length(columns: Mapping[str, Any]) -> None:
    lengths = {len(column): name for name, column in columns.items()}
    if len(lengths) > 1:
        shown = ", ".join(f"column {name!r} has {n}" for n, name in sorted(lengths.items()))
        raise ParameterError(f"columns must have one length: {shown}")
