"""How samplers mix: autocorrelation times of pseudo-marginal MH and averaged acceptance ratios.

Source: Alparslan (2023), Table 6.1 and Figure 6.3. N(0, θ) with θ = 2, |x|, A = 10, n = 100,
Laplace noise at ε = 5. The prior is flat on (0, 20).

**Proposal.** The thesis does not publish its scale. Here both samplers walk on log θ with the one
step 2.4 × the posterior's standard deviation of log θ, by quadrature, for every N; it was not
chosen by looking at the table. Times are averages over independent chains, for several releases.

**Figure 6.3.** Autocorrelation of Algorithm 12 for the median and the maximum at θ = 2,
(5, 1/n²), with 50 particles and an adapted step.

Bars: averaged acceptance ratios have the smaller time at every N, as published; both fall from the
smallest to the largest N.
"""

from __future__ import annotations

import math

import numpy as np

from experiments.runner import Outcome
from tacit._core.chains import autocorrelation, autocorrelation_time
from tacit._core.rng import generator
from tacit.posterior.numerics.metropolis.kernel import MetropolisKernel
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.populations.laws import NormalVariance
from tacit.posterior.numerics.priors import Uniform
from tacit.posterior.numerics.statistics import OrderStatistic, Power

PRINTED = {
    2: (44.03, 17.99), 5: (28.19, 17.10), 10: (21.11, 16.13), 20: (18.16, 15.44),
    50: (15.32, 13.78), 100: (16.42, 15.86),
}  # fmt: skip
BOUNDS, PEOPLE, THETA, EPSILON = (-10.0, 10.0), 100, 2.0, 5.0


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    _table(outcome, quick)
    _autocorrelations(outcome, quick)
    return outcome


def _table(outcome: Outcome, quick: bool) -> None:
    population, prior = NormalVariance(), Uniform(0.0, 20.0)
    law = NoiseLaw("laplace", 10.0 / (PEOPLE * EPSILON))
    planned = NoisyStatistic.planned(Power(1.0), BOUNDS, PEOPLE, law)
    draws, chains, releases = (10_000, 2, 1) if quick else (50_000, 4, 5)
    counts = (2, 10, 100) if quick else tuple(PRINTED)
    times: dict[tuple[str, int], list[float]] = {}
    for which in range(releases):
        rng = generator(which, "release")
        x = population.simulate(np.array([THETA]), rng.standard_normal(PEOPLE))
        release = planned.replace(planned.simulate(rng, x))
        exact = MetropolisKernel("mh", [release], population, [prior])
        weights = np.exp(exact.log_posterior - exact.log_posterior.max())
        mean = np.average(exact.eta, weights=weights)
        step = 2.4 * math.sqrt(np.average((exact.eta - mean) ** 2, weights=weights))
        for particles in counts:
            for sampler in ("pseudo-marginal", "mhaar-rb"):
                kernel = MetropolisKernel(
                    sampler, [release], population, [prior], particles=particles
                )
                for chain in range(chains):
                    rng = generator(chain, f"{sampler} {particles} {which}")
                    state = kernel.init(rng)._replace(step=step, walk=np.eye(1))
                    state, _ = kernel.run(rng, state, 2000)
                    _, info = kernel.run(rng, state, draws)
                    found = autocorrelation_time(info.draws[None, :, 0])
                    times.setdefault((sampler, particles), []).append(found)
    ordered = 0
    for particles in counts:
        printed = PRINTED[particles]
        pseudo, averaged = (np.array(times[s, particles]) for s in ("pseudo-marginal", "mhaar-rb"))
        gap = pseudo - averaged
        ordered += pseudo.mean() > averaged.mean()
        outcome.rows.append({
            "table": "6.1", "N": particles, "Algorithm 10": float(pseudo.mean()),
            "Algorithm 11": float(averaged.mean()),
            "standard error of the difference": float(gap.std(ddof=1) / math.sqrt(len(gap))),
            "printed": str(printed),
        })  # fmt: skip
    outcome.check("Table 6.1: N at which averaged acceptance ratios mix better", ordered,
                  f"{len(counts)} of {len(counts)}", ordered == len(counts))  # fmt: skip
    for name, sampler in (("Algorithm 10", "pseudo-marginal"), ("Algorithm 11", "mhaar-rb")):
        ends = [float(np.mean(times[sampler, n])) for n in (2, 100)]
        outcome.check(f"Table 6.1, {name}: time at N = 2 and 100", f"{ends[0]:.2f}, {ends[1]:.2f}",
                      "falls", ends[1] < ends[0])  # fmt: skip


def _autocorrelations(outcome: Outcome, quick: bool) -> None:
    population, prior = NormalVariance(), Uniform(0.0, 20.0)
    law = NoiseLaw("smooth", EPSILON, EPSILON / (2.0 * math.log(2.0 * PEOPLE**2)))
    draws, runs = (600, 1) if quick else (5000, 5)
    for level in (0.5, 1.0):
        statistic = OrderStatistic(level, Power(1.0))
        planned = NoisyStatistic.planned(statistic, BOUNDS, PEOPLE, law)
        found = []
        for which in range(runs):
            rng = generator(which, "order")
            x = population.simulate(np.array([THETA]), rng.standard_normal(PEOPLE))
            release = planned.replace(planned.simulate(rng, x))
            kernel = MetropolisKernel("mhaar", [release], population, [prior], particles=50)
            state, _ = kernel.run(rng, kernel.init(rng), draws // 4, adapt=True)
            _, info = kernel.run(rng, state, draws)
            found.append(autocorrelation(info.draws[:, 0], 50))
        mean = np.mean(found, axis=0)
        lags = {f"lag {k}": float(mean[k]) for k in (1, 5, 10, 20, 50)}
        outcome.rows.append({"figure": "6.3", "statistic": statistic.name, **lags})
        outcome.check(f"Figure 6.3, {statistic.name}: autocorrelation at lag 50", float(mean[50]),
                      "|·| ≤ 0.15", abs(float(mean[50])) <= 0.15)  # fmt: skip
