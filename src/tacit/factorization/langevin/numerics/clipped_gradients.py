"""Sums of per-unit clipped gradients on a grid: the numerics of private stochastic gradients.

A cell's estimate is x̂ = Σ_r Π_p θ_p[i_p, column_p(r)], over the factors p of its relation and the
combinations r of latent indices. Its gradient of −d_p(x, x̂)/φ along the row of factor p is

    (x − x̂)·x̂^(−p)/φ · q_p,   q_p[k] = Σ over r with column_p(r) = k of Π_{p' ≠ p} θ_{p'}.

All factors lie in one vector θ, and a `CellTable` lists every cell of every relation by where its
rows start in it, so that one kernel serves matrices, tensors, cores and several relations at once.

*Entries* (`entry_sums`): one cell's gradient over all its factors is one contribution.
*Owners* (`owner_sums`): all cells of one member of the protected entity are one contribution. Its
own row is solved from its cells and θ alone (ridge for p = 0, multiplicative steps for p = 1), and
the contribution is the gradient over all other factors, added up over the member's cells.

A contribution is scaled to an L2 norm of at most ``clip``, rounded to a grid by floor(x/g + ½) and
added up in int64; one that is not finite counts as nothing. Nothing here draws a random number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._core import kernels, threads
from tacit.errors import ParameterError
from tacit.factorization.arrays import Factors, Floats, Integers
from tacit.factorization.langevin.numerics.clipped_loops import entry_kernel
from tacit.factorization.langevin.numerics.clipped_owner_loops import (
    owner_kernel,
    positive_kernel,
    ridge_kernel,
)
from tacit.factorization.language.structure import BoundModel

__all__ = [
    "CellTable",
    "Layout",
    "OwnerRule",
    "cell_table",
    "entry_sums",
    "owner_rows",
    "owner_sums",
]


class Layout:
    """Where the numbers of each factor, (rows, columns), lie in one vector, in order."""

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

    def vector(self, factors: Factors) -> Floats:
        """Return the factors as one vector."""
        flat = np.empty(self.size)
        for name in self.shapes:
            self.view(flat, name)[:] = factors[name]
        return flat


class CellTable(NamedTuple):
    """The cells of several relations, by where their rows start in one vector."""

    values: Floats
    kinds: NDArray[np.int32]  # the number of a cell's relation
    starts: NDArray[np.int32]  # of every factor's row, (cells, factors); −1 if not in the vector
    owner_starts: Integers  # cells of member i are owner_starts[i] … owner_starts[i + 1], if any
    columns: NDArray[np.int32]  # of factor p in combination r of relation v, (v, p, r)
    widths: NDArray[np.int32]  # how many columns a factor has, (v, p)
    factors: NDArray[np.int32]  # how many each relation has
    combinations: NDArray[np.int32]  # likewise
    powers: Floats  # p of each relation
    weights: Floats  # 1/φ of each relation
    own: NDArray[np.int32]  # which factor of a relation is the owner's, −1 where none is
    plain: NDArray[np.bool_]  # whether combination r uses column r of every factor (CP)


class OwnerRule(NamedTuple):
    """How an owner's row is solved from its own cells."""

    free: Floats  # 1 for every column that is solved for
    fixed: Floats  # the values of the others
    precision: float = 1.0  # of the prior of every column (p = 0)
    # gamma prior (p = 1): θ has density ∝ θ^(shape − 1)·exp(−rate·θ), shape ≥ 1
    shape: float = 1.0
    rate: float = 1.0
    steps: int = 10  # multiplicative ones (p = 1)
    start: float = 1.0  # where they begin


def cell_table(
    model: BoundModel,
    cells: Mapping[str, tuple[NDArray[np.int32], Floats, float]],
    layout: Layout,
    owner: str | None = None,
) -> CellTable:
    """Build the table of all cells: relation → indices, values and the weight 1/φ.

    Where members of an entity own the cells, the cells are sorted by it, and its factor needs no
    place in the layout.
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
        listed,
        kind,
        start,
        owner_starts,
        columns,
        widths,
        np.array([len(relation.factors) for relation in model.relations], np.int32),
        np.array([relation.combinations for relation in model.relations], np.int32),
        np.array([relation.power for relation in model.relations], np.float64),
        np.array([cells[relation.name][2] for relation in model.relations], np.float64),
        own,
        np.array([_is_plain(model, relation) for relation in model.relations], bool),
    )


def _is_plain(model: BoundModel, relation: Any) -> bool:
    """Whether a relation's factors have their latent columns in order."""
    return all(
        relation.is_plain(p, model.factors[name].columns)
        for p, name in enumerate(relation.factors)
    )


