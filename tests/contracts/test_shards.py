"""Every estimator over a holder's shards: any cut gives the same bits, and one unit is one unit.

Each subject is fitted to data in which somebody has rows in all pieces, where units have names. It
is read in one process, by threads, and by an executor that pickles all that travels, as a cluster
does (`tests/estimators/test_dask.py` has a real one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError
from tacit.estimators.families import estimator_names, estimator_of
from tacit.factorization.langevin.method import Langevin
from tacit.posterior.numerics.populations.laws import Exponential
from tests.estimators.test_sharded_data import Posted

nn = pytest.importorskip("tacit.networks")
pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be told from the noise")

RNG = np.random.default_rng(0)
ITEMS, USERS = [f"film {k}" for k in range(12)], 40
PAIRS = RNG.permutation([(u, i) for u in range(USERS) for i in range(12) if (u + i) % 3 or u == 7])
# user 7 has all films, and a row in every piece
ORDER = np.argsort(
    np.where(PAIRS[:, 0] == 7, np.linspace(0, 1, len(PAIRS)), RNG.random(len(PAIRS)))
)
CELLS = {
    "user": np.array([f"u{u}" for u, _ in PAIRS[ORDER]]),
    "item": np.array([ITEMS[i] for _, i in PAIRS[ORDER]]),
    "value": RNG.integers(1, 6, len(PAIRS)).astype(float),
}
VISITS = {
    "age": RNG.normal(50, 12, 300).round(2),
    "dose": RNG.uniform(0, 5, 300).round(2),
    "who": np.array([f"p{k % 30}" for k in range(300)]),
}
VISITS["pressure"] = (100 + 0.5 * VISITS["age"] + RNG.normal(0, 5, 300)).round(2)
VISITS["high"] = np.where(VISITS["pressure"] > 125, "yes", "no")
VISITS["calls"] = (np.arange(300) * 7 % 11).astype(float)
WORDS = RNG.poisson(0.7, (120, 8)) + 1
LINKS = {"user": CELLS["user"], "item": CELLS["item"]}
NUMBERS = {"age": tc.number(0, 100), "dose": tc.number(0, 5)}
ONCE = {"outside": "clip", "person": "who", "per_person": "average"}
USER, ENTRY = (tc.Privacy(9.0, 1e-5, unit=unit, trust="site") for unit in ("user", "entry"))
SEEDED: Mapping[str, Any] = {"random_state": 1}
FEW = nn.Training(steps=2, sampling_rate=0.5)


def cells(method: Any, privacy: tc.Privacy, **more: Any) -> Callable[[], Any]:
    """Return how a factorization of the cells is made."""
    stated = {"entities": {"item": ITEMS}, "rank": 2, "bounds": (1, 5), **SEEDED, **more}
    return lambda: tc.PrivateFactorization(
        "user:k item:k", method=method, privacy=privacy, **stated
    )


@dataclass(frozen=True)
class Subject:
    """An estimator, and the data of one holder."""

    name: str
    make: Callable[[], Any]
    data: Any
    whole: bool = True  # whether one table gives these bits too

    def fit(self, data: Any) -> Mapping[str, Any]:
        """Return what is released."""
        found: Mapping[str, Any] = self.make().fit(data).shared_
        return {name: array for name, array in found.items() if "draws" not in name}


def people(statistic: str) -> Callable[[], Any]:
    """Return how a posterior of waits is made."""
    return lambda: tc.PrivatePosterior(
        Exponential(), statistic, bounds=(0, 30), noise="grid", chains=1, draws=10, warmup=10,
        privacy=tc.Privacy(1.0, 1e-6, neighbours="replace-one"), **SEEDED,
    )  # fmt: skip


SUBJECTS = [
    Subject(
        "summary",
        lambda: tc.PrivateSummary(
            tc.Columns(**NUMBERS, outside="clip", person="who", rows_per_person=10),
            privacy=tc.Privacy(1, 1e-6), noise="grid", **SEEDED,
        ),
        VISITS,
    ),
    Subject(
        "regression",
        lambda: tc.PrivateLinearRegression(
            tc.Columns(**NUMBERS, pressure=tc.number(0, 300), target="pressure", **ONCE),
            privacy=tc.Privacy(1, 1e-6), chains=1, draws=10, warmup=10, **SEEDED,
        ),
        VISITS,
    ),
    Subject(
        "logistic-regression",
        lambda: tc.PrivateLogisticRegression(
            tc.Columns(**NUMBERS, high=tc.category("no", "yes"), target="high", outside="clip",
                       person="who", rows_per_person=10),
            privacy=tc.Privacy(1, 1e-6), draws=100, **SEEDED,
        ),
        VISITS,
    ),
    Subject(
        "logistic-regression: ranges",
        lambda: tc.PrivateLogisticRegression(
            bounds=[(0, 100), (0, 5)], classes=("no", "yes"), privacy=tc.Privacy(1, 1e-6),
            draws=100, **SEEDED,
        ),
        (np.column_stack([VISITS["age"], VISITS["dose"]]), VISITS["high"]),
    ),
    Subject(
        "poisson-regression",
        lambda: tc.PrivatePoissonRegression(
            tc.Columns(**NUMBERS, calls=tc.number(0, 20), target="calls", outside="clip",
                       person="who", rows_per_person=10),
            privacy=tc.Privacy(1, 1e-6), draws=100, **SEEDED,
        ),
        VISITS,
    ),
    Subject(
        "network-regressor",
        lambda: nn.PrivateDropoutRegressor(
            hidden=(3,), bounds=[(0, 100), (0, 5)], y_bounds=(0, 300), rows=300,
            training=FEW, privacy=tc.Privacy(9, 1e-5), **SEEDED,
        ),
        (np.column_stack([VISITS["age"], VISITS["dose"]]), VISITS["pressure"]),
    ),
    Subject(
        "network-classifier",
        lambda: nn.PrivateDropoutClassifier(
            hidden=(3,), bounds=[(0, 100), (0, 5)], classes=[0, 1], rows=300,
            training=FEW, privacy=tc.Privacy(9, 1e-5), **SEEDED,
        ),
        (np.column_stack([VISITS["age"], VISITS["dose"]]), (VISITS["age"] > 50).astype(int)),
    ),
    Subject("factorization", cells("als", USER), CELLS),
    Subject("factorization: entries", cells("als", ENTRY), CELLS),
    Subject("factorization: offsets", cells("offsets", USER), CELLS),
    Subject("factorization: Langevin", cells(Langevin(rounds=2), USER), CELLS),
    Subject("factorization: sampled",
            cells(Langevin(rounds=2, sampling_rate=0.5, limit=4), USER), CELLS, whole=False),
    Subject("factorization: drawn", cells(Langevin(rounds=2, rows="drawn"), USER), CELLS, False),
    Subject("factorization: links",
            lambda: tc.PrivateFactorization("user:k item:k", rank=2, bounds=(0, 1), method="als",
                                            privacy=USER, **SEEDED),
            tc.Relation.from_dense(("user", "item"), RNG.integers(0, 2, (90, 9)),
                                   zeros="observed")),
    Subject("factorization: local",
            cells(tc.factorization.LocalCounts(burn_in=1, draws=2, thin=1),
                  tc.Privacy(3.0, unit="entry", trust="local"), divergence="kl", bounds=(0, 5)),
            CELLS),
    Subject("recommender",
            lambda: tc.PrivateRecommender((1, 5), items=ITEMS, rank=2,
                                          privacy=tc.Privacy(2, 1e-5), **SEEDED), CELLS),
    Subject("recommender: clicks",
            lambda: tc.PrivateRecommender(items=ITEMS, rank=2, method="implicit",
                                          privacy=tc.Privacy(9, 1e-5), **SEEDED), LINKS),
    Subject("recommender: local",
            lambda: tc.PrivateRecommender((1, 5), items=ITEMS, rank=2, method="gd",
                                          privacy=tc.Privacy(2), **SEEDED), CELLS),
    Subject("topics",
            lambda: tc.SingleTopicModel(2, privacy=tc.Privacy(5, 1e-4, unit="document"), **SEEDED),
            WORDS),
    Subject("topics: all words",
            lambda: tc.SingleTopicModel(2, common="all", **SEEDED,
                                        privacy=tc.Privacy(99, 1e-4, unit="document")), WORDS),
    Subject("mixture",
            lambda: tc.GaussianMixture(2, radius=6, privacy=tc.Privacy(50, 1e-5), **SEEDED),
            RNG.normal(0, 1, (200, 2))),
    Subject("posterior", people("mean"), RNG.exponential(3, 200)),
    Subject("posterior: order", people("maximum"), RNG.exponential(3, 200)),
]  # fmt: skip
SECRETS = (b"Ledger", b"Reservation", b"WordStream", b"tacit.estimators.gate",
           b"tacit.mechanisms.noise")  # fmt: skip
# what takes no shards, and why
WITHOUT = {
    "selector": "who is among the first people goes by the order of all of them",
}


def cut(data: Any, parts: int) -> list[Any]:
    """Return a holder's data in pieces, rows in their order."""
    if isinstance(data, Mapping):
        places = np.array_split(np.arange(len(next(iter(data.values())))), parts)
        return [{name: column[at] for name, column in data.items()} for at in places]
    if isinstance(data, tuple):
        return list(zip(*(np.array_split(part, parts) for part in data), strict=True))
    if isinstance(data, tc.Relation):
        dense = np.zeros(data.shape)
        dense[tuple(data.indices.T)] = data.values
        return [tc.Relation.from_dense(data.entities, part, zeros=data.zeros)
                for part in np.array_split(dense, parts)]  # fmt: skip
    return list(np.array_split(data, parts))


