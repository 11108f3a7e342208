"""Every estimator with data of its own, and what it answers: the same with and without the data.

Run as a program it answers for releases that lie in a folder, in a process that has no data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tacit as tc
from tacit.data.reading import read_rows
from tacit.estimators.released_models import opened

ASKED = tc.Privacy(8.0, 1e-5)
SAMPLING: dict[str, Any] = {"chains": 1, "draws": 40, "warmup": 4}
ITEMS = [f"film {k}" for k in range(8)]
WORDS = ["ant", "bee", "cat", "dog", "eel"]


@dataclass(frozen=True)
class Subject:
    """A model, two data sets that differ in everything that is not public, and questions.

    Parameters
    ----------
    build
        Returns the estimator; takes ``random_state``.
    data
        Returns the data of a seed; what is public about them is always the same.
    answers
        What is asked of a model, fitted or read back.
    rows
        A table to predict for, as somebody would send it; None where nothing is predicted.
    """

    build: Callable[..., Any]
    data: Callable[[np.random.Generator], tuple[Any, ...]]
    answers: Callable[[Any], dict[str, Any]]
    rows: dict[str, Any] | None = None


def _several(rng: np.random.Generator) -> int:
    return int(rng.integers(280, 320))  # under add-remove their number is private


def _table(rng: np.random.Generator) -> tuple[Any, ...]:
    n = _several(rng)
    age, sex = rng.uniform(20, 90, n), rng.choice(["f", "m"], n)
    return ({"age": age, "sex": sex, "pressure": 90 + 0.5 * age + rng.normal(0, 3, n)},)


def _points(rng: np.random.Generator) -> tuple[Any, ...]:
    centres = np.array([[3.0, 0.0], [0.0, 3.0]])[rng.integers(0, 2, 20 * _several(rng))]
    return (centres + 0.3 * rng.standard_normal(centres.shape),)


def _documents(rng: np.random.Generator) -> tuple[Any, ...]:
    topics = np.array([[0.5, 0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.4, 0.3, 0.3]])
    kinds = rng.integers(0, 2, 10 * _several(rng))
    return ([[WORDS[w] for w in rng.choice(5, 6, p=topics[k])] for k in kinds],)


def _ratings(rng: np.random.Generator) -> tuple[Any, ...]:
    pattern = np.random.default_rng(7).random((40, 8)) < 0.6  # who rated what is public
    users, items = np.nonzero(pattern)
    values = rng.integers(1, 6, len(users)).astype(float)
    return ({"user": [f"u{u}" for u in users], "item": [ITEMS[i] for i in items],
             "rating": values},)  # fmt: skip


def _cells(rng: np.random.Generator) -> tuple[Any, ...]:
    n = _several(rng)
    users = [f"u{k // 5}" for k in range(n)]
    items = [ITEMS[(k * 3 + k // 5) % 8] for k in range(n)]
    return ({"user": users, "item": items, "rating": rng.uniform(1, 5, n)},)


def _matrix(rng: np.random.Generator) -> tuple[Any, ...]:
    X = rng.uniform(-1, 1, (_several(rng), 2))
    return X, (X[:, 0] > 0).astype(int)


def _labelled(rng: np.random.Generator) -> tuple[Any, ...]:
    X, y = _matrix(rng)
    return X, np.where(y, "yes", "no")


def _numbers(rng: np.random.Generator) -> tuple[Any, ...]:
    X, _ = _matrix(rng)
    return X, X @ [0.5, 0.3]


def _waits(rng: np.random.Generator) -> tuple[Any, ...]:
    return (rng.exponential(3.0, 400),)


def _tensor(rng: np.random.Generator) -> tuple[Any, ...]:
    v = np.eye(4)[:2] + 0.01 * rng.random((2, 4))
    return (np.einsum("k,ka,kb,kc->abc", np.array([3.0, 2.0]), v, v, v),)


COLUMNS = {
    "age": tc.number(20, 90), "sex": tc.category("f", "m"), "pressure": tc.number(60, 220),
}  # fmt: skip
OTHER = {"age": [30.0, 60.0], "pressure": [100.0, 160.0]}
ROWS = {"age": [30.0, 60.0], "sex": ["f", "m"]}
GRID = np.array([[0.1, 0.2], [-0.5, 0.9]])
TEXTS = [["ant", "bee", "ant"], ["dog", "eel"]]
OWN = {"film 1": 5.0, "film 2": 1.0}


def _law() -> Any:
    from tacit.posterior.numerics.populations.laws import Exponential

    return Exponential()


def _network(kind: str, **options: Any) -> Any:
    from tacit import networks as nn

    return getattr(nn, kind)(
        hidden=(3,), bounds=(-1, 1), rows=300, training=nn.Training(steps=3), privacy=ASKED,
        **options,
    )  # fmt: skip


def _interval(model: Any) -> dict[str, Any]:
    return {"mean": model.mean_, "sd": model.sd_, "interval": model.posterior_.interval(0.8)}


SUBJECTS: dict[str, Subject] = {
    "summary": Subject(
        lambda **o: tc.PrivateSummary(tc.Columns(COLUMNS), by="sex", bins=4, privacy=ASKED, **o),
        _table,
        lambda m: {"mean": m.mean_, "count": m.count_, "quantiles": m.quantiles_,
                   "noise": m.noise_sd_, "histogram": m.histogram_}),
    "regression": Subject(
        lambda **o: tc.PrivateLinearRegression(
            tc.Columns(COLUMNS), target="pressure", privacy=ASKED, chains=2, draws=50, warmup=50,
            **o),
        _table,
        lambda m: {"p": m.predict(ROWS, interval=0.9), "sd": m.coef_sd_,
                   "draws": m.posterior_.draws},
        ROWS),
    "logistic-regression": Subject(
        lambda **o: tc.PrivateLogisticRegression(
            tc.Columns(COLUMNS), target="sex", privacy=ASKED, draws=100, **o),
        _table,
        lambda m: {"p": m.predict_proba(OTHER, interval=0.9), "c": m.predict(OTHER),
                   "sd": m.coef_sd_, "draws": m.draws_},
        OTHER),
    "poisson-regression": Subject(
        lambda **o: tc.PrivatePoissonRegression(
            tc.Columns(COLUMNS), target="pressure", privacy=ASKED, draws=100, **o),
        _table,
        lambda m: {"p": m.predict(ROWS, interval=0.9), "sd": m.coef_sd_, "draws": m.draws_},
        ROWS),
    "mixture": Subject(
        lambda **o: tc.GaussianMixture(2, radius=5, features=2, privacy=ASKED, **o), _points,
        lambda m: {"p": m.predict_proba(GRID), "score": m.score(GRID), "edge": m.noise_edge_},
        {"0": [0.1, -0.5], "1": [0.2, 0.9]}),
    "topics": Subject(
        lambda **o: tc.SingleTopicModel(2, vocabulary=WORDS, unknown="drop", privacy=ASKED, **o),
        _documents,
        lambda m: {"p": m.transform([*TEXTS, ["yak", "ant", "ant"]]), "score": m.score(TEXTS),
                   "top": m.top_words(2), "edge": m.noise_edge_},
        {"document": ["a", "a", "b"], "word": ["ant", "bee", "dog"], "count": [2, 1, 1]}),
    "posterior": Subject(
        lambda **o: tc.PrivatePosterior(_law(), bounds=(0, 30), privacy=ASKED, **SAMPLING, **o),
        _waits, lambda m: {**_interval(m), "score": m.score([1.0, 2.0])}, {"value": [1.0, 4.0]}),
    "selector": Subject(
        lambda **o: tc.StatisticSelector(
            _law(), ["mean", "|x|^2"], bounds=(0, 30), first_share=0.5, parameters=[2.0],
            privacy=ASKED, **SAMPLING, **o),
        _waits, lambda m: {**_interval(m), "chosen": m.selected_.name}, {"value": [1.0, 4.0]}),
    "factorization": Subject(
        lambda **o: tc.PrivateFactorization(
            "user:k item:k", rank=2, bounds=(1, 5), entities={"item": ITEMS}, privacy=ASKED, **o),
        _cells,
        lambda m: {"film 3": m.factors("item")["film 3"], "offset": m.shared_["item offset"]},
        {"user": ["z"] * 4, "item": ITEMS[:4], "rating": [5.0, 1.0, None, None]}),
    "recommender": Subject(
        lambda **o: tc.PrivateRecommender((1, 5), items=ITEMS, rank=2, privacy=ASKED, **o),
        _ratings, lambda m: {"best": m.recommend(OWN, 3), "p": m.device(OWN).predict(ITEMS)},
        {"user": ["z"] * 3, "item": ITEMS[:3], "rating": [5.0, None, None]}),
    "network-classifier": Subject(
        lambda **o: _network("PrivateDropoutClassifier", classes=("no", "yes"), **o),
        _labelled,
        lambda m: {"p": m.predict_proba(GRID), "c": m.predict(GRID)},
        {"0": [0.1, -0.5], "1": [0.2, 0.9]}),
    "network-regressor": Subject(
        lambda **o: _network("PrivateDropoutRegressor", y_bounds=(-1, 1), **o), _numbers,
        lambda m: {"p": m.predict(GRID, return_sd=True)}, {"0": [0.1, -0.5], "1": [0.2, 0.9]}),
    "decomposition": Subject(
        lambda **o: tc.OrthogonalDecomposition(2, sensitivity=1e-6, privacy=ASKED, **o), _tensor,
        lambda m: {"components": m.components_, "eigenvalues": m.eigenvalues_}),
}  # fmt: skip


def plain(value: Any) -> Any:
    """Return answers as JSON has them; floats keep every bit."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    return value.item() if isinstance(value, np.generic) else value


def answered(name: str, model: Any) -> Any:
    """Return what a model answers, asked in Python and by a table."""
    subject = SUBJECTS[name]
    found = plain(subject.answers(model))
    if subject.rows is not None:
        found["table"] = plain(model._predict_table(read_rows(subject.rows), None, None))
    return found


if __name__ == "__main__":
    place = Path(sys.argv[1])
    print(json.dumps({p.name: answered(p.name, opened(p)[1]) for p in sorted(place.iterdir())}))
