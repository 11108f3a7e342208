"""`CoupledFactorization` over sites: least squares, Langevin dynamics, local counts."""

from __future__ import annotations

import math
import tempfile

import numpy as np

import tacit as tc
from tacit.factorization import AlternatingLeastSquares, Langevin, LocalCounts
from tacit.published.ermis2020 import RULES, PublishedLangevin

from .cases import Results, case, cases, fitted

BOUNDS = (1.0, 5.0)
CELLS = [[0, 1], [5, 3], [2, 0]]


def ratings(seed: int = 0, users: int = 30, items: int = 8) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = 3.2 + rng.normal(size=(users, 2)) @ rng.normal(size=(2, items))
    x = np.clip(np.round(x + 0.5 * rng.normal(size=x.shape)), *BOUNDS)
    x[rng.random(x.shape) > 0.6] = np.nan
    return x


def holders(count: int = 2, **more) -> list[tc.Site]:
    return [tc.Site(f"s{k}", ratings(k, **more)) for k in range(count)]


def predictions(model, cells=CELLS, relation=None) -> Results:
    return {site: model.predict(site, cells, relation=relation) for site in model.parts_}


# --- one matrix of values ---------------------------------------------------------------------

PLAIN = {"rounds": 4, "offsets": False}


@cases(
    "sites",
    {
        f"{name} {unit}": {"method": method, "unit": unit, "epsilon": epsilon}
        for unit in ("entry", "user")
        for name, method, epsilon in (
            ("auto", "auto", 1.0),
            ("als", "als", 1.0),
            ("offsets", "offsets", 1.0),
            ("als factors", AlternatingLeastSquares(factors=True), 10.0),
            ("als no pattern", AlternatingLeastSquares(factors=True, pattern=False), 10.0),
            ("als settings", AlternatingLeastSquares(rounds=1, factors=True, popular=5, clip=1.0,
                                                     prior_weight=3.0), 10.0),
            ("als covariance alone", AlternatingLeastSquares(rounds=0, factors=True), 10.0),
            ("langevin", Langevin(rounds=5), 4.0),
            ("langevin sampled", Langevin(rounds=5, sampling_rate=0.4), 4.0),
            ("langevin plain", Langevin(**PLAIN), 4.0),
            ("langevin descent", Langevin(**PLAIN, langevin=False), 4.0),
            ("langevin steps", Langevin(**PLAIN, step_size=0.02, decay=0.3, clip=0.5), 4.0),
            ("langevin settings", Langevin(**PLAIN, reach=0.3, burn_in=0.2, precision=2.0,
                                           limit=3 if unit == "user" else None), 4.0),
            ("langevin start", Langevin(**PLAIN, start={"item": np.full((8, 3), 0.3)}), 4.0),
        )
    }
    | {
        f"{name} replace": {"method": method, "unit": "user", "neighbours": "replace-one"}
        for name, method in (("als", "als"), ("langevin", Langevin(rounds=4)))
    }
    | {
        f"{name} {accountant}": {"method": method, "unit": "user", "accountant": accountant}
        for name, method in (("als", "als"), ("langevin", Langevin(rounds=3, sampling_rate=0.5)))
        for accountant in ("rdp", "zcdp", "advanced")
        if name == "als" or accountant != "advanced"
    }
    | {
        f"{name} {unit} central": {
            "method": method, "unit": unit, "trust": "central", "data": ratings(),
        }
        for name, method in (("als", "als"), ("langevin", Langevin(rounds=3)))
        for unit in ("entry", "user")
    }
    | {
        f"als {unit} {trust}": {"method": "als", "unit": unit, "trust": trust}
        for unit in ("entry", "user")
        for trust in ("aggregator", "local")
    }
    | {
        "als many users": {"method": "als", "unit": "user", "epsilon": 10.0,
                           "data": holders(2, users=600)},
        "langevin settings kl": {
            "method": Langevin(rounds=4, shape=1.5, mean=1.0, iterations=4), "unit": "user",
            "divergence": "kl",
        },
        "langevin entry kl": {"method": Langevin(rounds=4), "unit": "entry", "divergence": "kl"},
        "langevin dispersion": {"method": Langevin(**PLAIN), "unit": "user", "dispersion": 2.0},
        "items protected": {"method": "als", "unit": "user", "protected": "item",
                            "data": [tc.Site("s0", ratings())]},
    },
)  # fmt: skip
def matrix(
    method, unit, epsilon=1.0, neighbours=None, trust="site", data=None, **options
) -> Results:
    privacy = tc.Privacy(epsilon, 1e-5, unit=unit, neighbours=neighbours, trust=trust)
    model = tc.PrivateFactorization(
        "user:k item:k", rank=3, bounds=BOUNDS, method=method, **options, privacy=privacy,
        random_state=5,
    )  # fmt: skip
    data = holders() if data is None else data
    price = str(model.price(data)) if isinstance(data, list) else None
    model.fit(data)
    return fitted(model, predicted=predictions(model), price=price)


