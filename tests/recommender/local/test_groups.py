"""Offsets of groups along a public hierarchy: who is asked what, attacks, and what it is worth."""

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.mechanisms.base import privatize
from tacit.mechanisms.noise import Noise
from tacit.privacy.ledger.ledger import Ledger
from tacit.recommender import LocalGroups
from tacit.recommender.local.believing import believed
from tacit.recommender.local.group_sides import group_values
from tacit.recommender.local.hierarchy import Level, level_shares
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import Message

BOUNDS = (1.0, 5.0)


def request(epsilon, trust="local"):
    delta = 0.0 if trust == "local" else 1e-5
    return tc.Privacy(epsilon, delta, unit="user", neighbours="replace-one", trust=trust)


def ratings(users=3000, items=40, seed=0):
    """Return ratings whose items differ by group, the groups, and held-out cells."""
    rng = np.random.default_rng(seed)
    groups = np.arange(items) % 4
    liked = np.array([-0.7, -0.2, 0.3, 0.6])[groups]
    own = 0.4 * rng.standard_normal(users)
    taken = np.argsort(rng.random((users, items)), axis=1)[:, :12]
    who = np.repeat(np.arange(users), 12)
    what = taken.ravel()
    values = np.clip(3.0 + own[who] + liked[what] + 0.6 * rng.standard_normal(len(who)), 1, 5)
    held = np.arange(len(who)) % 12 == 0
    index = np.column_stack([who, what])
    train = tc.Relation.from_cells(
        ("user", "item"), index[~held], values[~held], shape=(users, items)
    )
    return train, groups, index[held], values[held]


def errors(method, privacy, data):
    train, _, cells, values = data
    model = tc.PrivateRecommender(BOUNDS, items=40, method=method, privacy=privacy, random_state=0)
    return float(np.mean((model.fit(train).predict(cells, positions=True) - values) ** 2)), model


@pytest.mark.parametrize("trust", ["local", "shuffler", "aggregator", "site"])
def test_groups_beat_a_persons_own_mean_and_never_lose_to_it(trust):
    data = ratings()
    train, groups, cells, values = data
    users = train.indices[:, 0]
    own = (np.bincount(users, train.values) / np.bincount(users))[cells[:, 0]]
    free = float(np.mean((own - values) ** 2))
    method = LocalGroups({"kind": groups})
    found, model = errors(method, request(2.0, trust), data)
    assert found < 0.85 * free
    assert model.certificate_.epsilon <= 2.0 + 1e-9
    hidden, model = errors(method, request(0.02, trust), data)
    assert hidden < 1.02 * free
    if trust == "local":
        assert any("not asked" in note for note in model.certificate_.assumptions)


def holder_of(rows, seed=0, epsilon=1.0):
    """Return devices that were asked nothing yet."""
    items = 6
    starts = np.concatenate([[0], np.cumsum([len(r) for r, _ in rows])]).astype(np.int64)
    cells = ByMember(
        starts,
        np.concatenate([r for r, _ in rows]).astype(np.int32),
        np.concatenate([v for _, v in rows]),
    )
    task = Task(len(rows), items, BOUNDS, 1, request(epsilon))
    public = LocalGroups({"kind": [0, 0, 1, 1, 2, 2]}).agree(task)
    rated = Rated(cells, np.ones(len(rows)))
    return public, public.holder("all", rated, Gate(None, Noise("grid", seed=1)), seed)


def test_who_is_asked_what_does_not_depend_on_ratings():
    rng = np.random.default_rng(0)
    seen = []
    for value in (1.0, 5.0):
        rows = [(rng.permutation(6)[:3], np.full(3, value)) for _ in range(500)]
        public, holder = holder_of(rows, seed=7, epsilon=8.0)
        places = []
        for name, _, _ in public.questions:
            step = public.step(name)
            asked = step.read(Message(0, {"base": np.zeros(6)} if step.asks else {}, name))
            holder.contribute(step, asked, {}, holder.shards[0], np.arange(0))
            places.append(holder._places.copy())
        seen.append((holder._cohorts, places))
    (ours, ours_at), (theirs, theirs_at) = seen
    for name, cohort in ours.items():
        np.testing.assert_array_equal(cohort, theirs[name])
    for one, two in zip(ours_at, theirs_at, strict=True):
        np.testing.assert_array_equal(one, two)
    everybody = np.sort(np.concatenate(list(ours.values())))
    np.testing.assert_array_equal(everybody, np.arange(500))  # one question each


