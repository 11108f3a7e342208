"""A recommender over bytes: equal to one process, pattern in clear, sums under masks."""

import numpy as np
import pytest

import tacit as tc
from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure
from tacit.federation.computation import Computation
from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal

from .support import PINNED, SITES, Direct, identified, ready, toml, write_csv

ITEMS = [f"b{k}" for k in range(12)]
SETTINGS = {"bounds": [1.0, 5.0], "rank": 2, "items": ITEMS, "item_weights": [1.0, 0.5] * 6}


def table(site):
    rng = np.random.default_rng(20 + SITES.index(site))
    user, item = np.nonzero(rng.random((40, len(ITEMS))) < 0.5)
    return {
        "user": np.array([f"{site}{u:02d}" for u in user]),
        "item": np.array(ITEMS)[item],
        "rating": rng.integers(1, 6, len(user)).astype(float),
        "openness": np.array([1.0, 0.25])[user % 2],
    }


def ratings(site):
    return Relation.from_frame(table(site), ["user", "item"], "rating", labels={"item": ITEMS})


def services(folder):
    found = {}
    for site in SITES:
        home = folder / site
        home.mkdir()
        write_csv(home / "t.csv", table(site))
        allow = {"computation": "recommender", "epsilon": 1.0, "delta": 1e-5, "unit": "entry",
                 "rounds": 20, "seeded": True, "settings": SETTINGS,
                 "colluding": 0}  # fmt: skip
        (home / "site.toml").write_text(
            f'name = "{site}"\n{identified(home, site)}'
            f'ledger = {{file = "l.db", epsilon = 1.5, delta = 1e-4}}\n'
            'data = {t = {file = "t.csv", value = "rating", columns = {weight = "openness"}}}\n'
            f"allow = {toml([allow | {'trust': t} for t in ('site', 'aggregator')])}\n"
        )
        found[site] = ready(home / "site.toml")
    return found


def proposal(trust, threshold):
    privacy = {"epsilon": 1.0, "delta": 1e-5, "unit": "entry", "trust": trust,
               "neighbours": "replace-one"}  # fmt: skip
    return Proposal("recommender", SETTINGS, privacy, SITES, "run", threshold, 3, 0)


def in_one_process(asked):
    model = tc.PrivateRecommender(
        (1.0, 5.0), rank=2, privacy=asked.guarantee(), random_state=asked.seed
    )
    sites = [tc.Site(site, ratings(site)) for site in SITES]
    users = [np.array([1.0, 0.25])[np.arange(s.data.shape[0]) % 2] for s in sites]
    weights = tc.PrivacyWeights(np.concatenate(users), SETTINGS["item_weights"])
    return model.fit(sites, weights=weights)


@pytest.mark.parametrize(("trust", "threshold"), [("site", None), ("aggregator", 3)])
def test_a_recommender_equals_the_run_in_one_process(tmp_path, trust, threshold):
    asked = proposal(trust, threshold)
    result = run_proposal(asked, Direct(services(tmp_path)), partners=PINNED)
    model = in_one_process(asked)
    assert set(result.outcome) == set(model.shared_)
    for name, array in model.shared_.items():
        assert np.array_equal(result.outcome[name], array)
    found, mine = (m.certificates_["South"] for m in (result.model, model))
    assert found.epsilon == mine.epsilon <= 1.0
    assert found.groups == mine.groups
    assert (trust == "aggregator") == any("sum over at least 3" in a for a in found.assumptions)
    result.model.certificate_.verify()


def test_the_whole_of_the_noise_is_in_the_sum(tmp_path):
    whole, shared = (
        in_one_process(proposal(t, n)) for t, n in (("site", None), ("aggregator", 3))
    )
    one = whole._agreement.mechanisms["offsets"].variance()
    three = 3 * shared._agreement.mechanisms["offsets"].variance()
    assert three == pytest.approx(one, rel=1e-9)


def test_users_predict_at_their_site_and_nowhere_else(tmp_path):
    asked = proposal("site", None)
    found = services(tmp_path)
    result = run_proposal(asked, Direct(found), partners=PINNED)
    with pytest.raises(ParameterError, match="stayed at their sites"):
        result.model.predict([[0, 1]])
    local = found["North"].result.devices
    expected = in_one_process(asked)
    there = expected.predict([[0, 1], [5, 2]], positions=True)
    assert np.array_equal(local.predict([[0, 1], [5, 2]]), there)
    best = expected.device(3, positions=True)
    assert local.device(3).top(2) == best.top(2, positions=True)
    assert [ITEMS[item] for item, _ in local.device(3).top(2)] == [item for item, _ in best.top(2)]


