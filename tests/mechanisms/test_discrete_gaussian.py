"""The discrete Gaussian: its ε against sums in high precision, and its coin."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from tacit._core.discrete_gaussian import _acceptance, discrete_gaussian
from tacit._core.rng import WordStream
from tacit.errors import ParameterError
from tacit.mechanisms.discrete_gaussian import DiscreteGaussian
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import DiscreteGaussianDpEvent, NonPrivateDpEvent, repeat
from tacit.privacy.groups import group_event


def true_delta(sigma, moved, epsilon):
    """Σ (P(k − Δ) − e^ε·P(k))₊ in 40 digits."""
    with mpmath.workdps(40):
        s, grown = mpmath.mpf(sigma), mpmath.e ** mpmath.mpf(epsilon)
        reach = int(30 * sigma) + moved + 5

        def weight(k):
            return mpmath.e ** (-(mpmath.mpf(k) ** 2) / (2 * s**2))

        total = mpmath.fsum(weight(k) for k in range(-reach, reach + 1))
        over = (weight(k - moved) - grown * weight(k) for k in range(-reach, reach + moved + 1))
        return float(mpmath.fsum(max(part, 0) for part in over) / total)


@pytest.mark.parametrize(("sigma", "moved"), [(1.1, 2), (4.0, 1), (20.0, 3), (0.3, 1), (1.0, 20)])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_epsilon_is_the_truth_or_barely_above(sigma, moved, delta):
    found = epsilon_of(DiscreteGaussianDpEvent(sigma, moved), delta)
    assert true_delta(sigma, moved, found) <= delta
    assert true_delta(sigma, moved, found * 0.9999) > delta


@pytest.mark.parametrize("sigma", [0.4, 1.7, 30.0])
def test_smaller_moves_cost_less_at_every_epsilon(sigma):
    for epsilon in (0.0, 0.1, 1.0, 5.0):
        found = [true_delta(sigma, moved, epsilon) for moved in (1, 2, 3, 7)]
        assert found == sorted(found)


def test_other_accountants_state_no_less():
    event = repeat(DiscreteGaussianDpEvent(5.0, 2), 10)
    headline = epsilon_of(event, 1e-6)
    for name in ("rdp", "zcdp", "advanced", "basic"):
        assert epsilon_of(event, 1e-6, name) >= headline


def test_a_group_moves_the_numbers_as_far_as_its_members_together():
    event = DiscreteGaussianDpEvent(5.0, 2)
    assert group_event(event, 3, 1e-6) == DiscreteGaussianDpEvent(5.0, 6)
    assert group_event(event, 10**6, 1e-6) == NonPrivateDpEvent()


def test_a_sensitivity_out_of_all_proportion_is_refused():
    with pytest.raises(ParameterError, match="sensitivity"):
        DiscreteGaussian(1.0, 301)


def test_more_numbers_than_there_are_cannot_move():
    with pytest.raises(ParameterError, match="moved"):
        DiscreteGaussian(1.0, 1, 4, (3,))


@pytest.mark.parametrize(("number", "sigma"), [(0, 1.1), (3, 1.1), (-40, 12.5), (9, 0.7)])
def test_the_exact_coin_is_the_probability(number, sigma):
    proposal = int(sigma) + 1
    with mpmath.workdps(60):
        square = mpmath.mpf(sigma) ** 2
        exact = mpmath.e ** (-((abs(number) - square / proposal) ** 2) / (2 * square))
        assert abs(_acceptance(number, sigma, proposal) - exact * 2**128) < 4


def test_close_coins_are_settled_exactly(monkeypatch):
    monkeypatch.setattr("tacit._core.discrete_gaussian._CLOSE", 2.0**64)
    drawn = discrete_gaussian(WordStream(3), 4_000, 2.0)
    assert abs(drawn.std() - 2.0) < 6 * 2.0 / np.sqrt(8_000)
