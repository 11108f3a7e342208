"""Private GD and GD-DR as printed: rounds, vectors by gradient steps, and the projection."""

import numpy as np
import pytest

import tacit as tc
from experiments.datasets import libimseti, movielens_20m
from tacit.data.split import hold_out_per_member
from tacit.data.synthetic import simulated_ratings
from tacit.errors import ParameterError
from tacit.factorization.offsets.numerics.ridge import by_member
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.published.shin2018 import (
    PrintedGradient,
    PrintedItemResponses,
    PrintedResponses,
    ShinRecommender,
    printed_baseline_reach,
)
from tacit.published.shin2018_responses import printed_messages
from tacit.recommender import LocalGradient
from tacit.recommender.method import Task

ASKED = tc.Privacy(2.0, unit="user", neighbours="replace-one", trust="local")


@pytest.fixture(scope="module")
def ratings():
    return simulated_ratings(400, 40, per_user=12, seed=1)


def fitted(ratings, privacy, **settings):
    method = PrintedGradient(**{"rounds": 4, "step_size": 0.5, **settings})
    model = ShinRecommender((1, 5), items=40, method=method, privacy=privacy, rank=3,
                            random_state=0)  # fmt: skip
    return model.fit(ratings)


def test_the_printed_loop_costs_one_message_more_than_it_claims(ratings):
    certificate = fitted(ratings, ASKED).certificate_
    assert certificate.claimed_epsilon == 2.0
    assert certificate.epsilon == pytest.approx(2.5, rel=1e-6)
    assert "5 messages" in str(certificate)


def test_without_noise_the_descent_is_that_of_the_algorithm(ratings):
    """A plain loop over the printed lines, from the same first values."""
    model = fitted(ratings, None)
    u = _first_rows(ratings)
    v = _first_items(model)
    users, items = ratings.indices.T
    for t in range(1, 6):
        rate = 0.5 / t
        errors = ratings.values - (u[users] * v[items]).sum(axis=1)
        gradient = np.zeros(v.shape)
        np.add.at(gradient, items, -2.0 / len(u) * errors[:, None] * u[users])
        v = v - rate * (gradient + 2e-8 * v)
        errors = ratings.values - (u[users] * v[items]).sum(axis=1)
        slope = np.zeros(u.shape)
        np.add.at(slope, users, -2.0 * errors[:, None] * v[items])
        slope /= np.bincount(users)[:, None]
        u = u - rate * (slope + 2e-8 * u)
    np.testing.assert_allclose(model.shared_["features"], v, rtol=1e-8)
    np.testing.assert_allclose(model._devices.rows, u, rtol=1e-8)


def _first_rows(ratings):
    from tacit._core.rng import generator

    rng = generator(0, "recommender")
    rng.standard_normal((40, 3))
    return 0.1 * rng.standard_normal((ratings.shape[0], 3))


def _first_items(model):
    from tacit.estimators.agreement import Start

    running = model._agreement.coordinate(Start(0))
    return next(running).arrays["v"]


def test_the_projection_stays_without_noise(ratings):
    train, _, _ = hold_out_per_member(ratings, "user", 2, np.random.default_rng(0))
    whole, projected = (
        fitted(train, None, dimensions=q, rounds=8).shared_["features"] for q in (None, 4)
    )
    assert np.abs(whole - projected).max() > 1e-3
    moved = projected - fitted(train, None, dimensions=4, rounds=1).shared_["features"]
    assert np.linalg.matrix_rank(np.round(moved, 10)) <= 3
    # the certified form keeps it as well
    ours = [
        tc.PrivateRecommender((1, 5), items=40, method=LocalGradient(3, q), rank=3, random_state=0)
        .fit(train)
        .shared_["features"]
        for q in (None, 4)
    ]
    assert np.abs(ours[0] - ours[1]).max() > 1e-3


