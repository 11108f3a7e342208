"""Standard deviations of shrunk offsets against how far offsets really are from the truth."""

from __future__ import annotations

import numpy as np

from tacit.factorization.answers import mostly_noise
from tacit.factorization.offsets.numerics.shrinkage import (
    denoised_counts,
    shrink_towards,
    shrunk_towards,
)

RNG = np.random.default_rng(3)
WEIGHTS = RNG.uniform(0.0, 60.0, 400)
TRUE = 0.5 * RNG.standard_normal(400)
WITHIN, NOISE = 0.8, 9.0
SUMS = WEIGHTS * TRUE + np.sqrt(WEIGHTS * WITHIN + NOISE) * RNG.standard_normal(400)


def test_covariates_leave_errors_as_large_as_stated() -> None:
    covariates = RNG.standard_normal((400, 2))
    true = TRUE + 0.4 * covariates[:, 0]
    sums = SUMS + WEIGHTS * (true - TRUE)
    mean, sd = shrunk_towards(sums, WEIGHTS, NOISE, WITHIN * WEIGHTS, covariates)
    np.testing.assert_array_equal(
        mean, shrink_towards(sums, WEIGHTS, NOISE, WITHIN * WEIGHTS, covariates)
    )
    assert 0.85 < np.mean(np.abs(mean - true) < 1.645 * sd) < 0.95


def test_columns_are_shrunk_one_by_one() -> None:
    covariates, columns = RNG.standard_normal((400, 2)), np.column_stack([SUMS, 0.1 * SUMS[::-1]])
    together = shrink_towards(columns, WEIGHTS, NOISE, WITHIN * WEIGHTS, covariates)
    for column, found in zip(columns.T, together.T, strict=True):
        alone = shrink_towards(column, WEIGHTS, NOISE, WITHIN * WEIGHTS, covariates)
        np.testing.assert_array_equal(found, alone)


def test_what_nobody_saw_is_mostly_noise() -> None:
    weights = np.where(np.arange(400) < 50, 0.0, 60.0)
    sums = weights * TRUE + np.sqrt(weights * WITHIN + NOISE) * RNG.standard_normal(400)
    known = np.zeros((400, 0))
    found = mostly_noise(*shrunk_towards(sums, weights, NOISE, WITHIN * weights, known))
    assert set(range(50)) == set(found)


def test_counts_behind_noise_are_nearer_to_the_truth_than_what_was_released() -> None:
    truth = np.floor(RNG.pareto(1.0, 2_000) * 5.0)
    for noise in (0.01, 4.0, 400.0):
        noisy = truth + np.sqrt(noise) * RNG.standard_normal(2_000)
        found, logarithms = denoised_counts(noisy, noise)
        small = truth < 8.0 * np.sqrt(noise)
        plain = np.maximum(noisy, 0.0)
        assert np.square(found - truth)[small].sum() <= np.square(plain - truth)[small].sum()
        assert np.abs(found - truth).max() < 6.0 * np.sqrt(noise)
        assert (
            np.square(logarithms - np.log1p(truth)).mean()
            < np.square(np.log1p(plain) - np.log1p(truth)).mean()
        )


def test_counts_without_noise_are_as_they_are() -> None:
    found, logarithms = denoised_counts(np.array([3.0, 0.0]), 0.0)
    np.testing.assert_array_equal(found, [3.0, 0.0])
    np.testing.assert_array_equal(logarithms, np.log1p([3.0, 0.0]))
