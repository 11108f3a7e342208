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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.folders import check_writable
from tacit._core.rng import WordStream
from tacit.data.files import Source
from tacit.data.reading import Table, joined, read_rows
from tacit.data.shards import Piece, Shards
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["by_unit"]

_PART = "\0part"  # of a row, while pieces are cut
_ONLY = ""  # the name of a table that has none
FILE, ROW = "\0file", "\0row"  # where a row stood, for errors to the holder


@dataclass(frozen=True)
class _How:
    """How a table was written."""

    na: tuple[str, ...]
    written: Source | None


@dataclass(frozen=True)
class _Spooled(Piece):
    """The rows of some units, from all pieces; of several tables, where pieces have several."""

    folder: str
    part: int
    how: Mapping[str, _How]
    kept: Any = field(repr=False, compare=False)  # the folder lasts as long as this

    def read(self) -> Table | dict[str, Table]:
        """Return the rows, in the order of the pieces."""
        if set(self.how) == {_ONLY}:
            return self._table(_ONLY)
        return {name: self._table(name) for name in self.how}

    def _table(self, name: str) -> Table:
        import polars as pl

        place = _place(Path(self.folder), name)
        files = sorted(place.glob(f"{self.part}-*.arrow"))
        if not files:  # no row of these units: the columns stand elsewhere
            frame = pl.read_ipc(next(place.glob("*.arrow"))).clear()
        else:
            frame = joined([pl.read_ipc(file) for file in files])
        origin, how = (frame[FILE], frame[ROW].cast(pl.Int64)), self.how[name]
        return Table(frame.drop(FILE, ROW), how.na, (), how.written, origin)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Spooled, (self.folder, self.part, self.how, None)


class _Folder:
    """A folder that is wiped when nothing is read from it any more."""

    def __init__(self, scratch: Any) -> None:
        if scratch is not None:
            check_writable(Path(scratch), "scratch")
        self.path = Path(tempfile.mkdtemp(prefix="tacit-", dir=scratch))  # for its owner alone
        self._wipe = weakref.finalize(self, rmtree, self.path, ignore_errors=True)


def by_unit(shards: Shards, names: Sequence[str] | Mapping[str, Sequence[str]]) -> Shards:
    """Return the same rows in as many shards, each unit in one of them.

    Parameters
    ----------
    shards
        Pieces that are tables; or mappings of tables by name, whose units are the same.
    names
        The columns that name a unit, compared as text; by table where there are several.

    Examples
    --------
    >>> pieces = [{"who": ["a", "b"], "x": [1, 2]}, {"who": ["b", "a"], "x": [3, 4]}]
    >>> found = [set(piece.read()["who"]) for piece in by_unit(Shards(pieces), ["who"])]
    >>> sum(map(len, found))  # each of two people is in one shard
    2
    """
    parts, seed, units = len(shards), WordStream().word(), _Units()
    folder, first = _Folder(shards.scratch), dict[str, Table]()
    named = names if isinstance(names, Mapping) else {_ONLY: names}
    for name in named:
        _place(folder.path, name).mkdir()
    for number, piece in enumerate(shards):
        given = piece.read()
        tables = {_ONLY: given} if _ONLY in named else given
        for name in tables:
            table = read_rows(tables[name])
            known = first.setdefault(name, table)
            if set(table.frame.columns) != set(known.frame.columns):
                odd = sorted(set(table.frame.columns) ^ set(known.frame.columns))
                raise ParameterError(f"piece {number + 1} of the shards differs in columns {odd}")
            to = _place(folder.path, name)
            units.add(_cut_to(to, table, named[name], (parts, number), seed))
    filled = sorted({int(file.name.split("-")[0]) for file in folder.path.glob("*/*.arrow")})
    how = {name: _How(first[name].na, first[name].written) for name in named if name in first}
    kept = [_Spooled(str(folder.path), part, how, folder) for part in filled]
    return shards.made(kept, len(units))


def _place(folder: Path, table: str) -> Path:
    """Return where the rows of a table are written, whatever its name holds."""
    return folder / f"table-{table.encode().hex()}"


def _cut_to(
    folder: Path, table: Table, names: Sequence[str], of: tuple[int, int], seed: int
) -> NDArray[np.uint64]:
    """Write a piece's rows by the part that their unit belongs to; return its units' marks."""
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
    return np.asarray(marks.unique().to_numpy(), np.uint64)


class _Units:
    """How many different units there are, by their marks.

    >>> units = _Units()
    >>> units.add(np.array([3, 5], np.uint64))
    >>> units.add(np.array([5], np.uint64))
    >>> len(units)
    2
    """

    def __init__(self) -> None:
        self._known = np.empty(0, np.uint64)

    def add(self, marks: NDArray[np.uint64]) -> None:
        """Take in the marks of some units."""
        self._known = np.union1d(self._known, marks)

    def __len__(self) -> int:
        return len(self._known)
