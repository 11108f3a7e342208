"""Running sums: the sensitivity of the nodes, attacked, and the variance of every step."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.running_sums import RunningSums
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import GaussianDpEvent

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 100)


@pytest.mark.parametrize("steps", LENGTHS)
def test_no_step_moves_the_nodes_further_than_stated_and_the_first_fills_it(steps):
    sums = RunningSums(1.0, 1.0, (steps,))
    still = np.zeros(steps)
    found = [sums.distance(still, row) for row in np.eye(steps)]
    assert max(found) <= 1.0
    assert found[0] == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("steps", LENGTHS)
def test_two_steps_move_the_nodes_no_further_than_stated(steps):
    sums = RunningSums(1.0, 1.0, (steps,), changed=2)
    rng = np.random.default_rng(steps)
    for _ in range(50):
        moved = np.zeros(steps)
        for step in rng.integers(0, steps, 2):
            moved[step] += rng.choice([-1.0, 1.0])
        assert sums.distance(np.zeros(steps), moved) <= 1.0


def test_steps_of_several_numbers_are_within_their_norm_after_rounding():
    sums = RunningSums(1e-3, 1.0, (5, 40))
    rng = np.random.default_rng(3)
    for _ in range(200):
        value = rng.normal(size=(5, 40))
        move = rng.normal(size=40)
        other = value.copy()
        other[0] += move / np.linalg.norm(move)
        assert sums.distance(value, other) <= 1.0


@pytest.mark.parametrize("steps", LENGTHS)
def test_without_noise_sums_are_exact(steps):
    value = np.arange(steps) * 0.25
    released = RunningSums(0.0, 1.0, (steps,)).draw(value, Noise(seed=1))
    np.testing.assert_array_equal(released, np.cumsum(value))


def test_each_step_has_the_variance_that_is_stated():
    steps, columns = 13, 20_000
    drawn = RunningSums(2.0, 1.0, (steps, columns)).draw(np.zeros((steps, columns)), Noise(seed=2))
    stated = RunningSums(2.0, 1.0, (steps,)).variance()
    assert stated[:8].tolist() == [4.0, 4.0, 8.0, 4.0, 8.0, 8.0, 12.0, 4.0]
    np.testing.assert_allclose(drawn.var(axis=1), stated, rtol=6 * math.sqrt(2 / columns))


def test_rounding_counts_for_every_step_that_changes():
    """Halves of a grid step: rounding moves each step by a whole one."""
    sums = RunningSums(1.0, 2.0**-21, (1, 1), changed=1)
    many = RunningSums(1.0, 2.0**-21, (4, 1), changed=4)
    value = np.full((4, 1), 2.0**-21 - 2.0**-60)
    assert sums.distance(value[:1], value[:1] + 2.0**-21) <= 1.0
    assert many.distance(value, value + 2.0**-21) <= 1.0


def test_sums_for_a_target_reach_it():
    sums = RunningSums.for_privacy(1.0, 1e-6, 1.0, (100,), changed=3)
    assert 0.99 < epsilon_of(sums.event, 1e-6) <= 1.0


@pytest.mark.parametrize("shape", [(1,), (1000,), (64, 30)])
@pytest.mark.parametrize("multiplier", [0.3, 2.0, 50.0])
def test_calibrated_noise_has_the_multiplier_and_hardly_more(shape, multiplier):
    sums = RunningSums.calibrated(multiplier, 0.7, shape)
    assert sums.sensitivity == 0.7
    assert isinstance(sums.event, GaussianDpEvent)
    assert multiplier <= sums.event.noise_multiplier <= multiplier * 1.01


def test_a_shape_without_steps_is_refused():
    for shape in ((), (0,)):
        with pytest.raises(ParameterError, match="steps"):
            RunningSums(1.0, 1.0, shape)
