"""What a recommender says to a person: the public table of items, by the caller's names."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.answers import ERROR, Answer, Table, shown_number
from tacit._core.estimates import estimates, intervals, texts
from tacit.factorization.answers import DEVIATION, ends_only, factors_answer, mostly_noise

__all__ = ["items_answer"]

_EXPECTED = "expected rating"
_POPULAR = "popularity (logarithm)"
_COUNTED = (
    "standard errors count the privacy noise, and sampling by a rule for how far ratings spread; "
    "what somebody likes is known on their device alone"
)
_HIDDEN = "what was answered does not stand out of its noise: predictions are people's own means"
_NO_BASE = "this method learns tastes alone: every item starts from the middle of the range"


def items_answer(model: Any, level: float) -> Answer:
    """Return the items of a fitted `tacit.PrivateRecommender`, the best first."""
    shared, names = model.shared_, texts(model.items_)
    base = np.asarray(shared["base"], np.float64)
    errors = shared.get(f"base{DEVIATION}")
    tastes = {"item": np.asarray(shared["features"], np.float64)}
    found = factors_answer(
        f"A recommender of {len(names)} items",
        tastes,
        {},
        {"item": names},
        level,
        "no standard errors of tastes are known",
    )
    clicks = "ranking" in shared
    expected, limits = _EXPECTED, (-math.inf, math.inf)
    if clicks:
        expected = _POPULAR
    else:
        limits = float(model.bounds[0]), float(model.bounds[1])
    nothing = not np.ptp(tastes["item"], axis=0).any()
    if not np.ptp(base) > 0.0 and not nothing:
        moving = tastes["item"].shape[1]
        head = f"{len(names)} items have {moving} features each; {_NO_BASE}."
        return Answer(found.title, head, found.tables, (), pictures=found.pictures)
    order = np.argsort(-base, kind="stable").tolist()
    told = None if errors is None else [float(errors[k]) for k in order]
    table = Table(
        "items",
        f"Items for a typical user, {100 * level:g} % intervals",
        estimates(
            {"item": [names[k] for k in order]},
            expected,
            base[order],
            told,
            level,
            limits,
        ),
        (_COUNTED,) if told is not None else ("no standard errors are known",),
    )
    hidden = mostly_noise(base, errors)
    warned = [f"{len(hidden)} of {len(names)} items are mostly noise: they are near the mean."]
    head = (
        f"{_said(table, 0, expected)} has the highest {expected}, {_said(table, -1, expected)} "
        "the lowest."
    )
    if not np.ptp(base) > 0.0:
        head, hidden = f"Nothing is known of {len(names)} items: {_HIDDEN}.", []
    return Answer(
        found.title,
        head,
        (table, *found.tables),
        tuple(warned) if hidden else (),
        pictures={
            "items": intervals(
                "Best and worst items",
                expected,
                ends_only(table),
                expected,
                reference=float(base.mean()),
            ),
            **found.pictures,
        },
    )


def _said(table: Table, row: int, column: str) -> str:
    """Return an item with its rating and error in words."""
    error = table.columns.get(ERROR, [None] * len(table))[row]
    value = shown_number(table.columns[column][row], error)
    sure = "" if error is None else f" ± {shown_number(error, error)}"
    return f"{table.columns['item'][row]} ({value}{sure})"
