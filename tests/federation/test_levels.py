"""Each site its own ε, between parties: every site looks at its own, and pays its own."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tacit as tc
from tacit.data.relations import Relation
from tacit.errors import ParameterError, PolicyRefused
from tacit.federation.computation import Computation
from tacit.federation.coordinate import run_proposal
from tacit.federation.policy import Permission, Policy
from tacit.federation.proposal import Proposal

from .support import (  # fmt: skip
    FACTORIZATION,
    ITEMS,
    PINNED,
    SITES,
    USER,
    Direct,
    identified,
    ratings,
    ready,
    toml,
    write_csv,
)

OPEN = {"user": ["x", "x", "y"], "item": ["i0", "i3", "i3"], "value": [5.0, 1.0, 2.0]}
SETTINGS = {**FACTORIZATION, "method": "als", "options": {}, "public": {"ratings": OPEN}}
BY_SITE = {"North": 0.25, "West": 2.0}
PLAIN = {name: value for name, value in SETTINGS.items() if name != "options"}


def services(folder, own, settings=PLAIN, more=""):
    found = {}
    for site in SITES:
        home = folder / site
        home.mkdir()
        write_csv(home / "t.csv", ratings(site))
        (home / "people.key").write_text(b"known to all sites".hex())
        allow = {"computation": "factorization", "delta": 1e-6, "unit": "user", "rounds": 20,
                 "epsilon": own[site], "settings": settings, "seeded": True,
                 "colluding": 0}  # fmt: skip
        finite = min(own[site], 4.0)
        (home / "site.toml").write_text(
            f'name = "{site}"\n{identified(home, site)}{more}'
            f'ledger = {{file = "l.db", epsilon = {2 * finite}, delta = 1e-4}}\n'
            'data = {ratings = {file = "t.csv", value = "rating"}}\n'
            f"allow = {toml([allow | {'trust': t} for t in ('site', 'aggregator')])}\n"
        )
        found[site] = ready(home / "site.toml")
    return found


def proposal(trust="site", settings=PLAIN, **by_site):
    privacy = {**USER, "trust": trust, "by_site": by_site or BY_SITE}
    threshold = 3 if trust == "aggregator" else None
    return Proposal("factorization", settings, privacy, SITES, "run", threshold, 3, 0)


def in_one_process(asked):
    labels = {"item": [f"i{k}" for k in range(ITEMS)]}

    def relation(table, value):
        return Relation.from_frame(table, ["user", "item"], value, labels=labels)

    held = [tc.Site(s, {"ratings": relation(ratings(s), "rating")}) for s in SITES]
    model = tc.PrivateFactorization(
        {"ratings": "user:k item:k"}, rank=2, bounds=(1, 5), method="als",
        privacy=asked.guarantee(), random_state=3, entities=labels,
    )  # fmt: skip
    return model.fit(held, public={"ratings": relation(OPEN, "value")})


@pytest.mark.parametrize("trust", ["site", "aggregator"])
def test_each_site_pays_its_own_as_in_one_process(tmp_path, trust):
    asked = proposal(trust)
    assert Proposal.from_json(asked.to_json()) == asked
    result = run_proposal(
        asked, Direct(services(tmp_path, {"North": 0.25, "South": 1.0, "West": 2.0})),
        partners=PINNED,
    )  # fmt: skip
    mine = in_one_process(asked)
    for name, array in mine.shared_.items():
        assert np.array_equal(result.outcome[name], array), name
    for site, epsilon in {"North": 0.25, "South": 1.0, "West": 2.0}.items():
        certificate = result.certificates[site]
        assert certificate.epsilon == mine.certificates_[site].epsilon <= epsilon * (1 + 1e-9)
        assert any("North 0.25, West 2" in said for said in certificate.assumptions)


def test_a_site_refuses_more_than_its_own(tmp_path):
    own = services(tmp_path, {"North": 0.25, "South": 1.0, "West": 1.5})
    with pytest.raises(Exception, match="West"):
        run_proposal(proposal(), Direct(own), partners=PINNED)
    allowed = Policy((Permission("factorization", 0.25, 1e-6, "user", PLAIN, rounds=20),))
    asked = proposal()
    assert allowed.check(replace(asked, seed=None), site="North")
    for site in ("South", "West", None):  # nobody's: the largest of all
        with pytest.raises(PolicyRefused, match=r"is more than 0\.25"):
            allowed.check(replace(asked, seed=None), site=site)
    public = replace(proposal(North=math.inf), seed=None)  # no coordinator says what is public
    with pytest.raises(PolicyRefused, match=r"ε = inf is more than 0\.25"):
        allowed.check(public, site="North")


def test_what_a_table_of_epsilons_may_hold():
    for bad, why in (
        ({"X": 1.0}, "names 'X'"),
        ({"North": 0.0}, "by_site"),
        ({"North": "1"}, "by_s"),
    ):
        with pytest.raises(ParameterError, match=why):
            proposal(**bad).guarantee()
    with pytest.raises(ParameterError, match="own release"):  # sums in which sites are not seen
        Computation(
            Proposal("factorization", PLAIN, {**USER, "by_site": BY_SITE}, SITES, "run", 3)
        )
    one, other = proposal(), proposal(North=0.25, West=2.5)
    assert Computation(one).digest != Computation(other).digest
    one_own = {"epsilon": 1.0, "by_site": {"North": 0.5}}
    summary = Computation(Proposal("summary", {"columns": {"age": [0, 90]}}, one_own, SITES, "r"))
    with pytest.raises(ParameterError, match="one ε"):
        _ = summary.digest


def test_a_site_whose_data_are_public_pays_nothing(tmp_path):
    asked = proposal(South=math.inf)
    own = services(tmp_path, {"North": 1.0, "South": math.inf, "West": 1.0})
    assert "NOTHING IS PROTECTED" in own["South"].config.policy.page("South")
    result = run_proposal(asked, Direct(own), partners=PINNED)
    assert set(result.certificates) == {"North", "West"}
    assert own["South"].config.open_ledger().spent.epsilon == 0.0
    said = result.certificates["North"].assumptions
    assert "sites whose data are public: South" in said


def test_a_key_that_only_sites_have_says_who_counts_where(tmp_path):
    settings = {**PLAIN, "sites_per_person": "assigned"}
    asked = proposal(settings=settings)
    assert "known to all" not in asked.to_json()
    own = {"North": 0.25, "South": 1.0, "West": 2.0}
    keyed = services(tmp_path, own, settings, 'people_key = "people.key"\n')
    result = run_proposal(asked, Direct(keyed), partners=PINNED)
    assert any("one of North, South, West" in s for s in result.certificates["West"].assumptions)


def test_zeros_that_are_observed_are_stated(tmp_path):
    settings = {**PLAIN, "zeros": {"ratings": "observed"}, "bounds": [0.0, 5.0]}
    own = {"North": 0.25, "South": 1.0, "West": 2.0}
    result = run_proposal(
        proposal(settings=settings), Direct(services(tmp_path, own, settings)), partners=PINNED
    )
    assert result.model.agreement_.filled
