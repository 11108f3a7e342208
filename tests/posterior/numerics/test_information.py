"""Fisher information of a release: closed forms, quadrature and Monte Carlo agree."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.posterior.numerics.information import information
from tacit.posterior.numerics.likelihood import moments
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic, normal_laplace
from tacit.posterior.numerics.populations.laws import (
    Bernoulli,
    CustomPopulation,
    Exponential,
    NormalMean,
    NormalVariance,
    Poisson,
    UniformWidth,
)
from tacit.posterior.numerics.statistics import Custom, OrderStatistic, Power

WIDE = (-80.0, 80.0)
CASES = [
    (NormalMean(), 4.0, (0.0, 10.0)),
    (NormalVariance(), 2.0, (-10.0, 10.0)),
    (UniformWidth(), 3.0, (-10.0, 10.0)),
    (Bernoulli(), 0.3, (0.0, 1.0)),
    (Exponential(), 2.0, (0.0, 30.0)),
    (Poisson(), 3.0, (0.0, 30.0)),
]
IDS = [type(case[0]).__name__ for case in CASES]


def plan(statistic, bounds, noise, n=100, local=False):
    return NoisyStatistic.planned(statistic, bounds, n, noise, local)


@pytest.mark.parametrize(
    ("population", "theta", "statistic", "mean", "variance"),
    [
        (NormalMean(), 4.0, Power(1.0, False), 4.0, 1.0),
        (NormalMean(), 4.0, Power(3.0, False), 76.0, 9 * 256 + 36 * 16 + 15),
        (NormalVariance(), 2.0, Power(1.0), math.sqrt(4 / math.pi), 2 - 4 / math.pi),
        (NormalVariance(), 2.0, Power(2.0), 2.0, 8.0),
        (UniformWidth(), 3.0, Power(0.5), 3**0.5 / 1.5, 3 * 0.25 / (1.5**2 * 2)),
        (UniformWidth(), 3.0, Power(0.1), 3**0.1 / 1.1, 3**0.2 * 0.01 / (1.1**2 * 1.2)),
        (Exponential(), 2.0, Power(1.0), 2.0, 4.0),
        (Poisson(), 3.0, Power(2.0), 12.0, 3 + 6 * 9 + 4 * 27),
        (Bernoulli(), 0.3, Power(1.0), 0.3, 0.21),
    ],
)
def test_moments_are_those_of_the_thesis(population, theta, statistic, mean, variance):
    bounds = {Bernoulli: (0, 1), Poisson: (0, 90), Exponential: (0, 90)}.get(
        type(population), WIDE
    )
    found, cov = moments(population, statistic, bounds, np.array([theta]))
    assert found[0] == pytest.approx(mean, rel=1e-9)
    assert cov[0, 0] == pytest.approx(variance, rel=1e-8)


def test_moments_are_those_of_clipped_data():
    population, bounds = NormalMean(), (0.0, 4.5)
    found, cov = moments(population, Power(1.0), bounds, np.array([4.0]))
    x = np.clip(4.0 + stats.norm.ppf((np.arange(10**6) + 0.5) / 10**6), *bounds)
    assert found[0] == pytest.approx(x.mean(), abs=1e-6)
    assert cov[0, 0] == pytest.approx(x.var(), abs=1e-5)


def test_the_closed_form_is_that_of_the_thesis():
    # Example 4, a = 1: F from μ, Σ and their derivatives, n = 100, A = 100, ε-GDP with ε = 1
    theta, n, sd = 2.0, 100, 100.0 / 100.0
    slope = math.sqrt(2 / math.pi) / (2 * math.sqrt(theta))
    spread = 1 - 2 / math.pi
    h = theta * spread / n + sd**2
    expected = slope**2 / h + 0.5 * (spread / n / h) ** 2
    release = plan(Power(1.0), (-100.0, 100.0), NoiseLaw("gaussian", sd))
    assert information(release, NormalVariance(), [theta]).value == pytest.approx(expected)


@pytest.mark.parametrize(("n", "epsilon", "theta"), [(100, 1.0, 0.3), (100, 0.1, 0.8)])
def test_example_6_lacks_a_half(n, epsilon, theta):
    """PRIVACY B4: F₂ = n/v + (1−2θ)²/(2v²), v = θ(1−θ) + 1/ε², and F₃ with 1/(nε²)."""
    for v in (theta * (1 - theta) + 1 / epsilon**2, theta * (1 - theta) + 1 / (n * epsilon**2)):
        slope = 1 - 2 * theta
        expected = n / v + slope**2 / (2 * v * v)
        # the normal law of the mean has variance v/n, whose derivative is (1−2θ)/n
        y = np.linspace(theta - 10 * math.sqrt(v / n), theta + 10 * math.sqrt(v / n), 20_001)
        score = (y - theta) / (v / n) + slope / n * ((y - theta) ** 2 / (v / n) - 1) / (2 * v / n)
        by_hand = integrate.trapezoid(score**2 * stats.norm.pdf(y, theta, math.sqrt(v / n)), y)
        assert by_hand == pytest.approx(expected, rel=1e-6)
        printed = (n * v + slope**2) / v**2
        assert printed - by_hand == pytest.approx(slope**2 / (2 * v * v), rel=1e-3)
    release = plan(Power(1.0), (0.0, 1.0), NoiseLaw("gaussian", 1 / (n * epsilon)), n)
    assert information(release, Bernoulli(), [theta]).value == pytest.approx(expected, rel=1e-6)


def test_randomized_response_has_its_closed_form():
    epsilon, theta, n = 1.0, 0.3, 100
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    tau = truth * theta + (1 - truth) * (1 - theta)
    release = plan(Power(1.0), (0.0, 1.0), NoiseLaw("response", truth), n, local=True)
    expected = n * (2 * truth - 1) ** 2 / (tau * (1 - tau))
    assert information(release, Bernoulli(), [theta]).value == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("sd", "scale"), [(1.0, 1.0), (0.01, 2.0), (5.0, 0.01), (1.0, 1e-3)])
def test_the_normal_laplace_density_is_the_integral(sd, scale):
    for gap in (0.0, 0.5, 3.0, -8.0):

        def density(u, gap=gap):
            value = -0.5 * (u / sd) ** 2 - abs(gap - u) / scale
            return math.exp(value) / (2 * scale * sd * math.sqrt(2 * math.pi))

        cuts = sorted({-12 * sd, -3 * sd, 0.0, 3 * sd, 12 * sd, gap, gap - 8 * scale,
                       gap + 8 * scale, gap - 60 * scale, gap + 60 * scale})  # fmt: skip
        value = sum(
            integrate.quad(density, a, b, epsabs=0, limit=200)[0]
            for a, b in itertools.pairwise(cuts)
        )
        assert float(normal_laplace(gap, sd, scale)) == pytest.approx(math.log(value), abs=1e-7)


@pytest.mark.parametrize(("population", "theta", "bounds"), CASES, ids=IDS)
def test_monte_carlo_agrees_with_quadrature_within_its_error(population, theta, bounds):
    width = bounds[1] - min(bounds[0], 0.0)
    rng = generator(7)
    release = plan(Power(1.0), bounds, NoiseLaw("laplace", width / 100))
    exact = information(release, population, [theta])
    assert exact.method == "quadrature"
    found = information(release, population, [theta], "monte-carlo", rng=rng)  # Algorithm 6
    assert abs(found.value - exact.value) < 4 * found.error[0, 0]
    assert found.error[0, 0] < 0.1 * exact.value
    release = plan(Power(1.0), bounds, NoiseLaw("laplace", width / 3), 20, local=True)
    exact = information(release, population, [theta])
    found = information(release, population, [theta], "monte-carlo", rng=rng)  # Algorithm 8
    assert abs(found.value - exact.value) < 4 * found.error[0, 0]


def test_algorithm_7_agrees_where_the_statistic_is_exactly_normal():
    rng = generator(8)
    release = plan(Power(1.0, False), WIDE, NoiseLaw("laplace", 0.2), 20)
    exact = information(release, NormalMean(), [1.0])
    found = information(release, NormalMean(), [1.0], "exact", rng=rng, outer=1500, inner=200)
    assert abs(found.value - exact.value) < 4 * found.error[0, 0]


def test_algorithm_7_agrees_for_counts_where_the_sum_is_known():
    n, theta, b = 6, 0.4, 0.2

    def density(y, t):
        k = np.arange(n + 1)
        return stats.laplace.pdf(y[:, None], k / n, b) @ stats.binom.pmf(k, n, t)

    y, h = np.linspace(-6, 7, 200_001), 1e-5
    slope = (density(y, theta + h) - density(y, theta - h)) / (2 * h)
    exact = integrate.trapezoid(slope**2 / density(y, theta), y)
    release = plan(Power(1.0), (0.0, 1.0), NoiseLaw("laplace", b), n)
    found = information(release, Bernoulli(), [theta], "exact", rng=generator(9), outer=4000)
    assert abs(found.value - exact) < 4 * found.error[0, 0]


def test_two_halves_take_away_the_bias_of_squaring_one():
    release = plan(Power(1.0, False), WIDE, NoiseLaw("laplace", 5.0), 20)
    exact = information(release, NormalMean(), [1.0]).value
    few = [
        information(release, NormalMean(), [1.0], "monte-carlo", rng=generator(k), inner=10,
                    outer=4000)
        for k in range(4)
    ]  # fmt: skip
    error = np.mean([found.error for found in few]) / 2
    assert abs(np.mean([found.value for found in few]) - exact) < 5 * error + 0.1 * exact


def test_vectors_and_orders():
    both = Custom(lambda x: np.stack([x, x * x], axis=-1), [(-80, 80), (0, 6400)], "x, x²")
    own = CustomPopulation(
        lambda theta, z: theta[0] + theta[1] * z, scales=("real", "positive"), names=("m", "s")
    )
    n = 50
    found = information(plan(both, WIDE, NoiseLaw("gaussian", 1e-5), n), own, [1.0, 2.0])
    # without noise the pair is sufficient: F = n·diag(1/s², 2/s²), plus what Σ(θ) itself tells
    assert found.matrix.shape == (2, 2)
    assert found.matrix[0, 0] >= n / 4 * 0.99
    assert found.variance == pytest.approx(np.trace(np.linalg.inv(found.matrix)))
    less = information(plan(both, WIDE, NoiseLaw("gaussian", 1.0), n), own, [1.0, 2.0])
    assert less.variance > found.variance
    median = plan(OrderStatistic(0.5, Power(1.0)), (-10, 10), NoiseLaw("smooth", 5.0, 0.25), 20)
    found = information(median, NormalVariance(), [1.0], "exact", rng=generator(2), outer=2000)
    assert found.method == "exact" and found.error[0, 0] > 0
    sure = information(median, NormalVariance(), [1.0])
    assert sure.method == "quadrature" and sure.error[0, 0] < 0.02 * sure.value
    assert abs(sure.value - found.value) < 4 * found.error[0, 0]


def test_a_quantile_of_many_people_tells_what_its_rank_and_their_sampling_leave():
    n, q, rank_error = 100_000, 0.9, 2.0  # ranks: Laplace errors of scale 2
    drawn = plan(OrderStatistic(q), (-10, 10), NoiseLaw("exponential", rank_error), n)
    density = stats.norm.pdf(stats.norm.ppf(q))
    known = density**2 / (q * (1 - q) / n + 2 * rank_error**2 / n**2)
    assert information(drawn, NormalMean(), [1.0]).value == pytest.approx(known, rel=0.03)


def test_methods_that_do_not_apply_say_so():
    median = plan(OrderStatistic(0.5), (-10, 10), NoiseLaw("smooth", 5.0, 0.25), 20)
    with pytest.raises(ParameterError, match="closed form"):
        information(median, NormalVariance(), [1.0], "closed")
    both = Custom(lambda x: np.stack([x, x], axis=-1), [(-9, 9), (-9, 9)], "twice")
    pair = plan(both, (-9, 9), NoiseLaw("laplace", 1.0), 20)
    with pytest.raises(ParameterError, match="quadrature"):
        information(pair, NormalVariance(), [1.0], "quadrature")
    with pytest.raises(ParameterError, match="rng"):
        information(median, NormalVariance(), [1.0], "exact")
    drawn = plan(OrderStatistic(0.5), (-10, 10), NoiseLaw("exponential", 1.0), 20)
    with pytest.raises(ParameterError, match="noise that is added"):
        information(drawn, NormalVariance(), [1.0], "exact", rng=generator(1))
    with pytest.raises(ParameterError, match="variance must be a positive"):
        information(median, NormalVariance(), [-1.0])


def test_the_normal_laplace_density_survives_a_vanishing_spread():
    for sd in (1e-3, 1e-9, 1e-15):
        found = float(normal_laplace(9.0, sd, 0.1))
        assert found == pytest.approx(stats.laplace.logpdf(9.0, scale=0.1), abs=1e-3)
