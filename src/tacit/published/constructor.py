"""Constructors of published estimators: those of certified ones, but for some parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["constructor"]


def constructor(parent: type[Any], *without: str, **own: Any) -> Callable[..., None]:
    """Return a parent's constructor without some parameters, and with own ones by their defaults.

    scikit-learn reads an estimator's parameters off this signature; they are stored untouched.
    """
    inherited = inspect.signature(parent.__init__).parameters
    parameters = {name: one for name, one in inherited.items() if name not in without}
    for name, default in own.items():
        one = inherited.get(name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY))
        parameters[name] = one.replace(default=default)
    signature = inspect.Signature(list(parameters.values()))

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        bound = signature.bind(self, *given, **named)
        bound.apply_defaults()
        for name in list(parameters)[1:]:
            setattr(self, name, bound.arguments[name])

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
