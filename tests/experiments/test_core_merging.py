"""Bins bound the true δ from below, and closely."""

import mpmath
import pytest

from experiments._core_merging import merged_delta
from experiments.core_oracles import gaussian_delta, sampled_composition, sampled_delta


@pytest.mark.parametrize(("steps", "sigma"), [(1, 1.0), (7, 2.0), (1000, 20.0)])
def test_bins_of_gaussians_stay_below_the_closed_form(steps, sigma):
    bound = merged_delta([(1.0, sigma, steps)], replaced=False)
    exact = gaussian_delta(mpmath.sqrt(steps) / mpmath.mpf(sigma))
    for level in (0.1, 1.0, 4.0):
        assert exact(mpmath.mpf(level)) * (1 - 3e-2) < bound(level) <= exact(mpmath.mpf(level))


def test_bins_of_one_sampled_step_stay_below_the_closed_form():
    bound, exact = merged_delta([(1e-4, 0.5, 1)], replaced=False), sampled_delta(1e-4, 0.5)
    for level in (1e-4, 0.1, 3.0):
        truth = exact(mpmath.mpf(level))
        assert truth * (1 - 1e-3) < bound(level) <= truth * (1 + 1e-12)


@pytest.mark.parametrize("how", ["add-remove-one", "replace-one"])
def test_bins_of_many_steps_agree_with_inverted_moments(how):
    bound = merged_delta([(0.01, 1.0, 100)], replaced=how == "replace-one")
    exact = sampled_composition(0.01, 1.0, 100, how)
    for level in (0.2, 0.6):
        truth = float(exact(level))
        assert truth * (1 - 1e-2) < bound(level) <= truth * (1 + 1e-4)
