"""Order statistics: the likelihood of both mechanisms against the mechanisms themselves."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tacit._core.rng import generator
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.quantiles import Quantiles
from tacit.posterior.numerics.infer import infer
from tacit.posterior.numerics.likelihood import log_likelihood
from tacit.posterior.numerics.metropolis.kernel import MetropolisKernel
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.orders.domain import Domain, Spread
from tacit.posterior.numerics.orders.likelihood import order_law
from tacit.posterior.numerics.orders.simulated import simulated_draws
from tacit.posterior.numerics.orders.windows import weights_by_rank, windows
from tacit.posterior.numerics.populations.laws import (
    Bernoulli,
    CustomPopulation,
    Exponential,
    NormalMean,
    NormalVariance,
    Poisson,
    UniformWidth,
)
from tacit.posterior.numerics.priors import Gamma, Normal, Uniform
from tacit.posterior.numerics.statistics import OrderStatistic, Power
from tacit.privacy.events import REPLACE

SIGNED, SIZE = Power(1.0, absolute=False), Power(1.0)


def people(population, theta, rng, count, n):
    return population.simulate(np.array([theta]), rng.standard_normal((count, n)))


DRAWN = [
    # population, bounds, statistic, n, ε, step, y, two θ
    (NormalMean(), (-5.0, 5.0), OrderStatistic(0.5, SIGNED), 7, 1.0, 0.0, 0.3, (0.0, 1.0)),
    (NormalMean(), (-1.0, 4.0), OrderStatistic(0.3, SIZE), 120, 1.0, 0.0, 0.5, (0.2, 0.9)),
    (NormalVariance(), (-10.0, 10.0), OrderStatistic(0.9, SIZE), 150, 0.3, 0.0, 2.3, (1.0, 2.0)),
    (UniformWidth(), (-10.0, 10.0), OrderStatistic(0.5, SIZE), 30, 3.0, 0.0, 1.0, (2.0, 2.5)),
    (Exponential(), (0.0, 1.0), OrderStatistic(0.5, SIGNED), 60, 2.0, 0.0, 0.9, (1.0, 1.6)),
    (Poisson(), (0.0, 9.0), OrderStatistic(0.6, SIGNED), 80, 2.0, 1.0, 4.2, (3.6, 4.4)),
]


@pytest.mark.parametrize("case", DRAWN, ids=lambda case: type(case[0]).__name__)
def test_a_drawn_quantile_has_the_density_of_the_mechanism(case):
    """Σ over ranks and windows of people against the mechanism's own density, over people."""
    population, bounds, statistic, n, epsilon, step, y, thetas = case
    domain = Domain.of(statistic, bounds, step)
    mechanism = Quantiles(epsilon, (domain.low, domain.high), (statistic.quantile,), REPLACE,
                          step=step)  # fmt: skip
    rate = mechanism.rate(Fraction(round(statistic.quantile * 2**30), 2**30), True)
    release = NoisyStatistic(statistic, bounds, n, NoiseLaw("exponential", 1.0 / rate, step=step),
                             [y])  # fmt: skip
    found, known, error = [], [], []
    for theta in thetas:
        s = domain.base.values(people(population, theta, generator(1), 1500, n), bounds)[..., 0]
        seen = np.exp([mechanism.log_density(row, np.array([[y]]))[0] for row in s])
        known.append(math.log(seen.mean()))
        error.append(seen.std() / seen.mean() / math.sqrt(len(seen)))
        found.append(log_likelihood(release, population, np.array([theta])))
    # what is common to all θ, no posterior sees
    gap = (found[1] - found[0]) - (known[1] - known[0])
    assert abs(gap) < 4 * math.hypot(*error) + 0.02
    law = order_law(release, population)
    assert law.error(population, np.array(thetas)[:, None]) < 0.05


