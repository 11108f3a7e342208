"""What a release of a regression holds, and how that is read back.

Beside the coefficients it has every site's noisy sums, from which the posterior can be inferred
again or with further sites, and the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tacit._core.chains import thinned
from tacit.data.reading import Table
from tacit.estimators.features import check_fitted
from tacit.estimators.predicting import beside
from tacit.estimators.release import Release
from tacit.estimators.release.draws import diagnostics_arrays, diagnostics_from
from tacit.privacy.guarantee import Privacy
from tacit.regression.bounds import as_stated, plain_bounds
from tacit.regression.numerics.moments import Prior
from tacit.regression.numerics.posterior import Posterior
from tacit.regression.scale import Line
from tacit.regression.total import summaries_from

__all__ = ["adopt", "answer", "arrays_of", "dimensions_of", "ranges_of", "settings_of", "told"]

_OWN = ("columns", "middle", "half", "norm", "names", "labels", "sites", "prior", "privacy")
_SAMPLED = "posterior/"


def told(model: Any) -> tuple[str, ...]:
    """Return the names of the settings that a release carries."""
    return tuple(dict.fromkeys((*model._stored, *_OWN, "sampled_by")))


def arrays_of(model: Any) -> dict[str, Any]:
    """Return what is for everybody: coefficients, draws, and every site's noisy sums."""
    found: dict[str, Any] = dict(model._line.arrays)
    posterior: Posterior | None = getattr(model, "posterior_", None)
    if posterior is not None and not posterior.point:
        draws, variance = thinned(
            posterior.draws, posterior.noise_variance.reshape(posterior.draws.shape[:2])
        )
        found |= {f"{_SAMPLED}draws": draws, f"{_SAMPLED}noise_variance": variance}
        found |= diagnostics_arrays(posterior.diagnostics)
    for summary in model.summaries_.values():
        found |= summary.arrays
    return found


def settings_of(model: Any) -> dict[str, Any]:
    """Return the settings that `told` names."""
    public = model._public.columns
    posterior = getattr(model, "posterior_", None)
    return {
        **{name: plain_bounds(getattr(model, name)) for name in model._stored},
        "columns": None if public is None else public.described(),
        "middle": list(model.design_.middle),
        "half": list(model.design_.half),
        "norm": model.design_.rows.norm,
        "names": list(model.columns_),
        "labels": [str(label) for label in model._labels],
        "sites": {name: summary.facts for name, summary in model.summaries_.items()},
        "prior": None if model.prior is None else _plain_prior(model.prior),
        "privacy": None if model.privacy is None else model.privacy.stated(),
        "sampled_by": None if posterior is None else posterior.method,
    }


def _plain_prior(prior: Prior) -> dict[str, Any]:
    scale = None if prior.features is None else np.asarray(prior.features).tolist()
    return {**asdict(prior), "features": scale}


def dimensions_of(model: Any) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
    """Return the names of dimensions: features, and terms with the intercept."""
    features = list(model.columns_[:-1])
    terms = ["(intercept)", *features]
    dims: dict[str, tuple[str, ...]] = {
        "coef": ("feature",),
        "coef_sd": ("feature",),
        "covariance": ("term", "other term"),
        f"{_SAMPLED}draws": ("chain", "draw", "coefficient"),
        f"{_SAMPLED}noise_variance": ("chain", "draw"),
    }
    own = {name: dims[name] for name in dims if name in model.shared_}
    return own, {"feature": features, "term": terms, "other term": terms}


def ranges_of(model: Any) -> dict[str, tuple[float, float]]:
    """Return the range of every column: as stated, or as it was found."""
    check_fitted(model, "coef_")
    ends = zip(model.columns_, model.design_.middle, model.design_.half, strict=True)
    return {name: (middle - half, middle + half) for name, middle, half in ends}


def answer(model: Any, table: Table, interval: float | None) -> dict[str, list[Any]]:
    """Return predictions beside rows, with bounds where they are asked for."""
    if interval is None:
        return beside(table, {"prediction": model.predict(dict(table))})
    mean, (low, high) = model.predict(dict(table), interval=interval)
    return beside(table, {"prediction": mean, "low": low, "high": high})


def adopt(model: Any, release: Release) -> None:
    """Take up what was released."""
    settings, arrays = release.settings, release.arrays
    model.columns_ = tuple(settings["names"])
    type(model).__init__(model, **as_stated(settings, model._stored))
    asked, prior = settings.get("privacy"), settings.get("prior")
    model.privacy = None if asked is None else Privacy(**asked)
    if prior is not None:
        scale = None if prior["features"] is None else np.array(prior["features"], float)
        model.prior = Prior(**{**prior, "features": scale})
    model._labels, model.failures_ = list(settings.get("labels", ())), []
    model.summaries_ = summaries_from(release, model._summaries)
    model._upstream = {n: c for n, c in release.certificates.items() if n not in model.summaries_}
    model.design_ = next(iter(model.summaries_.values())).design
    if f"{_SAMPLED}draws" in arrays:
        model.posterior_ = Posterior(
            str(settings["sampled_by"]),
            arrays[f"{_SAMPLED}draws"],
            arrays[f"{_SAMPLED}noise_variance"],
            diagnostics_from(arrays),
        )
    model._draw(Line.from_arrays(arrays))
