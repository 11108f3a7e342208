"""Small fits on made-up data, one of each kind: what they compile is kept for all later ones.

Kernels are compiled for a processor and a version of Python, and kept beside the code or in the
user's folder; they cannot be shipped. `tacit warm-up` runs these fits once, so that nobody waits
later. Nothing is charged, and nothing is kept but the kernels.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tacit._core.rng import generator
from tacit.data.schema import Columns
from tacit.data.stating import boolean, number
from tacit.errors import MissingExtra
from tacit.estimators.site import Site
from tacit.privacy.guarantee import Privacy

__all__ = ["FITS", "warm_up"]

_ROWS = 400


def _table() -> dict[str, Any]:
    rng = generator(0, "warming up")
    a, b = rng.uniform(0, 1, (2, _ROWS))
    return {"a": a, "b": b, "y": np.clip(0.5 * a - 0.2 * b + rng.normal(0, 0.1, _ROWS), -2, 2)}


def _ratings(users: int = 60, items: int = 20) -> Any:
    rng = generator(0, "warming up")
    table = np.clip(np.round(rng.normal(3, 1, (users, items))), 1, 5)
    table[rng.random(table.shape) < 0.3] = np.nan
    return table


def _summary() -> None:
    from tacit.summary.estimator import PrivateSummary

    ranges = {"a": (0, 1), "b": (0, 1), "y": (-2, 2)}
    PrivateSummary(ranges, privacy=Privacy(1, 1e-6)).fit(_table())


def _regression() -> None:
    from tacit.regression.estimator import PrivateLinearRegression

    columns = Columns(a=number(0, 1), b=number(0, 1), y=number(-2, 2), target="y")
    for sites in (1, 2):
        held = [Site(str(k), _table()) for k in range(sites)]
        asked = Privacy(1, 1e-6, trust="site")
        model = PrivateLinearRegression(columns, privacy=asked, chains=1, draws=50, warmup=50)
        model.fit(held)


def _generalised(link: str) -> None:
    from tacit.regression.generalised import PrivateLogisticRegression, PrivatePoissonRegression

    table, ranges = _table(), {"a": number(0, 1), "b": number(0, 1)}
    kind: Any
    target: Any
    if link == "logistic":
        kind, target = PrivateLogisticRegression, boolean()
        table["y"] = table["y"] > 0
    else:
        kind, target = PrivatePoissonRegression, number(0, 2)
        table["y"] = np.round(np.clip(table["y"], 0, 2))
    columns = Columns({**ranges, "y": target}, target="y")
    held = [Site(str(k), table) for k in range(2)]
    kind(columns, draws=100, privacy=Privacy(1, 1e-6, trust="site")).fit(held)


def _factorization(method: str, **more: Any) -> None:
    from tacit.factorization.together.estimator import PrivateFactorization

    asked = Privacy(5, 1e-5, unit=more.pop("unit", "user"), trust="site")
    model = PrivateFactorization(
        "user:k item:k", rank=3, bounds=(1, 5), method=method, privacy=asked, **more
    )
    model.fit([Site(name, _ratings()) for name in ("North", "South")])
    model.predict("North", [[0, 0]])


def _counts() -> None:
    from tacit.factorization.counts.method import LocalCounts
    from tacit.factorization.together.estimator import PrivateFactorization

    short = LocalCounts(burn_in=2, draws=2, thin=1)
    asked = Privacy(5, unit="entry", trust="local")
    PrivateFactorization(
        "user:k item:k", rank=3, bounds=(1, 5), divergence="kl", method=short, privacy=asked
    ).fit([Site(name, _ratings(20, 10)) for name in ("North", "South")])


def _coupled(divergence: str) -> None:
    from tacit.factorization.alone.estimator import CoupledFactorization

    CoupledFactorization("user:k item:k", rank=3, divergence=divergence).fit(_ratings())


def _recommender(method: str, **more: Any) -> None:
    from tacit.recommender.estimator import PrivateRecommender

    trust, delta = more.pop("trust", "aggregator"), more.pop("delta", 1e-5)
    asked = Privacy(5, delta, unit=more.pop("unit", "entry"), trust=trust)
    bounds = None if method == "implicit" else (1, 5)
    model = PrivateRecommender(bounds, method=method, rank=3, privacy=asked, **more)
    model.fit(_ratings()).recommend(0, 3)


def _topics() -> None:
    from tacit.moments.topics import SingleTopicModel

    rng = generator(0, "warming up")
    words = rng.poisson(0.7, (300, 10)) + 1
    for common in (None, "all"):
        more: dict[str, Any] = {} if common is None else {"common": common}
        asked = Privacy(50, 1e-4, unit="document")
        SingleTopicModel(2, privacy=asked, random_state=0, **more).fit(words)


def _mixture() -> None:
    from tacit.moments.mixture import GaussianMixture

    rng = generator(0, "warming up")
    samples = rng.normal(0, 1, (500, 3))
    GaussianMixture(2, radius=6, privacy=Privacy(50, 1e-5), random_state=0).fit(samples)


def _posterior(statistic: str) -> None:
    from tacit.posterior.estimator import PrivatePosterior
    from tacit.posterior.numerics.populations.laws import Exponential

    asked = Privacy(1, 1e-6, neighbours="replace-one")
    rng = generator(0, "warming up")
    waits = rng.exponential(3, 300)
    PrivatePosterior(
        Exponential(), statistic, bounds=(0, 30), privacy=asked, chains=1, draws=50, warmup=50
    ).fit(waits)


def _network() -> None:
    with contextlib.suppress(MissingExtra):
        from tacit.networks.regressor import PrivateDropoutRegressor
        from tacit.networks.training import Training

        columns = Columns(a=number(0, 1), b=number(0, 1), y=number(-2, 2), target="y")
        PrivateDropoutRegressor(
            columns=columns,
            hidden=(4,),
            rows=_ROWS,
            privacy=Privacy(5, 1e-5),
            training=Training(steps=3),
        ).fit(_table())


FITS: Mapping[str, Callable[[], None]] = {
    "summary": _summary,
    "regression": _regression,
    "logistic-regression": lambda: _generalised("logistic"),
    "poisson-regression": lambda: _generalised("poisson"),
    "factorization: als": lambda: _factorization("als"),
    "factorization: als, entries": lambda: _factorization("als", unit="entry"),
    "factorization: offsets": lambda: _factorization("offsets"),
    "factorization: sgld": lambda: _factorization("sgld"),
    "factorization: sgld, counts": lambda: _factorization("sgld", divergence="kl"),
    "factorization: local": _counts,
    "coupled factorization: euclidean": lambda: _coupled("euclidean"),
    "coupled factorization: kl": lambda: _coupled("kl"),
    "recommender": lambda: _recommender("heterogeneous"),
    "recommender: implicit": lambda: _recommender("implicit", unit="user"),
    "recommender: gd": lambda: _recommender("gd", unit="user", trust="local", delta=0.0),
    "topics": _topics,
    "mixture": _mixture,
    "posterior: mean": lambda: _posterior("mean"),
    "posterior: median": lambda: _posterior("median"),
    "network": _network,
}


def warm_up(only: str = "") -> Iterator[str]:
    """Run every small fit whose name holds a word; yield each name when it is done.

    Parameters
    ----------
    only
        A part of a name; all unless given.
    """
    for name, fit in FITS.items():
        if only not in name:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of data that are too few, on purpose
            fit()
        yield name