_SMALL = 100_000  # below this many multiplications threads cost more than they bring


def _plan(work: int, weights: Integers | int) -> Integers:
    """Return the cuts between the threads' shares of the picks."""
    blocks = threads.threads() if work > _SMALL else 1
    if isinstance(weights, int):
        return np.arange(blocks + 1) * weights // blocks
    ends = np.concatenate([[0], np.cumsum(weights)])
    shares = np.arange(blocks + 1) * int(ends[-1]) / blocks
    cuts = np.searchsorted(ends, shares)
    cuts[0], cuts[-1] = 0, len(weights)
    return cuts.astype(np.int64)


def _run(kernel: Any, cuts: Integers, *args: Any) -> None:
    """Run a kernel over the blocks between the cuts."""
    form = kernels.compiled(kernel, reassociate=True, unchecked=True)
    threads.over_range(form, len(cuts) - 1, *args)


def _totals(cuts: Integers, size: int, inverse_grid: float) -> NDArray[Any]:
    """Return where each block adds up, in whole grid steps or as floats."""
    return np.zeros((len(cuts) - 1, size), np.int64 if inverse_grid > 0.0 else np.float64)


def _added(parts: NDArray[Any]) -> NDArray[Any]:
    total: NDArray[Any] = parts[0]
    for part in parts[1:]:
        total += part
    return total


def entry_sums(
    picks: Integers,
    table: CellTable,
    theta: Floats,
    free: Floats,
    counted: NDArray[np.bool_],
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """Return the sum over picked cells of their clipped gradients.

    ``free`` is 1 for every number of θ that may move, else 0; ``counted`` says which factors of
    which relation belong to a contribution. An infinite ``clip`` leaves contributions as they are.
    The result is int64 in grid steps; where ``inverse_grid`` is 0, floats are added up instead.
    """
    work = len(picks) * table.columns.shape[1] * table.columns.shape[2]
    cuts = _plan(work, len(picks))
    totals = _totals(cuts, len(theta), inverse_grid)
    if len(picks):
        # sampled cells lie far apart: fetching them together hides most of the waiting
        table = table._replace(
            values=table.values[picks], kinds=table.kinds[picks], starts=table.starts[picks]
        )
        clip, inverse_grid = float(clip), float(inverse_grid)
        _run(entry_kernel, cuts, table, theta, free, counted, clip, inverse_grid, cuts, totals)
    return _added(totals)


def owner_sums(
    picks: Integers,
    table: CellTable,
    theta: Floats,
    free: Floats,
    rule: OwnerRule,
    clip: float,
    inverse_grid: float,
    rows: Floats | None = None,
) -> NDArray[Any]:
    """Return the sum over picked owners of their clipped gradients; see `entry_sums`.

    They are taken at ``rows``, or at those that are solved.
    """
    cuts = _owner_plan(picks, table, rule)
    rows = owner_rows(picks, table, theta, rule) if rows is None else rows
    totals = _totals(cuts, len(theta), inverse_grid)
    if len(picks):
        clip, inverse_grid = float(clip), float(inverse_grid)
        _run(owner_kernel, cuts, picks, table, theta, free, rows, clip, inverse_grid, cuts, totals)
    return _added(totals)


def owner_rows(picks: Integers, table: CellTable, theta: Floats, rule: OwnerRule) -> Floats:
    """Return the solved rows of picked owners."""
    out = np.zeros((len(picks), len(rule.free)))
    cuts = _owner_plan(picks, table, rule)
    if len(picks):
        kernel = ridge_kernel if table.powers[0] == 0.0 else positive_kernel
        _run(kernel, cuts, picks, table, theta, rule, cuts, out)
    return out


def _owner_plan(picks: Integers, table: CellTable, rule: OwnerRule) -> Integers:
    """Return the cuts between the threads' shares of picked owners."""
    held = table.owner_starts[picks + 1] - table.owner_starts[picks]
    work = int(held.sum()) * table.columns.shape[1] * table.columns.shape[2] * len(rule.free)
    return _plan(work, held)
