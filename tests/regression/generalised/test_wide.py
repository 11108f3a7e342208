"""Many coefficients: steps that lead there, and how far to go along them."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.privacy.guarantee import Privacy
from tacit.regression.design import Design
from tacit.regression.generalised.agreement import MANY, MANY_ROUNDS, GeneralisedAgreement
from tacit.regression.generalised.numerics.descent import Descent, turned
from tacit.regression.generalised.numerics.frame import Frame, Noisy
from tacit.regression.generalised.numerics.links import Link
from tacit.regression.generalised.numerics.rounds import Round
from tacit.regression.generalised.numerics.wide import Wide

LINK = Link("logistic", 1.0)


def rows(rng, n=3000, d=80):
    """Rows whose spread falls like 1/rank, off the middle of their bounds."""
    loads = np.linalg.qr(rng.normal(size=(d, d)))[0] / np.sqrt(np.arange(1, d + 1))
    x = np.clip(0.3 + 0.3 * rng.normal(size=(n, d)) @ loads.T, -1.0, 1.0)
    return x, np.column_stack([np.full(n, 0.5), x])


def symmetric(rng, size, sd):
    noise = rng.normal(0.0, sd, (size, size))
    return (noise + noise.T) / 2.0


def learned(rng, x, y, frame, sd, asked=40):
    """Let rounds run on rows, with noise of this standard deviation on each number of a round."""
    z = np.column_stack([np.ones(len(x)), x]) @ frame.matrix.T
    weights = np.minimum(1.0, frame.clip / np.linalg.norm(z, axis=1))
    wide = Wide(LINK, frame, 0.0, 1.5, asked)
    for _ in range(asked):
        place = wide.place
        gradient = z.T @ (weights * (LINK.mean(z @ place) - y)) + rng.normal(0.0, sd, len(place))
        d = np.concatenate([[0.0], place[1:]]) / max(np.linalg.norm(place[1:]), 1e-12)
        along = float(np.square(weights * (z @ d)).sum()) + rng.normal(0.0, sd)
        wide.take(Round(place, d, gradient, sd**2, float(len(x)), sd, along, sd))
    return wide, z


@pytest.mark.parametrize("sd", [0.0, 30.0, 3000.0])
def test_no_direction_is_longer_than_white(sd):
    rng = np.random.default_rng(0)
    x, a = rows(rng)
    frame = Frame.of_many(Noisy(a.T @ a + symmetric(rng, a.shape[1], sd), sd, 0.5), 3000.0)
    z = np.column_stack([np.ones(len(x)), x]) @ frame.matrix.T
    assert np.linalg.eigvalsh(np.cov(z[:, 1:].T)).max() < 2.0
    assert frame.spread[1:].max() <= 1.0


def test_predictions_are_better_than_the_base_rate_and_never_much_worse():
    rng = np.random.default_rng(1)
    x, a = rows(rng)
    frame = Frame.of_many(Noisy(a.T @ a + symmetric(rng, a.shape[1], 60.0), 60.0, 0.5), 3000.0)
    slope = rng.normal(size=x.shape[1])
    eta = (x - 0.3) @ slope
    eta *= 2.0 / eta.std()
    y = (rng.random(len(x)) < LINK.mean(eta)).astype(float)
    losses = []
    for sd in (20.0, 60.0, 2000.0):
        wide, z = learned(rng, x, y, frame, sd)
        share = np.clip(LINK.mean(z @ wide.place), 1e-9, 1.0 - 1e-9)
        losses.append(-np.mean(y * np.log(share) + (1.0 - y) * np.log(1.0 - share)))
    assert losses[0] < losses[1] < 0.62
    assert losses[2] < 0.75  # log 2 = 0.693 knows nothing


def test_the_length_of_what_was_found_is_held_by_its_interval():
    """The ridge shrinks; the rounds along what was found say how much."""
    rng, inside = np.random.default_rng(2), []
    x, a = rows(rng)
    frame = Frame.of_many(Noisy(a.T @ a + symmetric(rng, a.shape[1], 60.0), 60.0, 0.5), 3000.0)
    for _ in range(16):
        slope = rng.normal(size=x.shape[1])
        eta = (x - 0.3) @ slope
        y = (rng.random(len(x)) < LINK.mean(1.5 * eta / eta.std())).astype(float)
        wide, z = learned(rng, x, y, frame, 40.0)
        # the best multiple of what was found, by Newton's method on the rows themselves
        plane = np.column_stack([np.ones(len(z)), z @ wide._direction])
        best = np.zeros(2)
        for _ in range(20):
            slopes = LINK.slope(plane @ best)
            curvature = (plane * slopes[:, None]).T @ plane
            best -= np.linalg.solve(curvature, plane.T @ (LINK.mean(plane @ best) - y))
        means, variances = wide.laws
        mean = wide.weights @ means[:, 1]
        spread = wide.weights @ (variances[:, 1] + np.square(means[:, 1] - mean))
        inside.append(abs(best[1] - mean) < 2.0 * np.sqrt(spread))
    assert np.mean(inside) > 0.75


def test_more_noise_asks_for_a_longer_ridge():
    frame = Frame(np.eye(4), np.ones(4), np.ones(4), 1000.0, 2.0, 1.0, 1.0)
    ridges = [Descent(LINK, frame, 0.0, noise, 10).ridge for noise in (1.0, 1e3, 1e6)]
    assert ridges[0] < ridges[1] < ridges[2]


def test_a_turn_is_orthogonal():
    rng = np.random.default_rng(3)
    d = np.concatenate([[0.0], rng.normal(size=5)])
    d /= np.linalg.norm(d)
    turn = turned(d)
    np.testing.assert_allclose(turn.T @ turn, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(turn[:, 1], d, atol=1e-12)


def test_many_coefficients_have_more_rounds_of_equal_budgets_at_the_same_price():
    privacy = Privacy(1.0, 1e-6, unit="row")
    for features, equal in ((MANY - 1, False), (MANY, True)):
        design = Design((0.0,) * features + (0.5,), (1.0,) * (features + 1), statistics="moments")
        names = (*(f"x{k}" for k in range(features)), "y")
        one = GeneralisedAgreement("logistic", design, names, privacy, asked=MANY_ROUNDS)
        assert one.wide == equal
        assert (len({noise.scale for noise in one.rounds_noise}) == 1) == equal
        spent = sum(1.0 / step.mechanism.noise_multiplier**2 for step in one.steps)
        assert 0.999 < spent * one.multiplier**2 <= 1.0
