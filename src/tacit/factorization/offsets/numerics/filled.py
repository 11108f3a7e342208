"""Members' regressions on all items where whatever is not listed is an observed zero.

A member has a cell for every item, and nearly all of them hold the same value z. So sums over all
cells are those over z, which are the same for everybody, with the few cells corrected that differ:
those that are listed, and those that are held out and count for nothing. With features F, base
values β and c = z − β the Gram matrix of member i is FᵀF − Σ_held f·fᵀ, and its right side is
Fᵀc + Σ_listed f·(x − z) − Σ_held f·c. No array of all cells is formed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tacit.data.relations import Relation
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember

__all__ = ["FilledCells", "filled_by_member", "filled_errors", "filled_rows"]

_BATCH = 4096  # members whose own Gram matrices are formed at once
_MOST_LEVERAGE = 0.99


class FilledCells(NamedTuple):
    """Cells that are not like all others: listed ones with values, and those held out."""

    cells: ByMember
    listed: NDArray[np.bool_]  # which of them have a value; the others are held out
    fill: float  # z, what all other cells hold
    items: int

    def of(self, members: Integers) -> FilledCells:
        """Return those of some members, numbered anew from 0."""
        mine = np.zeros(self.cells.members, bool)
        mine[members] = True
        return self._replace(
            cells=self.cells.of(members), listed=self.listed[mine[self.cells.owners]]
        )

    def table(self, listed: Floats, held: Floats) -> sparse.csr_array:
        """Return a sparse table (members, items) with one number per cell of either kind."""
        data, width = np.where(self.listed, listed, held), (self.cells.members, self.items)
        return sparse.csr_array((data, self.cells.items, self.cells.starts), width)

    @property
    def observed(self) -> Floats:
        """How many cells of every member count."""
        return self.items - self.cells.sums((~self.listed).astype(np.float64))


def filled_by_member(relation: Relation, entity: str, fill: float) -> FilledCells:
    """Return the cells of a two-mode relation whose other cells are observed zeros."""
    mode = relation.entities.index(entity)
    held = relation.held_out.reshape(-1, 2)
    index = np.concatenate([relation.indices, held])
    values = np.concatenate([relation.values, np.full(len(held), fill)])
    listed = np.arange(len(index)) < len(relation.indices)
    member, item = index[:, mode], index[:, 1 - mode]
    order = np.lexsort((item, member))
    starts = np.searchsorted(member[order], np.arange(relation.shape[mode] + 1)).astype(np.int64)
    cells = ByMember(starts, item[order].astype(np.int32), values[order])
    return FilledCells(cells, listed[order], fill, relation.shape[1 - mode])


def filled_rows(found: FilledCells, base: Floats, features: Floats, penalties: Floats) -> Floats:
    """Return every member's regression row on features of all items, (members, features)."""
    cells, constant = found.cells, found.fill - base
    differ = found.table(cells.values - found.fill, -constant[cells.items])
    right = constant @ features + differ @ features
    whole = features.T @ features + np.diag(penalties)
    rows = np.asarray(np.linalg.solve(whole, right.T).T)
    left_out = np.flatnonzero(found.observed < found.items)
    width = features.shape[1]
    squares = (features[:, :, None] * features[:, None, :]).reshape(len(features), -1)
    without = found.table(np.zeros(len(cells.values)), np.ones(len(cells.values)))
    for start in range(0, len(left_out), _BATCH):
        some = left_out[start : start + _BATCH]
        grams = whole - (without[some] @ squares).reshape(-1, width, width)
        rows[some] = np.linalg.solve(grams, right[some][:, :, None])[:, :, 0]
    return rows


def filled_errors(found: FilledCells, base: Floats, features: Floats, penalties: Floats) -> float:
    """Return the squared error of leaving out each cell in turn, with a common leverage.

    The leverage of a cell is taken to be that of its item where nothing is held out.
    """
    cells, constant = found.cells, found.fill - base
    rows = filled_rows(found, base, features, penalties)
    inverse = np.linalg.inv(features.T @ features + np.diag(penalties))
    leverage = np.einsum("ja,ab,jb->j", features, inverse, features)
    weights = 1.0 / np.square(1.0 - np.minimum(leverage, _MOST_LEVERAGE))
    gram, right = features.T @ (features * weights[:, None]), features.T @ (weights * constant)
    total = len(rows) * float(weights @ constant**2) - 2.0 * float((rows @ right).sum())
    total += float(np.einsum("ia,ab,ib->", rows, gram, rows))
    item, fitted = cells.items, (rows[cells.owners] * features[cells.items]).sum(axis=1)
    zero = np.square(constant[item] - fitted)
    own = np.where(found.listed, np.square(cells.values - base[item] - fitted), 0.0)
    return total + float(weights[item] @ (own - zero))
