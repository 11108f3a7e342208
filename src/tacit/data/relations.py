"""`Relation`: a matrix or tensor over named entities, with its observed cells.

A cell is *observed* (listed with a value), an *observed zero*, or *missing*. With
``zeros="missing"`` only listed cells count; with ``zeros="observed"`` every unlisted cell is a
zero, except the cells in ``held_out``. The dense array is never formed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit._core.check import OneOf, check
from tacit._core.order import lexical_order
from tacit.data.duplicates import merged
from tacit.data.indices import check_apart, check_range, index_table, numbered
from tacit.data.long import long_cells
from tacit.data.matrices import as_array
from tacit.data.members import Members, as_columns
from tacit.data.reading import read_rows
from tacit.data.wide import wide_cells
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ModeLayout", "Relation"]


class ModeLayout(NamedTuple):
    """The cells of a relation sorted along one mode, as compressed rows.

    Cells of row i are starts[i] … starts[i + 1]; ``indices`` holds those of all modes, (cells,
    modes).
    """

    starts: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Relation:
    """A sparse or dense relation between entities.

    Build one with `from_cells`, `from_dense`, `from_scipy`, `from_frame`, `read` or `from_sql`.

    Attributes
    ----------
    entities
        The name of the entity of each mode; two relations that name the same entity share it.
    shape
        The number of each entity.
    indices, values
        The listed cells, (cells, modes) and (cells,).
    zeros
        What an unlisted cell is: ``"missing"`` or ``"observed"``.
    held_out
        With observed zeros: cells that are missing all the same, (held out, modes).
    labels
        Entity → labels of its members, where they have names.
    columns
        Entity → the column of a table that named it.
    unstated
        The entities whose members were read from the cells, and not stated: no private fit takes
        them for public.
    duplicates
        What was done about cells that are listed several times.

    Examples
    --------
    >>> Relation.from_dense(("user", "item"), [[1.0, float("nan")], [0.0, 2.0]]).values.tolist()
    [1.0, 0.0, 2.0]
    """

    entities: tuple[str, ...]
    shape: tuple[int, ...]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    zeros: str = "missing"
    held_out: NDArray[np.int32] = field(default_factory=lambda: np.empty((0, 0), np.int32))
    labels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    unstated: frozenset[str] = frozenset()
    duplicates: str = "error"

    # -- construction -------------------------------------------------------------------------

    @classmethod
    def from_cells(
        cls,
        entities: Sequence[str],
        indices: Any,
        values: Any = None,
        *,
        shape: Sequence[int] | None = None,
        zeros: str = "missing",
        held_out: Any = None,
        labels: Mapping[str, Sequence[Any]] | None = None,
        duplicates: str = "error",
    ) -> Relation:
        """Build a relation from listed cells.

        Parameters
        ----------
        entities
            One name per mode. An entity that is named again, such as the second user of a
            friendship, is the mode ``user_2`` of the relation; both have the same members.
        indices
            (cells, modes) whole numbers, or a tuple with one array per mode.
        values
            One number per cell; ones if left out.
        shape
            The number of each entity; the number of its labels, or the largest index plus one,
            if left out.
        zeros, held_out
            What unlisted cells are, and which stay missing all the same.
        labels
            Names of the members of an entity.
        duplicates
            What a cell is that is listed several times: an ``"error"``, or one cell with the
            ``"first"`` value, their ``"mean"`` or their ``"sum"``.
        """
        named = [str(name) for name in entities]
        entities = tuple(numbered(named))
        if len(set(entities)) != len(entities) or not 1 <= len(entities) <= 6:
            raise ParameterError(
                f"entities must be one to six different names, got {list(entities)}"
            )
        check("zeros", zeros, OneOf("missing", "observed"))
        table = index_table("indices", indices, len(entities))
        numbers = _numbers(table, values)
        known = {name: tuple(names) for name, names in (labels or {}).items()}
        for mode, name in zip(entities, named, strict=True):  # both modes of one entity
            if name in known:
                known.setdefault(mode, known[name])
        unstated = frozenset(entities) - known.keys() if shape is None else frozenset()
        if shape is None:
            largest = (table.max(axis=0, initial=-1) + 1).tolist()
            both = {
                name: max(n for n, e in zip(largest, named, strict=True) if e == name)
                for name in named
            }
            pairs = zip(entities, (both[name] for name in named), strict=True)
            shape = [len(known[e]) if e in known else size for e, size in pairs]
        sizes = tuple(int(n) for n in shape)
        if len(sizes) != len(entities):
            raise ParameterError(f"shape must have {len(entities)} numbers, got {len(sizes)}")
        nothing = np.empty((0, len(entities)), int)
        apart = index_table("held_out", nothing if held_out is None else held_out, len(entities))
        if apart.size and zeros == "missing":
            raise ParameterError("held_out only goes with zeros='observed': just leave cells out")
        check_range("indices", table, sizes, entities)
        check_range("held_out", apart, sizes, entities)
        members = _members(entities, sizes, known)
        table, numbers = merged(table, numbers, duplicates, members)
        check_apart(table, apart)
        return cls(
            entities,
            sizes,
            table.astype(np.int32),
            numbers,
            zeros,
            apart.astype(np.int32),
            known,
            unstated=unstated,
            duplicates=duplicates,
        )

    @classmethod
    def from_dense(
        cls, entities: Sequence[str], array: Any, *, zeros: str = "missing", **options: Any
    ) -> Relation:
        """Build a relation from a dense array or a wide frame; NaN marks missing cells.

        A frame of pandas has a row for each member of the first entity and a column for each of
        the second; its index and columns are their names. With ``zeros="observed"`` only what is
        not zero is listed; the cells are the same.
        """
        unstated: frozenset[str] = frozenset()
        if hasattr(array, "iloc"):
            stated = options.get("labels") or {}
            array, options["labels"] = wide_cells(entities, array, stated)
            unstated = frozenset(entities) - stated.keys()
        dense = _dense(array)
        if np.isinf(dense).any():
            raise ParameterError("array must not hold infinite values; NaN marks missing cells")
        missing = np.isnan(dense)
        if zeros == "observed":
            apart = index_table(
                "held_out", options.pop("held_out", np.empty((0, dense.ndim))), dense.ndim
            )
            check_range("held_out", apart, dense.shape, tuple(entities))
            missing[tuple(apart.T)] = True
            options["held_out"] = np.argwhere(missing)
            missing = missing | (dense == 0.0)
        where = np.argwhere(~missing)
        found = cls.from_cells(
            entities, where, dense[tuple(where.T)], shape=dense.shape, zeros=zeros, **options
        )
        return replace(found, unstated=unstated)

    @classmethod
    def from_scipy(
        cls, entities: Sequence[str], matrix: Any, *, duplicates: str = "sum", **options: Any
    ) -> Relation:
        """Build a two-mode relation from a SciPy sparse matrix; stored entries are the cells.

        Entries of one cell add up, as SciPy means them, unless ``duplicates`` says otherwise.
        """
        coo = matrix.tocoo(copy=False)
        cells = np.column_stack([coo.row, coo.col])
        return cls.from_cells(
            entities, cells, coo.data, shape=coo.shape, duplicates=duplicates, **options
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        entities: Mapping[str, str] | Sequence[str],
        value: str | None = None,
        *,
        labels: Mapping[str, Sequence[Any]] | None = None,
        **options: Any,
    ) -> Relation:
        """Build a relation from a pandas, Polars or Arrow table (or a mapping of columns).

        Parameters
        ----------
        frame
            One row per cell.
        entities
            Entity → column, or the columns if they are named like the entities.
        value
            The column of values; ones if left out.
        labels
            Entity → its known members, in order; others are refused. Entities without known
            members take the sorted distinct values of their column.
        **options
            As in `from_cells`, such as ``duplicates="mean"``.
        """
        columns = dict(entities) if isinstance(entities, Mapping) else {e: e for e in entities}
        known = {name: tuple(members) for name, members in (labels or {}).items()}
        unstated, table = frozenset(columns) - known.keys(), as_columns(frame)
        indices, numbers, known = long_cells(table, columns, value, known)
        found = cls.from_cells(
            tuple(columns),
            indices,
            numbers,
            shape=[len(known[entity]) for entity in columns],
            labels=known,
            **options,
        )
        return replace(found, columns=columns, unstated=unstated)

    @classmethod
    def read(
        cls, path: str | Path, entities: Any, value: str | None = None, **options: Any
    ) -> Relation:
        """Read a file with one row per cell; see `from_frame`. Ids in text files are text."""
        return cls.from_frame(read_rows(path), entities, value, **options)

    @classmethod
    def from_sql(
        cls, connection: Any, query: str, entities: Any, value: str | None = None, **options: Any
    ) -> Relation:
        """Run a query on a DB-API connection; each row of the result is one cell."""
        cursor = connection.cursor()
        try:
            cursor.execute(query)
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
        finally:
            cursor.close()
        table = {name: np.array([row[k] for row in rows]) for k, name in enumerate(names)}
        return cls.from_frame(table, entities, value, **options)

    # -- what it holds --------------------------------------------------------------------------

    @property
    def modes(self) -> int:
        """The number of modes."""
        return len(self.shape)

    @property
    def cells(self) -> int:
        """The number of listed cells."""
        return len(self.values)

    @property
    def observed(self) -> int:
        """The number of observed cells, zeros included."""
        if self.zeros == "missing":
            return self.cells
        return math.prod(self.shape) - len(self.held_out)

    @cached_property
    def layouts(self) -> tuple[ModeLayout, ...]:
        """The listed cells sorted along each mode, computed once."""
        return tuple(_layout(self.indices, self.values, m, self.shape) for m in range(self.modes))

    @cached_property
    def held_out_layouts(self) -> tuple[ModeLayout, ...]:
        """The held-out cells sorted along each mode, with value zero."""
        nothing = np.zeros(len(self.held_out))
        return tuple(_layout(self.held_out, nothing, m, self.shape) for m in range(self.modes))

    def listed(self) -> Relation:
        """Return the same cells with every observed zero listed; forms the dense array."""
        if self.zeros == "missing":
            return self
        values = np.zeros(math.prod(self.shape))
        listed = np.ravel_multi_index(tuple(self.indices.T), self.shape)
        values[listed] = self.values
        held = np.zeros(len(values), bool)
        apart = self.held_out.reshape(-1, self.modes)
        held[np.ravel_multi_index(tuple(apart.T), self.shape)] = True
        codes = np.flatnonzero(~held)
        indices = np.column_stack(np.unravel_index(codes, self.shape)).astype(np.int32)
        nothing = np.empty((0, 0), np.int32)
        return replace(
            self, indices=indices, values=values[codes], zeros="missing", held_out=nothing
        )

    def compact(self) -> Relation:
        """Return the same cells in the shorter form.

        Where most cells are held out, listing every observed cell, zeros included, is shorter
        than listing all that are not observed.
        """
        shorter = self.observed <= self.cells + len(self.held_out)
        return self.listed() if shorter else self

    def members(self, entity: str) -> Members:
        """Return the members of an entity."""
        size = self.shape[self.entities.index(entity)]
        return Members(entity, size, self.labels.get(entity))

    def subset(self, positions: Any) -> Relation:
        """Return the relation with only some of its listed cells, by position."""
        return replace(self, indices=self.indices[positions], values=self.values[positions])

    def scaled(self, factor: float) -> Relation:
        """Return the relation with all values multiplied by a factor."""
        return replace(self, values=self.values * factor)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{e} {n:,}" for e, n in zip(self.entities, self.shape, strict=True))
        return f"<Relation {sizes}: {self.cells:,} listed cells, other cells {self.zeros}>"


def _numbers(table: NDArray[np.integer[Any]], values: Any) -> NDArray[np.float64]:
    """Return the values of cells, finite numbers; ones where none are given."""
    try:
        numbers = np.ones(len(table)) if values is None else np.asarray(values, np.float64)
    except (ValueError, TypeError):
        raise ParameterError("values must be numbers, one per cell") from None
    if numbers.shape != (len(table),):
        raise ParameterError(
            f"values must hold one number per cell ({len(table)}), got shape {numbers.shape}"
        )
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise ParameterError(
            f"values must be finite: cell {table[bad[0]].tolist()} is {numbers[bad[0]]}. "
            "Leave missing cells out"
        )
    return numbers


def _members(
    entities: Sequence[str], sizes: Sequence[int], known: Mapping[str, tuple[Any, ...]]
) -> list[Members]:
    """Return the members of every mode, with labels that are one each and distinct."""
    members = []
    for entity, size in zip(entities, sizes, strict=True):
        if entity in known and len(known[entity]) != size:
            raise ParameterError(
                f"labels of {entity!r} must be {size}, one each, not {len(known[entity])}"
            )
        members.append(Members(entity, size, known.get(entity)))
        _ = members[-1].place  # names are distinct
    return members


def _layout(
    indices: NDArray[np.int32], values: NDArray[np.float64], mode: int, shape: tuple[int, ...]
) -> ModeLayout:
    if not len(indices):
        return ModeLayout(np.zeros(shape[mode] + 1, np.int64), np.empty((0, 1), np.int32), values)
    # within a row, follow the other modes: neighbouring cells then share factor rows
    modes = [m for m in range(indices.shape[1]) if m != mode] + [mode]
    order = lexical_order([indices[:, m] for m in modes], [shape[m] for m in modes])
    size = shape[mode]
    starts = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(indices[:, mode], minlength=size), out=starts[1:])
    return ModeLayout(starts, np.ascontiguousarray(indices[order]), values[order])


def _dense(array: Any) -> NDArray[np.float64]:
    """Return cells as numbers; what is masked is missing."""
    if hasattr(array, "tocoo"):
        raise ParameterError("array must be dense: pass Relation.from_scipy(entities, matrix)")
    try:
        return np.asarray(as_array(array, "array"), np.float64)
    except (TypeError, ValueError):
        raise ParameterError("array must hold numbers; NaN marks missing cells") from None
