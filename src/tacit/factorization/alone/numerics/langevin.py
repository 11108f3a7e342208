"""Stochastic gradient Langevin dynamics, for any p, with real or non-negative factors.

Source: Ermiş (2020), (3.16)–(3.18) and appendix A. A step along the gradient of the log posterior,
estimated from a minibatch of cells, with Gaussian noise of variance 2κ_t (PRIVACY B1):

    θ ← θ + κ_t·(C_v/B·Σ_batch ∇ log p(x | θ) + ∇ log p(θ)) + N(0, 2κ_t),  κ_t = κ₀/t^ρ.

The gradient of −d_p(x, x̂)/φ along a factor entry is (x − x̂)·x̂^(−p)·q/φ: numerator minus
denominator of the sweep. With observed zeros the denominator is exact and only the listed
cells are sampled. Non-negative factors (Poisson–gamma) are reflected at zero. Normal–normal
models (p = 0) have a Gaussian prior whose precision per factor is drawn from its conditional
gamma law. This noise is inference noise: it is not what a privacy guarantee rests on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.sums import Engine, Expanded, fresh_factors
from tacit.factorization.arrays import Arrays, Factors

__all__ = ["LangevinInfo", "LangevinSampler", "LangevinState", "safe_step"]


class LangevinState(NamedTuple):
    """The factors, the prior precision of each (normal model) and the number of steps taken."""

    factors: Factors
    precisions: Mapping[str, float]
    steps: int


class LangevinInfo(NamedTuple):
    """The step size that was used."""

    step_size: float


class LangevinSampler:
    """A kernel: SGLD over minibatches of cells.

    The prior is ``"gamma"`` (non-negative factors, with shape A and mean B) or ``"normal"`` (real
    factors, p = 0; ``shape`` and ``mean`` are then shape and rate of the gamma hyper-prior on the
    precision). ``batch`` is cells per relation and step; ``step`` and ``decay`` are κ₀ and ρ of
    the step size κ₀/t^ρ, ρ ∈ [0, 1]. Without κ₀: half of 1/L, where L bounds the curvature at
    random factors of the data's size (`safe_step`).
    """

    def __init__(
        self,
        engine: Engine,
        *,
        prior: str = "gamma",
        shape: float = 1.0,
        mean: float = 1.0,
        batch: int = 10_000,
        step: float | None = None,
        decay: float = 0.51,
    ) -> None:
        check("prior", prior, OneOf("gamma", "normal"))
        check("shape", shape, Real(0, open_low=True))
        check("mean", mean, Real(0, open_low=True))
        check("batch", batch, Integer(1))
        check("step", step, AnyOf(Real(0, open_low=True), None))
        check("decay", decay, Real(0, 1))
        if prior == "normal" and any(r.power != 0.0 for r in engine.model.relations):
            raise ParameterError("real factors need divergence='euclidean' in every relation")
        self.engine, self.prior = engine, prior
        self.shape, self.mean = float(shape), float(mean)
        self.batch, self.decay = batch, float(decay)
        self.step_size = safe_step(engine) if step is None else float(step)

    def init(self, rng: np.random.Generator) -> LangevinState:
        """Draw random factors; with random signs where they may be negative."""
        factors = fresh_factors(self.engine, rng)
        if self.prior == "normal":
            factors = {
                name: theta * rng.standard_normal(theta.shape) for name, theta in factors.items()
            }
        return LangevinState(factors, dict.fromkeys(factors, 1.0), 0)

    def step(
        self, rng: np.random.Generator, state: LangevinState
    ) -> tuple[LangevinState, LangevinInfo]:
        """Move every factor along a stochastic gradient of the log posterior."""
        time = state.steps + 1
        size = self.step_size / time**self.decay
        # where an entry is within a step of zero its gradient is taken a step away from it: the
        # drift 1/θ would throw it arbitrarily far
        seen = state
        if self.prior == "gamma":
            away = np.sqrt(2.0 * size)
            seen = state._replace(
                factors={n: np.maximum(theta, away) for n, theta in state.factors.items()}
            )
        gradients = self.gradients(rng, seen)
        factors, precisions = {}, dict(state.precisions)
        for name, theta in state.factors.items():
            noise = np.sqrt(2.0 * size) * rng.standard_normal(theta.shape)
            moved = theta + size * gradients[name] + noise
            factors[name] = np.maximum(np.abs(moved), 1e-12) if self.prior == "gamma" else moved
            if self.prior == "normal":
                precisions[name] = float(
                    rng.gamma(self.shape + moved.size / 2.0)
                    / (self.mean + float((moved**2).sum()) / 2.0)
                )
        return LangevinState(factors, precisions, time), LangevinInfo(size)

    def gradients(self, rng: np.random.Generator, state: LangevinState) -> Arrays:
        """Return unbiased estimates of the gradient of the log posterior."""
        model = self.engine.model
        sampled, scales = dict(self.engine.data), {}
        for name, found in self.engine.data.items():
            scales[name] = 1.0
            if found.cells > self.batch:
                picked = rng.choice(found.cells, self.batch, replace=False)
                sampled[name] = found.subset(np.sort(picked))
                scales[name] = found.cells / self.batch
        engine = Engine(model, sampled)
        expanded = Expanded(model, state.factors)
        gradients = {}
        for name, theta in state.factors.items():
            if self.prior == "gamma":
                total = (self.shape - 1.0) / theta - self.shape / self.mean
            else:
                total = -state.precisions[name] * theta
            for relation, position in model.using(name):
                scale = scales[relation.name] / relation.dispersion
                if sampled[relation.name].zeros == "missing":
                    up, down = engine.both(expanded, relation, position)
                    total = total + scale * (up - down)
                else:  # the denominator over all zeros is exact
                    up = engine.numerator(expanded, relation, position)
                    down = engine.denominator(expanded, relation, position)
                    total = total + scale * up - down / relation.dispersion
            gradients[name] = total
        return gradients


def safe_step(engine: Engine) -> float:
    """Return 1/(2L), where L bounds the curvature of the log likelihood at random factors.

    The curvature along an entry θ is Σ x̂^(−p)·q²/φ over its cells, and θ·q ≤ x̂ because factors are
    positive there: it is at most Σ x̂^(1−p)·q/(φ·θ), the denominator of the multiplicative update
    over θ.
    """
    factors = fresh_factors(engine, generator(0, "curvature"))
    expanded = Expanded(engine.model, factors)
    largest = 0.0
    for name, theta in factors.items():
        curvature = np.zeros_like(theta)
        for relation, position in engine.model.using(name):
            down = engine.denominator(expanded, relation, position)
            curvature += down / (relation.dispersion * theta)
        largest = max(largest, float(curvature.max()))
    return 0.5 / largest if largest > 0.0 else 1.0
