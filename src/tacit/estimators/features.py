"""What a model was fitted on, by scikit-learn's names, and rows to predict for by the same names.

``n_features_in_`` is how many columns a row has, ``feature_names_in_`` how they are called: those
that were stated, or those of the table that was fitted (`tacit.data.features.common_names`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError

from tacit.data.features import by_position, numbers
from tacit.errors import NotCertified, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NotFitted", "NothingFitted", "check_fitted", "remember", "rows_seen"]


class NotFitted(ParameterError, NotFittedError):  # type: ignore[misc]
    """An estimator was asked for something that only ``fit`` gives it."""


class NothingFitted(NotFitted, NotCertified):
    """There is nothing yet to release or to take up, and so nothing to certify."""


def check_fitted(model: Any, attribute: str) -> None:
    """Raise unless a fit, or a release that was read, left something behind."""
    if not hasattr(model, attribute):
        kind = type(model).__name__
        raise NotFitted(f"this {kind} is not fitted yet, there is no model: call fit first")


def remember(model: Any, count: int, names: Sequence[Any] = ()) -> None:
    """Keep how many columns a model takes, and how they are called, as scikit-learn does.

    Parameters
    ----------
    model
        An estimator that has just been fitted, or read from a release.
    count
        How many columns a row has.
    names
        How they are called, where they have names; 0, 1, 2 … are the numbers of columns that
        nobody named.
    """
    model.n_features_in_ = int(count)
    model._names_in = tuple(str(name) for name in names)
    vars(model).pop("feature_names_in_", None)
    if names and not by_position(model._names_in):
        model.feature_names_in_ = np.array(model._names_in, object)


def rows_seen(
    model: Any,
    X: Any,
    names: Sequence[str] | None = None,
    *,
    images: bool = False,
    finite: bool = True,
) -> NDArray[Any]:
    """Return rows to predict for as numbers: found by name, and of the width of the fit.

    Parameters
    ----------
    model
        A fitted estimator, see `remember`.
    X
        Rows, or a table.
    names
        The features in their order, where they are other names than those of the fit.
    images
        Whether rows may have several axes.
    finite
        Whether an infinite number is wrong, or merely outside its bounds.
    """
    known = getattr(model, "_names_in", ()) if names is None else names
    array = numbers(X, known, fitted=True, images=images, finite=finite)
    count = math.prod(array.shape[1:])
    expected = getattr(model, "n_features_in_", count)
    if count != expected:
        kind = type(model).__name__
        raise ParameterError(
            f"X has {count} features, but {kind} is expecting {expected} features as input"
        )
    return array
