"""The privacy of every mechanism at its own ε, and the broken twins that the test must catch.

For neighbours x, x' and the (ε, δ) that the accountant gives the mechanism's event, no set S may
have P(S) > e^ε·P'(S) + δ. The sets that come closest are {likelihood ratio ≥ t}. Each is tried
with Clopper–Pearson bounds on both probabilities; a sound mechanism fails one comparison with
probability below 2·`ALARM`, all of them together below 1e-6.
"""

from __future__ import annotations

import dataclasses
import math
from functools import singledispatch

import numpy as np
import pytest
from scipy import stats

from tacit.errors import BudgetExceeded
from tacit.mechanisms.above_threshold import AboveThreshold
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.base import privatize
from tacit.mechanisms.clipping import clip_rows
from tacit.mechanisms.discrete_gaussian import DiscreteGaussian
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.hybrid import Hybrid
from tacit.mechanisms.item_responses import ItemResponses
from tacit.mechanisms.knorm import KNorm
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.one_bit import OneBitMean
from tacit.mechanisms.piecewise import Piecewise
from tacit.mechanisms.quantiles import Quantiles
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.sampled import PoissonSampled
from tacit.mechanisms.sampled_fixed import SampledWithoutReplacement
from tacit.mechanisms.shuffled import Shuffled
from tacit.mechanisms.smooth_quantile import SmoothQuantile
from tacit.mechanisms.stable_histogram import StableHistogram
from tacit.mechanisms.top import NoisyTop
from tacit.privacy.accounting.accountants import epsilon_of

from .examples import EXAMPLES, one_by_one
from .support import CountedNoise, empty_ledger, rich_ledger

# 2 directions × 7 sets × about 30 tests × 2·ALARM < 1e-6
ALARM = 1e-9
CUTS = (1.0, 0.95, 0.8, 0.6, 0.45, 0.3, 0.0)

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)


# --- the test -------------------------------------------------------------------------------


def lower_bound(hits, count):
    """Clopper–Pearson: the probability is at least this, except with probability ALARM."""
    return stats.beta.ppf(ALARM, hits, count - hits + 1) if hits else 0.0


def upper_bound(hits, count):
    return stats.beta.isf(ALARM, hits + 1, count - hits) if hits < count else 1.0


def worst_violation(ratio, ratio_neighbour, epsilon, delta):
    """Return the largest proven excess of P(S) over e^ε·P'(S) + δ, over S = {log ratio ≥ t}.

    Parameters
    ----------
    ratio, ratio_neighbour
        log p/p' of releases from the value and from its neighbour.
    """
    excess = -math.inf
    for cut in CUTS:
        threshold = cut * epsilon - 1e-9
        hits, hits_neighbour = (ratio >= threshold).sum(), (ratio_neighbour >= threshold).sum()
        low = lower_bound(hits, ratio.size)
        high = upper_bound(hits_neighbour, ratio_neighbour.size)
        excess = max(excess, low - math.exp(epsilon) * high - delta)
    return excess


def releases(example, mechanism, value, count, noise, sample):
    """Draw many releases of one input; a sampled unit is there with its probability only."""
    if example.sampling_rate == 1.0:
        return sample(mechanism, value, count, noise)
    present = np.random.default_rng(5).binomial(count, example.sampling_rate)
    with_unit = sample(mechanism, value, present, noise)
    without = sample(mechanism, np.zeros_like(value), count - present, noise)
    return np.concatenate([with_unit, without])


def privacy_violation(
    example, mechanism, count, noise, *, sample=None, value=None, neighbour=None
):
    """Return the proven excess of a mechanism over the ε of the *example's* event.

    The sets are those of the example's exact law, whatever is really drawn and on what.
    """
    epsilon = epsilon_of(example.mechanism.event, example.delta)
    inputs = (
        example.value if value is None else value,
        example.neighbour if neighbour is None else neighbour,
    )
    here, there = (
        releases(example, mechanism, given, count, noise, sample or example.sample)
        for given in inputs
    )
    here, there = (
        example.log_density(example.value, drawn) - example.log_density(example.neighbour, drawn)
        for drawn in (here, there)
    )
    return max(
        worst_violation(here, there, epsilon, example.delta),
        worst_violation(-there, -here, epsilon, example.delta),
    )


