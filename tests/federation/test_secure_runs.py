"""Secure sums between sites with files of their own: identities, one threshold, what is said."""

import dataclasses

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError, SiteFailure
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.coordinate import run_proposal
from tacit.federation.files import SiteConfig, Step
from tacit.federation.policy import Permission
from tacit.federation.proposal import Proposal
from tacit.federation.refusals import SENTENCES
from tacit.federation.secure.site import SecureParticipant
from tacit.federation.service import SiteService
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import GaussianDpEvent, compose
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.messages import Message
from tests.federation.identities import pinned, pinned_toml

from .support import (
    FACTORIZATION,
    PINNED,
    REGRESSION,
    ROW,
    SITES,
    USER,
    Direct,
    services,
)
from .test_recommender import proposal as recommended
from .test_recommender import services as raters
from .test_spectral import TOPICS, counts, sites

PRIVACY = {"epsilon": 10.0, "delta": 1e-5, "unit": "document", "trust": "aggregator"}
SECURE = Proposal("factorization", FACTORIZATION, USER, SITES, "run s", 3, 7)


def colluding(folder, number):
    """Let the sites' files ask for another number of colluding sites."""
    for site in SITES:
        path = folder / site / "site.toml"
        text = path.read_text()
        path.write_text(text.replace('"colluding" = 0', f'"colluding" = {number}'))


def charged(folder, site):
    path = folder / site / "ledger.db"
    return path.exists() and Ledger.open(path).spent.epsilon > 0.0


def topic_sites(folder, number=1):
    found = sites(folder, "topics", "document", TOPICS)
    colluding(folder, number)
    return {s: SiteService(SiteConfig.read(folder / s / "site.toml")) for s in found}


def test_what_needs_every_sites_own_release_is_refused_before_anybody_pays():
    """A sum over sites would leave it with nothing to look at, after the charge."""
    wanted = Proposal("regression", REGRESSION, ROW, SITES, "run", 3)
    with pytest.raises(ParameterError, match="needs every site's own release"):
        Computation(wanted)


# --- one threshold ------------------------------------------------------------------------------


def test_a_secure_run_uses_the_usual_threshold_and_noise_for_one_colluding_site(tmp_path):
    proposal = Proposal("topics", TOPICS, PRIVACY, SITES, "run", None, 3)
    assert (proposal.threshold, proposal.colluding) == (3, 1)
    result = run_proposal(proposal, Direct(topic_sites(tmp_path)), partners=PINNED)
    found = result.certificates["North"]
    # three sites see a sum through, of which one may know its own noise: two shares
    assert {m.shares for m in Computation(proposal).agreement.mechanisms} == {2}
    central = tc.SingleTopicModel(**TOPICS, privacy=tc.Privacy(**PRIVACY), random_state=3)
    central.fit([tc.Site(site, counts(site)) for site in SITES])
    assert found.epsilon == central.certificates_["North"].epsilon <= 10.0
    assert result.model.noise_edge_ > central.noise_edge_  # and each share is larger
    assert found.against == (
        "the coordinator, with 1 of the other sites on its side, and the public"
    )
    found.verify()
    text = " ".join(found.assumptions)
    assert "secure sums over at least 3 of 3 sites" in text
    assert "at most 2 of them are on the coordinator's side" in text
    assert "ε is for a coordinator with 1 of the other sites on its side; with 0 it is" in text
    assert "one site can spoil it" in text
    for others, share in ((0, 3 / 2), (2, 1 / 2)):
        said = float(text.split(f"with {others} it is ")[1].split("; ")[0].split(" ")[0])
        each = [one.noise_multiplier * share**0.5 for one in found.event.events]
        assert len(each) == 2  # words, and pairs with triples
        exact = epsilon_of(compose(GaussianDpEvent(one) for one in each), 1e-5)
        assert exact <= said < exact * 1.001


def test_where_each_site_adds_all_of_its_noise_no_other_number_is_said(tmp_path):
    result = run_proposal(SECURE, Direct(services(tmp_path)), partners=PINNED)
    text = " ".join(result.certificates["West"].assumptions)
    assert "secure sums over at least 3 of 3 sites" in text and "one site can spoil it" in text
    assert "with 0 it is" not in text
    assert "on its side" not in result.certificates["West"].against


