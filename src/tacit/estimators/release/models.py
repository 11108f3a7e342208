"""From a fitted estimator to its release, and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit._core.answers import LEVEL
from tacit.errors import ParameterError
from tacit.estimators.features import NothingFitted
from tacit.estimators.release.layout import Release
from tacit.estimators.release.plain import check_listed
from tacit.estimators.release.write import write_release
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["adopted", "write_model"]


def write_model(
    model: Any,
    folder: str | os.PathLike[str],
    purpose: str,
    contact: str,
    ledgers: Sequence[Ledger] | None,
) -> Path:
    """Write what a fitted estimator learned.

    Parameters
    ----------
    model
        A `PrivateEstimator` that was fitted or read back.
    folder, purpose, contact, ledgers
        As in its `release`.
    """
    if not hasattr(model, "certificates_"):
        raise NothingFitted("there is nothing to release: call fit first")
    kind, own = type(model), model._given("ledger")
    paid = {c.ledger.ledger for c in model.certificates_.values() if c.ledger is not None}
    signing = [own] if own is not None and own.id in paid else []
    dims, coords = model._dimensions()
    return write_release(
        folder,
        kind.__name__,
        model.shared_,
        model.certificates_,
        check_listed(kind.__name__, model._told, model._settings()),
        model.cites_,
        module=kind.__module__,
        dims=dims,
        coords=coords,
        learned=model._found(LEVEL).headline,
        purpose=purpose,
        contact=contact,
        ledgers=signing if ledgers is None else ledgers,
    )


def adopted(kind: Any, found: Release, folder: Any) -> Any:
    """Return the estimator of a release that was read.

    Parameters
    ----------
    kind
        The estimator's class.
    found
        The release.
    folder
        Where it came from, for errors.
    """
    if found.estimator != kind.__name__:
        raise ParameterError(f"{folder} is a release of {found.estimator}, not {kind.__name__}")
    model = kind.__new__(kind)
    model._rest_on(found.certificates)
    model.shared_, model.cites_ = dict(found.arrays), found.cites
    model._adopt(found)
    return model
