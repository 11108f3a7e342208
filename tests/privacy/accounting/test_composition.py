"""Composed losses against exact enumeration, convolution in many digits and closed forms."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.accountants import accountant, epsilon_of
from tacit.privacy.accounting.composition import (
    Plan,
    _convolve,
    convolved,
    renyi_delta,
    renyi_epsilon,
)
from tacit.privacy.accounting.losses import grid_losses
from tacit.privacy.calibration import gaussian_event
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    compose,
    repeat,
)


def pure_delta(epsilon, count, level):
    """δ of binary randomized response, taken many times, by the binomial law in 40 digits."""
    with mpmath.workdps(40):
        size, level = mpmath.mpf(epsilon), mpmath.mpf(level)
        odds = mpmath.e**size
        first = max(0, int(mpmath.floor((level / size + count) / 2)))
        term = mpmath.binomial(count, first) * (odds / (1 + odds)) ** first
        term /= (1 + odds) ** (count - first)
        total = mpmath.mpf(0)
        for j in range(first, count + 1):
            loss = (2 * j - count) * size
            total += term * max(0, -mpmath.expm1(level - loss))
            term *= mpmath.mpf(count - j) / (j + 1) * odds
            if term < total * mpmath.mpf(10) ** -30:
                break
        return total


@pytest.mark.parametrize(
    ("epsilon", "count", "delta"),
    [
        (0.001, 100_000, 1e-6),
        (0.001, 100_000, 1e-12),
        (0.5, 30, 1e-5),
        (0.1, 1000, 1e-15),
        (1.0, 3, 1e-4),
        (2.0, 5, 1e-10),
    ],
)
def test_pure_events_follow_the_binomial_law(epsilon, count, delta):
    spent = accountant().add(ApproximateDpEvent(epsilon), count)
    found = spent.epsilon(delta)
    exact = pure_delta(epsilon, count, found)
    assert exact <= delta <= exact * (1 + 1e-3)
    assert exact <= spent.delta(found) <= exact * (1 + 1e-3)


def test_small_pure_losses_are_not_rounded_up():
    """1.37 is right at δ = 1e-6; a grid of 1e-4 made 6.44 of it."""
    event = repeat(ApproximateDpEvent(0.001), 100_000)
    assert epsilon_of(event, 1e-6) == pytest.approx(1.36755, abs=1e-4)


@pytest.mark.parametrize("count", [10**3, 10**6, 10**7])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-5, 0.1])
def test_a_million_steps_cost_no_less_than_they_do(count, delta):
    """k Gaussians of σ = √k are one of σ = 1; the convolution must not know that."""
    bag = ((GaussianDpEvent(math.sqrt(count)), count),)
    exact = gaussian.gdp_to_dp(1.0, delta)
    found = convolved(bag, False, round(-math.log10(delta))).epsilon(delta)
    assert exact <= found <= exact * 1.001
    assert exact <= renyi_epsilon(bag, False, delta)
    assert delta <= renyi_delta(bag, False, exact)


def test_the_transform_agrees_with_a_convolution_in_many_digits():
    """Five steps on a coarse grid: the same masses, convolved with 40 digits."""
    event = PoissonSampledDpEvent(0.2, GaussianDpEvent(1.0))
    grid = grid_losses(event, False, 0.25, 1e-12)
    with mpmath.workdps(40):
        one = [mpmath.mpf(float(mass)) for mass in grid.mass]
        whole = [mpmath.mpf(1)]
        for _ in range(5):
            longer = [mpmath.mpf(0)] * (len(whole) + len(one) - 1)
            for (i, a), (j, b) in itertools.product(enumerate(whole), enumerate(one)):
                longer[i + j] += a * b
            whole = longer
        start = 5 * mpmath.mpf(float(grid.at[0]))
        plan = Plan(order=2.0, step=0.25, low=-2.0, length=1 << 10, tail=1e-12, beyond=4.0)
        curve = _convolve(((event, 5),), False, plan)
        for level in (0.5, 2.0, 6.0):
            exact = 5 * grid.infinite + sum(
                mass * max(0, -mpmath.expm1(level - start - i * mpmath.mpf("0.25")))
                for i, mass in enumerate(whole)
            )
            assert exact * (1 - 1e-12) <= curve.delta(level) <= exact * (1 + 1e-8)


@pytest.mark.parametrize("how", ["add-remove-one", REPLACE])
def test_costs_are_monotone_in_delta_steps_and_noise(how):
    def cost(noise=1.5, steps=300, delta=1e-6):
        return epsilon_of(gaussian_event(noise, rate=0.02, steps=steps, neighbours=how), delta)

    border = 10.0**-6.5  # between two plans
    near = [border * share for share in (0.999, 1 - 1e-9, 1 + 1e-9, 1.001)]
    deltas = sorted([*np.geomspace(1e-8, 1e-5, 25).tolist(), *near])
    assert np.all(np.diff([cost(delta=delta) for delta in deltas]) <= 0.0)
    assert np.all(np.diff([cost(steps=n) for n in range(295, 305)]) >= 0.0)
    assert np.all(np.diff([cost(noise=s) for s in np.linspace(1.5, 1.51, 10)]) <= 0.0)


def test_delta_falls_with_epsilon_and_is_never_negative():
    spent = accountant().add(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 1000)
    found = [spent.delta(level) for level in np.linspace(0.0, 12.0, 40)]
    assert np.all(np.diff(found) <= 0.0)
    assert min(found) >= 0.0


def test_mixtures_contain_their_parts():
    parts = [
        repeat(PoissonSampledDpEvent(0.01, GaussianDpEvent(2.0)), 100),
        repeat(LaplaceDpEvent(20.0), 5),
        GaussianDpEvent(4.0),
        ApproximateDpEvent(0.1, 1e-8),
    ]
    whole = epsilon_of(compose(parts), 1e-6)
    assert max(epsilon_of(part, 1e-6) for part in parts) < whole
    assert whole < sum(epsilon_of(part, 1e-6 / 4) for part in parts)


@pytest.mark.parametrize("count", [10**15, 10**30, 10**400], ids=["e15", "e30", "e400"])
def test_counts_of_any_size_have_an_answer(count):
    for event in (LaplaceDpEvent(1e9), GaussianDpEvent(1e9), ApproximateDpEvent(1e-9, 0.0)):
        for name in ("pld", "rdp", "zcdp", "advanced", "basic"):
            assert accountant(name).add(event, count).epsilon(1e-6) > 0.0
