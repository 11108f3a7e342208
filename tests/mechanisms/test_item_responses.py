"""The price of a person's answers about all items, rounding included."""

import math

import numpy as np
import pytest
from scipy import stats

from tacit.mechanisms.item_responses import ItemResponses
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import LaplaceDpEvent, leaves


def test_rounding_both_of_two_replaced_rows_is_paid_for():
    """Each of the numbers moves by up to half a step in either row: a whole step between them."""
    numbers = 1000
    mechanism = ItemResponses(1.0, 1, 2.0, 1.0, 3, numbers)
    step = mechanism._grid.step
    (laplace,) = (leaf for leaf in leaves(mechanism.event) if isinstance(leaf, LaplaceDpEvent))
    assert laplace.noise_multiplier == pytest.approx(2.0 / (1.0 + numbers * step), rel=1e-15)
    assert laplace.noise_multiplier < 2.0 / (1.0 + 0.6 * numbers * step)


@pytest.mark.parametrize(
    "numbers", [[3.0, -3.0], [-7.0, 0.0], [0.2, -0.2], [math.nan, 9.0], [1e308, 1e308], [0.0, 0.0]]
)
def test_numbers_are_shortened_to_half_the_reach_whatever_their_signs(numbers):
    mechanism = ItemResponses(1.0, 1, 2.0, 1.0, 1, 2)
    (short,) = mechanism._shortened(np.array([[1.0, *numbers]]))
    clean = np.nan_to_num(numbers)
    length = math.fsum(np.abs(clean) / 4.0) * 4.0
    assert np.abs(short).sum() <= 0.5
    if length < 0.499:
        assert short.tolist() == clean.tolist()
    elif math.isfinite(length):
        np.testing.assert_allclose(short, 0.5 * clean / length, rtol=1e-8)


def test_numbers_that_move_against_each_other_are_apart():
    mechanism = ItemResponses(1.0, 1, 2.0, 1.0, 1, 2)
    ours, theirs = np.array([[1.0, 0.2, -0.2]]), np.array([[1.0, 0.0, 0.0]])
    assert mechanism.distance(ours, theirs) == mechanism.distance(theirs, ours) == 0.4


def test_numbers_get_laplace_noise_of_the_stated_scale():
    mechanism = ItemResponses(1.0, 1, 2.0, 1.0, 1, 5)
    nothing = np.zeros((8000, 6))
    noise = mechanism.draw(nothing, Noise("grid", seed=3))[:, 1:].ravel()
    assert stats.kstest(noise, stats.laplace(scale=2.0).cdf).pvalue > 1e-3
    assert stats.kstest(noise, stats.laplace(scale=1.9).cdf).pvalue < 1e-3


def test_estimates_of_bits_are_unbiased():
    mechanism = ItemResponses(1.0, 1, 2.0, 1.0, 2, 1)
    bits = np.zeros((20_000, 3))
    bits[:, 1] = 1.0
    found = mechanism.rated(mechanism.draw(bits, Noise("grid", seed=4)))
    np.testing.assert_allclose(found.mean(axis=0), [0.0, 1.0], atol=0.05)