def test_a_coordinator_that_died_asks_the_same_again(tmp_path):
    class Gone(Exception):
        pass

    def stop(record):
        if record.rounds == 3:
            raise Gone

    asked, direct = proposal("site", None), Direct(services(tmp_path))
    with pytest.raises(Gone):
        run_proposal(asked, direct, checkpoint=tmp_path / "c", progress=stop)
    result = run_proposal(asked, direct, checkpoint=tmp_path / "c")
    assert result.record.resumed_at == 3
    for name, array in in_one_process(asked).shared_.items():
        assert np.array_equal(result.outcome[name], array)


def test_a_site_that_is_lost_after_a_sum_ends_the_run(tmp_path):
    def lost(method, name, request, answer):
        if name == "West" and method == "respond" and direct.calls.count((method, name)) == 10:
            raise TimeoutError
        return answer

    direct = Direct(services(tmp_path), lost)
    with pytest.raises(SiteFailure, match="resumed when it is back"):
        run_proposal(proposal("site", None), direct, on_failure="exclude")


def test_the_policy_says_what_leaves_as_it_is(tmp_path):
    page = services(tmp_path)["North"].config.policy.page("North")
    assert "LEAVES AS IT IS, without noise: how often each item occurs" in page
    assert "products of the pattern of which cells are observed" in page


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"items": None}, "needs items"), ({"method": "hdpmf"}, "method must be"),
     ({"method": "gd"}, "protects unit"), ({"item_weights": [1.0]}, "are for 1 items"),
     ({"item_weights": [0.0] * 12}, "must lie in"), ({"privacy": {}}, "does not set")],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused_on_both_sides(changes, reason):
    one = proposal("site", None)
    bad = Proposal("recommender", SETTINGS | changes, one.privacy, SITES, "run")
    with pytest.raises(ParameterError, match=reason):
        Computation(bad)


def test_nothing_leaves_that_is_about_single_users(tmp_path):
    """Neither who rated what nor a weight: every array has a row per item."""
    seen = []

    def look(method, name, request, answer):
        if method == "respond":
            seen.append(answer)
        return answer

    asked = proposal("site", None)
    run_proposal(asked, Direct(services(tmp_path), look), partners=PINNED)
    agreement = Computation(asked).agreement
    assert len(seen) == 3 * agreement.rounds == 33
    for step in agreement.steps:
        for name, spec in step.replies.items():
            assert spec.shape[0] in (1, 12, 24), (step.name, name)


def test_a_number_of_items_that_fits_no_memory_allocates_nothing():
    """A proposal is looked at before the policy has accepted it."""
    one = proposal("site", None)
    settings = {"bounds": [1.0, 5.0], "items": 10**12}
    found = Computation(Proposal("recommender", settings, one.privacy, SITES, "run"))
    assert found.agreement.items == 10**12  # whose weights alone would take 8 TB


def test_local_methods_run_over_sites_where_their_messages_leave_in_sums():
    """Devices may be participants; the baseline, which answers for every item, is refused."""
    privacy = {"epsilon": 1.0, "unit": "user", "trust": "local", "neighbours": "replace-one"}
    settings = {name: value for name, value in SETTINGS.items() if name != "item_weights"}
    found = Computation(
        Proposal("recommender", settings | {"method": "gd"}, privacy, SITES, "run")
    )
    for step in found.agreement.steps:
        assert set(step.leaving) == {"sum", "count"}
    with pytest.raises(ParameterError, match="too long for sites"):
        Computation(
            Proposal("recommender", settings | {"method": "responses"}, privacy, SITES, "run")
        )


def test_one_site_is_fitted_like_a_list_of_one():
    asked = proposal("site", None)
    one, many = (
        tc.PrivateRecommender((1.0, 5.0), rank=2, privacy=asked.guarantee(), random_state=3).fit(d)
        for d in (tc.Site("North", ratings("North")), [tc.Site("North", ratings("North"))])
    )
    assert np.array_equal(one.shared_["base"], many.shared_["base"])
