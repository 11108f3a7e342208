"""Normal equations of factor rows: what Gaussian models ask of their relations.

A cell's estimate is x̂ = θ_i·z, where θ_i is the row of one factor and z the product of the other
factors at the cell, added up over the combinations that use the same column. The log likelihood
of x ~ N(x̂, φ) is therefore quadratic in the row, with

    precision Σ z·zᵀ/φ and linear term Σ z·x/φ

over its cells. The products of a row's cells are gathered and multiplied as one matrix. Observed
zeros that are not listed enter through the Gram matrices of the other factors. Under a logit link
cells have precisions ω of their own, and the linear term is Σ z·(x − ½)/φ
(`tacit.factorization.alone.numerics.log_odds`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from tacit._core import kernels, threads
from tacit._core.rows_in_registers import (
    LANES,
    add_combination,
    add_row,
    add_squares,
    copy_row,
    dot,
    multiply_row,
    padded,
)
from tacit.data.relations import ModeLayout
from tacit.factorization.alone.numerics.interleaved import TOGETHER, solve_together
from tacit.factorization.alone.numerics.log_odds import Precisions
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.language.structure import BoundRelation

__all__ = ["normal_equations", "row_chunks", "solve_rows"]

_AT_ONCE = 1 << 18  # numbers in the precisions of the rows that are worked on together
_BLOCK = 64  # cells whose products are gathered, and stay near, before they are multiplied
_MULTIPLE = 2 * LANES
_NONE = np.empty(0)
_FEW = 32  # columns up to which eight rows are solved together: their triangles fit into a cache


def row_chunks(rows: int, columns: int) -> Iterator[slice]:
    """Yield the rows of a factor in parts whose precisions fit into a few megabytes."""
    size = max(1, _AT_ONCE // columns**2)
    for first in range(0, rows, size):
        yield slice(first, min(first + size, rows))


def normal_equations(
    engine: Engine,
    expanded: Expanded,
    name: str,
    dispersions: Mapping[str, float],
    part: slice,
    only: Collection[str] | None = None,
    odds: Mapping[str, Precisions] | None = None,
) -> tuple[Floats, Floats]:
    """Return Σ z·zᵀ/φ and Σ z·x/φ, (rows, columns), of a part of the rows.

    Of the precisions, (rows, columns, columns and some more), the upper triangle counts: they are
    for `solve_rows`.

    Parameters
    ----------
    engine, expanded
        The data, and all factors.
    name
        Whose rows.
    dispersions
        Relation → φ.
    part
        Which rows; a core has one.
    only
        The relations that count; all of them unless given.
    odds
        Relation with a logit link → the precisions of its cells, sorted along this factor.
    """
    columns = engine.model.factors[name].columns
    count = part.stop - part.start
    wide = -(-columns // _MULTIPLE) * _MULTIPLE
    left, right = np.zeros((count, columns, wide)), np.zeros((count, columns))
    for relation, position in engine.model.using(name):
        if only is not None and relation.name not in only:
            continue
        found, weight = engine.data[relation.name], 1.0 / dispersions[relation.name]
        core = position >= relation.modes
        listed = found.layouts[0 if core else position]
        if odds is not None and relation.name in odds:
            _add_odds(engine, expanded, relation, position, odds[relation.name], part, left, right)
            continue
        if found.zeros == "missing":
            _add(expanded, relation, position, listed, part, (weight, weight), left, right)
            continue
        left[:, :, :columns] += weight * _gram(engine, expanded, relation, position)
        _add(expanded, relation, position, listed, part, (0.0, weight), left, right)
        if len(found.held_out):
            apart = found.held_out_layouts[0 if core else position]
            _add(expanded, relation, position, apart, part, (-weight, 0.0), left, right)
    return left, right


def _gram(engine: Engine, expanded: Expanded, relation: BoundRelation, position: int) -> Floats:
    """Return Σ z·zᵀ over all cells of a relation: the same for every row."""
    skip = position if position < relation.modes else -1
    weights = expanded.weights(relation, position)
    whole = expanded.grams(relation, skip) * np.outer(weights, weights)
    return engine.reduce(relation, position, engine.reduce(relation, position, whole).T)


def _add_odds(
    engine: Engine,
    expanded: Expanded,
    relation: BoundRelation,
    position: int,
    odds: Precisions,
    part: slice,
    left: Floats,
    right: Floats,
) -> None:
    """Add what the cells of a logit link say about rows, given their precisions."""
    found, core = engine.data[relation.name], position >= relation.modes
    listed = found.layouts[0 if core else position]
    centred, weight = relation.weight * (listed.values - 0.5), relation.weight
    roots = np.sqrt(odds.listed)
    values = listed._replace(values=centred / roots)
    _add(expanded, relation, position, values, part, (1.0, 1.0), left, right, roots)
    if found.zeros == "missing":
        return
    # every cell, as if it were one of the zeros that are not listed; then without those that are
    left[:, :, : right.shape[1]] += odds.unlisted * _gram(engine, expanded, relation, position)
    ones = listed._replace(values=np.full(len(centred), 0.5 * weight))
    _add(expanded, relation, position, ones, part, (-odds.unlisted, 1.0), left, right)
    if len(found.held_out):
        apart = found.held_out_layouts[0 if core else position]
        _add(expanded, relation, position, apart, part, (-odds.unlisted, 0.0), left, right)
    right -= 0.5 * weight * engine.sums(expanded, relation, position)[part]


def _add(
    expanded: Expanded,
    relation: BoundRelation,
    position: int,
    layout: ModeLayout,
    part: slice,
    scales: tuple[float, float],
    left: Floats,
    right: Floats,
    roots: Floats = _NONE,
) -> None:
    """Add the products of listed cells to precisions and linear terms, times the two scales.

    Products are multiplied by the ``roots`` of cells, where there are any.
    """
    cells = len(layout.values)
    if not cells:
        return
    core = position >= relation.modes
    starts: Integers = layout.starts[part.start : part.stop + 1]
    lefts, rights = left, right
    if core:  # one row of all cells: cut into pieces, which are added up
        pieces = min(cells, threads.threads() * threads.PIECES)
        starts = np.arange(pieces + 1) * cells // pieces
        lefts, rights = np.zeros((pieces, *left.shape[1:])), np.zeros((pieces, right.shape[1]))
    bank = expanded.banks[relation.name]
    weights = expanded.weights(relation, position)
    threads.over_range(
        kernels.compiled(_add_cells, reassociate=True, unchecked=True),
        len(starts) - 1,
        starts,
        layout.indices,
        layout.values,
        bank.rows,
        bank.offsets,
        padded(weights[None, :]),
        not (weights == 1.0).all(),
        relation.columns[position],
        relation.is_plain(position, left.shape[1]),
        -1 if core else position,
        *scales,
        roots,
        lefts.reshape(-1, left.shape[2]),
        rights,
    )
    if core:
        left += lefts.sum(axis=0)
        right += rights.sum(axis=0)


def _add_cells(
    first: int,
    last: int,
    starts: Any,
    cells: Any,
    values: Any,
    bank: Any,
    base: Any,
    weights: Any,
    weighted: bool,
    columns: Any,
    plain: bool,
    skip: int,
    left_scale: float,
    right_scale: float,
    roots: Any,
    left: Any,
    right: Any,
) -> None:
    """Add Σ z·zᵀ (upper triangle) and Σ z·x of rows first … last, times their scales."""
    combinations, width, wide = columns.shape[0], right.shape[1], left.shape[1]
    design = np.zeros((_BLOCK + 1, wide))
    # products are formed where they stay, or beside it and then added up
    products = design if plain else np.zeros((_BLOCK, bank.shape[1]))
    square, linear = np.empty((wide, wide)), np.empty((1, wide))
    shares = np.zeros((1, _BLOCK + 1))
    for row in range(first, last):
        square[:] = 0.0
        linear[:] = 0.0
        low = starts[row]
        while low < starts[row + 1]:
            count = min(_BLOCK, starts[row + 1] - low)
            for c in range(count):
                started = weighted or cells.shape[1] == 1
                if started:
                    copy_row(products, c, weights, 0)
                for m in range(cells.shape[1]):
                    if m != skip:
                        i = base[m] + cells[low + c, m]
                        if started:
                            multiply_row(products, c, bank, i)
                        else:
                            copy_row(products, c, bank, i)
                        started = True
                if not plain:
                    design[c] = 0.0
                    for r in range(combinations):
                        design[c, columns[r]] += products[c, r]
                if roots.shape[0] > 0:
                    for k in range(width):
                        design[c, k] *= roots[low + c]
                shares[0, c] = right_scale * values[low + c]
            shares[0, count] = 0.0
            if right_scale != 0.0:
                add_combination(linear, 0, design, shares, (count + 1) // 2, 0)
            if left_scale != 0.0:
                add_squares(square, design, count, width)
            low += count
        for k in range(width):
            right[row, k] += linear[0, k]
            if left_scale != 0.0:
                add_row(left, row * width + k, square, k, left_scale)


def solve_rows(precisions: Floats, diagonal: Floats, right: Floats, noise: Floats) -> Floats:
    """Return P⁻¹·b + U⁻¹·ξ for every row, where UᵀU = P: covariance P⁻¹ for standard normal ξ.

    P is the precision of `normal_equations` with the same diagonal added to every row's.
    """
    out = np.empty_like(right)
    together = right.shape[1] <= _FEW
    blocks = -(-len(right) // TOGETHER) if together else len(right)
    kernel = solve_together if together else _solve
    flat = precisions.reshape(-1, precisions.shape[2])
    threads.over_range(
        kernels.compiled(kernel, reassociate=True, unchecked=True),
        blocks,
        flat,
        diagonal,
        right,
        noise,
        out,
    )
    return out


def _solve(
    first: int, last: int, precisions: Any, diagonal: Any, right: Any, noise: Any, out: Any
) -> None:
    """Factorize a row's precision and solve forward and backward.

    Row k of ``u`` is that of U times its pivot; what stands left of the pivot is never read.
    """
    size, wide = right.shape[1], precisions.shape[1]
    u, inverse = np.zeros((size + 1, wide)), np.empty(size)
    shares, forward = np.zeros((1, size + 1)), np.empty(size)
    solution = np.empty((1, wide))
    for row in range(first, last):
        for i in range(size):
            copy_row(u, i, precisions, row * size + i)
            u[i, i] += diagonal[i]
            known = right[row, i]
            for k in range(i):
                share = -u[k, i] * inverse[k] * inverse[k]
                shares[0, k] = share
                known += share * forward[k]
            shares[0, i] = 0.0
            add_combination(u, i, u, shares, (i + 1) // 2, i // _MULTIPLE * _MULTIPLE)
            # rounding may leave less than nothing of a pivot that other cells explain
            inverse[i] = 1.0 / np.sqrt(max(u[i, i], 1e-300))
            forward[i] = known
        solution[:] = 0.0
        for k in range(size - 1, -1, -1):
            known = forward[k] * inverse[k] + noise[row, k]
            known -= dot(u, k, solution, 0) * inverse[k]
            solution[0, k] = known * inverse[k]
        for k in range(size):
            out[row, k] = solution[0, k]
