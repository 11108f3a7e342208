"""`Shards`: a holder's data in pieces, each of which is read when it is needed.

A shard is a part of one holder's data, and one unit of privacy lies in one shard. Where a unit is
a row, any cut will do. Where people, or records by a key, may have several rows, the pieces are
laid out anew first (`tacit.data.spooling`), by a keyed function of the unit.

Nothing is read when shards are made: a piece says how it is read.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any

from tacit._core.check import Integer, check
from tacit.data.files import FILES, Source, source
from tacit.data.reading import Table
from tacit.errors import MissingExtra, ParameterError

__all__ = ["Delayed", "Given", "Piece", "Read", "RowsOfFile", "Shards"]

ROWS = 1_000_000  # of a shard, where a file is cut


class Piece(ABC):
    """A part of a holder's data that is not read yet; a worker elsewhere may read it."""

    @abstractmethod
    def read(self) -> Any:
        """Return what an estimator's ``fit`` would take."""


@dataclass(frozen=True)
class Given(Piece):
    """A table, an array or a path that was passed as it is."""

    data: Any = field(repr=False)

    def read(self) -> Any:
        """Return it."""
        return self.data


@dataclass(frozen=True)
class RowsOfFile(Piece):
    """Some rows of a Parquet or Arrow file; only they are in memory."""

    file: str
    first: int
    rows: int

    def read(self) -> Table:
        """Return the rows, which know where they stood."""
        import polars as pl

        path = Path(self.file)
        try:
            frame = _lazy(path).slice(self.first, self.rows).collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ParameterError(f"{path.name} cannot be read: {reason}") from None
        return Table(frame, places=((path.name, -self.first),))


@dataclass(frozen=True)
class Delayed(Piece):
    """A partition of a Dask collection, computed where it is asked for."""

    delayed: Any = field(repr=False)

    def read(self) -> Any:
        """Return the partition, computed in this thread."""
        return self.delayed.compute(scheduler="synchronous")


@dataclass(frozen=True)
class Read(Piece):
    """What a function makes of a piece."""

    piece: Piece
    how: Callable[[Any], Any]

    def read(self) -> Any:
        """Return what is made of the piece."""
        return self.how(self.piece.read())


class Shards:
    """A holder's data in an ordered collection of pieces, each read when it is needed.

    Parameters
    ----------
    pieces
        What `fit` would take of one holder, in parts: tables, arrays, paths. Every piece is read
        once before anybody pays, and again in each round.
    at_once
        How many are in memory at a time.
    scratch
        A folder in which pieces may be laid out anew where one unit has rows in several; the
        system's own for temporary files unless given. What is written there is the holder's data,
        and workers on other machines must see the folder too.
    executor
        Where they are worked on, unless their `Site` says so: a client of ``dask.distributed``, or
        an address such as ``"dask://scheduler:8786"``.

    Examples
    --------
    >>> import numpy as np
    >>> from tacit import Privacy, PrivateSummary
    >>> years = [{"age": np.full(100, 40.0)}, {"age": np.full(300, 60.0)}]
    >>> asked = Privacy(epsilon=1, delta=1e-6)
    >>> summary = PrivateSummary({"age": (0, 100)}, privacy=asked).fit(Shards(years))
    >>> abs(summary.mean_["age"] - 55) < 5
    True
    """

    def __init__(
        self,
        pieces: Iterable[Any],
        *,
        at_once: int = 2,
        scratch: str | os.PathLike[str] | None = None,
        executor: Any = None,
    ) -> None:
        if isinstance(pieces, str | os.PathLike | Source | dict) or hasattr(pieces, "columns"):
            kind = type(pieces).__name__
            raise ParameterError(
                f"shards are a list of pieces, got {kind}: pass [piece, …], or Shards.files(path)"
            )
        given = tuple(one if isinstance(one, Piece) else Given(one) for one in pieces)
        if not given:
            raise ParameterError("shards must have at least one piece")
        check("at_once", at_once, Integer(1, 4096))
        self.pieces: tuple[Piece, ...] = given
        self.units: int | None = None  # where each of them lies in one piece, how many there are
        self.at_once, self.scratch, self.executor = at_once, scratch, executor

    def __len__(self) -> int:
        return len(self.pieces)

    def __iter__(self) -> Iterator[Piece]:
        return iter(self.pieces)

    def __repr__(self) -> str:
        return f"<Shards: {len(self)} pieces>"

    @classmethod
    def files(
        cls,
        *patterns: str | os.PathLike[str],
        rows: int = ROWS,
        written: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Shards:
        """Return the files that some patterns name, in the order of their names.

        Parameters
        ----------
        patterns
            Paths, folders or patterns such as ``"ratings/*.parquet"``.
        rows
            How many rows of a Parquet or Arrow file are one shard; another file is one shard.
        written
            How text is written, as `tacit.source` takes it: ``{"decimal": ","}``.
        more
            As for `Shards`.
        """
        check("rows", rows, Integer(1))
        found = [path for pattern in patterns for path in _matching(Path(pattern))]
        if not found:
            raise ParameterError(f"no file fits {', '.join(map(str, patterns))}")
        how = dict(written or {})
        return cls((piece for path in found for piece in _cut(path, rows, how)), **more)

    parquet = files

    def made(self, pieces: Iterable[Piece], units: int | None = None) -> Shards:
        """Return other pieces, that are worked on as these are, with so many units in one each."""
        found = Shards(pieces, at_once=self.at_once, scratch=self.scratch, executor=self.executor)
        found.units = units
        return found

    @classmethod
    def dask(cls, collection: Any, **more: Any) -> Shards:
        """Return the partitions of a Dask data frame, or of a Dask array along its rows.

        Parameters
        ----------
        collection
            A ``dask.dataframe.DataFrame``; or an array with two axes, all columns in one chunk.
        more
            As for `Shards`.
        """
        if not hasattr(collection, "to_delayed"):
            raise ParameterError(
                f"a Dask data frame or array is needed, got {type(collection).__name__}"
            )
        try:
            import dask  # noqa: F401
        except ImportError:
            raise MissingExtra("reading partitions of Dask", "dask") from None
        parts: Any = collection.to_delayed()
        if hasattr(parts, "ravel"):
            if collection.ndim != 2 or collection.numblocks[1] != 1:
                raise ParameterError(
                    "a Dask array must have all its columns in one chunk: call rechunk({1: -1})"
                )
            parts = parts.ravel().tolist()
        return cls((Delayed(part) for part in parts), **more)


def _matching(pattern: Path) -> list[Path]:
    """Return the files of a path, a folder or a pattern, by name."""
    if pattern.is_dir():
        return sorted(path for path in pattern.iterdir() if path.suffix.lower() in FILES)
    if pattern.exists():
        return [pattern]
    return sorted(Path(found) for found in glob(str(pattern)) if Path(found).is_file())


def _cut(path: Path, rows: int, written: Mapping[str, Any]) -> Sequence[Piece]:
    """Return a file as pieces of so many rows, where it can be read in parts."""
    import polars as pl

    if path.suffix.lower() not in (".parquet", ".arrow", ".feather", ".ipc"):
        return [Given(source(path, **written))]
    try:
        height = _lazy(path).select(pl.len()).collect().item()
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(f"{path.name} cannot be read: {reason}") from None
    starts = range(0, max(height, 1), rows)
    return [RowsOfFile(str(path), first, min(rows, height - first)) for first in starts]


def _lazy(path: Path) -> Any:
    import polars as pl

    return pl.scan_parquet(path) if path.suffix.lower() == ".parquet" else pl.scan_ipc(path)
