"""Randomized response and Laplace noise for every item: what a message carries and costs."""

import numpy as np
import pytest

import tacit as tc
from tacit.data.synthetic import simulated_ratings
from tacit.errors import ParameterError
from tacit.estimators import recommender_responses
from tacit.estimators.recommender_descent import Payers, user_errors, whole_gradient
from tacit.estimators.recommender_method import Task
from tacit.estimators.recommender_responses import (
    ItemResponseGradient,
    ResponseGradient,
    _messages,
)
from tacit.inference.members import by_member
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.responses import ItemResponses
from tacit.privacy.events import RandomizedResponseDpEvent, leaves
from tacit.privacy.ledger import Ledger


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
    task = Task(120, 12, (1.0, 5.0), 2, request(ResponseGradient, 600.0),
                tc.PrivacyWeights.equal(120, 12))  # fmt: skip
    cells = by_member(ratings, "user")
    cells = cells._replace(values=(cells.values - 3.0) / 2.0)
    rng = np.random.default_rng(0)
    v = 0.5 * rng.normal(size=(12, 2))
    method = ResponseGradient(rounds=200, norm=50.0)
    ledger = Ledger.memory(epsilon=1e4)
    payers = Payers(method, task, ledger.reserve(method.schedule(task), purpose="t"))
    gradient = method.answering(task, cells, payers, Noise("grid", seed=1), rng)
    total = [gradient(k, v) for k in range(200)]
    mean, error = np.mean(total, axis=0), np.std(total, axis=0) / np.sqrt(200)
    assert np.mean(np.abs(mean - whole_gradient(task, cells, v)) < 3.0 * error) > 0.9


def numbers_of(mechanism, table):
    """Return what a message's numbers are before noise, through the mechanism itself."""

    class Silent(Noise):
        def laplace(self, count, scale):
            return np.zeros(count, np.int64)

    return mechanism.draw(table, Silent("grid", seed=0))[:, mechanism.items :]


def moved(first, second, v, task, mechanism):
    sent = []
    for table in (first, second):
        cells = by_member(tc.Relation.from_dense(("user", "item"), table), "user")
        u, errors = user_errors(task, cells, v)
        sent.append(_messages(task, cells, u, errors, 0, 1))
    bits = int((sent[0][:, : task.items] != sent[1][:, : task.items]).sum())
    apart = [numbers_of(mechanism, table) for table in sent]
    return bits, float(np.abs(apart[0] - apart[1]).sum()), float(np.abs(sent[0] - sent[1]).sum())


def test_no_user_moves_a_message_further_than_it_is_charged_for():
    rng = np.random.default_rng(2)
    task = Task(1, 8, (-1.0, 1.0), 2, request(ResponseGradient), tc.PrivacyWeights.equal(1, 8))
    mechanism = ResponseGradient(rounds=2, norm=1.0).mechanism(task)
    largest = unclipped = 0.0
    for _ in range(60):
        v = rng.normal(size=(8, 2)) * rng.choice([0.3, 1.0, 3.0])
        tables = np.where(rng.random((2, 1, 8)) < 0.7, rng.choice([-1.0, 1.0], (2, 1, 8)), np.nan)
        tables[:, 0, 0] = 1.0
        bits, far, raw = moved(*tables, v, task, mechanism)
        assert bits <= mechanism.changed and far <= mechanism.reach * (1 + 1e-6)
        largest, unclipped = max(largest, far), max(unclipped, raw)
    assert largest > 0.9 * mechanism.reach and unclipped > mechanism.reach


def test_the_search_catches_a_bound_on_the_changed_item_alone():
    """One rating moves the user's own vector, and that the numbers of all other items."""
    task = Task(1, 8, (-1.0, 1.0), 1, request(ItemResponseGradient),
                tc.PrivacyWeights.equal(1, 8))  # fmt: skip
    mechanism = ItemResponseGradient(rounds=2, norm=50.0).mechanism(task)
    first, second, messages = np.full((1, 8), 1.0), np.full((1, 8), 1.0), []
    second[0, 0] = -1.0
    bits, far, _ = moved(first, second, np.ones((8, 1)), task, mechanism)
    assert bits == 0 and far <= mechanism.reach
    for table in (first, second):
        cells = by_member(tc.Relation.from_dense(("user", "item"), table), "user")
        u, errors = user_errors(task, cells, np.ones((8, 1)))
        messages.append(_messages(task, cells, u, errors, 0, 1)[0, 8:])
    change = np.abs(messages[0] - messages[1])
    assert change.sum() > 1.3 * change[0]


def test_only_what_passed_the_gate_is_used(ratings, monkeypatch):
    gate, sent = recommender_responses.privatize, []
    monkeypatch.setattr(recommender_responses, "privatize",
                        lambda m, v, **k: sent.append((m, v)) or gate(m, v, **k))  # fmt: skip
    method = ResponseGradient(rounds=2)
    tc.PrivateRecommender((1, 5), method=method, privacy=request(method), rank=2,
                          random_state=0).fit(ratings)  # fmt: skip
    assert len(sent) == 2 and all(isinstance(m, ItemResponses) for m, _ in sent)


def test_bad_settings_are_refused(ratings):
    for settings in ({"rounds": 0}, {"share": 0.0}, {"share": 1.0}, {"norm": 0.0}):
        with pytest.raises(ParameterError):
            ResponseGradient(**settings)
    with pytest.raises(ParameterError, match="for a bit"):
        tc.PrivateRecommender((1, 5), method=ResponseGradient(rounds=10_000), rank=2,
                              privacy=request(ResponseGradient, 0.01)).fit(ratings)  # fmt: skip
