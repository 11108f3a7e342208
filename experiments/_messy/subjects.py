"""Every estimator that reads tables, with small settings and seeded noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tacit as tc
from experiments._messy.visits import TESTS, Typed, stated
from tacit.data.reading import read_rows
from tacit.data.relations import Relation
from tacit.estimators.families import estimator_called

SEED, EPSILON, DELTA = 3, 5.0, 1e-5


@dataclass(frozen=True)
class Subject:
    """An estimator: which columns it reads, its settings, and how it is given a table.

    ``parameters`` are plain data, the same in Python and in a file. ``columns`` are those that
    `Columns` describes; ``entities`` name the columns of cells: entity → column.
    """

    name: str
    estimator: str
    parameters: dict[str, Any]
    columns: tuple[str, ...] = ()
    person: bool = True
    entities: tuple[tuple[str, str], ...] = ()
    value: str = ""
    labels: tuple[str, ...] = ()
    policies: bool = True  # whether it knows what to do about missing values
    drops: bool = True  # whether rows may be left out

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        own = (*self.columns, *(["patient"] if self.person and self.columns else ()))
        return own or (*(column for _, column in self.entities), self.value)

    def stated(self, policy: dict[str, Any]) -> dict[str, Any]:
        """Return its [columns]."""
        if self.entities:
            return dict(self.entities)
        return stated(self.columns, policy, self.person)

    def made(self, policy: dict[str, Any]) -> tuple[Any, Any]:
        """Return the estimator and the facts it states, as the command line makes them."""
        kind = estimator_called(self.estimator, ())
        own = dict(self.parameters)
        if self.labels:
            own["entities"] = {self.labels[0]: list(TESTS)}
        if self.columns:
            own["columns"] = self.stated(policy)
        parameters, facts = kind._stated(own)
        return self.light(kind(**parameters, privacy=tc.Privacy(EPSILON, DELTA))), facts

    def light(self, model: Any) -> Any:
        """Return the model with seeded noise and, where it trains, a short run."""
        if self.name in ("classifier", "network"):
            from tacit.networks import Training

            model.set_params(training=Training(steps=2, sampling_rate=0.5))
        return model.set_params(random_state=SEED)

    def given(self, model: Any, facts: Any, data: Any) -> Any:
        """Return what the estimator is fitted to."""
        if self.columns:
            return data
        if self.name == "topics":
            table = read_rows(data)
            where = {"table": table, "columns": dict(self.entities), "value": self.value}
            return model._tables({"data": where}, facts)
        read = Relation.read if _is_place(data) else Relation.from_frame
        names = [*dict(self.entities).values()]
        return read(data, names, self.value, labels={names[1]: TESTS})

    def clean(self, typed: Typed, policy: dict[str, Any]) -> Any:
        """Return the typed columns that it looks at, with those that name a record."""
        key = policy.get("key", ()) if self.columns else ()
        return {name: typed[name] for name in dict.fromkeys((*self.used, *key))}


def _is_place(data: Any) -> bool:
    return not hasattr(data, "columns") and not isinstance(data, dict)


def subjects() -> list[Subject]:
    """Return all of them."""
    cells = (("patient", "patient"), ("test", "test"))
    features = ("age", "dose", "sex", "ward", "treated")
    few = {"rows": 240, "hidden": []}
    return [
        Subject("summary", "PrivateSummary", {"statistics": ["count", "mean"]},
                ("age", "dose", "steps", "sex", "ward", "treated", "admitted")),
        Subject("keys", "PrivateSummary", {"statistics": ["count"]}, ("age", "job", "ward")),
        Subject("texts", "SingleTopicModel", {"topics": 2}, ("note",)),
        Subject("regression", "PrivateLinearRegression",
                {"target": "pressure", "method": "Bayes-fixedS-fast"}, (*features, "pressure")),
        Subject("classifier", "PrivateDropoutClassifier", {"target": "sex", **few},
                ("age", "dose", "sex")),
        Subject("network", "PrivateDropoutRegressor", {"target": "pressure", **few},
                ("age", "dose", "ward", "pressure")),
        Subject("mixture", "GaussianMixture", {"components": 2}, ("age", "dose")),
        Subject("posterior", "PrivatePosterior",
                {"population": {"name": "NormalMean", "sd": 20.0}, "statistic": "mean",
                 "chains": 1, "draws": 50, "warmup": 50},
                ("age",), person=False, drops=False),
        Subject("factorization", "PrivateFactorization",
                {"model": "patient:k test:k", "rank": 2, "bounds": [0, 10]}, entities=cells,
                value="result", labels=("test",), policies=False),
        Subject("recommender", "PrivateRecommender", {"bounds": [0, 10], "rank": 2,
                "items": list(TESTS)}, entities=(("user", "patient"), ("item", "test")),
                value="result", policies=False),
        Subject("topics", "SingleTopicModel", {"topics": 2, "vocabulary": list(TESTS)},
                entities=(("document", "patient"), ("word", "test")), value="n", policies=False),
    ]  # fmt: skip


def numbers(model: Any) -> dict[str, Any]:
    """Return every number that a fitted model shows to others."""
    return {name: np.asarray(value, np.float64) for name, value in model.shared_.items()}


def alike(found: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether two fits say the same.

    Noise is seeded and the same on both sides, so what is left of the difference is that of the
    exact sums behind the releases: none where the same rows were read, and at least one step of
    the grid where a single cell was read otherwise. What a fit computes from the same release is
    the same up to rounding, 1e-9 of the number: far below its stated uncertainty, which is that of
    the noise. Which values are named is a part of what is said.
    """
    common = set(found) & set(right)
    named = [{name for name in one if name.startswith("counts/")} for one in (found, right)]
    return (
        bool(common)
        and named[0] == named[1]
        and all(
            found[name].shape == right[name].shape
            and np.allclose(found[name], right[name], rtol=1e-9, atol=1e-9, equal_nan=True)
            for name in common
        )
    )
