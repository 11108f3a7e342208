"""What a model was fitted on, by scikit-learn's names, and rows to predict for by the same names.

``n_features_in_`` is how many columns a row has, ``feature_names_in_`` how they are called.
Columns of a frame go by their names: in another order they are put into order, and one that is
missing is an error. Names that only the holder's frame has are the holder's own, and are in no
release.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import NotFittedError

from tacit.data.columns import column_names
from tacit.data.matrices import as_matrix, check_finite, in_order, text_names
from tacit.errors import NotCertified, ParameterError
from tacit.estimators.site import Site

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NotFitted", "NothingFitted", "by_name", "check_fitted", "features_seen", "remember"]


class NotFitted(ParameterError, NotFittedError):  # type: ignore[misc]
    """An estimator was asked for something that only ``fit`` gives it."""


class NothingFitted(NotFitted, NotCertified):
    """There is nothing yet to release or to take up, and so nothing to certify."""


def check_fitted(model: Any, attribute: str) -> None:
    """Raise unless a fit, or a release that was read, left something behind."""
    if not hasattr(model, attribute):
        kind = type(model).__name__
        raise NotFitted(f"this {kind} is not fitted yet, there is no model: call fit first")


def by_name(
    sites: Sequence[Site], rows_of: Callable[[Any], Any], with_rows: Callable[[Any, Any], Any]
) -> tuple[list[Site], list[str]]:
    """Return sites whose frames have their columns in one order, and how these are called.

    The order is that of the first frame. Arrays have no names, and stay as they are.

    Parameters
    ----------
    sites
        Who takes part.
    rows_of, with_rows
        Where the rows are in a site's data, and the same data with other rows.
    """
    tables = [rows_of(site.data) for site in sites]
    named = [text_names(table) for table in tables]
    first = next((names for names in named if names), [])
    for site, names in zip(sites, named, strict=True):
        if names and set(names) != set(first):
            raise ParameterError(
                f"site {site.name!r} has the columns {names[:20]}, not {first[:20]}: all sites "
                "need the same"
            )
    found = [
        replace(site, data=with_rows(site.data, in_order(table, first))) if names else site
        for site, table, names in zip(sites, tables, named, strict=True)
    ]
    return found, first


def remember(model: Any, count: int, names: Sequence[Any] = ()) -> None:
    """Keep how many columns a model takes, and how they are called, as scikit-learn does.

    Parameters
    ----------
    model
        An estimator that has just been fitted.
    count
        How many columns a row has.
    names
        How they are called, where they have names.
    """
    model.n_features_in_ = int(count)
    model._columns_in = list(names)
    if len(names) and all(isinstance(name, str) for name in names):
        model.feature_names_in_ = np.array(list(names), object)


def features_seen(
    model: Any, X: Any, *, images: bool = False, clipped: bool = False
) -> NDArray[Any]:
    """Return rows to predict for: by name where both sides have names, finite, of one width.

    Parameters
    ----------
    model
        A fitted estimator, see `remember`.
    X
        Rows, or a frame.
    images
        Whether rows may have several axes.
    clipped
        Whether infinite values are clipped to their bounds later.
    """
    kind = type(model).__name__
    names, found = list(getattr(model, "_columns_in", ())), text_names(X)
    if names and column_names(X):
        X = in_order(X, names)
    elif found:
        X = in_order(X, found)
        words = f"X has feature names, but {kind} was fitted without feature names"
        warnings.warn(words, UserWarning, stacklevel=3)
    array = as_matrix(X, images=images)
    count = math.prod(array.shape[1:])
    expected = getattr(model, "n_features_in_", count)
    if count != expected:
        raise ParameterError(
            f"X has {count} features, but {kind} is expecting {expected} features as input"
        )
    check_finite(array, "X", names, clipped=clipped)
    return array
