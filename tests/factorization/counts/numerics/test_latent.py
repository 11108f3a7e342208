"""Counts behind perturbed ones: draws against the law, enumerated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

from tacit._core import kernels
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.factorization.counts.numerics import latent as module
from tacit.factorization.counts.numerics.latent import latent_counts, log_weight

RATES = [1e-6, 0.5, 9.0, 300.0, 1e6]
ALPHAS = [1e-12, 0.05, 0.6, 0.975, 0.99999]
COPIES = 4000
# 5 · 5 · 7 tests: P(any p < 1e-7) < 2e-5
LEAST = 1e-7


def seen(rate):
    """Return perturbed counts on both sides of the kink and far out, in order."""
    near = [int(rate), int(1.05 * rate) + 1]
    return [-(10**6), -4, 0, 3, *near, 10**6]


def mode_of(z, rate, alpha):
    return max(math.floor(rate * alpha), min(z, math.floor(rate / alpha)))


def law(z, rate, alpha):
    """Return (first x, probabilities) over all x that matter."""
    mode = mode_of(z, rate, alpha)
    reach = int(12 * math.sqrt(mode + 1) + 60)
    x = np.arange(max(0, mode - reach), mode + reach + 1)
    log = x * math.log(rate) - special.gammaln(x + 1) + np.abs(z - x) * math.log(alpha)
    weights = np.exp(log - log.max())
    return x[0], weights / weights.sum()


def fit(drawn, first, probabilities, least=25.0):
    """Return the p-value of a chi-square test, with neighbours merged into bins."""
    expected = probabilities * len(drawn)
    bins = np.minimum((np.cumsum(expected) - expected / 2) // least, expected.sum() // least - 1)
    if len(np.unique(bins)) < 2:
        return 1.0
    counts = np.bincount((drawn - first).astype(int), minlength=len(expected))
    labels = np.unique(bins, return_inverse=True)[1]
    observed, merged = np.bincount(labels, counts), np.bincount(labels, expected)
    return stats.chisquare(observed, merged * observed.sum() / merged.sum()).pvalue


@pytest.mark.parametrize(("rate", "alpha"), list(itertools.product(RATES, ALPHAS)))
def test_draws_follow_the_law(rate, alpha):
    rng = generator(1, f"{rate} {alpha}")
    for z in seen(rate):
        drawn = latent_counts(rng, np.full(COPIES, float(z)), rate, alpha)
        first, probabilities = law(z, rate, alpha)
        assert drawn.min() >= first
        assert drawn.max() < first + len(probabilities)
        assert fit(drawn, first, probabilities) > LEAST


@pytest.mark.parametrize("wrong", [1.04, 0.96])
def test_a_slightly_wrong_rate_is_noticed(wrong):
    drawn = latent_counts(generator(2), np.full(100_000, 30.0), wrong * 9.0, 0.9)
    assert fit(drawn, *law(30, 9.0, 0.9)) < LEAST


@pytest.mark.parametrize(
    ("z", "rate", "alpha"), [(5, 2.0, 0.5), (-3, 700.0, 0.9), (10, 1e-3, 0.2)]
)
def test_log_weights_are_those_of_the_definition(z, rate, alpha):
    mode = mode_of(z, rate, alpha)

    def definition(x):
        return x * math.log(rate) - math.lgamma(x + 1) + abs(z - x) * math.log(alpha)

    for x in (0, 1, mode, mode + 7, 2 * mode + 30):
        found = log_weight(x, mode, z, rate, -math.log(alpha))
        assert found == pytest.approx(definition(x) - definition(mode), rel=1e-9, abs=1e-9)


def test_the_mode_has_the_largest_weight():
    rng = np.random.default_rng(3)
    for _ in range(300):
        rate, alpha = 10.0 ** rng.uniform(-4, 5), rng.uniform(1e-3, 0.999)
        z = int(rng.integers(-50, 50) + rng.integers(0, 2) * rate)
        mode = mode_of(z, rate, alpha)
        beside = [x for x in (mode - 1, mode + 1) if x >= 0]
        assert all(log_weight(x, mode, z, rate, -math.log(alpha)) < 1e-9 for x in beside)


def test_compiled_draws_equal_their_own_source():
    rng = np.random.default_rng(4)
    z = rng.integers(-60, 60, 300).astype(float)
    rates, alpha = 10.0 ** rng.uniform(-2, 4, 300), rng.uniform(0.0, 0.999, 300)
    results = []
    for kernel in (module._fill, kernels.compiled(module._fill, unchecked=True)):
        out = np.empty(300)
        kernel(generator(5), z, rates, alpha, out)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_no_noise_leaves_counts_alone():
    z = np.array([0.0, 4.0, 1e6])
    np.testing.assert_array_equal(latent_counts(generator(0), z, 2.0, 0.0), z)
    np.testing.assert_array_equal(latent_counts(generator(0), z, 2.0, 1e-300), z)


def test_extreme_numbers_are_drawn_too():
    z = np.array([1e12, -1e12, 0.0, 5.0])
    drawn = latent_counts(generator(0), z, [1e12, 1e12, 1e-300, 1e-300], [0.5, 0.999, 0.9, 0.9])
    assert np.isfinite(drawn).all()
    assert (drawn >= 0).all()
    assert drawn[2:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"perturbed": [0.5]}, "perturbed must hold whole numbers"),
        ({"perturbed": [1e13]}, "perturbed must hold whole numbers"),
        ({"perturbed": [np.nan]}, "perturbed must hold whole numbers"),
        ({"rates": 0.0}, "rates must hold numbers in"),
        ({"rates": np.inf}, "rates must hold numbers in"),
        ({"alpha": 1.0}, "alpha must hold numbers in"),
        ({"alpha": -0.1}, "alpha must hold numbers in"),
        ({"perturbed": [-1.0], "alpha": 0.0}, "above 0 where z is negative"),
    ],
)
def test_impossible_parameters_are_refused(change, message):
    options = {"perturbed": [1.0], "rates": 1.0, "alpha": 0.5} | change
    with pytest.raises(ParameterError, match=message):
        latent_counts(generator(0), **options)
