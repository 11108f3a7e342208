"""Posteriors of 100 to 100,000 people: seconds, effective draws and coverage of the default fit.

Every statistic with every mechanism that releases it, from drawing the noise to independent draws
of the posterior. Truths are drawn from the prior, so that a 90 % interval holds the truth nine
times in ten whatever the noise is; over all cases of one size together the share is known well.

**Seconds** of its own process are those of a whole `PrivatePosterior.fit` with the defaults
(4 chains of 2,000 draws); the machine may be shared. **Effective draws** count what the 8,000
draws are worth. Sampling people is not timed.

**Beside the default** at three sizes: averaged acceptance ratios over simulated people (thesis
Algorithm 12, `sampler="mhaar"`), whose steps cost in proportion to people, on one mean.

Bars: a default fit takes less than 30 s at every size; 90 % intervals hold the truth as often as
they say at every size and for every statistic (an exact binomial test at 0.0005: there are two
dozen of them); the default's effective draws a second are at least a hundred times the iterations
a second over simulated people.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import tacit as tc
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.posterior import (
    Bernoulli,
    Beta,
    Custom,
    Exponential,
    Gamma,
    Normal,
    NormalMean,
    NormalVariance,
    Poisson,
    UniformWidth,
)
from tacit.posterior.numerics.metropolis.kernel import MetropolisKernel

SIZES = (100, 1000, 10_000, 100_000)
LEVEL, EPSILON, DELTA, RARE = 0.9, 1.0, 1e-6, 5e-4


class Case(NamedTuple):
    """What is released of whom."""

    population: Any
    prior: Any
    bounds: tuple[float, float]
    statistic: Any
    mechanism: str
    trust: str = "central"

    @property
    def name(self) -> str:
        """Law, statistic and mechanism."""
        statistic = getattr(self.statistic, "name", self.statistic)
        local = ", each person's own" if self.trust == "local" else ""
        return f"{type(self.population).__name__}, {statistic}, {self.mechanism}{local}"


def _pair(x: Any) -> Any:
    return np.stack([np.abs(x), x * x], axis=-1)


PAIR = Custom(_pair, [(0.0, 10.0), (0.0, 100.0)], "|x| and x^2")
MEAN = NormalMean(2.0), Normal(2.0, 1.5), (-10.0, 15.0)
VARIANCE = NormalVariance(), Gamma(4.0, 0.5), (-10.0, 10.0)
WIDTH = UniformWidth(), Gamma(9.0, 0.4), (-10.0, 10.0)
SHARE = Bernoulli(), Beta(2.0, 3.0), (0.0, 1.0)
WAIT = Exponential(), Gamma(9.0, 0.3), (0.0, 15.0)
COUNT = Poisson(), Gamma(9.0, 0.4), (0.0, 20.0)

CASES = (
    Case(*MEAN, "mean", "laplace"), Case(*MEAN, "mean", "gaussian"),
    Case(*MEAN, "median", "exponential"), Case(*MEAN, "median", "smooth"),
    Case(*MEAN, "mean", "laplace", "local"), Case(*MEAN, "mean", "gaussian", "local"),
    Case(*VARIANCE, "|x|", "laplace"), Case(*VARIANCE, "|x|^0.5", "gaussian"),
    Case(*VARIANCE, "median |x|", "exponential"), Case(*VARIANCE, PAIR, "gaussian"),
    Case(*VARIANCE, PAIR, "laplace"),
    Case(*WIDTH, "|x|", "laplace"), Case(*WIDTH, "maximum |x|", "exponential"),
    Case(*SHARE, "mean", "laplace"),
    Case(*SHARE, "mean", "randomized-response", "local"),
    Case(*WAIT, "mean", "laplace"), Case(*WAIT, "quantile 0.8", "exponential"),
    Case(*WAIT, "quantile 0.8", "smooth"),
    Case(*COUNT, "mean", "laplace"), Case(*COUNT, "median", "exponential"),
)  # fmt: skip


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    _defaults(outcome, quick)
    _people(outcome, quick)
    return outcome


def _defaults(outcome: Outcome, quick: bool) -> None:
    sizes = (100, 100_000) if quick else SIZES
    runs = 2 if quick else 25
    held: dict[tuple[str, Any], list[int]] = {}
    slowest: dict[int, tuple[float, str]] = {}
    for size in sizes:
        for case in CASES:
            found = [_fit(case, size, k) for k in range(runs)]
            hits = sum(inside for _, _, inside in found)
            seconds = [took for took, _, _ in found]
            for key in (("n", size), ("statistic", case.name)):
                tally = held.setdefault(key, [0, 0])
                tally[0] += hits
                tally[1] += runs
            worst = max(seconds[1:])  # the first of a kind compiles
            slowest[size] = max(slowest.get(size, (0.0, "")), (worst, case.name))
            draws = min(effective for _, effective, _ in found)
            outcome.add({"n": size, "release": case.name, "seconds": float(np.median(seconds)),
                         "slowest": worst, "first": seconds[0], "effective draws": draws,
                         "held": f"{hits} of {runs}"})  # fmt: skip
    for size in sizes:
        took, name = slowest[size]
        outcome.check(f"n = {size}: seconds of the slowest default fit ({name})", took, "< 30",
                      took < 30.0)  # fmt: skip
    for (kind, key), (hits, count) in held.items():
        chance = float(stats.binomtest(hits, count, LEVEL).pvalue)
        outcome.check(f"{kind} = {key}: 90 % intervals that hold the truth", f"{hits} of {count}",
                      f"no less likely than {RARE}", chance >= RARE)  # fmt: skip


def _fit(case: Case, size: int, which: int) -> tuple[float, float, bool]:
    """Return seconds, effective draws, and whether the interval holds the truth."""
    rng = generator(which, f"{case.name} {size}")
    theta = case.prior.sample(rng, 1)
    x = case.population.simulate(theta, rng.standard_normal(size))
    delta = 0.0 if case.mechanism in ("randomized-response", "exponential") else DELTA
    privacy = tc.Privacy(EPSILON, delta, neighbours="replace-one", trust=case.trust)
    model = tc.PrivatePosterior(
        case.population, case.statistic, bounds=case.bounds, prior=case.prior,
        mechanism=case.mechanism, privacy=privacy, noise="grid", random_state=which,
    )  # fmt: skip
    started = time.process_time()
    model.fit(x)
    seconds = time.process_time() - started
    low, high = model.interval(LEVEL)[0]
    effective = min(model.posterior_.diagnostics["effective_samples"])
    return seconds, effective, bool(low < theta[0] < high)


def _people(outcome: Outcome, quick: bool) -> None:
    """Effective draws a second of the default and of samplers that simulate people."""
    case = CASES[6]
    ratios = {}
    for size in (1000,) if quick else (1000, 10_000):
        rng = generator(1, f"people {size}")
        x = case.population.simulate(np.array([2.0]), rng.standard_normal(size))
        privacy = tc.Privacy(EPSILON, DELTA, neighbours="replace-one")
        model = tc.PrivatePosterior(
            case.population, case.statistic, bounds=case.bounds, prior=case.prior,
            mechanism=case.mechanism, privacy=privacy, noise="grid", random_state=1,
        ).fit(x)  # fmt: skip
        rates = {}
        started = time.process_time()
        model.infer()
        effective = model.posterior_.diagnostics["effective_samples"][0]
        rates["inversion"] = effective / (time.process_time() - started)
        kernel = MetropolisKernel("mhaar", [model.released_], case.population, [case.prior])
        state, _ = kernel.run(rng, kernel.init(rng), 20, adapt=True)
        started = time.process_time()
        draws = max(40, 200_000 // size)
        _, info = kernel.run(rng, state, draws, adapt=True)
        # as if every iteration were worth a draw: more than it can be
        rates["mhaar"] = draws / (time.process_time() - started)
        ratios[size] = rates["inversion"] / rates["mhaar"]
        outcome.add({"n": size, "release": case.name,
                     "effective draws a second": rates["inversion"],
                     "iterations of Algorithm 12 a second": rates["mhaar"],
                     "acceptance": info.acceptance})  # fmt: skip
    worst = min(ratios.values())
    outcome.check("effective draws a second: the default's over iterations of Algorithm 12", worst,
                  "≥ 100", worst >= 100.0)  # fmt: skip
