"""The two sides of `tacit.estimators.recommender_sites`: a site, and the recommender."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.rng import generator
from tacit.errors import SiteFailure
from tacit.estimators.recommender_certified import HeterogeneousOffsets
from tacit.estimators.recommender_certified_parts import ItemServer, Raters
from tacit.estimators.recommender_method import Task
from tacit.estimators.recommender_weights import PrivacyWeights
from tacit.inference.members import ByMember
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected, Coordinator, Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SiteRaters", "SitesServer"]


class SiteRaters(Participant):
    """A site's part: who rated what, then `Raters`."""

    open_rounds = 1

    def __init__(self, raters: Raters, cells: ByMember, openness: NDArray[np.float64]) -> None:
        self.name, self._raters = raters.name, raters
        self._cells, self._openness = cells, openness

    def respond(self, request: Message) -> Message:
        """Tell the pattern, or release a sum."""
        if request.round == 0:
            return Message(0, {
                "starts": self._cells.starts, "items": self._cells.items,
                "weights": self._openness,
            })  # fmt: skip
        reply = self._raters.respond(Message(request.round - 1, request.arrays))
        return Message(request.round, reply.arrays)


class SitesServer(Coordinator):
    """The recommender's part: puts the patterns together, then is an `ItemServer`.

    Parameters
    ----------
    method
        What is released.
    task
        What is public but for users, who are known after the first round.
    seed
        Of the features: kept, so that a run that is resumed asks the same.
    """

    open_rounds = 1

    def __init__(self, method: HeterogeneousOffsets, task: Task, seed: int) -> None:
        self._method, self._task, self._seed = method, task, seed
        self._patterns: dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = {}
        self._sums: list[NDArray[np.float64]] = []
        self.sites: tuple[str, ...] = ()
        self.server: ItemServer | None = None

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """A pattern, or one sum."""
        if self.server is not None:
            return self.server.replies
        return {
            "starts": ArraySpec((None,), "int64", 0.0),
            "items": ArraySpec((None,), "int32", 0.0, self._task.items - 1.0),
            "weights": ArraySpec((None,), "float64", 0.0, 1.0),
        }

    def request(self, round: int) -> Message | None:
        """Ask who rated what, then for the sums."""
        if self.server is None:
            return Message(round)
        asked = self.server.request(round - 1)
        return None if asked is None else Message(round, asked.arrays)

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in patterns, or a sum."""
        if round == 0:
            assert collected.by_site is not None
            self._patterns = {
                site: (reply["starts"], reply["items"], reply["weights"])
                for site, reply in collected.by_site.items()
            }
            self._open(collected.sites)
            return
        if collected.sites != self.sites:
            if self._sums:
                raise SiteFailure(
                    "a site was lost, and its part cannot be taken out of what was summed "
                    "before: the run can be resumed when it is back"
                )
            self._open(collected.sites)
        self._sums.append(np.asarray(collected.total["sum"]))
        self._learn(round - 1)

    def _open(self, sites: Sequence[str]) -> None:
        """Put the patterns of sites together, users one site after the other."""
        self.sites = tuple(sites)
        starts, items, weights, end = [np.zeros(1, np.int64)], [], [], 0
        for site in self.sites:
            first, found, openness = self._patterns[site]
            broken = len(first) < 1 or first[0] != 0 or first[-1] != len(found)
            if broken or (np.diff(first) < 0).any() or len(openness) != len(first) - 1:
                raise SiteFailure(f"{site}: what it says about who rated what makes no sense")
            starts.append(first[1:] + end)
            items.append(found)
            weights.append(openness)
            end += len(found)
        pattern = ByMember(np.concatenate(starts), np.concatenate(items), np.zeros(0))
        whole = PrivacyWeights(np.concatenate(weights), self._task.weights.items)
        task = dataclasses.replace(
            self._task, users=pattern.members, weights=whole, sites=len(self.sites)
        )
        rng = generator(self._seed, "features")
        self.server = ItemServer(self._method, task, pattern, rng)

    def _learn(self, stage: int) -> None:
        assert self.server is not None
        self.server.absorb(stage, Collected(self.sites, {"sum": self._sums[stage]}, None))

    def shared(self) -> dict[str, Any]:
        """Return what everybody may see."""
        assert self.server is not None
        return self.server.shared()

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the patterns and sums so far."""
        kept: dict[str, NDArray[Any]] = {"seed": np.array([self._seed], np.int64)}
        for k, site in enumerate(self.sites):
            for name, array in zip(("starts", "items", "weights"), self._patterns[site],
                                   strict=True):  # fmt: skip
                kept[f"{name}/{k}/{site}"] = array
        return kept | {f"sum/{k}": total for k, total in enumerate(self._sums)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state, by going through the rounds again."""
        self._seed = int(state["seed"][0])
        self._patterns, self._sums = {}, []
        for name in state:
            kind, _, rest = name.partition("/")
            if kind == "starts":
                parts = (state[f"{key}/{rest}"] for key in ("starts", "items", "weights"))
                first, items, weights = parts
                self._patterns[rest.partition("/")[2]] = (first, items, weights)
        if self._patterns:
            self._open(tuple(sorted(self._patterns)))
        while f"sum/{len(self._sums)}" in state:
            self._sums.append(state[f"sum/{len(self._sums)}"])
            self._learn(len(self._sums) - 1)
