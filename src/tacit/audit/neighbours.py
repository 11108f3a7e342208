"""Small neighbouring data sets that reach as far as an estimator's bounds allow.

An audit needs no private data: how far one unit may move a release follows from public facts. The
worst case is the agreement's own, which a holder's side takes as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tacit.errors import ParameterError
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.fit import fit
from tacit.estimators.site import ALONE, Site

__all__ = ["Neighbours", "worst_case"]


class Neighbours(NamedTuple):
    """D, its neighbour, and how an estimator is fitted to either."""

    data: Any
    neighbour: Any
    fit: Callable[[Any, Any], Any] | None = None


def worst_case(estimator: Any) -> Neighbours:
    """Return neighbouring data at the edge of an estimator's bounds; no data is read.

    Parameters
    ----------
    estimator
        A private estimator.

    Examples
    --------
    >>> from tacit.privacy.guarantee import Privacy
    >>> from tacit.summary.estimator import PrivateSummary
    >>> found = worst_case(PrivateSummary({"x": (0, 9)}, privacy=Privacy(1.0)))
    >>> found.data["x"].tolist(), found.neighbour["x"].tolist()
    ([9.0, 9.0, 9.0], [9.0, 9.0])
    """
    if not isinstance(estimator, PrivateEstimator):
        raise ParameterError(
            f"there is no worst case for {type(estimator).__name__}: pass data and neighbour"
        )
    if estimator._given("privacy") is None:
        raise ParameterError("there is nothing to audit: pass an estimator with privacy=…")
    estimator._check_parameters()
    agreement = estimator._agree([estimator._imagined()])
    site = Site(ALONE, None)

    def fit_held(model: PrivateEstimator, given: Any) -> PrivateEstimator:
        model._keep(fit(agreement, [site], {site.name: given}, model._place()))
        return model

    return Neighbours(*agreement.worst_case(), fit_held)
