"""`ShinRecommender`: what Shin et al. (2018) print, by name.

Private GD and GD-DR (`tacit.published.shin2018_descent`), and the randomized response that they
are compared with, per user or per item (`tacit.published.shin2018_responses`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from functools import partial
from typing import ClassVar

from tacit._core.check import AnyOf, Constraint, InstanceOf, OneOf
from tacit.estimators.parameters import stores_parameters
from tacit.published.shin2018_descent import PrintedGradient, printed_baseline_reach
from tacit.published.shin2018_responses import PrintedItemResponses, PrintedResponses
from tacit.recommender.estimator import PrivateRecommender
from tacit.recommender.method import RecommenderMethod

__all__ = [
    "PrintedGradient",
    "PrintedItemResponses",
    "PrintedResponses",
    "ShinRecommender",
    "printed_baseline_reach",
]

_METHODS: dict[str, Callable[[], RecommenderMethod]] = {
    "gd": PrintedGradient,
    "gd-dr": partial(PrintedGradient, dimensions=100),
    "responses": PrintedResponses,
    "item-responses": PrintedItemResponses,
}


@stores_parameters
class ShinRecommender(PrivateRecommender):
    """Private GD, GD-DR and the randomized response beside them, as printed; see the module.

    Parameters
    ----------
    bounds, items, duplicates, privacy, rank, ledger, random_state
        As in `tacit.PrivateRecommender`.
    method
        ``"gd"``, ``"gd-dr"``, ``"responses"`` (everything about a user may differ),
        ``"item-responses"`` (one cell may); or a `PrintedGradient`, `PrintedResponses` or
        `PrintedItemResponses` with settings of its own.
    """

    _methods: ClassVar[Mapping[str, Callable[[], RecommenderMethod]]] = _METHODS
    _kinds: ClassVar[Mapping[str, type[RecommenderMethod]]] = {
        "PrintedGradient": PrintedGradient,
        "PrintedResponses": PrintedResponses,
        "PrintedItemResponses": PrintedItemResponses,
    }
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **PrivateRecommender._constraints,
        "method": AnyOf(OneOf(*_METHODS), InstanceOf(PrintedGradient, PrintedResponses)),
    }

    _: KW_ONLY
    method: str | RecommenderMethod = "gd"
