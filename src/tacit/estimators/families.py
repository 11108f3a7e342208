"""Families and their estimators, found by name.

A family is a package of tacit with an ``agreement.py``, an entry point of the group
``tacit.families``, or a module that a holder's own file names in ``plugins``. Its package has
``ESTIMATORS``: name → ``"module:Class"``. Looking one up imports that one only.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.errors import MissingExtra, ParameterError

if TYPE_CHECKING:
    from tacit.estimators.base import PrivateEstimator

__all__ = ["estimator_called", "estimator_names", "estimator_of", "family_packages"]


@cache
def family_packages() -> tuple[str, ...]:
    """Return the packages of tacit's own families and of installed ones."""
    home = Path(__file__).resolve().parents[1]
    own = sorted(found.parent.name for found in home.glob("*/agreement.py"))
    others = sorted(point.value for point in entry_points(group="tacit.families"))
    return (*(f"tacit.{name}" for name in own if name != "estimators"), *others)


def estimator_names(plugins: Iterable[str] = ()) -> dict[str, str]:
    """Return the name of every estimator → where it is, as ``"module:Class"``.

    Parameters
    ----------
    plugins
        Further packages, named by the holder's own file.

    Examples
    --------
    >>> estimator_names()["summary"]
    'tacit.summary.estimator:PrivateSummary'
    """
    found: dict[str, str] = {}
    for package in (*family_packages(), *plugins):
        try:
            names: dict[str, str] = getattr(importlib.import_module(package), "ESTIMATORS", {})
        except MissingExtra:
            continue
        except ImportError as error:
            raise ParameterError(f"{package!r} is no family of estimators: {error}") from None
        for name, place in names.items():
            if name in found:
                raise ParameterError(f"{package!r} and {found[name]!r} both offer {name!r}")
            found[name] = f"{package}.{place}"
    return found


def estimator_of(name: str, plugins: Iterable[str] = ()) -> type[PrivateEstimator]:
    """Return the estimator of a name; nothing else is imported.

    Parameters
    ----------
    name
        Such as ``"regression"``.
    plugins
        As in `estimator_names`.
    """
    places = estimator_names(plugins)
    if name not in places:
        raise ParameterError(f"there is no estimator {name!r}: choose from {sorted(places)}")
    module, _, kind = places[name].partition(":")
    found: type[PrivateEstimator] = getattr(importlib.import_module(module), kind)
    return found


def estimator_called(name: str, plugins: Iterable[str] = ()) -> type[PrivateEstimator]:
    """Return an estimator by the name of its class or by its short one.

    Parameters
    ----------
    name
        Such as ``"PrivateSummary"`` or ``"summary"``.
    plugins
        As in `estimator_names`.
    """
    places = estimator_names(plugins)
    for short, place in places.items():
        if name in (short, place.partition(":")[2]):
            return estimator_of(short, plugins)
    classes = sorted(place.partition(":")[2] for place in places.values())
    raise ParameterError(f"there is no estimator {name!r}: choose from {', '.join(classes)}")
