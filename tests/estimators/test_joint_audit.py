"""An attacker who knows everything but one user tells neighbours apart no better than certified.

The attack is the best there is against Gaussian noise: the likelihood ratio of a whole run's
messages. δ is large, so that some hundred runs suffice to see two thirds of the noise missing.
"""

import math

import numpy as np
import pytest
from scipy.stats import beta

import tacit as tc
from tacit.estimators.joint import site_relations, state_problem
from tacit.estimators.joint_als import AlternatingLeastSquares
from tacit.mechanisms.additive import Gaussian
from tacit.mechanisms.noise import Noise
from tacit.models.structure import CoupledModel
from tacit.privacy.events import repeat
from tacit.rounds.messages import Message

METHOD = AlternatingLeastSquares(factors=True, popular=3, rounds=1)
ITEMS, RUNS, EPSILON, DELTA = 5, 400, 1.0, 0.05
ALARM = 1e-6  # of a test that finds a leak where there is none


def problem_of(tables, unit, epsilon):
    model = CoupledModel("user:k item:k", 2, "euclidean")
    data = [
        site_relations(model, "A", tc.Relation.from_dense(("user", "item"), t)) for t in tables
    ]
    request = tc.Privacy(epsilon, DELTA, unit=unit, trust="site")
    return state_problem(model, data[:1], bounds=(1, 5), privacy=request), data


def transcript(problem):
    """A fixed course of requests: what the coordinator sends is no secret."""
    rng = np.random.default_rng(0)
    common = {
        "mean": np.zeros(1), "offsets": 0.3 * rng.normal(size=ITEMS),
        "popular": np.arange(3), "rates": np.full(3, 1 / 3),
        "features": rng.normal(size=(ITEMS, 2)),
    }  # fmt: skip
    stages = METHOD.stages(problem)
    kinds = {"later 0": 1, "later 1": 2}
    return [
        Message(k, {**common, "kind": np.array([kinds.get(stage, 0)])})
        for k, stage in enumerate(stages)
        if stage.split()[0] not in ("counts", "pattern")
    ]


def scores(problem, data, exact, direction, scales, noise, runs=RUNS):
    """Return the log likelihood ratio of many runs' messages."""
    found = np.empty(runs)
    requests = transcript(problem)
    ledger = tc.Ledger.memory(epsilon=1e9, delta=0.5, filter="zcdp")
    reservation = ledger.reserve(repeat(METHOD.schedule(problem), runs), purpose="audit",
                                 claim=runs)  # fmt: skip
    part = METHOD.part(problem, "A", data, reservation, noise, np.random.default_rng(0))
    for k in range(runs):
        found[k] = sum(
            ((part.respond(r)["sum"] - x) @ d) / s**2
            for r, x, d, s in zip(requests, exact, direction, scales, strict=True)
        )
    return found


def worst_excess(ours, theirs):
    """Return the largest certain excess of P(D) over e^ε·P(D′) + δ over all thresholds."""
    worst = -math.inf
    thresholds = np.quantile(np.concatenate([ours, theirs]), np.linspace(0.02, 0.98, 49))
    level = ALARM / (2 * len(thresholds))
    for threshold in thresholds:
        hit, false = int((ours > threshold).sum()), int((theirs > threshold).sum())
        low = beta.ppf(level, hit, len(ours) - hit + 1) if hit else 0.0
        high = beta.ppf(1 - level, false + 1, len(theirs) - false) if false < len(theirs) else 1
        worst = max(worst, low - math.exp(EPSILON) * high - DELTA)
    return worst


def attack(unit, monkeypatch=None):
    table = np.array([[5.0, 5, 1, 1, 5], [2, np.nan, 4, 3, np.nan], [3, 3, np.nan, 1, 2]])
    other = table.copy()
    if unit == "user":
        other[0] = np.nan
    else:
        other[0, 0] = 1.0
    problem, (first, second) = problem_of([table, other], unit, EPSILON)
    open_problem, _ = problem_of([table, other], unit, math.inf)
    requests = transcript(problem)
    exact = []
    for data in (first, second):
        part = METHOD.part(open_problem, "A", data, None, Noise("grid", seed=0), None)
        exact.append([part.respond(r)["sum"] for r in requests])
    direction = [a - b for a, b in zip(*exact, strict=True)]
    scales = [m.scale for m in METHOD.mechanisms(problem).values()]
    noise = Noise("grid", seed=1)
    if monkeypatch is not None:  # a source that gives a third of the noise that was charged
        whole = Noise.gaussian
        monkeypatch.setattr(
            Noise, "gaussian", lambda self, count, scale: whole(self, count, scale / 3.0)
        )
    runs = [scores(problem, data, exact[1], direction, scales, noise) for data in (first, second)]
    moved = [np.linalg.norm(d) / s for d, s in zip(direction, scales, strict=True)]
    return worst_excess(*runs), float(np.linalg.norm(moved))


@pytest.mark.parametrize("unit", ["entry", "user"])
def test_a_whole_run_leaks_no_more_than_certified(unit):
    excess, size = attack(unit)
    assert excess <= 0.0
    assert size > 0.3  # the attack had something to look for
    assert size <= 1.0 / Gaussian.for_privacy(EPSILON, DELTA, 1.0).scale * (1 + 1e-6)


def test_a_third_of_the_noise_is_caught(monkeypatch):
    assert attack("user", monkeypatch)[0] > 0.0
