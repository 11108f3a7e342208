"""Calibration returns the least noise that the accountant confirms."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import ParameterError
from tacit.privacy import calibration
from tacit.privacy.accounting.accountants import ACCOUNTANTS, epsilon_of
from tacit.privacy.amounts import add_amounts, as_exact, float_above, float_below
from tacit.privacy.calibration import (
    calibrate,
    gaussian_event,
    gaussian_noise_multiplier,
    gaussian_sigma,
    laplace_noise_multiplier,
    split_budget,
)
from tacit.privacy.events import REPLACE, GaussianDpEvent, compose, repeat
from tacit.privacy.ledger.filters import run_cost


@pytest.mark.parametrize("name", sorted(ACCOUNTANTS))
def test_the_accountant_confirms_and_a_little_less_noise_fails(name):
    noise = calibrate(lambda s: repeat(GaussianDpEvent(s), 10), 1.0, 1e-5, accountant=name)
    assert epsilon_of(repeat(GaussianDpEvent(noise), 10), 1e-5, name) <= 1.0
    assert epsilon_of(repeat(GaussianDpEvent(noise * 0.999), 10), 1e-5, name) > 1.0


@pytest.mark.parametrize("steps", [20, 40])
def test_a_ledger_admits_what_was_calibrated_although_it_rounds_up(steps):
    """ε lies on a grid of losses there, and may be the target to the last digit."""
    besides = gaussian_event(30.901699437494766, rate=1.0 / 1.2)

    def event(noise):
        return compose([gaussian_event(noise, rate=0.02, steps=steps), besides])

    noise = calibrate(event, 1.0, 1e-5)
    assert run_cost(event(noise), 1e-5, "basic")[0] <= 1


@pytest.mark.parametrize("neighbours", ["add-remove-one", REPLACE])
def test_sampled_noise_meets_its_target(neighbours):
    settings = {"rate": 0.05, "steps": 50, "neighbours": neighbours}
    noise = gaussian_noise_multiplier(1.0, 1e-5, **settings)
    assert 0.995 < epsilon_of(gaussian_event(noise, **settings), 1e-5) <= 1.0


def test_one_step_is_the_analytic_calibration():
    assert gaussian_noise_multiplier(0.7, 1e-6) == pytest.approx(
        gaussian_sigma(0.7, 1e-6), rel=1e-6
    )


@pytest.mark.parametrize("neighbours", ["add-remove-one", REPLACE])
@pytest.mark.parametrize(
    ("rate", "steps", "epsilon", "delta"),
    [(1e-9, 100_000, 3.0, 1e-9), (1e-6, 1000, 1.0, 1e-6), (1e-4, 3, 0.01, 1e-12)],
)
def test_noise_of_rare_samples_is_found_in_few_tries(
    monkeypatch, neighbours, rate, steps, epsilon, delta
):
    """Time is counted in costs that are asked for: none twice, and no more than twenty."""
    asked = []

    def counted(event, *rest):
        asked.append(event)
        return epsilon_of(event, *rest)

    monkeypatch.setattr(calibration, "epsilon_of", counted)
    settings = {"rate": rate, "steps": steps, "neighbours": neighbours}
    noise = gaussian_noise_multiplier(epsilon, delta, **settings)
    assert epsilon_of(gaussian_event(noise, **settings), delta) <= epsilon
    assert epsilon_of(gaussian_event(noise * 0.999, **settings), delta) > epsilon
    assert len(asked) == len(set(asked)) <= 20


def test_any_noise_will_do_where_nobody_is_sampled():
    """1 − (1 − q)^k ≤ δ: the search ends at noise that nobody would call noise."""
    noise = gaussian_noise_multiplier(1.0, 1e-2, rate=1e-6, steps=1000)
    assert noise < 1e-3
    assert epsilon_of(gaussian_event(noise, rate=1e-6, steps=1000), 1e-2) == 0.0


def test_an_unreachable_target_says_so():
    with pytest.raises(ParameterError, match="epsilon"):
        calibrate(GaussianDpEvent, -1.0, 1e-5)
    with pytest.raises(ParameterError, match="delta"):
        gaussian_sigma(1.0, 0.0)


@given(st.floats(1e-6, 1e3))
def test_laplace_noise_costs_exactly_no_more_than_asked(epsilon):
    assert 1 / as_exact(laplace_noise_multiplier(epsilon)) <= as_exact(epsilon)


weights = st.dictionaries(
    st.text(min_size=1, max_size=3), st.floats(0.0, 1e3), min_size=1, max_size=9
)


@given(st.floats(1e-9, 1e3), weights)
def test_parts_of_a_budget_never_exceed_it(total, parts):
    if not any(parts.values()):
        with pytest.raises(ParameterError):
            split_budget(total, parts)
        return
    split = split_budget(total, parts)
    assert sum((as_exact(part) for part in split.values()), Fraction(0)) <= as_exact(total)
    assert sum(split.values()) == pytest.approx(total, rel=1e-9)


def test_bad_splits_are_refused():
    for bad in ({}, {"a": -1.0}, {"a": "x"}):
        with pytest.raises(ParameterError, match=None if bad else "name at least one part"):
            split_budget(1.0, bad)


@given(st.fractions(0, 10))
def test_floats_bracket_a_rational(value):
    assert as_exact(float_below(value)) <= value <= as_exact(float_above(value))


def test_unwieldy_sums_are_rounded_up():
    odd = Fraction(1, (1 << 700) + 1)
    total = add_amounts(Fraction(1, 3), odd)
    assert total >= Fraction(1, 3) + odd
    assert total.denominator <= 10**40
