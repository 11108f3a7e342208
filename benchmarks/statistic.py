"""Posteriors of a noisy statistic: iterations a second, effective samples against peers.

**Iterations.** 10⁵ of Metropolis–Hastings for a variance from a mean of |x| with Gaussian noise,
n = 100, from a release to draws: the likelihood's table is part of the time, compilation is not.
**Effective samples a second** on the same posterior (flat prior, the same normal likelihood, log
scale), after warm-up: emcee with 32 walkers and a vectorised density, NumPyro's NUTS with four
vectorised chains after compilation. A peer that is not installed is a row that says so
(``make bench-setup``).
**Smooth sensitivity** of the median of 10⁵ values, without sorting, for smooth and for tied data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import median_seconds
from experiments.runner import Outcome
from tacit._core.chains import effective_samples
from tacit._core.order_statistics import smooth_sensitivity
from tacit._core.rng import generator
from tacit.posterior.numerics.infer import infer
from tacit.posterior.numerics.metropolis.kernel import MetropolisKernel
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.populations.laws import NormalVariance
from tacit.posterior.numerics.priors import Uniform
from tacit.posterior.numerics.statistics import OrderStatistic, Power

SD, PEOPLE, SEEN = 0.05, 100, 1.13
RELEASE = NoisyStatistic(Power(1.0), (-10.0, 10.0), PEOPLE, NoiseLaw("gaussian", SD), [SEEN])
LOW, HIGH = 0.0, 100.0


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    _iterations(outcome)
    ours = _effective(outcome, quick)
    peers = {}
    for name, work in (("emcee", _emcee), ("NumPyro NUTS", _numpyro)):
        try:
            peers[name] = work(quick)
        except ImportError:
            outcome.rows.append({"what": f"{name}: not installed"})
            continue
        outcome.rows.append({"what": f"{name}, effective samples/s", "value": peers[name]})
    best = max(peers.values(), default=math.nan)
    outcome.check("effective samples a second over the best peer", ours / best, "≥ 5",
                  len(peers) == 2 and ours >= 5.0 * best)  # fmt: skip
    _others(outcome, quick)
    _smooth(outcome)
    return outcome


def _iterations(outcome: Outcome) -> None:
    prior = Uniform(LOW, HIGH)

    def work() -> Any:
        return infer(RELEASE, NormalVariance(), prior, "mh", chains=1, draws=99_000, warmup=1000,
                     rng=generator(1))  # fmt: skip

    seconds = median_seconds(work, 5)
    outcome.rows.append({"what": "10⁵ MH iterations, from release to diagnostics", "s": seconds})
    outcome.check("10⁵ MH iterations, seconds", seconds, "< 0.5", seconds < 0.5)


def _effective(outcome: Outcome, quick: bool) -> float:
    kernel = MetropolisKernel("mh", [RELEASE], NormalVariance(), [Uniform(LOW, HIGH)])
    rng = generator(2)
    states = [kernel.run(rng, kernel.init(rng), 1000, adapt=True)[0] for _ in range(4)]
    started = time.perf_counter()
    chains = [
        kernel.run(rng, state, 20_000 if quick else 100_000)[1].draws[:, 0] for state in states
    ]
    seconds = time.perf_counter() - started
    rate = effective_samples(np.array(chains)) / seconds
    outcome.rows.append({"what": "tacit mh, effective samples/s", "value": rate})
    return rate


def log_posterior(np: Any) -> Callable[[Any], Any]:
    """Return the log posterior of log θ, with the half-normal's moments, for an array library."""
    a, b = math.sqrt(2.0 / math.pi), (1.0 - 2.0 / math.pi) / PEOPLE

    def value(eta: Any) -> Any:
        theta = np.exp(eta)
        variance = b * theta + SD**2
        gap = SEEN - a * np.sqrt(theta)
        log = eta - 0.5 * gap * gap / variance - 0.5 * np.log(variance)
        return np.where(theta < HIGH, log, -np.inf)

    return value


def _emcee(quick: bool) -> float:
    import emcee

    log = log_posterior(np)
    sampler = emcee.EnsembleSampler(32, 1, lambda eta: log(eta[:, 0]), vectorize=True)
    start = math.log(2.0) + 0.2 * generator(3).standard_normal((32, 1))
    state = sampler.run_mcmc(start, 200)
    sampler.reset()
    started = time.perf_counter()
    sampler.run_mcmc(state, 500 if quick else 3000)
    seconds = time.perf_counter() - started
    return effective_samples(np.exp(sampler.get_chain()[:, :, 0].T)) / seconds


def _numpyro(quick: bool) -> float:
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    log = log_posterior(jnp)
    draws = 1000 if quick else 5000
    sampler = MCMC(NUTS(potential_fn=lambda eta: -log(eta)), num_warmup=500, num_samples=draws,
                   num_chains=4, chain_method="vectorized", progress_bar=False)  # fmt: skip
    start = jnp.full((4,), math.log(2.0))
    sampler.run(jax.random.PRNGKey(0), init_params=start)  # compiles
    sampler.post_warmup_state = sampler.last_state
    sampler.run(jax.random.PRNGKey(1))  # compiles what follows warm-up
    sampler.post_warmup_state = sampler.last_state
    started = time.perf_counter()
    sampler.run(jax.random.PRNGKey(2))
    found = np.exp(np.asarray(sampler.get_samples(group_by_chain=True)))
    return effective_samples(found) / (time.perf_counter() - started)


def _others(outcome: Outcome, quick: bool) -> None:
    """Microseconds an iteration of the particle samplers, for the record."""
    noisy = NoisyStatistic(Power(1.0), (-10.0, 10.0), PEOPLE, NoiseLaw("laplace", SD), [SEEN])
    median = NoisyStatistic(
        OrderStatistic(0.5, Power(1.0)),
        (-10.0, 10.0),
        PEOPLE,
        NoiseLaw("smooth", 5.0, 0.25),
        [0.9],
    )
    for name, release in (("pseudo-marginal", noisy), ("correlated", noisy), ("mhaar-rb", noisy),
                          ("gibbs", noisy), ("mhaar", median)):  # fmt: skip
        kernel = MetropolisKernel(name, [release], NormalVariance(), [Uniform(LOW, HIGH)])
        rng = generator(4)
        state, _ = kernel.run(rng, kernel.init(rng), 200, adapt=True)
        count = 300 if quick or name == "mhaar" else 20_000
        started = time.perf_counter()
        kernel.run(rng, state, count)
        spent = time.perf_counter() - started
        outcome.rows.append({"what": f"{name}, N = {kernel.particles}",
                             "µs/iteration": spent / count * 1e6})  # fmt: skip


def _smooth(outcome: Outcome) -> None:
    size, worst = 100_000, 0.0
    rng = generator(5)
    data = {"uniform": np.sort(rng.random(size)), "tied": np.zeros(size),
            "two heaps": np.repeat([0.0, 1.0], size // 2)}  # fmt: skip
    for name, values in data.items():
        for beta in (1e-5, 1e-2, 0.3):
            seconds = median_seconds(lambda v=values, b=beta: smooth_sensitivity(
                v, size // 2, b, 0.0, 1.0), 3)  # fmt: skip
            worst = max(worst, seconds)
            outcome.rows.append(
                {"what": f"smooth sensitivity, {name}, β = {beta:g}", "s": seconds}
            )
    outcome.check("smooth sensitivity of the median, n = 100,000, worst seconds", worst, "< 1",
                  worst < 1.0)  # fmt: skip
