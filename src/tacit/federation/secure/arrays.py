"""How the exchanges of secure aggregation are put into named arrays, and read from them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import RequestRefused, SiteFailure
from tacit.rounds.messages import Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "SIGNED",
    "as_text",
    "asked_digest",
    "by_kind",
    "read_names",
    "rows_of",
    "whole_numbers",
]

SIGNED: dict[int, Any] = {32: np.dtype(np.int32), 64: np.dtype(np.int64)}


def whole_numbers(array: NDArray[Any], exponent: int) -> NDArray[np.int64]:
    """Return an array in steps of 2^exponent, flat; integers are their own steps.

    >>> whole_numbers(np.array([0.5, -1.0]), -1).tolist()
    [1, -2]
    """
    if np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64).ravel()
    steps = np.ldexp(array, -exponent).ravel()
    found: NDArray[np.int64] = np.rint(steps).astype(np.int64)
    if not (found == steps).all():
        raise SiteFailure(f"values are no multiples of 2^{exponent}")
    return found


def as_text(names: Collection[str]) -> NDArray[np.uint8]:
    """Return names as an array of bytes."""
    return np.frombuffer(json.dumps(list(names)).encode(), np.uint8)


def read_names(array: NDArray[Any]) -> tuple[str, ...]:
    """Read names from an array of bytes, or refuse."""
    try:
        found = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise RequestRefused("a list of names cannot be read")
    return tuple(found)


def asked_digest(asked: Message, names: Collection[str], grids: NDArray[Any]) -> bytes:
    """Return a digest of what all sites are asked for: the request, and how answers are summed."""
    layout = as_text(names).tobytes() + np.asarray(grids, "<i8").tobytes()
    return hashlib.sha256(asked.digest + layout).digest()


def rows_of(parts: Collection[bytes], width: int) -> NDArray[np.uint8]:
    """Return pieces of bytes, of one length each, as rows."""
    return np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), width)


def by_kind(state: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the arrays of a state by what stands before the slash in their names."""
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in state.items():
        kind, _, rest = name.partition("/")
        found.setdefault(kind, {})[rest] = array
    return found