@pytest.mark.parametrize(
    ("threshold", "assumed", "policy", "reason"),
    [
        (2, 0, {"colluding": 1}, "0 colluding sites are assumed, fewer than 1"),
        (2, 0, {"threshold": 3}, "2 sites see a sum through, fewer than 3"),
        (3, 1, {"colluding": 2}, "1 colluding sites are assumed, fewer than 2"),
        (3, 1, {"colluding": 1, "threshold": 2}, None),
        (3, 0, {}, None),
        (2, 0, {}, None),
    ],
)
def test_a_site_holds_a_proposal_to_its_own_numbers(tmp_path, threshold, assumed, policy, reason):
    proposal = dataclasses.replace(SECURE, threshold=threshold, colluding=assumed)
    found = services(tmp_path, **policy)
    permission = found["North"].config.policy.permissions[1]
    objections = permission.objections(proposal)
    assert [one.text for one in objections] == ([] if reason is None else [reason])
    if reason is not None:
        with pytest.raises(SiteFailure, match=SENTENCES[objections[0].about]):
            run_proposal(proposal, Direct(found), partners=PINNED)
        assert not charged(tmp_path, "North")


def test_a_policy_without_numbers_asks_for_two_thirds_and_one_colluding_site():
    permission = Permission("factorization", 1.0, 1e-6, "user", FACTORIZATION, rounds=4)
    ten = tuple(f"site {k}" for k in range(10))
    for threshold, fits in ((6, False), (7, True), (10, True)):
        proposal = dataclasses.replace(SECURE, sites=ten, threshold=threshold)
        found = [one for one in permission.objections(proposal) if one.about == "threshold"]
        assert [one.text for one in found] == (
            [] if fits else ["6 sites see a sum through, fewer than 7"]
        )


def test_a_file_asks_for_the_usual_threshold_by_one_word():
    step = Step("s", "factorization", FACTORIZATION, USER, secure=True)
    assert step.proposal(SITES, "run").threshold == 3
    step = dataclasses.replace(step, colluding=0)
    assert step.proposal(SITES, "run").threshold == 2
    assert dataclasses.replace(step, secure=False).proposal(SITES, "run").threshold is None


def test_rounds_of_a_policy_count_sums_and_not_their_exchanges(tmp_path):
    run_proposal(SECURE, Direct(services(tmp_path, rounds=4)), partners=PINNED)
    with pytest.raises(SiteFailure, match=SENTENCES["rounds"]):
        run_proposal(
            dataclasses.replace(SECURE, run="other"),
            Direct(services(tmp_path / "fewer", rounds=3)),
            partners=PINNED,
        )


def test_where_products_are_looked_at_again_all_sites_are_in_every_sum():
    """Two sums with and without a site would show its part under its own share of the noise."""
    words = [f"w{k}" for k in range(513)]
    five = tuple(f"site {k}" for k in range(5))
    every = TOPICS | {"vocabulary": words, "common": "all"}
    proposal = Proposal("topics", every, PRIVACY, five, "run")
    assert proposal.threshold == 4
    with pytest.raises(ParameterError, match="pass threshold = 5"):
        Computation(proposal)
    Computation(dataclasses.replace(proposal, threshold=5))
    for fewer in ({"vocabulary": words[:512]}, {"common": None}):
        one_look = dataclasses.replace(proposal, settings=every | fewer)
        assert Computation(one_look).terms.threshold == 4


def test_the_page_says_what_secure_sums_hold_against():
    permission = Permission(
        "topics", 1.0, 1e-6, "document", TOPICS, rounds=2, partners=5, trust="aggregator"
    )
    page = permission.sentence()
    assert "\n  Secure sums over at least 4 of 5 sites" in page and "at most 2 of them" in page
    assert "with 0 it is 0.8" in page and "with 2 it is 1.2" in page
    assert "one site can spoil it" in page
    plain = dataclasses.replace(permission, trust="site")
    assert "spoil" not in plain.sentence()


# --- identities ---------------------------------------------------------------------------------


def test_a_site_without_identity_refuses_before_anything_is_charged(tmp_path):
    found = services(tmp_path, known=False)
    with pytest.raises(SiteFailure, match=SENTENCES["identities"]):
        run_proposal(SECURE, Direct(found), partners=PINNED)
    for site in SITES:
        assert not list((tmp_path / site).rglob("outbox")) and not charged(tmp_path, site)
    run_proposal(dataclasses.replace(SECURE, threshold=None), Direct(found))  # in clear it may


