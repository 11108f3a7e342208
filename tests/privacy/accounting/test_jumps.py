"""Rarely sampled events cost no less than they do, and hardly more, however heavy the tail."""

import math

import mpmath
import numpy as np
import pytest

from experiments._core_merging import merged_delta
from tacit.privacy.accounting import jumps
from tacit.privacy.accounting.accountants import accountant, epsilon_of
from tacit.privacy.accounting.composition import convolved, sides
from tacit.privacy.accounting.jumps import with_jumps
from tacit.privacy.accounting.losses import split_losses
from tacit.privacy.accounting.pld import clear_caches, ever_sampled
from tacit.privacy.calibration import gaussian_event
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    compose,
    repeat,
)


@pytest.fixture(autouse=True)
def fresh():
    clear_caches()
    yield
    clear_caches()


def judged(event, parts, how, delta):
    """Return whether ε is below the truth, and whether it is more than 1 % and 1e-6 above."""
    found = epsilon_of(event, delta)
    truth = merged_delta(parts, how == REPLACE)
    less = min(found / 1.01, found - 1e-6)
    return truth(found) > delta * (1 + 1e-9), less > 0.0 and truth(less) < delta


@pytest.mark.parametrize("how", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta"),
    [
        (1e-6, 1.0, 10, 1e-12),  # was 26 times the truth
        (1e-6, 1.0, 100_000, 1e-12),  # 24 times
        (1e-6, 0.5, 1000, 1e-9),
        (1e-3, 0.5, 3, 1e-6),
        (1e-2, 1.5, 5, 1e-9),
        (1e-4, 2.0, 3, 1e-15),
    ],
)
def test_rare_samples_cost_what_they_do(rate, sigma, steps, delta, how):
    event = gaussian_event(sigma, rate=rate, steps=steps, neighbours=how)
    assert judged(event, [(rate, sigma, steps)], how, delta) == (False, False)


@pytest.mark.parametrize("how", [ADD_REMOVE, REPLACE])
def test_mixtures_of_rare_and_other_events_cost_what_they_do(how):
    parts = [(1e-5, 0.5, 100), (1e-3, 2.0, 30)]
    events = [gaussian_event(s, rate=q, steps=n, neighbours=how) for q, s, n in parts]
    assert judged(compose(events), parts, how, 1e-9) == (False, False)
    parts = [(1e-6, 0.4, 1000), (1.0, 40.0, 4)]
    event = gaussian_event(0.4, rate=1e-6, steps=1000, neighbours=how)
    event = compose([event, repeat(GaussianDpEvent(40.0), 4)])
    assert judged(event, parts, how, 1e-12) == (False, False)


@pytest.mark.parametrize("steps", [2, 20, 1000])
def test_the_first_order_in_the_rate_is_the_sum_of_single_steps(steps):
    """A unit in two samples, and losses of some q beside a large one, are of second order."""
    rate, sigma, delta = 1e-6, 0.3, 1e-9 * steps / 2
    with mpmath.workdps(40):
        q, mu = mpmath.mpf(rate), 1 / mpmath.mpf(sigma)

        def one(level):
            y = mpmath.log1p(mpmath.expm1(level) / q)
            tail = mpmath.e**y * mpmath.ncdf(-mu / 2 - y / mu)
            return q * (mpmath.ncdf(mu / 2 - y / mu) - tail)

        found = epsilon_of(gaussian_event(sigma, rate=rate, steps=steps), delta)
        assert found > 1.0
        assert 1 - 1e-3 < steps * one(mpmath.mpf(found)) / delta < 1 + 1e-3


BAGS = [
    ((PoissonSampledDpEvent(1e-5, LaplaceDpEvent(0.2)), 50),),
    ((PoissonSampledDpEvent(1e-3, GaussianDpEvent(0.8)), 20),),
    ((PoissonSampledDpEvent(1e-3, GaussianDpEvent(0.8), REPLACE), 20),),
    ((PoissonSampledDpEvent(1e-3, GaussianDpEvent(0.8)), 200),),
    ((SampledWithoutReplacementDpEvent(10**4, 9, GaussianDpEvent(0.8)), 20),),
    ((SampledWithoutReplacementDpEvent(10**4, 9, LaplaceDpEvent(0.4)), 3),),
    (
        (LaplaceDpEvent(50.0), 3),
        (PoissonSampledDpEvent(1e-3, GaussianDpEvent(0.8)), 20),
        (PoissonSampledDpEvent(1e-2, LaplaceDpEvent(1.0)), 4),
    ),
]


@pytest.mark.parametrize("bag", BAGS, ids=repr)
@pytest.mark.parametrize("decade", [3, 6])
def test_jumps_and_plain_convolutions_agree_where_both_hold(bag, decade):
    """At a large δ nothing needs a tilt, and the transform's error is small beside it."""
    for side in sides(bag):
        delta = 10.0**-decade
        plain, split = convolved(bag, side, decade), with_jumps(bag, side, decade)
        for level in (0.3 * plain.epsilon(delta), plain.epsilon(delta)):
            if level > 0.0 and plain.delta(level) < 0.1:
                # both bound one truth from above, closely
                assert split.delta(level) == pytest.approx(plain.delta(level), rel=2e-2)


