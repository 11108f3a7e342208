"""Every sampler of p(θ | y): against quadrature of the exact posterior, and joint tests.

The references integrate on their own: nothing of the samplers' likelihoods is used.
"""

import inspect
import math

import numpy as np
import pytest
from scipy import integrate, special, stats

from tacit._core.chains import autocorrelation_time
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.posterior.numerics.infer import infer
from tacit.posterior.numerics.metropolis import loops
from tacit.posterior.numerics.metropolis.kernel import SAMPLERS, MetropolisKernel
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.populations.laws import (
    Bernoulli,
    CustomPopulation,
    Exponential,
    NormalMean,
    NormalVariance,
    Poisson,
    UniformWidth,
)
from tacit.posterior.numerics.priors import Beta, Gamma, InverseGamma, Normal, Uniform
from tacit.posterior.numerics.splines import from_line, log_slope
from tacit.posterior.numerics.statistics import Custom, OrderStatistic, Power

WIDE = (-60.0, 60.0)  # bounds that clip nothing
LAPLACE, GAUSSIAN = NoiseLaw("laplace", 0.15), NoiseLaw("gaussian", 0.15)


def exact_cdf(log_posterior, low, high, count=4001):
    """Return the distribution function of a density that is known up to a constant."""
    grid = np.linspace(low, high, count)
    values = np.array([log_posterior(t) for t in grid])
    density = np.exp(values - values.max())
    total = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    return lambda x: np.interp(x, grid, total / total[-1])


def chain(kernel, seed, draws=2500, thin=16):
    rng = generator(seed)
    state, _ = kernel.run(rng, kernel.init(rng), 2000, adapt=True)
    _, info = kernel.run(rng, state, draws, thin=thin)
    return info.draws[:, 0]


def agrees(draws, cdf):
    """KS on a chain that is thinned until its draws are independent."""
    time = autocorrelation_time(draws[None])
    kept = draws[:: max(1, math.ceil(1.5 * time))]
    assert len(kept) > 150
    return stats.kstest(kept, cdf).pvalue


def clt_log_posterior(theta, y, n, noise):
    """|x| of N(0, θ): the half-normal's moments; the noise is integrated by the trapezoid rule."""
    mean, sd = math.sqrt(2 * theta / math.pi), math.sqrt(theta * (1 - 2 / math.pi) / n)
    u = np.linspace(mean - 9 * sd, mean + 9 * sd, 801)
    gap = (y - u) / noise.scale
    log_noise = -np.abs(gap) if noise.kind == "laplace" else -gap * gap / 2
    values = np.exp(log_noise - ((u - mean) / sd) ** 2 / 2) / sd
    return math.log(integrate.trapezoid(values, u)) + 2 * math.log(theta) - theta  # Gamma(3, 1)


def additive_kernel(sampler, noise=LAPLACE):
    release = NoisyStatistic(Power(1.0), WIDE, 40, noise, [1.2])
    return MetropolisKernel(sampler, [release], NormalVariance(), [Gamma(3.0, 1.0)], particles=5)


def additive_cdf(noise=LAPLACE):
    return exact_cdf(lambda t: clt_log_posterior(t, 1.2, 40, noise), 1e-3, 14, 1001)


ADDITIVE = ["mh", "pseudo-marginal", "correlated", "mhaar-rb", "gibbs"]


