"""Transcripts, canaries in one run, ratings from messages, and who was in the data."""

import numpy as np
import pytest

import tacit as tc
from tacit.audit import audit, audit_one_run, distinguish, worst_case
from tacit.audit.transcript import fresh, record, replay
from tacit.errors import NotCertified, ParameterError, TacitError
from tacit.mechanisms.base import watched
from tacit.mechanisms.noise import Noise
from tacit.posterior import NormalMean
from tacit.published.attacks import Messages, audit_sums, membership, read_ratings
from tacit.published.hua2015_hu2023 import GradientFactorization, GradientRecommender

PRIVACY = tc.Privacy(1.0, 1e-6)


def model(**more):
    return tc.PrivateSummary({"x": (0, 1)}, privacy=PRIVACY, noise="grid", **more)


def test_a_watched_run_is_charged_and_is_not_for_release(tmp_path):
    ledger = tc.Ledger.memory(epsilon=2.0, delta=1e-5)
    fitted, steps = record(lambda: model(ledger=ledger).fit({"x": [0.5]}))
    assert len(steps) == 2  # the sums, and quantiles
    assert ledger.remaining.epsilon == 1.0
    assert any("not for release" in note for note in fitted.certificate_.assumptions)
    with pytest.raises(NotCertified):
        fitted.release(tmp_path / "release")


def test_nobody_watches_after_the_block():
    with watched(lambda mechanism, value, noise: np.zeros(mechanism.shape)):
        assert model().fit({"x": [0.5]}).count_ == 0.0
    assert model().fit({"x": [0.5] * 50}).count_ != 0.0


def test_a_replay_sees_the_same_questions_and_its_own_data():
    table = {"x": np.full(5, 0.25)}
    _, script = record(lambda: model(random_state=0).fit(table))
    again = replay(lambda: model(random_state=1).fit(table), script)
    other = replay(lambda: model(random_state=1).fit({"x": np.full(6, 0.25)}), script)
    assert (again[0].value.integers == script[0].value.integers).all()
    assert (other[0].value.integers != script[0].value.integers).any()
    assert again[0].released is script[0].released


def test_a_schedule_that_depends_on_the_data_is_found():
    _, script = record(lambda: model(random_state=0).fit({"x": [0.5]}))
    twice = lambda: [model(random_state=0).fit({"x": [0.5]}) for _ in range(2)]  # noqa: E731
    with pytest.raises(TacitError, match="depends on the data"):  # through the rounds
        replay(twice, script)
    with pytest.raises(NotCertified, match="depends on the data"):
        replay(lambda: None, script)


def test_an_audit_charges_no_ledger_and_can_be_repeated():
    ledger = tc.Ledger.memory(epsilon=2.0, delta=1e-5)
    first, second = (audit(model(ledger=ledger), runs=500) for _ in range(2))
    assert ledger.remaining.epsilon == 2.0
    assert first == second
    assert "the certificate holds" in str(first)


def test_without_a_guarantee_there_is_nothing_to_audit():
    with pytest.raises(ParameterError, match="nothing to audit"):
        audit(tc.PrivateSummary({"x": (0, 1)}))
    with pytest.raises(NotCertified, match="no guarantee"):
        audit(tc.PrivateSummary({"x": (0, 1)}), {"x": [0.5]}, {"x": [0.6]})
    with pytest.raises(ParameterError, match="no worst case"):
        worst_case(Noise())


def test_an_attack_that_sees_no_difference_does_not_call_it_safe():
    model = tc.PrivateSummary({"x": (0, 1)}, privacy=tc.Privacy(1.0, 1e-6))
    with pytest.raises(NotCertified, match="says nothing"):
        audit(model, {"x": [0.5]}, {"x": [0.5]}, runs=50)
    asked = tc.Privacy(epsilon=1, delta=1e-5, unit="entry", trust="aggregator")
    with pytest.raises(NotCertified, match="audit_sums"):
        audit(GradientRecommender((1, 5), privacy=asked, rank=2), runs=50)


