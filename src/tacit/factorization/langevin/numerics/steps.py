"""How factors move along noisy gradients: priors, step sizes, averages.

Everything here is post-processing of what a site or the coordinator holds already.

**Step sizes.** With ``step_size=None`` the step of a factor is reach·s·√d / √(Σ_k ‖ĝ_k‖²) over the
released gradients ĝ_k so far (AdaGrad in its norm form), d their size and s the factor's public
scale: it needs no knowledge of how much data there is, which is private. Otherwise κ_t = κ₀/t^ρ.
The noise of a release doubles as Langevin noise; inference noise fills up to the variance 2κ_t.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._core.rng import generator
from tacit.factorization.arrays import Arrays, Floats

__all__ = ["StepRule", "Walk"]


class StepRule(NamedTuple):
    """How factors move; all of it is public."""

    real: bool  # factors may be negative (normal prior), or not (gamma prior)
    scales: Mapping[str, float]  # the public scale of every factor
    fixed: Mapping[str, Mapping[int, float]]  # factor → columns held constant, with their values
    step_size: float | None  # κ₀ of κ_t = κ₀/t^ρ; without it steps adapt to the gradients
    decay: float  # ρ
    reach: float  # how far one adaptive step moves a factor, relative to its scale
    langevin: bool  # whether inference noise fills up to the variance 2κ_t
    first: int  # the round from which on iterates are averaged
    precision: float  # normal prior: of a factor entry, relative to its scale
    shape: float  # gamma prior, ≥ 1
    mean: float  # gamma prior, relative to the scale
    every: int = 1  # from one draw that is kept to the next, in rounds after the first


class Walk:
    """Factors that move along noisy gradients, and the average of where they were.

    The seed is that of the inference noise; every round has a stream of its own, so that a resumed
    run draws what it would have drawn.
    """

    def __init__(self, rule: StepRule, values: Arrays, seed: int) -> None:
        self.rule, self.values, self.seed = rule, values, seed
        self.norms = dict.fromkeys(values, 0.0)
        self.sums = {name: np.zeros_like(theta) for name, theta in values.items()}
        self.samples: dict[str, list[Floats]] = {name: [] for name in values}
        self.moves = 0
        self.averaged = 0
        self.free: Arrays = {}
        for name, theta in values.items():
            self.free[name] = np.ones_like(theta)
            for column, value in rule.fixed.get(name, {}).items():
                self.free[name][:, column] = 0.0
                theta[:, column] = value

    def head(self) -> Walk:
        """Return one that is as far, without the factors themselves and where they were."""
        found = Walk(self.rule, {n: theta[:0] for n, theta in self.values.items()}, self.seed)
        found.moves = self.moves
        return found

    def step_size(self, name: str, gradient: Floats) -> float:
        """Return κ_t of one factor, given its gradient in this round."""
        rule = self.rule
        if rule.step_size is not None:
            return float(rule.step_size / (self.moves + 1) ** rule.decay)
        self.norms[name] += float(np.square(gradient).sum())
        reach = rule.reach * rule.scales[name] * math.sqrt(self.free[name].sum())
        return reach / math.sqrt(self.norms[name]) if self.norms[name] > 0.0 else 0.0

    def _prior(self, name: str, theta: Floats) -> Floats:
        scale, rule = self.rule.scales[name], self.rule
        if rule.real:
            return -rule.precision / scale**2 * theta
        rate = rule.shape / (rule.mean * scale)
        if rule.shape == 1.0:
            return np.full_like(theta, -rate)
        # near zero the drift 1/θ would throw an entry arbitrarily far
        return np.asarray((rule.shape - 1.0) / np.maximum(theta, 0.1 * scale) - rate)

    def move(self, gradients: Mapping[str, Any], variance: Mapping[str, float] | float) -> None:
        """Take one step along estimates of the gradients over all data, by factor.

        ``variance`` is that of the noise that each of their numbers carries already, of all
        factors or by factor.
        """
        rng = generator(self.seed, f"round {self.moves}")
        counts = self.moves >= self.rule.first
        for name in gradients:
            theta, free = self.values[name], self.free[name]
            total = (gradients[name] + self._prior(name, theta)) * free
            size = self.step_size(name, total)
            moved = theta + size * total
            known = variance[name] if isinstance(variance, Mapping) else variance
            lacking = 2.0 * size - size * size * known
            if self.rule.langevin and lacking > 0.0:
                moved += math.sqrt(lacking) * rng.standard_normal(theta.shape) * free
            if not self.rule.real:
                moved = np.maximum(np.abs(moved), 1e-12)
            self.values[name] = moved
            if counts:
                self.sums[name] = self.sums[name] + moved  # a kept state does not change
            if counts and (self.moves - self.rule.first) % self.rule.every == self.rule.every - 1:
                self.samples[name].append(moved)
        self.averaged += counts
        self.moves += 1

    def average(self) -> Arrays:
        """Return the average of the iterates after the burn-in."""
        if not self.averaged:
            return {name: theta.copy() for name, theta in self.values.items()}
        return {name: total / self.averaged for name, total in self.sums.items()}

    def draws(self) -> Arrays:
        """Return the iterates after the burn-in that were kept, (draws, rows, columns)."""
        nothing = {name: [theta] for name, theta in self.values.items()}
        return {n: np.array(kept or nothing[n]) for n, kept in self.samples.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what has to survive a restart."""
        found: dict[str, NDArray[Any]] = {
            "walk": np.array([self.moves, self.averaged, self.seed], np.int64)
        }
        for name in self.values:
            found[f"value/{name}"] = self.values[name]
            found[f"sum/{name}"] = self.sums[name]
            found[f"norm/{name}"] = np.array([self.norms[name]])
            found[f"samples/{name}"] = np.array(self.samples[name]).reshape(
                -1, *self.values[name].shape
            )
        return found

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        self.moves, self.averaged, self.seed = (int(n) for n in state["walk"])
        for name in self.values:
            self.values[name] = state[f"value/{name}"].copy()
            self.sums[name] = state[f"sum/{name}"].copy()
            self.norms[name] = float(state[f"norm/{name}"][0])
            self.samples[name] = list(state[f"samples/{name}"].copy())