SMOOTH = [
    (NormalMean(), (-5.0, 5.0), OrderStatistic(0.5, SIGNED), 200, 0.04, 0.3, (0.0, 0.3)),
    (NormalVariance(), (-10.0, 10.0), OrderStatistic(0.9, Power(2.0)), 150, 0.3, 4.3, (1.0, 2.0)),
    (Exponential(), (0.0, 8.0), OrderStatistic(1.0, SIGNED), 50, 0.08, 5.0, (1.0, 2.0)),
    (Poisson(), (0.0, 9.0), OrderStatistic(0.6, SIGNED), 80, 0.1, 4.0, (3.6, 4.4)),
]


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: type(case[0]).__name__)
def test_a_quantile_with_smooth_noise_has_the_density_of_simulated_people(case):
    population, bounds, statistic, n, beta, y, thetas = case
    release = NoisyStatistic(statistic, bounds, n, NoiseLaw("smooth", 2.0, beta), [y])
    for theta in thetas:
        logs = release.log_density(people(population, theta, generator(2), 6000, n))
        seen = np.exp(logs - logs.max())
        known = math.log(seen.mean()) + logs.max()
        error = seen.std() / seen.mean() / math.sqrt(len(seen))
        found = log_likelihood(release, population, np.array([theta]))
        assert abs(found - known) < 4 * error + 0.03


def test_windows_hold_the_people_around_a_place():
    """Of n uniform people with c below 0.3, the d-th below stands at a known Beta law."""
    n, c = 500, 160
    steps, below, _ = windows(n, 4000)
    at = {d: int(np.searchsorted(steps, d)) for d in (1, 10, 64)}
    whole = np.array([np.interp(c + 1, steps, row) for row in below])
    for d, k in at.items():
        assert stats.kstest(below[:, k] / whole, stats.beta(d, c + 1 - d).cdf).pvalue > 1e-3
    assert steps[-1] == n + 1 and len(steps) < 120
    assert len(windows(10**6, 4)[0]) < 300


def test_weights_by_rank_are_means_over_ranks():
    for target in (7.0, 7.4):
        for first, last in ((0, 5), (4, 12), (7, 7), (9, 30)):
            k = np.arange(first, last + 1)
            found = weights_by_rank(np.array([float(first)]), np.array([float(last)]), target, 0.3)
            assert found[0] == pytest.approx(np.exp(-0.3 * np.abs(k - target)).mean())


@pytest.mark.parametrize("step", [0.0, 1.0])
def test_simulated_draws_are_the_mechanisms(step):
    x = np.round(generator(3).normal(5, 2, 40)) if step else generator(3).normal(5, 2, 40)
    statistic = OrderStatistic(0.4, SIGNED)
    domain = Domain.of(statistic, (0.0, 12.0), step)
    mechanism = Quantiles(1.0, (domain.low, domain.high), (0.4,), REPLACE, step=step)
    rate = mechanism.rate(Fraction(round(0.4 * 2**30), 2**30), True)
    ours = simulated_draws(generator(4), domain, 0.4, rate, np.tile(x, (3000, 1)))[:, 0]
    noise = Noise(seed=5)
    theirs = [mechanism.draw(x, noise)[0] for _ in range(1500)]
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-3


def test_people_are_spread_over_cells_and_at_bounds():
    spread = Spread(Domain.of(OrderStatistic(0.5, SIZE), (-2.0, 3.0), 0.0), 1.0)
    shares = spread.shares(NormalMean(), np.array([1.0]))
    at = {s: shares[np.searchsorted(spread.points, s)] for s in (0.0, 1.0, 3.0)}
    assert at[0.0] == 0.0 and at[3.0] == 1.0
    assert at[1.0] == pytest.approx(0.5 - stats.norm.cdf(-2.0))  # |x| ≤ 1
    assert shares[-2] == pytest.approx(stats.norm.cdf(2.0), abs=1e-6)
    own = CustomPopulation(lambda theta, z: theta[0] + z)
    np.testing.assert_allclose(spread.shares(own, np.array([1.0])), shares, atol=2e-4)
    # whole numbers lie evenly around themselves
    counts = Spread(Domain.of(OrderStatistic(0.5, SIGNED), (0.0, 9.0), 1.0), 4.0)
    shares = counts.shares(Poisson(), np.array([3.0]))
    assert np.interp(3.5, counts.points, shares) == pytest.approx(stats.poisson.cdf(3, 3.0))
    middle = stats.poisson.cdf(3, 3.0) + 0.5 * stats.poisson.pmf(4, 3.0)
    assert np.interp(4.0, counts.points, shares) == pytest.approx(middle)


