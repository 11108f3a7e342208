"""Noise on a matrix that is never stored: its law, that it stays the same, and shares of it."""

import copy
import pickle

import numpy as np
import pytest
from scipy import stats

from tacit._core.rng import KeyedWords
from tacit.errors import ParameterError
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.symmetric_operator import OperatorGaussian

SIZE = 700  # two blocks


@pytest.fixture(scope="module")
def noisy():
    return OperatorGaussian(3.0, 1.0, (SIZE, SIZE)).draw(np.zeros((SIZE, SIZE)), Noise(seed=1))


@pytest.fixture(scope="module")
def matrix(noisy):
    return np.asarray(noisy)


def test_noise_is_isotropic_and_symmetric(matrix):
    np.testing.assert_array_equal(matrix, matrix.T)
    upper = matrix[np.triu_indices(SIZE, 1)]
    assert stats.kstest(upper, stats.norm(scale=3.0 / np.sqrt(2.0)).cdf).pvalue > 1e-6
    assert stats.kstest(np.diag(matrix), stats.norm(scale=3.0).cdf).pvalue > 1e-6
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, SIZE)))[0]
    turned = turn.T @ matrix @ turn  # isotropic: the same law in any basis
    assert np.diag(turned).std() == pytest.approx(3.0, rel=0.12)
    assert turned[np.triu_indices(SIZE, 1)].std() == pytest.approx(3.0 / np.sqrt(2.0), rel=0.01)


def test_the_law_test_notices_noise_that_is_not_isotropic(matrix):
    upper = matrix[np.triu_indices(SIZE, 1)] * np.sqrt(2.0)
    assert stats.kstest(upper, stats.norm(scale=3.0 / np.sqrt(2.0)).cdf).pvalue < 1e-6


def test_every_product_sees_the_same_noise(noisy, matrix):
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((SIZE, 5))
    np.testing.assert_array_equal(noisy.apply(vectors), noisy.apply(vectors))
    np.testing.assert_allclose(noisy.apply(vectors), matrix @ vectors, atol=1e-9)
    np.testing.assert_array_equal(np.asarray(noisy), matrix)


def test_whole_vectors_give_exact_products(noisy, matrix):
    vectors = np.random.default_rng(3).integers(-(2**16), 2**16, (SIZE, 2))
    steps = np.rint(matrix / noisy.step).astype(np.int64).astype(object)
    np.testing.assert_array_equal(
        noisy.apply(vectors), (steps @ vectors.astype(object)).astype(np.int64)
    )


def test_a_value_shifts_the_release_and_nothing_else():
    mechanism = OperatorGaussian(3.0, 1.0, (5, 5))
    value = np.random.default_rng(0).standard_normal((5, 5))
    noise = np.asarray(mechanism.draw(np.zeros((5, 5)), Noise(seed=4)))
    released = np.asarray(mechanism.draw(value, Noise(seed=4)))
    np.testing.assert_allclose(released - noise, (value + value.T) / 2.0, atol=mechanism.grid.step)


def test_two_draws_and_two_blocks_differ():
    mechanism, source = OperatorGaussian(1.0, 1.0, (4, 4)), Noise()
    first, second = (np.asarray(mechanism.draw(np.zeros((4, 4)), source)) for _ in range(2))
    assert (first != second).all()
    keys = KeyedWords(5)
    assert (keys.block(0).words(8) != keys.block(1).words(8)).any()
    assert (keys.block(0).words(8) != KeyedWords(6).block(0).words(8)).any()


def test_what_could_undo_the_noise_cannot_be_pickled(noisy):
    for thing in (noisy, KeyedWords(3), KeyedWords(3).block(0)):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(thing)
    keys = KeyedWords(3)
    assert copy.deepcopy(keys) is keys


@pytest.mark.parametrize("shares", [1, 4, 9])
def test_shares_add_up_to_the_whole(shares):
    mechanism = GaussianShare(2.0, 1.0, (40_000,), shares=shares)
    total = sum(mechanism.draw(np.zeros(40_000), Noise(seed=k)) for k in range(shares))
    assert stats.kstest(total, stats.norm(scale=2.0).cdf).pvalue > 1e-6
    assert mechanism.event == GaussianShare(2.0, 1.0, (40_000,)).event
    matrix = OperatorGaussian(2.0, 1.0, (150, 150), shares=shares)
    whole = sum(np.asarray(matrix.draw(np.zeros((150, 150)), Noise(seed=k)))
                for k in range(shares))  # fmt: skip
    upper = whole[np.triu_indices(150, 1)]
    assert stats.kstest(upper, stats.norm(scale=np.sqrt(2.0)).cdf).pvalue > 1e-6


def test_without_noise_nothing_is_lost():
    value = np.random.default_rng(0).standard_normal((6, 6))
    exact = OperatorGaussian(0.0, 1.0, (6, 6)).draw(value, Noise(seed=1))
    np.testing.assert_allclose(np.asarray(exact), (value + value.T) / 2.0, atol=1e-8)


def test_rounding_is_counted():
    mechanism = OperatorGaussian.calibrated(4.0, 1.0, (10_000, 10_000))
    assert mechanism.noise_multiplier >= 4.0
    assert 4.0 < mechanism.scale < 4.0 * 1.005


@pytest.mark.parametrize(("options", "message"), [
    ({"shape": (3,)}, "shape"), ({"shape": (3, 4)}, "shape"), ({"shares": 0}, "shares"),
    ({"source": "exact"}, "grid"),
])  # fmt: skip
def test_bad_mechanisms_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        OperatorGaussian(**{"scale": 1.0, "sensitivity": 1.0, "shape": (3, 3), **options})


def test_bad_vectors_are_refused(noisy):
    with pytest.raises(ParameterError, match="rows"):
        noisy.apply(np.ones((3, 1)))


@pytest.mark.parametrize("block", [1, 2, 3, 5, 64])
def test_the_distance_is_the_norm_of_the_difference_whatever_the_blocks(block, monkeypatch):
    monkeypatch.setattr("tacit.mechanisms.symmetric_operator.BLOCK", block)
    mechanism, rng = OperatorGaussian(8.0, 2.0, (5, 5)), np.random.default_rng(0)
    ours, theirs = (a + a.T for a in rng.normal(size=(2, 5, 5)))
    expected = np.linalg.norm(ours - theirs) / 2.0
    assert mechanism.distance(ours, theirs) == pytest.approx(expected, rel=1e-4)