def test_the_baselines_scale_forgets_the_users_own_vector():
    rng = np.random.default_rng(0)
    reach = [
        printed_baseline_reach(2, rng.choice([1.0, 5.0], 20), rng.normal(size=(20, 2)) * 0.05)
        for _ in range(50)
    ]
    assert max(reach) > 10.0


@pytest.mark.parametrize("kind", [PrintedGradient, PrintedResponses])
def test_a_descent_that_diverges_runs_to_its_end(ratings, kind):
    """Nothing keeps vectors in bounds, as printed: what grows, grows, and is a number still."""
    for privacy in (None, asked_for(kind)):
        method = kind(rounds=12, step_size=500.0)
        model = ShinRecommender((1, 5), items=40, method=method, privacy=privacy, rank=3,
                                random_state=0).fit(ratings)  # fmt: skip
        assert np.isfinite(model.shared_["features"]).all()
        if privacy is None:
            assert np.abs(model.shared_["features"]).max() > 2.0**62


def test_what_is_not_printed_is_refused():
    with pytest.raises(ParameterError, match="printed"):
        PrintedGradient(answer="piecewise")
    with pytest.raises(ParameterError, match="no norm"):
        PrintedResponses(norm=1.0)


def asked_for(kind, epsilon=2.0):
    return tc.Privacy(epsilon, unit=kind.unit, neighbours="replace-one", trust="local")


@pytest.mark.parametrize("kind", [PrintedResponses, PrintedItemResponses])
def test_the_baseline_has_the_printed_noise_and_shows_what_that_gives(kind):
    task = Task(50, 40, (1.0, 5.0), 3, asked_for(kind))
    public = kind(rounds=4).agree(task)
    changed = 40 if kind is PrintedResponses else 1
    mechanism = public.mechanism
    assert mechanism.scale == pytest.approx(changed * 4.0 * 3 * 4 / 1.0)  # (m)·Δ·d·k/ε₂
    assert mechanism._bits.lie == pytest.approx(2.0 / (1.0 + np.exp(1.0 / 4 / changed)))
    # ε₁ = ε₂ = 1: bits as claimed; of the numbers everything may change, not one item's alone
    assert public.charged.epsilon == pytest.approx(1.0 + 4.0 * 40 / changed, rel=1e-5)
    assert public.claim[0] == 2.0 and len(public.steps) == 4
    many = kind(rounds=10).agree(Task(50, 4000, (1.0, 5.0), 10, asked_for(kind, 0.5)))
    real = epsilon_of(many.event, 0.0)  # with the rounding of long messages
    assert real <= many.charged.epsilon <= real * (1.0 + 1e-5)


@pytest.mark.parametrize("kind", [PrintedResponses, PrintedItemResponses])
def test_no_two_users_are_further_apart_than_the_baseline_is_charged_for(kind):
    """Through the real messages, for vectors within bounds and far out of them."""
    rng = np.random.default_rng(0)
    task = Task(1, 8, (1.0, 5.0), 2, asked_for(kind))
    mechanism = kind(rounds=2).agree(task).mechanism
    shares, printed = [], []
    for size in (0.3, 1.0, 30.0, 1e90):
        for _ in range(40):
            v, pair = size * rng.standard_normal((8, 2)), []
            for first in (1.0, 5.0):
                table = rng.choice([1.0, 5.0], (1, 8)) if kind is PrintedResponses else None
                table = np.full((1, 8), 3.0) if table is None else table
                table[0, 0] = first
                cells = by_member(tc.Relation.from_dense(("user", "item"), table), "user")
                u = np.linalg.lstsq(v / size, table[0], rcond=None)[0][None] / size
                pair.append(printed_messages(task, cells, u, v))
            shares.append(mechanism.distance(*pair))
            printed.append(np.abs(pair[0] - pair[1])[:, 8:].sum() / (4.0 * 2))
    assert max(shares) <= 1.0
    assert max(printed) > 1.0  # what is printed, Δ·d, is exceeded


