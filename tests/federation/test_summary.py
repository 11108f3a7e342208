"""A summary over a federation: the smallest family runs by the generic computation alone."""

import dataclasses

import numpy as np
import pytest

import tacit as tc
from tacit.errors import SiteFailure
from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal
from tests.federation.support import ROW, SITES, Direct, patients, ready, toml, write_csv

SETTINGS = {"bounds": {"age": [18.0, 100.0]}, "statistics": ["count", "mean"]}
RUN = Proposal("summary", SETTINGS, ROW, SITES, "summary 1", seed=4)


def services(folder, **changes):
    found = {}
    for site in SITES:
        home = folder / site
        home.mkdir()
        write_csv(home / "patients.csv", patients(site))
        allow = {
            "computation": "summary", "epsilon": 1.0, "delta": 1e-6, "unit": "row",
            "seeded": True, "settings": SETTINGS,
        } | changes  # fmt: skip
        (home / "site.toml").write_text(
            f'name = "{site}"\nledger = {{file = "ledger.db", epsilon = 2.0, delta = 1e-5}}\n'
            f'data = {{patients = {{file = "patients.csv"}}}}\nallow = [{toml(allow)}]\n'
        )
        found[site] = ready(home / "site.toml")
    return found


def test_a_federation_equals_the_run_in_one_process(tmp_path):
    result = run_proposal(RUN, Direct(services(tmp_path)))
    alone = tc.PrivateSummary(
        {"age": (18.0, 100.0)}, statistics=("count", "mean"), random_state=4,
        privacy=tc.Privacy(**ROW),
    ).fit([tc.Site(name, patients(name)) for name in SITES])  # fmt: skip
    assert set(result.outcome) == set(alone.shared_)
    for name, array in alone.shared_.items():
        np.testing.assert_array_equal(result.outcome[name], array)
    assert set(result.certificates) == set(SITES)


def test_what_a_proposal_says_is_compared_before_anything_is_computed(tmp_path, monkeypatch):
    from tacit.summary.agreement import SummaryAgreement

    wide = dataclasses.replace(
        RUN, settings=SETTINGS | {"bounds": {"age": [0.0, 1e9]}, "bins": 4096}
    )
    found = services(tmp_path)
    made = []
    original = SummaryAgreement._steps
    monkeypatch.setattr(
        SummaryAgreement, "_steps", lambda self: (made.append(self.bounds), original(self))[1]
    )
    with pytest.raises(SiteFailure, match="policy does not allow these settings"):
        run_proposal(wide, Direct(found))
    assert made.count((("age", 0.0, 1e9),)) == 1  # by the coordinator alone


def test_sides_that_disagree_about_what_is_public_do_not_start(tmp_path, monkeypatch):
    from tacit.federation import service

    original = service.Computation

    def newer(proposal, plugins=()):
        found = original(proposal, plugins)
        monkeypatch.setattr(type(found.agreement), "version", 2)
        found.agreement.__dict__.pop("digest", None)
        return found

    monkeypatch.setattr(service, "Computation", newer)
    with pytest.raises(SiteFailure, match="do not agree on what is public"):
        run_proposal(RUN, Direct(services(tmp_path)))


def test_the_policy_is_a_page_for_every_family(tmp_path):
    config = services(tmp_path)["North"].config
    page = config.policy.page("North")
    assert "'summary'" in page and "bounds" in page
