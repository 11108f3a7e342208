"""What ε, how many rows or how many sites a wanted accuracy needs; before any data is read.

A plan is a simulation on public facts: data with a known truth, of the size that is meant, go
through the real estimator at the real noise, and the error is looked at. What is searched for (ε,
rows or sites) is bracketed and halved on a logarithmic scale, with the same random numbers
throughout, so that the answer is that of one curve. Simulated data are a guess at the private
ones: a plan says what to expect where they resemble each other, and no more.

=============  =====================================================  ===========================
kind           what is simulated                                      error
=============  =====================================================  ===========================
mean           a column, uniform in its bounds                        of the mean, in half-ranges
regression     uniform features, half of the variance explained       of fitted values, relative to
                                                                      their spread
factorization  ratings with tastes (`simulated_ratings`)              held-out, relative to own
                                                                      means of members
recommender    the same, single ratings protected                     likewise
topics         documents of one topic each                            of word probabilities, mean
                                                                      total variation
=============  =====================================================  ===========================

**Choosing on private data** costs: every candidate is a release of its own. `price_of_choosing`
composes them, and says how much ε each may have if the total is fixed. Choosing here is free.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.rng import generator
from tacit.data.synthetic import simulated_ratings, topic_documents
from tacit.errors import ParameterError
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import GaussianDpEvent, repeat
from tacit.privacy.guarantee import Privacy, round_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KINDS", "ChoicePrice", "Facts", "Plan", "choose_rank", "plan", "price_of_choosing"]

_LIMITS = {"epsilon": (0.01, 100.0), "rows": (32, 1 << 20), "sites": (1, 256)}
_CLOSE = 1.1  # the answer is within this factor


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


@dataclass(frozen=True)
class Plan:
    """What a plan found.

    Parameters
    ----------
    kind, find, want
        The task, what was searched for, and the wanted error.
    value
        The least that reaches it; None where nothing within reach does.
    table
        Everything that was tried: value, mean error, standard error.
    facts
        What was given.
    """

    kind: str
    find: str
    want: float
    value: float | None
    table: tuple[tuple[float, float, float], ...]
    facts: Facts

    def __str__(self) -> str:
        rows = [f"  {self.find} = {v:.4g}: error {e:.4g} ± {s:.2g}" for v, e, s in self.table]
        if self.value is None:
            low, high = _LIMITS[self.find]
            head = f"no {self.find} between {low:g} and {high:g} reaches an error of {self.want:g}"
        else:
            head = f"an error of {self.want:g} needs {self.find} of about {self.value:.3g}"
        return "\n".join([f"{self.kind}: {head} (simulated)", *rows])


def plan(
    kind: str,
    find: str,
    want: float,
    facts: Facts | None = None,
    *,
    repeats: int = 5,
    seed: int = 0,
) -> Plan:
    """Find the least ε, rows or sites that reach a wanted error.

    Parameters
    ----------
    kind
        ``"mean"``, ``"regression"``, ``"factorization"``, ``"recommender"`` or ``"topics"``.
    find
        ``"epsilon"``, ``"rows"`` or ``"sites"``: with more sites there are more rows, each site
        with as many as the facts give one site now.
    want
        The wanted error; see this module for its meaning.
    facts
        What is public; what is searched for is ignored there.
    repeats, seed
        Simulations for each value, and their seed.

    Examples
    --------
    >>> found = plan("mean", "epsilon", 0.01, Facts(rows=1000), repeats=3)
    >>> 0.05 < found.value < 1.0
    True
    """
    check("kind", kind, OneOf(*KINDS))
    check("find", find, OneOf(*_LIMITS))
    check("want", want, Real(0, open_low=True))
    check("repeats", repeats, Integer(2))
    facts = facts or Facts()
    tried: dict[float, tuple[float, float]] = {}

    def enough(value: float) -> bool:
        if value not in tried:
            tried[value] = error_of(kind, _with(facts, find, value), repeats, seed)
        return tried[value][0] <= want

    low, high = _LIMITS[find]
    value = _search(enough, float(low), float(high), whole=find != "epsilon")
    table = tuple((v, *tried[v]) for v in sorted(tried))
    return Plan(kind, find, want, value, table, facts)


def choose_rank(
    kind: str, ranks: Sequence[int], facts: Facts | None = None, *, repeats: int = 5, seed: int = 0
) -> tuple[int, tuple[tuple[int, float, float], ...]]:
    """Return the rank with the least simulated error, and all errors; costs nothing.

    Parameters
    ----------
    kind
        ``"factorization"`` or ``"recommender"``.
    ranks
        Which to try.
    facts, repeats, seed
        As in `plan`.
    """
    check("kind", kind, OneOf("factorization", "recommender"))
    if not ranks:
        raise ParameterError("ranks must name at least one rank to try")
    facts = facts or Facts()
    table = tuple(
        (int(rank), *error_of(kind, replace(facts, rank=int(rank)), repeats, seed))
        for rank in ranks
    )
    return min(table, key=lambda row: row[1])[0], table


@dataclass(frozen=True)
class ChoicePrice:
    """What choosing among candidates on private data costs.

    Parameters
    ----------
    candidates
        How many are fitted.
    total
        ε of all of them, if each has what was asked for.
    each
        ε that each may have, if all of them together are to have what was asked for.
    """

    candidates: int
    total: float
    each: float

    def __str__(self) -> str:
        return (
            f"fitting {self.candidates} candidates on the private data and keeping the best costs "
            f"ε = {self.total:.4g} in all, or leaves each ε = {self.each:.4g} of the budget"
        )


def price_of_choosing(privacy: Privacy, candidates: int) -> ChoicePrice:
    """Return what it costs to choose settings on private data, by fits that each are released.

    Parameters
    ----------
    privacy
        The guarantee of one fit, with Gaussian noise.
    candidates
        How many settings are tried.

    Examples
    --------
    >>> found = price_of_choosing(Privacy(1.0, 1e-6), 4)
    >>> 1.9 < found.total < 2.3, 0.4 < found.each < 0.6
    (True, True)
    """
    check("candidates", candidates, Integer(1))
    if not privacy.delta > 0.0:
        raise ParameterError("privacy.delta must be positive: pass Privacy(epsilon, delta=1e-6)")
    sigma = gaussian_sigma(privacy.epsilon, privacy.delta)
    total = epsilon_of(repeat(GaussianDpEvent(sigma), candidates), privacy.delta)
    # k Gaussian releases with noise √k·σ are one with σ
    each = epsilon_of(GaussianDpEvent(sigma * math.sqrt(candidates)), privacy.delta)
    return ChoicePrice(candidates, round_up(total, 6), round_up(each, 6))


def error_of(kind: str, facts: Facts, repeats: int, seed: int) -> tuple[float, float]:
    """Return the mean simulated error and its standard error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too little signal is what a plan is there to find
        errors = np.array([KINDS[kind](facts, seed + k) for k in range(repeats)])
    return float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(repeats))


def _with(facts: Facts, find: str, value: float) -> Facts:
    if find == "epsilon":
        return replace(facts, epsilon=value)
    if find == "rows":
        return replace(facts, rows=max(int(value), facts.sites))
    per_site = max(1, facts.rows // facts.sites)
    return replace(facts, sites=int(value), rows=per_site * int(value))


def _search(enough: Callable[[float], bool], low: float, high: float, whole: bool) -> float | None:
    """Return the least value that is enough, on a logarithmic scale; None where none is."""
    start = min(max(1.0 if not whole else low, low), high)
    good = start
    while not enough(good):
        if good >= high:
            return None
        low, good = good, min(good * 4.0, high)
    while good > low and enough(max(good / 4.0, low)):
        good = max(good / 4.0, low)
        if good <= low:
            return good
    low = max(good / 4.0, low)
    while good / low > _CLOSE and (not whole or good - low > 1):
        middle = math.sqrt(low * good)
        middle = float(round(middle)) if whole else middle
        if middle in (low, good):
            break
        low, good = (low, middle) if enough(middle) else (middle, good)
    return good


# -- simulations ----------------------------------------------------------------------------------


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
