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

__all__ = ["FITS", "warm_up"]

_ROWS = 400


def _table() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 1, (2, _ROWS))
    return {"a": a, "b": b, "y": np.clip(0.5 * a - 0.2 * b + rng.normal(0, 0.1, _ROWS), -2, 2)}


def _ratings(users: int = 60, items: int = 20) -> Any:
    rng = np.random.default_rng(0)
    table = np.clip(np.round(rng.normal(3, 1, (users, items))), 1, 5)
    table[rng.random(table.shape) < 0.3] = np.nan
    return table


def _summary() -> None:
    import tacit as tc

    ranges = {"a": (0, 1), "b": (0, 1), "y": (-2, 2)}
    tc.PrivateSummary(ranges, privacy=tc.Privacy(1, 1e-6)).fit(_table())


def _regression() -> None:
    import tacit as tc

    columns = tc.Columns(a=tc.number(0, 1), b=tc.number(0, 1), y=tc.number(-2, 2), target="y")
    for sites in (1, 2):
        held = [tc.Site(str(k), _table()) for k in range(sites)]
        asked = tc.Privacy(1, 1e-6, trust="site")
        model = tc.PrivateLinearRegression(columns, privacy=asked, chains=1, draws=50, warmup=50)
        model.fit(held)


def _factorization(method: str, **more: Any) -> None:
    import tacit as tc

    asked = tc.Privacy(5, 0.0 if method == "local" else 1e-5, unit=more.pop("unit", "user"),
                       trust="local" if method == "local" else "site")  # fmt: skip
    model = tc.PrivateFactorization(
        "user:k item:k", rank=3, bounds=(1, 5), method=method, privacy=asked, **more
    )
    model.fit([tc.Site(name, _ratings()) for name in ("North", "South")])
    model.predict("North", [[0, 0]])


def _counts() -> None:
    from tacit.factorization import LocalCounts

    short: Any = LocalCounts(burn_in=2, draws=2, thin=1)
    import tacit as tc

    asked = tc.Privacy(5, unit="entry", trust="local")
    tc.PrivateFactorization(
        "user:k item:k", rank=3, bounds=(1, 5), divergence="kl", method=short, privacy=asked
    ).fit([tc.Site(name, _ratings(20, 10)) for name in ("North", "South")])


def _coupled(divergence: str) -> None:
    import tacit as tc

    tc.CoupledFactorization("user:k item:k", rank=3, divergence=divergence).fit(_ratings())


def _recommender(method: str, **more: Any) -> None:
    import tacit as tc

    trust, delta = more.pop("trust", "aggregator"), more.pop("delta", 1e-5)
    asked = tc.Privacy(5, delta, unit=more.pop("unit", "entry"), trust=trust)
    bounds = None if method == "implicit" else (1, 5)
    model = tc.PrivateRecommender(bounds, method=method, rank=3, privacy=asked, **more)
    model.fit(_ratings()).recommend(0, 3)


def _topics() -> None:
    import tacit as tc

    words = np.random.default_rng(0).poisson(0.7, (300, 10)) + 1
    for common in (None, "all"):
        more = {} if common is None else {"common": common}
        asked = tc.Privacy(50, 1e-4, unit="document")
        tc.SingleTopicModel(2, privacy=asked, random_state=0, **more).fit(words)


def _mixture() -> None:
    import tacit as tc

    samples = np.random.default_rng(0).normal(0, 1, (500, 3))
    tc.GaussianMixture(2, radius=6, privacy=tc.Privacy(50, 1e-5), random_state=0).fit(samples)


def _posterior(statistic: str) -> None:
    import tacit as tc
    from tacit.posterior.numerics.populations.laws import Exponential

    asked = tc.Privacy(1, 1e-6, neighbours="replace-one")
    waits = np.random.default_rng(0).exponential(3, 300)
    tc.PrivatePosterior(
        Exponential(), statistic, bounds=(0, 30), privacy=asked, chains=1, draws=50, warmup=50
    ).fit(waits)


def _network() -> None:
    import tacit as tc

    with contextlib.suppress(tc.errors.MissingExtra):
        columns = tc.Columns(a=tc.number(0, 1), b=tc.number(0, 1), y=tc.number(-2, 2), target="y")
        tc.networks.PrivateDropoutRegressor(
            columns=columns, hidden=(4,), rows=_ROWS, privacy=tc.Privacy(5, 1e-5),
            training=tc.networks.Training(steps=3),
        ).fit(_table())  # fmt: skip


FITS: Mapping[str, Callable[[], None]] = {
    "summary": _summary,
    "regression": _regression,
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
