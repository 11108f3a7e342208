"""`RatingWeights`: a privacy weight for each rating, chosen by whoever rated.

`tacit.PrivacyWeights` has one number per user and one per item, and W_ij is their product. Here W
is any matrix: what Hu & Fang (2023) allow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.data.members import Members, shown
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats, Integers

__all__ = ["RatingWeights"]

_SMALLEST = 1e-6  # as of `tacit.PrivacyWeights`


@dataclass(frozen=True, eq=False)
class RatingWeights:
    """W of some pairs of users and items; of others, the mean of what their user has chosen.

    Parameters
    ----------
    keys, values
        The pairs, user·items + item in increasing order, and W of each.
    own
        Every user's mean weight.
    items
        How many there are.
    """

    keys: Integers
    values: Floats
    own: Floats
    items: int

    @classmethod
    def listed(cls, index: Any, values: Any, shape: tuple[int, int]) -> RatingWeights:
        """Return the weights of listed pairs."""
        users, items = shape
        index, values = np.asarray(index, np.int64), np.asarray(values, np.float64)
        bad = np.flatnonzero(~((values >= _SMALLEST) & (values <= 1.0)))
        if len(bad):
            raise ParameterError(
                f"weights must lie in (0, 1], and be at least {_SMALLEST:g}: number {bad[0]} is "
                f"{values[bad[0]]:g}. A weight of 0 leaves a rating nothing: leave it out instead"
            )
        keys = index[:, 0] * items + index[:, 1]
        order = np.argsort(keys, kind="stable")
        counts = np.bincount(index[:, 0], minlength=users)
        sums = np.bincount(index[:, 0], values, users)
        own = np.where(counts > 0, sums / np.maximum(counts, 1), 1.0)
        return cls(keys[order], values[order], own, items)

    @classmethod
    def among(cls, given: Relation, users: Members, items: Members) -> RatingWeights:
        """Return the weights of a relation for the users and items of some ratings.

        They are found by name where both have names, else by position.
        """
        columns: list[Any] = []
        for mode, members in enumerate((users, items)):
            theirs = given.members(given.entities[mode])
            named = theirs.names is not None and members.names is not None
            if named:
                place = members.known(list(theirs.names or ()))
                columns.append(place[given.indices[:, mode]])
            elif theirs.size == members.size:
                columns.append(given.indices[:, mode])
            else:
                raise ParameterError(
                    f"weights are for {theirs.size} {members.entity}s, the ratings for "
                    f"{members.size}"
                )
        index = np.column_stack(columns)
        known = (index >= 0).all(axis=1)
        return cls.listed(index[known], given.values[known], (users.size, items.size))

    def of(self, users: Any, items: Any) -> Floats:
        """Return W of each pair."""
        users = np.asarray(users, np.int64)
        wanted = users * self.items + np.asarray(items, np.int64)
        if not len(self.keys):
            return np.asarray(self.own[users])
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.asarray(
            np.where(self.keys[place] == wanted, self.values[place], self.own[users])
        )

    def of_user(self, user: int) -> Floats:
        """Return W of one user with every item."""
        return self.of(np.full(self.items, user), np.arange(self.items))

    def check_covers(self, index: Any, users: Members) -> None:
        """Raise where a rating has no weight."""
        index = np.asarray(index, np.int64)
        keys = index[:, 0] * self.items + index[:, 1]
        lacking = index[~np.isin(keys, self.keys), 0]
        if len(lacking):
            names = shown([users.name(int(k)) for k in np.unique(lacking)[:5]])
            raise ParameterError(
                f"{len(lacking)} ratings have no weight, of users {names}: state one for each"
            )

    @property
    def users(self) -> Floats:
        """Every user's mean weight."""
        return self.own

    def stacked(self, others: Any) -> RatingWeights:
        """Return the weights of several sites' users, numbered one site after the other."""
        keys, values, own, before = [self.keys], [self.values], [self.own], len(self.own)
        for other in others:
            keys.append(other.keys + before * self.items)
            values.append(other.values)
            own.append(other.own)
            before += len(other.own)
        return RatingWeights(
            np.concatenate(keys), np.concatenate(values), np.concatenate(own), self.items
        )
