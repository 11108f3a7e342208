"""From a folder to the model that was released there, whatever its family."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterable

from tacit.estimators.base import PrivateEstimator
from tacit.estimators.families import estimator_called
from tacit.estimators.release import Release, read_release

__all__ = ["kind_of", "opened"]

# where estimators are that are no part of a family's list
_HOMES = ("tacit.moments", "tacit.published")


def opened(
    folder: str | os.PathLike[str], plugins: Iterable[str] = ()
) -> tuple[Release, PrivateEstimator]:
    """Return a release, verified, and its estimator, which must be one of a known family.

    Parameters
    ----------
    folder
        Where `release` wrote it.
    plugins
        Packages with families of their own.
    """
    found = read_release(folder)
    return found, kind_of(found, plugins).from_release(folder)


def kind_of(found: Release, plugins: Iterable[str] = ()) -> type[PrivateEstimator]:
    """Return the class of a release: one of a family, or one that tacit has besides.

    Parameters
    ----------
    found
        The release.
    plugins
        Packages with families of their own.
    """
    module = str(found.manifest["module"])
    # what a release names is a stranger's word: only modules of tacit's own models are imported
    if any(module.startswith(f"{home}.") for home in _HOMES) and "__" not in module:
        with contextlib.suppress(ImportError):
            kind = getattr(importlib.import_module(module), found.estimator, None)
            if isinstance(kind, type) and issubclass(kind, PrivateEstimator):
                return kind
    return estimator_called(found.estimator, plugins)
