"""An attacker who knows everything but one user tells neighbours apart no better than certified.

The attack is the best there is against Gaussian noise: the likelihood ratio of a whole run's
messages. δ is large, so that some hundred runs suffice to see two thirds of the noise missing.
"""

import math

import numpy as np
import pytest
from scipy.stats import beta

import tacit as tc
from tacit.audit.transcript import drawn
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.offsets.agreement import AlternatingLeastSquares
from tacit.factorization.together.problem import state_problem
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.noise import Noise
from tacit.rounds.messages import Message
from tests.contracts.hostile import Witness

METHOD = AlternatingLeastSquares(factors=True, pattern=False, popular=3, rounds=1)
ITEMS, RUNS, EPSILON, DELTA = 5, 400, 1.0, 0.05
ALARM = 1e-6  # of a test that finds a leak where there is none


def relations(table):
    return {"data": tc.Relation.from_dense(("user", "item"), table)}


def agreed(table, unit, epsilon):
    request = tc.Privacy(epsilon, DELTA, unit=unit, trust="site")
    model = CoupledModel("user:k item:k", 2, "euclidean")
    return METHOD.agree(state_problem(model, [relations(table)], bounds=(1, 5), privacy=request))


def transcript(agreement):
    """A fixed course of requests: what the coordinator sends is no secret."""
    rng = np.random.default_rng(0)
    common = {
        "mean": np.zeros(1), "offsets": 0.3 * rng.normal(size=ITEMS),
        "popular": np.arange(3), "rates": np.full(3, 1 / 3),
        "features": rng.normal(size=(ITEMS, 2)),
    }  # fmt: skip
    chosen = {"later 0": "covariance", "later 1": "factors"}
    found = []
    for k, step in enumerate(agreement.steps):
        kind = chosen.get(step.name)
        asks = step.asks if kind is None else step.kinds[kind].asks
        arrays = {name: common[name] for name in asks}
        if kind is not None:
            arrays["kind"] = np.array([list(step.kinds).index(kind)])
        found.append(Message(k, arrays, step.name))
    return found


def values(agreement, table):
    """Return what comes to the gate in a whole run that is asked the fixed questions."""
    gate = Witness(agreement)
    side = agreement.holder("A", relations(table), gate, 0)
    for request in transcript(agreement):
        side.respond(request)
    return [(mechanism, value) for _, mechanism, value in gate.values]


def scores(sums, exact, direction, noise, runs=RUNS):
    """Return the log likelihood ratio of many runs' messages."""
    found = np.empty(runs)
    for k in range(runs):
        found[k] = sum(
            ((drawn(mechanism, value, noise) - x) @ d) / mechanism.scale**2
            for (mechanism, value), x, d in zip(sums, exact, direction, strict=True)
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
    agreement = agreed(table, unit, EPSILON)
    sums = [values(agreement, one) for one in (table, other)]
    exact = [[v.value() if isinstance(v, GridSum) else v for _, v in side] for side in sums]
    direction = [a - b for a, b in zip(*exact, strict=True)]
    scales = [mechanism.scale for mechanism, _ in sums[0]]
    noise = Noise("grid", seed=1)
    if monkeypatch is not None:  # a source that gives a third of the noise that was charged
        whole = Noise.gaussian
        monkeypatch.setattr(
            Noise, "gaussian", lambda self, count, scale: whole(self, count, scale / 3.0)
        )
    runs = [scores(side, exact[1], direction, noise) for side in sums]
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
