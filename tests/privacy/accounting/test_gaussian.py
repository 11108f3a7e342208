"""Closed forms of the Gaussian mechanism against high precision, and conversions both ways."""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import NotCertified, ParameterError
from tacit.privacy.accounting import gaussian
from tacit.privacy.calibration import gaussian_sigma

EPSILONS = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0]
DELTAS = [1e-10, 1e-8, 1e-6, 1e-4, 1e-2]


def exact_delta(sigma, epsilon):
    """Balle & Wang (2018), theorem 8, with 60 digits."""
    with mpmath.workdps(60):
        sigma, epsilon = mpmath.mpf(sigma), mpmath.mpf(epsilon)
        a = 1 / (2 * sigma) - epsilon * sigma
        b = -1 / (2 * sigma) - epsilon * sigma
        return mpmath.ncdf(a) - mpmath.exp(epsilon) * mpmath.ncdf(b)


def exact_sigma(epsilon, delta):
    low, high = mpmath.mpf("1e-3"), mpmath.mpf("1e6")
    with mpmath.workdps(60):
        for _ in range(120):
            middle = mpmath.sqrt(low * high)
            low, high = (low, middle) if exact_delta(middle, epsilon) <= delta else (middle, high)
    return float(high)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_analytic_sigma_agrees_with_a_high_precision_oracle(epsilon, delta):
    sigma = gaussian_sigma(epsilon, delta)
    assert sigma == pytest.approx(exact_sigma(epsilon, delta), rel=1e-6)
    assert exact_delta(sigma, epsilon) <= delta  # and it errs on the safe side


def test_sigma_at_epsilon_one_is_3_19_not_1_487():
    assert round(gaussian_sigma(1.0, 1e-4), 2) == 3.19


def test_hardly_any_noise_is_bounded_by_chernoff():
    mu = 2e6  # P(Z > ε/μ − μ/2) ≤ exp(−(ε/μ − μ/2)²/2) = δ
    expected = mu**2 / 2 + mu * math.sqrt(2 * math.log(1e5))
    assert gaussian.gdp_to_dp(mu, 1e-5) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 0.5, 2.0, 15.0])
def test_gdp_delta_keeps_its_digits_in_the_tail(mu, epsilon):
    exact = float(exact_delta(1 / mu, epsilon))
    if exact > 1e-290:
        assert gaussian.gdp_delta(mu, epsilon) == pytest.approx(exact, rel=1e-9)


@given(st.floats(0.01, 10), st.floats(1e-9, 1e-2))
def test_gdp_round_trip(epsilon, delta):
    mu = gaussian.dp_to_gdp(epsilon, delta)
    assert gaussian.gdp_to_dp(mu, delta) == pytest.approx(epsilon, rel=1e-8)


@given(st.floats(0.05, 10), st.floats(1e-9, 1e-2))
def test_zcdp_round_trip(epsilon, delta):
    rho = gaussian.dp_to_zcdp(epsilon, delta)
    assert gaussian.zcdp_to_dp(rho, delta) == pytest.approx(epsilon, rel=1e-6)
    assert gaussian.zcdp_to_dp(rho, delta) <= epsilon


@given(st.floats(0.001, 5), st.floats(1e-9, 1e-2))
def test_zcdp_conversion_beats_the_simple_formula_and_covers_the_gaussian(mu, delta):
    rho = gaussian.gdp_to_zcdp(mu)
    converted = gaussian.zcdp_to_dp(rho, delta)
    assert converted <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12
    assert converted >= gaussian.gdp_to_dp(mu, delta) - 1e-9


@given(st.floats(0.01, 8))
def test_pure_privacy_is_dominated_by_its_gaussian(epsilon):
    """Randomized response at ε has hockey-stick (e^ε − e^t)/(1 + e^ε) at level t."""
    mu = gaussian.pure_to_gdp(epsilon)
    for share in (0.0, 0.25, 0.5, 0.75, 0.99):
        level = share * epsilon
        exact = (math.exp(epsilon) - math.exp(level)) / (1 + math.exp(epsilon))
        assert gaussian.gdp_delta(mu, level) >= exact - 1e-12


@pytest.mark.parametrize("bad", [0.0, 1.0, -1e-3, math.nan, "x"])
def test_bad_delta_is_refused(bad):
    with pytest.raises(ParameterError, match="delta"):
        gaussian.gdp_to_dp(1.0, bad)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-30, 1.0, 1e300])
@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-100, 0.999999])
def test_numbers_at_the_edge_of_their_range_are_answered(epsilon, delta):
    """1/δ overflows there, and a search from infinity does not end."""
    assert gaussian.dp_to_gdp(epsilon, delta) > 0.0
    assert gaussian.gdp_to_dp(epsilon, delta) >= 0.0


def test_a_search_from_nowhere_is_refused():
    for low, high in ((0.0, 1.0), (math.inf, math.inf), (2.0, 1.0), (math.nan, 1.0)):
        with pytest.raises(NotCertified, match="no search can begin"):
            gaussian.solve_decreasing(lambda x: 1.0 / x, 0.5, low, high)


@pytest.mark.parametrize("jump", [False, True])
def test_a_search_looks_at_no_place_twice(jump):
    asked = []

    def falling(x):
        asked.append(x)
        return 5.0 / x + (1.0 if jump and x < 3.7 else 0.0)

    found = gaussian.solve_decreasing(falling, 2.0, 0.5, 1.0, tolerance=1e-7)
    assert falling(found) <= 2.0 < falling(found * (1 - 1e-5))
    assert len(asked) - 2 == len(set(asked[:-2]))


def test_a_search_that_finds_nought_early_goes_no_further():
    asked = []

    def nothing(x):
        asked.append(x)
        return 0.0

    assert gaussian.solve_decreasing(nothing, 1.0, 0.5, 1.0, enough=1e-3) <= 1e-3
    assert len(asked) < 10
    assert gaussian.solve_decreasing(nothing, 1.0, 0.5, 1.0) == 1e-300
