"""Recommending on the device: a user's own ratings, the public table of items, nothing sent."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.data.members import Members, cells_of, shown
from tacit.data.written import read_names
from tacit.errors import HoldsData, ParameterError
from tacit.estimators.release import read_release
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import NEVER, ByMember, averaged_rows
from tacit.factorization.offsets.weights import PrivacyWeights
from tacit.recommender.method import Rated, Task
from tacit.recommender.rating_weights import RatingWeights

__all__ = ["Device", "Devices", "fold_in", "items_of", "penalty_grid", "released_items"]

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
    rest = cells._replace(values=cells.values - shared["base"][cells.items])
    spread = float(shared["spread"][0])
    return averaged_rows(rest, shared["features"], shared["penalties"], spread)


def score(
    shared: Mapping[str, Floats], rows: Floats, items: Any, bounds: Any, weights: Any = None
) -> Floats:
    """Return the expected ratings of items for the rows beside them."""
    raw = shared["base"][items] + (rows * shared["features"][items]).sum(axis=1)
    if weights is not None:
        raw = raw / weights
    return np.asarray(np.clip(raw, *bounds))


class Device:
    """One user: holds its own ratings and the public table of items, and sends nothing.

    Parameters
    ----------
    shared
        What everybody may see: `PrivateRecommender.shared_`, or the arrays of a release.
    bounds
        The range of a rating.
    items, values
        The user's own ratings.
    weights
        For a method that stretches: the user's W with every item.
    names
        The names of the items, in order; without them items are numbers.
    positions
        Whether ``items`` are positions all the same.

    Examples
    --------
    >>> shared = {"base": np.array([3.0, 4.0, 2.0]), "features": np.ones((3, 1)),
    ...           "penalties": np.full((1, 1), 1.0), "spread": np.ones(1)}
    >>> device = Device(shared, (1, 5), ["Alien"], [4.0], names=("Alien", "Brazil", "Cube"))
    >>> device.top(1)
    [('Brazil', 4.5)]
    """

    def __init__(
        self,
        shared: Mapping[str, Floats],
        bounds: tuple[float, float],
        items: Any = (),
        values: Any = (),
        *,
        weights: Floats | None = None,
        names: Sequence[Any] | None = None,
        positions: bool = False,
    ) -> None:
        self._shared, self._bounds, self._weights = shared, bounds, weights
        self._items = items_of(shared, names)
        self._ratings: dict[int, float] = {}
        known, own = self._known(items, positions), np.asarray(values, float).reshape(-1)
        if len(known) != len(own):
            raise ParameterError(f"{len(known)} items have {len(own)} ratings: pass one each")
        for item, value in zip(known.tolist(), own, strict=True):
            if item in self._ratings:
                raise ParameterError(f"item {shown([self._items.name(item)])} is rated twice")
            self._ratings[item] = self._inside(value)
        self._fold()

    @classmethod
    def from_release(
        cls, folder: str | os.PathLike[str], items: Any = (), values: Any = ()
    ) -> Device:
        """Read what was released and start with some ratings of one's own."""
        release = read_release(folder)
        settings = release.settings
        low, high = settings["bounds"]
        return cls(release.arrays, (low, high), items, values, names=released_items(settings))

    def rate(self, item: Any, value: float, *, positions: bool = False) -> None:
        """Add or change a rating; the user's row follows."""
        (number,) = self._known([item], positions)
        self._ratings[int(number)] = self._inside(value)
        self._fold()

    def predict(self, items: Any, *, positions: bool = False) -> Floats:
        """Return the expected ratings of items."""
        return self._scores(self._known(items, positions))

    def top(self, n: int = 10, *, positions: bool = False) -> list[tuple[Any, float]]:
        """Return the n items with the highest expected rating that are not yet rated.

        Parameters
        ----------
        n
            How many.
        positions
            Whether items are shown by position.
        """
        check("n", n, Integer(1))
        others = np.setdiff1d(np.arange(len(self._shared["base"])), list(self._ratings))
        scores = self._scores(others)
        order = np.argsort(-scores, kind="stable")[:n]
        named = (lambda k: int(k)) if positions else self._items.name
        return [(named(others[k]), float(scores[k])) for k in order]

    def _scores(self, known: Integers) -> Floats:
        weights = None if self._weights is None else self._weights[known]
        rows = np.broadcast_to(self._row, (len(known), len(self._row)))
        return score(self._shared, rows, known, self._bounds, weights)

    def _fold(self) -> None:
        items = np.array(sorted(self._ratings), np.int32)
        values = np.array([self._ratings[int(item)] for item in items], np.float64)
        if self._weights is not None:
            values = values * self._weights[items]
        cells = ByMember(np.array([0, len(items)], np.int64), items, values)
        self._row = fold_in(self._shared, cells)[0]

    def _known(self, items: Any, positions: bool) -> Integers:
        alone = isinstance(items, str | bytes) or not hasattr(items, "__iter__")
        try:
            return self._items.find([items] if alone else items, positions=positions)
        except ParameterError as error:
            raise ParameterError(f"items must be those that were learned: {error}") from None

    def _inside(self, value: float) -> float:
        low, high = self._bounds
        if not low <= value <= high:
            raise ParameterError(f"a rating must lie in [{low:g}, {high:g}], got {value:g}")
        return float(value)

    def __reduce__(self) -> Any:
        raise HoldsData(
            "a device holds the ratings of one person, and is not pickled: keep the release, and "
            "start Device.from_release(folder, items, values) from the person's own ratings"
        )


def items_of(shared: Mapping[str, Floats], names: Sequence[Any] | None) -> Members:
    """Return the items that a table of them is about."""
    size = len(shared["base"])
    if names is not None and len(names) != size:
        raise ParameterError(f"names must be those of {size} items, got {len(names)}")
    return Members("item", size, None if names is None else tuple(names))


def released_items(settings: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the names of items that a release lists, where it does."""
    names = settings.get("labels", {}).get("item")
    return None if names is None else read_names(names)


@dataclass(frozen=True, eq=False)
class Devices:
    """The devices of all users of one process or site; none of it leaves."""

    shared: Mapping[str, Floats]
    bounds: tuple[float, float]
    cells: ByMember  # the ratings, sorted by user
    rows: Floats  # (users, width)
    weights: PrivacyWeights | RatingWeights
    stretched: bool = False  # whether predictions are divided by W_ij

    @classmethod
    def folded(cls, shared: Mapping[str, Floats], task: Task, rated: Rated) -> Devices:
        """Fold every user's own ratings in."""
        rows = fold_in(shared, rated.cells)
        weights = task.weights(rated.openness) if rated.chosen is None else rated.chosen
        return cls(shared, task.bounds, rated.cells, rows, weights)

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
        rows = np.concatenate([part.rows for part in parts])
        weights = first.weights.stacked([part.weights for part in parts[1:]])
        return cls(first.shared, first.bounds, cells, rows, weights, first.stretched)

    def predict(self, cells: Any) -> Floats:
        """Return the expected ratings of (user, item) pairs, (pairs, 2), by position."""
        sizes = ("user", self.cells.members), ("item", len(self.shared["base"]))
        users, items = cells_of(cells, [Members(*one) for one in sizes], positions=True).T
        weights = self.weights.of(users, items) if self.stretched else None
        return score(self.shared, self.rows[users], items, self.bounds, weights)

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