@cases(
    "sites",
    {
        f"{name} {text}": {"method": method, "privacy": privacy}
        for name, method in (("als", "als"), ("langevin", Langevin(rounds=4)))
        for text, privacy in (
            ("no privacy", None),
            ("infinite user", tc.Privacy(math.inf, unit="user", trust="site")),
            ("infinite entry", tc.Privacy(math.inf, unit="entry", trust="site")),
        )
    },
)
def open_matrix(method, privacy) -> Results:
    model = tc.PrivateFactorization(
        "user:k item:k", rank=3, bounds=BOUNDS, method=method, privacy=privacy, random_state=5
    )
    return fitted(model.fit(holders()), predicted=predictions(model))


@cases(
    "sites",
    {
        f"published {rule} {level}": {"rule": rule, "level": level}
        for rule in RULES
        for level in ("entry", "site")
    },
)
def published(rule, level) -> Results:
    privacy = tc.Privacy(1.0, 1e-4, unit="entry", trust="site")
    model = tc.PrivateFactorization(
        "user:k item:k", rank=3, bounds=BOUNDS,
        method=PublishedLangevin(4, 0.3, rule=rule, level=level), privacy=privacy, random_state=5,
    )  # fmt: skip
    return fitted(model.fit(holders()), predicted=predictions(model))


@cases("sites", {"adopted": {"method": "als"}})
def adopted(method) -> Results:
    privacy = tc.Privacy(1.0, 1e-5, unit="user", trust="site")
    options = {"rank": 3, "bounds": BOUNDS, "method": method, "privacy": privacy}
    model = tc.PrivateFactorization("user:k item:k", **options, random_state=5)
    other = tc.PrivateFactorization("user:k item:k", **options, random_state=6)
    model.fit(holders())
    other.adopt([tc.Site("new", ratings(7))], model.shared_factors_)
    return predictions(other)


@cases("sites", {"resumed als": {"method": "als"}, "resumed langevin": {"method": Langevin(3)}})
def resumed(method) -> Results:
    privacy = tc.Privacy(1.0, 1e-5, unit="user", trust="site")
    with tempfile.TemporaryDirectory() as folder:
        model = tc.PrivateFactorization(
            "user:k item:k", rank=3, bounds=BOUNDS, method=method, checkpoint=folder,
            privacy=privacy, random_state=5,
        )  # fmt: skip
        model.fit(holders())
        again = fitted(model)
        model.fit(holders())  # all rounds are recorded
        return {"first": again, "again": model.shared_factors_}


# --- tensors and several relations ------------------------------------------------------------


def tensor(seed: int = 0, users: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).poisson(1.0, (users, 5, 3)).astype(float).clip(0, 4)


@cases(
    "sites",
    {
        f"{name} {unit} {divergence}": {
            "form": form, "shared": shared, "unit": unit, "divergence": divergence,
        }
        for name, form, shared in (
            ("tensor", "user:k place:k act:k", ["place"]),
            ("tensor whole", "user:k place:k act:k", ["place", "act"]),
            ("tucker", "user:k place:l act:m core:klm", ["place", "act", "core"]),
        )
        for unit in ("entry", "user")
        for divergence in ("euclidean", "kl")
    },
)  # fmt: skip
def tensors(form, shared, unit, divergence) -> Results:
    privacy = tc.Privacy(3.0, 1e-5, unit=unit, trust="site")
    model = tc.PrivateFactorization(
        form, rank=2, bounds=(0, 4), shared=shared, divergence=divergence,
        method=Langevin(rounds=3), privacy=privacy, random_state=5,
    )  # fmt: skip
    model.fit([tc.Site(f"s{k}", tensor(k, 6 + k)) for k in range(2)])
    return fitted(model, predicted=predictions(model, [[0, 1, 2], [5, 4, 0]]))


