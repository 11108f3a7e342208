"""Sampling without replacement: its curve against the theorem, real neighbours, refusals."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest

from tacit.errors import NotCertified, ParameterError
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.sampled_fixed import SampledWithoutReplacement
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    ZCDpEvent,
    leaves,
    repeat,
    to_dp_accounting,
)
from tacit.privacy.guarantee import Privacy


def theorem(units, size, noise, epsilon):
    """δ at ln(1 + q·(e^y − 1)) is q·δ(y), solved for y."""
    rate = size / units
    return rate * gaussian.gdp_delta(1 / noise, math.log1p(math.expm1(epsilon) / rate))


@pytest.mark.parametrize(("units", "size"), [(1000, 10), (100, 50), (10**9, 3), (7, 6)])
@pytest.mark.parametrize("noise", [0.4, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_one_step_is_the_theorem_or_barely_above(units, size, noise, delta):
    found = epsilon_of(
        SampledWithoutReplacementDpEvent(units, size, GaussianDpEvent(noise)), delta
    )
    assert theorem(units, size, noise, found) <= delta
    least = found * 0.999 - 1e-6  # a thousandth, or what nobody sees
    assert least <= 0.0 or theorem(units, size, noise, least) > delta


@pytest.mark.parametrize("steps", [1, 30, 10_000])
def test_no_real_neighbour_costs_more(steps):
    """A unit of norm 1 against one of 0 is the Poisson pair in both directions; ±½ is less."""
    stated = epsilon_of(
        repeat(SampledWithoutReplacementDpEvent(100, 3, GaussianDpEvent(1.5)), steps), 1e-6
    )
    one = epsilon_of(repeat(PoissonSampledDpEvent(0.03, GaussianDpEvent(1.5)), steps), 1e-6)
    apart = PoissonSampledDpEvent(0.03, GaussianDpEvent(3.0), REPLACE)
    assert stated >= one * (1 - 1e-6)
    assert stated >= epsilon_of(repeat(apart, steps), 1e-6)
    whole = epsilon_of(repeat(GaussianDpEvent(1.5), steps), 1e-6)
    assert stated < whole


@pytest.mark.parametrize("name", ["rdp", "zcdp", "basic", "advanced"])
def test_other_accountants_state_no_less(name):
    event = repeat(SampledWithoutReplacementDpEvent(200, 4, GaussianDpEvent(1.0)), 40)
    assert epsilon_of(event, 1e-6, name) >= epsilon_of(event, 1e-6)


def test_the_rdp_of_dp_accounting_states_no_less():
    import dp_accounting
    from dp_accounting.rdp import rdp_privacy_accountant

    event = repeat(SampledWithoutReplacementDpEvent(200, 4, GaussianDpEvent(1.0)), 40)
    theirs = rdp_privacy_accountant.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    theirs.compose(to_dp_accounting(event))
    assert epsilon_of(event, 1e-6) <= theirs.get_epsilon(1e-6)


def test_laplace_noise_stays_pure():
    event = SampledWithoutReplacementDpEvent(100, 10, LaplaceDpEvent(1.0))
    assert epsilon_of(event, 0.0) == pytest.approx(math.log1p(0.1 * math.expm1(1.0)), rel=1e-12)


def test_a_sample_of_everybody_is_no_sample():
    event = SampledWithoutReplacementDpEvent(9, 9, GaussianDpEvent(2.0))
    assert leaves(event) == {GaussianDpEvent(2.0): 1}


def test_every_set_is_equally_likely():
    batch = SampledWithoutReplacement(Gaussian(1.0, 1.0, neighbours=REPLACE), 5, 2)
    noise = Noise(seed=4)
    found = Counter(tuple(batch.pick(noise)) for _ in range(6_000))
    assert set(found) == set(itertools.combinations(range(5), 2))
    assert all(abs(count - 600) < 6 * math.sqrt(540) for count in found.values())


def test_a_certificate_for_added_units_refuses_it():
    event = SampledWithoutReplacementDpEvent(100, 10, GaussianDpEvent(2.0))
    with pytest.raises(NotCertified, match="replace-one"):
        Certificate.issue(Privacy(1.0, 1e-6, neighbours=ADD_REMOVE), event)
    stated = Certificate.issue(Privacy(1.0, 1e-6, neighbours=REPLACE), event)
    assert stated.verify().epsilon >= epsilon_of(event, 1e-6)


def test_a_sensitivity_for_adding_is_refused():
    with pytest.raises(ParameterError, match="replace-one"):
        SampledWithoutReplacement(Gaussian(1.0, 1.0), 5, 2)
    with pytest.raises(ParameterError):
        SampledWithoutReplacement(Gaussian(1.0, 1.0, neighbours=REPLACE), 5, 6)


def test_noise_without_a_known_curve_is_refused():
    for event in (ZCDpEvent(0.1), TwoSidedGeometric(1.0).event):
        with pytest.raises(NotCertified, match="without replacement"):
            SampledWithoutReplacementDpEvent(10, 5, event)
