"""A site that was restarted: its second moment stands, and its third can still be paid for."""

import numpy as np
import pytest

import tacit as tc
from tacit.data.synthetic import topic_documents
from tacit.errors import NothingReleased, RequestRefused
from tacit.estimators.fit import Place, take_part
from tacit.moments.agreement import DENSE, TopicAgreement
from tacit.rounds.checkpoint import Outbox, Remembering
from tacit.rounds.messages import Message

SIZE, RANK = DENSE + 1, 2
DOCUMENTS = topic_documents(60, SIZE, RANK, words=5, seed=1)[0]


@pytest.fixture(params=["site", "aggregator"])
def agreement(request):
    privacy = tc.Privacy(2.0, 1e-5, unit="document", trust=request.param)
    return TopicAgreement(SIZE, RANK, privacy)


def side(agreement, folder, seed=None):
    """Return a site as it is after a start, or after the next one in the same folder."""
    folder.mkdir(exist_ok=True)
    ledger = tc.Ledger.open(folder / "ledger.db", unit="document", epsilon=2.0, delta=1e-5)
    site = tc.Site("North", None, ledger)
    place = Place("topics", seed=seed)
    found = take_part(agreement, site, DOCUMENTS, place, "run", folder / "standing")
    return found, Remembering(found.participant, Outbox(folder / "outbox"))


def requests(agreement):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((SIZE, 3)))[0]
    vectors = basis
    if agreement.whole:
        vectors = np.rint(np.ldexp(basis, agreement.unit_bits)).astype(np.int64)
    return [
        Message(0, {"vectors": vectors}, "second"),
        Message(1, {"vectors": vectors[:, :2]}, "look"),
        Message(2, {"vectors": vectors}, "look"),
        Message(3, {"basis": basis[:, :RANK]}, "third"),
    ]


@pytest.mark.parametrize("seed", [None, 5])
def test_a_restarted_site_looks_at_the_same_release(agreement, tmp_path, seed):
    first, look, again, third = requests(agreement)
    found, site = side(agreement, tmp_path, seed)
    products = [site.respond(first), site.respond(look)]
    kept = list((tmp_path / "standing").iterdir())
    assert len(kept) == 1  # the key of the noise
    found, site = side(agreement, tmp_path, seed)  # restarted
    assert site.respond(look).to_bytes() == products[1].to_bytes()
    np.testing.assert_array_equal(site.respond(again)["product"], products[0]["product"])
    found, site = side(agreement, tmp_path, seed)  # restarted once more
    assert site.respond(third)["third"].shape == (agreement.coordinates,)
    assert found.certificate().epsilon <= 2.0
    found.close()
    assert not kept[0].exists()


def test_a_restart_changes_no_byte_of_a_look(agreement, tmp_path):
    asked = requests(agreement)[:3]
    _, through = side(agreement, tmp_path / "one", 5)
    whole = [through.respond(request).to_bytes() for request in asked]
    for number, request in enumerate(asked):
        _, fresh = side(agreement, tmp_path / "other", 5)  # restarted before every request
        assert fresh.respond(request).to_bytes() == whole[number]


def test_a_restarted_site_neither_goes_back_nor_draws_again(agreement, tmp_path):
    first, look, _, third = requests(agreement)
    _, site = side(agreement, tmp_path)
    site.respond(first)
    site.respond(look)
    _, site = side(agreement, tmp_path)
    for request in (first, Message(1, dict(first.arrays), "look"), third):
        with pytest.raises(RequestRefused):
            site.respond(request)
    _, site = side(agreement, tmp_path)
    next((tmp_path / "standing").iterdir()).unlink()
    with pytest.raises(NothingReleased, match="no such release"):
        site.respond(Message(2, dict(first.arrays), "look"))


def test_a_restarted_site_with_other_data_lets_nothing_out(agreement, tmp_path, monkeypatch):
    """The same noise on other documents would show their difference without any noise."""
    first, look, _, _ = requests(agreement)
    side(agreement, tmp_path)[1].respond(first)
    other = topic_documents(60, SIZE, RANK, words=5, seed=2)[0]
    monkeypatch.setattr("tests.moments.test_restart.DOCUMENTS", other)
    _, site = side(agreement, tmp_path)
    with pytest.raises(NothingReleased, match="no longer those of the earlier release"):
        site.respond(look)
