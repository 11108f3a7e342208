"""Regressions of one member at a time: what a user's own cells say, given released item features.

Cells are sorted by member (`ByMember`). A member's row w solves the ridge regression of its values
on the features f_j of its items, with a penalty per feature:

    w = (Σ f_j·f_jᵀ + diag(λ))⁻¹·Σ f_j·x_j,

a function of that member's own cells and of the features alone. Penalties are chosen by leaving
one cell out at a time, which needs no further solve: the error is (x_j − f_jᵀw)/(1 − h_j) with
h_j = f_jᵀ(…)⁻¹f_j.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from tacit._core.kernels import compiled
from tacit._core.linear import cholesky, copy, solve_lower, solve_lower_transposed
from tacit._core.order import by_group
from tacit._core.threads import over_range
from tacit.data.relations import Relation
from tacit.factorization.arrays import Floats, Integers

__all__ = [
    "NEVER",
    "ByMember",
    "averaged_rows",
    "best_share",
    "by_member",
    "choose_penalties",
    "leave_one_out",
    "looked_at",
    "offset_share",
    "residuals",
    "ridge_rows",
    "searched_penalties",
]

NEVER = 1e12  # a penalty that leaves a feature out
_LOOK = 2_000  # members that penalties are chosen on
_OWN = 4.0  # the penalty of a member's own offset before one is chosen
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)


class ByMember(NamedTuple):
    """The cells of a matrix, sorted by member: ``starts[i]:starts[i + 1]`` are those of i."""

    starts: Integers
    items: NDArray[np.int32]
    values: Floats

    @property
    def members(self) -> int:
        """How many members there are, those without cells included."""
        return len(self.starts) - 1

    @property
    def owners(self) -> Integers:
        """The member of every cell."""
        return np.repeat(np.arange(self.members), np.diff(self.starts))

    def sums(self, values: Floats) -> Floats:
        """Return the sum of one number per cell over each member's cells."""
        return np.bincount(self.owners, values, self.members).astype(np.float64)

    def spread(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return its member's number for every cell."""
        return np.repeat(numbers, np.diff(self.starts))

    def between(self, first: int, last: int) -> ByMember:
        """Return the cells of members ``first`` to ``last``, numbered anew from 0; no copy."""
        low, high = self.starts[first], self.starts[last]
        starts = self.starts[first : last + 1] - low
        return ByMember(starts, self.items[low:high], self.values[low:high])

    def parts(self, cells: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of members that have about so many cells each."""
        wanted = np.arange(cells, self.starts[-1], cells)
        edges = [0, *np.searchsorted(self.starts, wanted).tolist(), self.members]
        yield from pairwise(sorted(set(edges)) if self.members else edges)

    def of(self, members: Integers) -> ByMember:
        """Return the cells of some members, numbered anew from 0."""
        sizes = np.diff(self.starts)[members]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(starts[-1]) + np.repeat(self.starts[members] - starts[:-1], sizes)
        return ByMember(starts, self.items[places], self.values[places])


def by_member(relation: Relation, entity: str) -> ByMember:
    """Return the listed cells of a two-mode relation, sorted by the members of an entity."""
    mode = relation.entities.index(entity)
    member, item = relation.indices[:, mode], relation.indices[:, 1 - mode]
    sizes = relation.shape[mode], relation.shape[1 - mode]
    return ByMember(*by_group(member, item, relation.values, sizes))


def _add_normal(
    low: int, high: int, items: Any, values: Any, features: Any, gram: Any, right: Any
) -> None:
    """Add up f·fᵀ (its lower half) and f·x over cells ``low`` to ``high``."""
    for k in range(low, high):
        row = features[items[k]]
        for a in range(len(right)):
            right[a] += row[a] * values[k]
            for b in range(a + 1):
                gram[a, b] += row[a] * row[b]


_normal = register_jitable(_add_normal)


def _ridge_rows(
    first: int, last: int, cells: Any, features: Any, penalties: Any, out: Any
) -> None:
    starts, items, values = cells.starts, cells.items, cells.values
    width = out.shape[1]
    for i in range(first, last):
        gram = np.zeros((width, width))
        right = np.zeros(width)
        _normal(starts[i], starts[i + 1], items, values, features, gram, right)
        for a in range(width):
            gram[a, a] += penalties[a]
        factor = np.empty((width, width))
        work = np.empty(width)
        if cholesky(gram, factor):
            solve_lower(factor, right, work)
            solve_lower_transposed(factor, work, out[i])
        else:
            out[i] = 0.0


def ridge_rows(cells: ByMember, features: Floats, penalties: Floats) -> Floats:
    """Return every member's regression row, (members, features)."""
    out = np.zeros((cells.members, features.shape[1]))
    features, penalties = np.ascontiguousarray(features), np.asarray(penalties, np.float64)
    over_range(compiled(_ridge_rows), cells.members, cells, features, penalties, out)
    return out


def _residuals(first: int, last: int, cells: Any, features: Any, rows: Any, out: Any) -> None:
    starts, items, values = cells.starts, cells.items, cells.values
    for i in range(first, last):
        for k in range(starts[i], starts[i + 1]):
            fit = 0.0
            for a in range(rows.shape[1]):
                fit += rows[i, a] * features[items[k], a]
            out[k] = values[k] - fit


def residuals(cells: ByMember, features: Floats, rows: Floats) -> Floats:
    """Return what members' rows leave of every value; nothing larger than that is formed."""
    out = np.empty(len(cells.values))
    features, rows = np.ascontiguousarray(features), np.ascontiguousarray(rows)
    kernel = compiled(_residuals, reassociate=True)
    over_range(kernel, cells.members, cells, features, rows, out)
    return out


def _leave_one_out(
    first: int, last: int, cells: Any, members: Any, features: Any, penalties: Any, out: Any
) -> None:
    starts, items, values = cells.starts, cells.items, cells.values
    width = features.shape[1]
    for m in range(first, last):
        i = members[m]
        gram = np.zeros((width, width))
        right = np.zeros(width)
        _normal(starts[i], starts[i + 1], items, values, features, gram, right)
        shifted = np.empty((width, width))
        factor = np.empty((width, width))
        solved = np.empty(width)
        work = np.empty(width)
        for p in range(penalties.shape[0]):
            copy(gram, shifted)
            for a in range(width):
                shifted[a, a] += penalties[p, a]
            if not cholesky(shifted, factor):
                out[m, p] = np.inf
                continue
            solve_lower(factor, right, solved)
            total = 0.0
            for k in range(starts[i], starts[i + 1]):
                solve_lower(factor, features[items[k]], work)
                fit = 0.0
                leverage = 0.0
                for a in range(width):
                    fit += work[a] * solved[a]
                    leverage += work[a] * work[a]
                error = (values[k] - fit) / (1.0 - min(leverage, 0.99))
                total += error * error
            out[m, p] = total


def leave_one_out(
    cells: ByMember, members: Integers, features: Floats, penalties: Floats
) -> Floats:
    """Return the squared error of leaving out each cell of members in turn, by penalty vector."""
    return np.asarray(_errors_of_each(cells, members, features, penalties).sum(axis=0))


def _errors_of_each(
    cells: ByMember, members: Integers, features: Floats, penalties: Floats
) -> Floats:
    """Return those errors per member, (members, choices)."""
    out = np.zeros((len(members), len(penalties)))
    features, penalties = np.ascontiguousarray(features), np.ascontiguousarray(penalties)
    over_range(compiled(_leave_one_out), len(members), cells, members, features, penalties, out)
    return out


def averaged_rows(cells: ByMember, features: Floats, penalties: Floats, spread: float) -> Floats:
    """Return every member's row, averaged over penalties by how each did on its own cells.

    Nothing is pooled: member i weighs penalty p by exp(−e_ip/(2·spread)), with e_ip its own
    leave-one-out error, as if residuals were normal of that variance.
    """
    if len(penalties) == 1:
        return ridge_rows(cells, features, penalties[0])
    errors = _errors_of_each(cells, np.arange(cells.members), features, penalties)
    errors -= errors.min(axis=1, keepdims=True)
    shares = np.exp(-errors / (2.0 * spread))
    shares /= shares.sum(axis=1, keepdims=True)
    rows = np.zeros((cells.members, features.shape[1]))
    for k, choice in enumerate(penalties):
        rows += shares[:, k, None] * ridge_rows(cells, features, choice)
    return rows


def looked_at(cells: ByMember) -> Integers:
    """Return members that choices are made on: evenly spaced, the same ones every time."""
    filled = np.flatnonzero(np.diff(cells.starts) > 1)
    if len(filled) > _LOOK:
        filled = filled[np.linspace(0, len(filled) - 1, _LOOK).astype(np.int64)]
    return filled


def offset_share(cells: ByMember, mean: float, offsets: Floats) -> float:
    """Return how much of released offsets members should believe, by leaving out own cells.

    Offsets that are noise are left out, and what remains are the members' own means. They are
    believed in full where nobody has two cells.
    """
    some, own = cells.of(looked_at(cells)), np.ones((len(offsets), 1))
    everybody = np.arange(some.members)

    def error(share: float, penalty: Floats) -> float:
        rest = some._replace(values=some.values - mean - share * offsets[some.items])
        return float(leave_one_out(rest, everybody, own, penalty[None])[0])

    return best_share(error) if some.members else 1.0


def best_share(error: Callable[[float, Floats], float]) -> float:
    """Return the share of offsets with the least error, by share and the penalty of an offset."""
    return _SHARES[int(np.argmin([error(share, np.array([_OWN])) for share in _SHARES]))]


def choose_penalties(cells: ByMember, features: Floats, groups: Integers) -> Floats:
    """Return a penalty per feature, one value per group of features, by leaving cells out.

    Group 0 is the member's offset and always counts; another group may be left out altogether,
    so that features that do not help do no harm. The values are searched one group at a time.
    """
    filled = looked_at(cells)

    def errors(choices: Floats) -> Floats:
        return leave_one_out(cells, filled, features, choices)

    return searched_penalties(errors if len(filled) else None, groups)


def searched_penalties(
    errors: Callable[[Floats], Floats] | None, groups: Integers, doublings: int = 8
) -> Floats:
    """Return a penalty per feature with small errors, searched one group at a time.

    ``errors`` is by rows of penalties, one per feature; ``doublings`` how far they may go.
    """
    count = int(groups.max()) + 1
    best = np.full(count, NEVER)
    best[0] = _OWN
    if errors is None:
        return best[groups]
    penalty_grids = [np.array([1.0, 2.0, 4.0, 8.0, 16.0])]
    penalty_grids += [np.append(4.0 * 2.0 ** np.arange(doublings), NEVER)] * (count - 1)
    for group in (*range(1, count), *range(count)):
        choices = np.tile(best, (len(penalty_grids[group]), 1))
        choices[:, group] = penalty_grids[group]
        best = choices[int(np.argmin(errors(choices[:, groups])))]
    return np.asarray(best[groups])
