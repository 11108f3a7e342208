"""Frames and the filter of rounds, against known answers."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.regression.generalised.numerics.frame import Frame, Noisy
from tacit.regression.generalised.numerics.links import Link
from tacit.regression.generalised.numerics.rounds import Rounds


def gram(x, constant=0.5):
    rows = np.column_stack([np.full(len(x), constant), x])
    return rows.T @ rows


def test_rows_are_white_in_a_frame_of_exact_moments():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3)) @ np.diag([0.1, 0.01, 0.3]) + [0.2, -0.5, 0.0]
    frame = Frame.of(Noisy(gram(x), 0.0, 0.5), 0.0)
    z = np.column_stack([np.ones(len(x)), x]) @ frame.matrix.T
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(4), atol=1e-8)
    assert frame.rows == pytest.approx(4000)


def test_directions_that_noise_hides_are_never_longer_than_white():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2000, 6)) * 0.05
    noise = rng.normal(size=(7, 7)) * 20.0
    frame = Frame.of(Noisy(gram(x) + (noise + noise.T) / 2.0, 20.0, 0.5), 5.0, 2000.0)
    z = np.column_stack([np.ones(len(x)), x]) @ frame.matrix.T
    assert z[:, 1:].var(axis=0).max() < 1.0


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_the_slope_is_that_of_the_gradient(name):
    link = Link(name, 1e6 if name == "poisson" else 1.0)
    frame = Frame(np.eye(3), np.array([1.0, 0.8, 0.5]), np.ones(3), 500.0, 9.0, 0.9, 0.8)
    rounds, theta = Rounds(link, frame, 0.3, 2.0), np.array([0.3, 0.7, -0.5])
    slope = rounds.slope(theta)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-5
        there = (rounds.gradient(theta + step) - rounds.gradient(theta - step)) / 2e-5
        # the gradient is of z of any spread, the slope of the mean over η: alike along z
        np.testing.assert_allclose(slope[:, k], there, rtol=2e-3, atol=0.5)


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_rounds_find_the_mode_and_know_how_sure_they_are(name):
    """For white normal rows the filter's own model is true: 90 % intervals hold 90 %."""
    link = Link(name, 1e6 if name == "poisson" else 1.0)
    frame = Frame(np.eye(4), np.ones(4), np.ones(4), 3000.0, 9.0, 1.0, 1.0)
    rng, inside, sd = np.random.default_rng(2), [], 60.0
    for _ in range(60):
        truth = np.append(rng.normal(0.0, 0.3), rng.normal(0.0, 0.3, 3))
        rounds = Rounds(link, frame, 0.0, 1.5)
        there = rounds.gradient(truth)
        for _ in range(10):
            place = rounds.place
            gradient = rounds.gradient(place) - there + rng.normal(0.0, sd, 4)
            rounds.observe(place, gradient, sd**2)
        best = rounds.members[int(np.argmax(rounds.weights))]
        far = 1.645 * np.sqrt(np.diag(rounds.posterior(best)))
        inside += (np.abs(rounds.place - truth) < far).tolist()
    assert np.mean(inside) > 0.85


def test_noise_alone_leaves_the_base_rate():
    frame = Frame(np.eye(5), np.ones(5), np.ones(5), 50.0, 2.0, 1.0, 1.0)
    rng, found = np.random.default_rng(3), []
    for _ in range(20):
        rounds = Rounds(Link("logistic", 1.0), frame, 0.0, 1.5)
        for _ in range(10):
            rounds.observe(rounds.place, rng.normal(0.0, 500.0, 5), 500.0**2)
        found.append(rounds.place[1:])
    assert np.abs(found).mean() < 0.2
