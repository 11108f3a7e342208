"""Tables that files of settings name: by path, or with how their text is written.

Loading is the holder's own business: errors go to the holder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tacit.data.files import Source, source
from tacit.data.reading import Table, read_rows
from tacit.data.shards import Shards
from tacit.errors import ParameterError

__all__ = ["read_source", "read_table"]

_KEYS = {field.name for field in fields(Source)} - {"connection"}
_SHARDS = {"shards", "rows", "at_once", "scratch", "executor"}
_OWN = {"columns", "value"}  # what a site's file says besides


def read_table(path: str | Path) -> Table:
    r"""Return the columns of a file, or of a folder of files.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "t.csv")
    ...     _ = file.write_text("test,result\nLDL,4.5\nHDL,\n")
    ...     read_table(file)["result"].tolist()
    ['4.5', '']
    """
    return read_rows(path)


def read_source(stated: Mapping[str, Any] | str, folder: Path = Path()) -> Table | Shards:
    """Return the columns of one table that a file of settings names, or its shards.

    It has either ``file`` (looked for in ``folder``; or is its path), or ``url`` and ``query`` for
    a database, and how text is written, as in `tacit.source`. ``$NAME`` in a url is taken from the
    environment, so that passwords need not be written down. ``shards`` is a pattern of files that
    are read in parts of so many ``rows``, ``at_once`` at a time, by an ``executor``.

    Examples
    --------
    >>> import sqlite3, tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     connection = sqlite3.connect(f"{place}/a.db")
    ...     _ = connection.executescript("create table t (x real); insert into t values (1), (2)")
    ...     connection.close()
    ...     read_source({"url": f"sqlite:///{place}/a.db", "query": "select x from t"})["x"]
    array([1., 2.])
    """
    settings = {"file": stated} if isinstance(stated, str) else dict(stated)
    parted = _SHARDS if "shards" in settings else set()
    unknown = sorted(set(settings) - _KEYS - _OWN - parted)
    if unknown:
        raise ParameterError(f"a source has no {unknown[0]!r}: there are {sorted(_KEYS | parted)}")
    if parted:
        how: dict[str, Any] = {k: v for k, v in settings.items() if k in _KEYS}
        more: dict[str, Any] = {k: v for k, v in settings.items() if k in parted - {"shards"}}
        return Shards.files(folder / str(settings["shards"]), written=how, **more)
    return read_rows(source(**{k: v for k, v in settings.items() if k in _KEYS}), folder=folder)
