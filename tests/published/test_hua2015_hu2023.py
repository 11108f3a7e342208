"""DPMF, PDPMF and HDPMF as published: their noise, what they claim and what they give."""

import math

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from tacit.data.split import hold_out_per_member
from tacit.data.synthetic import simulated_ratings
from tacit.errors import BudgetExceeded, NotCertified, ParameterError
from tacit.estimators.gate import Gate
from tacit.published import hua2015_hu2023 as recommender_gradient
from tacit.published.hua2015_hu2023 import GradientFactorization, GradientRecommender
from tacit.recommender.method import Task

REQUEST = tc.Privacy(1.0, 1e-5, unit="entry", trust="aggregator")


@pytest.fixture(scope="module")
def ratings():
    return simulated_ratings(300, 40, per_user=15, seed=2)


def fit(ratings, kind, request=REQUEST, weights=None, **settings):
    method = GradientFactorization(kind, **{"epochs": 20, **settings})
    model = GradientRecommender((1, 5), method=method, privacy=request, rank=4, random_state=0)
    return model.fit(ratings, weights=weights)


def test_plain_factorization_learns(ratings):
    train, cells, values = hold_out_per_member(ratings, "user", 4, np.random.default_rng(0))
    for offsets in (False, True):
        fitted = fit(train, "mf", None, epochs=60, step_size=0.02, ridge=0.2, offsets=offsets)
        assert np.mean((fitted.predict(cells) - values) ** 2) < 0.85 * values.var()
    assert not fitted.certificate_.is_private


def test_the_certificate_shows_the_claim_beside_what_is_given(ratings):
    fitted = fit(ratings, "hdpmf", epochs=100)
    certificate = fitted.certificate_.verify()
    assert certificate.calibration == "published" and certificate.claimed_epsilon == 1.0
    assert 60 < certificate.epsilon < 100  # one coordinate, 100 epochs
    assert "fresh noise" in str(certificate) and "vectors" in str(certificate)
    price = fitted.price(ratings)
    assert price.sites[0].epsilon > 60


def test_what_the_published_noise_gives_over_100_epochs():
    """PRIVACY B2: 17 for K = 10 and 27 for K = 5, with U fixed and spread evenly; 68 for one."""
    for rank, expected in ((10, 17.4), (5, 26.9)):
        task = Task(9, 20, (1.0, 5.0), rank, REQUEST)
        found = GradientFactorization("hdpmf").agree(task).spread_epsilon()
        assert found == pytest.approx(expected, abs=0.2)


def test_a_ledger_pays_what_it_really_costs(ratings):
    ledger = tc.Ledger.memory(unit="entry", epsilon=5.0, delta=1e-4)
    model = GradientRecommender((1, 5), privacy=REQUEST, rank=4, ledger=ledger)
    assert not model.price(ratings).affordable
    with pytest.raises(BudgetExceeded):
        model.fit(ratings)


def test_the_noise_of_an_epoch_is_laplace_of_the_published_scale(ratings, monkeypatch):
    drawn, release = [], Gate.release
    monkeypatch.setattr(
        Gate, "release", lambda *a, **k: drawn.append(release(*a, **k)) or drawn[-1]
    )
    fit(ratings, "hdpmf")
    assert len(drawn) == 20
    scale = 2 * 4.0 * math.sqrt(4) / 1.0
    assert stats.kstest(np.ravel(drawn) / scale, "laplace").pvalue > 1e-4


def test_the_mixture_of_the_paper_is_that_laplace_law():
    """√(2h)·c with h exponential and c normal; the root covers h (PRIVACY B2)."""
    rng = np.random.default_rng(0)
    h, c = rng.exponential(size=50_000), rng.standard_normal(50_000)
    assert stats.kstest(np.sqrt(2 * h) * c, "laplace").pvalue > 1e-4
    assert stats.kstest(np.sqrt(2) * h * c, "laplace").pvalue < 1e-6  # as printed, read literally


def test_dpmf_takes_the_least_epsilon_and_hdpmf_rescales(ratings):
    weights = tc.PrivacyWeights.drawn(300, 40, np.random.default_rng(0))
    least = weights.users.min() * weights.items.min()
    assert fit(ratings, "dpmf", weights=weights).certificate_.claimed_epsilon == pytest.approx(
        least
    )
    open_ = tc.Privacy(math.inf, 1e-5, unit="entry", trust="aggregator")
    settings = {"epochs": 60, "step_size": 0.02, "weights": weights}
    with_, without = (fit(ratings, "hdpmf", open_, rescale=r, **settings) for r in (True, False))
    errors = [
        np.mean((m.predict(ratings.indices) - ratings.values) ** 2) for m in (with_, without)
    ]
    assert errors[0] < 0.5 * errors[1]
    groups = fit(ratings, "hdpmf", weights=weights).certificate_.groups
    assert len(groups) > 3


def test_pdpmf_keeps_ratings_by_their_weight(ratings, monkeypatch):
    seen = []
    epoch = recommender_gradient.gradient_epoch
    monkeypatch.setattr(recommender_gradient, "gradient_epoch",
                        lambda starts, users, *a:
                        seen.append(len(users)) or epoch(starts, users, *a))  # fmt: skip
    weights = tc.PrivacyWeights(np.where(np.arange(300) % 2, 0.2, 1.0), np.full(40, 0.5))
    fitted = fit(ratings, "pdpmf", weights=weights)
    careful = np.mean(ratings.indices[:, 0] % 2)
    share = 1.0 - careful + careful * math.expm1(0.1) / math.expm1(0.3)
    assert seen[0] / ratings.cells == pytest.approx(share, abs=0.03)
    assert fitted.certificate_.claimed_epsilon == pytest.approx(0.3)


def test_published_noise_is_released_with_its_claim_only(ratings, tmp_path):
    model = GradientRecommender((1, 5), privacy=REQUEST, rank=2)
    released = tc.read_release(model.fit(ratings).release(tmp_path / "r"))
    (certificate,) = released.certificates.values()
    assert certificate.claimed_epsilon == 1.0 and certificate.epsilon > 60
    again = GradientRecommender.from_release(tmp_path / "r")
    assert len(again.recommend({1: 5.0}, 3)) == 3 and again.method == GradientFactorization(
        "hdpmf"
    )


def test_certified_code_has_no_published_method(ratings):
    with pytest.raises(ParameterError, match="method must be"):
        tc.PrivateRecommender((1, 5), method="hdpmf", privacy=REQUEST).fit(ratings)


def test_bad_settings_are_refused(ratings):
    with pytest.raises(ParameterError, match="adds no noise"):
        fit(ratings, "mf")
    with pytest.raises(ParameterError, match="offsets"):
        fit(ratings, "hdpmf", offsets=True)
    for settings in ({"step_size": 0.0}, {"epochs": 0}, {"ridge": -1.0}):
        with pytest.raises(ParameterError):
            fit(ratings, "hdpmf", **settings)
    with pytest.raises(ParameterError, match="kind"):
        fit(ratings, "svd")
    for request in (tc.Privacy(1.0, unit="user", trust="aggregator"),
                    tc.Privacy(1.0, unit="entry", trust="site")):  # fmt: skip
        with pytest.raises(ParameterError, match=r"needs trust|protects unit"):
            fit(ratings, "hdpmf", request)
    with pytest.raises(ParameterError, match="no sites"):
        fit([tc.Site("A", ratings)], "hdpmf")
    with pytest.raises(NotCertified, match="no finite guarantee"):
        fit(ratings, "mf", None).release("nowhere")