def test_every_estimator_takes_shards_or_says_why_not():
    covered = {subject.name.split(":")[0] for subject in SUBJECTS}
    taking = {name for name in estimator_names() if estimator_of(name)._takes_shards}
    assert covered == taking
    assert set(estimator_names()) - taking == set(WITHOUT)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda one: one.name)
def test_any_cut_gives_the_same_bits_wherever_it_is_worked_on(subject):
    first = subject.fit(tc.Shards(cut(subject.data, 1)))
    ways = {"one table": subject.data} if subject.whole else {}
    ways["threads"] = tc.Shards(cut(subject.data, 7), at_once=3)
    posted = Posted()
    ways["elsewhere"] = tc.Shards(cut(subject.data, 2), executor=posted)
    ways["64"] = tc.Shards(cut(subject.data, 64))
    for way, data in ways.items():
        found = subject.fit(data)
        assert found.keys() == first.keys()
        for name, array in first.items():
            assert np.array_equal(found[name], array, equal_nan=True), (way, name)
    for sent in posted.sent:  # to a worker, which draws no noise and pays for nothing
        assert not any(secret in sent for secret in SECRETS)


NAMED = [s for s in SUBJECTS if isinstance(s.data, Mapping)]


@pytest.mark.parametrize("subject", NAMED, ids=lambda one: one.name)
def test_whoever_is_in_all_shards_lies_in_one(subject, monkeypatch):
    from tacit.estimators import loading

    seen: list[Any] = []
    load = loading._loaded
    monkeypatch.setattr(loading, "_loaded", lambda *given: seen.append(load(*given)) or seen[-1])
    subject.fit(tc.Shards(cut(subject.data, 8)))
    if not seen:  # all of it is looked at at once
        return
    column = "who" if "who" in subject.data else "user"
    pieces = [set(piece.read()[column]) for piece in seen[0].source]
    assert len(pieces) > 3
    everybody = set().union(*pieces)
    assert sum(map(len, pieces)) == len(everybody) == len(set(subject.data[column]))


def test_members_who_are_in_two_relations_are_refused_before_anybody_pays():
    whole = tc.Relation.from_frame(CELLS, ["user", "item"], "value", labels={"item": ITEMS})
    ledger = tc.Ledger.memory(epsilon=9, delta=1e-5)
    with pytest.raises(ParameterError, match="in several shards"):
        cells("als", USER, ledger=ledger)().fit(tc.Shards([whole, whole]))
    assert ledger.remaining.epsilon == 9
