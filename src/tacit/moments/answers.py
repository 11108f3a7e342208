"""What topics, Gaussians and eigenvectors say to a person: all of it from released numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit._core.answers import Answer, Table, shown_number
from tacit._core.arrays import Array
from tacit._core.estimates import estimates, few, intervals, strongest, texts
from tacit._core.pictures import HeatMap
from tacit.moments.numerics.spread import (
    JOINT,
    Errors,
    MomentNoise,
    joint_errors,
    mixture_errors,
    topic_errors,
)
from tacit.moments.numerics.whitening import noise_edge

__all__ = ["decomposition_answer", "mixture_answer", "topics_answer"]

NOISE, EIGENVALUES = "moment_noise", "eigenvalues"  # of a release, for the errors of the rest
_WORDS = 10  # of a topic in its table
_SHARE = (0.0, 1.0)
_UNKNOWN = "no standard error is known: the law of the noise is not part of what was released"
_TOPIC_NOTE = (
    "standard errors count the privacy noise, and sampling as if each document had three words: "
    "longer ones say more"
)
_JOINT_NOTE = (
    "standard errors count the privacy noise, and sampling as if documents were as long as is "
    "typical"
)
_MIXTURE_NOTE = (
    "standard errors count sampling and privacy noise, as far as Gaussians of this kind are right"
)


def noise_of(shared: Any) -> MomentNoise | None:
    """Return the noise of released moments, where a release tells it."""
    found = shared.get(NOISE)
    return None if found is None else MomentNoise(*(float(sd) for sd in np.ravel(found)))


def hidden_components(shared: Any, noise: MomentNoise | None, size: int, what: str) -> list[str]:
    """Return the warning that some components are guesses."""
    values = shared.get(EIGENVALUES)
    if values is None or noise is None or noise.second == 0.0:
        return []
    hidden = int((np.asarray(values) <= noise_edge(noise.second, size)).sum())
    if not hidden:
        return []
    return [f"{hidden} of {len(values)} {what} do not stand out of the noise: they are guesses."]


def topics_answer(
    topics: Array,
    weights: Array,
    documents: float,
    words: Sequence[Any],
    shared: Any,
    level: float,
) -> Answer:
    """Return topics with their most probable words.

    Parameters
    ----------
    topics, weights, documents
        What was learned: rows of word probabilities, their weights, how many documents.
    words
        What the words are called.
    shared
        What was released.
    level
        Of the intervals.
    """
    noise, labels = noise_of(shared), _numbered("topic", len(weights))
    found = None if noise is None else topic_errors(topics, weights, documents, noise)
    if JOINT in shared:
        found = joint_errors(shared)
    top = [np.argsort(-row, kind="stable")[:_WORDS].tolist() for row in topics]
    names = texts(words)
    note = (_UNKNOWN if found is None else _JOINT_NOTE if JOINT in shared else _TOPIC_NOTE,)
    about = [", ".join(names[k] for k in own[:5]) for own in top]
    heavy = estimates({"topic": labels}, "weight", weights, _part(found, "weights"), level, _SHARE)
    weighed = Table("topics", _caption("Topics", level, found), heavy | {"words": about}, note)
    places = [(k, word) for k, own in enumerate(top) for word in own]
    probable = Table(
        "words",
        _caption("Most probable words", level, found),
        estimates(
            {"topic": [labels[k] for k, _ in places], "word": [names[w] for _, w in places]},
            "probability",
            [topics[k, w] for k, w in places],
            None if found is None else [found.components[k, w] for k, w in places],
            level,
            _SHARE,
        ),
        note,
    )
    shown = list(dict.fromkeys(w for own in top for w in own[: max(2, 30 // len(top))]))[:40]
    warnings = hidden_components(shared, noise, topics.shape[1], "topics")
    if len(topics) > 1 and not np.ptp(topics, axis=0).max():
        warnings = [
            "No topic stands out of the noise: all of them are the words of all documents."
        ]
    return Answer(
        f"{len(weights)} topics over {len(names)} words",
        f"The heaviest of {len(weights)} topics has {_first(weights, found)} of about "
        f"{_many(documents, noise, topics.shape[1], found)} documents: "
        f"{few([names[k] for k in top[0][:3]])}.",
        (weighed, probable),
        tuple(warnings),
        pictures={
            "topics": HeatMap(
                "Topics by word",
                "probability",
                [names[w] for w in shown],
                labels,
                topics[:, shown].T.tolist(),
            ),
            "weights": intervals(weighed.caption, "share of documents", weighed, "weight"),
        },
    )


def mixture_answer(model: Any, level: float) -> Answer:
    """Return the Gaussians of a fitted `tacit.GaussianMixture`."""
    means, weights, shared = model.means_, model.weights_, model.shared_
    ball, inside = model._ball, model._ball.inward(model.means_)
    noise, labels = noise_of(shared), _numbered("component", len(weights))
    found = None
    if noise is not None:
        unit = model.variances_ / ball.radius**2
        found = mixture_errors(inside, weights, unit, model.rows_, noise, model._own)
    errors = None if found is None else ball.errors(found.components)
    names = texts(model.columns_) or _numbered("feature", means.shape[1])
    note = (_UNKNOWN if found is None else _MIXTURE_NOTE,)
    heavy = estimates(
        {"component": labels}, "weight", weights, _part(found, "weights"), level, _SHARE
    )
    where = Table(
        "means",
        _caption("Means", level, found),
        estimates(
            {"component": [one for one in labels for _ in names], "feature": names * len(labels)},
            "mean",
            means.ravel(),
            None if errors is None else errors.ravel(),
            level,
        ),
        note,
    )
    weighed = Table("components", _caption("Components", level, found), heavy, note)
    spreads, of = None, {"feature": names}
    if model.sd_.ndim == 2:
        of = {"component": [one for one in labels for _ in names], "feature": names * len(labels)}
    if found is not None:  # of a root: half the relative error of the square
        unit = np.maximum(model.variances_ / ball.radius**2, 1e-12)
        relative = np.asarray(found.variance / (2.0 * unit))
        relative = relative if relative.ndim == 2 else relative[:, None]
        relative = relative if model.sd_.ndim == 2 else relative[0]
        spreads = np.ravel(model.sd_ * relative).tolist()
    wide = Table(
        "spreads",
        _caption("Standard deviation within every component", level, found),
        estimates(of, "sd", np.ravel(model.sd_), spreads, level, (0.0, math.inf)),
        note,
    )
    return Answer(
        f"{len(weights)} Gaussians over {len(names)} features",
        f"The heaviest of {len(weights)} components has {_first(weights, found)} of about "
        f"{_rows(model.rows_, found)} rows; its mean is "
        f"{_listed(names, means[0], None if errors is None else errors[0])}.",
        (where, weighed, wide),
        tuple(hidden_components(shared, noise, len(names) + 1, "components")),
        pictures={
            "means": intervals("Means", "as measured", where, "mean"),
            "components": HeatMap(
                "Means relative to the public centre",
                "of the radius",
                names,
                labels,
                inside.T.tolist(),
            ),
            "weights": intervals("Weights", "share of rows", weighed, "weight"),
        },
    )


def decomposition_answer(
    values: Array, vectors: Array, noise: float | None, level: float
) -> Answer:
    """Return the components of a tensor.

    Parameters
    ----------
    values, vectors
        Eigenvalues, and components as rows.
    noise
        The standard deviation of the noise along every direction of the symmetric tensors; None
        where components are not orthonormal, and to first order nothing is known.
    level
        Of the intervals.

    Notes
    -----
    To first order noise E moves λ by E(v, v, v), whose standard deviation is that along a unit
    direction, and v by the part of E(I, v, v)/λ across v: along a unit vector u that is the noise
    along Sym(u⊗v⊗v), whose norm is 1/√3.
    """
    labels, size = _numbered("component", len(values)), vectors.shape[1]
    errors = entries = None
    notes = ("standard errors count the privacy noise, to first order: the tensor is as it was",)
    if noise is None:
        notes = ("no standard error: the tensor is taken as it is",)
    else:
        errors = [noise] * len(values)
        across = np.sqrt(np.maximum(0.0, 1.0 - np.square(vectors)))
        entries = noise / math.sqrt(3.0) / np.maximum(np.abs(values), 1e-300)[:, None] * across
    top = [(k, d) for k, row in enumerate(vectors) for d in strongest(row)]
    strong = Table(
        "eigenvalues",
        _caption("Eigenvalues", level, noise),
        estimates({"component": labels}, "eigenvalue", values, errors, level),
        notes,
    )
    parts = Table(
        "components",
        _caption("Largest and smallest entries", level, noise),
        estimates(
            {"component": [labels[k] for k, _ in top], "direction": [d + 1 for _, d in top]},
            "entry",
            [vectors[k, d] for k, d in top],
            None if entries is None else [entries[k, d] for k, d in top],
            level,
        ),
        notes,
    )
    weak = [] if noise is None else [labels[k] for k, v in enumerate(values) if abs(v) < 2 * noise]
    sure = "" if noise is None else f" ± {noise:.2g}"
    return Answer(
        f"{len(values)} components of a symmetric tensor of {size} directions",
        f"The strongest component has the eigenvalue {shown_number(values[0], noise)}{sure}.",
        (strong, parts),
        tuple([f"{few(weak)} may be nothing but noise."] if weak else []),
        pictures={
            "eigenvalues": intervals("Eigenvalues", "λ", strong, "eigenvalue", reference=0.0),
            "components": HeatMap(
                "Components", "entry", texts(range(1, size + 1)), labels, vectors.T.tolist()
            ),
        },
    )


def _numbered(what: str, count: int) -> list[str]:
    return [f"{what} {k}" for k in range(1, count + 1)]


def _caption(what: str, level: float, found: Any) -> str:
    return what if found is None else f"{what}, {100 * level:g} % intervals"


def _first(weights: Array, found: Errors | None) -> str:
    """Return the first weight in percent, with its standard error where one is known."""
    share = 100 * float(weights[0])
    if found is None:
        return f"{share:.3g} %"
    error = 100 * float(found.weights[0])
    return f"{shown_number(share, error)} ± {shown_number(error, error)} %"


def _part(found: Errors | None, name: str) -> Any:
    return None if found is None else getattr(found, name).tolist()


def _count(documents: float, noise: MomentNoise | None, size: int) -> str:
    """Return the number of documents; all entries of the noise enter it."""
    if noise is None or noise.second == 0.0:
        return shown_number(round(documents))
    error = noise.second * size
    return f"{shown_number(documents, error)} ± {shown_number(error, error)}"


def _many(documents: float, noise: MomentNoise | None, size: int, found: Errors | None) -> str:
    if noise is None and found is not None and found.number:
        error = found.number
        return f"{shown_number(documents, error)} ± {shown_number(error, error)}"
    return _count(documents, noise, size)


def _rows(rows: float, found: Errors | None) -> str:
    if found is None or found.number == 0.0:
        return shown_number(round(rows))
    return f"{shown_number(rows, found.number)} ± {shown_number(found.number, found.number)}"


def _listed(names: Sequence[str], values: Any, errors: Any, most: int = 3) -> str:
    """Return a few named numbers with their errors."""
    said = []
    for k, name in enumerate(names[:most]):
        error = None if errors is None else float(errors[k])
        sure = "" if error is None else f" ± {shown_number(error, error)}"
        said.append(f"{name} {shown_number(float(values[k]), error)}{sure}")
    more = "" if len(names) <= most else ", …"
    return ", ".join(said) + more
