"""A network that is trained by a coordinator elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.estimators.site import Site
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.networks import PrivateDropoutClassifier, Training
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.run import run

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
    with pytest.raises(ParameterError, match="trust"):
        Computation(proposal(privacy={**PRIVACY, "trust": "aggregator"}, threshold=2))


def test_a_proposal_of_a_huge_network_takes_no_room_before_it_is_accepted():
    """Ten billion weights: what they cost is known without any of them."""
    huge = Computation(proposal(settings={**SETTINGS, "hidden": [100_000, 100_000]}))
    assert huge.agreement.size > 10_000_000_000
    assert huge.event() == Computation(proposal()).event()
