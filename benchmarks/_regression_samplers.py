"""The samplers' half of the regression benchmark: time per iteration, effective samples a second.

Fast rejection is not speed: every time is taken after warm-up, at the acceptance the sampler
adapted to, and stands beside the smallest number of effective samples a second over coefficients.

**Whole posteriors**: seconds of processor time of `posterior` as it is by default, warm, and the
least effective draws of a coefficient. Alike sites are added up; the last row has sites that are
not.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from experiments.runner import Outcome
from tacit._core.chains import effective_samples
from tacit._core.rng import generator
from tacit.regression.numerics.bernstein_sheldon import MomentSampler
from tacit.regression.numerics.hamiltonian.kernel import TiedGramSampler
from tacit.regression.numerics.moments import Moments, Prior
from tacit.regression.numerics.posterior import posterior
from tacit.regression.numerics.wishart.kernel import SiteGramSampler

# (d, J), as in Figure 7.2
SHAPES = [(d, j) for j in (1, 5, 10) for d in (1, 2, 5, 10, 20)]
KINDS = ("MCMC-normalX", "MCMC-fixedS", "MCMC-B&S", "auto")


# (d, J): seconds of a whole posterior, with at least so many effective draws of every coefficient
WHOLE, EFFECTIVE = {(14, 10): 2.0, (20, 30): 10.0, (50, 30): 60.0}, 400


def problem(
    d: int, sites: int, rows: int = 5000, noise: float = 40.0, *, alike: bool = True
) -> list[Moments]:
    """Return noisy moments of sites with eigenvalues from 0.05 to 1, all in one basis or not."""
    rng = generator(d * 100 + sites, "benchmark")
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = turn * np.sqrt(np.geomspace(0.05, 1.0, d))
    beta = rng.standard_normal(d) / math.sqrt(d)
    out = []
    for _ in range(sites):
        if not alike:
            root = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.sqrt(
                np.geomspace(0.05, 1.0, d)
            )
        x = rng.standard_normal((rows, d)) @ root.T
        m = Moments.of(x, x @ beta + 0.3 * rng.standard_normal(rows))
        draw = noise * rng.standard_normal((d, d))
        out.append(
            Moments(
                m.gram + 0.5 * (draw + draw.T),
                m.cross + noise / math.sqrt(2.0) * rng.standard_normal(d),
                rows,
                (m.square or 0.0) + noise * rng.standard_normal(),
                noise, noise / math.sqrt(2.0), noise,
            )
        )  # fmt: skip
    return out


def sampler(kind: str, moments: list[Moments]) -> Any:
    """Return the kernel of a method."""
    if kind == "MCMC-B&S":
        return MomentSampler(moments, Prior(sd=1.0))
    if kind == "auto":
        return TiedGramSampler(moments, Prior(sd=1.0))
    return SiteGramSampler(moments, Prior(sd=1.0), fixed=kind == "MCMC-fixedS")


def measure(kind: str, d: int, sites: int, iterations: int) -> dict[str, Any]:
    """Return one row: microseconds an iteration, acceptance, effective samples a second."""
    kernel = sampler(kind, problem(d, sites))
    rng = generator(1, kind)
    chains = 4 if kernel.in_step else 1
    start = kernel.init(rng, chains) if kernel.in_step else kernel.init(rng)
    state, _ = kernel.run(rng, start, iterations, adapt=True)
    times, parts, rates = [], [], []
    for _ in range(5):
        started = time.perf_counter()
        state, info = kernel.run(rng, state, iterations)
        times.append(time.perf_counter() - started)
        parts.append(info.coefficients)
        rates.append(info.acceptance)
    drawn = np.concatenate([part.reshape(chains, iterations, d) for part in parts], axis=1)
    effective = min(effective_samples(drawn[:, :, k]) for k in range(d))
    wishart, gaussian, own = (
        float(np.mean([rate.get(kind, np.nan) for rate in rates]))
        for kind in ("S, Wishart", "S, Gaussian", "own")
    )
    return {
        "what": kind, "d": d, "J": sites,
        "µs/iteration": float(np.median(times)) / (iterations * chains) * 1e6,
        "acceptance, Wishart": wishart, "acceptance, Gaussian": gaussian,
        "acceptance, trajectories": own,
        "effective samples/s": effective / sum(times),
    }  # fmt: skip


def whole_posteriors(outcome: Outcome, quick: bool) -> None:
    """Add the rows of whole posteriors, and their bars."""
    posterior(problem(2, 2), draws=10, rng=generator(0))  # compile
    shapes = list(WHOLE)[: 2 if quick else 3]
    for (d, sites), alike in [*((shape, True) for shape in shapes), ((14, 10), False)]:
        moments = problem(d, sites, alike=alike)
        began = time.process_time()
        found = posterior(moments, rng=generator(1, "whole"))
        seconds = time.process_time() - began
        effective = float(found.diagnostics["effective_samples"].min())
        outcome.add({
            "what": "posterior, alike sites" if alike else "posterior, unlike sites", "d": d,
            "J": sites, "summaries": found.diagnostics["summaries"], "s": seconds,
            "least effective draws": effective,
        })  # fmt: skip
        if alike:
            bar = WHOLE[d, sites]
            outcome.check(
                f"posterior of d = {d}, J = {sites}, s ({effective:.0f} effective draws)", seconds,
                f"≤ {bar:g} at ≥ {EFFECTIVE} effective draws",
                seconds <= bar and effective >= EFFECTIVE,
            )  # fmt: skip


def samplers(outcome: Outcome, quick: bool) -> None:
    """Add the rows of Figure 7.2 and the bar on MCMC-normalX at d = 10, J = 5."""
    shapes = [(2, 1), (5, 5), (10, 5)] if quick else SHAPES
    for d, sites in shapes if (10, 5) in shapes else [*shapes, (10, 5)]:
        for kind in KINDS:
            row = measure(kind, d, sites, 400 if quick else 2000)
            outcome.add(row)
            if kind == "MCMC-normalX" and (d, sites) == (10, 5):
                outcome.check(
                    "MCMC-normalX at d = 10, J = 5, µs an iteration "
                    f"(acceptance {row['acceptance, Wishart']:.2f}, target 0.25)",
                    row["µs/iteration"], "≤ 100 at its target acceptance",
                    row["µs/iteration"] <= 100 and row["acceptance, Wishart"] > 0.15,
                )  # fmt: skip
