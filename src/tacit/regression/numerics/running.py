"""Running the chains of a sampler: warm-up, draws, and whether they agree.

Chains of ``auto`` go in step; those of other samplers one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.chains import effective_samples, r_hat

__all__ = ["Plan", "run"]

AGREED, EXTENSIONS = 1.1, 2  # R-hat up to which chains agree; how often they are extended
ENOUGH = 1000  # effective draws of every coefficient: a quantile's tail is right to 0.7 per cent


class Plan(NamedTuple):
    """How much is sampled, with which randomness, and who is told of it."""

    chains: int
    draws: int
    warmup: int
    thin: int | None
    rng: np.random.Generator
    progress: Callable[[int], None]


def run(kernel: Any, plan: Plan, thin: int) -> tuple[Array, Array, dict[str, Any]]:
    """Run the chains, in step or one after the other, and look at how they mixed.

    Where they do not agree, what was drawn counts as warm-up, and the chains go on with twice
    the iterations per draw, up to `EXTENSIONS` times; unless the caller said how many. Returns
    draws of β and of σ², and how they were made.
    """
    rng = plan.rng
    groups = [plan.chains] if kernel.in_step else [1] * plan.chains
    states = []
    for chains in groups:
        state = kernel.init(rng, chains) if kernel.in_step else kernel.init(rng)
        for part in _parts(plan.warmup, chains):
            if part:
                state, _ = kernel.run(rng, state, part, adapt=True, thin=thin)
            plan.progress(1)
        states.append(state)
    extended = plan.thin is None and plan.chains > 1
    for extension in range(EXTENSIONS + 1 if extended else 1):
        thin = 2 * thin if extension else thin
        runs = []
        for index, chains in enumerate(groups):
            told = (lambda done: None) if extension else plan.progress
            drawn = _drawn(kernel, plan, states[index], thin, chains, told)
            states[index] = drawn[0]
            runs.append(drawn[1:])
        infos = [info for run in runs for info in run[2]]
        coefficients, scales = (np.concatenate([run[k] for run in runs]) for k in (0, 1))
        each = [coefficients[:, :, k] for k in range(coefficients.shape[2])]
        hats = [r_hat(c) for c in each]
        if max(hats) <= AGREED:
            break
    variance = np.exp(scales[:, :, 0])
    by_kind = {
        kind: float(np.mean([info.acceptance.get(kind, 0.0) for info in infos]))
        for kind in infos[0].acceptance
    }
    diagnostics = {
        "r_hat": np.array(hats),
        "effective_samples": np.array([effective_samples(c) for c in each]),
        "converged": bool(max(hats) <= AGREED),
        "r_hat_noise_variance": r_hat(variance),
        "acceptance": by_kind,
        "iterations": coefficients.shape[1] * thin,
        "warmup": plan.warmup * thin,
        "thin": thin,
    }
    return coefficients, variance, diagnostics


def _drawn(
    kernel: Any,
    plan: Plan,
    state: Any,
    thin: int,
    chains: int,
    progress: Callable[[int], None],
) -> tuple[Any, Array, Array, list[Any]]:
    """Return a state after drawing, β and scales, (chains, draws, …), and what was seen.

    Where chains go in step their draws are looked at on the way: they are enough as soon as every
    coefficient has `ENOUGH` effective ones.
    """
    infos, found = [], []
    parts = _parts(plan.draws, chains)
    for done, part in enumerate(parts, 1):
        if part == 0:
            continue
        state, info = kernel.run(plan.rng, state, part, thin=thin)
        infos.append(info)
        found = [
            np.concatenate(
                [np.reshape(one[k], (chains, -1, one[k].shape[-1])) for one in infos], 1
            )
            for k in (0, 1)
        ]
        enough = chains > 1 and done < chains and found[0].shape[1] * chains >= ENOUGH
        if enough and min(map(effective_samples, found[0].transpose(2, 0, 1))) >= ENOUGH:
            progress(chains - done + 1)
            break
        progress(1)
    return state, found[0], found[1], infos


def _parts(count: int, parts: int) -> list[int]:
    """Return about equal parts of a count: where chains go in step, progress is told so often."""
    return [count * (k + 1) // parts - count * k // parts for k in range(parts)]
