"""A site whose unlisted cells are observed zeros: links, clicks, who was where.

**What is summed, and why that is private.** Values are measured from z, what an unlisted cell
holds: y = x − z. An unlisted cell then contributes nothing to a sum over members, and no array of
all cells is formed. In place of the sums of `offsets.sums` there are

===========  ===================================================  =================================
kind         what is summed                                       Δ (L2), of a cell or member of β
===========  ===================================================  =================================
mean         entry: Σ y                                           4·β
             user: Σ (mean of y over all items/4, 1)              √2·β, replaced 2·β
offsets      entry: per item Σ y                                  4·β
             user: Σ scaled ((y_j)_j, ½)                          β, replaced 2·β
covariance   Σ x_i·x_iᵀ, x_i: a member's links among popular      user β, replaced or entry √2·β
             items less what their popularity says, ‖x_i‖ ≤ 1
===========  ===================================================  =================================

Each value lies in a range of length 4, so y of a replaced value moves by at most 4 and nothing
else of an entry's messages does: no member's own mean enters. Of a user the *whole* message, over
all items and the number beside them, is scaled below norm one, its row of zeros included: they
add nothing to its norm either. A member's regression on what was released is on all items
(`numerics.filled`), at its site.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tacit.data.relations import Relation
from tacit.estimators.agreement import Asked
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.factors import Messages, weight_sums
from tacit.factorization.offsets.least_squares import SiteMembers
from tacit.factorization.offsets.numerics.contributions import lattice_gram
from tacit.factorization.offsets.numerics.filled import (
    FilledCells,
    filled_by_member,
    filled_errors,
    filled_rows,
)
from tacit.factorization.offsets.numerics.ridge import (
    ByMember,
    best_share,
    looked_at,
    searched_penalties,
)
from tacit.factorization.offsets.sides import BLOCK, COUNT, SOFT, Shard, entries
from tacit.factorization.offsets.sums import HALF
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum

__all__ = ["FilledMembers"]

_DOUBLINGS = 16  # of a penalty: a member has a cell for every item


class FilledMembers(SiteMembers):
    """A site's members, each with a cell for every item."""

    def _read(self, relation: Relation) -> tuple[ByMember, NDArray[np.bool_] | None]:
        """Return the cells that are not like all others, and which of them have a value."""
        found = filled_by_member(relation, self.agreement.problem.protected, 0.0)
        return found.cells, found.listed

    def _links(self, shard: Shard) -> ByMember:
        """Return the listed cells, with values measured from what all others hold."""
        cells, listed = shard.cells, shard.listed
        assert listed is not None
        counts = np.bincount(cells.owners, listed, cells.members).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return ByMember(starts, cells.items[listed], cells.values[listed] - self.agreement.fill)

    # -- sums ------------------------------------------------------------------------------

    def _counts(self, shard: Shard) -> Integers:
        """Return how many members have a cell of every item: all but those held out."""
        assert shard.listed is not None
        held, items, members = ~shard.listed, self.agreement.items, shard.cells.members
        places, owners = shard.cells.items[held], shard.cells.owners[held]
        counts = members - np.bincount(places, minlength=items)
        if not self.agreement.weighted:
            return counts[None, :]

        def over(weights: Floats) -> Integers:
            whole = weight_sums(np.zeros(members, np.int64), weights, 1)
            return np.asarray(whole - weight_sums(places, weights[owners], items))

        weights, squares = over(shard.openness), over(shard.openness**2)
        return np.array([counts, weights, squares, weights, squares])

    def _mean(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        links = self._links(shard)
        if self.agreement.unit == "entry":
            return mechanism.grid.sum(links.values[:, None], links.spread(shard.openness))
        assert shard.listed is not None
        held = shard.cells.sums((~shard.listed).astype(np.float64))
        observed = self.agreement.items - held
        filled = observed > 0
        means = links.sums(links.values)[filled] / observed[filled]
        rows = np.column_stack([means / (2.0 * HALF), np.ones(len(means))])
        return mechanism.grid.sum(rows, shard.openness[filled])

    def _offsets(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        links = self._links(shard)
        left, right = links.values[:, None], np.ones((1, 1))
        which = np.zeros(len(left), np.int64)
        if self.agreement.unit == "entry":
            sent = Messages(left, right, links.spread(shard.openness))
            return self._summed(mechanism, links, which, sent)
        lengths = links.sums(links.values**2) + COUNT**2 + SOFT**2
        each = shard.openness * (1.0 - 2.0**-40) / np.sqrt(lengths)
        found = self._summed(mechanism, links, which, Messages(left, right, links.spread(each)))
        beside = mechanism.grid.sum(np.full((len(each), 1), COUNT), each)
        found.integers[self.agreement.items] += beside.integers[0]
        return found

    def _covariance(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        links, popular = self._links(shard), asked.arrays["popular"]
        width = len(popular)
        place = np.full(self.agreement.items, -1)
        place[popular] = np.arange(width)
        column = place[links.items]
        kept = column >= 0
        values, owners, column = links.values[kept], links.owners[kept], column[kept]
        busy, number = np.unique(owners, return_inverse=True)  # of the others' rows are zero
        total, step = np.zeros((width, width), np.int64), max(1, BLOCK // width)
        for first in range(0, len(busy), step):
            last = min(first + step, len(busy))
            here = slice(*np.searchsorted(number, [first, last]))  # cells are sorted by member
            rows = np.zeros((last - first, width))
            rows[number[here] - first, column[here]] = values[here] / (2.0 * HALF)
            rows -= rows.sum(axis=1, keepdims=True) * asked.arrays["rates"]
            norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
            lengths = np.sqrt(shard.openness[busy[first:last], None])
            total += lattice_gram(rows / np.maximum(norms * (1.0 + 1e-9), 1e-9), lengths)
        return entries(total)

    # -- afterwards ------------------------------------------------------------------------

    def _regress(
        self, mean: float, offsets: Floats, features: Floats, groups: NDArray[np.int64]
    ) -> None:
        """Regress every member's cells of all items on released features.

        Whoever has more links has more to what is popular: offsets are a feature as well.
        """
        size = float(np.sqrt(np.mean(offsets**2)))
        features = np.column_stack([features, offsets / (size or 1.0)])
        groups, self._features = np.append(groups, groups.max() + 1), features
        cells, listed = self.scaled(self.everybody.cells), self.everybody.listed
        assert listed is not None
        whole = FilledCells(cells, listed, self.agreement.fill, self.agreement.items)
        some, ones = whole.of(looked_at(cells)), np.ones((len(offsets), 1))
        known = some.cells.members > 0

        def share_error(share: float, penalty: Floats) -> float:
            return filled_errors(some, mean + share * offsets, ones, penalty)

        share = best_share(share_error) if known else 1.0
        self._base = mean + share * offsets
        base = self._base

        def errors(choices: Floats) -> Floats:
            return np.array([filled_errors(some, base, features, choice) for choice in choices])

        penalties = searched_penalties(errors if known else None, groups, _DOUBLINGS)
        self._rows = filled_rows(whole, self._base, features, penalties)
