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
from tacit.data.cell_problems import cell_problems
from tacit.data.columns import column_array, column_names, is_missing
from tacit.data.features import numbers
from tacit.data.problems import raise_for
from tacit.data.reading import Table, read_rows
from tacit.data.values import plain_text, texts
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ModeLayout", "Relation"]

_LARGEST = 2**31 - 1


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
    ) -> Relation:
        """Build a relation from listed cells.

        Parameters
        ----------
        entities
            One name per mode, all different.
        indices
            (cells, modes) whole numbers, or a tuple with one array per mode.
        values
            One number per cell; ones if left out.
        shape
            The number of each entity; the largest index plus one if left out.
        zeros, held_out
            What unlisted cells are, and which stay missing all the same.
        labels
            Names of the members of an entity.
        """
        entities = tuple(str(name) for name in entities)
        if len(set(entities)) != len(entities) or not 1 <= len(entities) <= 6:
            raise ParameterError(
                f"entities must be one to six different names, got {list(entities)}"
            )
        check("zeros", zeros, OneOf("missing", "observed"))
        table = _index_table("indices", indices, len(entities))
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
        sizes = tuple(
            int(n) for n in (table.max(axis=0, initial=-1) + 1 if shape is None else shape)
        )
        if len(sizes) != len(entities):
            raise ParameterError(f"shape must have {len(entities)} numbers, got {len(sizes)}")
        nothing = np.empty((0, len(entities)), int)
        apart = _index_table("held_out", nothing if held_out is None else held_out, len(entities))
        if apart.size and zeros == "missing":
            raise ParameterError("held_out only goes with zeros='observed': just leave cells out")
        _check_range("indices", table, sizes, entities)
        _check_range("held_out", apart, sizes, entities)
        _check_distinct(np.concatenate([table, apart]), sizes, len(table))
        for entity, size in zip(entities, sizes, strict=True):
            if labels and entity in labels and len(labels[entity]) != size:
                raise ParameterError(
                    f"labels of {entity!r} must be {size}, one each, not {len(labels[entity])}"
                )
        return cls(
            entities,
            sizes,
            table.astype(np.int32),
            numbers,
            zeros,
            apart.astype(np.int32),
            {name: tuple(names) for name, names in (labels or {}).items()},
        )

    @classmethod
    def from_dense(
        cls, entities: Sequence[str], array: Any, *, zeros: str = "missing", **options: Any
    ) -> Relation:
        """Build a relation from a dense array; NaN marks missing cells.

        With ``zeros="observed"`` only what is not zero is listed; the cells are the same.
        """
        dense = np.asarray(array, np.float64)
        if np.isinf(dense).any():
            raise ParameterError("array must not hold infinite values; NaN marks missing cells")
        missing = np.isnan(dense)
        if zeros == "observed":
            apart = _index_table(
                "held_out", options.pop("held_out", np.empty((0, dense.ndim))), dense.ndim
            )
            _check_range("held_out", apart, dense.shape, tuple(entities))
            missing[tuple(apart.T)] = True
            options["held_out"] = np.argwhere(missing)
            missing = missing | (dense == 0.0)
        where = np.argwhere(~missing)
        return cls.from_cells(
            entities, where, dense[tuple(where.T)], shape=dense.shape, zeros=zeros, **options
        )

    @classmethod
    def from_scipy(cls, entities: Sequence[str], matrix: Any, **options: Any) -> Relation:
        """Build a two-mode relation from a SciPy sparse matrix; stored entries are the cells."""
        coo = matrix.tocoo(copy=True)
        coo.sum_duplicates()
        return cls.from_cells(
            entities, np.column_stack([coo.row, coo.col]), coo.data, shape=coo.shape, **options
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
        """
        columns = dict(entities) if isinstance(entities, Mapping) else {e: e for e in entities}
        known = {name: tuple(members) for name, members in (labels or {}).items()}
        if isinstance(frame, Table):  # everything that is wrong with it, at once
            raise_for(cell_problems(frame, columns, value, known))
        indices = []
        for entity, column in columns.items():
            ids = _ids(frame, column)
            inverse = None
            if ids.dtype.kind in "iuU":  # what can be sorted at once is looked up once each
                ids, inverse = np.unique(ids, return_inverse=True)
            elif any(is_missing(identity) for identity in ids.tolist()):
                raise ParameterError(f"column {column!r} must name a member in every row")
            if entity not in known:
                known[entity] = tuple(np.unique(ids).tolist())
            positions = _positions(entity, ids, known[entity])
            indices.append(positions if inverse is None else positions[inverse])
        values = None if value is None else _to_array(frame, value)
        return cls.from_cells(
            tuple(columns),
            tuple(indices),
            values,
            shape=[len(known[entity]) for entity in columns],
            labels=known,
            **options,
        )

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
        return tuple(_layout(self.indices, self.values, m, n) for m, n in enumerate(self.shape))

    @cached_property
    def held_out_layouts(self) -> tuple[ModeLayout, ...]:
        """The held-out cells sorted along each mode, with value zero."""
        nothing = np.zeros(len(self.held_out))
        return tuple(_layout(self.held_out, nothing, m, n) for m, n in enumerate(self.shape))

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
        return Relation(
            self.entities, self.shape, indices, values[codes], "missing", labels=self.labels
        )

    def compact(self) -> Relation:
        """Return the same cells in the shorter form.

        Where most cells are held out, listing every observed cell, zeros included, is shorter
        than listing all that are not observed.
        """
        shorter = self.observed <= self.cells + len(self.held_out)
        return self.listed() if shorter else self

    def subset(self, positions: Any) -> Relation:
        """Return the relation with only some of its listed cells, by position."""
        return replace(self, indices=self.indices[positions], values=self.values[positions])

    def scaled(self, factor: float) -> Relation:
        """Return the relation with all values multiplied by a factor."""
        return replace(self, values=self.values * factor)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{e} {n:,}" for e, n in zip(self.entities, self.shape, strict=True))
        return f"<Relation {sizes}: {self.cells:,} listed cells, other cells {self.zeros}>"


def _index_table(name: str, indices: Any, modes: int) -> NDArray[np.int64]:
    """Return indices as a (cells, modes) table of whole numbers."""
    if isinstance(indices, tuple):  # one array per mode
        parts = [np.asarray(part) for part in indices]
        if any(part.shape != parts[0].shape or part.ndim != 1 for part in parts):
            raise ParameterError(f"{name} must hold arrays of one length, one per entity")
        table = np.column_stack(parts) if parts else np.empty((0, 0), int)
    else:
        table = np.asarray(indices)
    if table.ndim != 2 or table.shape[1] != modes:
        raise ParameterError(
            f"{name} must have shape (cells, {modes}), one column per entity, got {table.shape}"
        )
    whole = np.issubdtype(table.dtype, np.integer) or (
        np.issubdtype(table.dtype, np.floating)
        and bool((np.isfinite(table) & (table == np.floor(table))).all())
    )
    if table.size and not whole:
        raise ParameterError(f"{name} must hold whole numbers, got {table.dtype}")
    return table.astype(np.int64)


def _check_range(
    name: str, table: NDArray[np.int64], shape: tuple[int, ...], entities: tuple[str, ...]
) -> None:
    for mode, (size, entity) in enumerate(zip(shape, entities, strict=True)):
        if not 0 < size <= _LARGEST:
            raise ParameterError(f"shape must be positive, got {size} for {entity!r}")
        column = table[:, mode]
        bad = np.flatnonzero((column < 0) | (column >= size))
        if bad.size:
            raise ParameterError(
                f"{name}: {entity} {int(column[bad[0]])} is unknown, there are {size} "
                f"(0 … {size - 1})"
            )


def _check_distinct(table: NDArray[np.int64], shape: tuple[int, ...], listed: int) -> None:
    """Refuse cells that are listed twice."""
    if math.prod(shape) < 2**63:
        code = np.ravel_multi_index(tuple(table.T), shape) if table.size else np.empty(0, int)
        order = np.argsort(code, kind="stable")
        twice = order[1:][code[order][1:] == code[order][:-1]]
    else:
        order = np.lexsort(table.T)
        ordered = table[order]
        twice = order[1:][(ordered[1:] == ordered[:-1]).all(axis=1)]
    if twice.size:
        cell, where = int(twice[0]), "listed twice"
        where = where if cell < listed else "both listed and held out, or held out twice"
        raise ParameterError(
            f"cell {table[cell].tolist()} is {where}: add duplicates up or drop them first"
        )


def _layout(
    indices: NDArray[np.int32], values: NDArray[np.float64], mode: int, size: int
) -> ModeLayout:
    if not len(indices):
        return ModeLayout(np.zeros(size + 1, np.int64), np.empty((0, 1), np.int32), values)
    # within a row, follow the other modes: neighbouring cells then share factor rows
    others = [indices[:, m] for m in range(indices.shape[1]) if m != mode]
    order = np.lexsort((*others, indices[:, mode]))
    starts = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(indices[:, mode], minlength=size), out=starts[1:])
    return ModeLayout(starts, np.ascontiguousarray(indices[order]), values[order])


def _to_array(frame: Any, column: str) -> NDArray[Any]:
    if isinstance(frame, Table):
        return numbers(frame, [column])[:, 0]
    names = column_names(frame)
    if column not in names:
        raise ParameterError(f"there is no column {column!r}: the table has {names[:20]}")
    return column_array(frame[column])


def _ids(frame: Any, column: str) -> NDArray[Any]:
    """Return the ids of a column; those of a text file are text, so that 0012 is not 12."""
    if not isinstance(frame, Table):
        return _to_array(frame, column)
    found = frame.column(column)
    if found.dtype.is_integer() and not found.null_count():
        return np.asarray(found.to_numpy())
    return np.array(texts(found).to_list(), object)


def _positions(entity: str, ids: NDArray[Any], members: tuple[Any, ...]) -> NDArray[np.int64]:
    """Return where each id stands among the known members."""
    table = {member: k for k, member in enumerate(members)}
    if len(table) != len(members):
        raise ParameterError(f"labels of {entity!r} must be distinct")
    if ids.dtype == object and all(isinstance(identity, str) for identity in ids.tolist()):
        named = {plain_text(member): k for k, member in enumerate(members)}
        table = named if len(named) == len(members) else table
    try:
        return np.array([table[identity] for identity in ids.tolist()], np.int64)
    except KeyError as error:
        raise ParameterError(
            f"{entity} {error.args[0]!r} is unknown: it is not among the given labels"
        ) from None
