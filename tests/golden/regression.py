"""`PrivateLinearRegression`: every method, statistic, bound, relation and published noise."""

from __future__ import annotations

import math

import numpy as np

import tacit as tc
from tacit.published.alparslan2023 import ThesisRegression
from tacit.published.alparslan2023_averaged import AveragedRegression
from tacit.regression.numerics.moments import Prior

from .cases import Results, case, cases, fitted

PAIRS = [(-10, 30), (980, 1040), (0, 1)]
NAMED = {"AT": (-10, 30), "AP": (980, 1040), "share": (0, 1)}
RESPONSE = (580.0, 700.0)
SHORT = {"chains": 2, "draws": 30, "warmup": 30}
# what a method does not read is refused
READ = {"OLS": (), "adaSSP": (), "conjugate": ("chains", "draws"),
        "Bayes-fixedS-fast": ("chains", "draws")}  # fmt: skip


def short(method: str) -> dict[str, int]:
    return {name: SHORT[name] for name in READ.get(method, tuple(SHORT))}


def rows(seed: int = 0, count: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    low, high = np.array(PAIRS, float).T
    x = rng.uniform(low, high, (count, 3))
    return x, 450 + x @ [-1.5, 0.2, 8.0] + rng.normal(0, 3.0, count)


def sites(count: int = 3, first: int = 0) -> list[tc.Site]:
    return [tc.Site(f"S{k}", rows(k, 300 + 20 * k)) for k in range(first, first + count)]


def table(seed: int) -> dict[str, np.ndarray]:
    x, y = rows(seed)
    return {**dict(zip(NAMED, x.T, strict=True)), "y": y}


METHODS = ("auto", "MCMC-normalX", "MCMC-fixedS", "Bayes-fixedS-fast", "adaSSP", "MCMC-B&S")


@cases(
    "regression",
    {method: {"method": method} for method in METHODS}
    | {f"{method} replace": {"method": method, "neighbours": "replace-one"} for method in METHODS}
    | {f"{method} sites": {"method": method, "data": sites()} for method in METHODS}
    | {
        f"{method} {statistics}": {"method": method, "statistics": statistics}
        for method in METHODS
        for statistics in ("Sz", "Szu")
        if not (method == "MCMC-B&S" and statistics == "Sz")
    }
    | {
        "no intercept": {"intercept": False},
        "no intercept replace": {"intercept": False, "neighbours": "replace-one"},
        "clip": {"clip": 1.1},
        "grid": {"noise": "grid"},
        "averaged rows": {"rows_per_group": 4, "neighbours": "replace-one"},
        "prior": {"prior": Prior(sd=2.0, noise_shape=3.0, noise_scale=0.1)},
        "prior fixedS": {"prior": Prior(sd=2.0), "method": "Bayes-fixedS-fast"},
        "named": {"bounds": NAMED, "target": "y", "data": table(1)},
        "named sites": {
            "bounds": NAMED, "target": "y", "method": "Bayes-fixedS-fast",
            "data": [tc.Site("A", table(1)), tc.Site("B", table(2))],
        },
        "sites replace": {"neighbours": "replace-one", "data": sites(2)},
    },
)  # fmt: skip
def regression(data=None, method="auto", bounds=None, neighbours=None, **options) -> Results:
    privacy = tc.Privacy(1.0, 1e-6, unit="row", neighbours=neighbours, trust="site")
    made = AveragedRegression if "rows_per_group" in options else tc.PrivateLinearRegression
    model = made(
        method, bounds=PAIRS if bounds is None else bounds, y_bounds=RESPONSE, **options,
        **short(method), privacy=privacy, random_state=5,
    )  # fmt: skip
    price = str(model.price())
    model.fit(rows() if data is None else data)
    new = rows(9, 4)[0]
    found = model.predict(new)
    if np.isfinite(model.coef_sd_).all():
        found = model.predict(new, return_sd=True, interval=0.9)
    return fitted(model, predicted=found, price=price)


@cases(
    "regression",
    {
        "norm": {},
        "norm replace": {"neighbours": "replace-one"},
        "norm Sz": {"statistics": "Sz", "method": "Bayes-fixedS-fast"},
    },
)
def norm(method="auto", neighbours=None, **options) -> Results:
    privacy = tc.Privacy(1.0, 1e-6, unit="row", neighbours=neighbours)
    model = tc.PrivateLinearRegression(
        method, bounds=2.0, y_bounds=2.0, **options, **short(method), privacy=privacy,
        random_state=5,
    )  # fmt: skip
    x = np.random.default_rng(0).normal(size=(500, 2))
    x /= np.linalg.norm(x, axis=1)[:, None]
    return fitted(model.fit(x, x @ [1.0, -1.0]))


@cases(
    "regression",
    {
        f"{method} {text}": {"method": method, "privacy": privacy}
        for method in ("OLS", "conjugate", "auto")
        for text, privacy in (
            ("without privacy", None),
            ("infinite", tc.Privacy(math.inf, neighbours="replace-one")),
        )
    },
)
def exact(method, privacy) -> Results:
    model = tc.PrivateLinearRegression(
        method, bounds=PAIRS, y_bounds=RESPONSE, **short(method), privacy=privacy, random_state=5
    )
    return fitted(model.fit(*rows()))


@cases(
    "regression",
    {
        f"published {method} {statistics}": {"method": method, "statistics": statistics}
        for method, statistics in (
            ("Bayes-fixedS-fast", "Sz"), ("MCMC-fixedS", "Sz"), ("MCMC-normalX", "Sz"),
            ("adaSSP", "Sz"), ("MCMC-B&S", "Szu"),
        )
    },
)  # fmt: skip
def published(method, statistics) -> Results:
    privacy = tc.Privacy(1.0, 1 / 7654, unit="row", trust="site")
    model = ThesisRegression(method, **short(method), privacy=privacy, random_state=5)
    assert model.statistics == statistics
    return fitted(model.fit(sites()))


@case("regression/excluded site")
def excluded() -> Results:
    privacy = tc.Privacy(1.0, 1e-6, unit="row", trust="site")
    model = tc.PrivateLinearRegression(
        bounds=PAIRS, y_bounds=RESPONSE, on_failure="exclude", **SHORT, privacy=privacy,
        random_state=5,
    )  # fmt: skip
    return fitted(model.fit([*sites(2), tc.Site("East", (np.ones((5, 2)), np.ones(5)))]))


@case("regression/pieces")
def pieces() -> Results:
    privacy = tc.Privacy(1.0, 1e-6, unit="row")
    model = tc.PrivateLinearRegression(
        bounds=NAMED, y_bounds=RESPONSE, target="y", **SHORT, privacy=privacy, random_state=5
    )
    return fitted(model.fit(iter([table(1), table(2)])))


@case("regression/added sites and mailed summaries")
def mailed() -> Results:
    privacy = tc.Privacy(1.0, 1e-6, unit="row", trust="site")
    options = {"bounds": PAIRS, "y_bounds": RESPONSE, **SHORT, "privacy": privacy}
    model = tc.PrivateLinearRegression("auto", **options, random_state=5)
    other = tc.PrivateLinearRegression("MCMC-fixedS", **options, random_state=6)
    model.fit(sites(2)).add_sites(sites(1, first=2))
    other.fit([*model.summaries_.values(), *sites(1, first=3)])
    return {"grown": fitted(model), "mailed": fitted(other)}
