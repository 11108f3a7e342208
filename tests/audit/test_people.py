"""Persons with many rows, attacked through whole fits: never more than the certificate says.

D has a person with 500 rows, all as far out as rows can be; the neighbour has everybody else. Both
are fitted with fresh noise many times, and what tells them apart bounds ε from below.
"""

import numpy as np
import pytest

import tacit as tc
from tacit.audit.attack import audit
from tacit.data import schema

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


@pytest.mark.parametrize("made", [summary, regression])
@pytest.mark.parametrize("row", [(1.0, "b", 1.0), (-1.0, "a", 1.0)])
def test_a_person_with_many_rows_stays_within_the_certificate(made, row):
    found = audit(made(), *tables(*row), runs=RUNS)
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
