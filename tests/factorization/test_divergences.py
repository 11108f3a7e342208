"""β-divergences: their shape, their derivative, and the bounds that updates rest on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ParameterError
from tacit.factorization.divergences import as_power, divergence, majorisation_powers

POWERS = [0.0, 0.3, 0.5, 1.0, 1.2, 1.5, 2.0]
positive = st.floats(1e-3, 1e3)
powers = st.one_of(
    st.sampled_from(POWERS), st.floats(0.0, 2.0).filter(lambda p: abs(p - 1) > 0.01)
)
quick = settings(deadline=None, derandomize=True)


@quick
@given(positive, positive, powers)
def test_a_divergence_is_not_negative(x, y, power):
    size = max(x, y, 1.0) ** (2.0 - power) + max(x, 1.0) * max(y, 1 / y)
    slack = 1e-12 * size / min(1.0, abs(power - 1.0) or 1.0)  # of the cancelling terms
    assert divergence(x, y, power) >= -slack


@pytest.mark.parametrize("power", POWERS)
def test_a_divergence_is_zero_exactly_where_both_sides_agree(power):
    y = np.geomspace(0.01, 100, 21)
    np.testing.assert_allclose(divergence(y, y, power), 0.0, atol=1e-11)
    for factor in (0.9, 1.1):
        assert (divergence(y, factor * y, power) > 1e-6 * y ** (2.0 - power)).all()


@pytest.mark.parametrize("power", POWERS)
def test_the_derivative_is_the_error_over_the_variance(power):
    x = np.linspace(0.5, 4.0, 8)[:, None]
    y, step = np.linspace(0.4, 5.0, 9), 1e-5
    slope = (divergence(x, y + step, power) - divergence(x, y - step, power)) / (2 * step)
    np.testing.assert_allclose(slope, (y - x) * y**-power, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("side", [-1, 1])
def test_the_named_divergences_are_limits_of_their_neighbours(power, side):
    near = power + side * 1e-5
    if not 0.0 <= near <= 2.0:
        near = power - side * 1e-5
    x, y = np.array([0.5, 1.0, 3.0]), np.array([1.5, 1.0, 2.0])
    np.testing.assert_allclose(divergence(x, y, near), divergence(x, y, power), atol=1e-4)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_a_power_very_near_a_named_one_keeps_its_digits(power):
    x, y = np.array([0.5, 1.0, 3.0]), np.array([1.5, 1.0, 2.0])
    near = divergence(x, y, power - 1e-12)
    np.testing.assert_allclose(near, divergence(x, y, power), atol=1e-8)


def test_known_values():
    assert divergence(3.0, 1.0, 0.0) == 2.0
    assert divergence(2.0, 1.0, 1.0) == pytest.approx(2 * np.log(2) - 1)
    assert divergence(2.0, 1.0, 2.0) == pytest.approx(2 - np.log(2) - 1)
    # β = 3/2: x^1.5/0.75 + y^1.5/1.5 − 2·x·√y
    assert divergence(4.0, 1.0, 0.5) == pytest.approx(8 / 0.75 + 1 / 1.5 - 8)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.5])
def test_a_zero_has_a_finite_divergence_below_itakura_saito(power):
    y = np.array([0.1, 2.0])
    np.testing.assert_allclose(divergence(np.zeros(2), y, power), y ** (2 - power) / (2 - power))


# --- majorisation ---------------------------------------------------------------------------


def surrogate(x, q, theta, u, power, exponents):
    """Σ_k θ_k·(A_k·(u_k^s − 1)/s − B_k·(u_k^t − 1)/t): zero at u = 1."""

    def rise(exponent):
        return np.log(u) if exponent == 0.0 else (u**exponent - 1.0) / exponent

    estimate = q @ theta
    above = (q * (estimate ** (1.0 - power))[:, None]).sum(axis=0)
    below = (q * (x * estimate**-power)[:, None]).sum(axis=0)
    s, t = exponents
    return float(theta @ (above * rise(s) - below * rise(t)))


def random_cost(rng):
    cells, rank = rng.integers(1, 5), rng.integers(1, 4)
    return rng.gamma(1.0, 2.0, cells) + 0.01, rng.gamma(1.0, 1.0, (cells, rank)) + 0.01


def change(x, q, theta, u, power):
    after, before = divergence(x, q @ (u * theta), power), divergence(x, q @ theta, power)
    return float((after - before).sum())


@pytest.mark.parametrize("power", POWERS)
def test_the_bound_lies_above_the_cost_and_touches_at_one(power):
    rng = np.random.default_rng(1)
    exponents = majorisation_powers(power)
    for _ in range(300):
        x, q = random_cost(rng)
        theta = rng.gamma(1.0, 1.0, q.shape[1]) + 0.01
        u = np.exp(rng.normal(0.0, rng.choice([0.01, 1.0]), q.shape[1]))
        bound = surrogate(x, q, theta, u, power, exponents)
        assert change(x, q, theta, u, power) <= bound + 1e-9 * (1.0 + abs(bound))
    assert surrogate(x, q, theta, np.ones_like(u), power, exponents) == 0.0


@pytest.mark.parametrize("power", POWERS)
def test_the_bound_has_the_slope_of_the_cost_at_one(power):
    rng = np.random.default_rng(2)
    x, q = random_cost(rng)
    theta, nudge = np.full(q.shape[1], 0.7), 1e-6
    for k in range(q.shape[1]):
        u = np.ones_like(theta)
        u[k] += nudge
        slope = change(x, q, theta, u, power) / nudge
        bound = surrogate(x, q, theta, u, power, majorisation_powers(power)) / nudge
        assert bound == pytest.approx(slope, abs=1e-4 * (1 + abs(slope)))


def test_mixed_powers_are_bounded_by_the_outermost_exponents():
    rng = np.random.default_rng(3)
    for _ in range(400):
        rank = int(rng.integers(1, 4))
        theta = rng.gamma(1.0, 1.0, rank) + 0.01
        u = np.exp(rng.normal(0.0, 1.0, rank))
        mixture = rng.choice(POWERS, int(rng.integers(2, 4)), replace=False)
        pairs = [majorisation_powers(float(p)) for p in mixture]
        outer = max(s for s, _ in pairs), min(t for _, t in pairs)
        true = bound = 0.0
        for power in mixture:
            x, q = rng.gamma(1.0, 2.0, 3) + 0.01, rng.gamma(1.0, 1.0, (3, rank)) + 0.01
            true += change(x, q, theta, u, power)
            bound += surrogate(x, q, theta, u, power, outer)
        assert true <= bound + 1e-9 * (1.0 + abs(bound))


def test_the_exponents_of_the_literature():
    # 1/(s − t): Févotte & Idier (2011), γ(β)
    gamma = {p: 1.0 / np.subtract(*majorisation_powers(p)) for p in (0.0, 0.5, 1.0, 1.5, 2.0)}
    assert gamma == {0.0: 1.0, 0.5: 1.0, 1.0: 1.0, 1.5: pytest.approx(2 / 3), 2.0: 0.5}


# --- names ----------------------------------------------------------------------------------


def test_names_and_numbers_give_p():
    names = ["euclidean", "gaussian", "kl", "poisson", "is", "itakura-saito", "gamma", 0.25]
    assert [as_power(name) for name in names] == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 2.0, 0.25]


@pytest.mark.parametrize("value", ["KL", "", -0.1, 10.1, np.nan, None, True])
def test_other_names_and_numbers_are_refused(value):
    with pytest.raises(ParameterError, match="divergence must be"):
        as_power(value)