@every_example
def test_mechanism_is_as_private_as_its_event_says(example):
    noise = example.noise(seed=None)
    assert privacy_violation(example, example.mechanism, example.privacy_draws, noise) <= 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if e.privacy_draws < 10**5], ids=lambda example: example.name
)
def test_mechanism_is_as_private_as_its_event_says_in_many_draws(example):
    assert privacy_violation(example, example.mechanism, 100_000, Noise("grid")) <= 0


def test_ratio_sets_are_tight():
    """At its own ε a Laplace release nearly reaches the bound, so the test has power."""
    example = next(e for e in EXAMPLES if e.name == "laplace")
    epsilon = epsilon_of(example.mechanism.event, 0.0)
    here, there = (
        example.sample(example.mechanism, value, 400_000, Noise("grid", seed=1))
        for value in (example.value, example.neighbour)
    )
    inside = (np.mean(outputs[:, 0] <= example.value) for outputs in (here, there))
    low, high = sorted(inside)
    assert math.log(high / low) == pytest.approx(epsilon, rel=0.02)


# --- negative control: half the noise ----------------------------------------------------------


@singledispatch
def half_the_noise(mechanism):
    """Return a mechanism with half the noise; its example keeps the event of the whole one."""
    raise AssertionError(
        f"{type(mechanism).__name__} has no broken twin: register one with half_the_noise"
    )


@half_the_noise.register(DiscreteGaussian)
@half_the_noise.register(GridMechanism)
def _(mechanism):
    return dataclasses.replace(mechanism, scale=mechanism.scale / 2)


@half_the_noise.register(PoissonSampled)
@half_the_noise.register(SampledWithoutReplacement)
def _(mechanism):
    return dataclasses.replace(mechanism, mechanism=half_the_noise(mechanism.mechanism))


@half_the_noise.register(TwoSidedGeometric)
@half_the_noise.register(RandomizedResponse)
@half_the_noise.register(OneBitMean)
@half_the_noise.register(Piecewise)
@half_the_noise.register(Hybrid)
@half_the_noise.register(Exponential)
@half_the_noise.register(AboveThreshold)
@half_the_noise.register(NoisyTop)
@half_the_noise.register(Quantiles)
@half_the_noise.register(StableHistogram)
def _(mechanism):
    return dataclasses.replace(mechanism, epsilon=2 * mechanism.epsilon)


@half_the_noise.register
def _(mechanism: Shuffled):
    return dataclasses.replace(mechanism, inner=half_the_noise(mechanism.inner))


@half_the_noise.register
def _(mechanism: ItemResponses):
    return dataclasses.replace(
        mechanism, bit_epsilon=2 * mechanism.bit_epsilon, scale=mechanism.scale / 2
    )


class HalfSmooth(SmoothQuantile):
    """Smooth-sensitivity noise that forgets the factor 2."""

    def draw_many(self, value, count, noise):
        centre, scale = self.statistic(value)
        return centre + noise.laplace(count, scale / 2 * 2.0**30).reshape(count, 1) / 2.0**30


@half_the_noise.register
def _(mechanism: SmoothQuantile):
    return HalfSmooth(**dataclasses.asdict(mechanism))


def sign_log_density(value, outputs):
    """The sign of ±B, weighed by the value: the order of the likelihood ratio whatever B is."""
    return np.sign(outputs[:, 0]) * np.ravel(value)[0] * 10


@every_example
def test_half_the_noise_is_caught(example):
    broken, sample = half_the_noise(example.mechanism), example.sample
    if isinstance(broken, HalfSmooth):
        sample = HalfSmooth.draw_many
    if isinstance(broken, OneBitMean):
        # the twin's B is another number, which would give it away at once: compare signs only
        example = dataclasses.replace(example, log_density=sign_log_density)
    noise = Noise("grid", seed=2)
    assert privacy_violation(example, broken, example.control_draws, noise, sample=sample) > 0


# --- negative control: clipping off by two -------------------------------------------------------