def test_answers_are_within_one_whatever_is_asked_and_rated():
    rng = np.random.default_rng(1)
    for base in (np.full(6, 6.0), np.full(6, -6.0), rng.uniform(-6, 6, 6)):
        rows = [(np.arange(6), rng.choice([1.0, 5.0], 6)) for _ in range(400)]
        public, holder = holder_of(rows, epsilon=8.0)
        for name, _, _ in public.questions:
            step = public.step(name)
            asked = step.read(Message(0, {"base": base} if step.asks else {}, name))
            sent = holder.contribute(step, asked, {}, holder.shards[0], np.arange(0))
            assert np.abs(sent).max() <= 1.0 and sent.ndim == 1


def test_a_person_tells_no_more_than_epsilon_through_the_real_path():
    """Any two people give every answer about every group with chances at most e^ε apart."""
    epsilon, tries = 1.0, 40_000
    counts = []
    for value in (1.0, 5.0):
        rows = [(np.arange(6), np.array([value, value, 3.0, 3.0, 3.0, 3.0]))] * tries
        public, holder = holder_of(rows, seed=3, epsilon=epsilon)
        step = public.step("level 1")
        asked = step.read(Message(0, {"base": np.zeros(6)}, "level 1"))
        value_sent = holder.contribute(step, asked, {}, holder.shards[0], np.arange(0))
        ledger = Ledger.memory(epsilon=epsilon, delta=0.0, unit="user", neighbours="replace-one")
        answers = privatize(
            step.mechanism, value_sent, ledger=ledger, rng=Noise("grid", seed=int(value))
        )
        at = holder._places == 0
        edges = np.linspace(-4.0, 4.0, 9)
        counts.append(np.histogram(answers[at], edges)[0] / at.sum())
    one, two = counts
    full = (one > 0.01) & (two > 0.01)
    ratio = np.abs(np.log(one[full] / two[full])).max()
    assert 0.3 < ratio <= epsilon + 0.15


def test_values_are_means_of_what_a_person_rated_in_a_group():
    cells = ByMember(np.array([0, 3]), np.array([0, 1, 2], np.int32), np.array([2.0, 0.0, -2.0]))
    level = Level("kind", (0, 0, 1))
    found = group_values(cells, np.zeros(3), level, False)
    assert found.items.tolist() == [0, 1]
    np.testing.assert_allclose(found.values, [2.0 / 3.0, -1.0])  # own mean 0, one more rating


def test_more_people_and_epsilon_ask_finer_levels():
    coarse = level_shares([10, 1000], 2_000, 5.0)
    fine = level_shares([10, 1000], 2_000_000, 5.0)
    assert coarse[2] == 0.0 < coarse[1] and fine[2] > 0.0
    assert fine.sum() == pytest.approx(1.0)
    needs = LocalGroups({"a": np.arange(40) % 4, "b": np.arange(40)}).needs(1000, request(1.0))
    assert needs[0].least_people < needs[1].least_people
    assert needs[0].people + needs[1].people <= 1000 and "people" in str(needs[0])


def test_what_noise_hides_is_not_believed():
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(20)
    assert np.abs(believed(noise, np.ones(20))).max() < 0.2
    assert np.abs(believed(0.01 * noise + 0.3, np.full(20, 1e-4)) - 0.3).max() < 0.05
    assert believed(np.array([0.0, 3.0]), np.array([0.1, np.inf]))[1] == 0.0


def test_levels_of_other_items_are_refused():
    with pytest.raises(ParameterError, match="levels are of 3 items"):
        tc.PrivateRecommender(
            BOUNDS, items=40, method=LocalGroups({"kind": [0, 1, 1]}), privacy=request(1.0)
        ).fit(ratings(50)[0])
    with pytest.raises(ParameterError, match="different numbers"):
        LocalGroups({"a": [0, 1], "b": [0]})


def test_devices_of_several_sites_answer_as_one(tmp_path):
    """A federation in which every device is a participant needs no more than sums of answers."""
    train, groups, _, _ = ratings(900)
    sites = []
    for k in range(3):
        kept = np.flatnonzero(train.indices[:, 0] % 3 == k)
        index = np.column_stack([train.indices[kept, 0] // 3, train.indices[kept, 1]])
        own = tc.Relation.from_cells(("user", "item"), index, train.values[kept], shape=(300, 40))
        sites.append(tc.Site(f"site {k}", own))
    model = tc.PrivateRecommender(
        BOUNDS,
        items=40,
        method=LocalGroups({"kind": groups}),
        privacy=request(3.0),
    ).fit(sites)
    base = model.shared_["base"]
    means = [base[groups == g].mean() for g in range(4)]
    assert means[3] - means[0] > 0.5
    again = tc.PrivateRecommender.from_release(model.release(tmp_path / "release"))
    np.testing.assert_array_equal(again.shared_["base"], base)
