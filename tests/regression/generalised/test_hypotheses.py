"""Hypotheses about how rows spread: draws of them, and posteriors that know what is hidden."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.regression.generalised.numerics.frame import Frame
from tacit.regression.generalised.numerics.hypotheses import Hypotheses
from tacit.regression.generalised.numerics.links import Link
from tacit.regression.generalised.numerics.rounds import Round
from tacit.regression.generalised.numerics.spreads import drawn_grams


def symmetric(rng, size, sd=1.0):
    noise = rng.normal(0.0, sd, (size, size))
    return (noise + noise.T) / 2.0


def test_draws_are_those_of_the_posterior():
    """Truths drawn from what is believed lie anywhere among draws (Talts et al. 2018)."""
    rng, trace, apart = np.random.default_rng(0), [], []
    size, largest, rows, draws = 4, 12.0, 36.0, 20
    for _ in range(100):
        tau = largest * 1e-3 ** rng.uniform() / size
        factor = rng.normal(0.0, np.sqrt(tau), (size, size))
        truth = factor @ factor.T
        drawn = drawn_grams(truth + symmetric(rng, size), 1.0, rows, draws, rng)
        trace.append(np.sum(np.trace(drawn, axis1=1, axis2=2) < np.trace(truth)))
        apart.append(np.sum(drawn[:, 0, 1] < truth[0, 1]))
    for ranks in (trace, apart):
        counts = np.histogram(ranks, 5, (0, draws + 1))[0]
        assert np.sum((counts - 20.0) ** 2 / 20.0) < 18.5  # χ² with 4 degrees: 0.1 %


def test_known_directions_are_known_and_hidden_ones_are_not_negative():
    rng = np.random.default_rng(1)
    truth = np.diag([1000.0, 500.0, 2.0, 1.0, 0.5])
    drawn = drawn_grams(truth + symmetric(rng, 5, 3.0), 3.0, 3000.0, 60, rng)
    assert np.linalg.eigvalsh(drawn).min() > 0.0
    np.testing.assert_allclose(drawn[:, 0, 0].std(), 3.0, rtol=0.4)
    assert drawn[:, 2, 2].std() > 0.5


def test_without_noise_there_is_one_answer():
    gram = np.diag([9.0, 4.0])
    assert np.array_equal(drawn_grams(gram, 0.0, 9.0, 3, np.random.default_rng(0)), [gram] * 3)


def test_draws_bear_noise_that_is_far_larger_than_it_should_be():
    rng = np.random.default_rng(4)
    drawn = drawn_grams(symmetric(rng, 4, 4000.0), 1.0, 100.0, 20, rng)
    assert np.all(np.isfinite(drawn)) and np.linalg.eigvalsh(drawn).min() > -1e-6


def made(link, grams, widths=1.0):
    size = grams.shape[1]
    wide = np.concatenate([[1.0], np.full(size - 1, widths)])
    frame = Frame(np.eye(size), np.ones(size), wide, 3000.0, 9.0, 1.0, 1.0)
    return Hypotheses(link, frame, grams, 0.0, 1.5)


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_the_slope_is_that_of_the_gradient(name):
    rng = np.random.default_rng(2)
    rows = np.column_stack([np.ones(50), rng.normal(0.3, 0.8, (50, 2))])
    one = made(Link(name, 1e6 if name == "poisson" else 1.0), np.array([rows.T @ rows] * 2))
    theta = np.array([[0.3, 0.7, -0.5], [0.0, 0.2, 0.4]])
    slope = one.slope(theta)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-5
        there = (one.gradient(theta + step) - one.gradient(theta - step)) / 2e-5
        np.testing.assert_allclose(slope[:, :, k], there, rtol=2e-3, atol=0.05)


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_intervals_hold_where_noise_hides_how_far_rows_spread(name):
    """The noise is as large as what most directions spread by: one estimate of it will not do."""
    link = Link(name, 1e6 if name == "poisson" else 1.0)
    rng, inside, short = np.random.default_rng(3), [], []
    for _ in range(20):
        rows, hidden = 2000.0, rng.uniform(0.01, 0.2, 3)
        gram = rows * np.diag([1.0, *hidden])
        truth = np.append(rng.normal(0.0, 0.3), rng.normal(0.0, 0.8, 3) / np.sqrt(hidden / 0.3))
        seen = gram + symmetric(rng, 4, 200.0)
        for sd, found in ((200.0, inside), (0.0, short)):
            known = seen if sd else seen * 0.0 + np.diag(np.maximum(np.diag(seen), 20.0))
            one = made(link, drawn_grams(known, sd, rows, 48, rng), 1.0 / 3.0)
            own = made(link, gram[None])
            for _ in range(6):
                place = one.place
                told = own.gradient(place[None])[0] - own.gradient(truth[None])[0]
                told = told + rng.normal(0.0, 40.0, 4)
                length = float(own._lengths[0]), 30.0
                one.take(Round(place, 0.0 * place, told, 1600.0, *length, 0.0, 0.0))
            weights, (means, covariances) = one.weights, one.laws
            picked = rng.choice(len(weights), 400, p=weights)
            drawn = [rng.multivariate_normal(means[k], covariances[k]) for k in picked]
            low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
            found += ((low < truth) & (truth < high)).tolist()
    assert np.mean(inside) > 0.84  # of 80, at 0.9
    assert np.mean(short) < np.mean(inside)