@pytest.mark.parametrize("wrong", ["missing", "another", "twice"])
def test_a_site_that_has_not_pinned_all_partners_refuses(tmp_path, wrong):
    found = services(tmp_path)
    path = tmp_path / "North" / "site.toml"
    known = dict(PINNED)
    if wrong == "missing":
        del known["West"]
    else:
        known["North" if wrong == "another" else "West"] = PINNED["South"]
    inline = "{" + ", ".join(f'"{n}" = "{key.hex()}"' for n, key in known.items()) + "}"
    path.write_text(path.read_text().replace(pinned_toml(SITES), inline))
    found["North"] = SiteService(SiteConfig.read(path))
    with pytest.raises(SiteFailure, match="North: the site has no identity"):
        run_proposal(SECURE, Direct(found), partners=PINNED)


@pytest.mark.parametrize("known", [None, {}, pinned(SITES[:2])])
def test_a_coordinator_without_the_identities_asks_nobody(tmp_path, known):
    direct = Direct(services(tmp_path))
    with pytest.raises(ParameterError, match="secure sums need pinned identities"):
        run_proposal(SECURE, direct, partners=known)
    assert not direct.calls


def test_sites_that_pinned_another_identity_of_a_partner_do_not_share_with_it(tmp_path):
    found = services(tmp_path)
    other = PINNED | {"West": pinned(["stranger"])["stranger"]}
    with pytest.raises(SiteFailure, match="'West' failed in round 1: the keys of 'West' are not"):
        run_proposal(SECURE, Direct(found), partners=other)


# --- what is public, and what is not ------------------------------------------------------------


def private_step_in_an_open_round(folder):
    """Ask for a public step once instead of seven times, and then for the mean without masks."""
    asked, seen = recommended("aggregator", 3), {}

    def note(method, name, request, answer):
        if method != "respond":
            seen.setdefault(method, request)
        elif (message := wire.read_request(request, "run")).step:
            seen.setdefault(message.step, message)
        return answer

    (folder / "honest").mkdir()
    run_proposal(asked, Direct(raters(folder / "honest"), note), partners=PINNED)
    (folder / "rogue").mkdir()
    site = raters(folder / "rogue")["North"]
    site.call("open", seen["open"]), site.call("begin", seen["begin"])
    mean = {n[4:]: a for n, a in seen["mean"].arrays.items() if n.startswith("ask/")}
    for message in (seen["counts"], seen["pattern"], Message(2, mean, "mean")):
        sent = wire.ask(message, "run")
        found = wire.read_answer(site.call("respond", sent), sent, "run", "North")
    return found


def test_a_private_step_is_never_answered_without_masks(tmp_path):
    with pytest.raises(SiteFailure, match=SENTENCES["request"]):
        private_step_in_an_open_round(tmp_path)


def test_were_rounds_counted_instead_of_steps_one_sites_mean_would_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(SecureParticipant, "_check_open", lambda self, request: None)
    assert private_step_in_an_open_round(tmp_path).step == "mean"


# --- sites that are lost ------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(2, 8))
def test_a_lost_site_is_survived_also_by_a_coordinator_that_starts_again(tmp_path, at):
    """West is gone for good from its at-th answer on; the coordinator dies once after that."""

    class Gone(Exception):
        pass

    proposal = dataclasses.replace(SECURE, threshold=2, colluding=0)
    answered = []

    def lose(method, name, request, answer):
        if name == "West":
            answered.append(method)
            if answered.count("respond") >= at:
                raise TimeoutError
        return answer

    def stop(record):
        if record.rounds == at:
            raise Gone

    direct = Direct(services(tmp_path), lose)
    options = {"on_failure": "exclude", "checkpoint": tmp_path / "c", "partners": PINNED}
    with pytest.raises(Gone):
        run_proposal(proposal, direct, progress=stop, **options)
    result = run_proposal(proposal, direct, **options)
    assert set(result.certificates) == {"North", "South"}
    assert all(np.isfinite(f).all() for f in result.model.shared_factors_.values())
