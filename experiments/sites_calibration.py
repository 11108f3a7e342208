"""Posteriors over sites are calibrated: ranks of truths from the prior, at ε = ∞, 10 and 1.

Simulation-based calibration (Talts et al. 2018): factors are drawn from their prior, data from the
model, sites fit with privacy, and the rank of a truth among the draws must be uniform. Every fit
holds many blocks of members and items that share nothing, so each is a model of its own. Ranks are
those of an expected value at a site and, for Langevin dynamics, of a shared factor's entry (its
size: signs of a rank-one model are free).

Counts perturbed locally (``method="local"``) have an exact sampler. Langevin dynamics
(``method="sgld"``) needs rows that are drawn, contributions that are hardly clipped, and steps κ
whose privacy noise is no more than a Langevin step's own, κ ≤ 2/(J·σ²) for J sites: how far the
chain can go, κ·T, is then at most μ²/(J·G²) whatever the number of rounds T, since σ² grows with
T. A posterior with few members per item is out of reach at a small ε, one with thousands is not.
Solved rows are the control: they follow the profile likelihood, and are not calibrated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

import tacit as tc
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.factorization import Langevin, LocalCounts
from tacit.privacy.calibration import gaussian_noise_multiplier

ITEMS, SITES, DELTA = 4, 2, 1e-5
NOISE, PRECISION = 0.2, 4.0  # standard deviation of a value; of the prior, relative to its scale
CLIP = 5.0


def run(quick: bool) -> Outcome:
    """Run both methods and the control."""
    outcome = Outcome()
    for epsilon in (math.inf, 10.0, 1.0):
        ranks = {"expected value": counted_ranks(epsilon, 150 if quick else 600)}
        _report(outcome, "local", epsilon, ranks, 7)
    sizes = {math.inf: (3, 200), 10.0: (100, 80), 1.0: (2000, 12)}
    if not quick:
        sizes = {math.inf: (3, 1000), 10.0: (100, 300), 1.0: (3000, 40)}
    for epsilon, (members, blocks) in sizes.items():
        ranks = langevin_ranks(epsilon, members, blocks)
        _report(outcome, "sgld", epsilon, ranks, 10)
    solved = langevin_ranks(math.inf, 30, 100, rows="solved")
    _report(outcome, "sgld, rows solved (control)", math.inf, solved, 10, control=True)
    return outcome


def _report(
    outcome: Outcome,
    method: str,
    epsilon: float,
    ranks: Any,
    draws: int,
    control: bool = False,
) -> None:
    for what, found in ranks.items():
        p = float(stats.chisquare(np.bincount(found, minlength=draws + 1)).pvalue)
        mean = float(np.mean(found)) / draws
        outcome.add({"method": method, "ε": epsilon, "of": what, "ranks": len(found),
                     "mean rank": mean, "p": p})  # fmt: skip
        name = f"{method}, ε = {epsilon:g}, {what}: p of uniform ranks"
        if not control:
            outcome.check(name, p, "> 0.001", p > 1e-3)
        elif what == "shared factor":
            outcome.check(name, p, "< 1e-6 (noticed)", p < 1e-6)


def _ten(draws: Any) -> Any:
    """Return ten draws, evenly apart."""
    return draws[np.linspace(len(draws) / 10.0 - 1.0, len(draws) - 1.0, 10).astype(int)]


def _blocks(members: int, blocks: int) -> Any:
    """Return the cells of blocks of members and items that share nothing."""
    block = np.array([[i, j] for i in range(members) for j in range(ITEMS)])
    return (np.arange(blocks)[:, None, None] * [members, ITEMS] + block).reshape(-1, 2)


def _sites(cells: Any, values: Any, shape: tuple[int, int]) -> list[tc.Site]:
    return [
        tc.Site(f"site {k}", tc.Relation.from_cells(("user", "item"), cells, own, shape=shape))
        for k, own in enumerate(values)
    ]


def counted_ranks(epsilon: float, blocks: int, seed: int = 1) -> Any:
    """Return the ranks of true rates among draws, from counts perturbed at every site."""
    rng, members, draws = generator(seed, "calibration"), 3, 7
    item = rng.gamma(2.0, 0.5, ITEMS * blocks)
    users = [rng.gamma(2.0, 0.5, members * blocks) for _ in range(SITES)]
    cells = _blocks(members, blocks)
    values = [rng.poisson(u[cells[:, 0]] * item[cells[:, 1]]) for u in users]
    asked = tc.Privacy(epsilon, unit="entry", trust="local")
    method = LocalCounts(shape=2.0, mean=1.0, burn_in=100, draws=draws, thin=30, own_effects=False)
    fitted = tc.PrivateFactorization(
        "user:k item:k", rank=1, divergence="kl", bounds=(0, 20), privacy=asked, method=method,
        random_state=seed,
    ).fit(_sites(cells, values, (members * blocks, ITEMS * blocks)))  # fmt: skip
    first = cells[:: members * ITEMS].astype(np.int32)
    drawn = fitted.parts_["site 0"].draws_at("data", first)
    return (drawn < users[0][first[:, 0]] * item[first[:, 1]]).sum(axis=0)


def langevin_ranks(
    epsilon: float,
    members: int,
    blocks: int,
    rows: str = "drawn",
    rounds: int | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Return the ranks of true expected values and shared entries among draws of the dynamics."""
    rng = generator(seed, "calibration")
    scale = math.sqrt(0.4 / PRECISION)  # `relation_scale` of a matrix of rank one
    item = scale * rng.standard_normal(ITEMS * blocks)
    users = [scale * rng.standard_normal(members * blocks) for _ in range(SITES)]
    cells = _blocks(members, blocks)
    values = [
        u[cells[:, 0]] * item[cells[:, 1]] + NOISE * rng.standard_normal(len(cells)) for u in users
    ]
    few = members < 10  # then entries are known so badly that they wander far
    rounds = rounds or (1200 if few else 400 if members < 1000 else 150)
    curvature = SITES * members * scale**2 / NOISE**2
    step = (0.1 if few else 0.3) / (curvature + 1.0 / scale**2)
    if math.isfinite(epsilon):
        noise = CLIP * gaussian_noise_multiplier(epsilon, DELTA, rate=1.0, steps=rounds)
        step = min(step, 2.0 / (SITES * noise**2))
    method = Langevin(
        rounds=rounds, clip=CLIP if math.isfinite(epsilon) else 1e6, step_size=step, decay=0.0,
        precision=PRECISION, rows=rows,
        start={"item": scale * rng.standard_normal((ITEMS * blocks, 1))},  # from the prior
    )  # fmt: skip
    fitted = tc.PrivateFactorization(
        "user:k item:k", rank=1, bounds=(-1, 1), dispersion=NOISE**2, method=method,
        privacy=tc.Privacy(epsilon, DELTA, unit="user", trust="site"), random_state=seed,
    ).fit(_sites(cells, values, (members * blocks, ITEMS * blocks)))  # fmt: skip
    first = cells[:: members * ITEMS].astype(np.int32)
    drawn = _ten(fitted.parts_["site 0"].draws_at("data", first))
    shared = np.abs(_ten(fitted.shared_["item draws"])[:, ::ITEMS, 0])
    return {
        "expected value": (drawn < users[0][first[:, 0]] * item[first[:, 1]]).sum(axis=0),
        "shared factor": (shared < np.abs(item[::ITEMS])).sum(axis=0),
    }
