"""One pass over the observed cells of a relation: the heart of every factorization.

A cell's estimate is x̂ = Σ_r own[i, r]·q_r, where q_r is the product of the other factors' rows
(and cores) at the combination r of latent indices. A sweep along a mode returns, for each of its
rows, Σ_cells a·q and Σ_cells b·q with

    a = x·x̂^(−p),   b = x̂^(1−p),

the numerator and denominator of the multiplicative update (for p = 1, of the variational one); of
negative binomial counts b = (1 + φx)/(1 + φx̂), under a logit link a = x and b = 1/(1 + e^(−x̂)). So
Σ a·q − Σ b·q is minus the gradient of the loss, whichever it is. (Losses that are no β-divergence
have a sweep for each of the two: their branches would cost the others a fifth of their speed.)
Cells are sorted along the mode, cut into blocks of equal length, and each block is one thread's:
rows inside a block are written directly, the first and the last one are added up afterwards, so
there are no atomics, no temporaries of the size of the data, and long rows do not stall a thread.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray
from scipy import special

from tacit._core import kernels, threads
from tacit._core.rows_in_registers import (
    add_product,
    add_product_twice,
    add_row,
    copy_row,
    dot,
    multiply_row,
    padded,
    product_dot,
)
from tacit.data.relations import ModeLayout
from tacit.factorization.arrays import Floats, Integers

__all__ = ["Bank", "cell_divergence", "estimate_cells", "sweep", "sweep_of_others"]

FLOOR = 1e-100  # estimates below this count as this: nothing divides by zero
_SMALL = 1_000_000  # below this many multiplications threads cost more than they bring


class Bank:
    """The factors of one relation, expanded to all latent combinations, in one array.

    Row ``offsets[m] + i`` is row i of mode m, padded with zeros to whole vector registers;
    ``weights`` is the product of the cores.
    """

    def __init__(self, sizes: list[int], combinations: int) -> None:
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.rows = padded(np.zeros((int(self.offsets[-1]), combinations)))
        self.weights = np.ones(combinations)
        self._sums: dict[int, Floats] = {}

    def mode(self, mode: int) -> Floats:
        """Return the rows of one mode."""
        rows = self.rows[self.offsets[mode] : self.offsets[mode + 1]]
        return rows[:, : len(self.weights)]

    def put(self, mode: int, values: Floats) -> None:
        """Replace the rows of one mode."""
        self.mode(mode)[:] = values
        self._sums.pop(mode, None)

    def sums(self, mode: int) -> Floats:
        """Return the column sums of one mode."""
        if mode not in self._sums:
            rows = self.mode(mode)
            self._sums[mode] = np.ones(len(rows)) @ rows
        return self._sums[mode]


def _coefficients(x: float, estimate: float, power: float) -> tuple[float, float]:
    """Return a = x·x̂^(−p) and b = x̂^(1−p); estimates are positive unless p = 0."""
    if power == 0.0:
        return x, estimate
    estimate = max(estimate, 1e-100)
    if power == 1.0:
        return x / estimate, 1.0
    if power == 2.0:
        inverse = 1.0 / estimate
        return x * inverse * inverse, inverse
    scaled = estimate ** (-power)
    return x * scaled, estimate * scaled


_ab = register_jitable(_coefficients)


# The rows below add up the cells low … high of row `row`. Results go to `total` (2 × width),
# scratch memory of the block: views of shared arrays would be counted by atomics for every row.


def _tensor_row(
    low: int, high: int, cells: Any, values: Any, bank: Any, near: int, far: int, base: Any,
    own: Any, row: int, power: float, with_denominator: bool, total: Any,
) -> None:  # fmt: skip
    """Add up cells of a three-mode relation.

    Products of rows are formed twice: cheaper than storing them.
    """
    for c in range(low, high):
        i = base[near] + cells[c, near]
        j = base[far] + cells[c, far]
        a, b = _ab(values[c], product_dot(own, row, bank, i, bank, j), power)
        if with_denominator and a != 0.0:
            add_product_twice(total, bank, i, bank, j, a, b)
        elif a != 0.0:  # most listed cells may be zeros
            add_product(total, 0, bank, i, bank, j, a)
        elif with_denominator:
            add_product(total, 1, bank, i, bank, j, b)


def _matrix_row(
    low: int, high: int, cells: Any, values: Any, bank: Any, near: int, base: Any, own: Any,
    row: int, power: float, with_denominator: bool, total: Any,
) -> None:  # fmt: skip
    """Add up cells of a matrix."""
    for c in range(low, high):
        i = base[near] + cells[c, near]
        a, b = _ab(values[c], dot(own, row, bank, i), power)
        if a != 0.0:
            add_row(total, 0, bank, i, a)
        if with_denominator:
            add_row(total, 1, bank, i, b)


def _any_row(
    low: int, high: int, cells: Any, values: Any, bank: Any, skip: int, base: Any, own: Any,
    row: int, power: float, with_denominator: bool, product: Any, total: Any,
) -> None:  # fmt: skip
    """Add up cells of a relation with any number of modes."""
    width = own.shape[1]
    for c in range(low, high):
        for r in range(width):
            product[0, r] = 1.0
        for m in range(cells.shape[1]):
            if m != skip:
                i = base[m] + cells[c, m]
                for r in range(width):
                    product[0, r] *= bank[i, r]
        a, b = _ab(values[c], dot(own, row, product, 0), power)
        if a != 0.0:
            add_row(total, 0, product, 0, a)
        if with_denominator:
            add_row(total, 1, product, 0, b)


_tensor, _matrix, _any = (register_jitable(f) for f in (_tensor_row, _matrix_row, _any_row))


def _sweep(
    first: int,
    last: int,
    starts: Any,
    cells: Any,
    values: Any,
    bank: Any,
    base: Any,
    own: Any,
    skip: int,
    power: float,
    with_denominator: bool,
    cuts: Any,
    first_rows: Any,
    numerator: Any,
    denominator: Any,
    edges: Any,
    edge_rows: Any,
) -> None:
    modes = cells.shape[1]
    others = modes if skip < 0 else modes - 1
    near = 1 if skip == 0 else 0  # the one or two other modes of a matrix or a tensor
    far = 1 if skip == 2 or skip < 0 else 2
    combinations, width = numerator.shape[1], bank.shape[1]
    for block in range(first, last):
        product = np.empty((1, width))
        total = np.empty((2, width))
        row = first_rows[block]
        low = cuts[block]
        end = cuts[block + 1]
        while low < end:
            while low >= starts[row + 1]:
                row += 1
            high = min(starts[row + 1], end)
            for r in range(width):
                total[0, r] = 0.0
                total[1, r] = 0.0
            if others == 2:
                _tensor(low, high, cells, values, bank, near, far, base, own, row, power,
                        with_denominator, total)  # fmt: skip
            elif others == 1:
                _matrix(low, high, cells, values, bank, near, base, own, row, power,
                        with_denominator, total)  # fmt: skip
            else:
                _any(low, high, cells, values, bank, skip, base, own, row, power,
                     with_denominator, product, total)  # fmt: skip
            # the first and the last row of a block may continue in another one
            if low == cuts[block] or high == end:
                slot = 0 if low == cuts[block] else 1
                edge_rows[block, slot] = row
                for r in range(combinations):
                    edges[block, slot, 0, r] = total[0, r]
                    edges[block, slot, 1, r] = total[1, r]
            else:
                for r in range(combinations):
                    numerator[row, r] = total[0, r]
                if with_denominator:
                    for r in range(combinations):
                        denominator[row, r] = total[1, r]
            low = high


def sweep(
    layout: ModeLayout,
    bank: Bank,
    own: Floats,
    weights: Floats,
    skip: int,
    power: float,
    *,
    with_denominator: bool = True,
) -> tuple[Floats, Floats]:
    """Return numerator and denominator for every row of a mode, or of a core.

    ``own`` are the rows being updated, expanded to all combinations, of the mode ``skip`` (−1 for
    a core); ``weights`` is the product of the cores without the one being updated. The denominator
    may be left out, where it does not run over the listed cells.
    """
    rows, combinations = own.shape
    numerator = np.zeros((rows, combinations))
    # without a denominator the kernel never writes to it: any array of that shape will do
    denominator = np.zeros((rows, combinations)) if with_denominator else numerator
    cells = len(layout.values)
    if not cells:
        return numerator, denominator
    weighted = not (weights == 1.0).all()
    parallel = cells * combinations > _SMALL
    cuts, first_rows = _blocks(layout.starts, cells, parallel)
    edges = np.zeros((len(cuts) - 1, 2, 2, combinations))
    edge_rows = np.full((len(cuts) - 1, 2), -1, np.int64)
    threads.over_range(
        kernels.compiled(_sweep, reassociate=True), len(cuts) - 1, layout.starts, layout.indices,
        layout.values, bank.rows, bank.offsets, padded(own * weights if weighted else own), skip,
        power, with_denominator, cuts, first_rows, numerator, denominator, edges, edge_rows,
    )  # fmt: skip
    used = edge_rows >= 0
    np.add.at(numerator, edge_rows[used], edges[:, :, 0][used])
    if with_denominator:
        np.add.at(denominator, edge_rows[used], edges[:, :, 1][used])
    if weighted:
        numerator *= weights
        if with_denominator:
            denominator *= weights
    return numerator, denominator


def sweep_of_others(
    layout: ModeLayout, bank: Bank, own: Floats, weights: Floats, skip: int, loss: float
) -> tuple[Floats, Floats]:
    """Return what `sweep` does, of a loss that is no β-divergence."""
    x, estimates = layout.values, estimate_cells(layout.indices, bank)
    if loss == -math.inf:
        rising, falling = x, special.expit(estimates)
    else:
        estimates = np.maximum(estimates, FLOOR)
        rising, falling = x / estimates, (1.0 - loss * x) / (1.0 - loss * estimates)
    up, down = (
        sweep(part, bank, own, weights, skip, 0.0, with_denominator=False)[0]
        for part in (layout._replace(values=rising), layout._replace(values=falling))
    )
    return up, down


def _blocks(starts: Integers, cells: int, parallel: bool) -> tuple[Integers, Integers]:
    """Cut the cells into equal blocks; return the cuts and the row each block begins in."""
    count = threads.threads() * threads.PIECES if parallel else 1
    cuts = np.arange(count + 1) * cells // count
    first_rows = np.searchsorted(starts, cuts[:-1], side="right") - 1
    return cuts, np.minimum(first_rows, len(starts) - 2)


def _estimate(
    first: int, last: int, cells: Any, bank: Any, offsets: Any, weights: Any, out: Any
) -> None:
    modes = cells.shape[1]
    product = np.empty((1, bank.shape[1]))
    for c in range(first, last):
        i = offsets[0] + cells[c, 0]
        if modes == 1:
            out[c] = dot(bank, i, weights, 0)
        elif modes == 2:
            out[c] = product_dot(bank, i, bank, offsets[1] + cells[c, 1], weights, 0)
        else:
            copy_row(product, 0, bank, i)
            for m in range(1, modes - 1):
                multiply_row(product, 0, bank, offsets[m] + cells[c, m])
            last_row = offsets[modes - 1] + cells[c, modes - 1]
            out[c] = product_dot(product, 0, bank, last_row, weights, 0)


def estimate_cells(cells: NDArray[np.int32], bank: Bank) -> Floats:
    """Return x̂ at the given cells."""
    out = np.empty(len(cells))
    if len(cells):
        parallel = len(cells) * len(bank.weights) > _SMALL
        threads.over_range(
            kernels.compiled(_estimate, reassociate=True), len(cells),
            np.ascontiguousarray(cells), bank.rows, bank.offsets,
            padded(bank.weights[None, :]), out, workers=None if parallel else 1,
        )  # fmt: skip
    return out


def cell_divergence(values: Floats, estimates: Floats, power: float) -> float:
    """Return Σ d(x, x̂) over listed cells, of a loss with that code."""
    from tacit.factorization.divergences import divergence

    free = power == 0.0 or power == -math.inf
    safe = estimates if free else np.maximum(estimates, FLOOR)
    return float(divergence(values, safe, power).sum())
