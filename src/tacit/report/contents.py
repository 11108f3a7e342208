"""What a report shows, gathered from a fitted estimator or from a release."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._version import __version__
from tacit.data.members import key
from tacit.data.written import read_names
from tacit.errors import ParameterError
from tacit.estimators.release import Release
from tacit.privacy.certificate import Certificate
from tacit.report.posteriors import Parameter

__all__ = ["Accuracy", "Contents", "Factor", "gather"]

# arrays that are no factors
_ABOUT = {"base": "item", "features": "item"}  # of a recommender
_OWN = (
    "summary/", "histogram/", "covariance", "quantiles/", "kinds", "totals/", "resolution/",
    "posterior/", "diagnostics/", "eigenvalues",
)  # fmt: skip
_FOR_LOADING = ("labels", "sites", "releases", "privacy", "sampled_by", "names")


@dataclass(frozen=True)
class Factor:
    """A named factor, with the names of its members where they have any."""

    name: str
    values: Any
    members: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Accuracy:
    """How good results are at several ε, and what knowing nothing gives.

    Attributes
    ----------
    metric
        What is measured, such as ``"RMSE of held-out results (lower is better)"``.
    series
        Method → (ε, value); the trivial private predictor at the same ε belongs here.
    levels
        Predictor without a guarantee → value.
    note
        A sentence that says who wins, and on what it was measured.
    """

    metric: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Contents:
    """Everything that a report may show; what is empty is left out."""

    estimator: str
    certificates: Mapping[str, Certificate]
    factors: tuple[Factor, ...] = ()
    posterior: tuple[Parameter, ...] = ()
    history: tuple[float, ...] = ()
    convergence: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    cites: tuple[str, ...] = ()


def gather(source: Any) -> Contents:
    """Return what there is to show of a `Release` or a fitted estimator.

    Only what was released is taken from an estimator over private data: shared factors, not the
    members' own ones.
    """
    if isinstance(source, Release):
        return _from_release(source)
    certificates = getattr(source, "certificates_", None)
    if certificates is None and hasattr(source, "certificate_"):
        certificates = {source.certificate_.holder or "the data": source.certificate_}
    if certificates is None and not hasattr(source, "factors_"):
        raise ParameterError(
            "a report needs a release that was read, or an estimator that was fitted: call fit"
        )
    rounds = getattr(getattr(source, "record_", None), "rounds", None)
    convergence = dict(getattr(getattr(source, "posterior_", None), "diagnostics", {}))
    if isinstance(rounds, int):
        convergence["rounds of messages"] = rounds
    for name, words in (("n_iter_", "iterations"), ("converged_", "settled")):
        if hasattr(source, name):
            convergence[words] = getattr(source, name)
    return Contents(
        type(source).__name__,
        certificates or {},
        _factors_of(source),
        _posterior_of(source),
        tuple(getattr(source, "history_", ())),
        _plain(convergence),
        _settings_of(source),
        {"tacit": __version__, "numpy": np.__version__, "python": platform.python_version()},
        getattr(source, "cites_", ()),
    )


def _from_release(release: Release) -> Contents:
    settings = release.settings
    labels = settings.get("labels", {})
    settings = {name: value for name, value in settings.items() if name not in _FOR_LOADING}
    arrays = release.arrays
    posterior: tuple[Parameter, ...] = ()
    if {"coef", "coef_sd"} <= set(arrays):
        names = release.coords.get("feature", range(len(arrays["coef"])))
        posterior = _normals(names, arrays["coef"], arrays["coef_sd"])
    elif {"mean", "sd"} <= set(arrays):
        names = release.coords.get("parameter", range(1, len(arrays["mean"]) + 1))
        posterior = _normals(names, arrays["mean"], arrays["sd"])
    shown = {} if posterior else dict(arrays)
    if "topics" in shown and isinstance(settings.get("vocabulary"), list):  # a row for each word
        shown["topics"], labels = shown["topics"].T, {"topics": settings.pop("vocabulary")}
    return Contents(
        release.estimator,
        release.certificates,
        _factors(shown, labels),
        posterior,
        settings=settings,
        versions=release.manifest["versions"],
        cites=release.cites,
    )


def _normals(names: Any, means: Any, sds: Any) -> tuple[Parameter, ...]:
    return tuple(
        Parameter.summarised(str(name), float(mean), float(sd))
        for name, mean, sd in zip(names, means, sds, strict=False)
    )


def _factors(arrays: Mapping[str, Any], labels: Mapping[str, Any]) -> tuple[Factor, ...]:
    """Return vectors and matrices as factors; "item offset" has the names of "item"."""
    found = []
    for name, values in arrays.items():
        array = np.asarray(values)
        if array.ndim not in (1, 2) or len(array) < 2 or not array.size or name.startswith(_OWN):
            continue
        if not np.issubdtype(array.dtype, np.number) or not np.isfinite(array).all():
            continue
        members = labels.get(name) or labels.get(_ABOUT.get(name, name.split(" ")[0]))
        if members is not None and len(members) == len(array):
            found.append(Factor(name, array, tuple(key(name) for name in read_names(members))))
        else:
            found.append(Factor(name, array))
    return tuple(found)


def _factors_of(source: Any) -> tuple[Factor, ...]:
    if hasattr(source, "coef_sd_"):
        return ()
    for name in ("topics_", "means_", "components_"):
        if hasattr(source, name):
            array = np.asarray(getattr(source, name))
            words = getattr(source, "vocabulary_", None)
            names = None if words is None else tuple(key(word) for word in words)
            return (Factor(name.rstrip("_"), array.T, names),)
    for name in ("shared_factors_", "shared_", "factors_"):
        if hasattr(source, name):
            problem = getattr(source, "problem_", None)
            labels = getattr(source, "labels_", None) or getattr(problem, "labels", {})
            return _factors(getattr(source, name), labels)
    return ()


def _posterior_of(source: Any) -> tuple[Parameter, ...]:
    if hasattr(source, "coef_sd_"):
        return _normals(source.columns_, source.coef_, source.coef_sd_)
    posterior = getattr(source, "posterior_", None)
    if posterior is None or not hasattr(posterior, "names"):
        return ()
    return tuple(
        Parameter.sampled(name, posterior.draws[..., k]) for k, name in enumerate(posterior.names)
    )


def _settings_of(source: Any) -> dict[str, Any]:
    """Return the parameters that are not at their defaults; a ledger is no setting."""
    defaults = type(source)().get_params(deep=False) if _has_defaults(type(source)) else {}
    found = {}
    for name, value in source.get_params(deep=False).items():
        if name not in ("ledger", "checkpoint") and not _same(value, defaults.get(name, value)):
            found[name] = value
    if hasattr(source, "method_"):
        found["method used"] = source.method_
    return _plain(found)


def _has_defaults(kind: Any) -> bool:
    try:
        kind()
    except TypeError:
        return False
    return True


def _same(value: Any, default: Any) -> bool:
    return value is default or repr(value) == repr(default)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as short text where they are not numbers or text."""
    out: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value = np.array2string(value, precision=4, threshold=12)
        out[name] = value if isinstance(value, str | int | float | bool) else repr(value)
    return out
