"""K-norm noise: a Gamma length and a uniform direction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit.mechanisms.knorm import KNorm
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import REPLACE
from tacit.privacy.ledger.ledger import Ledger

SCALE = 0.8


@pytest.fixture(scope="module", params=[1, 2, 5], ids="d={}".format)
def noise_vectors(request):
    size = request.param
    mechanism, noise = KNorm(SCALE, 1.0, (size,)), Noise("grid", seed=size)
    zero = np.zeros(size)
    return np.array([mechanism.draw(zero, noise) for _ in range(2000)])


def test_length_is_gamma(noise_vectors):
    length = np.linalg.norm(noise_vectors, axis=1)
    law = stats.gamma(noise_vectors.shape[1], scale=SCALE)
    assert stats.kstest(length, law.cdf).pvalue > 1e-4


def test_direction_is_uniform(noise_vectors):
    size = noise_vectors.shape[1]
    direction = noise_vectors / np.linalg.norm(noise_vectors, axis=1, keepdims=True)
    if size == 1:
        assert abs(direction.mean()) < 5 / math.sqrt(len(direction))
        return
    # along any axis t, (t + 1)/2 is Beta((d − 1)/2, (d − 1)/2)
    law = stats.beta((size - 1) / 2, (size - 1) / 2, loc=-1, scale=2)
    axes = np.random.default_rng(1).normal(size=(3, size))
    axes = np.vstack([np.eye(size)[0], axes / np.linalg.norm(axes, axis=1, keepdims=True)])
    for axis in axes:
        assert stats.kstest(direction @ axis, law.cdf).pvalue > 1e-4


def test_length_and_direction_are_independent(noise_vectors):
    length = np.linalg.norm(noise_vectors, axis=1)
    first = noise_vectors[:, 0] / length
    for statistic in (first, first**2):
        if np.ptp(statistic) > 1e-9:
            correlation = stats.spearmanr(length, statistic).statistic
            assert abs(correlation) < 5 / math.sqrt(len(length))


def test_variance_is_d_plus_one_times_the_squared_scale(noise_vectors):
    size = noise_vectors.shape[1]
    mechanism = KNorm(SCALE, 1.0, (size,))
    assert mechanism.variance() == pytest.approx(SCALE**2 * (size + 1), rel=1e-6)
    squares = np.square(noise_vectors).mean(axis=1)
    error = squares.std() / math.sqrt(len(squares))
    assert abs(squares.mean() - mechanism.variance()) < 6 * error


def test_a_single_number_gets_laplace_noise():
    mechanism, noise = KNorm(SCALE, 1.0), Noise("grid", seed=5)
    drawn = [float(mechanism.draw(2.0, noise)) for _ in range(2000)]
    assert stats.kstest(drawn, stats.laplace(2.0, SCALE).cdf).pvalue > 1e-4


def test_matrices_keep_their_shape():
    mechanism = KNorm(SCALE, 1.0, (2, 3))
    assert mechanism.draw(np.ones((2, 3)), Noise("grid", seed=6)).shape == (2, 3)


def test_releases_lie_on_the_grid():
    mechanism = KNorm(SCALE, 1.0, (3,))
    steps = mechanism.draw([0.1, 0.2, 0.3], Noise("grid", seed=7)) / mechanism.grid.step
    np.testing.assert_array_equal(steps, np.round(steps))


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("neighbours", ["add-remove-one", REPLACE])
def test_calibrated_noise_meets_its_target_and_wastes_little(epsilon, size, neighbours):
    mechanism = KNorm.for_privacy(epsilon, 2.0, (size,), neighbours=neighbours)
    spent = epsilon_of(mechanism.event, 0.0)
    assert epsilon * (1 - 1e-3) < spent <= epsilon
    assert Ledger.memory(epsilon=epsilon).admits(mechanism.event)
    assert mechanism.scale >= 2.0 / epsilon


def test_seeded_exact_source_draws_from_the_same_words():
    mechanism = KNorm(SCALE, 1.0, (3,), source="exact")
    first, second = (mechanism.draw(np.zeros(3), Noise("exact", seed=8)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_no_noise_at_infinite_epsilon():
    mechanism = KNorm.for_privacy(math.inf, 1.0, (2,))
    value = np.array([0.123456789, -4.2])
    np.testing.assert_allclose(mechanism.draw(value, Noise("grid", seed=9)), value, atol=2.0**-40)
    assert mechanism.variance() == 0
