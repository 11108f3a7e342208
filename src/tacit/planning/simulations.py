"""Simulations of a plan: data with a known truth through the real estimator at the real noise."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit._core.rng import generator
from tacit.data.synthetic import simulated_ratings, topic_documents
from tacit.errors import ParameterError
from tacit.privacy.guarantee import Privacy

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KINDS", "Facts", "error_of"]


@dataclass(frozen=True)
class Facts:
    """What is public about a task.

    Parameters
    ----------
    rows
        Rows, members or documents, of all sites together.
    sites
        Over how many sites they are spread.
    epsilon, delta
        The guarantee, per site.
    features
        Features of a regression, items of a factorization, words of a vocabulary.
    rank
        Of a factorization; topics.
    per_row
        Ratings per member, words per document.
    """

    rows: int = 2000
    sites: int = 1
    epsilon: float = 1.0
    delta: float = 1e-6
    features: int = 5
    rank: int = 3
    per_row: int = 10

    def __post_init__(self) -> None:
        for name in ("rows", "sites", "features", "rank", "per_row"):
            check(name, getattr(self, name), Integer(1))
        check("epsilon", self.epsilon, Real(0, open_low=True))
        check("delta", self.delta, Real(0, 1, open_high=True))
        if self.rows < self.sites:
            raise ParameterError(f"rows must be at least the number of sites, {self.sites}")


def error_of(kind: str, facts: Facts, repeats: int, seed: int) -> tuple[float, float]:
    """Return the mean simulated error and its standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too little signal is what a plan is there to find
        errors = np.array([KINDS[kind](facts, seed + k) for k in range(repeats)])
    return float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(repeats))


def _request(facts: Facts, unit: str, trust: str | None = None) -> Privacy:
    where = trust or ("site" if facts.sites > 1 else "central")
    return Privacy(facts.epsilon, facts.delta, unit=unit, trust=where)


def _split(facts: Facts, *arrays: Any) -> list[Any]:
    """Return the rows of every site."""
    parts = [np.array_split(array, facts.sites) for array in arrays]
    return list(zip(*parts, strict=True))


def _mean(facts: Facts, seed: int) -> float:
    from tacit.estimators.site import Site
    from tacit.estimators.summary import PrivateSummary

    rng = generator(seed, "plan")
    x = rng.uniform(-1.0, 1.0, facts.rows)
    sites = [Site(f"site {k}", {"x": part}) for k, (part,) in enumerate(_split(facts, x))]
    model = PrivateSummary({"x": (-1, 1)}, statistics=("mean",), noise="grid", random_state=seed,
                           privacy=_request(facts, "row"))  # fmt: skip
    return abs(float(model.fit(sites).mean_["x"]) - float(x.mean()))


def _regression(facts: Facts, seed: int) -> float:
    from tacit.estimators.regression import PrivateLinearRegression
    from tacit.estimators.site import Site

    rng = generator(seed, "plan")
    x = rng.uniform(-1.0, 1.0, (facts.rows, facts.features))
    slope = rng.standard_normal(facts.features)
    slope /= math.sqrt(float(slope @ slope))
    fitted = x @ slope / math.sqrt(3.0)
    y = fitted + rng.normal(0.0, 1.0 / 3.0, facts.rows)  # half of the variance is explained
    sites = [Site(f"site {k}", pair) for k, pair in enumerate(_split(facts, x, y))]
    model = PrivateLinearRegression(
        "Bayes-fixedS-fast", bounds=[(-1, 1)] * facts.features, y_bounds=(-1, 1), noise="grid",
        random_state=seed, privacy=_request(facts, "row"),
    )  # fmt: skip
    wrong = model.fit(sites).predict(x) - fitted
    return _rms(wrong) / float(fitted.std())


def _ratings(facts: Facts, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return ratings, those to learn from, and cells that were held out with their values."""
    from tacit.data.split import hold_out_cells

    per_user = min(facts.per_row, facts.features)
    ratings = simulated_ratings(facts.rows, facts.features, per_user=per_user, seed=seed)
    train, cells, values = hold_out_cells(ratings, 0.2, generator(seed, "held out"))
    return ratings, train, cells, values


def _own_means(train: Any, cells: Any) -> NDArray[np.float64]:
    """Return what a member's own shrunken mean predicts, which needs no privacy."""
    users, size = train.indices[:, 0], train.shape[0]
    mean = float(train.values.mean())
    counts = np.bincount(users, minlength=size)
    own = np.bincount(users, train.values - mean, size) / (counts + 2.0) + mean
    return np.asarray(own[cells[:, 0]])


def _rms(errors: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _factorization(facts: Facts, seed: int) -> float:
    from tacit.estimators.coupled import CoupledFactorization
    from tacit.estimators.tuning import tune

    ratings, train, cells, values = _ratings(facts, seed)
    model = CoupledFactorization(
        "user:k item:k", rank=facts.rank, bounds=(1, 5), divergence="euclidean",
        privacy=_request(facts, "user", "site"), random_state=seed,
    )  # fmt: skip
    found = tune(model, ratings, {"rank": [facts.rank]}, sites=facts.sites, repeats=1,
                 random_state=seed)  # fmt: skip
    return found.table[0][1] / _rms(values - _own_means(train, cells))


def _recommender(facts: Facts, seed: int) -> float:
    from tacit.data.split import members_of
    from tacit.estimators.recommender import PrivateRecommender

    _, train, cells, values = _ratings(facts, seed)
    raters = np.unique(train.indices[:, 0])  # who lost all ratings to the holdout has no device
    number = np.full(facts.rows, -1)
    number[raters] = np.arange(len(raters))
    kept = number[cells[:, 0]] >= 0
    cells, values = cells[kept].astype(np.int64), values[kept]
    cells[:, 0] = number[cells[:, 0]]
    train = members_of(train, "user", raters)
    model = PrivateRecommender((1, 5), rank=facts.rank, random_state=seed,
                               privacy=_request(facts, "entry", "aggregator"))  # fmt: skip
    return _rms(model.fit(train).predict(cells) - values) / _rms(values - _own_means(train, cells))


def _topics(facts: Facts, seed: int) -> float:
    from scipy.optimize import linear_sum_assignment

    from tacit.estimators.site import Site
    from tacit.estimators.topics import SingleTopicModel

    words = max(facts.features, facts.rank)
    documents, topics, _ = topic_documents(
        facts.rows, words, facts.rank, words=max(3, facts.per_row), seed=seed
    )
    ends = np.linspace(0, facts.rows, facts.sites + 1).astype(int).tolist()
    sites = [
        Site(f"site {k}", documents[start:stop])
        for k, (start, stop) in enumerate(itertools.pairwise(ends))
    ]
    model = SingleTopicModel(facts.rank, vocabulary=words, random_state=seed,
                             privacy=_request(facts, "document"))  # fmt: skip
    found = model.fit(sites).topics_
    far = 0.5 * np.abs(found[:, None, :] - topics[None, :, :]).sum(axis=2)
    return float(far[linear_sum_assignment(far)].mean())


KINDS: dict[str, Callable[[Facts, int], float]] = {
    "mean": _mean,
    "regression": _regression,
    "factorization": _factorization,
    "recommender": _recommender,
    "topics": _topics,
}
