"""Rows as numbers, and how many of one person count: both look at one person at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit._core.rng import WordStream, choices
from tacit.data.kinds import Kind

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["Rows", "bounded", "numbered", "shuffled"]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table as numbers, after everything that `Columns` states was done.

    Attributes
    ----------
    values
        Column → parsed numbers (`tacit.data.kinds.Parsed`), all finite and in range.
    people
        A number for the person of each row, or None where rows are the unit.
    dropped
        How many rows were left out; for the holder only.
    kinds
        Column → its kind.
    averaged
        Whether a person counts as one row.
    """

    values: dict[str, NDArray[np.float64]]
    people: NDArray[np.int64] | None
    dropped: int
    kinds: Mapping[str, Kind]
    averaged: bool = False

    def __len__(self) -> int:
        return len(next(iter(self.values.values()))) if self.values else 0

    def matrix(self, names: Sequence[str], *, positions: bool = False) -> NDArray[np.float64]:
        """Return what a model sees of some columns; a row per unit.

        Categories are indicators, or their ``positions`` in the list.
        """
        own = self.values
        parts = [own[name] if positions else self.kinds[name].encode(own[name]) for name in names]
        return self.units(np.column_stack(parts) if parts else np.empty((len(self), 0)))

    def units(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return numbers of rows as those that count: people's averages, where they do."""
        if not self.averaged or self.people is None or not len(table):
            return table
        place, counts = np.unique(self.people, return_inverse=True, return_counts=True)[1:]
        sums = np.zeros((len(counts), table.shape[1]))
        np.add.at(sums, place, table)
        return np.asarray(sums / counts[:, None], np.float64)


def numbered(names: pl.Series) -> NDArray[np.int64]:
    """Return a number below the number of rows for every row: equal for equal names, only.

    Two people must never share one: rows of one would then push out rows of the other, and a
    person could move a sum by more than their own rows. Hashes are fast, and whoever chooses ids
    may make them collide; where they do, names are told apart one by one.
    """
    codes = _standing_rows(names.hash().to_numpy())
    if not (names[codes] == names).all():
        place: dict[str, int] = {}
        codes = np.array([place.setdefault(name, len(place)) for name in names.to_list()])
    return np.asarray(codes, np.int64)


def _standing_rows(marks: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return for every row one that has the same mark, the same for all that have it.

    A table with a place for some bits of a mark finds nearly all at once; rows whose place was
    taken by another mark try other bits, and what is left after that is sorted.
    """
    left = np.arange(len(marks))
    codes, own = np.empty(len(marks), np.int64), marks
    bits = len(marks).bit_length() + 1
    places = np.empty(1 << bits, np.int32 if bits < 32 else np.int64)
    for shift in (0, 12, 24, 36):
        tried = (own >> np.uint64(shift)) & np.uint64((1 << bits) - 1)
        places[tried] = left
        standing = places[tried]
        codes[left] = standing
        left = left[marks[standing] != own]
        if not left.size:
            return codes
        own = marks[left]
    first, place = np.unique(own, return_index=True, return_inverse=True)[1:]
    codes[left] = left[first[place]]
    return codes


def shuffled(count: int, words: WordStream | None = None) -> NDArray[np.int64]:
    """Return a secret order of so many people, each as likely as any other.

    Where people stand in a table says something about them, and somebody else in their place would
    stand elsewhere. In a random order whoever takes a place takes that of one person, and nobody
    else moves.
    """
    stream = choices() if words is None else words
    return np.argsort(stream.words(count), kind="stable")


def bounded(
    people: NDArray[np.int64],
    keep: NDArray[np.bool_],
    most: int,
    words: WordStream | None,
) -> NDArray[np.bool_]:
    """Return which rows count: at most so many of each person, chosen at random.

    Only who a row belongs to is looked at, and whether it is left out for what it holds: both are
    facts of one person.
    """
    counts = np.bincount(people[keep], minlength=int(people.max(initial=0)) + 1)
    crowded = np.flatnonzero(keep & (counts > most)[people])
    if not crowded.size:
        return keep
    owners = people[crowded]
    drawn = (choices() if words is None else words).words(len(crowded))
    # one sort by owner, then by 64 - bits random bits: 40 and more for sixteen million rows
    bits = np.uint64(int(owners.max()).bit_length())
    keys = (owners.astype(np.uint64) << (np.uint64(64) - bits)) | (drawn >> bits)
    order = np.argsort(keys if bits else drawn)
    owners = owners[order]
    starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    lengths = np.diff(np.append(starts, len(owners)))
    rank = np.arange(len(owners)) - np.repeat(starts, lengths)
    counted = keep.copy()
    counted[crowded[order[rank >= most]]] = False
    return counted
