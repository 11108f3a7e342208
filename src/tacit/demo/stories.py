"""Short demonstrations on simulated data: a statistician's table, a recommender, topics.

Each simulates data with a known truth, fits with privacy, says how far the private answer is from
the truth and what knowing nothing private would have given, and leaves a ledger, a release and a
report in its folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit._core.rng import generator
from tacit.data.schema import Columns
from tacit.data.split import hold_out_cells
from tacit.data.stating import category, number
from tacit.data.synthetic import simulated_ratings
from tacit.demo.folder import PURPOSE, make_room
from tacit.errors import ParameterError
from tacit.estimators.base import PrivateEstimator
from tacit.factorization.offsets.weights import PrivacyWeights
from tacit.moments.topics import SingleTopicModel
from tacit.privacy.guarantee import Privacy, shown_left
from tacit.privacy.ledger.ledger import Ledger
from tacit.recommender.estimator import PrivateRecommender
from tacit.report.page import write_report
from tacit.summary.estimator import PrivateSummary

__all__ = ["STORIES", "Scene", "Story", "run_story"]

LEDGER = "ledger.db"
_CEILING, _CEILING_DELTA = 1.5, 1e-5  # enough for one run at ε = 1
_SEED = 5


@dataclass(frozen=True)
class Scene:
    """Simulated data, the estimator that is fitted to them, and what is known of the truth."""

    model: PrivateEstimator
    data: Any
    findings: Callable[[Any], list[str]]  # of the fitted model, against the truth
    options: dict[str, Any] = field(default_factory=dict)  # of `fit`
    sized: tuple[Any, ...] = ()  # what the price depends on


@dataclass(frozen=True)
class Story:
    """A demonstration: what it is about, and its scene."""

    about: str
    scene: Callable[[], Scene]


def _table() -> Scene:
    """Residents of four regions; a table of means and counts by region."""
    rng, regions = generator(_SEED, "residents"), ("North", "East", "South", "West")
    where = rng.choice(4, 20_000, p=[0.4, 0.3, 0.2, 0.1])
    table = {
        "region": np.array(regions)[where],
        "age": np.clip(rng.normal(44.0 + 3.0 * where, 17.0), 18, 100),
        "income": np.clip(rng.lognormal(7.7 - 0.1 * where, 0.4), 0, 10_000),
    }
    columns = Columns(
        region=category(*regions), age=number(18, 100), income=number(0, 10_000, "€ a month")
    )
    privacy = Privacy(1.0, 1e-6)
    model = PrivateSummary(columns, by="region", statistics=("count", "mean"), privacy=privacy)

    def findings(fitted: PrivateSummary) -> list[str]:
        lines, overall = [], float(table["income"].mean())
        for k, region in enumerate(regions):
            truth = float(table["income"][where == k].mean())
            found = float(fitted.mean_["income"][region])
            lines.append(
                f"Mean income in the {region}: {found:,.0f} € a month; without noise {truth:,.0f}."
            )
        gap = [abs(float(table["income"][where == k].mean()) - overall) for k in range(4)]
        lines.append(
            "Publishing one figure for the whole country would be off by "
            f"{max(gap):,.0f} € in the region farthest from it."
        )
        return lines

    return Scene(model, table, findings)


def _recommender() -> Scene:
    """Ratings of films, some more private than others; recommendations on a device."""
    ratings = simulated_ratings(1500, 120, per_user=30, seed=_SEED)
    films = [f"Film {k:03d}" for k in range(120)]
    kept, cells, stars = hold_out_cells(ratings, 0.1, generator(_SEED, "held out"))
    weights = PrivacyWeights.drawn(1500, 120, generator(_SEED, "weights"))
    privacy = Privacy(1.0, 1e-5, unit="entry", trust="aggregator")
    model = PrivateRecommender((1, 5), items=films, rank=3, privacy=privacy)

    def findings(fitted: PrivateRecommender) -> list[str]:
        sums = np.bincount(kept.indices[:, 0], kept.values, 1500)
        own = (sums + 5 * 3.0) / (np.bincount(kept.indices[:, 0], minlength=1500) + 5)
        private = fitted.predict(cells, positions=True)
        error = float(np.sqrt(np.mean((private - stars) ** 2)))
        free = float(np.sqrt(np.mean((own[cells[:, 0]] - stars) ** 2)))
        first = ", ".join(f"{film} ({liking:.1f})" for film, liking in fitted.device(0).top(3))
        return [
            f"Held-out ratings are off by {error:.2f} stars (RMSE), by each user's own mean, "
            f"which needs no other user, by {free:.2f}.",
            f"User 0's own device, which sends nothing, recommends {first}.",
        ]

    return Scene(model, kept, findings, {"weights": weights}, sized=(kept,))


_THEMES = {
    "heart": ("chest", "pressure", "pulse", "arrhythmia", "beta-blocker", "echo"),
    "lungs": ("cough", "asthma", "inhaler", "smoking", "spirometry", "oxygen"),
    "sugar": ("insulin", "glucose", "diet", "thirst", "feet", "HbA1c"),
    "mood": ("sleep", "anxiety", "therapy", "worry", "fatigue", "mood"),
}
_COMMON = ("patient", "doctor", "tablet", "visit")


def _topics() -> Scene:
    """Notes of a clinic, each about one theme; topics of the whole corpus."""
    rng = generator(_SEED, "notes")
    vocabulary = [*dict.fromkeys(word for words in _THEMES.values() for word in words), *_COMMON]
    truth = np.full((len(_THEMES), len(vocabulary)), 0.002)
    for k, words in enumerate(_THEMES.values()):
        truth[k, [vocabulary.index(word) for word in words]] = rng.uniform(0.08, 0.2, len(words))
        truth[k, -len(_COMMON) :] = 0.05
    truth /= truth.sum(axis=1, keepdims=True)
    owner = rng.choice(len(_THEMES), 20_000, p=[0.35, 0.3, 0.2, 0.15])
    notes = [[vocabulary[w] for w in rng.choice(len(vocabulary), 8, p=truth[k])] for k in owner]
    model = SingleTopicModel(len(_THEMES), vocabulary=vocabulary, privacy=Privacy(1.0, 1e-6))

    def findings(fitted: SingleTopicModel) -> list[str]:
        distance = np.abs(truth[:, None] - fitted.topics_).sum(axis=2) / 2
        pooled = np.bincount(owner, minlength=len(_THEMES)) @ truth / len(owner)
        trivial = float(np.abs(truth - pooled).sum(axis=1).mean() / 2)
        named = [", ".join(words) for words in fitted.top_words(4)]
        return [
            *(f"Topic {k}: {words}." for k, words in enumerate(named, 1)),
            f"A topic's word probabilities are off by {distance.min(axis=1).mean():.3f} (total "
            f"variation); those of the whole corpus, which know no topic, by {trivial:.3f}.",
        ]

    return Scene(model, notes, findings)


STORIES = {
    "table": Story("a statistician publishes incomes and ages by region", _table),
    "recommender": Story("films are recommended on a device that sends nothing", _recommender),
    "topics": Story("a clinic publishes what its notes are about", _topics),
}


def run_story(
    name: str, folder: Path, *, fresh: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Run a demonstration, print what happens, write its ledger, release and report.

    A second run in a folder finds the budget spent, and is refused.

    Parameters
    ----------
    name
        One of `STORIES`.
    folder
        Where the result goes.
    fresh
        Whether the result of an earlier run is removed first.
    quiet
        Whether nothing is printed.
    """
    from rich.console import Console

    if name not in STORIES:
        raise ParameterError(f"there is no story {name!r}: choose from {', '.join(STORIES)}")
    console, story = Console(quiet=quiet, highlight=False, soft_wrap=True), STORIES[name]
    make_room(folder, LEDGER, fresh)
    console.print(f"[bold]{story.about[:1].upper()}{story.about[1:]} (simulated data)[/bold]")
    scene = story.scene()
    asked = scene.model._request()
    ledger = Ledger.open(
        folder / LEDGER,
        unit=None if asked is None else asked.unit,
        neighbours=None if asked is None else asked.neighbours,
        epsilon=_CEILING,
        delta=_CEILING_DELTA,
    )
    model = scene.model.set_params(ledger=ledger)
    cost = model.price(*scene.sized)
    console.print(f"[bold]What it costs, before any data is read[/bold]\n{cost}", markup=True)
    if not cost.affordable:
        console.print(
            f"\nThe budget is spent: every run charges the ledger in {folder}, as it would in "
            f"earnest. Run tacit demo {name} --fresh to start anew."
        )
        return {"refused": True}
    model.fit(scene.data, **scene.options)
    console.print("\n[bold]What was learned[/bold]")
    console.print(str(model.summary()), markup=False)
    lines = scene.findings(model)
    console.print("\n[bold]Against the truth, which a simulation knows[/bold]")
    console.print("\n".join(lines), markup=False)
    release = model.release(folder / "release", purpose=PURPOSE)
    report = write_report(
        model,
        folder / "report.html",
        ledgers={"the holder": ledger},
        title=f"{story.about[:1].upper()}{story.about[1:]}",
        summary=["The data are simulated, so that the truth is known.", *lines],
        purpose=PURPOSE,
    )
    left = ledger.remaining.epsilon
    console.print(
        f"\nThe ledger has ε = {shown_left(left, 4)} of {_CEILING:g} left. The report is in "
        f"{report}: open it in a browser.\nThe release is beside it: tacit verify {release}"
    )
    return {
        "refused": False,
        "report": str(report),
        "release": str(release),
        "remaining": left,
        "findings": lines,
    }
