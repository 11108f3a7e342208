"""Nested statistics as named arrays, and back: what a release holds of a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import numpy as np

__all__ = ["from_arrays", "named_arrays", "turned"]


def named_arrays(statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Return statistics by their names and those of columns, groups and values.

    Examples
    --------
    >>> found = named_arrays({"mean": {"age": {"a/b": 40.0}}})
    >>> found, from_arrays(found)
    ({'mean/age/a%2Fb': array(40.)}, {'mean': {'age': {'a/b': 40.0}}})
    """
    arrays: dict[str, Any] = {}
    for statistic, nested in statistics.items():
        for path, value in _leaves(nested):
            name = "/".join((statistic, *path))
            if statistic == "histogram":
                arrays[f"{name}/counts"], arrays[f"{name}/edges"] = value
            else:
                arrays[name] = np.asarray(value)
    return arrays


def from_arrays(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statistics that `named_arrays` named."""
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        statistic, *path = name.split("/")
        if statistic == "histogram":
            if path.pop() == "edges":
                continue
            edges = arrays[f"{name.removesuffix('/counts')}/edges"]
            value: Any = (array, edges)
        else:
            value = array if statistic == "quantiles" else float(array)
        place, last = found, statistic
        for step in path:
            place, last = place.setdefault(last, {}), unquote(step)
        place[last] = value
    return found


def turned(groups: Sequence[str], values: Sequence[Any]) -> Any:
    """Return statistics of every group with the groups innermost."""
    if not isinstance(values[0], dict):
        return dict(zip(groups, values, strict=True))
    return {key: turned(groups, [value[key] for value in values]) for key in values[0]}


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every number, array or pair of nested statistics with the names on its way."""
    if not isinstance(value, dict):
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, str(key).replace("%", "%25").replace("/", "%2F")))
