"""Modules and names that are imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["late", "lazy_names"]


def lazy_names(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    ``places`` maps a public name to the module, below the package, that has it; an empty place
    says that the name is a module itself.
    """

    def getter(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not places[name]:
            return importlib.import_module(f"{package}.{name}")
        return getattr(importlib.import_module(f"{package}.{places[name]}"), name)

    return getter, lambda: sorted(places)


def late(module: str) -> Any:
    """Return a module that stands above the caller's own, when it is needed.

    An agreement says what is public and knows nothing of its sides; whoever runs it finds them by
    the name of the module beside it.
    """
    return importlib.import_module(module)
