"""Which raw values a fitted object holds, found by walking everything that it refers to."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

SKIPPED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def everything(thing: Any, seen: dict[int, Any] | None = None) -> Iterator[Any]:
    """Yield all objects that an object refers to, itself included."""
    known: dict[int, Any] = {} if seen is None else seen
    if id(thing) in known or isinstance(thing, SKIPPED):
        return
    known[id(thing)] = thing
    yield thing
    parts: list[Any] = []
    if isinstance(thing, Mapping):
        parts += [*thing.keys(), *thing.values()]
    elif isinstance(thing, list | tuple | set | frozenset):
        parts += list(thing)
    if isinstance(thing, types.MethodType):
        parts.append(thing.__self__)
    parts += list(getattr(thing, "__dict__", {}).values())
    for name in getattr(type(thing), "__slots__", ()):
        if isinstance(name, str) and hasattr(thing, name):
            parts.append(getattr(thing, name))
    for part in parts:
        yield from everything(part, known)


def raw_values(thing: Any, secrets: set[float]) -> set[float]:
    """Return which of some distinctive numbers an object holds."""
    found: set[float] = set()
    for part in everything(thing):
        try:
            if isinstance(part, float | int) and not isinstance(part, bool):
                numbers = np.array([part], np.float64)
            elif isinstance(part, np.ndarray) or hasattr(part, "detach"):
                numbers = np.asarray(part.detach() if hasattr(part, "detach") else part, float)
            else:
                continue
        except (TypeError, ValueError):
            continue
        found |= secrets & set(np.ravel(numbers).tolist())
    return found
