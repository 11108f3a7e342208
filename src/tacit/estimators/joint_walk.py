"""How factors move along noisy gradients: scales, priors, step sizes, averages.

Everything here is post-processing of what a site or the coordinator holds already.

**Step sizes.** With ``step=None`` the step of a factor is reach·s·√d / √(Σ_k ‖ĝ_k‖²) over the
released gradients ĝ_k so far (AdaGrad in its norm form), d their size and s the factor's public
scale: it needs no knowledge of how much data there is, which is private. Otherwise κ_t = κ₀/t^ρ.
The noise of a release doubles as Langevin noise; inference noise fills up to the variance 2κ_t.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.rng import generator
from tacit.estimators.joint import Problem
from tacit.models.structure import CoupledModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.estimators.joint_langevin import Langevin

    Arrays = dict[str, NDArray[np.float64]]

__all__ = [
    "TYPICAL",
    "Walk",
    "combinations_of",
    "factor_scales",
    "fixed_columns",
    "fresh_values",
    "relation_scale",
    "relation_weight",
]

TYPICAL = 0.4  # a typical estimate on values mapped to [−1, 1]


def combinations_of(model: CoupledModel, relation: str) -> int:
    """Return the number of combinations of a relation's latent indices."""
    letters = {k for _, latents in model.forms[relation] for k in latents}
    return math.prod(model.ranks[k] for k in letters)


def relation_scale(problem: Problem, relation: str) -> float:
    """Return the public scale of a relation's factor entries.

    Normal: Σ over R combinations of products of P independent entries of variance s² has the
    variance R·s^(2P), that of a typical estimate. KL: R·s^P is a quarter of the way up the bounds.
    """
    factors = len(problem.model.forms[relation])
    combinations = combinations_of(problem.model, relation)
    if problem.model.powers[relation] == 0.0:
        return float((TYPICAL / math.sqrt(combinations)) ** (1.0 / factors))
    low, high = problem.bounds.get(relation, (0.0, 4.0))
    return float(((low + (high - low) / 4.0) / combinations) ** (1.0 / factors))


def relation_weight(problem: Problem, relation: str, low: float, high: float) -> float:
    """Return 1/φ for values mapped to [−1, 1] (Normal), or as they are (KL)."""
    phi = float(problem.model.dispersions[relation])
    half = (high - low) / 2.0
    return half * half / phi if problem.model.powers[relation] == 0.0 else 1.0 / phi


def factor_scales(problem: Problem) -> dict[str, float]:
    """Return the public scale of every factor, from the first relation that names it."""
    scales: dict[str, float] = {}
    for relation in sorted(problem.model.forms, key=lambda name: name not in problem.bounds):
        for factor in problem.model.names(relation):
            scales.setdefault(factor, relation_scale(problem, relation))
    return scales


def fixed_columns(method: Langevin, problem: Problem, factor: str) -> dict[int, float]:
    """Return the columns of a factor that are held constant, with their values.

    Column 0 of the protected entity and column 1 of every factor beside it are ones: column 0 of
    the others then holds their offsets, and column 1 of the protected entity its own.
    """
    if not method.has_offsets(problem):
        return {}
    if factor == problem.protected:
        return {0: 1.0}
    beside = any(
        factor in problem.model.names(name) and problem.protected in problem.model.names(name)
        for name in problem.model.forms
    )
    return {1: 1.0} if beside else {}


class Walk:
    """Factors that move along noisy gradients, and the average of where they were.

    Parameters
    ----------
    method, problem
        What is public.
    values
        Where the factors start.
    seed
        Of the inference noise; every round has a stream of its own, so that a resumed run draws
        what it would have drawn.
    """

    def __init__(self, method: Langevin, problem: Problem, values: Arrays, seed: int) -> None:
        self.method, self.values, self.seed = method, values, seed
        self.scales = factor_scales(problem)
        self.real = 0.0 in problem.model.powers.values()
        self.sizes = None if (steps := method.published(problem)) is None else steps.sizes
        self.norms = dict.fromkeys(values, 0.0)
        self.sums = {name: np.zeros_like(theta) for name, theta in values.items()}
        self.averaged = 0
        self.first = int(method.burn_in * method.rounds)
        self.free: Arrays = {}
        for name, theta in values.items():
            self.free[name] = np.ones_like(theta)
            for column, value in fixed_columns(method, problem, name).items():
                self.free[name][:, column] = 0.0
                theta[:, column] = value

    def step_size(self, name: str, round: int, gradient: NDArray[np.float64]) -> float:
        """Return κ_t of one factor, given its gradient in this round."""
        if self.sizes is not None:
            return self.sizes[round]
        if self.method.step is not None:
            return float(self.method.step / (round + 1) ** self.method.decay)
        self.norms[name] += float(np.square(gradient).sum())
        reach = self.method.reach * self.scales[name] * math.sqrt(self.free[name].sum())
        return reach / math.sqrt(self.norms[name]) if self.norms[name] > 0.0 else 0.0

    def _prior(self, name: str, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        scale, method = self.scales[name], self.method
        if self.real:
            return -method.precision / scale**2 * theta
        rate = method.shape / (method.mean * scale)
        if method.shape == 1.0:
            return np.full_like(theta, -rate)
        # near zero the drift 1/θ would throw an entry arbitrarily far
        return np.asarray((method.shape - 1.0) / np.maximum(theta, 0.1 * scale) - rate)

    def move(self, round: int, gradients: Mapping[str, Any], variance: float) -> None:
        """Take one step.

        Parameters
        ----------
        round
            Numbered from 0.
        gradients
            Factor → estimate of its gradient over all data.
        variance
            Of the noise that each of its numbers carries already.
        """
        rng = generator(self.seed, f"round {round}")
        for name in gradients:
            theta, free = self.values[name], self.free[name]
            total = (gradients[name] + self._prior(name, theta)) * free
            size = self.step_size(name, round, total)
            moved = theta + size * total
            lacking = 2.0 * size - size * size * variance
            if self.method.langevin and self.sizes is None and lacking > 0.0:
                moved += math.sqrt(lacking) * rng.standard_normal(theta.shape) * free
            if not self.real:
                moved = np.maximum(np.abs(moved), 1e-12)
            self.values[name] = moved
            if round >= self.first:
                self.sums[name] += moved
        self.averaged += round >= self.first

    def average(self) -> Arrays:
        """Return the average of the iterates after the burn-in."""
        if not self.averaged:
            return {name: theta.copy() for name, theta in self.values.items()}
        return {name: total / self.averaged for name, total in self.sums.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what has to survive a restart."""
        found: dict[str, NDArray[Any]] = {"averaged": np.array([self.averaged])}
        for name in self.values:
            found[f"value/{name}"] = self.values[name]
            found[f"sum/{name}"] = self.sums[name]
            found[f"norm/{name}"] = np.array([self.norms[name]])
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        self.averaged = int(state["averaged"][0])
        for name in self.values:
            self.values[name] = state[f"value/{name}"].copy()
            self.sums[name] = state[f"sum/{name}"].copy()
            self.norms[name] = float(state[f"norm/{name}"][0])


def fresh_values(
    problem: Problem, shapes: Mapping[str, tuple[int, int]], rng: np.random.Generator
) -> Arrays:
    """Return random factors of their public scale."""
    scales = factor_scales(problem)
    if 0.0 in problem.model.powers.values():
        return {n: scales[n] * rng.standard_normal(shape) for n, shape in shapes.items()}
    return {n: scales[n] * rng.uniform(0.5, 1.5, shape) for n, shape in shapes.items()}
