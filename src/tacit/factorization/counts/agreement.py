"""`CountsAgreement`: sites perturb their counts once; factors are learned from what was sent.

**Privacy.** A site's observed cells hold whole numbers, brought into public bounds one by one, and
are sent once with two-sided geometric noise (Ghosh et al. 2009), P(τ) ∝ α^|τ|, α = exp(−ε/S).
Everything after that, at the coordinator and at other sites, works on what was sent. S is the
largest L1 change of the numbers that are sent, the cells themselves being public:

- ``unit="entry"``: one value is replaced by another one within its bounds, S = max (high − low)
  over the relations. ε is *per cell*: somebody with n cells has n·ε at worst.
- ``unit="user"``: all values of one user are replaced. At most c cells of a user are sent, drawn
  without a look at the values, so S = c·max (high − low). Which cells a user has is no secret here
  either, and a user who is added or removed would show: only replace-one is offered.

**Any request.** The first one is empty. The second one comes after the only release there is, and
its reply says nothing; it is checked all the same: names, sizes, types, ranges, cells that exist
and are listed once.

**Inference.** Counts above the lower bound, x − low, are Poisson given gamma factors; the counts
behind the perturbed ones are drawn along with the factors
(`tacit.factorization.counts.numerics.gibbs`). With ``views="perturbed"`` the coordinator does this
for all sites (LDP1 of Ermiş 2020), with ``"own"`` each site does it with its own counts as they
are and the others' perturbed (LDP2).

**Prior.** Unless given, it follows from public facts and from what was released. With m the mean
of the perturbed numbers, F factors to a relation and R latent combinations, factor entries have
the mean B with R·B^F = m. Their shape A has ((1 + 1/A)^F − 1)/R = c²·I/(1 + I):

- c = (Δ/m − 1)/2, kept within [0.1, 3]: the prior's mean plus two standard deviations of a rate
  reaches the upper bound;
- I = n·(c·m)²/(v + m), what the n cells of one member say about such a spread through noise of
  variance v. Differences that the noise hides cannot be learned; sampling them all the same would
  only leave the sampler's own error in the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.lazy import late
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.factorization.agreement import FactorizationAgreement, public_inputs
from tacit.factorization.arrays import Arrays, Integers
from tacit.factorization.counts.learn import (
    Learned,
    SiteLayout,
    learn,
    levels_of,
    members_of_sites,
)
from tacit.factorization.counts.method import LocalCounts
from tacit.factorization.counts.views import (
    ViewSpec,
    as_text,
    names_problem,
    own_counts,
    view_relation,
)
from tacit.factorization.draws import PRIOR, summarised
from tacit.factorization.together.neighbours import farthest_cells, small_problems
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.rounds.messages import ArraySpec, Size
from tacit.rounds.sides import Collected, Participant

__all__ = ["LARGEST", "CountsAgreement"]

LARGEST = 10**9  # of a perturbed count: what is beyond is cut off, far out in the tail
_MOST_MEMBERS = 10**8  # of the protected entity at one site
_MOST_CELLS = 10**9  # of a relation at one site
_LETTERS = 1 << 20  # in the names of all sites


@dataclass(frozen=True)
class CountsAgreement(FactorizationAgreement):
    """Views are sent once; then every site hears what came of them."""

    cites = ("schein2019", "ermis2020")
    trusts = ("central", "site", "local")
    method: LocalCounts

    @property
    def apart(self) -> bool:
        """Every site's perturbed cells are looked at."""
        return True

    # -- what is charged -------------------------------------------------------------------

    def mechanism(self, cells: int) -> TwoSidedGeometric:
        """Return the noise on a number of cells, calibrated to the request."""
        problem = self.problem
        widest = max(int(high - low) for low, high in problem.bounds.values())
        epsilon = math.inf if problem.privacy is None else problem.privacy.epsilon
        return TwoSidedGeometric(epsilon, widest * (self.method.cells or 1), (cells,))

    def _steps(self) -> tuple[Step, ...]:
        views: dict[str, ArraySpec] = {"members": ArraySpec((1,), "int64", 0, self._most_members)}
        views |= {name: self._view(name, name) for name in self.problem.bounds}
        done = {"done": ArraySpec((1,), "int64", 1, 1)}
        heard = "that a site has heard what came of the views"
        return (
            Step("views", self.mechanism(0), replies=views, merge="stack"),
            Step("learned", open=heard, asks=self._told, replies=done),
        )

    @property
    def _most_members(self) -> int:
        """The most members of a site: those of all sites, where that is public."""
        return self.problem.members or _MOST_MEMBERS

    def _view(self, name: str, size: str) -> ViewSpec:
        modes = self.problem.modes(name)
        sizes = tuple(self.problem.sizes.get(entity, self._most_members) for entity in modes)
        shape = (Size(f"cells of {size}", _MOST_CELLS), len(sizes) + 1)
        return ViewSpec(shape, "int64", -LARGEST, LARGEST, sizes=sizes)

    @cached_property
    def _told(self) -> dict[str, ArraySpec]:
        """What the second request holds: draws of the factors, or everybody's views."""
        sites = range(self.problem.sites)
        names = ArraySpec((Size("letters", _LETTERS),), "uint8", rule=names_problem)
        asks: dict[str, ArraySpec] = {
            "sites": names,
            "members": ArraySpec((self.problem.sites,), "int64", 0, self._most_members),
        }
        if self.method.views == "own":
            for k in sites:
                for name in self.problem.bounds:
                    asks[f"view/{k}/{name}"] = self._view(name, f"{name} at {k}")
            return asks
        for joint, name in self._factors.items():
            rows = self.problem.sizes.get(name, self._most_members * self.problem.sites)
            shape = (self.method.draws, Size(f"rows of {joint}", rows), self.problem.columns(name))
            asks[f"draws/{joint}"] = ArraySpec(shape, low=0.0)
        return asks

    @cached_property
    def _factors(self) -> dict[str, str]:
        """Every factor of the joint model that sites predict with → its name in the model."""
        sites, used = range(self.problem.sites), self.problem.used
        layout = SiteLayout(self.problem, [1] * len(sites))
        return {layout.factor(name, k): name for name in used for k in sites}

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is public, what ε means, and what stays at a site."""
        problem, method = self.problem, self.method
        notes = [
            "values are rounded to whole numbers",
            f"how many members of {problem.protected!r} a site has is public",
        ]
        if method.cells is None:
            notes.append(
                "ε is per cell: whoever has n observed cells is protected by n·ε at worst"
            )
        else:
            notes += [
                f"which cells a member of {problem.protected!r} has is public: what is protected "
                "is all of their values",
                f"at most {method.cells} cells of a member are sent, drawn at random",
            ]
        if problem.privacy is not None and problem.privacy.trust == "local":
            notes.append("whoever runs a site is taken for the person, and sees its raw values")
        if method.views == "own":
            notes.append(
                "a site's own factors and predictions are made from its raw values: they are not "
                "covered, and stay there"
            )
        elif method.own_effects:
            notes.append(
                "a site's own predictions are made from its raw values, too: they are not "
                "covered, and stay there"
            )
        return public_inputs(problem, self.together) + tuple(notes)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its relations."""
        made: Participant = late(f"{__package__}.sides").CountingSite(
            self, name, data, gate, generator(seed, f"site {name}")
        )
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Collect the perturbed views, tell every site what it needs, return posterior means."""
        rng = generator(start.seed, "coordinator")
        found = yield Ask("views")
        names, sites = (
            found.sites,
            self.relations(_views(found, self.problem.bounds), _members(found)),
        )
        told: dict[str, Any] = {"sites": as_text(names)}
        if self.method.views == "own":  # nobody else needs what all views together tell
            yield Ask("learned", **told, **self._passed_on(found))
            return self._shared_draws(self._learn(sites, names, rng))
        learned = self._learn(sites, names, rng)
        told["members"] = self._padded(members_of_sites(self.problem, sites))
        for joint, name in self._factors.items():
            nothing = np.empty((self.method.draws, 0, self.problem.columns(name)))
            told[f"draws/{joint}"] = learned.draws.get(joint, nothing)
        yield Ask("learned", **told)
        return self._shared_draws(learned)

    def relations(
        self, views: Sequence[dict[str, Any]], members: Sequence[int]
    ) -> list[dict[str, Relation]]:
        """Return sites' perturbed views as relations."""
        return [
            {n: view_relation(self.problem, n, view, count) for n, view in found.items()}
            for found, count in zip(views, members, strict=True)
        ]

    def _passed_on(self, found: Collected) -> dict[str, Any]:
        """Return everybody's views as they were sent; empty ones for whom is missing."""
        views = _views(found, self.problem.bounds)
        told: dict[str, Any] = {"members": self._padded(_members(found))}
        for k in range(self.problem.sites):
            for name in self.problem.bounds:
                nothing = np.empty((0, len(self.problem.modes(name)) + 1), np.int64)
                told[f"view/{k}/{name}"] = views[k][name] if k < len(views) else nothing
        return told

    def _padded(self, members: Sequence[int]) -> Integers:
        return np.array([*members, *[0] * (self.problem.sites - len(members))], np.int64)

    def _learn(
        self, sites: Sequence[dict[str, Relation]], names: Sequence[str], rng: np.random.Generator
    ) -> Learned:
        """Learn from the perturbed views alone."""
        whole, noises = [*sites, *self.opened_members()], self.noises(names)
        level = levels_of(self.problem, noises, whole)
        return learn(self.method, self.problem, noises, whole, None, level, rng)

    def noises(self, names: Sequence[str]) -> list[TwoSidedGeometric]:
        """Return the noise of sites, each its own, and of members who are public: it is public."""
        asked = self.problem.table or self.problem.privacy
        requests = [None if asked is None else asked.at(name) for name in names]
        requests += [None] * len(self.opened_members())
        return [
            replace(self, problem=replace(self.problem, privacy=one)).mechanism(0)
            for one in requests
        ]

    def opened_members(self) -> list[dict[str, Relation]]:
        """Return the counts of members who are public, like those of one more site."""
        return [own_counts(self.problem, self.problem.open)] if self.problem.open else []

    def _shared_draws(self, learned: Learned) -> Learned:
        """Return what is about all sites: it follows from the perturbed views alone."""
        names = [name for name in self.problem.shared if name in learned.draws]
        shapes = {name: learned.shapes[name] for name in names}
        draws = {n: learned.draws[n].reshape(-1, *shapes[n]) for n in names}
        return learned._replace(draws=draws, shapes=shapes)

    def shared(self, result: Learned) -> Arrays:
        """Return draws of the shared factors, their means and deviations, and the prior."""
        return summarised(result.draws) | {PRIOR: np.array(result.prior)}

    # -- audits and contracts --------------------------------------------------------------

    def worst_case(self) -> Neighbours:
        """All values of one member, or one cell, at the other end of its bounds."""
        return farthest_cells(self.problem, counts=True)

    @classmethod
    def examples(cls) -> Iterator[Agreement]:
        """Either view, unit, inference and trust; one relation and several."""
        short = LocalCounts(burn_in=1, draws=2, thin=1)
        for k, problem in enumerate(
            small_problems(trusts=("local", "site"), delta=0.0, divergences=("kl",))
        ):
            if problem.privacy is None or problem.neighbours != "replace-one":
                continue
            cells = 2 if problem.unit == "user" else None
            for views in ("perturbed", "own"):
                inference = "naive" if k % 2 else "exact"
                yield replace(short, views=views, inference=inference, cells=cells).agree(problem)
            if k == 2:  # an entry, at a site with an ε of its own
                asked = replace(problem.privacy, by_site={"site": 0.5})
                yield short.agree(replace(problem, privacy=asked, names=("site",)))


def _members(found: Collected) -> list[int]:
    assert found.by_site is not None
    return [int(found.by_site[site]["members"][0]) for site in found.sites]


def _views(found: Collected, names: Any) -> list[dict[str, Any]]:
    assert found.by_site is not None
    return [{name: found.by_site[site][name] for name in names} for site in found.sites]