@pytest.mark.parametrize("leaf", [bag[-1][0] for bag in BAGS], ids=repr)
@pytest.mark.parametrize("swapped", [False, True])
def test_split_losses_are_all_losses(leaf, swapped):
    swapped = swapped and not isinstance(leaf, SampledWithoutReplacementDpEvent)
    swapped = swapped and leaf.neighbours != REPLACE
    low, high = (-0.05, 0.02) if swapped else (-0.02, 0.05)
    small, large = split_losses(leaf, swapped, 1e-4, low, high, 1e-14)
    whole = math.fsum(small.mass) + math.fsum(large.mass) + large.infinite
    assert 1 - 1e-12 <= whole <= 1 + 1e-10
    assert np.allclose(np.diff(small.at), 1e-4, rtol=1e-6)
    if not swapped:
        assert small.at[-1] == pytest.approx(large.at[0], rel=1e-12)
        assert large.infinite <= 2e-14
        assert np.all(np.diff(large.at) > 0.0)


def twin(**changes):
    """Return `_joined` whose jumps were changed on the way in."""
    honest = jumps._joined

    def joined(times, grids):
        less = changes.get("mass", 1.0)
        grids = [
            (plan, [(small, large._replace(mass=less * large.mass)) for small, large in split])
            for plan, split in grids
        ]
        found = honest(times, grids)
        if changes.get("pairs") is False:
            found._infinite = 0.0
        return found

    return joined


def test_a_bound_below_the_truth_is_noticed(monkeypatch):
    """One jump in a hundred forgotten, or two jumps at once where they matter."""
    event, parts = gaussian_event(0.5, rate=1e-3, steps=3), [(1e-3, 0.5, 3)]
    assert judged(event, parts, ADD_REMOVE, 1e-6) == (False, False)
    monkeypatch.setattr(jumps, "_joined", twin(mass=0.99))
    clear_caches()
    assert judged(event, parts, ADD_REMOVE, 1e-6)[0]


def test_two_jumps_that_count_for_nothing_are_noticed(monkeypatch):
    event, parts = gaussian_event(0.4, rate=0.02, steps=4), [(0.02, 0.4, 4)]
    bag, decade = ((PoissonSampledDpEvent(0.02, GaussianDpEvent(0.4)), 4),), 2
    truth = merged_delta(parts, replaced=False)
    monkeypatch.setattr(jumps, "_TWICE", 0.3)
    found = with_jumps(bag, False, decade).epsilon(1e-2)
    assert truth(found) <= 1e-2
    monkeypatch.setattr(jumps, "_joined", twin(pairs=False))
    clear_caches()
    found = with_jumps(bag, False, decade).epsilon(1e-2)
    assert truth(found) > 1e-2
    assert epsilon_of(event, 1e-2) > 0.0


@pytest.mark.parametrize("how", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(("rate", "noise", "steps"), [(1e-4, 0.8, 40), (1e-6, 0.5, 5000)])
def test_rare_costs_are_monotone_in_delta_steps_and_noise(rate, noise, steps, how):
    def cost(noise=noise, steps=steps, delta=1e-9):
        return epsilon_of(gaussian_event(noise, rate=rate, steps=steps, neighbours=how), delta)

    border = 10.0**-9.5
    near = [border * share for share in (0.999, 1 - 1e-9, 1 + 1e-9, 1.001)]
    deltas = sorted([*np.geomspace(1e-12, 1e-6, 25).tolist(), *near])
    assert np.all(np.diff([cost(delta=delta) for delta in deltas]) <= 0.0)
    more = [steps + i * max(steps // 500, 1) for i in range(6)]
    assert np.all(np.diff([cost(steps=n) for n in more]) >= 0.0)
    assert np.all(np.diff([cost(noise=noise * (1 + 0.002 * i)) for i in range(6)]) <= 0.0)


def test_delta_falls_with_epsilon_and_inverts_it():
    spent = accountant().add(PoissonSampledDpEvent(1e-6, GaussianDpEvent(0.6)), 1000)
    found = [spent.delta(level) for level in np.geomspace(1e-6, 5.0, 30)]
    assert np.all(np.diff(found) <= 0.0)
    assert min(found) > 0.0
    for delta in (1e-12, 1e-8):
        assert spent.delta(spent.epsilon(delta)) == pytest.approx(delta, rel=1e-2)


@pytest.mark.parametrize("noise", [1e-6, 0.01, 1.0])
def test_nobody_pays_for_a_sample_that_hardly_ever_holds_them(noise):
    event = gaussian_event(noise, rate=1e-6, steps=1000)
    assert ever_sampled({PoissonSampledDpEvent(1e-6, GaussianDpEvent(noise)): 1000}) < 1e-3
    assert epsilon_of(event, 1e-3) == 0.0
    assert accountant().add(event).delta(0.0) <= 1e-3
    assert ever_sampled({GaussianDpEvent(1.0): 1}) == 1.0


@pytest.mark.parametrize(("rate", "sigma"), [(1e-6, 0.3), (1e-3, 1.0), (0.3, 2.0), (1e-4, 20.0)])
def test_one_replaced_sample_has_its_closed_form(rate, sigma):
    spent = accountant().add(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma), REPLACE))
    with mpmath.workdps(40):
        q, mu = mpmath.mpf(rate), 1 / mpmath.mpf(sigma)
        for level in (0.0, 1e-5, 0.01, 1.0, 8.0):
            half = mpmath.mpf(level) / 2
            odds = (1 - q) / q * mpmath.e ** (mu * mu / 2)
            z = (half + mpmath.asinh(odds * mpmath.sinh(half))) / mu
            exact = q * mpmath.ncdf(mu - z) - q * mpmath.e ** (2 * half) * mpmath.ncdf(-z - mu)
            exact -= (1 - q) * mpmath.expm1(2 * half) * mpmath.ncdf(-z)
            assert exact - 1e-300 <= spent.delta(level) <= exact * (1 + 1e-8) + 1e-300
