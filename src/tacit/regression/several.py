"""Several targets from one release: any column on any others, without paying again.

Under ``statistics="moments"`` a site releases Σ a·aᵀ of its rows a = s·(c, x, y): every sum of
products of two columns, the response among them, in one matrix. So which of the columns is the
response is a choice of whoever reads it. The sums of another choice are some of the same numbers,
with the same noise, under the same certificate.

A row is scaled as a whole, so that the plane of every choice stays: the weights s² are those of
weighted least squares whichever column is explained.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone

from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.estimators.features import check_fitted
from tacit.regression.design import Design
from tacit.regression.numerics.moments import Moments
from tacit.regression.summary import SiteSummary

__all__ = ["about"]

Model = TypeVar("Model", bound=Any)


def about(self: Model, target: str, features: Sequence[str] | None = None) -> Model:
    """Return a fitted model of another target, from the same release: nothing is paid again.

    It needs ``statistics="moments"``, which holds every sum of two columns.

    Parameters
    ----------
    target
        The column to explain: a feature of this model, or its target.
    features
        The columns that explain it; all of this model's others unless given. Of a category either
        all values or none.

    Examples
    --------
    >>> from tacit import Privacy, PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 90, 9000)
    >>> table = {"age": age, "weight": age + rng.normal(0, 5, 9000),
    ...          "pressure": 80 + 0.5 * age + rng.normal(0, 4, 9000)}
    >>> ranges = {"age": (20, 90), "weight": (0, 120)}
    >>> both = PrivateLinearRegression(bounds=ranges, y_bounds=(60, 160), target="pressure",
    ...     statistics="moments", method="Bayes-fixedS-fast", random_state=1,
    ...     privacy=Privacy(1.0, 1e-6)).fit(table)
    >>> [both.about(name, ["age"]).coef_.round(1).tolist() for name in ("pressure", "weight")]
    [[0.5], [1.0]]
    """
    check_fitted(self, "coef_")
    names = self.columns_
    chosen = _chosen(self, target, features)
    places = [names.index(name) for name in (*chosen, target)]
    twin: Model = clone(self)
    twin.set_params(**_restated(self, target, chosen))
    twin._forget()
    twin.summaries_ = {site: _view(summary, places) for site, summary in self.summaries_.items()}
    first = next(iter(twin.summaries_.values()))
    twin.design_, twin.columns_ = first.design, first.columns
    twin._upstream = dict(self.certificates_)
    for name in ("record_", "cites_"):
        if hasattr(self, name):
            setattr(twin, name, getattr(self, name))
    twin._infer()
    return twin


def _chosen(model: Any, target: str, features: Sequence[str] | None) -> tuple[str, ...]:
    """Return the features by the names that the model has for them, checked."""
    names, public = model.columns_, model._public.columns
    if any(s.design.statistics != "moments" for s in model.summaries_.values()):
        raise ParameterError(
            "another target needs every sum of two columns: fit with statistics='moments'"
        )
    if model.design_.weighted:
        raise ParameterError("another target needs columns of equal weight: leave weights out")
    if target not in names:
        raise ParameterError(f"target must be one of the columns {list(names)}, got {target!r}")
    if public is not None and target not in public:
        raise ParameterError(f"{target!r} is a value of a category, which is not explained")
    if features is None:
        return tuple(name for name in names if name != target)
    if isinstance(features, str) or not len(features):
        raise ParameterError("features must be a list of columns, one at least")
    found: list[str] = []
    for name in features:
        inside = list(public.encoded([name])) if public is not None and name in public else [name]
        if not set(inside) <= set(names) - {target}:
            raise ParameterError(f"features must be columns other than {target!r}, got {name!r}")
        found += inside
    if len(set(found)) != len(found):
        raise ParameterError("features must be different columns")
    return tuple(found)


def _restated(model: Any, target: str, features: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameters that say what is public of the columns that are left."""
    public = model._public.columns
    if public is not None:
        left = [
            own for own in public if own == target or public.encoded([own]).keys() & {*features}
        ]
        described = {
            name: value
            for name, value in public.described().items()
            if name not in public or name in left
        }
        described.pop("target", None)
        return {"columns": Columns.of(described), "target": target}
    search = model._public.search
    if search is not None:  # each of fewer columns has the part of the budget that it had
        if model.y_bounds is not None:
            raise ParameterError("another target needs the ranges of all columns to be found")
        share = search.share * (len(features) + 1) / len(model.columns_)
        return {"bounds": replace(search, features=features, share=share), "target": target}
    ranges = model.ranges_
    bounds = {name: ranges[name] for name in features}
    return {"bounds": bounds, "y_bounds": ranges[target], "target": target}


def _view(summary: SiteSummary, places: list[int]) -> SiteSummary:
    """Return a site's summary for other columns: features by place, and last the response."""
    design, moments = summary.design, summary.moments
    own = {part.name: getattr(design, part.name) for part in fields(design)}
    own |= {name: tuple(np.array(own[name])[places].tolist()) for name in ("middle", "half")}
    viewed = type(design)(**{**own, "clip": design.rows.norm})
    numbers = _submoments(design, moments, places)
    names = tuple(summary.columns[place] for place in places)
    return replace(summary, columns=names, design=viewed, moments=numbers)


def _submoments(design: Design, moments: Moments, places: list[int]) -> Moments:
    """Return the same sums in another order, those of other columns left out."""
    assert moments.square is not None
    side = design.coefficients + 1
    whole = np.empty((side, side))
    whole[:-1, :-1], whole[-1, -1] = moments.gram, moments.square
    whole[-1, :-1] = whole[:-1, -1] = moments.cross
    first = int(design.intercept)
    order = [*range(first), *(first + place for place in places)]
    picked = whole[np.ix_(order, order)]
    # the noise of symmetric sums is alike wherever they stand: √½ of the diagonal's beside it
    assert math.isclose(
        moments.cross_sd, moments.gram_sd * math.sqrt(0.5), rel_tol=1e-9, abs_tol=0
    )
    return replace(
        moments, gram=picked[:-1, :-1], cross=picked[:-1, -1], square=float(picked[-1, -1])
    )
