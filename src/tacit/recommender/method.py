"""What every method of `PrivateRecommender` has in common.

A method learns a public table of items (a base value and features each) from ratings that stay
with their users. A prediction is base_j + w_i·f_j, divided by W_ij where ratings were stretched;
the row w_i is the user's own and never leaves the device (`tacit.recommender.device`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.duplicates import duplicates_note
from tacit.data.members import marked
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.factorization.offsets.weights import PrivacyWeights
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy

__all__ = ["Rated", "RecommenderMethod", "Task"]


class Rated(NamedTuple):
    """What a holder's side takes: ratings, sorted by user, and β of every user."""

    cells: ByMember
    openness: Floats
    weights: Floats | None = None  # W of every rating, where it is not β·γ
    chosen: Any = None  # the same for any pair (`tacit.recommender.rating_weights`)
    names: Any = None  # of the users, where they have some

    def marks(self) -> NDArray[np.uint64] | None:
        """Return a number of each user, by name."""
        return None if self.names is None else marked(self.names)


@dataclass(frozen=True)
class Task:
    """What is public before a fit."""

    users: int | None  # None where only the sites know
    items: int
    bounds: tuple[float, float]  # of a rating
    rank: int  # features per item
    privacy: Privacy | None
    item_weights: tuple[float, ...] | None = None  # γ; None for 1
    openness: Floats | None = field(default=None, compare=False, repr=False)  # β, if known here
    sites: int = 1
    shares: int = 1  # into how many noise is split under a secure sum
    devices: bool = True  # all ratings are in one process, on users' devices: there are no sites
    by_rating: bool = False  # whether every rating has a weight of its own
    duplicates: tuple[str, ...] = ()  # what sites do about ratings that are listed several times

    @property
    def noisy(self) -> bool:
        """Whether noise is added at all."""
        return self.privacy is not None and bool(np.isfinite(self.privacy.epsilon))

    @property
    def range(self) -> float:
        """Δ, the length of the range."""
        return self.bounds[1] - self.bounds[0]

    @property
    def scale(self) -> tuple[float, float]:
        """The middle of the range, and half of it."""
        low, high = self.bounds
        return (low + high) / 2.0, (high - low) / 2.0

    def weights(self, openness: Floats) -> PrivacyWeights:
        """Return W of some users, whose β are given."""
        gamma = np.ones(self.items) if self.item_weights is None else np.array(self.item_weights)
        return PrivacyWeights(openness, gamma)

    @property
    def people(self) -> int:
        """How many users there are; raises where that is not known here."""
        if self.users is None:
            raise ParameterError("pass the ratings, or (users, items): the price depends on them")
        return self.users

    @property
    def notes(self) -> tuple[str, ...]:
        """Bounds and sizes, for certificates."""
        low, high = self.bounds
        users = f"{self.users} users, " if self.devices else ""
        return (
            f"public bounds: ratings in [{low:g}, {high:g}]",
            f"public sizes: {users}{self.items} items",
            *duplicates_note(self.duplicates),
        )


class RecommenderMethod(ABC):
    """One way to learn; a frozen dataclass of its public settings."""

    unit: ClassVar[str] = "entry"
    trusts: ClassVar[tuple[str, ...]] = ("aggregator",)
    clicks: ClassVar[bool] = False  # whether there are no ratings, only what users took
    parts: ClassVar[bool] = False  # whether sums are made shard by shard; else of all at once

    # the settings that a release carries, by name
    told: ClassVar[tuple[str, ...]] = ()

    def settings(self) -> dict[str, Any]:
        """Return the settings that a release carries."""
        return {name: getattr(self, name) for name in self.told}

    def check(self, task: Task) -> None:
        """Raise where the request and the method do not go together."""
        privacy = task.privacy
        if privacy is None:
            return
        name = type(self).__name__
        if privacy.unit != self.unit:
            raise ParameterError(
                f"{name} protects unit={self.unit!r}, and {privacy.unit!r} was asked for"
            )
        if privacy.neighbours != REPLACE:
            raise ParameterError(f"{name} needs neighbours='replace-one'")
        if privacy.trust not in self.trusts:
            raise ParameterError(
                f"{name} needs trust={' or '.join(map(repr, self.trusts))}, got {privacy.trust!r}"
            )

    @abstractmethod
    def agree(self, task: Task) -> Agreement:
        """Return what is public about a fit; raise where it cannot be."""
