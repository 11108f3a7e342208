"""What a report shows, gathered from a fitted estimator or from a release.

What was learned is the estimator's own answer (`summary`), the same that a terminal and a notebook
show; nothing is guessed from the names of arrays.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._core.answers import LEVEL, Answer, Answering, Table
from tacit._core.pictures import Bars, Intervals, Picture
from tacit._version import __version__
from tacit.errors import ParameterError, TacitError
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.release import Release, read_release
from tacit.estimators.release.models import adopted
from tacit.estimators.released_models import kind_of
from tacit.privacy.certificate import Certificate

__all__ = ["Contents", "gather"]

_AGREED = 1.01  # chains with a larger R-hat have not met
# settings that only loading needs
_FOR_LOADING = ("labels", "sites", "releases", "privacy", "sampled_by", "names")


@dataclass(frozen=True)
class Contents:
    """Everything that a report may show; what is empty is left out.

    Attributes
    ----------
    estimator
        The name of its class.
    answer
        What was learned.
    certificates
        Holder → certificate; empty where nothing was promised.
    diagnostics
        How well chains met, as tables and pictures.
    training
        The objective on raw data over iterations: the holder's own.
    settings, versions, cites
        How it was made.
    date, purpose, contact
        What a release says about itself.
    """

    estimator: str
    answer: Answer
    certificates: Mapping[str, Certificate]
    diagnostics: Sequence[Table | Picture] = ()
    training: Sequence[float] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    cites: tuple[str, ...] = ()
    date: str = ""
    purpose: str = ""
    contact: str = ""


def gather(source: Any, level: float = LEVEL) -> Contents:
    """Return what there is to show of a release or a fitted estimator.

    Parameters
    ----------
    source
        The folder of a release, a `Release`, or whatever was fitted and has a `summary`. Only
        what was released is taken from an estimator over private data.
    level
        The probability that intervals are made for.
    """
    if isinstance(source, str | os.PathLike):
        release = read_release(source)
        return _from_release(release, lambda: kind_of(release).from_release(source), level)
    if isinstance(source, Release):
        return _from_release(source, lambda: _read_back(source), level)
    certificates = getattr(source, "certificates_", None)
    if certificates is None and hasattr(source, "certificate_"):
        certificates = {source.certificate_.holder or "the data": source.certificate_}
    if certificates is None and not getattr(source, "_has_answer", False):
        raise ParameterError(
            "a report needs a release that was read, or an estimator that was fitted: call fit"
        )
    answer = _answer_of(source, level)
    return Contents(
        type(source).__name__,
        answer,
        certificates or {},
        _diagnostics_of(source, answer),
        tuple(float(value) for value in _training_of(source)),
        _settings_of(source),
        {"tacit": __version__, "numpy": np.__version__, "python": platform.python_version()},
        tuple(getattr(source, "cites_", ())),
    )


def _from_release(
    release: Release, read: Callable[[], PrivateEstimator], level: float
) -> Contents:
    """Return what a release shows, through the estimator that it was made by if that is here."""
    manifest = release.manifest
    diagnostics: Sequence[Table | Picture] = ()
    try:
        model = read()
    except TacitError as error:
        answer = _without_model(release, error)
    else:
        answer = _answer_of(model, level)
        diagnostics = _diagnostics_of(model, answer)
    return Contents(
        release.estimator,
        answer,
        release.certificates,
        diagnostics,
        settings=_told(release.settings),
        versions=manifest["versions"],
        cites=release.cites,
        date=str(manifest.get("date", "")),
        purpose=str(manifest.get("purpose", "")),
        contact=str(manifest.get("contact", "")),
    )


def _read_back(release: Release) -> PrivateEstimator:
    """Return the estimator of a release, where nothing but the release is needed for it."""
    kind = kind_of(release)
    own = PrivateEstimator.from_release.__func__  # type: ignore[attr-defined]
    if kind.from_release.__func__ is not own:  # type: ignore[attr-defined]
        raise ParameterError("pass the folder of the release")
    model: PrivateEstimator = adopted(kind, release, "this")
    return model


def _without_model(release: Release, error: TacitError) -> Answer:
    """Return what is known of a release whose estimator is not here: which arrays it has."""
    sizes = {name: np.shape(array) for name, array in release.arrays.items()}
    arrays = Table(
        "arrays",
        "Released arrays",
        {
            "array": list(sizes),
            "size": [" × ".join(map(str, size)) or "one number" for size in sizes.values()],
        },
    )
    warning = f"What was learned cannot be shown in words here: {error}"
    learned = str(release.manifest.get("learned", ""))
    return Answer(release.estimator, learned, (arrays,), (warning,))


def _answer_of(source: Any, level: float) -> Answer:
    """Return the answer of an estimator; one from outside may have none."""
    found = Answer(type(source).__name__)
    if isinstance(source, Answering):
        with contextlib.suppress(TypeError):
            found = source.summary(level)
    return found


def _diagnostics_of(source: Any, answer: Answer) -> Sequence[Table | Picture]:
    """Return how far chains agree, from the answer's own tables, and how long it took."""
    told: list[Table | Picture] = []
    for part in (answer.tables, *answer.details.values()):
        for table in () if isinstance(part, str) else part:
            told += _mixing(table)
    rounds = getattr(getattr(source, "record_", None), "rounds", None)
    rows = {"rounds of messages": rounds} if isinstance(rounds, int) else {}
    rows |= {
        words: getattr(source, name)
        for name, words in (("n_iter_", "iterations"), ("converged_", "settled"))
        if hasattr(source, name)
    }
    if rows:
        cells = {"what": list(rows), "value": [str(value) for value in rows.values()]}
        told.append(Table("run", "How it was computed", cells))
    return told


def _mixing(table: Table) -> list[Picture]:
    """Return pictures of R-hat and effective draws, where a table of parameters has them."""
    names = [str(name) for name in next(iter(table.columns.values()), ())]
    told: list[Picture] = []
    if hats := table.columns.get("R-hat"):
        axis = f"1 where chains agree; dashed: {_AGREED}, the largest that will do"
        told.append(Intervals("R-hat of every parameter", axis, names, hats, hats, hats, _AGREED))
    if effective := table.columns.get("effective draws"):
        told.append(Bars("Effective draws", "independent draws they are worth", names, effective))
    return told


def _training_of(source: Any) -> Sequence[float]:
    history = list(getattr(source, "history_", ()))
    return history if all(isinstance(value, int | float) for value in history) else ()


def _settings_of(source: Any) -> dict[str, Any]:
    """Return what a release would state; of an estimator without one, its plain parameters."""
    if isinstance(source, PrivateEstimator):
        return _told(source._settings())
    given = source.get_params(deep=False) if hasattr(source, "get_params") else {}
    return {
        name: value
        for name, value in given.items()
        if isinstance(value, str | int | float | bool) and name not in ("ledger", "checkpoint")
    }


def _told(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in _FOR_LOADING}
