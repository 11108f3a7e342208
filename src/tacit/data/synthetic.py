"""Generators with known truth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit._core.rng import generator
from tacit.data.documents import Documents
from tacit.data.relations import Relation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "HOSPITAL_BOUNDS",
    "LABORATORY_TESTS",
    "HospitalResults",
    "hospital_results",
    "hospital_tables",
    "simulated_ratings",
    "spherical_mixture",
    "topic_documents",
]

# Public ranges of the columns below, as a laboratory handbook would state them.
HOSPITAL_BOUNDS: dict[str, tuple[float, float]] = {
    "age": (0.0, 110.0),
    "systolic": (60.0, 240.0),
    "stay": (0.0, 60.0),
}


def hospital_tables(
    sizes: dict[str, int], seed: int = 0
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return one table of patients per hospital: age, systolic pressure and days of stay.

    Parameters
    ----------
    sizes
        Hospital → number of patients.
    seed
        Seed of the generator.

    Examples
    --------
    >>> sorted(hospital_tables({"North": 10})["North"])
    ['age', 'stay', 'systolic']
    """
    tables = {}
    for hospital, size in sizes.items():
        check(f"size of {hospital!r}", size, Integer(1))
        rng = generator(seed, f"hospital {hospital}")
        shift = rng.normal(0.0, 4.0)
        age = np.clip(rng.normal(58.0 + shift, 17.0, size), 0.0, 105.0)
        systolic = np.clip(rng.normal(105.0 + 0.45 * age, 14.0, size), 70.0, 230.0)
        stay = np.minimum(rng.gamma(1.6, 2.0 + age / 60.0, size), 59.0)
        tables[hospital] = {"age": age, "systolic": systolic, "stay": stay}
    return tables


# What shows in which test, in the demonstration's patients: condition → test → effect on the scale
# of a reference range.
_CONDITIONS: dict[str, dict[str, float]] = {
    "inflammation": {
        "CRP": 1.3,
        "Leukocytes": 1.0,
        "Ferritin": 0.9,
        "Platelets": 0.7,
        "Albumin": -0.7,
        "Haemoglobin": -0.6,
        "Procalcitonin": 1.1,
    },
    "kidney and heart": {
        "Creatinine": 1.2,
        "Urea": 1.1,
        "Potassium": 0.7,
        "NT-proBNP": 1.2,
        "Troponin": 0.8,
        "Haemoglobin": -0.5,
        "Sodium": -0.4,
    },
    "liver": {"ALT": 1.2, "AST": 1.2, "GGT": 1.1, "Bilirubin": 0.8, "Albumin": -0.5, "INR": 0.7},
    "metabolism": {
        "Glucose": 1.1,
        "HbA1c": 1.2,
        "Triglycerides": 1.0,
        "LDL": 0.6,
        "HDL": -0.9,
        "Uric acid": 0.7,
        "TSH": 0.2,
    },
}
LABORATORY_TESTS: tuple[str, ...] = tuple(
    dict.fromkeys(test for effects in _CONDITIONS.values() for test in effects)
)


class HospitalResults(NamedTuple):
    """Laboratory results of several hospitals, and the truth behind them.

    Attributes
    ----------
    relations
        Hospital → `Relation` of patients and tests; results on a scale from 0 to 10, where 5 is
        the middle of a test's reference range.
    panels
        Hospital → the tests that it does as a routine.
    levels
        Hospital → (patients, tests): what every test of every patient would show on average,
        done or not.
    effects
        (tests, conditions): what every condition does to every test.
    """

    relations: dict[str, Relation]
    panels: dict[str, tuple[str, ...]]
    levels: dict[str, NDArray[np.float64]]
    effects: NDArray[np.float64]


def hospital_results(
    sizes: Mapping[str, int],
    *,
    routine: float = 0.65,
    often: float = 0.5,
    seldom: float = 0.003,
    seed: int = 0,
) -> HospitalResults:
    """Return laboratory results of hospitals with overlapping tests and disjoint patients.

    Parameters
    ----------
    sizes
        Hospital → number of patients.
    routine
        The share of all tests that a hospital does as a routine.
    often, seldom
        The share of patients who get a routine test, on average, and any other.
    seed
        Seed of the generator.

    Examples
    --------
    >>> found = hospital_results({"North": 50, "South": 40})
    >>> found.relations["South"].shape == (40, len(LABORATORY_TESTS))
    True
    """
    check("routine", routine, Real(0, 1, open_low=True))
    check("often", often, Real(0, 1, open_low=True))
    check("seldom", seldom, Real(0, 1))
    tests = LABORATORY_TESTS
    effects = np.array([[e.get(t, 0.0) for e in _CONDITIONS.values()] for t in tests])
    typical = generator(seed, "tests").normal(0.0, 0.5, len(tests))  # a ward is no healthy sample
    relations, panels, levels = {}, {}, {}
    for hospital, size in sizes.items():
        check(f"size of {hospital!r}", size, Integer(1))
        rng = generator(seed, f"hospital {hospital}")
        panel = np.sort(rng.permutation(len(tests))[: max(1, round(routine * len(tests)))])
        share = np.full(len(tests), seldom)
        share[panel] = np.clip(rng.normal(often, 0.15, len(panel)), 0.1, 0.9)
        illness = rng.standard_normal((size, effects.shape[1]))
        general = rng.normal(0.0, 0.4, size)
        level = 5.0 + typical + general[:, None] + illness @ effects.T
        results = level + 0.5 * rng.standard_normal(level.shape)
        done = rng.random(level.shape) < share
        done[~done.any(axis=1), panel[0]] = True  # every patient has some result
        relations[hospital] = Relation.from_cells(
            ("patient", "test"),
            np.argwhere(done),
            np.clip(results[done].round(1), 0.0, 10.0),
            shape=level.shape,
            labels={"test": tests},
        )
        panels[hospital] = tuple(tests[k] for k in panel)
        levels[hospital] = np.clip(level, 0.0, 10.0)
    return HospitalResults(relations, panels, levels, effects)


