"""Topics, mixtures and orthogonal tensors: certified and published, one holder and sites."""

from __future__ import annotations

import numpy as np

import tacit as tc
from tacit.published.imtiaz2017 import NoisyTopics

from .cases import Results, cases, fitted

WORDS = 6


def corpus(seed: int = 0, count: int = 600) -> np.ndarray:
    rng = np.random.default_rng(seed)
    topics = np.array([[0.5, 0.3, 0.2, 0, 0, 0], [0, 0, 0.1, 0.2, 0.3, 0.4]])
    return np.array([rng.multinomial(8, topics[k]) for k in rng.integers(0, 2, count)])


def points(seed: int = 0, count: int = 600) -> np.ndarray:
    rng = np.random.default_rng(seed)
    means = np.array([[3.0, 0, 1], [0, 3.0, -1]])
    return means[rng.integers(0, 2, count)] + 0.5 * rng.standard_normal((count, 3))


def sites(data) -> list[tc.Site]:
    return [tc.Site(name, data(k, 400)) for k, name in enumerate(("North", "South", "West"))]


GUARANTEES = {
    "central": {},
    "replace": {"neighbours": "replace-one"},
    "sites": {"trust": "site"},
    "sites replace": {"trust": "site", "neighbours": "replace-one"},
    "aggregator": {"trust": "aggregator"},
    "exclude": {"trust": "site", "on_failure": "exclude"},
    "share": {"share": 0.3, "restarts": 4, "iterations": 30},
}


@cases(
    "topics",
    GUARANTEES
    | {
        f"published {strategy}{' replace' if relation else ''}": {
            "made": NoisyTopics, "method": strategy, "neighbours": relation,
        }
        for strategy in ("agn", "avn", "dp-tpm")
        for relation in (None, "replace-one")
    },
)  # fmt: skip
def topics(neighbours=None, trust="central", made=tc.SingleTopicModel, **options) -> Results:
    privacy = tc.Privacy(10.0, 1e-5, unit="document", neighbours=neighbours, trust=trust)
    model = made(2, vocabulary=WORDS, **options, privacy=privacy, random_state=5)
    price = str(model.price())
    model.fit(corpus() if trust == "central" else sites(corpus))
    new = corpus(9, 10)
    return fitted(model, price=price, probability=model.predict_proba(new), score=model.score(new))


@cases(
    "topics", {"many words": {"trust": "site"}, "many words aggregator": {"trust": "aggregator"}}
)
def wide_topics(trust) -> Results:
    privacy = tc.Privacy(50.0, 1e-5, unit="document", trust=trust)
    model = tc.SingleTopicModel(2, vocabulary=530, privacy=privacy, random_state=5)
    wide = [
        tc.Site(site.name, np.pad(site.data, ((0, 0), (0, 530 - WORDS)))) for site in sites(corpus)
    ]
    return fitted(model.fit(wide))


@cases("topics", {"no privacy": {"data": corpus()}, "no privacy sites": {"data": sites(corpus)}})
def open_topics(data) -> Results:
    model = tc.SingleTopicModel(2, vocabulary=WORDS, random_state=5)
    return fitted(model.fit(data))


@cases("mixture", GUARANTEES | {"centre": {"centre": (0.5, 0.5, 0.0)}})
def mixture(neighbours=None, trust="central", **options) -> Results:
    privacy = tc.Privacy(20.0, 1e-5, unit="row", neighbours=neighbours, trust=trust)
    model = tc.GaussianMixture(
        2, radius=6.0, features=3, **options, privacy=privacy, random_state=5
    )
    price = str(model.price())
    model.fit(points() if trust == "central" else sites(points))
    new = points(9, 10)
    return fitted(model, price=price, probability=model.predict_proba(new), score=model.score(new))


@cases("mixture", {"no privacy": {"data": points()}, "no privacy sites": {"data": sites(points)}})
def open_mixture(data) -> Results:
    model = tc.GaussianMixture(2, radius=6.0, random_state=5)
    return fitted(model.fit(data))


def tensor() -> np.ndarray:
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0][:, :2]
    return np.einsum("k,ak,bk,ck->abc", [30.0, 20.0], vectors, vectors, vectors)


@cases(
    "orthogonal",
    {
        "k-norm": {},
        "gaussian": {"delta": 1e-6},
        "gaussian replace": {"delta": 1e-6, "neighbours": "replace-one"},
        "k-norm user": {"unit": "user", "restarts": 3, "iterations": 20},
    },
)
def orthogonal(delta=0.0, unit="row", neighbours=None, **options) -> Results:
    privacy = tc.Privacy(2.0, delta, unit=unit, neighbours=neighbours)
    model = tc.OrthogonalDecomposition(
        2, sensitivity=1.0, dimension=5, **options, privacy=privacy, random_state=5
    )
    return fitted(model.fit(tensor()), price=str(model.price()))


@cases("orthogonal", {"no privacy": {}, "whitened": {"second": True}})
def open_orthogonal(second=False) -> Results:
    model = tc.OrthogonalDecomposition(2, random_state=5)
    factors = np.random.default_rng(1).random((5, 2))
    third = np.einsum("k,ak,bk,ck->abc", [0.6, 0.4], factors, factors, factors)
    pairs = np.einsum("k,ak,bk->ab", [0.6, 0.4], factors, factors)
    return fitted(model.fit(third, pairs) if second else model.fit(tensor()))


@cases("orthogonal", {"factors": {"given": "factors"}, "function": {"given": "function"}})
def given_otherwise(given) -> Results:
    model = tc.OrthogonalDecomposition(2, dimension=5, random_state=5)
    weights, vectors = np.array([3.0, 2.0]), np.eye(5)[:2]

    def image(u):
        return (np.square(u @ vectors.T) * weights) @ vectors

    return fitted(model.fit((weights, vectors) if given == "factors" else image))


@cases("topics", {"excluded site": {"trust": "site"}, "excluded site replace": {
    "trust": "site", "neighbours": "replace-one"}})  # fmt: skip
def excluded(**guarantee) -> Results:
    privacy = tc.Privacy(10.0, 1e-5, unit="document", **guarantee)
    model = tc.SingleTopicModel(
        2, vocabulary=WORDS, on_failure="exclude", privacy=privacy, random_state=5
    )
    return fitted(model.fit([*sites(corpus), tc.Site("East", [["no number"]])]))
