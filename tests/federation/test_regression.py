"""A regression over a federation in sums that nobody sees through."""

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.federation.computation import Computation
from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal
from tacit.regression.rows import summarise
from tacit.regression.total import TOTAL

from .support import PINNED, ROW, SITES, Direct, identified, ready, toml, write_csv

SETTINGS = {"bounds": {"a": [-1.0, 1.0], "b": [0.0, 2.0]}, "y_bounds": [-4.0, 4.0], "target": "y",
            "method": "Bayes-fixedS-fast", "draws": 20, "chains": 1}  # fmt: skip
SUMMED = {**ROW, "trust": "aggregator"}


def rows(site):
    rng = np.random.default_rng(len(site))
    a, b = rng.uniform(-1, 1, 400), rng.uniform(0, 2, 400)
    return {"a": a, "b": b, "y": a - b + rng.normal(0, 0.2, 400)}


def services(folder):
    found = {}
    for site in SITES:
        home = folder / site
        home.mkdir()
        write_csv(home / "t.csv", rows(site))
        allow = {"computation": "regression", "epsilon": 1.0, "delta": 1e-6, "unit": "row",
                 "trust": "aggregator", "seeded": True, "settings": SETTINGS}  # fmt: skip
        (home / "site.toml").write_text(
            f'name = "{site}"\n{identified(home, site)}'
            'ledger = {file = "ledger.db", epsilon = 2.0, delta = 1e-5}\n'
            f'data = {{t = {{file = "t.csv"}}}}\nallow = [{toml(allow)}]\n'
        )
        found[site] = ready(home / "site.toml")
    return found


def test_one_of_three_may_collude_and_the_noise_is_that_of_two_shares(tmp_path):
    asked = Proposal("regression", SETTINGS, SUMMED, SITES, "summed", 3, 4, 1)
    result = run_proposal(asked, Direct(services(tmp_path)), partners=PINNED)
    total = result.model.summaries_[TOTAL]
    assert (total.added, total.shares) == (3, 2)
    every = {
        name: np.concatenate([rows(site)[name] for site in SITES]) for name in ("a", "b", "y")
    }
    x = np.column_stack([every["a"], every["b"]])
    exact = summarise((x, every["y"]), total.design).total.value()
    far = np.abs(total.moments.gram - exact[:-1, :-1])
    assert 0.0 < far.max() < 5.0 * total.moments.gram_sd
    for certificate in result.certificates.values():
        assert certificate.epsilon <= 1.0
        assert any("at least 2 sites" in said for said in certificate.assumptions)
        assert "with 1 of the other sites on its side" in certificate.against


def test_sites_that_are_looked_at_one_by_one_have_no_secure_sum():
    apart = Proposal("regression", SETTINGS, ROW, SITES, "apart", 3, 4, 0)
    with pytest.raises(ParameterError, match="needs every site's own release"):
        Computation(apart)
