"""Accuracy against ε, from simulated, public or released numbers.

A score on private data is data: a report for others shows none. What was measured on the holder's
own data (``source="own"``) stands on the holder's own page only, marked as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.html import Html, join, table, tag
from tacit._core.pictures import Lines
from tacit.errors import ParameterError
from tacit.estimators.facts import Facts
from tacit.planning.simulations import error_of, kinds
from tacit.planning.yardsticks import yardstick
from tacit.report.drawing import number, short
from tacit.report.figures import figure

__all__ = ["Accuracy", "accuracy_section", "simulated_accuracy"]

_SOURCES = {
    "simulated": "Measured on simulated data, whose truth is known; nothing private was read.",
    "public": "Measured on public data; nothing private was read.",
    "released": "These scores were themselves released with noise, under the certificates here.",
    "own": "Measured on the holder's own private data: not for others.",
}


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
        Predictor whose error does not depend on ε → value: trivial ones, and those that are free,
        such as a member's own mean.
    note
        A sentence that says who wins.
    source
        What it was measured on: ``"simulated"`` or ``"public"`` data, numbers that were
        ``"released"`` with noise, or the holder's ``"own"`` private data, which a report for
        others refuses.

    Examples
    --------
    >>> Accuracy("RMSE", {"private": [(0.5, 1.0), (1.0, 0.8)]}, source="simulated").source
    'simulated'
    """

    metric: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    source: str = field(kw_only=True)

    def __post_init__(self) -> None:
        check("source", self.source, OneOf(*_SOURCES))
        if not any(self.series.values()):
            raise ParameterError("series must have a point (ε, value) of at least one method")
        for points in self.series.values():
            for epsilon, _ in points:
                check("epsilon of an accuracy", epsilon, Real(0, open_low=True))


def simulated_accuracy(
    kind: str,
    facts: Facts | None = None,
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 1.0, 3.0, 10.0),
    repeats: int = 3,
    seed: int = 0,
    plugins: Sequence[str] = (),
) -> Accuracy:
    """Return how good an estimator is at several ε on simulated data of a public size.

    Parameters
    ----------
    kind
        The short name of an estimator that can be planned with, such as ``"summary"``.
    facts
        What is public about the task: rows, sites, features. ε is taken from ``epsilons``.
    epsilons
        Where to measure.
    repeats, seed
        Simulations for each ε, and their seed.
    plugins
        Packages with families besides tacit's own.

    Examples
    --------
    >>> found = simulated_accuracy("summary", Facts(rows=500), epsilons=(0.1, 10.0))
    >>> (_, rough), (_, fine) = found.series["at this ε"]
    >>> fine < rough
    True
    """
    check("kind", kind, OneOf(*kinds(plugins)))
    check("repeats", repeats, Integer(2))
    stated = facts or Facts()
    measure = yardstick(kind, stated)
    errors = [
        (float(e), error_of(kind, replace(stated, epsilon=float(e)), repeats, seed, plugins)[0])
        for e in epsilons
    ]
    sites = f" over {stated.sites} sites" if stated.sites > 1 else ""
    note = (
        f"Means of {repeats} simulations with {stated.rows:,} rows{sites}, at δ = "
        f"{stated.delta:g}; real data may be easier or harder."
    )
    return Accuracy(
        f"{measure.metric} (lower is better)",
        {"at this ε": errors},
        {**measure.rivals, **measure.limits},
        f"{_verdict(errors, measure.rivals)} {note}",
        source="simulated",
    )


def _verdict(errors: Sequence[tuple[float, float]], rivals: Mapping[str, float]) -> str:
    if not rivals:
        return ""
    best = min(rivals, key=lambda name: rivals[name])
    wins = [epsilon for epsilon, error in errors if error < rivals[best]]
    if len(wins) == len(errors):
        return f"It beats “{best}” at every ε."
    if not wins:
        return f"It does not beat “{best}” at any ε."
    return f"It beats “{best}” at ε = {', '.join(number(e) for e in wins)} only."


def accuracy_section(accuracy: Accuracy | None) -> Html:
    """Return accuracy against ε, beside what trivial and free predictors give."""
    if accuracy is None:
        return Html()
    picture = Lines(
        "Accuracy against ε",
        "ε (more to the right is less private)",
        accuracy.metric,
        accuracy.series,
        accuracy.levels,
        logarithmic=True,
    )
    epsilons = sorted({x for points in accuracy.series.values() for x, _ in points})
    rows = [
        [short(name, 80), *(number(dict(points).get(e)) for e in epsilons)]
        for name, points in accuracy.series.items()
    ] + [
        [short(name, 80), *([number(level)] * len(epsilons))]
        for name, level in accuracy.levels.items()
    ]
    heads = ["predictor", *(f"ε = {number(e)}" for e in epsilons)]
    numbers = table(short(accuracy.metric, 120), heads, rows, numbers=len(epsilons))
    words = join([tag("p", _SOURCES[accuracy.source]), *_paragraph(accuracy.note)])
    drawn = figure(picture, numbers=False)
    return join([words, tag("div", drawn, numbers, class_="grid")])


def _paragraph(text: str) -> list[Html]:
    return [tag("p", text)] if text else []
