"""Recommending on the device: a user's own ratings, the public table of items, nothing sent.

NumPy is all that it needs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.data.members import Members, shown
from tacit.data.written import read_names
from tacit.errors import HoldsData, ParameterError
from tacit.factorization.arrays import Floats, Integers
from tacit.recommender.tastes import averaged_row, fitted_taste

__all__ = ["Device", "is_ranking", "items_of", "own_row", "released_items", "score"]


def score(
    shared: Mapping[str, Floats], rows: Floats, items: Any, bounds: Any, weights: Any = None
) -> Floats:
    """Return the expected ratings of items for the rows beside them."""
    raw = shared["base"][items] + (rows * shared["features"][items]).sum(axis=1)
    if weights is not None:
        raw = raw / weights
    return np.asarray(raw if is_ranking(shared) else np.clip(raw, *bounds))


def is_ranking(shared: Mapping[str, Floats]) -> bool:
    """Whether a table of items is for clicks: scores only rank."""
    return "ranking" in shared


def own_row(shared: Mapping[str, Floats], items: Integers, values: Floats) -> Floats:
    """Return the row of one user, from its own ratings or clicks alone.

    What was learned is ``base`` (items,), ``features`` (items, width), and for ratings what they
    are folded in with: ``penalties`` (choices, width) and ``spread`` (1,), the variance that is
    expected to remain; for clicks ``ranking`` (2,): τ², and 1 for pairs
    (`tacit.recommender.tastes`).
    """
    base, features = shared["base"], shared["features"]
    if is_ranking(shared):
        prior, pairs = shared["ranking"]
        return fitted_taste(base, features, items, float(prior), "bpr" if pairs else "listwise")
    rest, spread = values - base[items], float(shared["spread"][0])
    return averaged_row(features[items], rest, shared["penalties"], spread)


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
        if is_ranking(shared):  # clicks: which items, and nothing else
            own = np.ones(len(known))
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
        from tacit.estimators.release import read_release

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
        return self._all()[self._known(items, positions)]

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
        scores = self._all()
        scores[list(self._ratings)] = -np.inf
        n = min(n, len(scores) - len(self._ratings))
        if not n:
            return []
        least = np.partition(scores, len(scores) - n)[len(scores) - n]
        found = np.flatnonzero(scores >= least)  # ties go to the first
        found = found[np.argsort(-scores[found], kind="stable")[:n]]
        named = (lambda k: int(k)) if positions else self._items.name
        return [(named(k), float(scores[k])) for k in found.tolist()]

    def _all(self) -> Floats:
        """Return what is expected of every item."""
        raw = self._shared["base"] + self._shared["features"] @ self._row
        if self._weights is not None:
            raw = raw / self._weights
        return np.asarray(raw if is_ranking(self._shared) else np.clip(raw, *self._bounds))

    def _fold(self) -> None:
        items = np.array(sorted(self._ratings), np.int64)
        values = np.array([self._ratings[int(item)] for item in items], np.float64)
        if self._weights is not None:
            values = values * self._weights[items]
        self._row = own_row(self._shared, items, values)

    def _known(self, items: Any, positions: bool) -> Integers:
        alone = isinstance(items, str | bytes) or not hasattr(items, "__iter__")
        try:
            return self._items.find([items] if alone else items, positions=positions)
        except ParameterError as error:
            raise ParameterError(f"items must be those that were learned: {error}") from None

    def _inside(self, value: float) -> float:
        if is_ranking(self._shared):
            return 1.0
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
