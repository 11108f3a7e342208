"""A logistic regression over a federation is the one in a single process."""

from __future__ import annotations

import numpy as np

import tacit as tc
from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal
from tests.federation.support import ROW, SITES, Direct, ready, toml

BOUNDS = {"age": [18.0, 100.0], "dose": [0.0, 5.0]}
SETTINGS = {"bounds": BOUNDS, "classes": ["no", "yes"], "target": "ill"}


def patients(name):
    rng = np.random.default_rng(len(name))
    age, dose = rng.uniform(18, 100, 400), rng.uniform(0, 5, 400)
    ill = rng.random(400) < 1.0 / (1.0 + np.exp(4.0 - 0.08 * age))
    return {"age": age.round(2), "dose": dose.round(2), "ill": np.where(ill, "yes", "no")}


def test_a_federation_equals_the_run_in_one_process(tmp_path):
    found = {}
    for site in SITES:
        home = tmp_path / site
        home.mkdir()
        table = patients(site)
        rows = zip(*table.values(), strict=True)
        lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
        (home / "patients.csv").write_text("\n".join(lines) + "\n")
        allow = {
            "computation": "logistic-regression", "epsilon": 1.0, "delta": 1e-6, "unit": "row",
            "seeded": True, "rounds": 20, "settings": SETTINGS,
        }  # fmt: skip
        (home / "site.toml").write_text(
            f'name = "{site}"\nledger = {{file = "ledger.db", epsilon = 2.0, delta = 1e-5}}\n'
            f'data = {{patients = {{file = "patients.csv"}}}}\nallow = [{toml(allow)}]\n'
        )
        found[site] = ready(home / "site.toml")
    run = Proposal("logistic-regression", SETTINGS, ROW, SITES, "logistic 1", seed=4)
    result = run_proposal(run, Direct(found))
    alone = tc.PrivateLogisticRegression(
        bounds={name: tuple(pair) for name, pair in BOUNDS.items()}, classes=("no", "yes"),
        target="ill", random_state=4, privacy=tc.Privacy(**ROW),
    ).fit([tc.Site(name, patients(name)) for name in SITES])  # fmt: skip
    assert set(result.outcome) == set(alone.shared_)
    for name, array in alone.shared_.items():
        np.testing.assert_array_equal(result.outcome[name], array)
    assert set(result.certificates) == set(SITES)
