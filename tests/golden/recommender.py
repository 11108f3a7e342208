"""`PrivateRecommender`: certified, gradients, local answers, responses, shuffled; over sites."""

from __future__ import annotations

import math

import numpy as np

import tacit as tc
from tacit.published.hua2015_hu2023 import GradientFactorization, GradientRecommender
from tacit.recommender import (
    HeterogeneousOffsets,
    ItemResponseGradient,
    LocalGradient,
    ResponseGradient,
)

from .cases import Results, cases, certificate, fitted

USERS, ITEMS = 60, 12
CELLS = [[0, 3], [7, 1], [59, 11]]


def ratings(seed: int = 0, users: int = USERS) -> tc.Relation:
    rng = np.random.default_rng(seed)
    x = 3.0 + rng.normal(size=(users, 2)) @ rng.normal(size=(2, ITEMS))
    x = np.clip(np.round(x), 1, 5)
    x[rng.random(x.shape) > 0.5] = np.nan
    x[:, 0] = 3.0  # nobody without a rating
    return tc.Relation.from_dense(("user", "item"), x)


def weights(users: int = USERS) -> tc.PrivacyWeights:
    rng = np.random.default_rng(1)
    return tc.PrivacyWeights(rng.uniform(0.1, 1.0, users), rng.uniform(0.3, 1.0, ITEMS))


def made(method, **options):
    """Return the recommender; settings in a dict are those of a published one."""
    if isinstance(method, dict):
        return GradientRecommender((1, 5), method=GradientFactorization(**method), **options)
    return tc.PrivateRecommender((1, 5), method=method, **options)


def outcome(model) -> Results:
    return fitted(
        model, predicted=model.predict(CELLS), top=model.device(1).top(3),
        one=certificate(model.certificate_of(0)),
    )  # fmt: skip


CERTIFIED = {
    "heterogeneous": "heterogeneous",
    "offsets": "offsets",
    "factors": HeterogeneousOffsets(factors=True),
    "no factors": HeterogeneousOffsets(factors=False, clip=0.8, prior_weight=5.0),
}


@cases(
    "recommender",
    {
        f"{name} {trust}": {"method": method, "trust": trust}
        for name, method in CERTIFIED.items()
        for trust in ("aggregator", "site", "central")
    }
    | {
        f"{name} weights": {"method": method, "trust": "aggregator", "weights": weights()}
        for name, method in CERTIFIED.items()
    }
    | {
        f"{kind}{' weights' if weighted else ''}": {
            "method": {"kind": kind, "epochs": 5}, "trust": "aggregator",
            "weights": weights() if weighted else None,
        }
        for kind in ("dpmf", "pdpmf", "hdpmf")
        for weighted in (False, True)
    }
    | {
        "hdpmf by name": {
            "method": {"kind": "hdpmf"}, "trust": "aggregator", "weights": weights(),
        },
        "hdpmf not rescaled": {
            "method": {"kind": "hdpmf", "epochs": 5, "rescale": False, "step_size": 0.01,
                       "ridge": 0.1},
            "trust": "aggregator", "weights": weights(),
        },
    },
)  # fmt: skip
def ratings_protected(method, trust, weights=None) -> Results:
    privacy = tc.Privacy(1.0, 1e-5, unit="entry", trust=trust)
    model = made(method, rank=3, privacy=privacy, random_state=5)
    price = str(model.price(ratings()))
    return outcome(model.fit(ratings(), weights=weights)) | {"price": price}


LOCAL = {
    "gd": {},
    "gd-dr": {"dimensions": 5},
    "gd piecewise": {"answer": "piecewise"},
    "gd hybrid": {"answer": "hybrid"},
    "gd once": {"participation": "once"},
    "gd-dr once offset": {"dimensions": 5, "participation": "once", "own_offset": True},
}


@cases(
    "recommender",
    {name: {"method": LocalGradient(rounds=4, **o)} for name, o in LOCAL.items()}
    | {
        f"{name} shuffled": {
            "method": LocalGradient(rounds=4, **o), "trust": "shuffler", "delta": 1e-5,
        }
        for name, o in LOCAL.items()
    }
    | {
        "gd by name": {"method": "gd"},
        "responses": {"method": ResponseGradient(rounds=3)},
        "responses settings": {
            "method": ResponseGradient(rounds=2, share=0.3, norm=3.0, own_offset=True,
                                       step_size=5.0),
        },
        "item responses": {"method": ItemResponseGradient(rounds=3), "unit": "entry"},
    },
)  # fmt: skip
def users_protected(method, unit="user", trust="local", delta=0.0) -> Results:
    privacy = tc.Privacy(4.0, delta, unit=unit, neighbours="replace-one", trust=trust)
    model = made(method, rank=2, privacy=privacy, random_state=5)
    users = 600 if trust == "shuffler" else USERS
    return outcome(model.fit(ratings(users=users)))


@cases(
    "recommender",
    {
        f"{name} no privacy": {"method": method}
        for name, method in (
            ("heterogeneous", "heterogeneous"), ("offsets", "offsets"),
            ("mf", {"kind": "mf", "epochs": 5}),
            ("mf offsets", {"kind": "mf", "epochs": 5, "offsets": True}),
            ("gd", "gd"), ("responses", "responses"), ("item-responses", "item-responses"),
        )
    }
    | {
        "heterogeneous infinite": {
            "method": "heterogeneous",
            "privacy": tc.Privacy(math.inf, unit="entry", trust="aggregator"),
        },
    },
)  # fmt: skip
def open_ratings(method, privacy=None) -> Results:
    model = made(method, rank=3, privacy=privacy, random_state=5)
    return outcome(model.fit(ratings(), weights=None))


@cases(
    "recommender",
    {
        f"{name} over sites {trust}{' weights' if weighted else ''}": {
            "method": method, "trust": trust, "weighted": weighted,
        }
        for name, method in CERTIFIED.items()
        for trust in ("site", "aggregator")
        for weighted in (False, True)
    },
)  # fmt: skip
def over_sites(method, trust, weighted) -> Results:
    privacy = tc.Privacy(1.0, 1e-5, unit="entry", trust=trust)
    model = made(method, rank=2, privacy=privacy, random_state=5)
    sites = [tc.Site(f"s{k}", ratings(k, 20 + 10 * k)) for k in range(3)]
    return outcome(model.fit(sites, weights=weights(90) if weighted else None))
