"""Some dozens of coefficients: one estimate of how rows spread, and what rounds tell of it."""

from __future__ import annotations

import numpy as np
import pytest

import tacit as tc
from tacit.regression.generalised.learning import SOME
from tacit.regression.generalised.numerics.filtered import Filtered
from tacit.regression.generalised.numerics.frame import Frame
from tacit.regression.generalised.numerics.links import Link
from tacit.regression.generalised.numerics.rounds import Round


def alike(rng, n, d):
    """Features that three traits explain for the most part, and labels that follow the traits."""
    traits = rng.normal(size=(n, 3))
    x = np.tanh(0.3 * traits @ rng.normal(size=(3, d)) + 0.1 * rng.normal(size=(n, d)))
    eta = 3.0 * traits[:, 0] + rng.normal(size=n)
    return x, (eta > 0.0).astype(int)


def log_loss(y, p):
    return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))


@pytest.mark.parametrize("seed", range(3))
def test_predictions_of_thirty_features_are_far_better_than_the_base_rate(seed):
    rng = np.random.default_rng(seed)
    x, y = alike(rng, 1000, SOME + 10)
    names = [f"x{k}" for k in range(x.shape[1])]
    model = tc.PrivateLogisticRegression(
        bounds={name: (-1.0, 1.0) for name in names}, target="y", classes=(0, 1),
        privacy=tc.Privacy(0.5, 1e-6), noise="grid", random_state=seed,
    ).fit({**dict(zip(names, x[:500].T, strict=True)), "y": y[:500]})  # fmt: skip
    found = np.asarray(model.predict_proba(dict(zip(names, x[500:].T, strict=True))))
    probability = found[:, 1] if found.ndim == 2 else found
    assert log_loss(y[500:], probability) < 0.75 * np.log(2.0)


def test_rounds_without_noise_find_the_coefficients():
    link = Link("logistic", 1.0)
    frame = Frame(np.eye(3), np.ones(3), np.ones(3), 1000.0, clip=3.0, kept=1.0, kept_twice=1.0)
    rounds, truth = Filtered(link, frame, 0.0, 3.0, stated=1000.0), np.array([0.5, -1.0, 0.3])
    for _ in range(10):
        place = rounds.place
        gradient = rounds.gradient(place) - rounds.gradient(truth)
        length = np.linalg.norm(place[1:])
        d = np.concatenate([[0.0], place[1:] / length]) if length else np.zeros(3)
        along = 1000.0 * float(frame.spread @ np.square(d))
        rounds.take(Round(place, d, gradient, 9.0, 3000.0, 1.0, along, 1.0))
    np.testing.assert_allclose(rounds.place, truth, atol=0.1)
    assert rounds.rows == pytest.approx(1000.0, rel=0.01)


def test_what_is_known_along_one_direction_leaves_the_length_of_rows():
    link = Link("logistic", 1.0)
    frame = Frame(np.eye(4), np.ones(4), np.ones(4), 500.0, clip=3.0, kept=1.0, kept_twice=1.0)
    rounds = Filtered(link, frame, 0.0, 3.0)
    d = np.array([0.0, 0.6, 0.8, 0.0])
    rounds.take(Round(d, d, np.zeros(4), 1.0, 2000.0, 1.0, 0.5 * 2000.0, 1.0))
    spread = rounds._curvature()
    assert np.trace(spread) == pytest.approx(4.0, rel=1e-6)
    assert d @ spread @ d > 1.9  # half of the length, where it was a quarter
