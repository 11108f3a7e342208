"""A site's side of `LangevinAgreement`: its cells, its private factors, its predictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.executors import Loaded
from tacit.estimators.gate import Gate
from tacit.factorization.alone.numerics.sums import estimates_at, estimates_of_draws
from tacit.factorization.arrays import Arrays, Factors, Floats, Integers
from tacit.factorization.draws import draws_of, estimates_of, summarised
from tacit.factorization.langevin.agreement import LangevinAgreement
from tacit.factorization.langevin.members import member_rows, named_cells, perturbed_rows
from tacit.factorization.langevin.numerics.clipped_gradients import (
    CellTable,
    Layout,
    OwnerRule,
    cell_table,
    entry_sums,
    owner_sums,
)
from tacit.factorization.langevin.own_cells import OwnCells
from tacit.factorization.langevin.scales import factor_scales, fresh_values, relation_weight
from tacit.factorization.language.binding import empty_relation
from tacit.factorization.language.structure import BoundRelation
from tacit.factorization.together.people import Counted, counting, marks_of
from tacit.factorization.together.shape import (
    SiteFactors,
    bounded_cells,
    check_cells,
    not_about,
    stayed,
)
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.grid import GridSum, pieces, wide_sum
from tacit.mechanisms.sampled import PoissonSampled


class Parted(NamedTuple):
    """The cells of a shard, and a number of each member by name."""

    table: CellTable
    marks: NDArray[np.uint64] | None


_NUMBERS = 1 << 26  # of members' rows, over all draws
Cells = tuple[NDArray[np.int32], Floats, float]

__all__ = ["LangevinSite"]


class LangevinSite(SiteFactors):
    """A site with its relations and its private factors."""

    agreement: LangevinAgreement

    _travels = ("problem", "shared", "bound", "layout", "free", "gated", "walk")

    def __init__(
        self,
        agreement: LangevinAgreement,
        name: str,
        data: Mapping[str, Relation] | Loaded,
        gate: Gate,
        rng: np.random.Generator,
    ) -> None:
        self.agreement, self.problem = agreement, agreement.problem
        problem = agreement.problem
        relations = _heads(agreement) if isinstance(data, Loaded) else data
        self.bound = problem.bound(relations)
        self.shared = [n for n in agreement.sent if n in self.bound.factors]
        private = [n for n in self.bound.factors if n not in self.shared and n != self._owner]
        shapes = {n: self.bound.factors[n].table for n in (*self.shared, *private)}
        self.layout = Layout(shapes)
        values = fresh_values(problem, {n: shapes[n] for n in private}, rng)
        self.walk = agreement.walk(values, int(rng.integers(2**62)))
        self.free = self.layout.vector({n: _free(agreement, n, shapes[n]) for n in shapes})
        self.gated = self.layout.size  # how many numbers pass the gate
        self._mechanisms: dict[str, PoissonSampled] = {}
        self.final: Arrays | None = None
        self._own = OwnCells(self)
        self._stayed: Arrays | None = None  # what an earlier side of this site kept
        if isinstance(data, Loaded):
            super().__init__(agreement, name, data, gate)
        else:
            self.cells = self._cells(relations)
            used = self.cells if not isinstance(data, Counted) else self._counting(data)
            if self._limit is not None:
                used = self._limited(used, rng, self._limit)
            table = cell_table(self.bound, used, self.layout, self._owner)
            super().__init__(agreement, name, [table], gate)
            self.counted = self._parts(lambda factor: True)
        self.kept = self.walk.state()

    @property
    def _owner(self) -> str | None:
        return self.problem.protected if self.agreement.by_user else None

    @property
    def _limit(self) -> int | None:
        return self.agreement.method.limit if self._owner is not None else None

    def _cells(self, relations: Mapping[str, Relation]) -> dict[str, Cells]:
        return {n: self._prepared(n, found.listed()) for n, found in relations.items()}

    def _counting(self, relations: Mapping[str, Relation]) -> dict[str, Cells]:
        return self._cells(counting(relations, self.problem.protected))

    # -- shards ----------------------------------------------------------------------------

    def hand(self) -> Self:
        """Return what contributes elsewhere, without the draws of what is kept here."""
        made = super().hand()
        made.walk = self.walk.head()
        made._mechanisms = {}
        return made

    def prepared(self, data: Mapping[str, Relation]) -> Parted:
        """Return the cells of a shard, sorted by member, and a number of each member by name."""
        lacking = sorted(set(self.problem.bounds) - set(data))
        if lacking:
            raise ParameterError(f"every shard needs all relations: {lacking[0]!r} is missing")
        marks, used = marks_of(self.problem, data), self._counting(data)
        bound, method, owner = self.problem.bound(data), self.agreement.method, self._owner
        if marks is None and (method.limit is not None or method.rows == "drawn"):
            raise ParameterError(
                "limit and rows='drawn' choose at random for each member by its name: pass shards "
                f"in which members of {owner!r} have names, such as tables"
            )
        if method.limit is not None and marks is not None:
            used = named_cells(self.problem, bound, used, marks, method.limit, self.walk.seed)
        return Parted(cell_table(bound, used, self.layout, owner), marks)

    def marks(self, shard: Parted) -> NDArray[np.uint64] | None:
        """Return a number of every member, by name."""
        return shard.marks

    def _parts(self, counts: Callable[[str], bool]) -> NDArray[np.bool_]:
        """Return which factors of which relation belong to a contribution."""
        found = np.zeros(self.shards[0].widths.shape, bool)
        for v, relation in enumerate(self.bound.relations):
            found[v, : len(relation.factors)] = [counts(factor) for factor in relation.factors]
        return found

    def _prepared(self, name: str, found: Relation) -> Cells:
        """Return a relation's cells, clipped to their bounds and mapped, with their weight."""
        low, high = self.problem.bounds[name]
        values = clip_values(found.values, low, high)
        if self.problem.model.powers[name] == 0.0:
            values = (values - (low + high) / 2.0) / ((high - low) / 2.0)
        return found.indices, values, relation_weight(self.problem, name, low, high)

    def _limited(
        self, cells: Mapping[str, Cells], rng: np.random.Generator, limit: int
    ) -> dict[str, Cells]:
        """Return the cells with at most ``limit`` of each user."""
        owner = self.problem.protected
        at = {r.name: r.factors.index(owner) for r in self.bound.relations}
        whose = [cells[r.name][0][:, at[r.name]] for r in self.bound.relations]
        found = {}
        kept = bounded_cells(whose, limit, rng)
        for relation, mask in zip(self.bound.relations, kept, strict=True):
            indices, values, weight = cells[relation.name]
            found[relation.name] = (indices[mask], values[mask], weight)
        return found

    def owner_rule(self) -> OwnerRule:
        """Return how a user's row is solved from its own cells."""
        owner, method = self.problem.protected, self.agreement.method
        scale = factor_scales(self.problem)[owner]
        columns = self.bound.factors[owner].columns
        free, fixed = np.ones(columns), np.zeros(columns)
        for column, value in self.agreement.fixed_columns(owner).items():
            free[column], fixed[column] = 0.0, value
        rate = method.shape / (method.mean * scale)
        return OwnerRule(
            free, fixed, method.precision / scale**2, method.shape, rate, method.iterations, scale
        )

    # -- rounds ----------------------------------------------------------------------------

    def units(self, shard: CellTable | Parted) -> int:
        """Return the number of users, or of entries."""
        if isinstance(shard, Parted):
            shard = shard.table
        by_user = self.agreement.by_user
        return len(shard.owner_starts) - 1 if by_user else len(shard.values)

    def mechanism(self, step: Step, value: Any = None) -> PoissonSampled:
        """Return the release of this site's numbers; the price is that of the step."""
        if step.name not in self._mechanisms:
            found = self.agreement.mechanism(self.walk.moves, self.gated)
            self._mechanisms[step.name] = found
        return self._mechanisms[step.name]

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: Any, picks: Integers
    ) -> GridSum:
        """Return the sum of the sampled units' clipped gradients."""
        shard, marks = shard if isinstance(shard, Parted) else (shard, None)
        theta, inner = self.theta(asked, kept), self.mechanism(step).mechanism
        inverse = math.ldexp(1.0, -inner.grid.exponent)
        if self.agreement.by_user:
            rule, rows = self.owner_rule(), None
            if self.agreement.method.rows == "drawn":
                key = int(generator(self.walk.seed, f"rows {self.walk.moves}").integers(2**62))
                rows = perturbed_rows(picks, shard, theta, rule, key, marks)
            found = (
                owner_sums(
                    picks[part],
                    shard,
                    theta,
                    self.free,
                    rule,
                    inner.sensitivity,
                    inverse,
                    None if rows is None else rows[part],
                )
                for part in pieces(len(picks))
            )
        else:
            found = (
                entry_sums(
                    picks[part], shard, theta, self.free, self.counted, inner.sensitivity, inverse
                )
                for part in pieces(len(picks))
            )
        return GridSum(wide_sum(found)[: self.gated], inner.grid)

    def theta(self, asked: Asked, kept: Mapping[str, Any]) -> Floats:
        """Return the factors that were sent and those that are kept here, as one vector."""
        received = {name: asked[f"factor/{name}"] for name in self.shared}
        return self.layout.vector(received | {n: kept[f"value/{n}"] for n in self.walk.values})

    def settle(self, step: Step, asked: Asked, released: Any, kept: dict[str, Any]) -> None:
        """Move the private factors along what was released about them."""
        rate = self.agreement.method.sampling_rate
        moved = {n: self.layout.view(released, n) / rate for n in self.walk.values}
        self.walk.move(moved, (self.mechanism(step).mechanism.scale / rate) ** 2)
        kept.update(self.walk.state())

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the gradients of the shared factors; zeros for what the site holds not."""
        return {
            f"gradient/{name}": self.layout.view(released, name)
            if name in self.shared
            else np.zeros_like(asked[f"factor/{name}"])
            for name in self.agreement.sent
        }

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        super().restore(state)
        self.walk.restore(self.kept)

    # -- afterwards ------------------------------------------------------------------------

    def adopt(self, shared: Factors) -> None:
        """Take in factors of an earlier release, where no other factor stayed at a site."""
        for name in sorted(set(self.walk.values) - {self.problem.protected}):
            raise stayed(name)
        for name in self.shared:
            if np.shape(shared.get(name, 0.0)) != self.layout.shapes[name]:
                raise not_about(name, self.layout.shapes[name][0])
        self.finish(shared)

    def own(self) -> Arrays:
        """Return the factors that stayed here; the protected entity's follows from its cells."""
        if self._stayed is not None:
            return self._stayed
        names = [n for n in self.walk.values if n != self.problem.protected]
        average, draws = self.walk.average(), self.walk.draws()
        return summarised({n: draws[n] for n in names}) | {n: average[n] for n in names}

    def resume(self, own: Factors, shared: Factors) -> None:
        """Go on with the factors that stayed here."""
        wanted = {n: self.layout.shapes[n] for n in estimates_of(self.own())}
        if {name: np.shape(factor) for name, factor in estimates_of(own).items()} != wanted:
            raise ParameterError("what was kept is not about this site's factors")
        self._stayed = {name: np.asarray(factor) for name, factor in own.items()}
        self.finish(shared)

    def rows(self) -> Floats:
        """Return every member's row, as it was solved at the site."""
        if self.final is None or self.problem.protected not in self.final:
            raise ParameterError(f"site {self.name!r} has no members of its own")
        return self.final[self.problem.protected]

    def finish(self, shared: Factors) -> None:
        """Solve the protected entity's rows from raw data and the final factors, at the site."""
        if self.is_elsewhere:
            return
        own, owner = self.own(), self.problem.protected
        factors = {n: np.asarray(shared[n]) for n in self.shared} | estimates_of(own)
        drawn = draws_of({**own, **shared}) if self.agreement.method.langevin else {}
        rows = self.bound.factors[owner].rows if self.owned else 0
        self._drawn = {n: drawn[n][:: _apart(drawn[n], rows)] for n in factors if n in drawn}
        self._rows_by_draw: dict[bool, Floats] = {}
        if self.owned:
            (factors[owner],) = member_rows(self, [factors], spread=False)
        self.final, self._own = factors, OwnCells(self)

    @property
    def _rests_on_own(self) -> bool:
        """Whether predictions rest on what members' own cells say."""
        method = self.agreement.method
        return bool(self.owned) and method.own_effects and method.rows == "solved"

    def _range(self, relation: str) -> tuple[float, float]:
        """Return the middle of a relation's public range, and half its length."""
        low, high = self.problem.bounds[relation]
        return (low + high) / 2.0, (high - low) / 2.0

    @property
    def owned(self) -> tuple[BoundRelation, ...]:
        """The relations that name the protected entity."""
        return tuple(r for r in self.bound.relations if self.problem.protected in r.factors)

    def predict(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the expected values of a relation's cells, within its bounds."""
        final = self._check_relation(relation, cells)
        if self._rests_on_own and self._own.tells(relation):
            return self._on_scale(relation, self._own.expected(relation, cells))
        if not self._drawn:
            return self._on_scale(relation, estimates_at(self.bound, relation, final, cells))
        # the mean over draws of the others, each with the rows that are solved beside it
        found = estimates_of_draws(self.bound, relation, self._by_draw(spread=False), cells)
        return self._on_scale(relation, np.asarray(found.mean(axis=0)))

    def _check_relation(self, relation: str, cells: NDArray[np.int32]) -> Arrays:
        """Return the factors that the site has; raise where they cannot predict cells."""
        if self.final is None:
            raise ParameterError("the run has not finished: there is nothing to predict from")
        held = {r.name: r for r in self.bound.relations}
        if relation not in held:
            raise ParameterError(f"site {self.name!r} holds {list(held)}, not {relation!r}")
        modes = held[relation].factors[: held[relation].modes]
        check_cells(relation, cells, [self.bound.factors[factor].rows for factor in modes])
        return self.final

    def _on_scale(self, relation: str, expected: Floats) -> Floats:
        """Return estimates on the scale of the values, within their bounds."""
        middle, half = self._range(relation)
        if self.problem.model.powers[relation] == 0.0:
            expected = middle + half * expected
        return np.clip(expected, *self.problem.bounds[relation])

    def draws_at(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the expected values of cells by draw, members' rows drawn from their cells."""
        self._check_relation(relation, cells)
        found = estimates_of_draws(self.bound, relation, self.own_draws(), cells)
        found = self._on_scale(relation, found)
        if not self._rests_on_own or not self._own.tells(relation):
            return found
        # they spread about what is expected
        expected = self._on_scale(relation, self._own.expected(relation, cells))
        mean = found.mean(axis=0)
        if self._own.multiplies:
            moved = found * (expected / np.maximum(mean, 1e-300))
        else:
            moved = found + (expected - mean)
        return np.asarray(np.clip(moved, *self.problem.bounds[relation]))

    def own_draws(self) -> Arrays:
        """Return draws of every factor: one row draw of every member for each of the others'."""
        if not self._drawn:
            raise ParameterError(
                "there are no draws here: Langevin(langevin=True) makes them, and shared_ or the "
                "arrays of a release hold them"
            )
        return self._by_draw(spread=True)

    def _by_draw(self, *, spread: bool) -> Arrays:
        """Return draws of the others, and of members' rows beside each: solved, or drawn."""
        if not self.owned:
            return self._drawn
        if spread not in self._rows_by_draw:
            number = min(len(found) for found in self._drawn.values())
            draws = [{n: found[k] for n, found in self._drawn.items()} for k in range(number)]
            self._rows_by_draw[spread] = member_rows(self, draws, spread)
        return self._drawn | {self.problem.protected: self._rows_by_draw[spread]}


def _heads(agreement: LangevinAgreement) -> dict[str, Relation]:
    """Return the relations of shards, of which all but members and cells is public."""
    problem = agreement.problem
    if not agreement.by_user:
        raise ParameterError(
            "Langevin(clipped='entry') keeps a factor of every member at the site: pass one table "
            "in place of shards, or clipped='auto'"
        )
    return {
        name: empty_relation(modes, [problem.sizes.get(entity, 1) for entity in modes])
        for name in problem.bounds
        for modes in (problem.modes(name),)
    }


def _apart(draws: Floats, rows: int) -> int:
    """Return which draws are used, every so many: members' rows beside them must find room."""
    most = max(1, _NUMBERS // max(1, rows * int(draws.shape[-1])))
    return max(1, -(-len(draws) // most))


def _free(agreement: LangevinAgreement, factor: str, shape: tuple[int, int]) -> Floats:
    """Return 1 for every number of a factor that may move, 0 for those held constant."""
    mask = np.ones(shape)
    for column in agreement.fixed_columns(factor):
        mask[:, column] = 0.0
    return mask