CLIP = 1.0
CLIPPED = {
    "gaussian": (Gaussian(1.3, CLIP, (3,)), 2),
    "laplace": (Laplace(0.7, CLIP, (3,)), 1),
    "k-norm": (KNorm(0.7, CLIP, (3,)), 2),
}


def clipped_sum(rows, mechanism, clip, order):
    """What an estimator does: clip each unit's row, round it to the grid, add."""
    return mechanism.grid.sum(clip_rows(rows, clip, order=order))


def clipping_violation(name, clip):
    """Test the release of a clipped sum with and without one very large unit."""
    mechanism, order = CLIPPED[name]
    rows = np.array([[0.1, 0.2, -0.3], [40.0, 0.0, 0.0], [-0.2, 0.1, 0.0]])
    with_unit, without = (
        clipped_sum(data, mechanism, clip, order) for data in (rows, np.delete(rows, 1, axis=0))
    )
    example = next(e for e in EXAMPLES if type(e.mechanism) is type(mechanism) and e.shape == (3,))
    # the likelihood ratio of an honestly clipped pair decides the sets
    example = dataclasses.replace(
        example,
        mechanism=mechanism,
        value=without.value() + np.array([CLIP, 0.0, 0.0]),
        neighbour=without.value(),
    )
    count = 2_000 if name == "k-norm" else 10_000
    return privacy_violation(
        example, mechanism, count, Noise("grid", seed=4), sample=one_by_one, value=with_unit,
        neighbour=without,
    )  # fmt: skip


@pytest.mark.parametrize("name", CLIPPED)
def test_a_clipped_sum_is_as_private_as_its_event_says(name):
    assert clipping_violation(name, CLIP) <= 0


@pytest.mark.parametrize("name", CLIPPED)
def test_clipping_off_by_two_is_caught(name):
    assert clipping_violation(name, 2 * CLIP) > 0


# --- negative control: charge after draw -----------------------------------------------------


def careless_privatize(mechanism, value, *, ledger, rng, purpose="release", delta=None):
    """Draws first and charges second."""
    mechanism.check(value)
    released = mechanism.draw(value, rng)
    ledger.charge(mechanism.event, purpose=purpose, delta=delta)
    return released


def forgiving_privatize(mechanism, value, *, ledger, rng, purpose="release", delta=None):
    """Charges first, but releases although it was refused."""
    try:
        return privatize(mechanism, value, ledger=ledger, rng=rng, purpose=purpose, delta=delta)
    except BudgetExceeded:
        return mechanism.draw(value, rng)


def leaks_when_refused(gate, example):
    """Whether a gate draws randomness or produces a value although the ledger refused."""
    noise = CountedNoise("grid", seed=6)
    delta = example.delta or 1e-6
    try:
        ledger = empty_ledger(example.mechanism)
        gate(example.mechanism, example.value, ledger=ledger, rng=noise, delta=delta)
    except BudgetExceeded:
        return noise.asked > 0
    return True


@every_example
def test_a_refusal_releases_nothing(example):
    assert not leaks_when_refused(privatize, example)


@every_example
@pytest.mark.parametrize("gate", [careless_privatize, forgiving_privatize])
def test_charge_after_draw_is_caught(gate, example):
    assert leaks_when_refused(gate, example)


def order_of_events(gate, example):
    """Return "charge" and "draw" in the order in which a gate does them."""
    seen = []

    class Watched(type(example.mechanism)):
        def draw(self, value, noise):
            seen.append("draw")
            return super().draw(value, noise)

    fields = {
        field.name: getattr(example.mechanism, field.name)
        for field in dataclasses.fields(example.mechanism)
    }
    ledger = rich_ledger(example.mechanism)
    charge = ledger.charge
    ledger.charge = lambda *a, **k: (seen.append("charge"), charge(*a, **k))[1]
    gate(
        Watched(**fields), example.value, ledger=ledger, rng=Noise("grid", seed=7),
        delta=example.delta or 1e-6,
    )  # fmt: skip
    return seen


@every_example
def test_spend_first_draw_second(example):
    assert order_of_events(privatize, example) == ["charge", "draw"]
    assert order_of_events(careless_privatize, example) == ["draw", "charge"]
