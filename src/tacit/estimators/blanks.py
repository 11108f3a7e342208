"""What only the writer of a file can state: blanks in a configuration, to be filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["BLANK", "Blank", "has_blank"]

BLANK = "…"  # in quotes it is TOML, so that a file with blanks can be read and looked through


@dataclass(frozen=True)
class Blank:
    """One thing that a file must state, or may.

    Attributes
    ----------
    words
        What to write, for a person, in a few words.
    form
        The value as TOML, with ``"…"`` where it is filled in.
    needed
        Whether nothing can be fitted without it.
    """

    words: str
    form: str = f'"{BLANK}"'
    needed: bool = True


def has_blank(value: Any) -> bool:
    """Return whether a value of a file, or a part of it, was not filled in.

    >>> has_blank({"low": 0, "high": "…"}), has_blank([0, 1])
    (True, False)
    """
    if isinstance(value, Mapping):
        return BLANK in value or any(has_blank(part) for part in value.values())
    if isinstance(value, list):
        return any(has_blank(part) for part in value)
    return bool(value == BLANK)
