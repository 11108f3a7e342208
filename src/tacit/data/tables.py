"""Tables from where institutions keep them: CSV, Parquet, SQL (SQLite, PostgreSQL, …).

Loading is the holder's own business: errors go to the holder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import MissingExtra, ParameterError

__all__ = ["read_table"]


def read_table(source: Mapping[str, Any], folder: Path = Path()) -> Any:
    """Read one table.

    Parameters
    ----------
    source
        Either ``file`` (a .csv or .parquet file), or ``url`` and ``query`` for a database.
        ``$NAME`` in a url is taken from the environment, so that passwords need not be written
        down.
    folder
        Where a relative file is looked for.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     connection = sqlite3.connect(f"{place}/a.db")
    ...     _ = connection.executescript("create table t (x real); insert into t values (1), (2)")
    ...     connection.close()
    ...     read_table({"url": f"sqlite:///{place}/a.db", "query": "select x from t"})
    {'x': array([1., 2.])}
    """
    if "file" in source:
        return _from_file(folder / str(source["file"]))
    if "url" in source and "query" in source:
        return _from_database(os.path.expandvars(str(source["url"])), str(source["query"]))
    raise ParameterError(
        "a source is a file (.csv or .parquet), or a url with a query: got " + str(sorted(source))
    )


def _from_file(path: Path) -> Any:
    if not path.exists():
        raise ParameterError(f"there is no file {path}")
    try:
        import pandas
    except ImportError:
        raise MissingExtra("reading a table from a file", "frames") from None
    if path.suffix == ".parquet":
        return pandas.read_parquet(path)
    if path.suffix == ".csv":
        return pandas.read_csv(path)
    raise ParameterError(f"{path} is neither a .csv nor a .parquet file")


def _from_database(url: str, query: str) -> dict[str, np.ndarray[Any, Any]]:
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
