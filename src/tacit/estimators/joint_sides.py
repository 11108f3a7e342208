"""The two sides of `Langevin`: the coordinator with the shared factors, and a site's part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.joint import JointCoordinator, Problem, SitePart
from tacit.estimators.joint_walk import (
    Walk,
    factor_scales,
    fixed_columns,
    fresh_values,
    relation_weight,
)
from tacit.inference.clipped import entry_sums, owner_rows, owner_sums
from tacit.inference.clipped_cells import CellTable, Layout, OwnerRule, cell_table
from tacit.inference.engine import Expanded
from tacit.inference.sweep import estimate_cells
from tacit.mechanisms.additive import PoissonSampled
from tacit.mechanisms.base import privatize
from tacit.mechanisms.clipping import bound_contributions, clip_values
from tacit.mechanisms.grid import GridSum
from tacit.models.structure import BoundModel
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.estimators.joint_langevin import Langevin
    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Arrays = dict[str, NDArray[np.float64]]

__all__ = ["LangevinCoordinator", "LangevinPart"]


def _columns(problem: Problem, factor: str) -> int:
    for tokens in problem.model.forms.values():
        for name, latents in tokens:
            if name == factor:
                return math.prod(problem.model.ranks[k] for k in latents)
    raise ParameterError(f"the model has no factor {factor!r}")


class LangevinCoordinator(JointCoordinator):
    """Holds the shared factors and the public relations."""

    def __init__(
        self,
        method: Langevin,
        problem: Problem,
        public: Mapping[str, Relation],
        rng: np.random.Generator,
    ) -> None:
        self.method, self.problem = method, problem
        self.sent = method.sent(problem)
        bound = problem.bound(public) if public else None
        shapes = {name: (problem.sizes.get(name, 1), _columns(problem, name))
                  for name in self.sent}  # fmt: skip
        if bound is not None:
            shapes |= {n: (spec.rows, spec.columns) for n, spec in bound.factors.items()}
            wrong = [n for n in self.sent if n in bound.factors
                     and bound.factors[n].rows != problem.sizes.get(n, 1)]  # fmt: skip
            if wrong:
                raise ParameterError(
                    f"public data and sites disagree about the members of {wrong[0]!r}"
                )
        values = fresh_values(problem, shapes, rng)
        for name, given in (method.start or {}).items():
            if name not in values or np.shape(given) != values[name].shape:
                raise ParameterError(
                    f"start names {name!r} with shape {np.shape(given)}: the shared factors are "
                    f"{ {n: v.shape for n, v in values.items()} }"
                )
            values[name] = np.array(given, np.float64)
        self.walk = Walk(method, problem, values, int(rng.integers(2**62)))
        self.layout = Layout(shapes)
        self.table = None if bound is None else _public_table(bound, public, self.layout)

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """What every reply must hold: a finite gradient for each factor that is learned."""
        grid = self.method.mechanism(self.problem, self._round, 1).mechanism.grid
        return {
            f"gradient/{n}": ArraySpec(self.walk.values[n].shape, exponent=grid.exponent)
            for n in self.sent
        }

    _round = 0

    def request(self, round: int) -> Message | None:
        """Ask for gradients at the shared factors, until all rounds are done."""
        if round >= self.method.rounds:
            return None
        self._round = round
        return Message(round, {f"factor/{name}": self.walk.values[name] for name in self.sent})

    def absorb(self, round: int, collected: Collected) -> None:
        """Move the shared factors along the sum of all gradients."""
        rate, scale = self.method.rate, 0.0
        if self.problem.noisy:
            clip = self.method.default_clip(self.problem)
            scale = self.method.multiplier(self.problem, round) * clip
        gradients = {n: collected.total[f"gradient/{n}"] / rate for n in self.sent}
        alone: Arrays = {}
        if self.table is not None:
            theta = self.layout.vector(self.walk.values)
            every = np.ones(self.table.widths.shape, bool)
            picks = np.arange(len(self.table.values))
            sums = entry_sums(
                picks, self.table, theta, np.ones(len(theta)), every, math.inf, 0.0
            )  # fmt: skip
            for name in self.walk.values:
                part = self.layout.view(sums, name)
                if name in gradients:
                    gradients[name] = gradients[name] + part
                else:
                    alone[name] = part
        variance = len(collected.sites) * (scale / rate) ** 2
        self.walk.move(round, {**gradients, **alone}, variance)

    def shared(self) -> Arrays:
        """Return the average of the shared factors after the burn-in."""
        average = self.walk.average()
        return {name: average[name] for name in average if name in self.problem.shared}

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the factors, their averages and step sizes."""
        return self.walk.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        self.walk.restore(state)


