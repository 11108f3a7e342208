"""Lower bounds on ε hold, are sharp enough to be of use, and see what they should."""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.audit.bounds import ErrorRates, epsilon_at_least, one_run_epsilon
from tacit.errors import ParameterError
from tacit.privacy.accounting.gaussian import gdp_to_dp


def gaussian_scores(mu, runs, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(mu, 1.0, runs), rng.normal(0.0, 1.0, runs)


@pytest.mark.parametrize("kind", ["any", "gaussian"])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
def test_the_bound_fails_no_more_often_than_its_confidence_says(mu, kind):
    truth = gdp_to_dp(mu, 1e-3)
    wrong = sum(
        epsilon_at_least(*gaussian_scores(mu, 400, seed), delta=1e-3, kind=kind).epsilon > truth
        for seed in range(300)
    )
    assert wrong <= stats.binom.isf(1e-4, 300, 0.05)


def test_a_gaussian_trade_off_gives_most_of_epsilon():
    bound = epsilon_at_least(*gaussian_scores(1.0, 20_000, 0), delta=1e-5, kind="gaussian")
    assert 0.85 * gdp_to_dp(1.0, 1e-5) < bound.epsilon < gdp_to_dp(1.0, 1e-5)


def test_pure_privacy_is_seen_nearly_whole():
    """Randomized response with ε = 1: the test that repeats the answer is the best there is."""
    rng = np.random.default_rng(1)
    keep = 1.0 / (1.0 + math.exp(-1.0))
    ours, theirs = rng.random(40_000) < keep, rng.random(40_000) >= keep
    assert 0.93 < epsilon_at_least(ours, theirs, delta=0.0).epsilon < 1.0


def test_noise_that_is_too_small_is_caught():
    claimed = gdp_to_dp(1.0, 1e-5)
    bound = epsilon_at_least(*gaussian_scores(3.0, 20_000, 2), delta=1e-5, kind="gaussian")
    assert bound.epsilon > claimed
    assert epsilon_at_least(*gaussian_scores(9.0, 20_000, 2), delta=1e-5).epsilon > claimed


def test_equal_laws_prove_nothing():
    assert epsilon_at_least(*gaussian_scores(0.0, 4000, 3), delta=1e-6).epsilon < 0.2


def test_either_error_may_be_the_rare_one():
    assert ErrorRates(0, 1000, 500, 1000).epsilon(1e-6) == pytest.approx(
        ErrorRates(500, 1000, 0, 1000).epsilon(1e-6)
    )
    assert ErrorRates(0, 1000, 500, 1000).epsilon(1e-6) > 4.0


def test_clopper_pearson_limits_of_no_error():
    """With none of n wrong, the limit at level a is 1 − a^(1/n)."""
    alarm, _ = ErrorRates(0, 50, 3, 50).limits(0.9)
    assert alarm == pytest.approx(1.0 - 0.05 ** (1 / 50))


def test_one_run_without_delta_is_a_binomial_bound():
    epsilon = one_run_epsilon(80, 100, 200, delta=0.0, confidence=0.9)
    p = 1.0 / (1.0 + math.exp(-epsilon))
    assert stats.binom.sf(79, 100, p) == pytest.approx(0.1, rel=1e-6)


def test_one_run_bound_holds_for_randomized_response():
    rng, epsilon, m = np.random.default_rng(4), 1.0, 300
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    found = [
        one_run_epsilon(int((rng.random(m) < keep).sum()), m, m, delta=1e-6) for _ in range(400)
    ]
    assert np.mean(np.array(found) > epsilon) <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 400)
    assert np.median(found) > 0.6


def test_delta_weakens_one_run():
    assert one_run_epsilon(90, 100, 100, delta=1e-4) < one_run_epsilon(90, 100, 100, delta=0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: epsilon_at_least([1.0], [2.0] * 9, delta=0.1),
        lambda: epsilon_at_least([1.0, math.nan, 2, 3], [2.0] * 9, delta=0.1),
        lambda: epsilon_at_least([1.0] * 9, [2.0] * 9, delta=1.5),
        lambda: epsilon_at_least([1.0] * 9, [2.0] * 9, delta=0.1, kind="both"),
        lambda: one_run_epsilon(5, 4, 10, delta=0.0),
        lambda: ErrorRates(3, 2, 0, 2),
    ],
)
def test_nonsense_is_refused(call):
    with pytest.raises(ParameterError):
        call()
