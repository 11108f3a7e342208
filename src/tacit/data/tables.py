"""Tables from where institutions keep them: CSV, Parquet, SQL (SQLite, PostgreSQL, …).

CSV needs the standard library only, Parquet the extra ``frames``, databases the extra ``sql``.
Loading is the holder's own business: errors go to the holder.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import MissingExtra, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_source", "read_table"]


def read_table(path: str | Path) -> dict[str, NDArray[Any]]:
    r"""Return the columns of a CSV or Parquet file; numbers where a whole column is numeric.

    A ``.csv`` file begins with a line of headings; an empty cell is NaN among numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "t.csv")
    ...     _ = file.write_text("test,result\nLDL,4.5\nHDL,\n")
    ...     read_table(file)["result"].tolist()
    [4.5, nan]
    """
    file = Path(path)
    if file.suffix == ".parquet":
        try:
            import pyarrow.parquet as parquet
        except ImportError:
            raise MissingExtra("reading Parquet", "frames") from None
        try:
            table = parquet.read_table(file)
        except (OSError, ValueError) as error:
            raise ParameterError(f"{file} cannot be read: {error}") from None
        return {name: np.asarray(table[name].to_pandas()) for name in table.column_names}
    if file.suffix != ".csv":
        raise ParameterError(f"{file} must end in .csv or .parquet")
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.reader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ParameterError(f"{file} cannot be read: {error}") from None
    if not rows or len(set(rows[0])) != len(rows[0]):
        raise ParameterError(f"{file} must begin with a line of distinct column names")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(rows[0]):
            raise ParameterError(
                f"{file}, row {number} has {len(row)} cells: the headings name {len(rows[0])}"
            )
    columns = list(zip(*rows[1:], strict=True)) or [()] * len(rows[0])
    return {name: _typed(values) for name, values in zip(rows[0], columns, strict=True)}


def _typed(values: tuple[str, ...]) -> NDArray[Any]:
    """Return a column as numbers where every filled cell is one, else as text."""
    try:
        return np.array([float(v) if v.strip() else np.nan for v in values])
    except ValueError:
        return np.array(values)


def read_source(source: Mapping[str, Any], folder: Path = Path()) -> dict[str, NDArray[Any]]:
    """Return the columns of one table that a file of settings names.

    A source has either ``file`` (a .csv or .parquet file, looked for in ``folder``), or ``url``
    and ``query`` for a database. ``$NAME`` in a url is taken from the environment, so that
    passwords need not be written down.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     connection = sqlite3.connect(f"{place}/a.db")
    ...     _ = connection.executescript("create table t (x real); insert into t values (1), (2)")
    ...     connection.close()
    ...     read_source({"url": f"sqlite:///{place}/a.db", "query": "select x from t"})
    {'x': array([1., 2.])}
    """
    if "file" in source:
        return read_table(folder / str(source["file"]))
    if "url" in source and "query" in source:
        return _from_database(os.path.expandvars(str(source["url"])), str(source["query"]))
    raise ParameterError(
        "a source is a file (.csv or .parquet), or a url with a query: got " + str(sorted(source))
    )


def _from_database(url: str, query: str) -> dict[str, NDArray[Any]]:
    try:
        import sqlalchemy
    except ImportError:
        raise MissingExtra("reading a table from a database", "sql") from None
    try:
        engine = sqlalchemy.create_engine(url)
        try:
            with engine.connect() as connection:
                result = connection.execute(sqlalchemy.text(query))
                names, rows = list(result.keys()), result.fetchall()
        finally:
            engine.dispose()
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        kind = type(error).__name__  # the message may hold the url and its password
        raise ParameterError(f"the database cannot be asked: {kind}") from None
    return {name: np.array([row[k] for row in rows]) for k, name in enumerate(names)}
