"""Randomized response and Laplace noise for every item: what a message carries and costs."""

import numpy as np
import pytest

import tacit as tc
from tacit.data.split import hold_out_per_member
from tacit.data.synthetic import simulated_ratings
from tacit.errors import ParameterError
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.numerics.ridge import by_member
from tacit.mechanisms.item_responses import ItemResponses
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import RandomizedResponseDpEvent, leaves
from tacit.recommender.local import every_item
from tacit.recommender.local.descent import user_errors, whole_gradient
from tacit.recommender.local.every_item import (
    ItemResponseGradient,
    ResponseGradient,
    whole_messages,
)
from tacit.recommender.method import Rated, Task
from tacit.rounds.aggregate import PlainAggregator
from tacit.rounds.messages import Message
from tests.contracts.hostile import Witness


def task(users, items, rank, privacy, bounds=(1.0, 5.0)):
    return Task(users, items, bounds, rank, privacy)


def request(kind, epsilon=4.0):
    return tc.Privacy(epsilon, unit=kind.unit, neighbours="replace-one", trust="local")


@pytest.fixture(scope="module")
def ratings():
    return simulated_ratings(120, 12, per_user=6, seed=4)


@pytest.mark.parametrize("kind", [ResponseGradient, ItemResponseGradient])
def test_a_person_pays_epsilon_and_bits_are_split_where_all_may_change(ratings, kind):
    model = tc.PrivateRecommender((1, 5), method=kind(rounds=3), privacy=request(kind), rank=2,
                                  random_state=0)  # fmt: skip
    certificate = model.fit(ratings).certificate_.verify()
    assert certificate.epsilon == pytest.approx(4.0, rel=1e-4) and certificate.epsilon <= 4.0
    assert (certificate.unit, certificate.trust) == (kind.unit, "local")
    (bits,) = [n for leaf, n in leaves(certificate.event).items()
               if isinstance(leaf, RandomizedResponseDpEvent)]  # fmt: skip
    assert bits == 3 * (12 if kind is ResponseGradient else 1)


def test_the_estimate_is_unbiased_while_no_message_is_shortened(ratings):
    public = task(120, 12, 2, request(ResponseGradient, 600.0))
    agreement = ResponseGradient(rounds=200, norm=50.0).agree(public)
    cells = by_member(ratings, "user")
    holder = agreement.holder("a", Rated(cells, np.ones(120)), Witness(agreement), 1)
    v = 0.5 * np.random.default_rng(0).normal(size=(12, 2))
    total = []
    for k in range(200):
        total.append(estimated(agreement, holder, k, v))
    mean, error = np.mean(total, axis=0), np.std(total, axis=0) / np.sqrt(200)
    truth = whole_gradient(public, holder.shards[0], v)
    assert np.mean(np.abs(mean - truth) < 3.0 * error) > 0.9


def estimated(agreement, holder, number, v):
    """Return the server's estimate of a round, from what the devices answer."""
    asking, reply = agreement.gradient(number, v, None), None
    try:
        while True:
            ask = asking.send(reply)
            at = [step.name for step in agreement.steps].index(ask.step)
            answer = holder.respond(Message(at, ask.arrays, ask.step))
            reply = PlainAggregator().collect({"a": answer})
    except StopIteration as stop:
        return stop.value.gradient


def numbers_of(mechanism, table):
    """Return what a message's numbers are before noise, through the mechanism itself."""

    class Silent(Noise):
        def laplace(self, count, scale):
            return np.zeros(count, np.int64)

    return mechanism.draw(table, Silent("grid", seed=0))[:, mechanism.items :]


def moved(first, second, v, public, mechanism):
    sent = []
    for table in (first, second):
        cells = by_member(tc.Relation.from_dense(("user", "item"), table), "user")
        u, errors = user_errors(public, cells, v)
        sent.append(whole_messages(public, cells, u, errors))
    bits = int((sent[0][:, : public.items] != sent[1][:, : public.items]).sum())
    apart = [numbers_of(mechanism, table) for table in sent]
    return bits, float(np.abs(apart[0] - apart[1]).sum()), float(np.abs(sent[0] - sent[1]).sum())


