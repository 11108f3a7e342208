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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numba import prange
from numba.extending import register_jitable

from tacit._core import kernels
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.models.structure import BoundModel

__all__ = [
    "CellTable",
    "Layout",
    "OwnerRule",
    "cell_table",
    "entry_sums",
    "entry_sums_reference",
    "owner_rows",
    "owner_rows_reference",
    "owner_sums",
    "owner_sums_reference",
]

FLOOR = 1e-100  # positive estimates below this count as this
_SMALL = 100_000  # below this many multiplications threads cost more than they bring


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


# -- pieces of the kernels ------------------------------------------------------------------


# They take arrays, not the table: taking an array out of a tuple is counted by atomics.


def _gather_cell(
    c: int, v: int, own_at: int, starts: Any, columns: Any, depth: int, width: int, plain: bool,
    theta: Any, own: Any, picked: Any,
) -> float:  # fmt: skip
    """Load the factors of a cell at every combination; return its estimate."""
    for p in range(depth):
        start = starts[c, p]
        if p == own_at:
            for r in range(width):
                picked[p, r] = own[columns[v, p, r]]
        elif plain:
            for r in range(width):
                picked[p, r] = theta[start + r]
        else:
            for r in range(width):
                picked[p, r] = theta[start + columns[v, p, r]]
    estimate = 0.0
    if depth == 2:
        for r in range(width):
            estimate += picked[0, r] * picked[1, r]
    else:
        for r in range(width):
            product = 1.0
            for p in range(depth):
                product *= picked[p, r]
            estimate += product
    return estimate


def _others(
    v: int, p: int, columns: Any, depth: int, width: int, columns_of: int, plain: bool,
    picked: Any, out: Any,
) -> None:  # fmt: skip
    """Write q_p, the product of the other factors added up per column, to ``out``."""
    if plain and depth == 2:
        for r in range(width):
            out[p, r] = picked[1 - p, r]
        return
    for k in range(columns_of):
        out[p, k] = 0.0
    for r in range(width):
        product = 1.0
        for other in range(depth):
            if other != p:
                product *= picked[other, r]
        out[p, columns[v, p, r]] += product


def _slope(x: float, estimate: float, power: float, weight: float) -> float:
    """Return (x − x̂)·x̂^(−p)/φ."""
    if power == 0.0:
        return (x - estimate) * weight
    return (x / max(estimate, 1e-100) - 1.0) * weight


def _shrink(square: float, numbers: int, clip: float) -> float:
    """Return the factor that brings a norm within the clip; 0 for what is not finite."""
    if not square < 1e300:
        return 0.0
    # a sum of d numbers is off by up to d parts in 2^53, in the norm and after scaling
    limit = clip * (1.0 - (numbers + 8) * 2.0**-51)
    length = np.sqrt(square)
    return limit / length if length > limit else 1.0


def _round(value: float) -> np.int64:
    """Return floor(value + ½), 0 for what does not fit."""
    value += 0.5
    return np.int64(np.floor(value)) if abs(value) < 4.0e18 else np.int64(0)


_gather, _q, _slope_of, _factor, _rounded = (
    register_jitable(f) for f in (_gather_cell, _others, _slope, _shrink, _round)
)


def _entry_kernel(
    table: Any, theta: Any, free: Any, counted: Any, clip: float, inverse_grid: float,
    cuts: Any, totals: Any, plain_totals: Any,
) -> None:  # fmt: skip
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    powers, weights = table.powers, table.weights
    widest = max(1, widths.max())
    nothing = np.zeros(1)
    for block in prange(cuts.shape[0] - 1):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        gradient = np.empty((starts.shape[1], widest))
        for n in range(cuts[block], cuts[block + 1]):
            c, v = n, kinds[n]
            depth, width, simple = depths[v], sizes[v], plain[v]
            estimate = _gather(
                c, v, -1, starts, columns, depth, width, simple, theta, nothing, picked
            )
            slope = _slope_of(values[c], estimate, powers[v], weights[v])
            square = 0.0
            numbers = 0
            for p in range(depth):
                if counted[v, p]:
                    span, start = widths[v, p], starts[c, p]
                    _q(v, p, columns, depth, width, span, simple, picked, gradient)
                    for k in range(span):
                        value = gradient[p, k] * slope * free[start + k]
                        gradient[p, k] = value
                        square += value * value
                    numbers += span
            scale = _factor(square, numbers, clip)
            if scale == 0.0:
                continue
            if inverse_grid > 0.0:
                scale *= inverse_grid
                for p in range(depth):
                    if counted[v, p]:
                        start = starts[c, p]
                        for k in range(widths[v, p]):
                            totals[block, start + k] += _rounded(gradient[p, k] * scale)
            else:
                for p in range(depth):
                    if counted[v, p]:
                        start = starts[c, p]
                        for k in range(widths[v, p]):
                            plain_totals[block, start + k] += gradient[p, k] * scale


