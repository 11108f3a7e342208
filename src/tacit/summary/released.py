"""What a release of a summary holds, and how that is read back.

Beside the statistics it has the noisy sum that they follow from, so that whoever reads it can
take in further sites, and knows the noise of every number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import numpy as np

from tacit._core.answers import Answer, Table
from tacit.estimators.release import Release
from tacit.privacy.guarantee import Privacy
from tacit.summary.naming import Named
from tacit.summary.totals import Totals

__all__ = [
    "TOLD",
    "adopt",
    "answer_of_first_schema",
    "arrays_of",
    "dimensions_of",
    "settings_of",
]

TOLD = ("columns", "by", "statistics", "bins", "quantiles", "noise", "privacy")


def arrays_of(model: Any) -> dict[str, Any]:
    """Return the statistics as named arrays, and the sums that they follow from."""
    arrays: dict[str, Any] = {}
    for statistic in (*model.statistics, "counts", "resolution"):
        for path, value in _leaves(getattr(model, f"{statistic}_", {})):
            name = "/".join((statistic, *path))
            if statistic == "histogram":
                arrays[f"{name}/counts"], arrays[f"{name}/edges"] = value
            else:
                arrays[name] = np.asarray(value)
    totals: Totals = model._totals
    return arrays | totals.arrays


def settings_of(model: Any) -> dict[str, Any]:
    """Return the settings of `TOLD`."""
    return {
        "columns": model._public.described(),
        "by": model.by,
        "statistics": list(model.statistics),
        "bins": model.bins,
        "quantiles": list(model.quantiles),
        "noise": model.noise,
        "privacy": None if model.privacy is None else model.privacy.stated(),
    }


def dimensions_of(model: Any) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
    """Return the names of dimensions: levels of quantiles, cells and edges of histograms."""
    dims: dict[str, tuple[str, ...]] = {}
    for name in model.shared_:
        statistic, *path = name.split("/")
        if statistic == "histogram":
            dims[name] = (f"{path[-1].removesuffix('s')} of {unquote(path[0])}",)
        elif statistic == "quantiles" or (statistic == "resolution" and model.shared_[name].ndim):
            dims[name] = ("quantile",)
    levels = [float(level) for level in model.quantiles]
    return dims, {"quantile": levels} if ("quantile",) in dims.values() else {}


def adopt(model: Any, release: Release) -> None:
    """Take up what was released: the statistics follow from the sums as they did then."""
    settings, arrays = release.settings, release.arrays
    stated = settings.pop("privacy", None)
    type(model).__init__(model, **settings)
    model.columns = model._public
    model.privacy = None if stated is None else Privacy(**stated)
    if not any(Totals.holds(name) for name in arrays):  # the first schema kept statistics alone
        _adopt_statistics(model, release)
        return
    totals = Totals.from_arrays(arrays)
    # where sites were added, quantiles are read from cells
    agreement = replace(model._agree([None] * totals.law.sites), refined=bool(totals.ranks))
    keys = tuple(_named(arrays, name, model._groups) for name, _, _ in agreement.keys)
    model._publish(agreement, replace(totals, keys=keys))


def _named(arrays: Mapping[str, Any], column: str, groups: Sequence[str]) -> Named:
    """Return the keys of a column that were named, and how often: (group, key) → count."""
    found: dict[tuple[int, str], int] = {}
    for name, array in arrays.items():
        statistic, *path = map(unquote, name.split("/"))
        if statistic == "counts" and path[0] == column:
            group = groups.index(path[2]) if groups else 0
            found[group, path[1]] = int(array)
    return found


def _adopt_statistics(model: Any, release: Release) -> None:
    for name, array in release.arrays.items():
        statistic, *path = name.split("/")
        if statistic == "histogram":
            if path.pop() == "edges":
                continue
            stem = name.removesuffix("/counts")
            value: Any = (array, release.arrays[f"{stem}/edges"])
        else:
            value = array if statistic == "quantiles" else float(array)
        if not path:
            setattr(model, f"{statistic}_", value)
            continue
        if not hasattr(model, f"{statistic}_"):
            setattr(model, f"{statistic}_", {})
        place = getattr(model, f"{statistic}_")
        for step in path[:-1]:
            place = place.setdefault(unquote(step), {})
        place[unquote(path[-1])] = value


def answer_of_first_schema(model: Any) -> Answer:
    """Return the numbers of a release of the first schema, which knew nothing of their errors."""
    numbers = {name: float(array) for name, array in model.shared_.items() if not array.ndim}
    names = [unquote(name) for name in numbers]
    columns: dict[str, list[Any]] = {"statistic": names, "estimate": [*numbers.values()]}
    warning = "This release is of the first format, which tells no errors: release anew."
    return Answer("Private summary", "", (Table("statistics", "Statistics", columns),), (warning,))


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every number, array or pair of nested statistics with the names on its way."""
    if not isinstance(value, dict):
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, str(key).replace("%", "%25").replace("/", "%2F")))