def test_the_printed_estimate_is_unbiased():
    """The average of (y* − p/2)/(1 − p)·g* is that of the gradient, items not rated included."""
    rng = np.random.default_rng(1)
    task = Task(40, 5, (1.0, 5.0), 2, asked_for(PrintedItemResponses, 40.0))
    public = PrintedItemResponses(rounds=1).agree(task)
    table = np.where(rng.random((40, 5)) < 0.5, rng.uniform(1, 5, (40, 5)), np.nan)
    table[:, 0] = 3.0
    cells = by_member(tc.Relation.from_dense(("user", "item"), table), "user")
    u, v = 0.5 * rng.standard_normal((40, 2)), rng.standard_normal((5, 2))
    sent = printed_messages(task, cells, u, v)
    truth = (sent[:, :5, None] * sent[:, 5:].reshape(40, 5, 2)).mean(axis=0)
    found = []
    for seed in range(300):
        noisy = public.mechanism.draw(sent, Noise("grid", seed=seed))
        numbers = noisy[:, 5:].reshape(40, 5, 2)
        found.append(np.einsum("ij,ijk->jk", public.mechanism.rated(noisy), numbers) / 40)
    error = np.std(found, axis=0) / np.sqrt(300)
    assert (np.abs(np.mean(found, axis=0) - truth) < 4.0 * error).all()


def test_the_baseline_is_chosen_by_name_and_pays_what_it_costs(ratings):
    asked = asked_for(PrintedResponses)
    model = ShinRecommender((1, 5), items=40, method="responses", privacy=asked, rank=2,
                            random_state=0).fit(ratings)  # fmt: skip
    certificate = model.certificate_.verify()
    assert certificate.claimed_epsilon == 2.0 < certificate.epsilon == pytest.approx(5.0, rel=1e-5)
    assert "nothing keeps them in bounds" in str(certificate)


def test_the_baseline_without_noise_is_the_same_descent_as_gd(ratings):
    both = [
        ShinRecommender((1, 5), items=40, method=method, rank=3, random_state=0)
        .fit(ratings)
        .shared_["features"]
        for method in (PrintedResponses(5, step_size=0.5), PrintedGradient(4, step_size=0.5))
    ]
    np.testing.assert_allclose(*both, rtol=1e-10)  # the printed loop of the latter runs k + 1


@pytest.mark.parametrize("settings", [{}, {"dimensions": 8}, {"participation": "once"}])
def test_local_descent_runs_over_sites(ratings, settings):
    """Devices of several sites send as those of one: sites pass on sums of their messages."""
    sites = []
    for k in range(4):
        kept = np.flatnonzero(ratings.indices[:, 0] % 4 == k)
        index = np.column_stack([ratings.indices[kept, 0] // 4, ratings.indices[kept, 1]])
        own = tc.Relation.from_cells(
            ("user", "item"), index, ratings.values[kept], shape=(100, 40)
        )
        sites.append(tc.Site(f"site {k}", own))
    method = LocalGradient(3, **settings)
    model = tc.PrivateRecommender(
        (1, 5), items=40, method=method, privacy=ASKED, rank=3, random_state=0
    ).fit(sites)
    assert {c.epsilon for c in model.certificates_.values()} == {2.0}
    assert model.predict([[0, 1], [399, 3]], positions=True).shape == (2,)


def test_the_papers_files_are_read(tmp_path):
    (tmp_path / "ratings.csv").write_text(
        "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n1,29,3.5,1112484676\n7,2,0.5,1\n"
    )
    films = movielens_20m(tmp_path)
    assert films.shape == (2, 2) and films.values.tolist() == [3.5, 3.5, 0.5]
    (tmp_path / "ratings.dat").write_text("1,133,8\n1,720,6\n2,133,10\n3,133,1\n")
    dates = libimseti(tmp_path, least=2)
    assert dates.shape == (3, 1) and dates.values.tolist() == [8.0, 10.0, 1.0]
