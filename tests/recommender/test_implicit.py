"""Clicks: what one user can change, what leaves, rankings, and a device with NumPy alone."""

import subprocess
import sys

import numpy as np
import pytest

import tacit as tc
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.mechanisms.noise import Noise
from tacit.recommender import ImplicitFeedback
from tacit.recommender.implicit_sides import Clickers
from tacit.recommender.method import Rated, Task
from tacit.recommender.tastes import fitted_taste
from tacit.rounds.messages import Message

ASKED = tc.Privacy(10.0, 1e-5, unit="user", neighbours="replace-one", trust="aggregator")


def clicks(users=600, items=60, seed=0):
    """Return users of two kinds, each of whom likes another half of the items."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, users)
    half = (np.arange(items) % 2)[None, :] == kind[:, None]
    taken = rng.random((users, items)) < np.where(half, 0.3, 0.05)
    taken[:, 0] |= ~taken.any(axis=1)
    index = np.argwhere(taken)
    return tc.Relation.from_cells(("user", "item"), index, shape=(users, items)), kind


def values_of(rows, items, popular, rates):
    """Return what users contribute to both sums, as it comes to the gate."""
    task = Task(len(rows), items, (0.0, 1.0), 2, ASKED)
    public = ImplicitFeedback(popular=len(popular), tastes=True).agree(task)
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    found = np.concatenate(rows).astype(np.int32)
    rated = Rated(ByMember(starts, found, np.ones(len(found))), np.ones(len(rows)))
    holder = Clickers(public, "all", rated, Gate(None, Noise("grid", seed=0)))
    sent = {}
    for name, arrays in (("popularity", {}), ("taste", {"popular": popular, "rates": rates})):
        step = public.step(name)
        asked = step.read(Message(0, {n: np.asarray(a) for n, a in arrays.items()}, name))
        summed = holder.contribute(step, asked, {}, holder.shards[0], np.arange(0))
        value = holder.completed(step, asked, summed)
        sent[name] = value.value() if hasattr(value, "value") else value
    return sent


def test_no_user_moves_a_sum_further_than_agreed():
    rng, best = np.random.default_rng(0), {"popularity": 0.0, "taste": 0.0}
    for _ in range(150):
        items = 30
        popular = rng.permutation(items)[: int(rng.integers(2, 12))]
        rates = rng.choice([0.0, 0.01, 0.5, 1.0], len(popular))
        others = rng.choice(items, 5, replace=False)
        pair = [rng.choice(items, int(rng.integers(1, items)), replace=False) for _ in range(2)]
        if rng.random() < 0.3:
            pair = [popular[: len(popular) // 2], np.setdiff1d(np.arange(items), popular[:1])]
            pair = [row if len(row) else np.array([0]) for row in pair]
        one, two = (values_of([own, others], items, popular, rates) for own in pair)
        for name in best:
            far = float(np.linalg.norm(one[name] - two[name])) / np.sqrt(2.0)
            best[name] = max(best[name], far)
    assert max(best.values()) <= 1.0 + 1e-6, best
    assert best["popularity"] > 0.8 and best["taste"] > 0.9, best


def test_an_item_taken_many_times_counts_once():
    popular, rates = np.arange(4), np.zeros(4)
    once = values_of([np.array([1, 2])], 6, popular, rates)
    often = values_of([np.array([1, 1, 1, 2, 2])], 6, popular, rates)
    for name, value in once.items():
        np.testing.assert_array_equal(value, often[name])


@pytest.mark.parametrize("ranking", ["listwise", "bpr"])
def test_tastes_are_found_and_rank(ranking):
    relation, kind = clicks()
    model = tc.PrivateRecommender(
        method=ImplicitFeedback(ranking=ranking), items=60, privacy=ASKED, rank=4, random_state=0
    ).fit(relation)
    found = model.recommend(n=5, positions=True)
    right = [np.mean([k % 2 == kind[u] for k, _ in rows]) for u, rows in found.items()]
    assert len(found) == 600 and np.mean(right) > 0.8
    near = [k % 2 for k, _ in model.similar_items(4, 10, positions=True)]
    assert np.mean(near) < 0.2
    scores = model.score(3, positions=True)
    assert scores.shape == (60,)
    device = model.device({4: 1, 8: 1, 10: 1})  # somebody else, with clicks of their own
    assert np.mean([k % 2 for k, _ in device.top(5)]) < 0.4


def test_too_little_budget_leaves_popularity_and_says_so():
    relation, _ = clicks(120)
    little = tc.Privacy(0.1, 1e-5, unit="user", trust="aggregator")
    model = tc.PrivateRecommender(method="implicit", items=60, privacy=little, random_state=0)
    assert not model.fit(relation).shared_["features"].any()
    assert len(model._agreement.plan) == 1


def test_pairs_and_lists_agree_with_a_plain_search():
    """Newton's steps end where the gradient by differences vanishes."""
    rng = np.random.default_rng(0)
    base, features, seen = rng.normal(size=9), rng.normal(size=(9, 2)), np.array([1, 4])
    others = np.setdiff1d(np.arange(9), seen)

    def goal(how, w):
        score, rest = base + features @ w, -(w @ w) / (2 * 0.3)
        if how == "listwise":
            return score[seen].sum() - 2 * np.log(np.exp(score).sum()) + rest
        share = np.exp(base[others]) / np.exp(base[others]).sum()
        gaps = score[seen][:, None] - score[others]
        return (share * -np.log1p(np.exp(-gaps))).sum() + rest

    for how in ("listwise", "bpr"):
        w = fitted_taste(base, features, seen, 0.3, how)
        for step in np.eye(2) * 1e-4:
            assert abs(goal(how, w + step) - goal(how, w - step)) < 1e-8


