"""The cells of all relations in one table, and all factors in one vector, for `clipped`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.models.structure import BoundModel

__all__ = ["CellTable", "Layout", "OwnerRule", "cell_table"]


class Layout:
    """Where each factor's numbers lie in one vector.

    Parameters
    ----------
    shapes
        Factor → (rows, columns), in the order of the vector.
    """

    def __init__(self, shapes: Mapping[str, tuple[int, int]]) -> None:
        self.shapes = dict(shapes)
        sizes = [rows * columns for rows, columns in self.shapes.values()]
        ends = np.cumsum([0, *sizes])
        self.size = int(ends[-1])
        self.slices = {
            name: slice(int(ends[k]), int(ends[k + 1])) for k, name in enumerate(self.shapes)
        }

    def view(self, vector: NDArray[Any], name: str) -> NDArray[Any]:
        """Return one factor's part of a vector as a table."""
        return vector[self.slices[name]].reshape(self.shapes[name])

    def vector(self, factors: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the factors as one vector."""
        flat = np.empty(self.size)
        for name in self.shapes:
            self.view(flat, name)[:] = factors[name]
        return flat


class CellTable(NamedTuple):
    """The cells of several relations, by where their rows start in one vector.

    Attributes
    ----------
    values, kinds, starts
        Value, relation number and the start of every factor's row, (cells, factors); a factor
        that is not in the vector has start −1.
    owner_starts
        Cells of member i of the protected entity are owner_starts[i] … owner_starts[i + 1]; empty
        where cells have no owner.
    columns, widths
        Column of factor p in combination r of relation v, (v, p, r), and its columns, (v, p).
    factors, combinations
        How many factors and combinations each relation has.
    powers, weights
        p and 1/φ of each relation.
    own
        Which factor of a relation is the owner's, −1 where none is.
    plain
        Whether combination r uses column r of every factor (CP).
    """

    values: NDArray[np.float64]
    kinds: NDArray[np.int32]
    starts: NDArray[np.int32]
    owner_starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    widths: NDArray[np.int32]
    factors: NDArray[np.int32]
    combinations: NDArray[np.int32]
    powers: NDArray[np.float64]
    weights: NDArray[np.float64]
    own: NDArray[np.int32]
    plain: NDArray[np.bool_]


class OwnerRule(NamedTuple):
    """How an owner's row is solved from its own cells.

    Attributes
    ----------
    free, fixed
        Per column: 1 where it is solved for, and its value where it is not.
    precision
        Prior precision of every column (p = 0).
    shape, rate
        Gamma prior (p = 1): θ has density ∝ θ^(shape − 1)·exp(−rate·θ), shape ≥ 1.
    steps, start
        Multiplicative steps (p = 1) and where they begin.
    """

    free: NDArray[np.float64]
    fixed: NDArray[np.float64]
    precision: float = 1.0
    shape: float = 1.0
    rate: float = 1.0
    steps: int = 10
    start: float = 1.0


def cell_table(
    model: BoundModel,
    cells: Mapping[str, tuple[NDArray[np.int32], NDArray[np.float64], float]],
    layout: Layout,
    owner: str | None = None,
) -> CellTable:
    """Build the table of all cells.

    Parameters
    ----------
    model
        The model of the relations.
    cells
        Relation → indices, values and the weight 1/φ.
    layout
        Where factors lie.
    owner
        The entity whose members own the cells: the cells are sorted by it, and its factor needs
        no place in the layout.
    """
    if layout.size >= 2**31:
        raise ParameterError(f"{layout.size:,} numbers in all factors are too many: at most 2^31")
    depth = max((len(relation.factors) for relation in model.relations), default=1)
    width = max((relation.combinations for relation in model.relations), default=1)
    count = len(model.relations)
    columns = np.zeros((count, depth, width), np.int32)
    widths = np.ones((count, depth), np.int32)
    own = np.full(count, -1, np.int32)
    values, kinds, starts, owners = [], [], [], []
    members = 0
    for v, relation in enumerate(model.relations):
        indices, numbers, _ = cells[relation.name]
        place = np.full((len(numbers), depth), -1, np.int32)
        for p, name in enumerate(relation.factors):
            spec = model.factors[name]
            columns[v, p, : relation.combinations] = relation.columns[p]
            widths[v, p] = spec.columns
            row = indices[:, p] if p < relation.modes else np.zeros(len(numbers), np.int32)
            if name == owner:
                own[v], members = p, spec.rows
                owners.append(row)
            if name in layout.slices:
                place[:, p] = layout.slices[name].start + row.astype(np.int64) * spec.columns
        values.append(np.asarray(numbers, np.float64))
        kinds.append(np.full(len(numbers), v, np.int32))
        starts.append(place)
    listed = np.concatenate(values) if values else np.empty(0)
    kind = np.concatenate(kinds) if kinds else np.empty(0, np.int32)
    start = np.concatenate(starts) if starts else np.empty((0, depth), np.int32)
    owner_starts = np.zeros(1, np.int64)
    if owner is not None:
        if len(owners) != count:
            raise ParameterError(f"every relation must name the entity {owner!r}")
        whose = np.concatenate(owners) if owners else np.empty(0, np.int32)
        order = np.argsort(whose, kind="stable")
        listed, kind, start = listed[order], kind[order], np.ascontiguousarray(start[order])
        owner_starts = np.zeros(members + 1, np.int64)
        np.cumsum(np.bincount(whose, minlength=members), out=owner_starts[1:])
    return CellTable(
        listed, kind, start, owner_starts, columns, widths,
        np.array([len(relation.factors) for relation in model.relations], np.int32),
        np.array([relation.combinations for relation in model.relations], np.int32),
        np.array([relation.power for relation in model.relations], np.float64),
        np.array([cells[relation.name][2] for relation in model.relations], np.float64),
        own,
        np.array([
            all(relation.is_plain(p, model.factors[name].columns)
                for p, name in enumerate(relation.factors))
            for relation in model.relations
        ], bool),
    )  # fmt: skip
