"""A network that is trained by a coordinator elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.estimators.site import Site
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.networks import PrivateDropoutClassifier, Training
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.aggregate import SumAggregator
from tacit.rounds.messages import Message
from tacit.rounds.run import run
from tests.federation.in_process import SecureAggregator

SETTINGS = {
    "inputs": ["a", "b"], "target": "kind", "hidden": [3], "bounds": [[-1, 1], [0, 2]],
    "classes": ["no", "yes"], "rows": 200, "training": {"steps": 4, "samples": 2},
}  # fmt: skip
PRIVACY = {"epsilon": 4.0, "delta": 1e-5, "trust": "site"}


def proposal(**changes):
    content = {
        "computation": "network-classifier", "settings": SETTINGS, "privacy": PRIVACY,
        "sites": ("east", "west"), "run": "r", "seed": 3,
    }  # fmt: skip
    return Proposal(**{**content, **changes})


def table(site):
    rng = np.random.default_rng(len(site))
    rows = rng.uniform(-1, 1, (100, 2)) + np.array([0.0, 1.0])
    kinds = np.where(rows[:, 0] > 0, "yes", "no")
    return {"a": rows[:, 0], "b": rows[:, 1], "kind": kinds}


def test_a_coordinator_elsewhere_learns_the_same_bits():
    ours = Computation(proposal())
    ledgers = {site: Ledger.memory(epsilon=4.0, delta=1e-4) for site in ("east", "west")}
    sides = {}
    for site, ledger in ledgers.items():  # each builds its own from the proposal
        theirs = Computation(proposal())
        assert theirs.agreement.digest == ours.agreement.digest
        sides[site] = theirs.site(site, {"t": {"table": table(site)}}, ledger)
    asking = ours.coordinator()
    record = run(asking, [side.participant for side in sides.values()])
    certificates = {site: side.certificate() for site, side in sides.items()}
    model = ours.conclude(asking, record, certificates)

    rows = {site: table(site) for site in sides}
    pairs = {s: (np.column_stack([t["a"], t["b"]]), t["kind"]) for s, t in rows.items()}
    here = PrivateDropoutClassifier(
        (3,), bounds=((-1, 1), (0, 2)), classes=("no", "yes"), rows=200,
        training=Training(steps=4, samples=2), privacy=Privacy(**PRIVACY), random_state=3,
    ).fit([Site(name, pair) for name, pair in pairs.items()])  # fmt: skip
    for name, array in here.shared_.items():
        np.testing.assert_array_equal(model.shared_[name], array)
    assert all(ledger.spent.epsilon > 3.9 for ledger in ledgers.values())
    assert model.predict(pairs["east"][0]).shape == (100,)


def test_another_network_is_another_agreement():
    digest = Computation(proposal()).agreement.digest
    for change in (
        {"hidden": [4]},
        {"activation": "relu"},
        {"classes": ["no", "yes", "?"]},
        {"training": {"steps": 5, "samples": 2}},
        {"training": {"steps": 4, "samples": 2, "step_size": 1.0}},
    ):
        other = Computation(proposal(settings={**SETTINGS, **change}))
        assert other.agreement.digest != digest, change
    with pytest.raises(ParameterError, match="device"):
        Computation(proposal(settings={**SETTINGS, "device": "cuda"}))


SECURE = {**PRIVACY, "trust": "aggregator"}


def sides_of(wanted, ledgers):
    return {
        site: Computation(wanted).site(site, {"t": {"table": table(site)}}, ledgers[site])
        for site in wanted.sites
    }


def budgets(sites):
    return {site: Ledger.memory(epsilon=4.0, delta=1e-4) for site in sites}


@pytest.mark.parametrize(("sites", "threshold", "colluding"), [(2, 2, 0), (3, 3, 1)])
def test_shares_of_the_noise_add_up_to_that_of_one_holder(sites, threshold, colluding):
    names = ("east", "west", "south")[:sites]
    wanted = proposal(privacy=SECURE, threshold=threshold, sites=names, colluding=colluding)
    ours, numbers = Computation(wanted), Computation(wanted).agreement.dynamics
    alone = Computation(proposal()).agreement
    assert ours.event() == alone.event  # a row's price is that of one holder
    assert numbers.shares == threshold - colluding
    assert numbers.noise == pytest.approx(
        numbers.noise_multiplier * numbers.norm * math.sqrt(sites / (threshold - colluding))
    )
    exponent = ours.agreement.steps[0].replies["sum"].exponent
    found = []
    for aggregator in (SumAggregator(sites), SecureAggregator(sites, grids={"sum": exponent})):
        ledgers = budgets(names)
        sides, asking = sides_of(wanted, ledgers), ours.coordinator()
        record = run(asking, [s.participant for s in sides.values()], aggregator=aggregator)
        model = ours.conclude(asking, record, {s: side.certificate() for s, side in sides.items()})
        found.append({name: np.array(array) for name, array in model.shared_.items()})
        assert all(ledger.spent.epsilon > 3.9 for ledger in ledgers.values())
    for name, array in found[0].items():  # through masks, and as they are
        np.testing.assert_array_equal(found[1][name], array)
    text = str(model.certificates_["east"])
    assert f"only the sum over at least {numbers.shares} sites" in text or numbers.shares == 1
    if colluding == 0:  # the same fit, where all sites are in this process
        pairs = {
            s: (np.column_stack([table(s)[k] for k in "ab"]), table(s)["kind"]) for s in names
        }
        here = PrivateDropoutClassifier(
            (3,), bounds=((-1, 1), (0, 2)), classes=("no", "yes"), rows=200,
            training=Training(steps=4, samples=2), privacy=Privacy(**SECURE), random_state=3,
        ).fit([Site(s, pair) for s, pair in pairs.items()])  # fmt: skip
        for name, array in here.shared_.items():
            np.testing.assert_array_equal(found[0][name], array)


def test_a_site_that_lost_its_draw_still_adds_its_share_of_the_noise(monkeypatch):
    """The other site's guarantee rests on it; where every site adds all, zeros will do."""
    for privacy, more in ((SECURE, {"threshold": 2, "colluding": 0}), (PRIVACY, {})):
        wanted = proposal(privacy=privacy, **more)
        side = sides_of(wanted, budgets(wanted.sites))["east"].participant
        monkeypatch.setattr(type(side.gate), "is_lost", lambda *_: True)
        agreement = side.agreement
        weights = np.zeros(agreement.size, np.float32)
        reply = side.respond(Message(0, {"weights": weights}, "step"))
        monkeypatch.undo()
        assert reply.arrays["drawn"] == [0]
        assert bool(np.any(reply.arrays["sum"])) == (privacy is SECURE)
        if privacy is SECURE:
            share = agreement.mechanism.mechanism.scale / math.sqrt(2)
            assert 0.3 < np.std(reply.arrays["sum"]) / share < 3.0


def test_a_proposal_of_a_huge_network_takes_no_room_before_it_is_accepted():
    """Ten billion weights: what they cost is known without any of them."""
    huge = Computation(proposal(settings={**SETTINGS, "hidden": [100_000, 100_000]}))
    assert huge.agreement.size > 10_000_000_000
    assert huge.event() == Computation(proposal()).event()