def test_a_release_starts_a_device(tmp_path):
    relation, _ = clicks(300, 20)
    model = tc.PrivateRecommender(method="implicit", items=20, privacy=ASKED, rank=2)
    folder = model.fit(relation).release(tmp_path / "release")
    again = tc.PrivateRecommender.from_release(folder)
    assert again.recommend({3: 1}, 4) == model.recommend({3: 1}, 4)
    assert len(tc.Device.from_release(folder, [3]).top(4)) == 4


SCRIPT = """
import sys
for name in ("numba", "scipy", "sklearn", "polars", "narwhals", "dp_accounting", "opendp", "rich"):
    sys.modules[name] = None
import numpy as np
from tacit.recommender.device import Device
rng = np.random.default_rng(0)
features = np.column_stack([np.ones(50), rng.normal(size=(50, 3))])
shared = {"base": rng.uniform(2, 4, 50), "features": features, "spread": np.ones(1),
          "penalties": rng.uniform(5, 50, (7, 4))}
print([k for k, _ in Device(shared, (1, 5), [1, 2, 3], [5.0, 4.0, 1.0]).top(5)])
"""


def test_a_device_needs_numpy_alone_and_agrees_with_all_devices():
    from tacit.recommender.devices import fold_in

    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(50), rng.normal(size=(50, 3))])
    shared = {"base": rng.uniform(2, 4, 50), "features": features, "spread": np.ones(1),
              "penalties": rng.uniform(5, 50, (7, 4))}  # fmt: skip
    cells = ByMember(np.array([0, 3]), np.array([1, 2, 3], np.int32), np.array([5.0, 4.0, 1.0]))
    device = tc.Device(shared, (1, 5), [1, 2, 3], [5.0, 4.0, 1.0])
    np.testing.assert_allclose(device._row, fold_in(shared, cells)[0], rtol=1e-9)
    scores = np.clip(shared["base"] + features @ device._row, 1, 5)
    scores[[1, 2, 3]] = -1
    best = np.argsort(-scores, kind="stable")[:5].tolist()
    assert found.stdout.strip() == str(best) == str([k for k, _ in device.top(5)])


@pytest.mark.parametrize(("kind", "gains"), [("none", False), ("factors", True), ("groups", True)])
def test_defaults_never_lose_to_popularity_on_clicks_they_were_not_chosen_on(kind, gains):
    """The rules for τ² and for learning tastes at all, on other sizes and another seed."""
    rng, users, items = np.random.default_rng(91), 1800, 240
    liking = np.tile(-np.log(np.arange(1.0, items + 1)), (users, 1))
    if kind == "factors":
        liking += rng.standard_normal((users, 5)) @ rng.standard_normal((5, items)) / 2.2
    elif kind == "groups":
        own, group = rng.dirichlet(np.full(6, 0.4), users), rng.integers(0, 6, items)
        liking += np.log(6.0 * own[:, group] + 0.15)
    order = np.argsort(-(liking + rng.gumbel(size=(users, items))), axis=1)
    sizes = rng.integers(10, 40, users)
    mixed = [rng.permutation(row[:size]) for row, size in zip(order, sizes, strict=True)]
    train = [row[len(row) // 5 :] for row in mixed]
    index = np.concatenate([np.column_stack([[i] * len(t), t]) for i, t in enumerate(train)])
    clicked = tc.Relation.from_cells(("user", "item"), index, shape=(users, items))

    def recall(**settings):
        model = tc.PrivateRecommender(items=items, rank=8, method=ImplicitFeedback(**settings),
                                      privacy=ASKED, random_state=0).fit(clicked)  # fmt: skip
        found = []
        for i in range(0, users, 6):
            score = model.score(i, positions=True)
            score[train[i]] = -np.inf
            held = mixed[i][: len(mixed[i]) // 5]
            found.append(np.isin(np.argsort(-score)[:20], held).sum() / len(held))
        return np.array(found)

    gap = recall() - recall(tastes=False)
    error = gap.std() / np.sqrt(len(gap))
    assert gap.mean() >= -2.0 * error
    assert gap.mean() > 2.0 * error or not gains
