"""Laws of positive entries against quadrature, also where Bessel functions overflow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special

from tacit.factorization.alone.numerics.positive_laws import Law, _for_large_orders

CASES = [
    (1.0, 1.0, 1.0),
    (0.3, 2.0, 4.0),
    (12.5, 0.3, 0.01),
    (300.0, 0.01, 2.0),
    (400, 0.01, 1e-3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_moments_are_those_of_quadrature(case):
    shape, scale, pull = case
    law = Law(*(np.array([float(part)]) for part in case))
    low = (shape - 1) * scale
    mode = max((low + np.sqrt(low**2 + 4 * pull * scale)) / 2, 1e-3)

    def log_density(theta):
        return (shape - 1) * np.log(theta) - theta / scale - pull / theta

    def integral(of):
        def along(u):
            theta = mode * np.exp(u)
            return of(theta) * theta * np.exp(log_density(theta) - log_density(mode))

        return integrate.quad(along, -12, 6, points=[0.0], limit=500)[0]

    whole = integral(np.ones_like)
    mean = integral(lambda t: t) / whole
    normaliser = np.log(whole) + log_density(mode)
    expected = {
        "mean": mean,
        "log_mean": integral(np.log) / whole,
        "harmonic": whole / integral(lambda t: 1 / t),
        "variance": integral(lambda t: (t - mean) ** 2) / whole,
        "log_normaliser": normaliser,
        "entropy": normaliser - integral(log_density) / whole,
    }
    for name, value in expected.items():
        assert getattr(law, name)[0] == pytest.approx(value, rel=1e-5, abs=1e-6), name


def test_without_a_pull_it_is_a_gamma_law():
    shape, scale = np.array([0.5, 3.0]), np.array([2.0, 0.1])
    gamma, nearly = Law(shape, scale), Law(shape, scale, np.full(2, 1e-24))
    for name in ("mean", "log_mean", "variance", "log_normaliser", "entropy"):
        np.testing.assert_allclose(getattr(gamma, name), getattr(nearly, name), rtol=1e-3)


def test_the_expansion_for_large_orders_meets_the_function():
    order, z = np.array([30.0, 60.0, 90.0]), np.array([1.0, 80.0, 10.0])
    exact = np.log(special.kve(order, z)) - z
    np.testing.assert_allclose(_for_large_orders(order, z), exact, atol=1e-7)