@pytest.mark.parametrize(
    ("sampler", "noise"),
    [
        *((sampler, LAPLACE) for sampler in ADDITIVE),
        *(pytest.param(sampler, GAUSSIAN, marks=pytest.mark.slow) for sampler in ADDITIVE),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_samplers_of_an_additive_statistic_have_the_exact_posterior(sampler, noise):
    assert agrees(chain(additive_kernel(sampler, noise), 11), additive_cdf(noise)) > 1e-3


def test_a_missing_jacobian_would_be_seen():
    def without(t):  # a walk on log θ without its Jacobian has this law on θ
        return clt_log_posterior(t, 1.2, 40, LAPLACE) - math.log(t)

    draws = chain(additive_kernel("mh"), 12)
    assert agrees(draws, exact_cdf(without, 1e-3, 14, 1001)) < 1e-6


def mutated(function, right, wrong):
    """Return a twin of a loop with one expression changed; it runs as plain Python."""
    source = inspect.getsource(function)
    assert source.count(right) == 1
    space = dict(vars(loops))
    exec(source.replace(right, wrong), space)
    return space[function.__name__]


def test_an_inverted_ratio_is_caught():
    """PRIVACY B4: (2.7) is printed upside down; Σw over Σw' is another law."""
    right = "_log_sum(there) - value - _log_sum(here)"
    twins = {
        "right": mutated(loops.rao_blackwell, right, right),
        "inverted": mutated(
            loops.rao_blackwell, right, "_log_sum(here) - value - _log_sum(there)"
        ),
    }
    found = {}
    for name, loop in twins.items():
        kernel = additive_kernel("mhaar-rb")
        kernel._loop = loop
        rng = generator(19)
        state = kernel.init(rng)._replace(step=0.8, walk=np.eye(1))
        _, info = kernel.run(rng, state, 800, thin=8, compiled=False)
        time = autocorrelation_time(info.draws.T)
        kept = info.draws[:: math.ceil(1.5 * time), 0]
        found[name] = stats.kstest(kept, additive_cdf()).pvalue
    assert found["right"] > 1e-3
    assert found["inverted"] < 1e-6


def binomial_posterior(y, n, sd):
    def log_posterior(theta):
        k = np.arange(n + 1)
        mass = special.binom(n, k) * theta**k * (1 - theta) ** (n - k)
        value = mass @ np.exp(-(((y - k / n) / sd) ** 2) / 2)
        return math.log(value) + math.log(theta * (1 - theta))  # Beta(2, 2)

    return log_posterior


@pytest.mark.parametrize("refresh", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_mhaar_on_people_is_exact_for_a_discrete_statistic(refresh):
    release = NoisyStatistic(Power(1.0), (0.0, 1.0), 8, NoiseLaw("gaussian", 0.1), [0.7])
    kernel = MetropolisKernel(
        "mhaar", [release], Bernoulli(), [Beta(2.0, 2.0)], particles=6, refresh=refresh
    )
    cdf = exact_cdf(binomial_posterior(0.7, 8, 0.1), 1e-4, 1 - 1e-4, 801)
    assert agrees(chain(kernel, 13), cdf) > 1e-3


def median_likelihood(y, theta, epsilon, beta, bound, nodes=40):
    """n = 3 values |x| of N(0, θ), their median and smooth sensitivity, by tensor quadrature."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    top = min(bound, 7.0 * math.sqrt(theta))
    x, w = (t + 1) / 2 * top, w / 2 * top * stats.halfnorm.pdf((t + 1) / 2 * top,
                                                               scale=math.sqrt(theta))  # fmt: skip
    a, b, c = np.meshgrid(x, x, x, indexing="ij")
    weights = w[:, None, None] * w[None, :, None] * w[None, None, :]
    s = np.sort(np.stack([a, b, c]).reshape(3, -1), axis=0)
    padded = np.vstack([np.zeros(s.shape[1]), s, np.full(s.shape[1], bound)])
    smooth = np.max(
        [math.exp(-beta * (j - i - 1)) * (padded[j] - padded[i])
         for i in range(3) for j in range(max(i + 1, 2), 5)], axis=0,
    )  # fmt: skip
    scale = 2 * smooth / epsilon
    return float(weights.ravel() @ (np.exp(-np.abs(y - s[1]) / scale) / scale))


def test_mhaar_is_exact_for_a_median_with_smooth_noise():
    epsilon, beta, bound, y = 5.0, 0.3, 8.0, 1.0
    noise = NoiseLaw("smooth", epsilon, beta)
    release = NoisyStatistic(OrderStatistic(0.5, Power(1.0)), (-bound, bound), 3, noise, [y])
    kernel = MetropolisKernel(
        "mhaar", [release], NormalVariance(), [InverseGamma(3.0, 2.0)], particles=8
    )

    grid = np.linspace(0.05, 12, 121)
    alone = [math.log(median_likelihood(y, t, epsilon, beta, bound)) for t in grid]

    def cdf(log_likelihood):
        def log_posterior(theta):
            return np.interp(theta, grid, log_likelihood) - 4 * math.log(theta) - 2 / theta

        return exact_cdf(log_posterior, 0.05, 12, 801)

    assert agrees(chain(kernel, 14), cdf(alone)) > 1e-3
    # and next to a release of other people, whose likelihood is known
    other = NoisyStatistic(Power(1.0), WIDE, 40, GAUSSIAN, [1.2])
    kernel = MetropolisKernel(
        "mhaar", [other, release], NormalVariance(), [InverseGamma(3.0, 2.0)], particles=8
    )
    both = [
        value + clt_log_posterior(t, 1.2, 40, GAUSSIAN) - 2 * math.log(t) + t
        for value, t in zip(alone, grid, strict=True)
    ]
    draws = chain(kernel, 14)
    assert agrees(draws, cdf(both)) > 1e-3
    assert agrees(draws, cdf(alone)) < 1e-6


@pytest.mark.parametrize("sampler", ["mh", "mhaar-sequential"])
def test_samplers_of_single_answers_have_the_exact_posterior(sampler):
    answers = np.array([0.3, 4.1, 2.2, -1.0, 6.3, 1.1])
    noise = NoiseLaw("laplace", 0.8)
    release = NoisyStatistic(Power(1.0, False), (0.0, 500.0), 6, noise, answers, local=True)
    kernel = MetropolisKernel(sampler, [release], Exponential(), [Gamma(2.0, 1.5)], particles=10)
    x = np.linspace(0, 120, 24_001)
    seen = np.exp(-np.abs(answers[:, None] - x) / 0.8)

    def log_posterior(theta):
        parts = seen @ np.exp(-x / theta) / theta
        return np.log(parts).sum() + math.log(theta) - theta / 1.5  # Gamma(2, 1.5)

    cdf = exact_cdf(log_posterior, 0.1, 20, 201)
    assert agrees(chain(kernel, 15), cdf) > 1e-3


@pytest.mark.slow
def test_randomized_responses_have_the_exact_posterior():
    answers = np.array([1.0] * 30 + [0.0] * 20)
    release = NoisyStatistic(
        Power(1.0), (0.0, 1.0), 50, NoiseLaw("response", 0.75), answers, local=True
    )
    for sampler in ("mh", "mhaar-sequential"):
        kernel = MetropolisKernel(sampler, [release], Bernoulli(), [Beta(1.0, 1.0)])

        def log_posterior(theta):
            tau = 0.75 * theta + 0.25 * (1 - theta)
            return 30 * math.log(tau) + 20 * math.log(1 - tau)

        draws = chain(kernel, 16, 2000 if sampler == "mh" else 1500)
        assert agrees(draws, exact_cdf(log_posterior, 1e-6, 1 - 1e-6, 1001)) > 1e-3


# --- joint-distribution tests (Geweke 2004): θ and y in turns have the law of the model ---------

# few people, so that θ and y in turns move far: S_n of a normal law is normal for any n
NORMAL = NoisyStatistic.planned(Power(1.0, False), WIDE, 2, NoiseLaw("laplace", 0.6))
GEWEKE = {
    "mh": (NORMAL, NormalMean(), Normal(0.0, 1.0), None),
    "pseudo-marginal": (NORMAL, NormalMean(), Normal(0.0, 1.0), 4),
    "correlated": (NORMAL, NormalMean(), Normal(0.0, 1.0), 4),
    "mhaar-rb": (NORMAL, NormalMean(), Normal(0.0, 1.0), 4),
    "gibbs": (NORMAL, NormalMean(), Normal(0.0, 1.0), 2),
    "mhaar": (
        NoisyStatistic.planned(
            OrderStatistic(1.0, Power(1.0)), (-4.0, 4.0), 5, NoiseLaw("smooth", 4.0, 0.4)
        ),
        UniformWidth(), Gamma(3.0, 0.5), 4,
    ),
    "mhaar-sequential": (
        NoisyStatistic.planned(Power(1.0), (0.0, 12.0), 2, NoiseLaw("laplace", 0.7), local=True),
        Poisson(), Gamma(2.0, 1.0), 4,
    ),
}  # fmt: skip


def draw_y(rng, kernel, state):
    """Draw y given θ and the latent variables, under the law that the sampler extends."""
    release, latent, theta = kernel.releases[0], state.latent, state.theta
    if kernel.sampler in ("mhaar-rb", "gibbs"):
        return release.noise.perturb(rng, latent[0, 0])
    if kernel.sampler == "mh":
        return release.noise.perturb(rng, theta + rng.standard_normal(1) / math.sqrt(2))
    if kernel.sampler in ("pseudo-marginal", "correlated"):  # a mixture over particles
        z = latent[0, rng.integers(latent.shape[1])]
        return release.noise.perturb(rng, theta + z / math.sqrt(2))
    x = kernel.population.simulate(theta, latent[:, 0, :])
    return release.simulate(rng, x[:, 0] if release.local else x[0])


def geweke(name, rounds, broken=lambda theta: theta):
    release, population, prior, particles = GEWEKE[name]
    rng = generator(21, name)
    kernel = MetropolisKernel(name, [release], population, [prior], particles=particles)
    state = kernel.init(rng)._replace(theta=prior.sample(rng, 1), step=1.0)
    state = state._replace(latent=kernel.draw_latent(rng, state.theta), walk=np.eye(1))
    kept = []
    for _ in range(rounds):
        kernel = kernel.with_values(draw_y(rng, kernel, state))
        if name == "mh":
            state = state._replace(walk=np.eye(1))
        state, _ = kernel.run(rng, state, 1)
        kept.append(state.theta[0])
    draws = broken(np.array(kept))
    time = autocorrelation_time(draws[None])
    thinned = draws[:: max(1, math.ceil(1.5 * time))]
    levels = {
        Normal: lambda x: stats.norm.cdf(x, prior.a, prior.b),
        Gamma: lambda x: stats.gamma.cdf(x, prior.a, scale=prior.b),
    }[type(prior)]
    return stats.kstest(thinned, levels).pvalue, len(thinned)


PARTICLES = [name for name in SAMPLERS if name != "mh"]


@pytest.mark.parametrize(
    ("name", "rounds"),
    [
        *((name, 3000) for name in PARTICLES),
        *(pytest.param(name, 20_000, marks=pytest.mark.slow) for name in PARTICLES),
        pytest.param("mh", 1500, marks=pytest.mark.slow),  # it tabulates p(y | θ) for every y
    ],
)
def test_theta_and_y_in_turns_have_the_law_of_the_model(name, rounds):
    pvalue, count = geweke(name, rounds)
    assert count > rounds / 60
    assert pvalue > 1e-3


@pytest.mark.parametrize(
    ("rounds", "factor"), [(3000, 1.5), pytest.param(12_000, 1.15, marks=pytest.mark.slow)]
)
def test_the_joint_test_sees_a_wrong_scale(rounds, factor):
    pvalue, _ = geweke("mhaar", rounds, broken=lambda theta: factor * theta)
    assert pvalue < 1e-3


# --- compiled and plain, vectors ---------------------------------------------------------------


@pytest.mark.parametrize("name", list(SAMPLERS))
def test_compiled_chains_are_the_plain_ones(name):
    release, population, prior, particles = GEWEKE[name]
    values = np.full(release.values.shape, 1.0)
    kernel = MetropolisKernel(
        name, [release.replace(values)], population, [prior], particles=particles
    )
    state = kernel.init(generator(3))
    fast, quick = kernel.run(generator(4), state, 40, adapt=True)
    slow, plain = kernel.run(generator(4), state, 40, adapt=True, compiled=False)
    np.testing.assert_allclose(quick.draws, plain.draws, rtol=1e-9)
    assert fast.step == pytest.approx(slow.step)


@pytest.mark.slow
def test_a_population_of_ones_own_gives_what_the_built_in_one_gives():
    release = NoisyStatistic(Power(1.0), WIDE, 40, LAPLACE, [1.2])
    own = CustomPopulation(lambda theta, z: np.sqrt(theta[0]) * z, scales=("positive",))
    draws = {}
    for population in (NormalVariance(), own):
        kernel = MetropolisKernel("mh", [release], population, [Gamma(3.0, 1.0)])
        draws[population.code] = chain(kernel, 17)
    assert stats.ks_2samp(draws[-1][::3], draws[1][::3]).pvalue > 1e-3
    kernel = MetropolisKernel("mhaar-rb", [release], own, [Gamma(3.0, 1.0)], particles=3)
    assert not kernel.is_compiled
    _, info = kernel.run(generator(1), kernel.init(generator(2)), 5)
    assert np.isfinite(info.draws).all()


@pytest.mark.slow
def test_two_parameters_from_two_moments():
    rng = generator(5)
    x = 2.0 + 1.5 * rng.standard_normal(20_000)
    both = Custom(lambda v: np.stack([v, v * v], axis=-1), [(-10, 10), (0, 100)], "x, x²")
    release = NoisyStatistic(
        both, (-10, 10), 20_000, NoiseLaw("gaussian", 0.01), [x.mean(), (x * x).mean()]
    )
    own = CustomPopulation(
        lambda theta, z: theta[0] + theta[1] * z, scales=("real", "positive"), names=("m", "s")
    )
    found = infer(
        release, own, [Normal(0.0, 5.0), Gamma(2.0, 1.0)], chains=2, draws=150, warmup=200, rng=rng
    )
    assert found.sampler == "mh"
    assert np.allclose(found.mean, [2.0, 1.5], atol=5 * found.sd + 0.02)


def test_a_prior_may_reach_beyond_the_range_of_the_parameter():
    release = NoisyStatistic(Power(1.0), WIDE, 40, LAPLACE, [1.2])
    found = infer(release, NormalVariance(), Normal(1.0, 1.0), chains=1, draws=400, warmup=200,
                  rng=generator(20))  # fmt: skip
    assert found.draws.min() > 0
    with pytest.raises(ParameterError, match="leaves the parameter's range"):
        infer(release, NormalVariance(), Uniform(-2.0, -1.0))


def test_a_walk_ends_where_a_positive_parameter_does():
    """Ten people hardly see a variance: a prior with a heavy tail has mass at any size."""
    assert log_slope(1, from_line(1, 230.0)) == pytest.approx(230.0)
    assert log_slope(1, from_line(1, 500.0)) == log_slope(1, from_line(1, 232.0)) == -math.inf
    release = NoisyStatistic(Power(1.0), (-10.0, 10.0), 10, NoiseLaw("laplace", 2.0), [0.5])
    how = {"chains": 2, "draws": 200, "warmup": 200, "rng": generator(21)}
    found = infer(release, NormalVariance(), InverseGamma(0.01, 0.01), **how)
    assert len(np.unique(found.draws)) > 100  # at an end where nothing changes there was one
    assert found.draws.max() <= from_line(1, math.log(1e100))


def test_tables_resolve_narrow_posteriors():
    n = 10**9
    release = NoisyStatistic(
        Power(1.0, False), (-20.0, 30.0), n, NoiseLaw("gaussian", 1e-6), [4.0]
    )
    kernel = MetropolisKernel("mh", [release], NormalMean(), [Uniform(0.0, 10.0)])
    draws = chain(kernel, 18)
    sd = math.sqrt(1.0 / n + 1e-12)
    assert draws.mean() == pytest.approx(4.0, abs=0.1 * sd)
    assert draws.std() == pytest.approx(sd, rel=0.05)
