"""The methods over sites by name, and which one ``method="auto"`` takes."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from tacit.errors import ParameterError
from tacit.factorization.together.problem import Problem
from tacit.factorization.together.shape import FactorizationMethod
from tacit.privacy.guarantee import Privacy

__all__ = ["METHODS", "choose_method", "choose_trusted", "method_of", "settings_of"]

# name → where it is, and its settings
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "als": ("offsets.agreement:AlternatingLeastSquares", {}),
    "local": ("counts.method:LocalCounts", {}),
    "offsets": (
        "offsets.agreement:AlternatingLeastSquares",
        {"rounds": 0, "factors": False, "pattern": False},
    ),
    "sgld": ("langevin.method:Langevin", {}),
}


def method_of(name: str, options: Mapping[str, Any] | None = None) -> FactorizationMethod:
    """Return a method by its name, with options where its settings are not the defaults.

    >>> method_of("sgld", {"rounds": 5}).rounds
    5
    """
    if name not in METHODS:
        raise ParameterError(f"method must be one of {sorted(METHODS)}, got {name!r}")
    place, settings = METHODS[name]
    module, _, kind = place.partition(":")
    found = getattr(importlib.import_module(f"tacit.factorization.{module}"), kind)
    try:
        method: FactorizationMethod = found(**{**settings, **(options or {})})
    except TypeError as error:
        raise ParameterError(f"options do not fit the method {name!r}: {error}") from None
    return method


def settings_of(method: FactorizationMethod) -> tuple[str, dict[str, Any]] | None:
    """Return a method's name and its settings as plain data; None for one that has no name."""
    place = f"{type(method).__module__}:{type(method).__qualname__}"
    for name, (known, settings) in METHODS.items():
        if place == f"tacit.factorization.{known}" and not settings:
            return name, {told: getattr(method, told) for told in method.told}
    return None


def choose_method(problem: Problem) -> FactorizationMethod:
    """Return the method for a problem, from what is public about it.

    Least squares for one matrix of values under a Euclidean divergence, counts perturbed locally
    where nobody is trusted but the person, and Langevin dynamics for everything else.
    """
    if (trusted := choose_trusted(problem.privacy)) is not None:
        return trusted
    euclidean = set(problem.model.powers.values()) == {0.0}
    return method_of("als" if euclidean and problem.is_matrix else "sgld")


def choose_trusted(privacy: Privacy | None) -> FactorizationMethod | None:
    """Return the method that follows from who is trusted, where one does."""
    return method_of("local") if privacy is not None and privacy.trust == "local" else None
