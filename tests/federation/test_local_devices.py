"""Local methods over bytes: every participant is one person's device, or a site with several.

What a device answers over bytes is what it answers in one process, bit for bit; its ledger pays ε,
and all that leaves is one randomised number and what it is about.
"""

import numpy as np
import pytest

import tacit as tc
from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure
from tacit.federation.computation import Computation
from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal

from .support import Direct, ready, toml, write_csv

ITEMS = [f"b{k}" for k in range(8)]
KIND = ["even", "odd"] * 4
PRIVACY = {"epsilon": 4.0, "unit": "user", "trust": "local", "neighbours": "replace-one"}
METHODS = {
    "groups": {"levels": [["kind", KIND]], "answer": "piecewise"},
    "gd": {"rounds": 3, "step_size": 2.0},
    "gd-dr": {"rounds": 3, "dimensions": 3, "answer": "hybrid"},
    "once": {"rounds": 2, "participation": "once"},
}


def settings(method):
    name = "gd" if method == "once" else method
    return {"bounds": [1.0, 5.0], "rank": 2, "items": ITEMS, "method": name,
            "options": METHODS[method]}  # fmt: skip


def table(number, people=1):
    rng = np.random.default_rng(number)
    rated = rng.random((people, len(ITEMS))) < 0.6
    rated[:, 0] = True
    user, item = np.nonzero(rated)
    return {
        "user": np.array([f"p{number}-{u}" for u in user]),
        "item": np.array(ITEMS)[item],
        "rating": rng.integers(1, 6, len(user)).astype(float),
    }


def devices(folder, method, count, people=1):
    found = {}
    for number in range(count):
        home = folder / f"device-{number}"
        home.mkdir()
        write_csv(home / "t.csv", table(number, people))
        allow = {"computation": "recommender", "epsilon": 4.0, "delta": 0.0, "unit": "user",
                 "trust": "local", "neighbours": "replace-one", "rounds": 8, "seeded": True,
                 "settings": settings(method)}  # fmt: skip
        ledger = {"file": "l.db", "epsilon": 5.0, "delta": 0.0, "unit": "user",
                  "neighbours": "replace-one"}  # fmt: skip
        (home / "site.toml").write_text(
            f'name = "device-{number}"\nledger = {toml(ledger)}\n'
            f'data = {{t = {{file = "t.csv", value = "rating"}}}}\nallow = {toml([allow])}\n'
        )
        found[f"device-{number}"] = ready(home / "site.toml")
    return found


def proposal(method, count, seed=3):
    sites = tuple(f"device-{number}" for number in range(count))
    return Proposal("recommender", settings(method), PRIVACY, sites, "run", None, seed, 0)


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize(("count", "people"), [(5, 1), (2, 4)])
def test_devices_over_bytes_learn_what_one_process_learns(tmp_path, method, count, people):
    asked, seen = proposal(method, count), []

    def look(call, name, request, answer):
        if call == "respond":
            seen.append(name)
        return answer

    result = run_proposal(asked, Direct(devices(tmp_path, method, count, people), look))
    stated, _ = tc.PrivateRecommender._stated(settings(method))
    model = tc.PrivateRecommender(
        **stated, privacy=asked.guarantee(), random_state=asked.seed
    ).fit([
        tc.Site(f"device-{n}", Relation.from_frame(table(n, people), ["user", "item"], "rating",
                                                   labels={"item": ITEMS}))
        for n in range(count)
    ])  # fmt: skip
    assert set(result.outcome) == set(model.shared_)
    for name, array in model.shared_.items():
        assert np.array_equal(result.outcome[name], array), name
    for number in range(count):
        certificate = result.certificates[f"device-{number}"]
        assert (certificate.epsilon, certificate.trust) == (4.0, "local")
    assert len(seen) == count * len(model._agreement.steps[0:]) or method in ("gd", "gd-dr")


@pytest.mark.parametrize("method", ["groups", "once"])
def test_devices_share_out_who_answers_what(method):
    """Alone, a device draws its cohort; if all took the first one, the rest would never answer."""
    agreement = Computation(proposal(method, 40)).agreement
    counts = {}
    for number in range(40):
        rated = Relation.from_frame(table(number), ["user", "item"], "rating",
                                    labels={"item": ITEMS})  # fmt: skip
        stated, _ = tc.PrivateRecommender._stated(settings(method))
        model = tc.PrivateRecommender(**stated, privacy=tc.Privacy(**PRIVACY))
        site = model._as_sites([tc.Site(f"device-{number}", rated)])[0]
        holder = agreement.holder(site.name, model._read(site.data, agreement), None, 3)
        cohorts = holder._cohorts
        parts = cohorts.items() if isinstance(cohorts, dict) else enumerate(cohorts)
        for name, part in parts:
            counts[name] = counts.get(name, 0) + len(part)
    assert sum(counts.values()) == 40
    if method == "once":
        assert 10 <= counts[0] <= 30
    else:
        assert len(counts) == 3 and counts["level 1"] < 40


def test_two_devices_with_one_seed_do_not_answer_alike():
    """Else all would be asked about one coordinate, in every run with a seed."""
    agreement = Computation(proposal("gd", 2)).agreement
    streams = [
        agreement.holder(name, _rated(), None, 3)._rng.integers(0, 2**62)
        for name in ("device-0", "device-1")
    ]
    assert streams[0] != streams[1]


def _rated():
    relation = Relation.from_frame(table(0), ["user", "item"], "rating", labels={"item": ITEMS})
    model = tc.PrivateRecommender((1.0, 5.0), items=ITEMS)
    return model._as_sites([tc.Site("x", relation)])[0].data.read((1.0, 5.0))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options": {"rounds": 0}}, "rounds must"),
        ({"options": {"nonsense": 1}}, "options of method 'gd' are"),
        ({"options": ["rounds"]}, "options of method 'gd' are"),
        ({"method": None}, "options go with a method"),
        ({"method": ["gd"]}, "options go with a method"),
        ({"method": "groups", "options": {"levels": [["kind", [0, 1]]]}}, "levels are of 2 items"),
        ({"method": "groups", "options": {"levels": [["kind"]]}}, "levels must be"),
        ({"method": "groups", "options": {"levels": 3}}, "levels must be"),
    ],
)
def test_options_that_make_no_sense_are_refused_on_both_sides(changes, reason):
    bad = Proposal("recommender", settings("gd") | changes, PRIVACY, ("a",), "run")
    with pytest.raises(ParameterError, match=reason):
        Computation(bad)


def test_a_policy_with_other_options_refuses(tmp_path):
    found = devices(tmp_path, "gd", 1)
    other = settings("gd") | {"options": METHODS["gd"] | {"rounds": 4}}
    asked = Proposal("recommender", other, PRIVACY, ("device-0",), "run", None, 3, 0)
    with pytest.raises(SiteFailure, match="device-0: the site's policy"):
        run_proposal(asked, Direct(found))
