"""Pólya–Gamma draws: their law against the series that defines it, moments, large arguments."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.factorization.alone.numerics.polya_gamma import expected_precision, polya_gamma


def by_series(rng, odds, times, draws, terms=100):
    """PG(b, z) = Σ_k g_k/((k − ½)² + z²/(4π²))/(2π²), g_k ~ Gamma(b, 1); the rest by its mean."""
    at = np.arange(1, 100_000) - 0.5
    scale = 1.0 / (at**2 + (odds / (2 * np.pi)) ** 2) / (2 * np.pi**2)
    drawn = rng.gamma(times, size=(draws, terms)) @ scale[:terms]
    return drawn + times * scale[terms:].sum()


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("odds", [0.0, -3.0, 3.2, 31.0])
def test_draws_have_the_law_of_the_series(odds, times):
    rng = np.random.default_rng([7, times, int(abs(10 * odds))])
    drawn = polya_gamma(rng, np.full(4_000, odds), times)
    assert stats.ks_2samp(drawn, by_series(rng, odds, times, 4_000)).pvalue > 1e-4
    wrong = by_series(rng, abs(odds) * 1.3 + 2.0, times, 4_000)
    assert stats.ks_2samp(drawn, wrong).pvalue < 1e-4


@pytest.mark.parametrize("odds", [0.0, 1e-9, 1.0, 2.9, 3.1, 29.9, 30.1, 300.0, -1e5])
def test_moments_are_exact(odds):
    rng = np.random.default_rng(1)
    drawn = polya_gamma(rng, np.full(20_000, odds))
    assert np.isfinite(drawn).all() and drawn.min() > 0.0
    mean = expected_precision(np.array([odds]))[0]
    assert abs(drawn.mean() - mean) < 4.5 * drawn.std() / np.sqrt(20_000)
    if abs(odds) < 50.0:  # E[exp(−tω)] = cosh(z/2)/cosh(√((z²/2 + t)/2))
        laplace = np.cosh(odds / 2) / np.cosh(np.sqrt((odds**2 / 2 + 1.7) / 2))
        found = np.exp(-1.7 * drawn)
        assert abs(found.mean() - laplace) < 4.5 * found.std() / np.sqrt(20_000)


def test_the_expected_precision_is_smooth_at_zero():
    odds = np.array([-1e-4, -1e-5, 0.0, 9.99e-5, 1.01e-4])
    np.testing.assert_allclose(expected_precision(odds, 2.0), 0.5, rtol=1e-8)
