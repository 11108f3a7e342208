"""Draws of members' rows at a site, given all other factors.

**Normal.** A row has the conditional law N(A⁻¹b, A⁻¹), A = Σ w·q·qᵀ + λ and b = Σ w·q·x. It is
drawn by solving for perturbed cells (Papandreou & Yuille 2010): with η ~ N(0, 1/w) on every cell
and u₀ ~ N(0, 1/λ), the row u₀ + A⁻¹·Σ w·q·(x + η − qᵀu₀) has the mean A⁻¹b and the covariance
A⁻¹·(Σ w·q·qᵀ)·A⁻¹ + λ·A⁻² = A⁻¹.

**KL.** Counts are allocated and rows drawn, as with perturbed counts
(`tacit.factorization.counts.learn.learn_rows`).

**Why rows are drawn in rounds** (``Langevin(rows="drawn")``). By Fisher's identity the gradient of
log p(x | V) is the mean of ∂/∂V log p(x, u | V) over u given x and V: at a drawn row it is
unbiased for the marginal posterior of what is shared. At the solved row it is that of the profile
likelihood, which lets V grow and rows shrink, the more the more members there are. What is random
about a member's row is keyed by the member and its cells: it does not depend on anybody else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.arrays import Factors, Floats, Integers
from tacit.factorization.counts.learn import learn_rows
from tacit.factorization.langevin.numerics.clipped_gradients import (
    CellTable,
    Layout,
    OwnerRule,
    cell_table,
    owner_rows,
)
from tacit.factorization.language.structure import BoundModel, BoundRelation
from tacit.factorization.together.problem import Problem

__all__ = ["member_rows", "named_cells", "perturbed_rows"]


class _Side(Protocol):
    """What a site has for its members' rows; a `LangevinSite` does."""

    problem: Problem
    bound: BoundModel
    cells: Any
    walk: Any

    def owner_rule(self) -> OwnerRule:
        """Return how rows are solved."""


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def perturbed_rows(
    picks: Integers,
    table: CellTable,
    theta: Floats,
    rule: OwnerRule,
    key: int,
    marks: NDArray[np.uint64] | None = None,
) -> Floats:
    """Return a draw of the rows of picked owners from their normal law, given θ and their cells.

    Parameters
    ----------
    picks, table, theta, rule
        As in `owner_rows`.
    key
        Of all that is random; a new one for every draw.
    marks
        What tells members apart; their numbers unless given.
    """
    members, width = len(table.owner_starts) - 1, len(rule.free)
    names = np.arange(members) if marks is None else marks.view(np.int64)
    owners = np.repeat(np.arange(members), np.diff(table.owner_starts))
    everyone = np.repeat(names, width)
    columns = np.tile(np.arange(width), members)
    start = _normals(key, everyone, columns).reshape(members, width) * rule.free
    start /= math.sqrt(rule.precision)
    cells = [names[owners], table.kinds, *table.starts.T]
    noise = _normals(key + 1, *cells) / np.sqrt(table.weights[table.kinds])
    values = table.values + noise - _estimates(table, owners, theta, start)
    return start[picks] + owner_rows(picks, table._replace(values=values), theta, rule)


def named_cells(
    problem: Problem,
    bound: BoundModel,
    cells: Mapping[str, Any],
    marks: NDArray[np.uint64],
    limit: int,
    key: int,
) -> dict[str, Any]:
    """Return at most ``limit`` cells of each member over all relations, drawn by its name.

    Whose cells are kept does not depend on anybody else: wherever members are, it is the same.
    """
    whose, draws, found = [], [], {}
    for number, relation in enumerate(bound.relations):
        indices = cells[relation.name][0]
        at = relation.factors.index(problem.protected)
        others = [column for k, column in enumerate(indices.T) if k != at]
        kind = np.full(len(indices), number)
        whose.append(indices[:, at])
        draws.append(_normals(key + 2, marks.view(np.int64)[indices[:, at]], kind, *others))
    owners = np.concatenate(whose)
    order = np.lexsort((np.concatenate(draws), owners))
    rank = np.arange(len(order)) - np.searchsorted(owners[order], owners[order])
    kept = np.empty(len(order), bool)
    kept[order] = rank < limit
    masks = np.split(kept, np.cumsum([len(part) for part in whose])[:-1])
    for relation, mask in zip(bound.relations, masks, strict=True):
        indices, values, weight = cells[relation.name]
        found[relation.name] = (indices[mask], values[mask], weight)
    return found


def _normals(key: int, *parts: NDArray[np.integer]) -> Floats:
    """Return a standard normal number for each of some tuples of whole numbers (SplitMix64)."""
    mixed = np.full(len(parts[0]), np.uint64(key % (1 << 64)))
    for part in parts:
        mixed = (mixed ^ part.astype(np.int64).view(np.uint64)) + _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed = mixed ^ (mixed >> np.uint64(31))
    return np.asarray(ndtri(((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53))


def _estimates(table: CellTable, owners: Integers, theta: Floats, rows: Floats) -> Floats:
    """Return x̂ of every cell of a table."""
    found = np.empty(len(table.values))
    for kind, size in enumerate(table.combinations):
        here = np.flatnonzero(table.kinds == kind)
        product = np.ones((len(here), size))
        for p in range(table.factors[kind]):
            column = table.columns[kind, p, :size]
            if p == table.own[kind]:
                product *= rows[owners[here]][:, column]
            else:
                product *= theta[table.starts[here, p][:, None] + column]
        found[here] = product.sum(axis=1)
    return found


def member_rows(side: _Side, draws: Sequence[Factors], spread: bool) -> Floats:
    """Return every member's row for each draw of the other factors, (draws, members, columns).

    Parameters
    ----------
    side
        The site, with its cells.
    draws
        All factors but the protected entity's, each draw by itself.
    spread
        Whether rows are drawn from their law given their cells, or solved.
    """
    owner, rule = side.problem.protected, side.owner_rule()
    relations = [r for r in side.bound.relations if owner in r.factors]
    if spread and side.problem.model.powers[relations[0].name] != 0.0:
        return _counted(side, relations, draws, rule)
    specs = side.bound.factors
    layout = Layout({name: spec.table for name, spec in specs.items() if name != owner})
    table = cell_table(BoundModel(specs, tuple(relations)), side.cells, layout, owner)
    everyone = np.arange(specs[owner].rows)
    keys = generator(side.walk.seed, "members").integers(2**62, size=len(draws)).tolist()
    return np.array(
        [
            perturbed_rows(everyone, table, layout.vector(factors), rule, key)
            if spread
            else owner_rows(everyone, table, layout.vector(factors), rule)
            for factors, key in zip(draws, keys, strict=True)
        ]
    )


def _counted(
    side: _Side,
    relations: Sequence[BoundRelation],
    draws: Sequence[Factors],
    rule: OwnerRule,
) -> Floats:
    """Return draws of rows under a Poisson likelihood."""
    counts = {}
    for relation in relations:
        indices, values, weight = side.cells[relation.name]
        if (values != np.floor(values)).any() or weight != 1.0:
            raise ParameterError(
                f"a posterior of {relation.name!r} under 'kl' is that of counts: it needs whole "
                "numbers, and dispersion 1"
            )
        modes = relation.factors[: relation.modes]
        shape = tuple(side.bound.factors[name].rows for name in modes)
        counts[relation.name] = Relation(modes, shape, indices, values)
    prior, rng = (rule.shape, rule.shape / rule.rate), generator(side.walk.seed, "members")
    stacked = {name: np.array([one[name] for one in draws]) for name in draws[0]}
    return learn_rows(side.problem, counts, stacked, prior, rng)