def _ridge_row(
    low: int, high: int, kinds: Any, values: Any, starts: Any, columns: Any, widths: Any,
    depths: Any, sizes: Any, plain: Any, weights: Any, own: Any, theta: Any, free: Any, fixed: Any,
    precision: float, picked: Any, q: Any, normal: Any, row: Any,
) -> None:  # fmt: skip
    """Solve an owner's row: (Σ q qᵀ/φ + λ)·row = Σ q·x/φ, fixed columns held."""
    width = row.shape[0]
    for k in range(width):
        row[k] = 0.0
        for m in range(width):
            normal[k, m] = 0.0
    for c in range(low, high):
        v = kinds[c]
        at = own[v]
        _gather(
            c, v, at, starts, columns, depths[v], sizes[v], plain[v], theta, fixed, picked
        )  # fmt: skip
        _q(v, at, columns, depths[v], sizes[v], widths[v, at], plain[v], picked, q)
        left = values[c]
        for k in range(width):
            left -= (1.0 - free[k]) * q[at, k] * fixed[k]
        for k in range(width):
            scaled = weights[v] * q[at, k]
            row[k] += scaled * left
            for m in range(k + 1):
                normal[k, m] += scaled * q[at, m]
    for k in range(width):
        if free[k] == 0.0:
            row[k] = fixed[k]
        for m in range(k + 1):
            if free[k] == 0.0 or free[m] == 0.0:
                normal[k, m] = 0.0
        normal[k, k] = normal[k, k] + precision if free[k] != 0.0 else 1.0
    # Cholesky, then the two triangular systems
    for k in range(width):
        for m in range(k + 1):
            total = normal[k, m]
            for n in range(m):
                total -= normal[k, n] * normal[m, n]
            normal[k, m] = np.sqrt(max(total, 1e-300)) if k == m else total / normal[m, m]
    for k in range(width):
        total = row[k]
        for n in range(k):
            total -= normal[k, n] * row[n]
        row[k] = total / normal[k, k]
    for k in range(width - 1, -1, -1):
        total = row[k]
        for n in range(k + 1, width):
            total -= normal[n, k] * row[n]
        row[k] = total / normal[k, k]


def _positive_row(
    low: int, high: int, kinds: Any, values: Any, starts: Any, columns: Any, widths: Any,
    depths: Any, sizes: Any, plain: Any, weights: Any, own: Any, theta: Any, free: Any, fixed: Any,
    shape: float, rate: float, steps: int, first: float, picked: Any, q: Any, normal: Any,
    row: Any,
) -> None:  # fmt: skip
    """Take multiplicative steps: row ← (row·Σ (x/x̂)·q/φ + shape − 1) / (Σ q/φ + rate)."""
    width = row.shape[0]
    for k in range(width):
        row[k] = first if free[k] != 0.0 else fixed[k]
    for _ in range(steps):
        for k in range(width):
            normal[k, 0] = 0.0
            normal[k, 1] = rate
        for c in range(low, high):
            v = kinds[c]
            at = own[v]
            estimate = _gather(
                c, v, at, starts, columns, depths[v], sizes[v], plain[v], theta, row, picked
            )
            _q(v, at, columns, depths[v], sizes[v], widths[v, at], plain[v], picked, q)
            ratio = values[c] / max(estimate, 1e-100)
            for k in range(width):
                scaled = q[at, k] * weights[v]
                normal[k, 0] += ratio * scaled
                normal[k, 1] += scaled
        for k in range(width):
            if free[k] != 0.0:
                row[k] = (row[k] * normal[k, 0] + shape - 1.0) / max(normal[k, 1], 1e-100)


_ridge, _positive = register_jitable(_ridge_row), register_jitable(_positive_row)