def test_no_user_moves_a_message_further_than_it_is_charged_for():
    rng = np.random.default_rng(2)
    public = task(1, 8, 2, request(ResponseGradient), (-1.0, 1.0))
    mechanism = ResponseGradient(rounds=2, norm=1.0).agree(public).mechanism
    largest = unclipped = 0.0
    for _ in range(60):
        v = rng.normal(size=(8, 2)) * rng.choice([0.3, 1.0, 3.0])
        tables = np.where(rng.random((2, 1, 8)) < 0.7, rng.choice([-1.0, 1.0], (2, 1, 8)), np.nan)
        tables[:, 0, 0] = 1.0
        bits, far, raw = moved(*tables, v, public, mechanism)
        assert bits <= mechanism.changed and far <= mechanism.reach * (1 + 1e-6)
        largest, unclipped = max(largest, far), max(unclipped, raw)
    assert largest > 0.9 * mechanism.reach and unclipped > mechanism.reach


def test_the_search_catches_a_bound_on_the_changed_item_alone():
    """One rating moves the user's own vector, and that the numbers of all other items."""
    public = task(1, 8, 1, request(ItemResponseGradient), (-1.0, 1.0))
    mechanism = ItemResponseGradient(rounds=2, norm=50.0).agree(public).mechanism
    first, second, messages = np.full((1, 8), 1.0), np.full((1, 8), 1.0), []
    second[0, 0] = -1.0
    bits, far, _ = moved(first, second, np.ones((8, 1)), public, mechanism)
    assert bits == 0 and far <= mechanism.reach
    for table in (first, second):
        cells = by_member(tc.Relation.from_dense(("user", "item"), table), "user")
        u, errors = user_errors(public, cells, np.ones((8, 1)))
        messages.append(whole_messages(public, cells, u, errors)[0, 8:])
    change = np.abs(messages[0] - messages[1])
    assert change.sum() > 1.3 * change[0]


def test_only_what_passed_the_gate_is_used(ratings, monkeypatch):
    release, sent = Gate.release, []
    monkeypatch.setattr(
        Gate, "release", lambda self, step, v, *a: sent.append(step) or release(self, step, v, *a)
    )
    method = ResponseGradient(rounds=2)
    tc.PrivateRecommender((1, 5), method=method, privacy=request(method), rank=2,
                          random_state=0).fit(ratings)  # fmt: skip
    assert len(sent) == 2 and all(isinstance(step.mechanism, ItemResponses) for step in sent)


def test_blocks_of_users_are_disjoint_parts_and_cost_as_much_as_one(ratings, monkeypatch):
    whole = ResponseGradient(rounds=2).agree(task(120, 12, 2, request(ResponseGradient)))
    assert len(whole.steps) == 2
    monkeypatch.setattr(every_item, "_BLOCK", 36 * 50)
    cut = ResponseGradient(rounds=2).agree(task(120, 12, 2, request(ResponseGradient)))
    assert len(cut.steps) == 6 and cut.event == whole.event
    model = tc.PrivateRecommender((1, 5), method=ResponseGradient(rounds=2), rank=2,
                                  privacy=request(ResponseGradient), random_state=0)  # fmt: skip
    assert model.fit(ratings).certificate_.verify().epsilon <= 4.0


def test_bad_settings_are_refused(ratings):
    for settings in ({"rounds": 0}, {"share": 0.0}, {"share": 1.0}, {"norm": 0.0}):
        with pytest.raises(ParameterError):
            ResponseGradient(**settings)
    with pytest.raises(ParameterError, match="for a bit"):
        tc.PrivateRecommender((1, 5), method=ResponseGradient(rounds=10_000), rank=2,
                              privacy=request(ResponseGradient, 0.01)).fit(ratings)  # fmt: skip


@pytest.mark.parametrize("kind", [ResponseGradient, ItemResponseGradient])
def test_where_noise_hides_the_messages_nobody_loses_to_a_mean_of_their_own(kind):
    ratings = simulated_ratings(400, 12, per_user=6, seed=4)
    train, cells, values = hold_out_per_member(ratings, "user", 2, np.random.default_rng(0))
    users = train.indices[:, 0]
    own = np.bincount(users, train.values) / np.bincount(users)
    model = tc.PrivateRecommender((1, 5), method=kind(rounds=3), privacy=request(kind, 1.0),
                                  rank=2, random_state=0)  # fmt: skip
    gap = (model.fit(train).predict(cells) - values) ** 2 - (own[cells[:, 0]] - values) ** 2
    assert gap.mean() <= 2.0 * gap.std() / np.sqrt(len(gap))
    assert len(model.shared_["penalties"]) == 1
