"""Offsets first, then factors by alternating least squares, for matrices of bounded values.

What leaves a site and why that is private stands in `tacit.factorization.offsets.sums`. Of users
it is not public how many there are, so a step after the offsets is only called ``later``: once the
first one has released their number, the coordinator has it spent on factors, or on the offsets
again.

**What the coordinator makes of it** is post-processing: item offsets and factors shrunk by the
known noise (`tacit.factorization.offsets.numerics.shrinkage`). **At the site**, each member's
offset and factor are a ridge regression of its own cells on the released features, with penalties
chosen by leaving cells out; that is prediction at the site, and never leaves it.

The rounds on factors are alternating least squares after Chien et al. (2021): users solve for
their factor from the released item factors, items from the users' noisy sums. There each item has
a noisy Gram matrix; here it is the weight C_j that the offsets' round released, times the
identity: columns are made orthogonal after every round, and rank/2 times fewer numbers share the
budget.
(A released Gram matrix pooled over items made predictions worse on simulated ratings.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.lazy import late
from tacit.data.relations import Relation
from tacit.estimators.agreement import Coordinating, Neighbours, Start
from tacit.estimators.gate import Gate
from tacit.estimators.site import Site
from tacit.factorization.agreement import dearest_of, public_inputs
from tacit.factorization.arrays import Floats
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.offsets.method import AlternatingLeastSquares
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.factorization.offsets.sums import OffsetsAgreement, worst_members
from tacit.factorization.together.people import (
    PUBLIC_MEMBERS,
    counted_at,
    with_public_members,
)
from tacit.factorization.together.problem import Problem
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.calibration import calibrate, gaussian_sigma
from tacit.privacy.events import ADD_REMOVE, REPLACE, DpEvent, GaussianDpEvent, compose
from tacit.privacy.guarantee import Privacy
from tacit.rounds.sides import Participant

__all__ = ["AlternatingLeastSquares", "LeastSquaresAgreement"]

_ROOM = 1.0 - 2.0**-36  # for the rounding of a weight that is looked for
_HALVINGS = 48  # of the interval in which a weight is looked for
# shares of the squared noise multiplier, by step
_MEAN = {"entry": 0.02, "user": 0.05}
_FACTORS = 0.5
_COVARIANCE = 0.25
# the part of members' energy along one common taste, as a rule: what must stand out from noise
_VISIBLE = 0.05
# by how much it must: for a covariance, for one beside the public pattern, for rounds of least
# squares in place of more covariance; and how many members there are for each item then (entries)
_CLEAR, _BESIDE_PATTERN, _FOR_ROUNDS, _CROWD = 1.0, 2.0, 6.0, 10
# Where members have so much of all items, which ones they have says more about who asked them than
# about what they like, and a covariance follows that: on simulated hospitals with panels of their
# own, rounds are a fifth better from here on (and at most a hundredth worse on such ratings).
_DENSE, _FOR_DENSE_ROUNDS = 0.25, 2.5


@dataclass(frozen=True, kw_only=True)
class LeastSquaresAgreement(OffsetsAgreement):
    """What leaves the sites for offsets and alternating least squares."""

    family = "factorization"
    cites = ("chien2021",)
    trusts = ("central", "site", "aggregator")
    differs = True

    problem: Problem
    factors: bool | str = "auto"  # as in `AlternatingLeastSquares`

    def at(self, site: str) -> LeastSquaresAgreement:
        """Return what one site is bound by: its own noise, or under a secure sum its weight."""
        problem = self.problem.at(site)
        if problem is self.problem:
            return self
        if site not in self._own:
            own = replace(self, privacy=problem.privacy, problem=problem)
            weight = own.weight_of_site if problem.is_summed else 1.0
            self._own[site] = replace(own, own_weight=weight)
        return self._own[site]

    @cached_property
    def _own(self) -> dict[str, LeastSquaresAgreement]:
        """What sites are bound by, made once."""
        return {}

    def among(self, sites: Sequence[str]) -> LeastSquaresAgreement:
        """Return it with the names of the sites."""
        return replace(self, problem=replace(self.problem, names=tuple(sites)))

    def own_part(self, site: Site, data: Any) -> Any:
        """Return a site's relations, with who counts there (`together.people`)."""
        return counted_at(self.problem, site, data)

    @property
    def noisy(self) -> bool:
        """Whether noise is added at all."""
        return self.problem.noisy

    @cached_property
    def weight_of_site(self) -> float:
        """The weight w ≤ 1 of all of a site's contributions under which it has its own ε.

        Noise is made for the largest ε, so a member's share of μ is w·μ; what rounding to the
        grid adds does not shrink, and is counted in full.
        """
        assert self.privacy is not None
        return self._weight_for(self.privacy.epsilon)

    def _weight_for(self, epsilon: float) -> float:
        assert self.privacy is not None
        if epsilon >= max(self.problem.epsilons):
            return 1.0
        delta, accountant = self.privacy.delta, self.problem.accountant
        whole, low, high = replace(self, own_weight=1.0), 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            met = epsilon_of(whole.scaled(middle), delta, accountant) <= epsilon * _ROOM
            low, high = (middle, high) if met else (low, middle)
        return low

    def together(self, sites: int) -> DpEvent:
        """Return what so many sites release about somebody whom all of them know, at most.

        Sites' own noise composes; in one sum with one noise what they contribute adds up.
        """
        if not self.problem.is_summed:
            return dearest_of(self.problem, sites, self._asked)
        weights = {epsilon: self._weight_for(epsilon) for epsilon in set(self.problem.epsilons)}
        largest = sorted((weights[e] for e in self.problem.epsilons), reverse=True)[:sites]
        return replace(self, own_weight=1.0).scaled(sum(largest), len(largest))

    def _asked(self, epsilon: float) -> DpEvent:
        """Return everything that a site releases that is asked for some ε."""
        asked = self.problem.privacy
        if asked is None or (epsilon == asked.epsilon and not asked.by_site):
            return self.event
        request = asked.with_epsilon(epsilon)
        problem = replace(self.problem, privacy=request, table=None)
        return replace(self, privacy=request, problem=problem).event

    @property
    def item(self) -> str:
        """The entity whose factor is shared."""
        return self.problem.item

    def item_features(self) -> Floats:
        """Return what public relations say of items, (items, features): standardised columns.

        Cells that are not listed are zeros; a column's mean is zero, and it is cut at ±3, so that
        what few items have does not stand out from everything else.
        """
        columns = [np.zeros((self.items, 0))]
        for relation in self.problem.public.values():
            if self.item not in relation.entities:
                continue  # a site that adopts knows these features from what was released
            mode = relation.entities.index(self.item)
            listed = relation.listed()
            table = np.zeros((self.items, relation.shape[1 - mode]))
            table[listed.indices[:, mode], listed.indices[:, 1 - mode]] = listed.values
            table -= table.mean(axis=0)
            spread = table.std(axis=0)
            columns.append(np.clip(table / np.where(spread > 0.0, spread, 1.0), -3.0, 3.0))
        return np.column_stack(columns)

    def planned(self, rounds: int) -> LeastSquaresAgreement:
        """Return it with all steps, for some rounds of least squares."""
        mean = _MEAN[self.unit]
        if self.factors is False or (self.unit == "entry" and not self._worthwhile):
            return replace(self, plan=(("mean", mean), ("offsets", 1.0 - mean)))
        plan = [("mean", mean), ("offsets", round(1.0 - mean - _FACTORS, 12))]
        plan.append(("later 0", _COVARIANCE if rounds else _FACTORS))
        plan += [(f"later {k}", (_FACTORS - _COVARIANCE) / rounds) for k in range(1, rounds + 1)]
        later = self.later if self.unit == "entry" else ("offsets", *self.later)
        return replace(self, plan=tuple(plan), later=later)

    @property
    def _worthwhile(self) -> bool:
        """Whether factors are learned, where that is known beforehand: by what is public."""
        if self.factors != "auto":
            return self.factors is True
        members = self.problem.members
        return not self.noisy or (members is not None and self.visible(members))

    def visible(self, members: float) -> bool:
        """Whether a common taste of that many members would stand out from the noise.

        Beside the public pattern it must do so clearly: the pattern says much of it already.
        """
        return self._clarity(members) > (_BESIDE_PATTERN if self.products else _CLEAR)

    def refines(self, members: float, each: float = 0.0) -> bool:
        """Whether rounds of least squares bring more than a covariance with less noise.

        ``members`` is how many there are and ``each`` how many items one has, as it is public or
        follows from what was released.
        """
        crowd = self.unit == "user" or members >= _CROWD * self.items
        dense = each >= _DENSE * self.items
        return crowd and self._clarity(members) > (_FOR_DENSE_ROUNDS if dense else _FOR_ROUNDS)

    def _clarity(self, members: float) -> float:
        """Return how far a common taste of members stands out, all later steps together.

        The covariance of M members has an eigenvalue of about 0.05·M along a common taste; noise
        of standard deviation σ from each of N sites on p items has eigenvalues up to σ·√(2pN).
        """
        if self.privacy is None or not self.noisy:
            return math.inf
        noise = self.sensitivities["covariance"] / (self._reach * math.sqrt(_FACTORS))
        return _VISIBLE * members / (noise * math.sqrt(2.0 * self.popular))

    @property
    def _reach(self) -> float:
        """How many units of noise one member on average moves what all sites send together.

        Sites' own sums are weighted by their noise σ_k: √(Σ σ_k⁻²)/N. In a secure sum there is
        one noise, and members count with their site's weight.
        """
        assert self.privacy is not None
        epsilons, problem = self.problem.epsilons, self.problem
        finite = [e for e in epsilons if math.isfinite(e)]
        precise = [1.0 / gaussian_sigma(e, self.privacy.delta) for e in finite]
        if not problem.is_summed:
            return math.sqrt(sum(one**2 for one in precise)) / len(epsilons)
        noise = math.sqrt(len(epsilons) / problem.shares)
        return sum(precise) / len(epsilons) / noise

    @property
    def budget(self) -> dict[str, float]:
        """The noisy steps, each with its share of the squared noise multiplier."""
        return dict(self.plan)

    @cached_property
    def multiplier(self) -> float:
        """The noise multiplier that all steps together have."""
        privacy = self.problem.calibrated
        assert privacy is not None
        if self.problem.accountant == "pld":  # Gaussians compose into one: analytic calibration
            return gaussian_sigma(privacy.epsilon, privacy.delta)
        return calibrate(
            lambda scale: compose(GaussianDpEvent(scale / math.sqrt(s)) for _, s in self.plan),
            privacy.epsilon,
            privacy.delta,
            accountant=self.problem.accountant,
        )

    def _reach_of(self, step: str) -> float | str:
        """Return what the worst case reaches: its member, number 0, may have a weight of its own.

        Observed zeros are at one end of the range: means of two members are half of [−2, 2] apart
        at most. A member with no cell at all, who has no mean, is further from one who has.
        """
        found = super()._reach_of(step)
        if isinstance(found, str):
            return found
        if step == "mean" and self.filled and self.unit == "user" and self.neighbours == REPLACE:
            found = 0.5
        return found * self.problem.weights.get("0", 1.0)

    def _noise(self, share: float, bound: float, shape: tuple[int, ...]) -> Gaussian:
        kind: type[Gaussian] = Gaussian
        more: dict[str, Any] = {"neighbours": self.neighbours}
        if self.problem.is_summed:
            kind, more = GaussianShare, {**more, "shares": self.problem.shares}
        if not self.noisy:
            return kind(0.0, bound, shape, **more)
        return kind.calibrated(self.multiplier / math.sqrt(share), bound, shape, **more)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Bounds and sizes, what is public with them, and what members keep to themselves."""
        notes = [
            f"members of {self.problem.protected!r} keep their own offset and factor at the site: "
            "predictions are the site's own, and are no release"
        ]
        if self.problem.public:
            notes.append(f"public and free: {', '.join(self.problem.public)}")
        if self.products:
            notes.append("item features from which cells are observed are shared as they are")
        return public_inputs(self.problem, self.together) + tuple(notes)

    @property
    def _relation(self) -> str:
        return next(iter(self.problem.bounds))

    # -- the two sides ---------------------------------------------------------------------

    def holder(
        self, name: str, data: Mapping[str, Relation], gate: Gate, seed: int | None
    ) -> Participant:
        """Return a site with its one relation."""
        if self.filled:
            kind = late(f"{__package__}.filled").FilledMembers
        else:
            kind = late(f"{__package__}.least_squares").SiteMembers
        made: Participant = kind(self, name, data, gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Learn offsets, then factors; from members who are public, too."""
        made: Coordinating = late(f"{__package__}.items").coordinate(self, start)
        return with_public_members(made, self._public_members(), apart=self.apart)

    def _public_members(self) -> Any:
        """Return the side of members who are public, without noise; None where nobody is."""
        if not self.problem.open:
            return None
        asked = None if self.privacy is None else self.privacy.with_epsilon(math.inf)
        problem = replace(self.problem, privacy=asked, table=None)
        free = replace(self, privacy=asked, problem=problem)
        return free.holder(PUBLIC_MEMBERS, self.problem.open, Gate(None, Noise("grid")), None)

    def worst_case(self) -> Neighbours:
        """See `worst_members`; where zeros are observed, one member's row is full, or is not."""
        found = worst_members(self)
        ours, theirs = (self._relations(cells) for cells in found)
        if self.filled and self.unit == "user" and self.neighbours != REPLACE:
            # a row of zeros is somebody, too: the member goes altogether
            relation = theirs[self._relation]
            mine = relation.indices[:, 0] > 0
            index = relation.indices[mine] - np.array([1, 0], np.int32)
            shape = (relation.shape[0] - 1, self.items)
            kept = replace(relation, shape=shape, indices=index, values=relation.values[mine])
            theirs = {self._relation: kept}
        return Neighbours(ours, theirs)

    def _relations(self, cells: ByMember) -> dict[str, Relation]:
        index = np.column_stack([cells.owners, cells.items]).astype(np.int32)
        shape = (cells.members, self.items)
        modes = (self.problem.protected, self.item)
        zeros = "observed" if self.filled else "missing"
        return {self._relation: Relation(modes, shape, index, cells.values, zeros)}

    @classmethod
    def examples(cls) -> Iterator[LeastSquaresAgreement]:
        """Both units, both relations, with and without factors and pattern."""
        for unit, neighbours in (("entry", REPLACE), ("user", ADD_REMOVE), ("user", REPLACE)):
            privacy = Privacy(50.0, 1e-6, unit=unit, neighbours=neighbours, trust="site")
            for options in ({"factors": False, "pattern": False}, {"factors": True, "rounds": 1}):
                yield AlternatingLeastSquares(popular=4, **options).agree(_small(privacy))
            yield from cls._of_many_levels(privacy)

    @classmethod
    def _of_many_levels(cls, privacy: Privacy) -> Iterator[LeastSquaresAgreement]:
        """A site with an ε of its own, alone and in a sum; weights; zeros that are observed."""
        method = AlternatingLeastSquares(popular=4, factors=True, rounds=1, pattern=False)
        own = {"site": 20.0}
        yield method.agree(_small(replace(privacy, by_site=own), names=("site",)))
        summed = replace(privacy, trust="aggregator", against=None, by_site=own)
        names = ("site", "another", "third")
        yield method.agree(_small(summed, sites=3, names=names, shares=3))
        yield method.agree(_small(privacy, weights={"0": 0.5}))
        yield method.agree(_small(privacy, filled=("data",), bounds={"data": (0.0, 1.0)}))


def _small(privacy: Privacy, **more: Any) -> Problem:
    """Return what is public about a small matrix."""
    return Problem(
        **{
            "model": CoupledModel("user:k item:k", 2, "euclidean"),
            "protected": "user",
            "shared": ("item",),
            "sizes": {"item": 60 if privacy.unit == "user" else 9},
            "bounds": {"data": (1.0, 5.0)},
            "privacy": privacy,
            "members": 2 if privacy.unit == "entry" else None,
            **more,
        }
    )
