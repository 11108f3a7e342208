"""Populations, priors and statistics: laws, compiled twins, ranges, names."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.populations.laws import (
    Bernoulli,
    CustomPopulation,
    Exponential,
    NormalMean,
    NormalVariance,
    Poisson,
    UniformWidth,
    transform,
)
from tacit.posterior.numerics.priors import Beta, Gamma, InverseGamma, Normal, Uniform
from tacit.posterior.numerics.statistics import Custom, OrderStatistic, Power, as_statistic, power

LAWS = [
    (NormalMean(2.0), 1.5, lambda t: stats.norm(t, 2.0)),
    (NormalVariance(), 2.5, lambda t: stats.norm(0, math.sqrt(t))),
    (UniformWidth(), 3.0, lambda t: stats.uniform(-t, 2 * t)),
    (Bernoulli(), 0.3, lambda t: stats.bernoulli(t)),
    (Exponential(), 2.0, lambda t: stats.expon(scale=t)),
    (Poisson(), 3.7, lambda t: stats.poisson(t)),
]
IDS = [type(law[0]).__name__ for law in LAWS]


@pytest.mark.parametrize(("population", "theta", "law"), LAWS, ids=IDS)
def test_simulators_have_the_law_they_claim(population, theta, law):
    x = population.simulate(np.array([theta]), generator(1).standard_normal(20_000))
    if population.code in (3, 5):
        k = np.arange(40)
        seen = np.bincount(x.astype(int), minlength=40)[:40]
        expected = law(theta).pmf(k) * len(x)
        big = expected > 5
        assert stats.chisquare(seen[big], expected[big] * seen[big].sum() /
                               expected[big].sum()).pvalue > 1e-4  # fmt: skip
    else:
        assert stats.kstest(x, law(theta).cdf).pvalue > 1e-4


@pytest.mark.parametrize(("population", "theta", "law"), LAWS, ids=IDS)
def test_compiled_simulators_are_the_plain_ones(population, theta, law):
    z = generator(2).standard_normal(500)
    plain = population.simulate(np.array([theta]), z)
    one = [transform(population.code, float(population.constant), theta, v, 1e9) for v in z]
    np.testing.assert_allclose(one, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("population", "theta", "law"), LAWS, ids=IDS)
def test_densities_scores_and_nodes(population, theta, law):
    at = np.array([theta])
    frozen = law(theta)
    points = np.array([0.0, 1.0]) if population.code == 3 else np.array([0.0, 1.0, 2.0])
    log = frozen.logpmf if population.code in (3, 5) else frozen.logpdf
    np.testing.assert_allclose(population.log_density(points, at), log(points), atol=1e-10)
    if population.code != 2:
        numeric = super(type(population), population).score(points, at)
        np.testing.assert_allclose(population.score(points, at), numeric, rtol=1e-6, atol=1e-8)
    low, high = (0.0, 1.0) if population.code == 3 else (-1.0, 4.0)
    x, weights = population.nodes(at, (low, high))
    assert weights.sum() == pytest.approx(1.0, abs=1e-10)
    assert x.min() >= low and x.max() <= high


@pytest.mark.parametrize(
    ("prior", "law"),
    [
        (Uniform(1.0, 3.0), stats.uniform(1, 2)),
        (Normal(1.0, 2.0), stats.norm(1, 2)),
        (Gamma(2.0, 1.5), stats.gamma(2, scale=1.5)),
        (InverseGamma(3.0, 2.0), stats.invgamma(3, scale=2)),
        (Beta(2.0, 3.0), stats.beta(2, 3)),
    ],
)
def test_priors(prior, law):
    levels = np.array([0.01, 0.3, 0.9])
    np.testing.assert_allclose(prior.quantile(levels), law.ppf(levels), rtol=1e-9)
    a, b = law.ppf(0.3), law.ppf(0.7)
    assert prior.log_density(a) - prior.log_density(b) == pytest.approx(
        law.logpdf(a) - law.logpdf(b)
    )
    assert prior.mean == pytest.approx(law.mean())
    assert prior.variance == pytest.approx(law.var())
    for bad in (-1.0, 0.0):
        with pytest.raises(ParameterError):
            type(prior)(5.0, bad)


def test_names_of_statistics():
    assert as_statistic("mean") == Power(1.0, absolute=False)
    assert as_statistic("|x|^0.5") == Power(0.5)
    assert as_statistic("x^3") == Power(3.0, absolute=False)
    assert as_statistic("maximum") == OrderStatistic(1.0)
    assert as_statistic("median |x|") == OrderStatistic(0.5, Power(1.0))
    for name in ("mean", "|x|^0.5", "x^3", "maximum |x|", "quantile 0.9 |x|"):
        again = as_statistic(name).name
        assert as_statistic(again) == as_statistic(name)
    for bad in ("nonsense", "quantile x", 3, None, "x^0.5", "median of"):
        with pytest.raises(ParameterError):
            as_statistic(bad)


@given(st.floats(0.1, 4.0), st.booleans(), st.floats(-9, 9), st.floats(0.1, 8), st.floats(-20, 20))
def test_powers_stay_in_their_range(exponent, absolute, low, width, x):
    exponent = exponent if absolute else float(max(1, round(exponent)))
    statistic = Power(exponent, absolute)
    bounds = (low, low + width)
    a, b = statistic.range(bounds)
    s = statistic.values([x, np.nan, np.inf], bounds)
    assert np.isfinite(s).all() and (s >= a).all() and (s <= b).all()
    clipped = float(np.clip(x, *bounds))
    assert statistic.evaluate(np.array([clipped]))[0, 0] == pytest.approx(
        power(int(absolute), exponent, clipped), rel=1e-12, abs=1e-300
    )


def test_a_statistic_outside_its_declared_bounds_is_refused_without_data():
    square = Custom(lambda x: x**2, (0.0, 50.0), "square")
    with pytest.raises(ParameterError, match=r"square leaves its declared bounds \[0, 50\]"):
        square.check_range((-10.0, 10.0))
    square.check_range((-7.0, 7.0))
    with pytest.raises(ParameterError, match="2 number"):
        Custom(lambda x: x, [(0, 1), (0, 1)]).evaluate(np.zeros(3))
    assert square.values([100.0], (-10.0, 10.0))[0, 0] == 50.0  # clipped, silently


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ParameterError, match="hold 0 and 1"):
        Bernoulli().check_bounds((0.0, 0.5))
    with pytest.raises(ParameterError, match="CustomPopulation"):
        Poisson().check_bounds((0.0, 1e6))
    with pytest.raises(ParameterError, match="prior must be given"):
        CustomPopulation(lambda theta, z: z).default_prior((0.0, 1.0))
    with pytest.raises(ParameterError, match="one number for each z"):
        CustomPopulation(lambda theta, z: 1.0).simulate(np.ones(1), np.zeros(3))
    with pytest.raises(ParameterError, match="density must be given"):
        CustomPopulation(lambda theta, z: z).log_density(np.zeros(3), np.ones(1))
    with pytest.raises(ParameterError, match="smooth noise"):
        NoisyStatistic(OrderStatistic(), (0, 1), 5, NoiseLaw("laplace", 1.0), [0.5])
    with pytest.raises(ParameterError, match="finite"):
        NoisyStatistic(Power(), (0, 1), 5, NoiseLaw("laplace", 1.0), [np.nan])
    with pytest.raises(ParameterError, match="local=True"):
        NoisyStatistic(Power(), (0, 1), 5, NoiseLaw("response", 0.7), [0.5])
