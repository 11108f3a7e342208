"""How far sums of normal and Laplace errors reach."""

import math

import numpy as np
import pytest
from scipy import stats

from tacit._core.noise_sums import reach, spread


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_one_error_reaches_as_far_as_its_law_says(level):
    assert reach(level, 4.0) == pytest.approx(2.0 * stats.norm.ppf(0.5 + level / 2), rel=2e-3)
    laplace = stats.laplace.ppf(0.5 + level / 2, scale=3.0)
    assert reach(level, 0.0, [3.0]) == pytest.approx(laplace, rel=5e-3)


def test_a_sum_reaches_as_far_as_simulated_ones_do():
    rng = np.random.default_rng(0)
    drawn = rng.normal(0, 2, 400_000) + rng.laplace(0, 1, 400_000) + rng.laplace(0, 3, 400_000)
    assert reach(0.9, 4.0, [1.0, 3.0]) == pytest.approx(np.quantile(np.abs(drawn), 0.9), rel=0.01)
    assert spread(4.0, [1.0, 3.0]) == pytest.approx(drawn.std(), rel=0.01)


def test_no_error_reaches_nowhere():
    assert reach(0.9, 0.0) == 0.0
    assert reach(0.9, 0.0, [0.0]) == 0.0


def test_the_scale_of_errors_does_not_matter():
    assert reach(0.9, 1e-20, [1e-10]) * 1e10 == pytest.approx(reach(0.9, 1.0, [1.0]))
    assert math.isfinite(reach(0.9, 1e200))
