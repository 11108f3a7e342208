"""The samplers' half of the regression benchmark: time per iteration, effective samples a second.

Fast rejection is not speed: every time is taken after warm-up, at the acceptance the sampler
adapted to, and stands beside the smallest number of effective samples a second over coefficients.
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
from tacit.regression.numerics.wishart.kernel import SiteGramSampler

# (d, J), as in Figure 7.2
SHAPES = [(d, j) for j in (1, 5, 10) for d in (1, 2, 5, 10, 20)]
KINDS = ("MCMC-normalX", "MCMC-fixedS", "MCMC-B&S", "auto")


def problem(d: int, sites: int, rows: int = 5000, noise: float = 40.0) -> list[Moments]:
    """Return noisy moments of sites with eigenvalues from 0.05 to 1."""
    rng = generator(d * 100 + sites, "benchmark")
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    root = turn * np.sqrt(np.geomspace(0.05, 1.0, d))
    beta = rng.standard_normal(d) / math.sqrt(d)
    out = []
    for _ in range(sites):
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
    state, _ = kernel.run(rng, kernel.init(rng), iterations, adapt=True)
    times, parts, rates = [], [], []
    for _ in range(5):
        started = time.perf_counter()
        state, info = kernel.run(rng, state, iterations)
        times.append(time.perf_counter() - started)
        parts.append(info.coefficients)
        rates.append(info.acceptance)
    chain = np.concatenate(parts)
    effective = min(effective_samples(chain[None, :, k]) for k in range(d))
    wishart, gaussian, own = (
        float(np.mean([rate.get(kind, np.nan) for rate in rates]))
        for kind in ("S, Wishart", "S, Gaussian", "own")
    )
    return {
        "what": kind, "d": d, "J": sites,
        "µs/iteration": float(np.median(times)) / iterations * 1e6,
        "acceptance, Wishart": wishart, "acceptance, Gaussian": gaussian,
        "acceptance, trajectories": own,
        "effective samples/s": effective / sum(times),
    }  # fmt: skip


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