def test_one_run_sees_a_twentieth_of_the_noise_and_no_more_than_certified(monkeypatch):
    summary = tc.PrivateSummary(
        {"x": (0, 64)}, bins=64, statistics=("histogram",), privacy=PRIVACY, noise="grid"
    )

    def canaries(which):
        return {"x": np.array([*which, 0.0]) + 0.5}

    assert audit_one_run(summary, canaries, 64).holds
    whole = Noise.laplace  # the least noise for one number of a canary
    monkeypatch.setattr(Noise, "laplace", lambda self, n, scale: whole(self, n, scale / 20.0))
    found = audit_one_run(summary, canaries, 64)
    assert found.right == found.guesses
    assert not found.holds


def test_a_black_box_is_judged_by_its_outputs():
    rng = np.random.default_rng(0)
    found = distinguish(lambda x, k: x + rng.laplace(0, 1, 3), np.zeros(3), np.eye(3)[0],
                        delta=0.0, runs=4000)  # fmt: skip
    assert 0.3 < found.epsilon < 1.0
    exact = distinguish(lambda x, k: x, np.zeros(1), np.ones(1), delta=0.0, runs=400)
    assert exact.epsilon > 3.0


def test_single_messages_tell_ratings_where_sums_do_not():
    rng = np.random.default_rng(1)
    u = rng.standard_normal((400, 10))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    truth = rng.integers(1, 6, 400).astype(float)
    found = {}
    for raters in (1, 200):
        known = Messages(u, u, np.ones(400), np.full(400, raters), 8.0, 100)
        guess = read_ratings(known, truth, rng)
        found[raters] = np.mean(np.clip(np.rint(guess), 1, 5) == truth)
    assert found[200] > 0.9
    assert found[1] < 0.8  # the recommender knows the spread of what it drew


def test_sums_are_attacked_for_published_methods_only():
    with pytest.raises(ParameterError, match="hdpmf"):
        audit_sums(tc.PrivateRecommender((1, 5)))


def test_released_factors_give_members_away_unless_noise_hides_them():
    rng = np.random.default_rng(0)
    table = np.where(rng.random((120, 30)) < 0.5, rng.integers(1, 6, (120, 30)), np.nan)
    table[:, 0] = 3.0
    method = GradientFactorization("mf", step_size=0.02, ridge=0.0, epochs=300)
    plain = GradientRecommender((1, 5), method=method, rank=12, random_state=0).fit(table[:60])
    private = tc.PrivateRecommender(
        (1, 5), rank=12, random_state=0, method="offsets",
        privacy=tc.Privacy(1.0, 1e-5, unit="entry", trust="aggregator"),
    ).fit(table[:60])  # fmt: skip
    assert membership(plain, table[:60], table[60:]).area > 0.6
    assert abs(membership(private, table[:60], table[60:]).area - 0.5) < 0.12


def test_shares_of_noise_are_not_taken_for_all_of_it():
    """Under a secure sum each site draws a part: the sum is private, a part by itself is not."""
    request = tc.Privacy(1.0, 1e-3, unit="document", trust="aggregator")
    topics = tc.SingleTopicModel(2, vocabulary=2, privacy=request)
    pair = worst_case(topics)

    def sites(documents):
        return [tc.Site("A", documents), tc.Site("B", pair.neighbour)]

    with pytest.raises(ParameterError, match="several sites share the noise"):
        audit(topics, sites(pair.data), sites(pair.neighbour), runs=100)
    assert audit(topics, runs=400).holds


def test_a_fitted_estimator_is_audited_like_its_copy():
    fitted = model(random_state=3).fit({"x": [0.5]})
    assert audit(fitted, runs=400).attacked == audit(model(), runs=400).attacked


def test_every_agreement_is_its_own_worst_case():
    privacy = tc.Privacy(1.0, 1e-5, neighbours="replace-one")
    model = tc.PrivatePosterior(NormalMean(), "mean", bounds=(0, 10), privacy=privacy, size=5)
    found = worst_case(model)
    agreement = model._agree([None])
    assert [x.tolist() for x in found[:2]] == [x.tolist() for x in agreement.worst_case()]
    assert not hasattr(model, "certificates_")
    with pytest.raises(ParameterError, match="nothing to audit"):
        worst_case(tc.PrivatePosterior(NormalMean(), bounds=(0, 10), size=5))


def test_copies_for_an_audit_share_what_is_public_and_no_noise():
    draws = [
        fresh(model(), 3, number).fit({"x": [0.5] * 4}).shared_["mean/x"] for number in (0, 0, 1)
    ]
    assert draws[0] == draws[1] != draws[2]
