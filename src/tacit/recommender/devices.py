"""All devices of one process or site: users' own ratings folded in with what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.members import Members, cells_of
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import NEVER, ByMember, averaged_rows
from tacit.factorization.offsets.weights import PrivacyWeights
from tacit.recommender.device import Device, is_ranking, own_row, score
from tacit.recommender.method import Rated, Task
from tacit.recommender.rating_weights import RatingWeights

__all__ = ["Devices", "Rows", "fold_in", "penalty_grid"]

_OFFSET = 5.0  # ratings that a user's own offset has to outweigh
_LIKED = 6.0  # the same for how far a user goes along with what others like
_TASTES = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0)  # how far features are trusted


def penalty_grid(public: int, learned: int = 0, *, liked: bool = False) -> Floats:
    """Return the penalties that a device averages over: one offset, then features.

    Some are public, some learned; a device may do without either kind, and without the later
    half or three quarters of the public ones, which are the weaker. ``liked`` says that the last
    column is the items' own offsets, of which a device finds its own multiple.
    """
    last = [_LIKED] * liked
    if not public + learned:
        return np.array([[_OFFSET, *last]])
    rows = [[NEVER] * (public + learned)]
    for width in sorted({public, -(-public // 2), -(-public // 4)}):
        for taste in _TASTES:
            kept = [taste] * width + [NEVER] * (public - width)
            rows.append([*kept, *[taste] * learned])
    if public and learned:
        for taste in _TASTES:
            rows.append([*[NEVER] * public, *[taste] * learned])
            rows.append([*[taste] * public, *[NEVER] * learned])
    return np.array([[_OFFSET, *row, *last] for row in rows])


def fold_in(shared: Mapping[str, Floats], cells: ByMember) -> Floats:
    """Return the rows of users, each from its own ratings alone, stretched where need be.

    What was learned is ``base`` (items,), ``features`` (items, width), and what ratings are folded
    in with: ``penalties`` (choices, width) and ``spread`` (1,), the variance that is expected to
    remain.
    """
    if is_ranking(shared):
        return _tastes(shared, cells)
    rest = cells._replace(values=cells.values - shared["base"][cells.items])
    spread = float(shared["spread"][0])
    return averaged_rows(rest, shared["features"], shared["penalties"], spread)


def _tastes(shared: Mapping[str, Floats], cells: ByMember) -> Floats:
    """Return the tastes of users who clicked: only items with features say anything."""
    known = np.flatnonzero(shared["features"].any(axis=1))
    place = np.full(len(shared["base"]), -1)
    place[known] = np.arange(len(known))
    fewer = {**shared, "base": shared["base"][known], "features": shared["features"][known]}
    rows = np.zeros((cells.members, shared["features"].shape[1]))
    for i, (first, last) in enumerate(zip(cells.starts, cells.starts[1:], strict=False)):
        own = place[cells.items[first:last]]
        rows[i] = own_row(fewer, own[own >= 0], np.ones(len(own)))
    return rows


class Rows(NamedTuple):
    """The rows of users, and which of them are known yet."""

    values: Floats
    known: NDArray[np.bool_]

    @classmethod
    def unknown(cls, users: int, width: int) -> Rows:
        """Return rows of which none is known."""
        return cls(np.zeros((users, width)), np.zeros(users, bool))

    @classmethod
    def of(cls, values: Floats) -> Rows:
        """Return rows that are known."""
        return cls(values, np.ones(len(values), bool))


@dataclass(frozen=True, eq=False)
class Devices:
    """The devices of all users of one process or site; none of it leaves.

    A user's own ratings are folded in when somebody asks what that user would like, and once.
    """

    shared: Mapping[str, Floats]
    bounds: tuple[float, float]
    cells: ByMember  # the ratings, sorted by user
    found: Rows  # (users, width)
    weights: PrivacyWeights | RatingWeights
    stretched: bool = False  # whether predictions are divided by W_ij

    @classmethod
    def folded(cls, shared: Mapping[str, Floats], task: Task, rated: Rated) -> Devices:
        """Return devices that fold their users' ratings in when they are needed."""
        weights = task.weights(rated.openness) if rated.chosen is None else rated.chosen
        found = Rows.unknown(rated.cells.members, shared["features"].shape[1])
        return cls(shared, task.bounds, rated.cells, found, weights)

    @property
    def rows(self) -> Floats:
        """The rows of all users."""
        return self.rows_of(np.arange(self.cells.members))

    def rows_of(self, users: Integers) -> Floats:
        """Return the rows of some users, each from its own ratings alone."""
        new = np.unique(users[~self.found.known[users]])
        if len(new):
            self.found.values[new] = fold_in(self.shared, self.cells.of(new))
            self.found.known[new] = True
        return self.found.values[users]

    @classmethod
    def stacked(cls, parts: Sequence[Devices]) -> Devices:
        """Return the users of several sites, numbered one site after the other."""
        first = parts[0]
        if len(parts) == 1:
            return first
        ends = np.cumsum([0, *(len(part.cells.items) for part in parts)])
        starts = [part.cells.starts[1:] + end for part, end in zip(parts, ends, strict=False)]
        cells = ByMember(
            np.concatenate([[0], *starts]).astype(np.int64),
            np.concatenate([part.cells.items for part in parts]),
            np.concatenate([part.cells.values for part in parts]),
        )
        values = np.concatenate([part.found.values for part in parts])
        found = Rows(values, np.concatenate([part.found.known for part in parts]))
        weights = first.weights.stacked([part.weights for part in parts[1:]])
        return cls(first.shared, first.bounds, cells, found, weights, first.stretched)

    def predict(self, cells: Any) -> Floats:
        """Return the expected ratings of (user, item) pairs, (pairs, 2), by position."""
        sizes = ("user", self.cells.members), ("item", len(self.shared["base"]))
        users, items = cells_of(cells, [Members(*one) for one in sizes], positions=True).T
        weights = self.weights.of(users, items) if self.stretched else None
        return score(self.shared, self.rows_of(users), items, self.bounds, weights)

    def device(self, user: int, names: Sequence[Any] | None = None) -> Device:
        """Return one user's device: its own ratings and the public table of items."""
        own = self.own(user)
        weights = self.weights.of_user(user) if self.stretched else None
        items, values = self.cells.items[own], self.cells.values[own]
        return Device(
            self.shared,
            self.bounds,
            items,
            values,
            weights=weights,
            names=names,
            positions=True,
        )

    def heaviest(self, user: int) -> float:
        """Return the weight of a user's heaviest rating."""
        rated = self.cells.items[self.own(user)]
        return float(self.weights.of_user(user)[rated].max())

    def own(self, user: int) -> slice:
        """Return where a user's ratings stand."""
        return slice(self.cells.starts[user], self.cells.starts[user + 1])
