"""What a holder of ratings hands over, and what of it is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.cells import relation_of, with_members
from tacit.data.features import numbers
from tacit.data.members import Members, as_columns, id_column, key, shown
from tacit.data.problems import Problem, raise_for
from tacit.data.reading import is_table
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.numerics.ridge import by_member
from tacit.factorization.offsets.weights import PrivacyWeights
from tacit.recommender.method import Rated
from tacit.recommender.rating_weights import RatingWeights

__all__ = ["Facts", "OfSites", "Ratings", "as_ratings", "from_table", "same_names", "users_of"]

_KEPT = 20  # places of one kind of trouble that are named


@dataclass(frozen=True)
class OfSites(Members):
    """The users of several sites; a name that two sites know is two users."""

    shared: Mapping[str, list[str]] = field(default_factory=dict)  # name → its sites

    @cached_property
    def place(self) -> dict[str, int]:
        """The position of every name, by its key."""
        return {key(name): k for k, name in enumerate(self.names or ())}

    def known(self, ids: Sequence[Any]) -> NDArray[np.int64]:
        """Return where users stand; raise for a name that several of them have."""
        for one in ids:
            if key(one) in self.shared:
                raise ParameterError(
                    f"user {shown([one])} is one of {' and one of '.join(self.shared[key(one)])}: "
                    "these are two users. Pass positions=True, users one site after the other"
                )
        return super().known(ids)


class Facts(NamedTuple):
    """What is public about one holder's ratings."""

    users: int | None  # None where the site is elsewhere
    items: int
    item_weights: Any = None  # γ; None for 1
    openness: Any = None  # β of the users, where it is known here
    devices: bool = False  # all ratings are in one process, each on its user's device
    labels: Any = None  # the list of items, where given
    unstated: bool = False  # the items were read from the ratings
    duplicates: str = "error"  # what a rating is that is listed several times
    by_rating: bool = False  # whether every rating has a weight of its own


@dataclass(frozen=True)
class Ratings:
    """One holder's ratings with their weights; of a shape alone, there are none."""

    shape: tuple[int, int]  # (users, items)
    relation: Relation | None = field(default=None, repr=False)
    weights: PrivacyWeights | None = None  # of the users and of all items; None for 1
    by_rating: RatingWeights | None = None  # of every rating by itself, in place of those
    devices: bool = False  # as in `Facts`
    table: bool = False  # users were named by a table, in which they have no order

    @classmethod
    def of(
        cls, data: Any, *, devices: bool, items: Any = None, duplicates: str = "error"
    ) -> Ratings:
        """Return what a caller passed: ratings, a table, or just a shape (users, items)."""
        if isinstance(data, Ratings):
            return data
        if (
            isinstance(data, tuple)
            and len(data) == 2
            and all(isinstance(n, Integral) for n in data)
        ):
            return cls((int(data[0]), int(data[1])), devices=devices)
        found = as_ratings(data, items, duplicates)
        table = not isinstance(data, Relation) and is_table(data)
        return cls((found.shape[0], found.shape[1]), found, devices=devices, table=table)

    @property
    def users(self) -> Members:
        """Who has rated."""
        return self._members(0, "user")

    @property
    def items(self) -> Members:
        """What was rated."""
        return self._members(1, "item")

    def _members(self, mode: int, word: str) -> Members:
        if self.relation is None:
            return Members(word, self.shape[mode])
        return replace(self.relation.members(self.relation.entities[mode]), entity=word)

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the ratings' table that name users and items."""
        if self.relation is None:
            return {}
        pairs = zip(("user", "item"), self.relation.entities, strict=True)
        named = {word: self.relation.columns.get(entity, entity) for word, entity in pairs}
        return {word: column for word, column in named.items() if word != column}

    @property
    def facts(self) -> Facts:
        """What is public about it."""
        weights, relation = self.weights, self.relation
        return Facts(
            *self.shape,
            None if weights is None else weights.items,
            None if weights is None else weights.users,
            self.devices,
            self.items.names,
            relation is not None and relation.entities[1] in relation.unstated,
            "error" if relation is None else relation.duplicates,
            self.by_rating is not None,
        )

    def weighted(self, weights: PrivacyWeights, start: int, stop: int) -> Ratings:
        """Return it with the weights of those users who stand at some places."""
        return replace(self, weights=PrivacyWeights(weights.users[start:stop], weights.items))

    def weighted_each(self, given: Any) -> Ratings:
        """Return it with a weight for every rating, from an array, a relation or a table."""
        if self.relation is None:
            raise ParameterError("pass the ratings: weights are those of ratings")
        listed = self.items.names if is_table(given) else None
        found = RatingWeights.among(as_ratings(given, listed), self.users, self.items)
        found.check_covers(self.relation.indices, self.users)
        return replace(self, by_rating=found)

    def read(self, bounds: tuple[float, float], *, clicks: bool = False) -> Rated:
        """Return the ratings sorted by user; bad ones are refused, to their holder."""
        ratings = self.relation
        if ratings is None:
            raise ParameterError("pass the ratings: a shape has a price and nothing to learn from")
        if clicks:  # which items, whatever stands beside them
            ratings = replace(ratings, values=np.ones(ratings.cells))
        low, high = bounds
        problems = []
        bad = np.flatnonzero((ratings.values < low) | (ratings.values > high))
        if len(bad):
            said = [
                f"user {key(self.users.name(user))} rates item {key(self.items.name(item))} with "
                f"{value:g}, outside the bounds [{low:g}, {high:g}]"
                for (user, item), value in zip(
                    ratings.indices[bad[:_KEPT]].tolist(), ratings.values[bad[:_KEPT]], strict=True
                )
            ]
            problems.append(_trouble(bad, said, "correct it or state wider bounds"))
        counts = np.bincount(ratings.indices[:, 0], minlength=ratings.shape[0])
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            said = [f"user {key(self.users.name(user))} has no ratings" for user in empty[:_KEPT]]
            remedy = "leave users without ratings out; they can start a Device later"
            problems.append(_trouble(empty, said, remedy))
        raise_for(problems)
        openness = np.ones(self.shape[0]) if self.weights is None else self.weights.users
        cells = by_member(ratings, ratings.entities[0])
        if self.by_rating is None:
            return Rated(cells, openness, names=self.users.names)
        each = self.by_rating.of(cells.owners, cells.items)
        return Rated(cells, openness, each, self.by_rating, self.users.names)


