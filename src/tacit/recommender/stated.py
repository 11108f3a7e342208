"""What a file or a proposal states of a recommender: parameters, and facts about the ratings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from tacit.data.members import members_stated
from tacit.errors import ParameterError
from tacit.factorization.offsets.weights import PrivacyWeights
from tacit.recommender.method import RecommenderMethod
from tacit.recommender.ratings import Facts

__all__ = ["stated"]

Methods = Mapping[str, Callable[[], RecommenderMethod]]


def stated(settings: Mapping[str, Any], methods: Methods) -> tuple[dict[str, Any], Facts]:
    """Return the parameters of an estimator with such methods, and what is public.

    In ``settings``, ``items`` is their list or their number, ``item_weights`` are γ, and
    ``options`` are settings of a ``method`` that is named.
    """
    found = dict(settings)
    method, options = found.get("method"), found.pop("options", None)
    if options:
        found["method"] = method = _with_options(method, options, methods)
    each = _has_weights_of_ratings(method, methods)
    items, weights = found.get("items"), found.pop("item_weights", None)
    if not isinstance(items, int | list) or isinstance(items, bool):
        raise ParameterError("a recommender needs items, the list or the number of them")
    members = members_stated("item", items)
    size, labels = members.size, members.names
    if weights is not None and each:
        raise ParameterError("every rating has a weight of its own: leave item_weights out")
    if weights is not None:
        weights = PrivacyWeights(np.ones(1), weights).items
        if len(weights) != size:
            raise ParameterError(f"item_weights are for {len(weights)} items, not for {size}")
    if isinstance(found.get("bounds"), list):
        found["bounds"] = tuple(found["bounds"])
    return found, Facts(None, size, weights, labels=labels, by_rating=each)


def _with_options(name: Any, options: Any, methods: Methods) -> RecommenderMethod:
    """Return the method of a name with settings of its own."""
    if not isinstance(name, str) or name not in methods:
        raise ParameterError(f"options go with a method, one of {sorted(methods)}")
    method = methods[name]()
    known = {field.name for field in fields(method)}  # type: ignore[arg-type]
    if not isinstance(options, Mapping) or not set(options) <= known:
        raise ParameterError(f"options of method {name!r} are {sorted(known)}")
    made: RecommenderMethod = replace(method, **options)  # type: ignore[type-var]
    return made


def _has_weights_of_ratings(method: Any, methods: Methods) -> bool:
    """Whether a method, perhaps by its name, takes a weight for every rating."""
    if isinstance(method, str) and method in methods:
        method = methods[method]()
    return not getattr(method, "public_weights", True)