def _public_table(bound: BoundModel, public: Mapping[str, Relation], layout: Layout) -> CellTable:
    cells = {}
    for relation in bound.relations:
        found = public[relation.name].listed()
        cells[relation.name] = (found.indices, found.values, 1.0 / relation.dispersion)
    return cell_table(bound, cells, layout)


class LangevinPart(SitePart):
    """A site's data, its private factors and its gate."""

    def __init__(
        self,
        method: Langevin,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        self.method, self.problem, self.name = method, problem, name
        self.reservation, self.noise = reservation, noise
        self.bound = problem.bound(relations)
        self.sent = method.sent(problem)
        self.shared = [n for n in self.sent if n in self.bound.factors]
        by_user = problem.unit == "user"
        solved = problem.protected if by_user else None
        private = [n for n in self.bound.factors if n not in self.shared and n != solved]
        shapes = {n: (self.bound.factors[n].rows, self.bound.factors[n].columns)
                  for n in (*self.shared, *private)}  # fmt: skip
        self.layout = Layout(shapes)
        values = fresh_values(problem, {n: shapes[n] for n in private}, rng)
        self.walk = Walk(method, problem, values, int(rng.integers(2**62)))
        self.free = self.layout.vector(
            {n: self.walk.free.get(n, self._shared_free(n)) for n in shapes}
        )
        self.cells = {n: self._prepared(n, found.listed()) for n, found in relations.items()}
        owner = problem.protected if by_user else None
        used = self._limited(rng) if by_user and method.limit is not None else self.cells
        self.table = cell_table(self.bound, used, self.layout, owner)
        self.units = len(self.table.owner_starts) - 1 if by_user else len(self.table.values)
        # gated factors come first; at the published site level only what is sent is gated
        self.gated = self.layout.size
        if method.level == "site":
            self.gated = sum(math.prod(shapes[n]) for n in self.shared)
        self.counted = np.array([
            [p < len(r.factors) and (method.level == "entry" or r.factors[p] in self.shared)
             for p in range(self.table.widths.shape[1])]
            for r in self.bound.relations
        ], bool).reshape(self.table.widths.shape)  # fmt: skip
        self.final: Arrays | None = None

    def _shared_free(self, name: str) -> NDArray[np.float64]:
        mask = np.ones((self.bound.factors[name].rows, self.bound.factors[name].columns))
        for column in fixed_columns(self.method, self.problem, name):
            mask[:, column] = 0.0
        return mask

    def _prepared(
        self, name: str, found: Relation
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], float]:
        """Return a relation's cells, clipped to their bounds and mapped, with their weight."""
        low, high = self.problem.bounds[name]
        values = clip_values(found.values, low, high)
        if self.problem.model.powers[name] == 0.0:
            values = (values - (low + high) / 2.0) / ((high - low) / 2.0)
        return found.indices, values, relation_weight(self.problem, name, low, high)

    def _limited(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return the cells with at most ``limit`` of each user."""
        owner = self.problem.protected
        at = {r.name: r.factors.index(owner) for r in self.bound.relations}
        whose = [self.cells[r.name][0][:, at[r.name]] for r in self.bound.relations]
        kept = bound_contributions(np.concatenate(whose), int(self.method.limit or 1), rng)
        cuts = np.cumsum([len(part) for part in whose])[:-1]
        found = {}
        for relation, mask in zip(self.bound.relations, np.split(kept, cuts), strict=True):
            indices, values, weight = self.cells[relation.name]
            found[relation.name] = (indices[mask], values[mask], weight)
        return found

    def owner_rule(self) -> OwnerRule:
        """Return how a user's row is solved from its own cells."""
        owner, method = self.problem.protected, self.method
        scale = factor_scales(self.problem)[owner]
        columns = self.bound.factors[owner].columns
        free, fixed = np.ones(columns), np.zeros(columns)
        for column, value in fixed_columns(method, self.problem, owner).items():
            free[column], fixed[column] = 0.0, value
        rate = method.shape / (method.mean * scale)
        return OwnerRule(
            free, fixed, method.precision / scale**2, method.shape, rate, method.inner, scale
        )

    # -- rounds -----------------------------------------------------------------------------

    def respond(self, request: Message) -> Message:
        """Answer with noisy gradients of the shared factors; move the private ones."""
        theta = self.layout.vector({**self._received(request), **self.walk.values})
        mechanism = self.method.mechanism(self.problem, request.round, self.gated)
        picks = self.noise.sample(self.units, self.method.rate)
        released = self._release(mechanism, picks, theta)
        noisy = np.zeros(self.layout.size)
        noisy[: self.gated] = released
        if self.gated < self.layout.size:
            noisy[self.gated :] = self._unprotected(picks, theta)
        rate = self.method.rate
        variance = (mechanism.mechanism.scale / rate) ** 2 if self.method.level == "entry" else 0.0
        moved = {n: self.layout.view(noisy, n) / rate for n in self.walk.values}
        self.walk.move(request.round, moved, variance)
        reply = {}
        for name in self.sent:
            if name in self.shared:
                reply[f"gradient/{name}"] = self.layout.view(noisy, name)
            else:  # this site holds nothing about it
                reply[f"gradient/{name}"] = np.zeros(request[f"factor/{name}"].shape)
        return Message(request.round, reply)

    def _received(self, request: Message) -> Arrays:
        received = {}
        for name in self.shared:
            found = request.arrays.get(f"factor/{name}")
            if found is None or found.shape != self.layout.shapes[name]:
                raise SiteFailure(
                    f"the request lacks the factor {name!r} with shape {self.layout.shapes[name]}"
                )
            received[name] = found
        return received

    def _release(
        self, mechanism: PoissonSampled, picks: NDArray[np.int64], theta: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Pass the sum of the sampled units' clipped gradients through the gate."""
        inner = mechanism.mechanism
        inverse = math.ldexp(1.0, -inner.grid.exponent)
        if self.problem.unit == "user":
            rule = self.owner_rule()
            sums = owner_sums(
                picks, self.table, theta, self.free, rule, inner.sensitivity, inverse
            )
        else:
            sums = entry_sums(
                picks, self.table, theta, self.free, self.counted, inner.sensitivity, inverse
            )
        value = GridSum(sums[: self.gated], inner.grid)
        released: NDArray[np.float64] = privatize(
            mechanism, value, ledger=self.reservation, rng=self.noise
        )
        return released

    def _unprotected(
        self, picks: NDArray[np.int64], theta: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return raw gradients of the private factors: the published site level, on purpose."""
        sums = entry_sums(
            picks, self.table, theta, self.free, ~self.counted, math.inf, 0.0
        )  # fmt: skip
        return np.asarray(sums[self.gated :])

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the private factors, their averages and step sizes."""
        return self.walk.state()

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        self.walk.restore(state)

    # -- afterwards -------------------------------------------------------------------------

    def finish(self, shared: Mapping[str, NDArray[np.float64]]) -> None:
        """Solve the protected entity's rows from raw data and the final factors, at the site."""
        factors = {n: np.asarray(shared[n]) for n in self.shared} | self.walk.average()
        owner = self.problem.protected
        owned = [r for r in self.bound.relations if owner in r.factors]
        if owned:
            part = BoundModel(self.bound.factors, tuple(owned))
            layout = Layout({n: (self.bound.factors[n].rows, self.bound.factors[n].columns)
                             for n in self.bound.factors if n != owner})  # fmt: skip
            table = cell_table(part, self.cells, layout, owner)
            everyone = np.arange(self.bound.factors[owner].rows)
            factors[owner] = owner_rows(everyone, table, layout.vector(factors), self.owner_rule())
        self.final = factors

    def predict(self, relation: str, cells: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the expected values of a relation's cells, within its bounds."""
        if self.final is None:
            raise ParameterError("the run has not finished: there is nothing to predict from")
        held = {r.name: r for r in self.bound.relations}
        if relation not in held:
            raise ParameterError(f"site {self.name!r} holds {list(held)}, not {relation!r}")
        sizes = [self.bound.factors[f].rows for f in held[relation].factors][
            : held[relation].modes
        ]
        if cells.shape[1] != len(sizes) or (
            len(cells) and ((cells < 0).any() or (cells >= np.array(sizes)).any())
        ):
            raise ParameterError(f"cells of {relation!r} must lie within {sizes}")
        one = BoundModel(self.bound.factors, (held[relation],))
        used = {n: self.final[n] for n in held[relation].factors}
        expected = estimate_cells(cells, Expanded(one, used).banks[relation])
        low, high = self.problem.bounds[relation]
        if self.problem.model.powers[relation] == 0.0:
            expected = (low + high) / 2.0 + (high - low) / 2.0 * expected
        return np.clip(expected, low, high)