def _rows_kernel(picks: Any, table: Any, theta: Any, rule: Any, cuts: Any, out: Any) -> None:
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    powers, weights = table.powers, table.weights
    own, ends = table.own, table.owner_starts
    own_free, fixed = rule.free, rule.fixed
    widest = max(2, widths.max())
    for block in prange(cuts.shape[0] - 1):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        q = np.empty((starts.shape[1], widest))
        normal = np.empty((widest, widest))
        row = np.empty(own_free.shape[0])
        for n in range(cuts[block], cuts[block + 1]):
            low, high = ends[picks[n]], ends[picks[n] + 1]
            if powers[0] == 0.0:
                _ridge(low, high, kinds, values, starts, columns, widths, depths, sizes, plain,
                       weights, own, theta, own_free, fixed, rule.precision, picked, q, normal,
                       row)  # fmt: skip
            else:
                _positive(low, high, kinds, values, starts, columns, widths, depths, sizes, plain,
                          weights, own, theta, own_free, fixed, rule.shape, rule.rate, rule.steps,
                          rule.start, picked, q, normal, row)  # fmt: skip
            for k in range(row.shape[0]):
                out[n, k] = row[k]


def _owner_kernel(
    picks: Any, table: Any, theta: Any, free: Any, rule: Any, clip: float, inverse_grid: float,
    cuts: Any, totals: Any, plain_totals: Any,
) -> None:  # fmt: skip
    values, kinds, starts, columns = table.values, table.kinds, table.starts, table.columns
    widths, depths, sizes, plain = table.widths, table.factors, table.combinations, table.plain
    powers, weights = table.powers, table.weights
    own, ends = table.own, table.owner_starts
    own_free, fixed = rule.free, rule.fixed
    widest = max(2, widths.max())
    size = theta.shape[0]
    for block in prange(cuts.shape[0] - 1):
        picked = np.empty((starts.shape[1], columns.shape[2]))
        q = np.empty((starts.shape[1], widest))
        normal = np.empty((widest, widest))
        row = np.empty(own_free.shape[0])
        gradient = np.empty(size)
        stamp = np.full(size, -1, np.int64)
        touched = np.empty(size + 1, np.int64)
        lengths = np.empty(size + 1, np.int64)
        for n in range(cuts[block], cuts[block + 1]):
            low, high = ends[picks[n]], ends[picks[n] + 1]
            if low == high:
                continue
            if powers[0] == 0.0:
                _ridge(low, high, kinds, values, starts, columns, widths, depths, sizes, plain,
                       weights, own, theta, own_free, fixed, rule.precision, picked, q, normal,
                       row)  # fmt: skip
            else:
                _positive(low, high, kinds, values, starts, columns, widths, depths, sizes, plain,
                          weights, own, theta, own_free, fixed, rule.shape, rule.rate, rule.steps,
                          rule.start, picked, q, normal, row)  # fmt: skip
            rows = 0
            numbers = 0
            for c in range(low, high):
                v = kinds[c]
                depth, width, simple = depths[v], sizes[v], plain[v]
                estimate = _gather(
                    c, v, own[v], starts, columns, depth, width, simple, theta, row, picked
                )
                slope = _slope_of(values[c], estimate, powers[v], weights[v])
                for p in range(depth):
                    if p == own[v]:
                        continue
                    start, span = starts[c, p], widths[v, p]
                    _q(v, p, columns, depth, width, span, simple, picked, q)
                    if stamp[start] != n:
                        stamp[start] = n
                        touched[rows] = start
                        lengths[rows] = span
                        numbers += span
                        rows += 1
                        for k in range(span):
                            gradient[start + k] = slope * q[p, k]
                    else:
                        for k in range(span):
                            gradient[start + k] += slope * q[p, k]
            square = 0.0
            for m in range(rows):
                for k in range(touched[m], touched[m] + lengths[m]):
                    gradient[k] *= free[k]
                    square += gradient[k] * gradient[k]
            scale = _factor(square, numbers, clip)
            if scale == 0.0:
                continue
            if inverse_grid > 0.0:
                scale *= inverse_grid
                for m in range(rows):
                    for k in range(touched[m], touched[m] + lengths[m]):
                        totals[block, k] += _rounded(gradient[k] * scale)
            else:
                for m in range(rows):
                    for k in range(touched[m], touched[m] + lengths[m]):
                        plain_totals[block, k] += gradient[k] * scale


# -- the kernels for use ----------------------------------------------------------------------


