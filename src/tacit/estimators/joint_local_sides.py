"""The two sides of `tacit.estimators.joint_local`: a site that sends once, and who collects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.joint import JointCoordinator, Problem, SitePart
from tacit.inference.engine import Expanded
from tacit.inference.sweep import estimate_cells
from tacit.mechanisms.base import privatize
from tacit.mechanisms.clipping import bound_contributions
from tacit.models.structure import CoupledModel
from tacit.rounds.messages import ArraySpec, Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.estimators.joint_local import LocalCounts
    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation
    from tacit.rounds.protocol import Collected

    Arrays = dict[str, NDArray[np.float64]]

from tacit.estimators.joint_local_learn import (
    Learned,
    SiteLayout,
    learn,
    levels_of,
    members_of_sites,
)
from tacit.estimators.joint_local_views import (
    ViewSpec,
    as_text,
    from_text,
    modes_of,
    own_counts,
    unpack,
)

__all__ = ["LocalCoordinator", "LocalPart"]

_LARGEST = 10**9  # of a perturbed count: what is beyond is cut off, far out in the tail
_MOST_MEMBERS = 10**8  # of the protected entity at one site


class LocalPart(SitePart):
    """A site: sends its perturbed counts once, then hears what came of them."""

    def __init__(
        self,
        method: LocalCounts,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        self.name, self.method, self.problem = name, method, problem
        self.counts = own_counts(problem, relations)
        self.members = max(
            (n for r in self.counts.values() for e, n in zip(r.entities, r.shape, strict=True)
             if e == problem.protected), default=0,
        )  # fmt: skip
        self._reservation, self._noise, self._rng = reservation, noise, rng
        self.draws: Arrays | None = None

    def respond(self, request: Message) -> Message:
        """Send the perturbed counts, or learn from what everybody sent."""
        if not request.arrays:
            return Message(request.round, self._perturbed())
        self._take(request)
        return Message(request.round, {"done": np.ones(1, np.int64)})

    def _perturbed(self) -> dict[str, NDArray[np.int64]]:
        """Return the perturbed cells of every relation; the only release there is."""
        sent = {name: self._sent(name) for name in self.counts}
        if self.method.cells is not None:
            self._bound_members(sent, self.method.cells)
        counts = [found.values.astype(np.int64) for found in sent.values()]
        together = np.concatenate([*counts, np.empty(0, np.int64)])
        noisy = privatize(
            self.method.mechanism(self.problem, len(together)), together,
            ledger=self._reservation, rng=self._noise, purpose="perturbed counts",
        )  # fmt: skip
        noisy = np.clip(noisy, -_LARGEST, _LARGEST)
        reply = {"members": np.array([self.members])}
        start = 0
        for name in self.problem.bounds:
            if name not in sent:
                reply[name] = np.empty((0, len(modes_of(self.problem, name)) + 1), np.int64)
                continue
            found = sent[name]
            part = noisy[start : start + found.cells]
            reply[name] = np.column_stack([found.indices.astype(np.int64), part])
            start += found.cells
        return reply

    def _sent(self, name: str) -> Relation:
        """Return the cells in their own order: how they are listed says nothing."""
        found = self.counts[name]
        return found.subset(np.lexsort(found.indices.T[::-1]))

    def _bound_members(self, sent: dict[str, Relation], limit: int) -> None:
        """Keep at most ``limit`` cells of each member, over all relations."""
        at = {name: found.entities.index(self.problem.protected) for name, found in sent.items()}
        units = np.concatenate([found.indices[:, at[name]] for name, found in sent.items()])
        kept = bound_contributions(units, limit, self._rng)
        start = 0
        for name, found in sent.items():
            sent[name] = found.subset(np.flatnonzero(kept[start : start + found.cells]))
            start += found.cells

    def _take(self, request: Message) -> None:
        names = from_text(request["sites"])
        if self.name not in names:
            raise SiteFailure("the coordinator did not use what was sent")
        me = names.index(self.name)
        if self.method.views == "perturbed":
            layout = SiteLayout(self.problem, request["members"].tolist())
            found = {n: request[f"draws/{layout.factor(n, me)}"] for n in self._factors()}
            self.draws = {n: draws[:, layout.rows(n, me)] for n, draws in found.items()}
            return
        sites, public = unpack(self.problem, request)
        level = levels_of(self.problem, self.method.mechanism(self.problem), sites)
        sites[me] = self.counts
        learned = learn(self.method, self.problem, sites, me, public, level, self._rng)
        layout = SiteLayout(self.problem, members_of_sites(self.problem, sites))
        self.draws = {n: learned.draws[layout.factor(n, me)] for n in self._factors()}

    def _factors(self) -> list[str]:
        """Return the factors of the site's relations."""
        forms = self.problem.model.forms
        return list(dict.fromkeys(factor for name in self.counts for factor, _ in forms[name]))

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the draws of the factors that the site predicts with."""
        return dict(self.draws or {})

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up the draws."""
        self.draws = dict(state) or None

    def finish(self, shared: Mapping[str, NDArray[np.float64]]) -> None:
        """All that a site needs came with the last request."""

    def predict(self, relation: str, cells: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the posterior mean of the rate at cells, within the bounds."""
        if relation not in self.counts or self.draws is None:
            raise ParameterError(f"site {self.name!r} has no relation {relation!r}")
        found = self.counts[relation]
        if cells.shape[1] != found.modes:
            raise ParameterError(f"cells must have {found.modes} columns, got {cells.shape[1]}")
        if cells.size and ((cells < 0) | (cells >= found.shape)).any():
            raise ParameterError(f"cells must lie within {found.shape}")
        form = " ".join(f"{f}:{ks}" for f, ks in self.problem.model.forms[relation])
        empty = {relation: found.subset(slice(0, 0))}
        bound = CoupledModel({relation: form}, self.problem.model.ranks).bind(empty)
        total = np.zeros(len(cells))
        for k in range(self.method.draws):
            factors = {name: self.draws[name][k] for name in bound.factors}
            bank = Expanded(bound, factors).banks[relation]
            total += estimate_cells(cells, bank)
        low, high = self.problem.bounds[relation]
        return np.clip(low + total / self.method.draws, low, high)


class LocalCoordinator(JointCoordinator):
    """Collects the perturbed views once and tells every site what it needs to predict.

    What it tells is kept in its state, so that a resumed run says the same again; whether it was
    told is not: after a restart the sites have to hear it once more.
    """

    def __init__(
        self,
        method: LocalCounts,
        problem: Problem,
        public: Mapping[str, Relation],
        rng: np.random.Generator,
    ) -> None:
        self.method, self.problem, self.public, self._rng = method, problem, dict(public), rng
        self._tell: dict[str, NDArray[Any]] = {}
        self._told = False

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """A perturbed view of every relation at first, then a mere nod."""
        if self._tell:
            return {"done": ArraySpec((1,), "int64", 1, 1)}
        specs: dict[str, ArraySpec] = {"members": ArraySpec((1,), "int64", 0, _MOST_MEMBERS)}
        for name in self.problem.bounds:
            sizes = tuple(
                self.problem.sizes.get(entity, _MOST_MEMBERS)
                for entity in modes_of(self.problem, name)
            )
            specs[name] = ViewSpec(
                (None, len(sizes) + 1), "int64", -_LARGEST, _LARGEST, sizes=sizes
            )
        return specs

    def request(self, round: int) -> Message | None:
        """Ask for views; then tell what came of them, once."""
        return None if self._told else Message(round, self._tell)

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in the views, or note that all sites have heard."""
        if self._tell:
            self._told = True
            return
        assert collected.by_site is not None
        tell: dict[str, NDArray[Any]] = {"sites": as_text(collected.sites)}
        for k, site in enumerate(collected.sites):
            reply = collected.by_site[site]
            tell[f"members/{k}"] = reply["members"]
            for name in self.problem.bounds:
                tell[f"view/{k}/{name}"] = reply[name]
        tell["public"] = as_text(list(self.public))
        for name, found in self.public.items():
            tell |= {
                f"public/{name}/entities": as_text(found.entities),
                f"public/{name}/shape": np.array(found.shape),
                f"public/{name}/cells": found.indices,
                f"public/{name}/values": found.values,
                f"public/{name}/zeros": np.array([found.zeros == "observed"]),
                f"public/{name}/held_out": found.held_out,
            }
        self._tell = tell
        if self.method.views == "perturbed":  # the sites need what was learned
            learned, members = self._learned()
            self._tell = {"sites": tell["sites"], "members": np.array(members)}
            self._tell |= {f"draws/{name}": draws for name, draws in learned.draws.items()}
            self._tell |= {f"shared/{name}": mean for name, mean in self._means(learned).items()}

    def _learned(self) -> tuple[Learned, list[int]]:
        """Learn from the perturbed views alone; also return each site's members."""
        sites, public = unpack(self.problem, Message(0, self._tell))
        level = levels_of(self.problem, self.method.mechanism(self.problem), sites)
        learned = learn(self.method, self.problem, sites, None, public, level, self._rng)
        return learned, members_of_sites(self.problem, sites)

    def _means(self, learned: Learned) -> Arrays:
        return {
            name: learned.draws[name].mean(axis=0).reshape(learned.shapes[name])
            for name in self.problem.shared if name in learned.draws
        }  # fmt: skip

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what is told."""
        return self._tell

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on with telling."""
        self._tell, self._told = dict(state), False

    def shared(self) -> Arrays:
        """Return the posterior means of the shared factors, given the perturbed views."""
        if self.method.views == "own":  # nobody else needs them
            return self._means(self._learned()[0])
        return {
            name.removeprefix("shared/"): array
            for name, array in self._tell.items() if name.startswith("shared/")
        }  # fmt: skip
