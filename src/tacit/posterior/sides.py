"""A holder's side: what people contribute to a statistic, each from its own number."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.quantiles import Quantiles
from tacit.posterior.agreement import PosteriorAgreement
from tacit.posterior.numerics.orders.domain import Domain
from tacit.posterior.numerics.statistics import OrderStatistic
from tacit.posterior.selecting import SelectorAgreement
from tacit.posterior.uncounted import UncountedAgreement

__all__ = ["Chunks", "Crowd", "People", "contribution", "crowd_contribution"]


def contribution(public: PosteriorAgreement, x: Array) -> Any:
    """Return what people contribute: a sum of shares on the grid, or a value of each."""
    statistic, mechanism = public.statistic, public.mechanism
    if isinstance(statistic, OrderStatistic):
        drawn = isinstance(mechanism, Quantiles)  # on the scale of x or |x|
        of = public.planned.domain.base if drawn else statistic.of
        return of.of_each(x, public.bounds)[:, 0]
    s = statistic.of_each(x, public.bounds)
    if public.merge == "sum":
        assert isinstance(mechanism, Gaussian | Laplace)
        return mechanism.grid.sum((s - public.low) / public.size)
    if public.planned.noise.kind == "response":
        return (s[:, 0] >= 0.5).astype(np.int64)
    return s[:, 0]


class People(Holder):
    """One number for each person."""

    agreement: PosteriorAgreement

    def contribute(self, step: Step, asked: Asked, kept: Kept, shard: Array, picks: Picks) -> Any:
        """Return what the people of a shard contribute."""
        return contribution(self.agreement, shard)

    def units(self, shard: Array) -> int:
        """Return the number of people."""
        return len(shard)

    def check_room(self) -> None:
        """Raise where shards together hold other than the agreed number of people."""
        people, size = sum(units for units, _ in self.sizes), self.agreement.size
        if people != size:
            raise ParameterError(
                f"data must hold the {size} people that size states, got {people}"
            )
        super().check_room()

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the noisy numbers."""
        if self.agreement.averaged:
            released = np.mean(released)
        return {"values": np.atleast_1d(released)}


def crowd_contribution(public: UncountedAgreement, x: Array) -> Any:
    """Return what people contribute where their number was not agreed on."""
    statistic, mechanism = public.statistic, public.mechanism
    if isinstance(statistic, OrderStatistic):
        base = Domain.of(statistic, public.bounds, public.spacing).base
        return base.of_each(x, public.bounds)[:, 0]
    assert isinstance(mechanism, Gaussian | Laplace)
    rows = statistic.of_each(x, public.bounds) - public.middle
    if not public.counted:
        weight = public.weight_for(mechanism.norm)
        rows = np.column_stack([rows, np.full(len(rows), weight)])
    return mechanism.grid.sum(rows)


class Crowd(Holder):
    """One number for each person, of as many as there are."""

    agreement: UncountedAgreement

    def contribute(self, step: Step, asked: Asked, kept: Kept, shard: Array, picks: Picks) -> Any:
        """Return what the people of a shard contribute, or how many they are."""
        if step.name == "people":
            return self.agreement.count_noise.grid.sum(np.ones((len(shard), 1)))
        return crowd_contribution(self.agreement, shard)

    def units(self, shard: Array) -> int:
        """Return the number of people."""
        return len(shard)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the noisy numbers, and how many people there are where that is public."""
        if step.name == "people":
            return {"people": np.atleast_1d(released)}
        found = {"values": np.atleast_1d(released)}
        if self.agreement.counted:
            people = sum(units for units, _ in self.sizes)
            found["people"] = np.array([people], np.int64)
        return found


class Chunks(Holder):
    """One number for each person, the first people apart from the rest."""

    agreement: SelectorAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: Mapping[str, Array], picks: Picks
    ) -> Any:
        """Return what the people of one part contribute to what is asked of them."""
        public, part = self.agreement, str(step.part)
        if part == "first":
            return contribution(public.first, shard[part])
        chosen = public.rest[list(public.kinds).index(asked.kind)]
        return contribution(chosen, shard[part])

    def contributions(self, shard: Mapping[str, Array]) -> int:
        """Return the number of people in both parts."""
        return sum(len(people) for people in shard.values())

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the noisy numbers."""
        public = self.agreement
        chosen = public.first
        if step.part != "first":
            chosen = public.rest[list(public.kinds).index(asked.kind)]
        return {"values": np.atleast_1d(np.mean(released) if chosen.averaged else released)}

    # -- restarts --------------------------------------------------------------------------

    def _people(self) -> NDArray[np.uint8]:
        """Return a digest of who stands where; it stays with the holder."""
        digest = hashlib.sha256()
        for shard in self.shards:
            for part in ("first", "rest"):
                digest.update(np.ascontiguousarray(shard[part]).tobytes())
        return np.frombuffer(digest.digest(), np.uint8)

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return where this holder is, and a digest of its people in their order."""
        return {**super().state(), "people": self._people()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on with the same people in the same order: a person must not be in both parts."""
        if not np.array_equal(state["people"], self._people()):
            raise SiteFailure("the data, or their order, are not those that this run began with")
        super().restore(state)
