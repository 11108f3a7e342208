"""Standard deviations of shrunk offsets against how far offsets really are from the truth."""

from __future__ import annotations

import numpy as np

from tacit.factorization.answers import mostly_noise
from tacit.factorization.offsets.numerics.shrinkage import (
    shrink,
    shrink_towards,
    shrunk_sd,
    shrunk_towards,
)

RNG = np.random.default_rng(3)
WEIGHTS = RNG.uniform(0.0, 60.0, 400)
TRUE = 0.5 * RNG.standard_normal(400)
WITHIN, NOISE = 0.8, 9.0
SUMS = WEIGHTS * TRUE + np.sqrt(WEIGHTS * WITHIN + NOISE) * RNG.standard_normal(400)


def test_errors_of_shrunk_offsets_are_as_large_as_stated() -> None:
    sd = shrunk_sd(SUMS, WEIGHTS, NOISE, WITHIN)
    far = (shrink(SUMS, WEIGHTS, NOISE, WITHIN) - TRUE) / sd
    assert 0.9 < far.std() < 1.1
    assert 0.85 < np.mean(np.abs(far) < 1.645) < 0.95


def test_covariates_leave_errors_as_large_as_stated() -> None:
    covariates = RNG.standard_normal((400, 2))
    true = TRUE + 0.4 * covariates[:, 0]
    sums = SUMS + WEIGHTS * (true - TRUE)
    mean, sd = shrunk_towards(sums, WEIGHTS, NOISE, WITHIN * WEIGHTS, covariates)
    np.testing.assert_array_equal(
        mean, shrink_towards(sums, WEIGHTS, NOISE, WITHIN * WEIGHTS, covariates)
    )
    assert 0.85 < np.mean(np.abs(mean - true) < 1.645 * sd) < 0.95


def test_what_nobody_saw_is_mostly_noise() -> None:
    weights = np.where(np.arange(400) < 50, 0.0, 60.0)
    sums = weights * TRUE + np.sqrt(weights * WITHIN + NOISE) * RNG.standard_normal(400)
    found = mostly_noise(
        shrink(sums, weights, NOISE, WITHIN), shrunk_sd(sums, weights, NOISE, WITHIN)
    )
    assert set(range(50)) == set(found)
