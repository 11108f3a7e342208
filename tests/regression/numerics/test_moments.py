"""Conjugate pieces of linear regression against simulation and closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tacit.errors import ParameterError
from tacit.regression.numerics.moments import (
    Moments,
    NormalInverseGamma,
    Prior,
    check_moments,
    cross_log_density,
    nearest_psd,
    noise_covariance,
    pooled,
)


def some_data(seed=0, n=60, d=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    return x, x @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)


def test_the_cross_moment_is_gaussian_given_the_gram():
    """Proposition 1 by simulation: whitened z − Sβ is standard normal."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (40, 3))  # the features need not be normal
    beta, variance = np.array([1.0, -2.0, 0.5]), 0.3
    gram = x.T @ x
    errors = np.sqrt(variance) * rng.standard_normal((20_000, 40))
    cross = (x @ beta + errors) @ x
    white = np.linalg.solve(np.linalg.cholesky(variance * gram), (cross - gram @ beta).T)
    np.testing.assert_allclose(np.cov(white), np.eye(3), atol=0.05)
    for row in white:
        assert stats.kstest(row, "norm").pvalue > 1e-4
    law = stats.multivariate_normal(gram @ beta, variance * gram + 4.0 * np.eye(3))
    ours = cross_log_density(cross[0], gram, beta, variance, 2.0)
    assert ours == pytest.approx(law.logpdf(cross[0]))


def test_noise_times_coefficients_has_the_stated_covariance():
    rng = np.random.default_rng(2)
    beta, sd = np.array([1.0, -2.0, 0.5]), 3.0
    noise = rng.normal(0.0, sd, (200_000, 3, 3))
    noise = 0.5 * (noise + noise.transpose(0, 2, 1))
    simulated = np.cov((noise @ beta).T)
    expected = noise_covariance(beta, sd)
    np.testing.assert_allclose(simulated, expected, atol=0.02 * expected.max())
    # with full variance off the diagonal, as in the thesis, it would be another matrix
    upper = np.triu(rng.normal(0.0, sd, (50_000, 3, 3)))
    full = upper + np.triu(upper, 1).transpose(0, 2, 1)
    assert np.abs(np.cov((full @ beta).T) - expected).max() > 0.2 * expected.max()


def test_the_conjugate_posterior_is_bayes_theorem():
    x, y = some_data()
    prior = NormalInverseGamma(np.array([0.3, 0.0, -1.0]), np.diag([1.0, 2.0, 0.5]), 3.0, 2.0)
    after = prior.given(Moments.of(x, y))

    def log_density(law, beta, variance):
        covariance = variance * np.linalg.inv(law.precision)
        return stats.multivariate_normal(law.mean, covariance).logpdf(beta) + stats.invgamma(
            law.shape, scale=law.scale
        ).logpdf(variance)

    def joint(beta, variance):
        likelihood = stats.norm(x @ beta, np.sqrt(variance)).logpdf(y).sum()
        return log_density(prior, beta, variance) + likelihood

    rng = np.random.default_rng(3)
    one, two = [(rng.standard_normal(3), rng.uniform(0.1, 2.0)) for _ in range(2)]
    difference = log_density(after, *one) - log_density(after, *two)
    assert difference == pytest.approx(joint(*one) - joint(*two))


def test_draws_of_the_conjugate_law_have_its_moments():
    x, y = some_data()
    law = NormalInverseGamma(np.zeros(3), np.eye(3), 3.0, 2.0).given(Moments.of(x, y))
    beta, variance = law.sample(np.random.default_rng(4), 40_000)
    np.testing.assert_allclose(beta.mean(axis=0), law.mean, atol=0.003)
    np.testing.assert_allclose(np.cov(beta.T), law.covariance(), atol=0.0005)
    assert variance.mean() == pytest.approx(law.scale / (law.shape - 1), rel=0.01)


def test_moments_of_parts_add_up():
    x, y = some_data()
    whole, parts = Moments.of(x, y), [Moments.of(x[:20], y[:20]), Moments.of(x[20:], y[20:])]
    total = pooled([replace(m, gram_sd=3.0, cross_sd=4.0) for m in parts])
    np.testing.assert_allclose(total.gram, whole.gram)
    assert total.square == pytest.approx(whole.square)
    assert (total.gram_sd, total.cross_sd) == pytest.approx((3 * 2**0.5, 4 * 2**0.5))
    assert pooled([parts[0], replace(parts[1], square=None)]).square is None


def test_the_nearest_semidefinite_matrix_is_nearest():
    rng = np.random.default_rng(5)
    matrix = rng.standard_normal((4, 4))
    matrix = matrix + matrix.T
    nearest = nearest_psd(matrix)
    assert np.linalg.eigvalsh(nearest)[0] > -1e-12
    distance = np.linalg.norm(nearest - matrix)
    for _ in range(200):
        root = np.linalg.cholesky(nearest + 1e-9 * np.eye(4)) + 0.05 * rng.standard_normal((4, 4))
        assert np.linalg.norm(root @ root.T - matrix) >= distance - 1e-6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gram": np.full((3, 3), np.nan)}, "not finite"),
        ({"cross": np.array([1.0, np.inf, 0.0])}, "not finite"),
        ({"gram": np.arange(9.0).reshape(3, 3)}, "symmetric"),
        ({"gram": np.eye(2)}, "3 × 3"),
        ({"cross": np.ones(2)}, "length 3"),
        ({"gram_sd": -1.0}, "gram_sd"),
        ({"cross_sd": np.nan}, "cross_sd"),
        ({"rows": np.nan}, "rows"),
        ({"rows": 0.0}, "at least 1"),
        ({"square": np.inf}, "square"),
    ],
)
def test_a_bad_summary_is_named(change, words):
    good = Moments.of(*some_data())
    with pytest.raises(ParameterError, match=r"moments\[1\].*" + words):
        check_moments([good, replace(good, **change)])


def test_no_site_is_an_error():
    with pytest.raises(ParameterError, match="at least one"):
        check_moments([])


@pytest.mark.parametrize("bad", [{"sd": 0.0}, {"noise_shape": -1.0}, {"mean": np.nan}])
def test_a_bad_prior_is_refused(bad):
    with pytest.raises(ParameterError):
        Prior(**bad)
