"""Constructors that only store, and parameters within parameters, as scikit-learn names them.

``privacy__epsilon`` is the ε of the parameter ``privacy``. Requests and settings are frozen: to
set a part of one is to store another, so that copies of an estimator never change each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

from tacit.errors import ParameterError

__all__ = ["parts_of", "stores_parameters", "with_parts"]

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


def parts_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of parameters that are frozen settings, under scikit-learn's names.

    >>> from tacit.privacy.guarantee import Privacy
    >>> parts_of({"privacy": Privacy(1, 1e-6), "rank": 3})["privacy__epsilon"]
    1
    """
    return {
        f"{name}__{field.name}": getattr(value, field.name)
        for name, value in parameters.items()
        if _has_parts(value)
        for field in _parts(value)
    }


def with_parts(parameters: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given, with parts such as ``privacy__epsilon`` put into whole parameters.

    Parameters
    ----------
    parameters
        Those that an estimator has.
    given
        What is to be set, whole or in parts; a part changes a whole that is given beside it.
    """
    whole = {name: value for name, value in given.items() if "__" not in name}
    changes: dict[str, dict[str, Any]] = {}
    for name, new in given.items():
        owner, _, part = name.partition("__")
        if part:
            changes.setdefault(owner, {})[part] = new
    for owner, parts in changes.items():
        value: Any = whole.get(owner, parameters.get(owner))
        if owner not in parameters or hasattr(value, "set_params"):  # scikit-learn's own business
            whole.update({f"{owner}__{part}": new for part, new in parts.items()})
            continue
        if not _has_parts(value):
            kind = "None" if value is None else type(value).__name__
            raise ParameterError(
                f"{owner} is {kind}, and has no {next(iter(parts))!r}: set {owner} as a whole"
            )
        unknown = sorted(set(parts) - {field.name for field in _parts(value)})
        if unknown:
            raise ParameterError(f"{owner} has no {unknown[0]!r}")
        changed = getattr(value, "changed", None)
        whole[owner] = changed(**parts) if changed else dataclasses.replace(value, **parts)
    return whole


def _has_parts(value: Any) -> bool:
    """Whether a parameter is a frozen record, and not an estimator of its own."""
    record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return record and not hasattr(value, "get_params")


def _parts(value: Any) -> list[Any]:
    return [field for field in fields(value) if field.init and field.repr]