@cases("sites", {"coupled entry": {"unit": "entry"}, "coupled user": {"unit": "user"}})
def coupled(unit) -> Results:
    privacy = tc.Privacy(2.0, 1e-5, unit=unit, trust="site")
    forms = {"visits": "user:k place:k act:k", "gps": "user:k place:k", "poi": "place:k tag:k"}
    model = tc.PrivateFactorization(
        forms, rank=2, bounds=(0, 4), method=Langevin(rounds=3), privacy=privacy, random_state=5
    )
    rng = np.random.default_rng(3)
    gps = [rng.poisson(1.0, (n, 5)).clip(0, 4).astype(float) for n in (7, 6)]
    held = {"a": {"visits": tensor(0)}, "b": {"gps": gps[0]},
            "c": {"visits": tensor(1), "gps": gps[1]}}  # fmt: skip
    public = {"poi": tc.Relation.from_dense(("place", "tag"), rng.random((5, 4)))}
    model.fit([tc.Site(name, data) for name, data in held.items()], public=public)
    return fitted(model, predicted=model.predict("c", [[0, 1]], relation="gps"))


# --- local counts -----------------------------------------------------------------------------

SHORT = {"burn_in": 4, "draws": 4, "thin": 1}


def counts(seed: int, users: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.poisson(rng.gamma(1.0, 2.0, (users, 6))).clip(0, 20).astype(float)
    x[rng.random(x.shape) > 0.7] = np.nan
    return x


@cases(
    "local",
    {
        f"{views} {inference} {unit} {trust}": {
            "unit": unit, "trust": trust,
            "method": LocalCounts(views, inference, cells=3 if unit == "user" else None, **SHORT),
        }
        for views in ("perturbed", "own")
        for inference in ("exact", "naive")
        for unit in ("entry", "user")
        for trust in ("local", "site")
    }
    | {
        "auto": {"unit": "entry", "trust": "local", "method": "auto"},
        "prior": {"unit": "entry", "trust": "local",
                  "method": LocalCounts(shape=1.0, mean=1.5, **SHORT)},
    },
)  # fmt: skip
def local(method, unit, trust) -> Results:
    privacy = tc.Privacy(2.0, unit=unit, neighbours="replace-one", trust=trust)
    model = tc.PrivateFactorization(
        "user:k item:k", rank=2, divergence="kl", bounds=(0, 20), method=method, privacy=privacy,
        random_state=5,
    )  # fmt: skip
    model.fit([tc.Site("north", counts(0, 8)), tc.Site("south", counts(1, 6))])
    return fitted(model, predicted=predictions(model))


@case("local/no privacy")
def open_counts() -> Results:
    model = tc.PrivateFactorization(
        "user:k item:k", rank=2, divergence="kl", bounds=(0, 20), method=LocalCounts(**SHORT),
        random_state=5,
    )  # fmt: skip
    return fitted(model.fit([tc.Site("north", counts(0, 8)), tc.Site("south", counts(1, 6))]))


@cases("local", {"coupled perturbed": {"views": "perturbed"}, "coupled own": {"views": "own"}})
def coupled_counts(views) -> Results:
    privacy = tc.Privacy(3.0, unit="entry", trust="site")
    forms = {"visits": "user:k place:l act:m core:klm", "poi": "place:l kind:l",
             "calls": "user:k hour:k"}  # fmt: skip
    model = tc.PrivateFactorization(
        forms, rank=2, divergence="kl", bounds={"visits": (0, 5), "calls": (0, 9)},
        shared=("place", "core"), method=LocalCounts(views, **SHORT), privacy=privacy,
        random_state=5,
    )  # fmt: skip
    rng = np.random.default_rng(5)
    poi = tc.Relation.from_dense(("place", "kind"), rng.poisson(2.0, (5, 3)).astype(float))
    calls = tc.Relation.from_dense(("hour", "user"), rng.poisson(2.0, (6, 4)).astype(float))
    first = {"visits": rng.poisson(1.0, (4, 5, 2)).astype(float), "calls": calls}
    second = {"visits": rng.poisson(1.0, (7, 5, 2)).astype(float)}
    model.fit([tc.Site("a", first), tc.Site("b", second)], public={"poi": poi})
    return fitted(model, predicted=model.predict("b", [[6, 4, 1]], relation="visits"))
