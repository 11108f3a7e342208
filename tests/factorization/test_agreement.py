"""What certificates say about people whom several sites know."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError
from tacit.factorization import Langevin, LocalCounts, PrivateFactorization
from tacit.privacy.accounting.gaussian import gdp_to_dp

ASKED = tc.Privacy(1.0, 1e-5, unit="user", trust="site")


def notes(sites=3, privacy=ASKED, **options):
    model = PrivateFactorization("user:k item:k", rank=2, bounds=(0, 4), privacy=privacy,
                                 **{"method": "offsets", **options})  # fmt: skip
    table = np.random.default_rng(0).poisson(1.0, (9, 4)).clip(0, 4).astype(float)
    agreement = model._agreed([tc.Site(f"s{k}", table) for k in range(sites)])
    found = [n for n in agreement.assumptions if "the sites hold different" in n]
    return agreement, found


def stated_epsilon(note):
    return float(re.search(r"has ([0-9.]+) at δ", note).group(1))


def test_by_default_somebody_may_be_at_all_sites():
    agreement, (note,) = notes()
    assert "ε is that of one site, and whoever is at 3 has" in note
    # Gaussians compose: μ of one site is 1/σ, of three √3/σ
    mu = np.sqrt(3.0) / agreement.multiplier
    assert stated_epsilon(note) == pytest.approx(gdp_to_dp(mu, 1e-5), rel=1e-3)


def test_a_public_bound_is_composed():
    agreement, (note,) = notes(sites_per_person=2)
    assert "each at 2 of them at most, as was stated: ε is that of one site" in note
    mu = np.sqrt(2.0) / agreement.multiplier
    assert stated_epsilon(note) == pytest.approx(gdp_to_dp(mu, 1e-5), rel=1e-3)
    assert stated_epsilon(notes(sites_per_person=7)[1][0]) == stated_epsilon(notes()[1][0])
    assert notes(sites_per_person=1)[1] == [
        "the sites hold different members of 'user', each at 1 of them at most, as was stated"
    ]
    assert notes(sites=1)[1] == []
    with pytest.raises(ParameterError, match="sites_per_person"):
        PrivateFactorization(bounds=(0, 4), privacy=ASKED, sites_per_person=0).fit(np.ones((4, 3)))


@pytest.mark.parametrize("method", [Langevin(rounds=3), LocalCounts()])
def test_every_method_says_so(method):
    counts = isinstance(method, LocalCounts)
    asked = tc.Privacy(1.0, unit="entry", trust="local") if counts else ASKED
    options = {"divergence": "kl"} if counts else {}
    _, (note,) = notes(privacy=asked, method=method, **options)
    assert (
        stated_epsilon(note) == pytest.approx(3.0, rel=1e-6)
        if counts
        else (1.0 < stated_epsilon(note) < 3.0)
    )


def test_a_price_knows_public_relations():
    model = PrivateFactorization(
        {"visits": "user:k place:k", "poi": "place:k kind:k"}, rank=2, bounds={"visits": (0, 4)},
        divergence="kl", method=Langevin(rounds=2), privacy=ASKED,
    )  # fmt: skip
    table = np.random.default_rng(0).poisson(1.0, (9, 4)).clip(0, 4).astype(float)
    public = {"poi": tc.Relation.from_dense(("place", "kind"), np.ones((4, 2)))}
    sites = [tc.Site("a", {"visits": table})]
    price = model.price(sites, public=public)
    assert price.affordable and price.sites[0].epsilon <= 1.0
    fitted = model.fit(sites, public=public)
    assert fitted.certificate_.epsilon == pytest.approx(price.sites[0].epsilon)


def test_a_proposal_states_public_relations():
    table = np.random.default_rng(0).poisson(1.0, (9, 4)).clip(0, 4).astype(float)
    settings = {
        "model": {"visits": "user:k place:k", "poi": "place:k kind:k"}, "rank": 2,
        "bounds": {"visits": [0, 4]}, "divergence": "kl", "method": "sgld",
        "options": {"rounds": 2}, "entities": {"place": 4, "kind": 2},
        "public": {"poi": {"place": [0, 1, 3], "kind": [1, 1, 0], "value": [2.0, 1.0, 3.0]}},
    }  # fmt: skip
    proposed, facts = PrivateFactorization._proposed(settings, ASKED, None)
    stated = proposed._agree([facts] * 2)
    assert "public, and not protected: poi" in stated.assumptions
    public = {"poi": tc.Relation.from_cells(
        ("place", "kind"), [[0, 1], [1, 1], [3, 0]], [2.0, 1.0, 3.0], shape=(4, 2))}  # fmt: skip
    here = PrivateFactorization(
        settings["model"], rank=2, bounds={"visits": (0, 4)}, divergence="kl",
        method=Langevin(rounds=2), privacy=ASKED,
    )  # fmt: skip
    sites = [tc.Site(name, {"visits": table}) for name in "ab"]
    assert here._agreed(sites, public).digest == stated.digest
    np.testing.assert_array_equal(stated.problem.public["poi"].values, public["poi"].values)
    read = facts.read({"visits": {"table": {"user": ["x"], "place": [2], "value": [1.0]},
                                  "columns": {}, "value": "value"}},
                      proposed.coupled_model(), "user")  # fmt: skip
    assert list(read) == ["visits"]
    with pytest.raises(ParameterError, match="stated as public: it is no table of a site"):
        facts.read({"poi": {"table": {}, "columns": {}}}, proposed.coupled_model(), "user")
    model, strange = PrivateFactorization._proposed(
        {**settings, "public": {"pois": {}}}, ASKED, None
    )
    with pytest.raises(ParameterError, match="public names 'pois'"):
        model._agree([strange])
