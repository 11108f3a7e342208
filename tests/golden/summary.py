"""`PrivateSummary`: both laws of noise, both relations, sites, sites that come later."""

from __future__ import annotations

import numpy as np

import tacit as tc

from .cases import Results, case, cases, fitted

BOUNDS = {"age": (0, 100), "dose": (-1, 3)}


def people(seed: int, rows: int = 300) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"age": rng.normal(50, 20, rows), "dose": rng.exponential(1.0, rows)}


def sites(count: int, first: int = 0) -> list[tc.Site]:
    return [tc.Site(f"site {k}", people(k, 100 + 10 * k)) for k in range(first, first + count)]


@cases(
    "summary",
    {
        "gaussian add-remove": {"delta": 1e-6},
        "gaussian replace": {"delta": 1e-6, "neighbours": "replace-one"},
        "laplace add-remove": {"bins": 4},
        "laplace replace": {"neighbours": "replace-one", "bins": 4},
        "grid": {"delta": 1e-6, "noise": "grid"},
        "mean only": {"statistics": ("mean",)},
        "sum and count replace": {
            "statistics": ("sum", "count"), "neighbours": "replace-one",
        },
        "public count": {"statistics": ("count",), "neighbours": "replace-one"},
        "quantiles": {"statistics": ("quantiles",), "delta": 1e-6, "quantiles": (0.1, 0.9)},
        "variance and histogram": {"statistics": ("variance", "histogram"), "delta": 1e-6},
        "sites": {"delta": 1e-6, "trust": "site", "data": sites(3)},
        "sites laplace replace": {
            "trust": "site", "neighbours": "replace-one", "data": sites(2),
            "statistics": ("mean", "variance"),
        },
    },
)  # fmt: skip
def summary(data=None, delta=0.0, neighbours=None, trust="central", **options) -> Results:
    privacy = tc.Privacy(1.0, delta, unit="row", neighbours=neighbours, trust=trust)
    model = tc.PrivateSummary(BOUNDS, **{"bins": 8, **options}, privacy=privacy, random_state=5)
    price = str(model.price())
    model.fit(people(0) if data is None else data)
    score = model.score(people(9)) if hasattr(model, "mean_") else None
    return fitted(model, price=price, score=score)


@cases("summary", {"no privacy": {}, "infinite": {"privacy": tc.Privacy(float("inf"))}})
def open_summary(privacy=None) -> Results:
    model = tc.PrivateSummary(BOUNDS, bins=8, privacy=privacy, random_state=5)
    return fitted(model.fit(people(0)))


@case("summary/added sites")
def added() -> Results:
    privacy = tc.Privacy(1.0, 1e-6, unit="row", trust="site")
    model = tc.PrivateSummary(BOUNDS, bins=8, privacy=privacy, random_state=5)
    return fitted(model.fit(sites(2)).add_sites(sites(2, first=2)))
