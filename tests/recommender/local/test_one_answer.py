"""Private GD and GD-DR: what a user sends, what it costs, what the server makes of it."""

import math

import numpy as np
import pytest

import tacit as tc
from tacit.data.split import hold_out_per_member
from tacit.data.synthetic import simulated_ratings
from tacit.errors import ParameterError
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.numerics.ridge import by_member
from tacit.mechanisms.noise import Noise
from tacit.recommender.local import one_answer as recommender_local
from tacit.recommender.local.descent import whole_gradient
from tacit.recommender.local.one_answer import LocalGradient, _errors_at
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import Message
from tests.contracts.hostile import Witness

ONCE = {"participation": "once"}


def local(epsilon=1.0, **more):
    return tc.Privacy(epsilon, **{"unit": "user", "neighbours": "replace-one", "trust": "local",
                                  **more})  # fmt: skip


def task(users, items, rank, privacy):
    return Task(users, items, (1.0, 5.0), rank, privacy)


def watch(monkeypatch):
    """Return what comes to the gate, as it comes: mechanism, value and release."""
    release, seen = Gate.release, []

    def watched(self, step, value, *more):
        found = release(self, step, value, *more)
        seen.append((step.mechanism, value, found))
        return found

    monkeypatch.setattr(Gate, "release", watched)
    return seen


@pytest.fixture(scope="module")
def ratings():
    return simulated_ratings(400, 30, per_user=10, seed=3)


def fit(ratings, request, **settings):
    method = LocalGradient(**{"rounds": 4, **settings})
    model = tc.PrivateRecommender((1, 5), method=method, privacy=request, rank=3, random_state=0)
    return model.fit(ratings)


@pytest.mark.parametrize("settings", [{}, {"dimensions": 8}, {"dimensions": 8, **ONCE},
                                      {"answer": "hybrid"}])  # fmt: skip
def test_a_person_pays_epsilon_for_everything(ratings, settings):
    certificate = fit(ratings, local(2.0), **settings).certificate_.verify()
    assert certificate.epsilon == pytest.approx(2.0, rel=1e-6) and certificate.delta == 0.0
    assert (certificate.unit, certificate.trust) == ("user", "local")


@pytest.mark.parametrize("settings", [{}, {"dimensions": 8}, {"dimensions": 8, **ONCE}])
def test_all_that_leaves_is_k_answers_in_minus_one_to_one(ratings, settings, monkeypatch):
    sent = watch(monkeypatch)
    fit(ratings, local(2.0), **settings)
    assert len(sent) == 4  # exactly k rounds, not k + 1
    assert all(np.abs(value).max() <= 1.0 for _, value, _ in sent)
    each = sum(len(value) for _, value, _ in sent) / 400
    assert each == (1 if settings.get("participation") == "once" else 4)
    assert {m.epsilon for m, _, _ in sent} == {2.0 if each == 1 else 0.5}


def test_which_coordinate_is_asked_for_does_not_depend_on_ratings(ratings, monkeypatch):
    asked = []
    original = np.bincount

    def spy(places, *others, **named):
        if others and others[-1] == 8 * 3:
            asked.append(places)
        return original(places, *others, **named)

    monkeypatch.setattr(recommender_local.np, "bincount", spy)
    for sign in (1.0, -1.0):
        values = 3.0 + sign * (ratings.values - 3.0)
        other = tc.Relation.from_cells(ratings.entities, ratings.indices, values,
                                       shape=ratings.shape)  # fmt: skip
        fit(other, local(), dimensions=8)
    assert len(asked) == 8
    for one, two in zip(asked[:4], asked[4:], strict=True):
        np.testing.assert_array_equal(one, two)


def shuffler(epsilon=1.0):
    return local(epsilon, delta=1e-5, trust="shuffler")


@pytest.mark.parametrize(("settings", "crowd"), [({"rounds": 2}, 400), (ONCE, 100)])
def test_through_a_shuffler_messages_say_more_and_the_certificate_says_so(
    ratings, settings, crowd, monkeypatch
):
    sent = watch(monkeypatch)
    certificate = fit(ratings, shuffler(), **settings).certificate_.verify()
    assert 0.98 < certificate.epsilon <= 1.0 and certificate.trust == "shuffler"
    mechanism, value, released = sent[0]
    assert mechanism.people == crowd
    alone = mechanism.inner.epsilon
    assert alone > 1.3 / (1 if settings == ONCE else 2)
    assert f"{alone:g}-private by itself" in str(certificate)
    # the same labels, in an order that has nothing to do with that of the users
    assert sorted(released[:, 1]) == sorted(value[:, 1]) and list(released[:, 1]) != list(
        value[:, 1]
    )
    with pytest.raises(ParameterError, match="delta"):
        fit(ratings, local(trust="shuffler"))


def test_a_server_does_not_choose_who_is_asked_about_what(ratings):
    """Through a shuffler a place that only one person was asked about would name that person."""
    agreement = LocalGradient(2).agree(task(400, 30, 3, shuffler()))
    (step,) = agreement.steps
    assert set(step.asks) == {"v"}