def _trouble(rows: Any, said: list[str], remedy: str) -> Problem:
    places = tuple(
        ("the ratings", int(row) + 1, text) for row, text in zip(rows, said, strict=False)
    )
    return Problem("ratings", "", places, len(rows), remedy)


def as_ratings(data: Any, items: Any = None, duplicates: str = "error") -> Relation:
    """Return ratings as a relation of users and items."""
    stated = {} if items is None else {"item": items}
    if isinstance(data, Relation):
        found = data
    elif is_table(data):
        found = relation_of(data, ("user", "item"), stated, duplicates=duplicates)
    elif hasattr(data, "tocoo"):
        raise ParameterError(
            "a SciPy matrix does not say what its unstored cells are: pass "
            "tc.Relation.from_scipy(('user', 'item'), matrix), in which they are missing"
        )
    else:
        found = Relation.from_dense(("user", "item"), data)
    if found.modes != 2 or found.zeros != "missing":
        raise ParameterError("ratings must be a matrix of users and items with missing cells")
    return found if items is None else with_members(found, {found.entities[1]: items})


def from_table(found: Mapping[str, Any], facts: Facts, duplicates: str = "error") -> Ratings:
    """Return a site's ratings from its table: columns user, item, the value, perhaps weight.

    A weight is its user's β, the same in all rows of a user; where it differs between a user's
    rows it is that of each rating.
    """
    names = {entity: found["columns"].get(entity, entity) for entity in ("user", "item")}
    labels = range(facts.items) if facts.labels is None else facts.labels
    ratings = Relation.from_frame(
        found["table"], names, found.get("value"), labels={"item": labels}, duplicates=duplicates
    )
    if facts.labels is None:
        ratings = replace(ratings, labels={"user": ratings.labels["user"]})
    shape = (ratings.shape[0], ratings.shape[1])
    if facts.by_rating:
        return Ratings(shape, ratings, by_rating=_each(found, names, labels, ratings, duplicates))
    gamma = np.ones(facts.items) if facts.item_weights is None else facts.item_weights
    weights = PrivacyWeights(_openness(found, names["user"], ratings), gamma)
    return Ratings(shape, ratings, weights)


def _each(
    found: Mapping[str, Any], names: Mapping[str, str], labels: Any, ratings: Relation, rule: str
) -> RatingWeights:
    """Return the weight of every rating, from its row; 1 where there is no column."""
    column = found["columns"].get("weight")
    if column is None:
        shape = (ratings.shape[0], ratings.shape[1])
        return RatingWeights.listed(ratings.indices, np.ones(ratings.cells), shape)
    rule = "mean" if rule == "sum" else rule
    stated = Relation.from_frame(
        found["table"], names, column, labels={"item": labels}, duplicates=rule
    )
    return RatingWeights.among(stated, ratings.members("user"), ratings.members("item"))


def _openness(found: Mapping[str, Any], user: str, ratings: Relation) -> Floats:
    """Return every user's own weight, in the order of users; 1 where there is no column."""
    column = found["columns"].get("weight")
    if column is None:
        return np.ones(ratings.shape[0])
    table = as_columns(found["table"])
    owner = ratings.members("user").find(id_column(table, user))
    stated = numbers(found["table"], [column])[:, 0]
    weights = np.zeros(ratings.shape[0])
    weights[owner] = stated
    if (weights[owner] != stated).any():
        raise ParameterError("a user's weight differs between rows: it is one per user")
    return weights


def users_of(ratings: Mapping[str, Ratings]) -> Members:
    """Return the users of all sites, numbered one site after the other, by their names."""
    sizes = sum(one.shape[0] for one in ratings.values())
    names: list[Any] = []
    owners: dict[str, list[str]] = {}
    for site, one in ratings.items():
        if one.users.names is None:
            return Members("user", sizes)
        names += one.users.names
        for name in one.users.names:
            owners.setdefault(key(name), []).append(site)
    return OfSites("user", sizes, tuple(names), {k: v for k, v in owners.items() if len(v) > 1})


def same_names(ours: Any, theirs: Any) -> bool:
    """Whether two lists of items are the same, by name."""
    if ours is None or theirs is None:
        return ours is theirs
    return [key(name) for name in ours] == [key(name) for name in theirs]
