"""What docstrings say about parameters, as plain text."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import Any

__all__ = ["described", "first_sentence"]


def described(kind: type) -> dict[str, str]:
    """Return parameter → what the docstring of a class says about it.

    Where it says "As in `Other`", what is said there stands instead.

    Examples
    --------
    >>> from tacit import PrivateSummary
    >>> described(PrivateSummary)["by"]
    'A category: every statistic is given for each of its values.'
    """
    found: dict[str, str] = {}
    for heading, text in _entries(kind):
        said = " ".join(text.split())
        for name in heading.split(", "):
            found[name] = _plain(_elsewhere(kind, name, said))
    return found


def first_sentence(kind: type) -> str:
    """Return what a class is, in its own first words."""
    return _plain((inspect.getdoc(kind) or kind.__name__).split("\n")[0])


def _entries(kind: type) -> list[tuple[str, str]]:
    """Return the headings and texts of the section of parameters, as NumPy's style has them."""
    section = re.search(
        r"Parameters\n-+\n(.*?)(?:\n\n\S+\n-+\n|\Z)", inspect.getdoc(kind) or "", re.S
    )
    if section is None:
        return []
    return re.findall(r"^(\w[^\n]*)\n((?:[ \t]+[^\n]*\n?|\n)+)", section[1] + "\n", re.M)


def _elsewhere(kind: type, name: str, said: str) -> str:
    """Return a text, or that of the class which it points to."""
    pointer = re.match(r"As in `(\w+)`", said)
    other = None if pointer is None else _class(kind, pointer[1])
    return said if other is None else described(other).get(name, said)


def _class(kind: type, name: str) -> Any:
    """Return a class that a docstring names: of its own module, its family, or tacit."""
    package = kind.__module__.rsplit(".", 1)[0]
    while package:
        for place in (sys.modules.get(kind.__module__), importlib.import_module(package)):
            if inspect.isclass(found := getattr(place, name, None)):
                return found
        package = package.rpartition(".")[0]
    return None


def _plain(text: str) -> str:
    return re.sub(r"`+([^`]+)`+", r"\1", text)
