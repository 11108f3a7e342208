"""Pieces laid out anew so that all rows of one unit lie in one shard.

Every piece is read once, cut by a keyed function of what names the unit, and written to a folder
that only the holder can enter; shards are then read from there. The key is drawn for this and kept
nowhere: where a unit goes says nothing about it, and nobody who chooses names can put many people
into one shard. The folder is wiped with the last shard that is read from it.

What is written is as private as what was read.
"""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from tacit._core.folders import check_writable
from tacit._core.rng import WordStream
from tacit.data.files import Source
from tacit.data.reading import Table, joined
from tacit.data.shards import Piece, Shards, table_of
from tacit.errors import ParameterError

if TYPE_CHECKING:
    pass

__all__ = ["by_unit"]

_PART = "\0part"  # of a row, while pieces are cut
FILE, ROW = "\0file", "\0row"  # where a row stood, for errors to the holder


@dataclass(frozen=True)
class _Spooled(Piece):
    """The rows of some units, from all pieces."""

    folder: str
    part: int
    na: tuple[str, ...]
    written: Source | None
    kept: Any = field(repr=False, compare=False)  # the folder lasts as long as this

    def read(self) -> Table:
        """Return the rows, in the order of the pieces."""
        import polars as pl

        files = sorted(Path(self.folder).glob(f"{self.part}-*.arrow"))
        frame = joined([pl.read_ipc(file) for file in files])
        origin = frame[FILE], frame[ROW].cast(pl.Int64)
        return Table(frame.drop(FILE, ROW), self.na, (), self.written, origin)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Spooled, (self.folder, self.part, self.na, self.written, None)


class _Folder:
    """A folder that is wiped when nothing is read from it any more."""

    def __init__(self, scratch: Any) -> None:
        if scratch is not None:
            check_writable(Path(scratch), "scratch")
        self.path = Path(tempfile.mkdtemp(prefix="tacit-", dir=scratch))  # for its owner alone
        self._wipe = weakref.finalize(self, rmtree, self.path, ignore_errors=True)


def by_unit(shards: Shards, names: Sequence[str]) -> Shards:
    """Return the same rows in as many shards, each unit in one of them.

    Parameters
    ----------
    shards
        Pieces that are tables.
    names
        The columns that name a unit, compared as text.

    Examples
    --------
    >>> pieces = [{"who": ["a", "b"], "x": [1, 2]}, {"who": ["b", "a"], "x": [3, 4]}]
    >>> found = [set(piece.read()["who"]) for piece in by_unit(Shards(pieces), ["who"])]
    >>> sum(map(len, found))  # each of two people is in one shard
    2
    """
    parts, seed = len(shards), WordStream().word()
    folder = _Folder(shards.scratch)
    first: Table | None = None
    for number, piece in enumerate(shards):
        table = table_of(piece)
        first = table if first is None else first
        if set(table.frame.columns) != set(first.frame.columns):
            odd = sorted(set(table.frame.columns) ^ set(first.frame.columns))
            raise ParameterError(f"piece {number + 1} of the shards differs in columns {odd}")
        _cut_to(folder.path, table, names, (parts, number), seed)
    assert first is not None
    filled = [part for part in range(parts) if any(folder.path.glob(f"{part}-*.arrow"))]
    kept = [
        _Spooled(str(folder.path), part, first.na, first.written, folder) for part in filled or [0]
    ]
    return Shards(kept, at_once=shards.at_once, scratch=shards.scratch, executor=shards.executor)


def _cut_to(
    folder: Path, table: Table, names: Sequence[str], of: tuple[int, int], seed: int
) -> None:
    """Write a piece's rows by the part that their unit belongs to."""
    import polars as pl

    parts, number = of
    units = [table.names(name)[0] for name in names]
    marks = pl.DataFrame([one.alias(str(k)) for k, one in enumerate(units)]).hash_rows(seed)
    file, row = table.origins()
    frame = table.frame.with_columns(
        (marks % parts).alias(_PART), file.alias(FILE), row.cast(pl.Int64).alias(ROW)
    )
    for (part,), rows in frame.partition_by(_PART, as_dict=True, include_key=False).items():
        rows.write_ipc(folder / f"{part}-{number:08d}.arrow")
    if not table.rows:
        frame.drop(_PART).write_ipc(folder / f"0-{number:08d}.arrow")
