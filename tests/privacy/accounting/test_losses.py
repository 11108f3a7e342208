"""Losses of single events on a grid bound the true hockey sticks from above, and hardly more."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from tacit.privacy.accounting.losses import extent, grid_losses, is_symmetric, sketch
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    DiscreteGaussianDpEvent,
    DiscreteLaplaceDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    ShuffledDpEvent,
)

SAMPLED = [
    PoissonSampledDpEvent(rate, GaussianDpEvent(noise), how)
    for rate, noise in ((0.01, 1.0), (1e-6, 0.3), (1e-6, 1000.0), (0.7, 2.0))
    for how in ("add-remove-one", REPLACE)
]
EVENTS = [
    *SAMPLED,
    GaussianDpEvent(1.0),
    GaussianDpEvent(0.05),
    LaplaceDpEvent(2.0),
    LaplaceDpEvent(0.01),
    PoissonSampledDpEvent(0.3, LaplaceDpEvent(1.5)),
    RandomizedResponseDpEvent(0.5, 4),
    DiscreteLaplaceDpEvent(0.2, 5),
    DiscreteGaussianDpEvent(1.1, 2),
    SampledWithoutReplacementDpEvent(100, 7, GaussianDpEvent(1.2)),
    SampledWithoutReplacementDpEvent(100, 7, LaplaceDpEvent(1.2)),
    DiscreteGaussianDpEvent(3000.0, 1000),
    ApproximateDpEvent(0.5, 1e-6),
]


def hockey_stick(losses, epsilon):
    over = losses.at > epsilon
    return losses.infinite + math.fsum(losses.mass[over] * -np.expm1(epsilon - losses.at[over]))


def gaussian_sampled_delta(event, swapped, epsilon):
    """The hockey stick of a Poisson-sampled Gaussian by integration in 30 digits."""
    q, s = mpmath.mpf(event.sampling_probability), mpmath.mpf(event.event.noise_multiplier)
    away = -1 / s if event.neighbours == REPLACE else None

    def law(z, centre):
        return (1 - q) * mpmath.npdf(z) + (
            q * mpmath.npdf(z - centre) if centre is not None else 0
        )

    def first(z):
        return law(z, 1 / s)

    def second(z):
        return law(z, away) if away is not None else mpmath.npdf(z)

    upper, lower = (second, first) if swapped else (first, second)
    reach = 1 / s + 14
    edges = mpmath.linspace(-reach, reach, 41)
    factor = mpmath.e**epsilon
    # the sign of the integrand changes once: the loss is monotone in z
    border = None
    for low, high in itertools.pairwise(edges):
        ends = [upper(z) - factor * lower(z) for z in (low, high)]
        if ends[0] * ends[1] < 0:
            border = mpmath.findroot(
                lambda z: upper(z) - factor * lower(z), (low, high), solver="illinois"
            )
    inside = [z for z in edges if upper(z) > factor * lower(z)]
    if border is None and not inside:
        return mpmath.mpf(0)
    points = sorted([*inside, border] if border is not None else inside)
    return mpmath.quad(lambda z: upper(z) - factor * lower(z), points)


@pytest.mark.parametrize("event", SAMPLED, ids=repr)
@pytest.mark.parametrize("swapped", [False, True])
def test_sampled_gaussians_are_bounded_tightly_by_integration(event, swapped):
    swapped = swapped and not is_symmetric(event)
    low, high = extent(event, swapped, 1e-15)
    grid = grid_losses(event, swapped, (high - low) / 20_000, 1e-15)
    with mpmath.workdps(30):
        for place in (0.05, 0.2, 0.5):
            level = place * high
            exact = gaussian_sampled_delta(event, swapped, level)
            found = [hockey_stick(losses, level) for losses in (grid, sketch(event, swapped))]
            assert min(found) >= exact * (1 - 1e-14)
            assert min(found) <= exact * (1 + 5e-2) + 1e-15


@pytest.mark.parametrize("event", [*EVENTS, ShuffledDpEvent(1.0, 1000)], ids=repr)
@pytest.mark.parametrize("swapped", [False, True])
def test_masses_are_those_of_two_laws(event, swapped):
    """P and Q have a mass of one each, to the roundings that were moved upwards."""
    swapped = swapped and not is_symmetric(event)
    low, high = extent(event, swapped, 1e-15)
    for losses in (sketch(event, swapped), grid_losses(event, swapped, (high - low) / 999, 1e-15)):
        assert np.all(losses.mass >= 0.0)
        assert np.all(np.diff(losses.at) >= 0.0)
        assert 1 - 1e-15 <= math.fsum(losses.mass) + losses.infinite <= 1 + 1e-11
        other = math.fsum(losses.mass * np.exp(-losses.at))
        assert other <= 1 + 1e-9


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_laplace_noise_has_its_closed_form(scale):
    grid = grid_losses(LaplaceDpEvent(scale), False, 1 / scale / 500, 1e-15)
    for share in (0.0, 0.3, 0.9):
        exact = -math.expm1((share - 1.0) / scale / 2.0)
        assert exact * (1 - 1e-14) <= hockey_stick(grid, share / scale) <= exact * (1 + 1e-3)


def test_a_grid_that_divides_the_losses_is_exact():
    event = RandomizedResponseDpEvent(0.5, 2)
    step = math.log(3.0) / 8
    grid = grid_losses(event, False, step, 1e-15)
    assert hockey_stick(grid, 0.4) == pytest.approx(0.75 - math.exp(0.4) * 0.25, rel=1e-12)