def simulated_ratings(
    users: int,
    items: int,
    *,
    per_user: float = 40.0,
    tastes: int = 4,
    chosen: float = 0.5,
    seed: int = 0,
) -> Relation:
    """Return ratings 1–5 with offsets, a few common tastes, popular items and busy users.

    The constants of least squares over sites were chosen on such data.

    Parameters
    ----------
    users, items
        Sizes.
    per_user
        The median number of ratings of a user; log-normal, at least 5 and at most half of the
        items.
    tastes
        How many latent directions users differ in.
    chosen
        How strongly users rate what they like; 0: what they rate says nothing about their taste.
    seed
        Seed of the generator.

    Examples
    --------
    >>> simulated_ratings(100, 20, per_user=8).shape
    (100, 20)
    """
    check("users", users, Integer(1))
    check("items", items, Integer(10))
    check("per_user", per_user, Real(1))
    check("tastes", tastes, Integer(1))
    check("chosen", chosen, Real(0))
    rng = generator(seed, "ratings")
    popularity = rng.permutation(-0.8 * np.log(np.arange(1, items + 1)))
    taste, trait = rng.standard_normal((users, tastes)), rng.standard_normal((items, tastes))
    user, item = 0.5 * rng.standard_normal(users), 0.5 * rng.standard_normal(items)
    sizes = np.clip(rng.lognormal(np.log(per_user), 0.7, users), 5, items // 2).astype(int)
    rows, columns = [], []
    for i, size in enumerate(sizes):  # a draw without replacement, by the largest of noisy keys
        keys = popularity + chosen * (trait @ taste[i]) + rng.gumbel(size=items)
        columns.append(np.argpartition(-keys, size)[:size])
        rows.append(np.full(size, i))
    cells = np.column_stack([np.concatenate(rows), np.concatenate(columns)])
    who, what = cells.T
    liking = 3.5 + user[who] + item[what] + 0.35 * (taste[who] * trait[what]).sum(axis=1)
    values = np.clip(np.round(liking + 0.8 * rng.standard_normal(len(cells))), 1.0, 5.0)
    return Relation.from_cells(("user", "item"), cells, values, shape=(users, items))


def topic_documents(
    documents: int,
    vocabulary: int,
    topics: int,
    *,
    words: int = 3,
    concentration: float = 0.5,
    seed: int = 0,
) -> tuple[Documents, NDArray[np.float64], NDArray[np.float64]]:
    """Return documents of one topic each, the topics (rows) and their weights.

    Parameters
    ----------
    documents, vocabulary, topics
        Sizes.
    words
        The length of a document.
    concentration
        Of the Dirichlet law of a topic's word probabilities: a topic has about ``vocabulary`` ×
        ``concentration`` common words.
    seed
        Seed of the generator.

    Examples
    --------
    >>> bags, truth, weights = topic_documents(100, 10, 3)
    >>> len(bags), truth.shape, weights.shape
    (100, (3, 10), (3,))
    """
    check("documents", documents, Integer(1))
    check("words", words, Integer(1))
    check("concentration", concentration, Real(0, open_low=True))
    rng = generator(seed, "topics")
    truth = rng.dirichlet(np.full(vocabulary, concentration), topics)
    weights = rng.dirichlet(np.full(topics, 5.0))
    owner = np.sort(rng.choice(topics, documents, p=weights))
    counts = np.bincount(owner, minlength=topics)
    drawn = [rng.choice(vocabulary, (n, words), p=p) for n, p in zip(counts, truth, strict=True)]
    order = rng.permutation(documents)
    return Documents.from_words(np.concatenate(drawn)[order], vocabulary), truth, weights


def spherical_mixture(
    samples: int, features: int, components: int, *, sd: float = 0.5, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return samples of spherical Gaussians, their means (rows) and weights.

    Parameters
    ----------
    samples, features, components
        Sizes; means are normal vectors with a length of about two.
    sd
        Standard deviation of a coordinate around its mean.
    seed
        Seed of the generator.

    Examples
    --------
    >>> spherical_mixture(100, 4, 2)[0].shape
    (100, 4)
    """
    check("samples", samples, Integer(1))
    check("sd", sd, Real(0, open_low=True))
    rng = generator(seed, "mixture")
    means = rng.standard_normal((components, features)) * 2.0 / np.sqrt(features)
    weights = rng.dirichlet(np.full(components, 5.0))
    owner = rng.choice(components, samples, p=weights)
    return means[owner] + sd * rng.standard_normal((samples, features)), means, weights
