"""Every private estimator of tacit, with ten settings each, small enough to be attacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tacit as tc
from tacit.factorization import AlternatingLeastSquares, Langevin, LocalCounts
from tacit.posterior.numerics.populations.laws import Bernoulli, Exponential, NormalVariance
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.published.hua2015_hu2023 import GradientRecommender
from tacit.published.imtiaz2017 import NoisyTopics
from tacit.published.imtiaz2017_mixture import NoisyMixture
from tacit.recommender.agreement import HeterogeneousOffsets
from tacit.recommender.local.every_item import ItemResponseGradient, ResponseGradient
from tacit.recommender.local.one_answer import LocalGradient

LEVELS = ((0.5, 1e-5), (1.0, 1e-6), (1.0, 1e-3), (2.0, 1e-5), (4.0, 1e-5))
PURE = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Subject:
    """An estimator and its settings.

    Parameters
    ----------
    name
        What is audited.
    build
        From a setting to an estimator.
    settings
        The ten settings.
    best
        Whether the attack on the worst neighbour is known to be the best there is.
    runs
        How many runs it takes; None: by ε.
    rows
        Rows and responses; the last of them is the canary, and its neighbour is without it.
    """

    name: str
    build: Callable[..., Any]
    settings: Sequence[dict[str, Any]]
    best: bool = False
    runs: int | None = None
    rows: tuple[Any, Any] | None = None


def _levels(*options: dict[str, Any], levels: Any = LEVELS) -> list[dict[str, Any]]:
    """Return all levels under all options: ten settings."""
    return [
        {"epsilon": epsilon, "delta": delta, **option}
        for option in options
        for epsilon, delta in levels
    ]


def _pure(*options: dict[str, Any]) -> list[dict[str, Any]]:
    return _levels(*options, levels=[(epsilon, 0.0) for epsilon in PURE])


BOTH = ({"neighbours": ADD_REMOVE}, {"neighbours": REPLACE})


def request(epsilon: float, delta: float, **words: Any) -> tc.Privacy:
    return tc.Privacy(epsilon, delta, **words)


def summary(epsilon: float, delta: float, **words: Any) -> Any:
    return tc.PrivateSummary(
        {"age": (0, 110)}, bins=8, noise="grid",
        statistics=("mean", "variance", "histogram") if delta else ("mean",),
        privacy=request(epsilon, delta, **words),
    )  # fmt: skip


def regression(epsilon: float, delta: float, statistics: str = "moments", **words: Any) -> Any:
    return tc.PrivateLinearRegression(
        method="adaSSP", bounds=[(-1, 1)] * 2, y_bounds=(-1, 1), statistics=statistics,
        noise="grid", privacy=request(epsilon, delta, **words),
    )  # fmt: skip


def generalised(epsilon: float, delta: float, kind: str, **words: Any) -> Any:
    more = {"classes": (0, 1)} if kind == "Logistic" else {"y_bounds": (0, 3)}
    return getattr(tc, f"Private{kind}Regression")(
        bounds=[(-1, 1)] * 2, rows=20, draws=100, privacy=request(epsilon, delta, **words), **more
    )


def factorization(
    epsilon: float, delta: float, method: Any, accountant: str = "pld", **words: Any
) -> Any:
    return tc.PrivateFactorization(
        "user:k item:k", rank=2, bounds=(1, 5), method=method,
        accountant=accountant, privacy=request(epsilon, delta, trust="site", **words),
    )  # fmt: skip


def counts(epsilon: float, delta: float, views: str = "perturbed", **words: Any) -> Any:
    return tc.PrivateFactorization(
        "user:k item:k", rank=2, divergence="kl", bounds=(0, 10),
        method=LocalCounts(views=views, burn_in=1, draws=1, thin=1),
        privacy=request(epsilon, delta, unit="entry", trust="local", **words),
    )  # fmt: skip


def topics(epsilon: float, delta: float, method: str | None = None, **words: Any) -> Any:
    privacy = request(epsilon, delta, unit="document", **words)
    if method is None:
        return tc.SingleTopicModel(2, vocabulary=2, privacy=privacy)
    return NoisyTopics(2, vocabulary=2, method=method, privacy=privacy)


def all_words(epsilon: float, delta: float, **words: Any) -> Any:
    privacy = request(epsilon, delta, unit="document", **words)
    return tc.SingleTopicModel(2, vocabulary=66, common="all", privacy=privacy)


def mixture(
    epsilon: float,
    delta: float,
    variances: str = "common",
    method: str | None = None,
    **words: Any,
) -> Any:
    privacy, features = request(epsilon, delta, **words), 2 if variances == "common" else 3
    if method is not None:
        return NoisyMixture(2, radius=3, features=2, method=method, privacy=privacy)
    return tc.GaussianMixture(2, radius=3, features=features, variances=variances, privacy=privacy)


def orthogonal(epsilon: float, delta: float, rank: int = 2, **words: Any) -> Any:
    return tc.OrthogonalDecomposition(
        rank, sensitivity=0.1, restarts=2, iterations=5, privacy=request(epsilon, delta, **words),
        dimension=rank,
    )  # fmt: skip


def posterior(
    epsilon: float, delta: float, statistic: str = "mean", mechanism: str = "auto", **words: Any
) -> Any:
    words = {"neighbours": REPLACE} | words
    bits = mechanism == "randomized-response"
    return tc.PrivatePosterior(
        Bernoulli() if bits else Exponential(), statistic, bounds=(0, 1) if bits else (0, 30),
        mechanism=mechanism, chains=1, draws=4, warmup=4, noise="grid",
        privacy=request(epsilon, delta, **words),
    )  # fmt: skip


def selector(epsilon: float, delta: float, candidates: Any = ("|x|", "|x|^2")) -> Any:
    return tc.StatisticSelector(
        NormalVariance(), list(candidates), bounds=(-10, 10), size=400, first_share=0.5,
        parameters=[2.0], chains=1, draws=40, warmup=4, noise="grid",
        privacy=request(epsilon, delta, neighbours=REPLACE),
    )  # fmt: skip


def offsets(epsilon: float, delta: float, **settings: Any) -> Any:
    return tc.PrivateRecommender(
        (1, 5), rank=2, method=HeterogeneousOffsets(**settings),
        privacy=request(epsilon, delta, unit="entry", trust="aggregator"),
    )  # fmt: skip


def local(epsilon: float, delta: float, trust: str = "local", **settings: Any) -> Any:
    return tc.PrivateRecommender(
        (1, 5), rank=1, method=LocalGradient(**settings),
        privacy=request(epsilon, delta, unit="user", trust=trust, neighbours=REPLACE),
    )  # fmt: skip


def responses(epsilon: float, delta: float, unit: str = "user", **settings: Any) -> Any:
    method = ResponseGradient if unit == "user" else ItemResponseGradient
    return tc.PrivateRecommender(
        (1, 5), rank=1, method=method(**settings),
        privacy=request(epsilon, delta, unit=unit, trust="local", neighbours=REPLACE),
    )  # fmt: skip


def published(epsilon: float, delta: float, kind: str, rank: int = 3) -> Any:
    asked = request(epsilon, delta, unit="entry", trust="aggregator")
    return GradientRecommender((1, 5), rank=rank, method=kind, privacy=asked, random_state=0)


def network(epsilon: float, delta: float, kind: str, **settings: Any) -> Any:
    from tacit import networks as nn  # the extra `nn`

    more = {"classes": (0, 1)} if kind == "Classifier" else {"y_bounds": (-1, 1)}
    # nothing is sampled, and the canary's gradient is longer than the clip at every step: small
    # steps keep it from being learned
    training = nn.Training(sampling_rate=1.0, steps=3, clip=0.01, step_size=1e-3, **settings)
    return getattr(nn, f"PrivateDropout{kind}")(
        hidden=(), bounds=(-1, 1), rows=3, training=training, privacy=request(epsilon, delta),
        **more,
    )  # fmt: skip


ALS = {"method": AlternatingLeastSquares(factors=True, popular=3, rounds=1)}
PLAIN_ALS = {"method": AlternatingLeastSquares(factors=False)}
SGLD = {"method": Langevin(rounds=3)}
HALF = {"method": Langevin(rounds=1, sampling_rate=0.5)}
QUARTER = {"method": Langevin(rounds=2, sampling_rate=0.25)}

SUBJECTS = (
    Subject("summary, Gaussian", summary, _levels(*BOTH), True),
    Subject("summary, Laplace", summary, _pure(*BOTH), True),
    Subject("linear regression, moments", regression, _levels(*BOTH), True),
    Subject("linear regression, S and z", regression,
            _levels(*({"statistics": "Sz", **b} for b in BOTH))),
    Subject("logistic regression", generalised,
            _levels(*({"kind": "Logistic", **b} for b in BOTH))),
    Subject("Poisson regression", generalised,
            _levels(*({"kind": "Poisson", **b} for b in BOTH))),
    Subject("least squares over sites, users", factorization,
            _levels({**ALS, "unit": "user"}, {**PLAIN_ALS, "unit": "user"}), True),
    Subject("least squares over sites, entries", factorization,
            _levels({**ALS, "unit": "entry"}, {**PLAIN_ALS, "unit": "entry"})),
    Subject("Langevin over sites, users", factorization,
            _levels({**SGLD, "unit": "user"},
                    {**SGLD, "unit": "user", "accountant": "zcdp"}), True),
    Subject("Langevin over sites, entries", factorization,
            _levels({**SGLD, "unit": "entry"},
                    {**SGLD, "unit": "entry", "accountant": "rdp"})),
    Subject("Langevin over sites, sampled users", factorization,
            _levels({**HALF, "unit": "user"}, {**QUARTER, "unit": "user"},
                    levels=((1.0, 1e-2), (2.0, 1e-2), (4.0, 1e-2), (4.0, 1e-3), (6.0, 1e-3))),
            best=True, runs=160_000),
    Subject("perturbed counts over sites", counts, _pure({}, {"views": "own"}), True),
    Subject("single topics", topics, _levels(*BOTH), True),
    Subject("topics of all words", all_words, _levels(*BOTH), runs=8000),
    Subject("mixture of Gaussians", mixture, _levels(*BOTH), True),
    Subject("mixture with variances of their own", mixture,
            _levels(*({"variances": "own", **b} for b in BOTH))),
    Subject("orthogonal decomposition, Gaussian", orthogonal, _levels(*BOTH), True),
    Subject("orthogonal decomposition, K-norm, one number", orthogonal,
            _pure(*({"rank": 1, **b} for b in BOTH)), True, 20_000),
    Subject("orthogonal decomposition, K-norm, four numbers", orthogonal, _pure(*BOTH), runs=8000),
    Subject("posterior, one number", posterior,
            _levels({"mechanism": "gaussian"}, {"mechanism": "laplace"}), True),
    Subject("posterior, each person", posterior,
            _pure({"trust": "local"},
                  {"trust": "local", "mechanism": "randomized-response"}), True),
    Subject("posterior, median", posterior,
            _levels({"statistic": "median |x|"}, {"statistic": "quantile 0.75 |x|"}), runs=8000),
    Subject("posterior, a private number of people", posterior,
            _levels({"neighbours": ADD_REMOVE},
                    {"neighbours": ADD_REMOVE, "mechanism": "laplace", "trust": "site"}), True),
    Subject("posterior, median of a private number of people", posterior,
            _levels({"neighbours": ADD_REMOVE, "statistic": "median |x|"},
                    {"neighbours": ADD_REMOVE, "statistic": "quantile 0.75 |x|"}), runs=8000),
    Subject("statistic selector", selector,
            _levels({}, {"candidates": ("|x|^2", "|x|")},
                    levels=[(e, d) for e, d in LEVELS if e >= 1] + [(8.0, 1e-5)]), True),
    Subject("recommender, certified offsets", offsets, _levels({}, {"clip": 2.0})),
    Subject("recommender, private GD", local,
            _pure({"rounds": 2}, {"rounds": 2, "participation": "once"})),
    Subject("recommender, private GD-DR", local,
            _pure({"rounds": 2, "dimensions": 3}, {"rounds": 2, "dimensions": 3,
                                                   "answer": "hybrid"}), runs=4000),
    Subject("recommender, shuffled GD", local,
            _levels({"rounds": 1, "trust": "shuffler", "participation": "once"},
                    {"rounds": 2, "trust": "shuffler"}), runs=2000),
    Subject("recommender, responses", responses,
            _pure({"rounds": 1}, {"rounds": 1, "unit": "entry"}), runs=8000),
    Subject("dropout classifier", network,
            _levels({"kind": "Classifier"}, {"kind": "Classifier", "method": "dp-sgd"}), True,
            rows=([[0.1, 0.2], [0.0, 0.1], [1.0, 1.0]], [0, 0, 1])),
    Subject("dropout regressor", network,
            _levels({"kind": "Regressor"}, {"kind": "Regressor", "method": "dp-sgd"}), True,
            rows=([[0.1, 0.2], [0.0, 0.1], [1.0, 1.0]], [0.0, 0.0, 1.0])),
    Subject("topics, AGN as published", topics,
            _levels(*({"method": "agn", **b} for b in BOTH))),
    Subject("topics, AVN as published", topics,
            _levels(*({"method": "avn", **b} for b in BOTH)), runs=1000),
    Subject("topics, DP-TPM as published", topics,
            _levels(*({"method": "dp-tpm", **b} for b in BOTH)), runs=4000),
    Subject("mixture, AGN as published", mixture,
            _levels(*({"method": "agn", **b} for b in BOTH))),
    Subject("recommender, HDPMF as published", published,
            _levels({"kind": "hdpmf"}, {"kind": "hdpmf", "rank": 5}), runs=2000),
    Subject("recommender, DPMF and PDPMF as published", published,
            _levels({"kind": "dpmf"}, {"kind": "pdpmf"}), runs=2000),
)  # fmt: skip