@pytest.mark.parametrize("dimensions", [None, 12])
def test_the_server_s_gradient_is_unbiased(ratings, dimensions):
    public = task(400, 30, 2, local(20.0))
    settings = LocalGradient(200, dimensions)
    agreement = settings.agree(task(400, 30, 2, local(20.0 * 200)))
    cells = by_member(ratings, "user")
    holder = agreement.holder("a", Rated(cells, np.ones(400)), Witness(agreement), 1)
    v = 0.2 * np.random.default_rng(0).normal(size=(30, 2))
    truth = whole_gradient(public, holder.shards[0], v)
    projection, more = agreement.projection(4), {}
    if projection is not None:
        phi = projection.block(0, 30)
        truth = np.linalg.pinv(phi) @ (phi @ truth)
        more = {"projection": np.array([0, 4])}
    total = []
    for k in range(200):
        reply = holder.respond(Message(k, {"v": v, **more}, "answers"))
        total.append(agreement.averaged(reply["answers"], reply["places"], projection).gradient)
    mean, error = np.mean(total, axis=0), np.std(total, axis=0) / math.sqrt(200)
    assert np.mean(np.abs(mean - truth) < 3.0 * error) > 0.95


def test_an_item_that_was_not_rated_has_no_error(ratings):
    cells = by_member(ratings, "user")
    table = np.zeros(ratings.shape)
    table[tuple(ratings.indices.T)] = ratings.values
    found = [_errors_at(cells, cells.values, np.full(400, item), 30) for item in range(30)]
    np.testing.assert_array_equal(np.array(found).T, table)


def test_without_noise_it_learns_and_own_offsets_help(ratings):
    train, cells, values = hold_out_per_member(ratings, "user", 3, np.random.default_rng(0))
    errors = {}
    for rounds, offset in ((1, False), (20, False), (20, True)):
        fitted = fit(train, None, rounds=rounds, own_offset=offset)
        errors[rounds, offset] = np.mean((fitted.predict(cells) - values) ** 2)
        assert not fitted.certificate_.is_private
    assert errors[20, True] < errors[20, False] < errors[1, False]


@pytest.mark.parametrize("settings", [{}, {"dimensions": 8}, ONCE, {"answer": "hybrid", **ONCE}])
def test_where_noise_hides_the_answers_nobody_loses_to_a_mean_of_their_own(ratings, settings):
    train, cells, values = hold_out_per_member(ratings, "user", 3, np.random.default_rng(0))
    users = train.indices[:, 0]
    own = np.bincount(users, train.values) / np.bincount(users)
    fitted = fit(train, local(1.0), **settings)
    assert len(fitted.shared_["penalties"]) == 1  # a device does without V
    gap = (fitted.predict(cells) - values) ** 2 - (own[cells[:, 0]] - values) ** 2
    assert gap.mean() <= 2.0 * gap.std() / math.sqrt(len(gap))
    printed = fit(train, local(1.0), own_offset=False, **settings)
    worse = (printed.predict(cells) - values) ** 2
    assert worse.mean() > ((fitted.predict(cells) - values) ** 2).mean()


def test_answers_that_stand_out_are_used(ratings):
    assert len(fit(ratings, local(100.0), answer="hybrid").shared_["penalties"]) > 1


@pytest.mark.parametrize("answer", ["one-bit", "piecewise", "hybrid"])
@pytest.mark.parametrize("people", [150, 30_000])
def test_answers_about_nothing_hardly_ever_stand_out(answer, people):
    public = LocalGradient(1, answer=answer).agree(task(people, 30, 3, local(1.5)))
    rng, noise, seen = np.random.default_rng(0), Noise("grid", seed=1), []
    for _ in range(300):
        answers = public.mechanism.draw(np.zeros(people), noise)
        seen.append(public.averaged(answers, rng.integers(0, 90, people), None).seen)
    assert abs(np.mean(seen)) < 0.2 and np.std(seen) < 1.15
    assert np.mean(np.array(seen) > 3.0) <= 0.015  # χ² of ninety has a longer tail


def test_answering_once_is_quieter_than_answering_every_time():
    """Variance k/(n·ε²) against k²/(n·ε²)."""
    every, once = LocalGradient(10), LocalGradient(10, **ONCE)
    public = task(1000, 50, 2, local(0.5))
    per_round = {
        m: m.agree(public).mechanism.magnitude ** 2 / n for m, n in ((every, 1000), (once, 100))
    }
    assert per_round[every] / per_round[once] == pytest.approx(10.0, rel=0.05)


def test_where_piecewise_answers_are_quieter_than_one_bit():
    def spread(epsilon, answer, values):
        agreement = LocalGradient(1, answer=answer).agree(task(9, 9, 2, local(epsilon)))
        return agreement.mechanism.variance(np.array(values)).max()

    for epsilon in (0.3, 0.55, 0.65, 1.2, 1.4, 2.0):
        for values, change in (([0.0], 0.61), ([0.0, 1.0], 1.29)):
            quieter = spread(epsilon, "piecewise", values) < spread(epsilon, "one-bit", values)
            assert quieter == (epsilon > change)


def test_bad_settings_are_refused(ratings):
    with pytest.raises(ParameterError, match="dimensions"):
        fit(ratings, local(), dimensions=31)
    with pytest.raises(ParameterError, match="too few"):
        fit(ratings, local(), rounds=500, **ONCE)
    with pytest.raises(ParameterError, match="unit"):
        fit(ratings, local(unit="entry"))
    with pytest.raises(ParameterError, match="trust"):
        fit(ratings, local(trust="central"))
    with pytest.raises(ParameterError, match="epsilon"):  # too little for each of the rounds
        fit(ratings, local(0.01), rounds=50)
    for settings in ({"rounds": 0}, {"answer": "two-bit"}, {"step_size": math.nan}):
        with pytest.raises(ParameterError):
            LocalGradient(**settings)
