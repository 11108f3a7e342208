"""Moments that contradict themselves: finite draws or a clear error, whatever the method."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.regression.numerics.moments import Moments, Prior
from tacit.regression.numerics.posterior import METHODS, posterior

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(500, 2))
GOOD = Moments.of(ROWS, ROWS @ [1.0, -1.0] + 0.1 * RNG.normal(size=500))
NOISY = replace(GOOD, gram_sd=1.0, cross_sd=1.0, square_sd=1.0)
CASES = {
    "nothing in S": Moments(np.zeros((2, 2)), np.zeros(2), 10, 0.0),
    "nothing but noise": Moments(np.zeros((2, 2)), np.zeros(2), 10, 0.0, 1.0, 1.0, 1.0),
    "no rows": replace(NOISY, rows=0),
    "fewer than no rows": replace(NOISY, rows=-2000.0, rows_sd=3.0),
    "negative square": replace(NOISY, square=-1e9),
    "negative S": replace(GOOD, gram=-GOOD.gram),
    "negative noisy S": replace(NOISY, gram=-GOOD.gram),
    "collinear": Moments(1e3 * np.ones((2, 2)), 1e3 * np.ones(2), 1e3, 1e3, 1e-3, 1e-3, 1e-3),
    "impossible cross": replace(NOISY, cross=np.full(2, 1e6), cross_sd=1e-6),
    "huge": Moments(1e200 * np.eye(2), np.full(2, 1e200), 10, 1e200, 1.0, 1.0, 1.0),
    "huge noise": replace(GOOD, gram_sd=1e300, cross_sd=1e300, square_sd=1e300),
    "tiny": Moments(1e-300 * np.eye(2), np.zeros(2), 10, 1e-300, 1e-300, 1e-300, 1e-300),
    "lists": Moments([[100.0, 0.0], [0.0, 100.0]], [1.0, 2.0], 100, 10.0, 1.0, 1.0, 1.0),
    "text": Moments(np.full((2, 2), "1"), np.full(2, "1"), 100, 10.0, 1.0, 1.0, 1.0),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_draws_are_finite_or_the_moments_are_refused(method, case):
    try:
        found = posterior([CASES[case]], method, chains=2, draws=20, warmup=20,
                          rng=np.random.default_rng(1))  # fmt: skip
    except ParameterError:
        assert case not in ("nothing but noise", "no rows", "lists")
        return
    assert case not in ("huge", "huge noise", "text")
    assert np.isfinite(found.draws).all()
    assert found.point or (found.noise_variance >= 0.0).all()


@pytest.mark.parametrize("prior", [
    Prior(freedom=1.0), Prior(features=np.eye(3)), Prior(features=-np.eye(2)),
    Prior(features=np.array([[1.0, 2.0], [0.0, 1.0]])),
], ids=["freedom", "shape", "negative", "skew"])  # fmt: skip
def test_a_prior_that_does_not_suit_is_refused(prior):
    with pytest.raises(ParameterError, match=r"prior\."):
        posterior([NOISY], prior=prior)