def _plan(work: int, weights: NDArray[np.int64] | int) -> tuple[bool, NDArray[np.int64]]:
    """Return whether to use threads, and the cuts between their shares of the picks."""
    import numba

    parallel = work > _SMALL and not kernels.in_forked_child()
    blocks = numba.get_num_threads() if parallel else 1
    if isinstance(weights, int):
        return parallel, np.arange(blocks + 1) * weights // blocks
    ends = np.concatenate([[0], np.cumsum(weights)])
    shares = np.arange(blocks + 1) * int(ends[-1]) / blocks
    cuts = np.searchsorted(ends, shares)
    cuts[0], cuts[-1] = 0, len(weights)
    return parallel, cuts.astype(np.int64)


def _outputs(
    blocks: int, size: int, inverse_grid: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    whole = (blocks, size) if inverse_grid > 0.0 else (blocks, 0)
    real = (blocks, 0) if inverse_grid > 0.0 else (blocks, size)
    return np.zeros(whole, np.int64), np.zeros(real)


def _added(totals: NDArray[np.int64], plain: NDArray[np.float64]) -> NDArray[Any]:
    parts: NDArray[Any] = totals if totals.shape[1] else plain
    total: NDArray[Any] = parts[0]
    for part in parts[1:]:
        total += part
    return total


def entry_sums(
    picks: NDArray[np.int64],
    table: CellTable,
    theta: NDArray[np.float64],
    free: NDArray[np.float64],
    counted: NDArray[np.bool_],
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """Return the sum over picked cells of their clipped gradients.

    Parameters
    ----------
    picks
        Which cells.
    table, theta
        The cells, and all factors.
    free
        1 for every number of θ that may move, else 0.
    counted
        Which factors of which relation belong to a contribution, (relations, factors).
    clip
        The largest norm of a contribution; infinity leaves them as they are.
    inverse_grid
        One over the grid step: the result is int64 in steps. 0 adds up floats instead.
    """
    work = len(picks) * table.columns.shape[1] * table.columns.shape[2]
    parallel, cuts = _plan(work, len(picks))
    totals, plain = _outputs(len(cuts) - 1, len(theta), inverse_grid)
    if len(picks):
        # sampled cells lie far apart: fetching them together hides most of the waiting
        table = table._replace(
            values=table.values[picks], kinds=table.kinds[picks], starts=table.starts[picks]
        )
        kernels.compiled(_entry_kernel, parallel=parallel, reassociate=True, unchecked=True)(
            table, theta, free, counted, float(clip), float(inverse_grid), cuts, totals,
            plain,
        )  # fmt: skip
    return _added(totals, plain)


def owner_sums(
    picks: NDArray[np.int64],
    table: CellTable,
    theta: NDArray[np.float64],
    free: NDArray[np.float64],
    rule: OwnerRule,
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """Return the sum over picked owners of their clipped gradients; see `entry_sums`."""
    held = table.owner_starts[picks + 1] - table.owner_starts[picks]
    work = int(held.sum()) * table.columns.shape[1] * table.columns.shape[2] * len(rule.free)
    parallel, cuts = _plan(work, held)
    totals, plain = _outputs(len(cuts) - 1, len(theta), inverse_grid)
    if len(picks):
        kernels.compiled(_owner_kernel, parallel=parallel, reassociate=True, unchecked=True)(
            picks, table, theta, free, rule, float(clip), float(inverse_grid), cuts, totals, plain
        )
    return _added(totals, plain)


def owner_rows(
    picks: NDArray[np.int64], table: CellTable, theta: NDArray[np.float64], rule: OwnerRule
) -> NDArray[np.float64]:
    """Return the solved rows of picked owners."""
    out = np.zeros((len(picks), len(rule.free)))
    held = table.owner_starts[picks + 1] - table.owner_starts[picks]
    work = int(held.sum()) * table.columns.shape[1] * table.columns.shape[2] * len(rule.free)
    parallel, cuts = _plan(work, held)
    if len(picks):
        kernels.compiled(_rows_kernel, parallel=parallel, reassociate=True, unchecked=True)(
            picks, table, theta, rule, cuts, out
        )
    return out


# -- twins in NumPy ---------------------------------------------------------------------------


def _cell_reference(
    c: int, table: CellTable, theta: NDArray[np.float64], own: NDArray[np.float64]
) -> tuple[float, list[NDArray[np.float64]]]:
    """Return a cell's estimate and q_p for each of its factors."""
    v = int(table.kinds[c])
    used = slice(0, int(table.combinations[v]))
    loaded = []
    for p in range(int(table.factors[v])):
        columns = table.columns[v, p, used]
        source = own if p == table.own[v] and len(own) else theta[int(table.starts[c, p]) :]
        loaded.append(source[columns])
    q = []
    for p in range(len(loaded)):
        others = np.prod([part for m, part in enumerate(loaded) if m != p] or [np.ones(used.stop)],
                         axis=0)  # fmt: skip
        width = int(table.widths[v, p])
        q.append(np.asarray(np.bincount(table.columns[v, p, used], others, width), np.float64))
    return float(np.prod(loaded, axis=0).sum()), q


def _clipped_reference(
    contribution: NDArray[np.float64], clip: float, inverse_grid: float
) -> NDArray[Any]:
    """Return one contribution clipped and rounded."""
    length = float(np.sqrt(np.square(contribution).sum()))
    if not np.isfinite(length):
        return np.zeros(len(contribution), np.int64 if inverse_grid else np.float64)
    scaled = contribution * min(1.0, clip / length if length else 1.0)
    return np.floor(scaled * inverse_grid + 0.5).astype(np.int64) if inverse_grid else scaled


def entry_sums_reference(
    picks: NDArray[np.int64],
    table: CellTable,
    theta: NDArray[np.float64],
    free: NDArray[np.float64],
    counted: NDArray[np.bool_],
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """NumPy twin of `entry_sums`, up to roundings at the very edge of the grid."""
    total = np.zeros(len(theta), np.int64 if inverse_grid else np.float64)
    for c in picks:
        v = int(table.kinds[c])
        estimate, q = _cell_reference(c, table, theta, np.empty(0))
        slope = _slope(table.values[c], estimate, table.powers[v], table.weights[v])
        contribution = np.zeros(len(theta))
        for p, part in enumerate(q):
            if counted[v, p]:
                start = int(table.starts[c, p])
                contribution[start : start + len(part)] += slope * part
        total += _clipped_reference(contribution * free, clip, inverse_grid)
    return total


def owner_rows_reference(
    picks: NDArray[np.int64], table: CellTable, theta: NDArray[np.float64], rule: OwnerRule
) -> NDArray[np.float64]:
    """NumPy twin of `owner_rows`."""
    rows, free = [], rule.free != 0.0
    for member in picks:
        cells = range(int(table.owner_starts[member]), int(table.owner_starts[member + 1]))
        row = np.where(free, rule.start, rule.fixed)
        if table.powers[0] == 0.0:
            design = np.array(
                [_cell_reference(c, table, theta, row)[1][table.own[table.kinds[c]]]
                 for c in cells]
            ).reshape(-1, len(row))  # fmt: skip
            weights = table.weights[table.kinds[cells.start : cells.stop]]
            left = table.values[cells.start : cells.stop] - design[:, ~free] @ rule.fixed[~free]
            gram = (design[:, free].T * weights) @ design[:, free]
            gram += rule.precision * np.eye(int(free.sum()))
            row[free] = np.linalg.solve(gram, design[:, free].T @ (weights * left))
        else:
            for _ in range(rule.steps):
                up, down = np.zeros(len(row)), np.full(len(row), rule.rate)
                for c in cells:
                    estimate, q = _cell_reference(c, table, theta, row)
                    part = q[table.own[table.kinds[c]]] * table.weights[table.kinds[c]]
                    up += table.values[c] / max(estimate, FLOOR) * part
                    down += part
                row = np.where(free, (row * up + rule.shape - 1.0) / down, row)
        rows.append(row)
    return np.array(rows).reshape(len(picks), len(rule.free))


def owner_sums_reference(
    picks: NDArray[np.int64],
    table: CellTable,
    theta: NDArray[np.float64],
    free: NDArray[np.float64],
    rule: OwnerRule,
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """NumPy twin of `owner_sums`, up to roundings at the very edge of the grid."""
    total = np.zeros(len(theta), np.int64 if inverse_grid else np.float64)
    rows = owner_rows_reference(picks, table, theta, rule)
    for member, row in zip(picks, rows, strict=True):
        contribution = np.zeros(len(theta))
        for c in range(int(table.owner_starts[member]), int(table.owner_starts[member + 1])):
            v = int(table.kinds[c])
            estimate, q = _cell_reference(c, table, theta, row)
            slope = _slope(table.values[c], estimate, table.powers[v], table.weights[v])
            for p, part in enumerate(q):
                if p != table.own[v]:
                    start = int(table.starts[c, p])
                    contribution[start : start + len(part)] += slope * part
        total += _clipped_reference(contribution * free, clip, inverse_grid)
    return total
