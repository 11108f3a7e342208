"""Diagnostics of chains as named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["diagnostics_arrays", "diagnostics_from"]

_START = "diagnostics/"


def diagnostics_arrays(diagnostics: Mapping[str, Any], path: str = _START) -> dict[str, Any]:
    """Return the numbers among diagnostics as arrays by name, those within others too.

    Parameters
    ----------
    diagnostics
        What a sampler says about its chains.
    path
        What the names begin with.

    Examples
    --------
    >>> arrays = diagnostics_arrays({"r_hat": [1.01], "accepted": {"step": 0.3}, "note": "fine"})
    >>> list(arrays), diagnostics_from(arrays)["accepted"]["step"]
    (['diagnostics/r_hat', 'diagnostics/accepted/step'], 0.3)
    """
    found: dict[str, Any] = {}
    for name, value in diagnostics.items():
        if isinstance(value, Mapping):
            found |= diagnostics_arrays(value, f"{path}{name}/")
            continue
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            found[f"{path}{name}"] = array
    return found


def diagnostics_from(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the diagnostics among the arrays of a release."""
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        if name.startswith(_START):
            *path, last = name.removeprefix(_START).split("/")
            place = found
            for step in path:
                place = place.setdefault(step, {})
            place[last] = array if array.ndim else array.item()
    return found
