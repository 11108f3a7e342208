"""A small fit of every estimator to data with a hostile name, and every object that answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import tacit as tc
from tacit import networks as nn
from tacit.audit.attack import audit
from tacit.audit.canaries import audit_one_run
from tacit.data.synthetic import simulated_ratings
from tacit.estimators.facts import Facts
from tacit.factorization.counts.method import LocalCounts
from tacit.planning.choosing import price_of_choosing
from tacit.planning.search import plan
from tacit.planning.tuning import tune
from tacit.posterior.numerics.populations.laws import Exponential
from tacit.published.hua2015_hu2023 import GradientRecommender
from tacit.published.imtiaz2017 import NoisyTopics

HOSTILE = "<script>alert('x')</script>"
PRIVACY = tc.Privacy(4.0, 1e-5)
RNG = np.random.default_rng(7)
WORDS = ["ant", "bee", "cat", HOSTILE]
TOPICS = np.array([[0.6, 0.3, 0.05, 0.05], [0.05, 0.05, 0.3, 0.6]])
DOCUMENTS = RNG.multinomial(5, TOPICS[RNG.integers(0, 2, 3000)])
SAMPLES = np.array([[0.6, 0.0], [0.0, 0.6]])[RNG.integers(0, 2, 3000)] + 0.05 * RNG.normal(
    size=(3000, 2)
)
WAITS = RNG.exponential(3.0, 600)
CELLS = simulated_ratings(60, 10, per_user=5)
ITEMS = ["Alien", "Brazil", "Cube", "Dune", "Eden", "Fargo", "Gigi", "Heat", "Ikiru", HOSTILE]
RATINGS = {
    "user": [f"u{k}" for k in CELLS.indices[:, 0]],
    "item": [ITEMS[k] for k in CELLS.indices[:, 1]],
    "rating": CELLS.values,
}
X = RNG.uniform(-1, 1, (200, 2))
COLUMNS = {"dose": (-1, 1), HOSTILE: (-1, 1)}
TABLE = {"dose": X[:, 0], HOSTILE: X[:, 1], "y": X @ [0.5, 0.3]}
SAMPLING: dict[str, Any] = {"chains": 2, "draws": 60, "warmup": 20}


def _tensor() -> Any:
    tensor = np.zeros((3, 3, 3))
    tensor[0, 0, 0], tensor[1, 1, 1] = 900.0, 500.0
    return tensor


def _network(kind: Any, **more: Any) -> Any:
    return kind(
        hidden=(), bounds=(-1, 1), rows=200, training=nn.Training(steps=4), privacy=PRIVACY,
        **more,
    )  # fmt: skip


def _factorization(**more: Any) -> Any:
    return tc.PrivateFactorization(
        "user:k item:k", rank=2, entities={"item": ITEMS}, privacy=PRIVACY, **more
    )


# name → the estimator, what it is fitted to, and names of the caller, of which some are shown
ESTIMATORS: dict[str, Callable[[], tuple[Any, tuple[Any, ...], list[str]]]] = {
    "summary": lambda: (
        tc.PrivateSummary(COLUMNS, privacy=PRIVACY),
        ({"dose": X[:, 0], HOSTILE: X[:, 1]},),
        ["dose"],
    ),
    "regression": lambda: (
        tc.PrivateLinearRegression(
            columns=tc.Columns(**{**COLUMNS, "y": (-1, 1)}), target="y", privacy=PRIVACY,
            method="adaSSP",
        ),
        (TABLE,),
        ["dose"],
    ),
    "logistic": lambda: (
        tc.PrivateLogisticRegression(
            bounds={"dose": (-1, 1), HOSTILE: (-1, 1)}, classes=("ill", HOSTILE), target="state",
            privacy=PRIVACY,
        ),
        ({"dose": X[:, 0], HOSTILE: X[:, 1], "state": np.where(X[:, 0] > 0, "ill", HOSTILE)},),
        ["dose"],
    ),
    "poisson": lambda: (
        tc.PrivatePoissonRegression(
            columns=tc.Columns(**{**COLUMNS, "y": (0, 9)}), target="y", privacy=PRIVACY,
        ),
        ({**TABLE, "y": np.round(4.0 + 4.0 * TABLE["y"])},),
        ["dose"],
    ),
    "topics": lambda: (
        tc.SingleTopicModel(2, vocabulary=WORDS, privacy=PRIVACY),
        (DOCUMENTS,),
        ["ant", "cat"],
    ),
    "mixture": lambda: (
        tc.GaussianMixture(2, columns=tc.Columns(**COLUMNS), privacy=PRIVACY),
        ({"dose": SAMPLES[:, 0], HOSTILE: SAMPLES[:, 1]},),
        ["dose"],
    ),
    "tensor": lambda: (
        tc.OrthogonalDecomposition(2, sensitivity=1.0, privacy=PRIVACY),
        (_tensor(),),
        [],
    ),
    "posterior": lambda: (
        tc.PrivatePosterior(
            Exponential(), columns=tc.Columns(waits=tc.number(0, 30)), privacy=PRIVACY, **SAMPLING,
        ),
        ({"waits": WAITS},),
        ["waits", "mean"],
    ),
    "selector": lambda: (
        tc.StatisticSelector(
            Exponential(), ["mean", "|x|^2"], bounds=(0, 30), parameters=[3.0], privacy=PRIVACY,
            first_share=0.5, **SAMPLING,
        ),
        (WAITS,),
        ["mean"],
    ),
    "factorization": lambda: (_factorization(bounds=(1, 5)), (RATINGS,), ITEMS),
    "factorization by sgld": lambda: (
        _factorization(bounds=(1, 5), method="sgld"), (RATINGS,), ITEMS
    ),
    "factorization by local": lambda: (
        _factorization(bounds=(0, 5), divergence="kl", method=LocalCounts(
            burn_in=2, draws=6, thin=1)).set_params(privacy=tc.Privacy(4.0, trust="local")),
        ([tc.Site("here", RATINGS)],),
        ITEMS,
    ),
    "recommender": lambda: (
        tc.PrivateRecommender((1, 5), items=ITEMS, rank=2, privacy=PRIVACY),
        (RATINGS,),
        ITEMS,
    ),
    "recommender by gd": lambda: (
        tc.PrivateRecommender(
            (1, 5), items=ITEMS, rank=2, method="gd", privacy=tc.Privacy(4.0)),
        (RATINGS,),
        ITEMS,
    ),
    "classifier": lambda: (
        _network(nn.PrivateDropoutClassifier, classes=("ill", HOSTILE)),
        (X, np.where(X[:, 0] > 0, "ill", HOSTILE)),
        ["ill"],
    ),
    "regressor": lambda: (
        _network(nn.PrivateDropoutRegressor, y_bounds=(-1, 1)), (X, TABLE["y"]), []
    ),
    "published topics": lambda: (
        NoisyTopics(
            2, vocabulary=WORDS, privacy=tc.Privacy(0.9, 1e-4, unit="document")
        ),
        (DOCUMENTS,),
        ["ant"],
    ),
    "published recommender": lambda: (
        GradientRecommender(
            (1, 5), items=ITEMS, rank=2, privacy=tc.Privacy(4.0, 1e-5)
        ),
        (RATINGS,),
        ITEMS,
    ),
}  # fmt: skip


@cache
def fitted(name: str) -> Any:
    """Return a fitted estimator; nothing is seeded, so that it may be released."""
    model, data, _ = ESTIMATORS[name]()
    return model.fit(*data)


@cache
def objects() -> dict[str, Any]:
    """Return whatever else a person may ask what came out of it."""
    ledger = tc.Ledger.memory(epsilon=9.0, delta=1e-3)
    summary = tc.PrivateSummary({"x": (-1, 1)}, privacy=PRIVACY, ledger=ledger)
    summary.fit({"x": X[:, 0]})
    alone = tc.CoupledFactorization(
        "user:k item:k", rank=2, inference="gibbs", iterations=12, burn_in=2, thin=2,
        random_state=0,
    ).fit(RATINGS)  # fmt: skip
    tuned = _factorization(bounds=(1, 5))
    tuned.set_params(entities=None)
    bits = tc.PrivateSummary({"x": (0, 8)}, bins=8, statistics=("histogram",), privacy=PRIVACY)
    return {
        "a factorization of one holder": alone,
        "a posterior": fitted("posterior").posterior_,
        "a noisy statistic": fitted("posterior").released_,
        "a ranking": fitted("selector").ranking_,
        "a certificate": summary.certificate_,
        "a ledger": ledger,
        "a price": summary.price(),
        "a price of choosing": price_of_choosing(PRIVACY, 3),
        "a plan": plan("summary", "epsilon", 0.05, Facts(rows=500), repeats=2),
        "settings": tune(tuned, CELLS, {"rank": [1, 2]}, repeats=1),
        "an audit": audit(summary, runs=400),
        "an audit by canaries": audit_one_run(bits, lambda k: {"x": np.array([*k, 0.0]) + 0.5}, 8),
        "findings": summary.check({"x": [0.5, None]}),
    }
