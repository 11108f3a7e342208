"""Constructors that only store, from fields that are named once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypeVar, dataclass_transform

__all__ = ["stores_parameters"]

Kind = TypeVar("Kind")


@dataclass_transform(eq_default=False)
def stores_parameters(kind: type[Kind]) -> type[Kind]:
    """Give an estimator the constructor that stores its fields, and no other sign of them.

    A class shows its verbs, not its parameters: defaults stand in the signature alone, where
    scikit-learn looks for them.

    >>> @stores_parameters
    ... class Mean:
    ...     bounds: tuple[float, float] = (0.0, 1.0)
    >>> Mean((1.0, 5.0)).bounds, hasattr(Mean, "bounds")
    ((1.0, 5.0), False)
    """
    made = dataclass(eq=False, repr=False)(kind)
    for field in fields(made):  # type: ignore[arg-type]
        if field.name in vars(made):
            delattr(made, field.name)
    return made
