"""What a holder of ratings hands over, and what of it is public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from tacit.data.features import numbers
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.numerics.ridge import by_member
from tacit.factorization.offsets.weights import PrivacyWeights
from tacit.recommender.method import Rated

__all__ = ["Facts", "Ratings", "as_ratings", "from_table"]


class Facts(NamedTuple):
    """What is public about one holder's ratings."""

    users: int | None  # None where the site is elsewhere
    items: int
    item_weights: Any = None  # γ; None for 1
    openness: Any = None  # β of the users, where it is known here
    devices: bool = False  # all ratings are in one process, each on its user's device
    labels: Any = None  # the list of items, where given


@dataclass(frozen=True)
class Ratings:
    """One holder's ratings with their weights; of a shape alone, there are none."""

    shape: tuple[int, int]  # (users, items)
    relation: Relation | None = field(default=None, repr=False)
    weights: PrivacyWeights | None = None  # of the users and of all items; None for 1
    devices: bool = False  # as in `Facts`

    @classmethod
    def of(cls, data: Any, *, devices: bool) -> Ratings:
        """Return what a caller passed: ratings, a table, or just a shape (users, items)."""
        if isinstance(data, Ratings):
            return data
        if (
            isinstance(data, tuple)
            and len(data) == 2
            and all(isinstance(n, Integral) for n in data)
        ):
            return cls((int(data[0]), int(data[1])), devices=devices)
        found = as_ratings(data)
        return cls((found.shape[0], found.shape[1]), found, devices=devices)

    @property
    def facts(self) -> Facts:
        """What is public about it."""
        weights = self.weights
        return Facts(
            *self.shape,
            None if weights is None else weights.items,
            None if weights is None else weights.users,
            self.devices,
        )

    def weighted(self, weights: PrivacyWeights, start: int, stop: int) -> Ratings:
        """Return it with the weights of those users who stand at some places."""
        return replace(self, weights=PrivacyWeights(weights.users[start:stop], weights.items))

    def read(self, bounds: tuple[float, float]) -> Rated:
        """Return the ratings sorted by user; bad ones are refused, to their holder."""
        ratings = self.relation
        if ratings is None:
            raise ParameterError("pass the ratings: a shape has a price and nothing to learn from")
        low, high = bounds
        bad = np.flatnonzero((ratings.values < low) | (ratings.values > high))
        if len(bad):
            user, item = ratings.indices[bad[0]].tolist()
            raise ParameterError(
                f"user {user} rates item {item} with {ratings.values[bad[0]]:g}, outside the "
                f"bounds [{low:g}, {high:g}]: correct it or state wider bounds"
            )
        counts = np.bincount(ratings.indices[:, 0], minlength=ratings.shape[0])
        if not counts.all():
            raise ParameterError(
                f"user {int(np.argmin(counts > 0))} has no ratings: leave users without ratings "
                "out; they can start a Device later"
            )
        openness = np.ones(self.shape[0]) if self.weights is None else self.weights.users
        return Rated(by_member(ratings, ratings.entities[0]), openness)


def as_ratings(data: Any) -> Relation:
    """Return ratings as a relation of users and items."""
    found = data if isinstance(data, Relation) else Relation.from_dense(("user", "item"), data)
    if found.modes != 2 or found.zeros != "missing":
        raise ParameterError("ratings must be a matrix of users and items with missing cells")
    return found


def from_table(found: Mapping[str, Any], facts: Facts) -> Ratings:
    """Return a site's ratings from its table: columns user, item, the value, perhaps weight.

    A weight is its user's β, the same in all rows of a user.
    """
    names = {entity: found["columns"].get(entity, entity) for entity in ("user", "item")}
    labels = range(facts.items) if facts.labels is None else facts.labels
    ratings = Relation.from_frame(
        found["table"], names, found.get("value"), labels={"item": labels}
    )
    gamma = np.ones(facts.items) if facts.item_weights is None else facts.item_weights
    weights = PrivacyWeights(_openness(found, names["user"], ratings), gamma)
    return Ratings((ratings.shape[0], ratings.shape[1]), ratings, weights)


def _openness(found: Mapping[str, Any], user: str, ratings: Relation) -> Floats:
    """Return every user's own weight, in the order of users; 1 where there is no column."""
    column = found["columns"].get("weight")
    if column is None:
        return np.ones(ratings.shape[0])
    users, first, back = np.unique(
        np.asarray(found["table"][user]), return_index=True, return_inverse=True
    )
    stated = numbers(found["table"], [column])[:, 0]
    if (stated != stated[first][back]).any():
        raise ParameterError("a user's weight differs between rows: it is one per user")
    known = dict(zip(users.tolist(), stated[first].tolist(), strict=True))
    return np.array([known[one] for one in ratings.labels["user"]])
