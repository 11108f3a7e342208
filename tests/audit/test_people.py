"""Persons with many rows, attacked through whole fits: never more than the certificate says.

D has a person with 500 rows, all as far out as rows can be; the neighbour has everybody else. Both
are fitted with fresh noise many times, and what tells them apart bounds ε from below.
"""

import math

import numpy as np
import pytest

import tacit as tc
from tacit.audit.attack import audit
from tacit.data import schema
from tacit.regression.rows import read_columns

PRIVACY = tc.Privacy(1.0, 1e-6)
RUNS = 4000


def columns(**more):
    stated = more or {"rows_per_person": 3}
    return tc.Columns(
        x=tc.number(-1, 1), c=tc.category("a", "b"), y=tc.number(-1, 1), person="id", **stated
    )


def summary(**more):
    return tc.PrivateSummary(columns(**more), statistics=("count", "mean"), privacy=PRIVACY)


def regression(**more):
    return tc.PrivateLinearRegression(
        columns(**more), target="y", method="Bayes-fixedS-fast", privacy=PRIVACY
    )


def tables(x, c, y, times=500):
    """Return everybody's rows, and those of everybody but the person with many rows."""
    rng = np.random.default_rng(3)
    names = [f"{k:03d}" for k in range(40)]
    others = {
        "id": names * 2,
        "x": rng.uniform(-1, 1, 80).tolist(),
        "c": rng.choice(["a", "b"], 80).tolist(),
        "y": rng.uniform(-1, 1, 80).tolist(),
    }
    evil = {"id": ["0000"], "x": [x], "c": [c], "y": [y]}  # not to be taken for 000
    return {name: others[name] + evil[name] * times for name in others}, others


def bounded_after_summing(people, keep, most, words):
    """Let as many rows count in all as the people may have together, whoever's they are."""
    room = most * len(np.unique(people))
    return keep & (np.cumsum(keep) <= room)


def farthest(made):
    """Return the response with which a row of a corner moves a release the most.

    For a regression that is where norm and norm times response reach their bounds together: of a
    larger response the row is scaled down further (`tacit.regression.design`).
    """
    if made is summary:
        return 1.0
    rows = made()._design(None).rows
    return math.sqrt(rows.constant**2 + rows.features) * rows.product / rows.norm**2


def test_three_rows_of_a_person_reach_the_sensitivity_and_no_more():
    model = regression()
    design = model._design(None)
    for y, least in ((farthest(regression), 0.999), (1.0, 0.95), (-farthest(regression), 0.999)):
        whole, rest = (
            read_columns(data, model.columns, "y", design).total.value()
            for data in tables(1.0, "b", y)
        )
        moved = [
            math.sqrt(weight) * (whole - rest)[pair]
            for pair, weight in zip(design.pairs, design.weights, strict=True)
        ]
        assert least <= np.linalg.norm(moved) / design.sensitivity <= 1.0


@pytest.mark.parametrize("made", [summary, regression])
@pytest.mark.parametrize("corner", [(1.0, "b"), (-1.0, "a")])
def test_a_person_with_many_rows_stays_within_the_certificate(made, corner):
    found = audit(made(), *tables(*corner, farthest(made)), runs=RUNS)
    assert found.certified <= 1.0
    assert found.holds
    assert found.attacked > 0.15  # the attack has teeth


def test_a_person_who_is_averaged_stays_within_the_certificate():
    found = audit(regression(per_person="average"), *tables(1.0, "b", 1.0), runs=RUNS)
    assert found.holds
    assert found.attacked > 0.15


@pytest.mark.parametrize("made", [summary, regression])
def test_a_twin_that_bounds_rows_after_summing_is_caught(made, monkeypatch):
    monkeypatch.setattr(schema, "bounded", bounded_after_summing)
    found = audit(made(), *tables(1.0, "b", 1.0), runs=RUNS)
    assert not found.holds
    assert found.attacked > 5 * found.certified
