"""What may stand in a release's JSON: plain data, and nothing that is made from an object's looks.

A setting is written because its name is on a list, as the numbers and words that it is. What is
neither is refused rather than shown: the `repr` of an object may hold anything that the object
holds.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from tacit.errors import NotCertified, VerificationFailed

__all__ = ["check_listed", "check_text", "dumped", "parsed", "plain", "shown_text"]

_HIDDEN = {"Cc", "Cs", "Cn", "Co", "Zl", "Zp"}  # categories of characters that are no text
_TURNING = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")


def plain(name: str, value: Any) -> Any:
    """Return a setting as plain data; raise where it is none.

    Parameters
    ----------
    name
        What the setting is called, for the error.
    value
        Numbers, words, truth values, and lists and mappings of such.

    Examples
    --------
    >>> plain("bounds", (0, np.float64(1.5)))
    [0, 1.5]
    >>> plain("start", np.zeros(2))
    Traceback (most recent call last):
    tacit.errors.NotCertified: the setting start is a ndarray, which is no plain data: a release
    carries settings as numbers and words only
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value  # a name in the data is the caller's own
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotCertified(f"the setting {name} is {value}, which JSON does not know")
        return value
    if isinstance(value, list | tuple):
        return [plain(f"{name}[{k}]", part) for k, part in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise NotCertified(f"the setting {name} has the key {key!r}, which is no text")
        return {key: plain(f"{name}[{key!r}]", part) for key, part in value.items()}
    raise NotCertified(
        f"the setting {name} is a {type(value).__name__}, which is no plain data: a release "
        "carries settings as numbers and words only"
    )


def check_listed(
    what: str, listed: Collection[str], settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return settings; raise where they are not those that are listed by name.

    Parameters
    ----------
    what
        Whose, for the error.
    listed
        The names of the public settings.
    settings
        What would be written.
    """
    odd = sorted(set(settings) ^ set(listed))
    if odd:
        raise NotCertified(f"{what} lists its public settings, and {odd[0]!r} differs: see _told")
    return settings


def check_text(what: str, text: str) -> str:
    """Return a text; raise where it holds characters that show it as another one.

    Parameters
    ----------
    what
        What it is, for the error.
    text
        Letters, marks, numbers, signs and spaces; line ends and tabs are allowed.
    """
    for character in text:
        if character in "\n\t":
            continue
        if character in _TURNING or unicodedata.category(character) in _HIDDEN:
            raise NotCertified(
                f"{what} holds the character U+{ord(character):04X}, which is not shown: take it "
                "out"
            )
    return text


def shown_text(text: str) -> str:
    """Return a text in one line without characters that are not shown."""
    kept = [c for c in text if c not in _TURNING and unicodedata.category(c) not in _HIDDEN]
    return " ".join("".join(c if c.isprintable() else " " for c in kept).split())


def dumped(data: Any) -> bytes:
    """Return plain data as JSON for people and machines; equal data are equal bytes."""
    text = json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False)
    return f"{text}\n".encode()


def parsed(what: str, content: bytes) -> Any:
    """Return what JSON says; raise where parsers might disagree about it.

    Parameters
    ----------
    what
        The file, for the error.
    content
        UTF-8 without a mark; NaN, infinities, a key that occurs twice, or lists within lists
        without end are refused.
    """
    try:
        return json.loads(
            content.decode("utf-8"),
            parse_constant=lambda word: _refuse(what, f"{word} is no JSON"),
            parse_float=lambda text: _number(what, text),
            object_pairs_hook=lambda pairs: _object(what, pairs),
        )
    except (ValueError, RecursionError) as error:
        raise VerificationFailed(f"{what} is not JSON: {error}") from None


def _refuse(what: str, why: str) -> Any:
    raise VerificationFailed(f"{what}: {why}")


def _number(what: str, text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else float(_refuse(what, f"{text} is no number"))


def _object(what: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        _refuse(what, "a key occurs twice")
    return found
