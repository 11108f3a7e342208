"""Predictions of a released recommender, from ratings that people bring along.

Rows with a rating are a person's own; rows without one ask for it. A device is made of each
person's own ratings, and forgotten afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.data.features import numbers
from tacit.data.reading import Table
from tacit.data.values import texts
from tacit.errors import ParameterError
from tacit.estimators.predicting import beside, own_and_asked
from tacit.factorization.arrays import Floats

__all__ = ["answer", "best", "nearest", "rating_schema"]


def answer(model: Any, table: Table) -> dict[str, list[Any]]:
    """Return the expected rating of every row without one.

    Parameters
    ----------
    model
        A recommender, fitted or read back.
    table
        Columns ``item``, perhaps ``user`` and ``rating``.
    """
    own, asked = own_and_asked(table, "rating")
    if not asked:
        raise ParameterError("every row has a rating: leave it empty where you ask for one")
    users, items = _users(table), _items(table)
    rated = _rated(table, own)
    wanted: dict[Any, list[int]] = {}
    for row in asked:
        wanted.setdefault(users[row], []).append(row)
    found: dict[int, float] = {}
    for user, rows in wanted.items():
        device = model.device(rated.get(user, {}))
        found |= zip(rows, device.predict([items[row] for row in rows]).tolist(), strict=True)
    return beside(table, {"prediction": [found[row] for row in asked]}, asked)


def best(model: Any, table: Table, count: int) -> dict[str, list[Any]]:
    """Return the items with the highest expected rating, for every user.

    Parameters
    ----------
    model, table
        As in `answer`; every row is somebody's own rating.
    count
        How many of each.
    """
    own, _ = own_and_asked(table, "rating")
    answers: dict[str, list[Any]] = {"user": [], "item": [], "prediction": []}
    for user, ratings in _rated(table, own).items():
        for item, rating in model.device(ratings).top(count):
            for name, value in zip(answers, (user, item, rating), strict=True):
                answers[name].append(value)
    return answers


def _rated(table: Table, own: Sequence[int]) -> dict[Any, dict[Any, float]]:
    """Return the own ratings of every user: item → rating."""
    users, items = _users(table), _items(table)
    ratings: Any = numbers({"rating": table["rating"][list(own)]})[:, 0] if own else []
    found: dict[Any, dict[Any, float]] = {}
    for row, rating in zip(own, ratings, strict=True):
        mine = found.setdefault(users[row], {})
        if items[row] in mine:
            raise ParameterError(f"item {items[row]!r} is rated twice by {users[row]!r}")
        mine[items[row]] = float(rating)
    return found


def _users(table: Table) -> list[Any]:
    return texts(table.column("user")).to_list() if table.has("user") else [None] * table.rows


def _items(table: Table) -> list[Any]:
    if not table.has("item"):
        raise ParameterError(f"rows need a column 'item', and have {list(table)}")
    return texts(table.column("item")).to_list()


def rating_schema(bounds: tuple[float, float], items: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Return what a row holds, as JSON Schema says it."""
    some = ", ".join(map(str, items[:3]))
    low, high = bounds
    return {
        "user": {"type": "string", "description": "whose rows belong together; may be left out"},
        "item": {"type": "string", "description": f"one of {len(items)} items, such as {some}"},
        "rating": {
            "type": ["number", "null"],
            "description": f"an own rating from {low:g} to {high:g}, or nothing to ask for one",
        },
    }


def nearest(features: Floats, place: int, n: int) -> list[tuple[int, float]]:
    """Return the n items whose features point most the same way as one's, by cosine.

    Those without features have none.
    """
    lengths = np.sqrt(np.square(features).sum(axis=1))
    near = features @ features[place] / np.maximum(lengths * lengths[place], 1e-300)
    near[(lengths == 0.0) | (np.arange(len(near)) == place)] = -np.inf
    order = np.argsort(-near, kind="stable")[:n]
    return [(int(k), float(near[k])) for k in order if np.isfinite(near[k])]