def test_simulated_people_give_the_same_posterior_of_a_draw():
    """`mhaar`, which simulates everybody, against the sum over ranks."""
    release = NoisyStatistic(
        OrderStatistic(0.5, SIZE), (-6.0, 6.0), 9, NoiseLaw("exponential", 1.0), [1.1]
    )
    prior = Gamma(3.0, 0.7)
    exact = infer(release, NormalVariance(), prior, rng=generator(6)).flat[:, 0]
    kernel = MetropolisKernel("mhaar", [release], NormalVariance(), [prior], particles=8)
    assert not kernel.is_compiled
    rng = generator(7)
    state, _ = kernel.run(rng, kernel.init(rng), 400, adapt=True)
    _, info = kernel.run(rng, state, 400, thin=6)
    assert stats.ks_2samp(info.draws[::2, 0], exact).pvalue > 1e-3


CALIBRATED = [
    (NormalVariance(), Gamma(4.0, 0.5), OrderStatistic(0.5, SIZE), (-10.0, 10.0), 0.0),
    (Exponential(), Gamma(9.0, 0.3), OrderStatistic(0.8, SIGNED), (0.0, 15.0), 0.0),
    (Poisson(), Gamma(9.0, 0.4), OrderStatistic(0.5, SIGNED), (0.0, 20.0), 1.0),
    (Bernoulli(), Uniform(0.02, 0.98), OrderStatistic(0.5, SIGNED), (0.0, 1.0), 1.0),
    (UniformWidth(), Gamma(9.0, 0.4), OrderStatistic(1.0, SIZE), (-8.0, 8.0), 0.0),
]


def ranks_of_truths(case, kind, n, runs):
    """Return where truths lie among draws: uniform if the posterior is right."""
    population, prior, statistic, bounds, step = case
    noise = NoiseLaw("smooth", 2.0, 0.08) if kind == "smooth" else NoiseLaw(kind, 1.0, step=step)
    rng, levels = generator(8, f"{type(population).__name__} {kind} {n}"), []
    for _ in range(runs):
        theta = prior.sample(rng, 1)
        plan = NoisyStatistic.planned(statistic, bounds, n, noise)
        release = plan.replace(plan.simulate(rng, people(population, theta[0], rng, 1, n)[0]))
        found = infer(release, population, prior, chains=1, draws=200, rng=rng)
        levels.append((np.sum(found.flat[:, 0] < theta) + rng.random()) / 201)
    return np.array(levels)


@pytest.mark.slow
@pytest.mark.parametrize("n", [12, 2000])
@pytest.mark.parametrize("kind", ["exponential", "smooth"])
@pytest.mark.parametrize("case", CALIBRATED, ids=lambda case: type(case[0]).__name__)
def test_posteriors_of_order_statistics_are_calibrated(case, kind, n):
    assert stats.kstest(ranks_of_truths(case, kind, n, 60), "uniform").pvalue > 1e-3


def test_posteriors_of_medians_are_calibrated_in_short():
    levels = ranks_of_truths(CALIBRATED[0], "exponential", 40, 10)
    assert stats.kstest(levels, "uniform").pvalue > 1e-3


def test_several_medians_of_several_holders_are_one_posterior():
    rng, prior = generator(9), Normal(0.0, 3.0)
    plan = NoisyStatistic.planned(
        OrderStatistic(0.5, SIGNED), (-20.0, 20.0), 1000, NoiseLaw("exponential", 2.0)
    )
    sites = [plan.replace(plan.simulate(rng, people(NormalMean(), 1.0, rng, 1, 1000)[0]))
             for _ in range(3)]  # fmt: skip
    one, all_ = (infer(r, NormalMean(), prior, rng=rng) for r in (sites[0], sites))
    assert all_.sd[0] == pytest.approx(one.sd[0] / 3**0.5, rel=0.15)
    assert abs(all_.mean[0] - 1.0) < 4 * all_.sd[0]
    assert all_.diagnostics["effective_samples"][0] > 6000
