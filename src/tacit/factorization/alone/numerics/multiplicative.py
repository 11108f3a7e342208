"""Maximum likelihood and maximum a posteriori by multiplicative updates.

Source: Ermiş (2020), (3.2) with the corrections of PRIVACY B1. Along θ ← u·θ the cost of every
relation is majorised by A·u^s/s − B·u^t/t (`tacit.factorization.divergences.majorisation_powers`),
and a gamma prior with shape a ≥ 1 and rate b adds b·θ·u − (a − 1)·log u. One update

    θ ← θ·((Σ_v B_v/φ_v + (a − 1)/θ) / (Σ_v A_v/φ_v + b))^γ,   γ = 1/(max s − min t),

therefore never increases the objective: γ = 1 for one divergence with p ≤ 1, 1/p for p > 1, and
1/2 where Euclidean and Kullback–Leibler costs (or a prior) meet.

Factors may also be given, real or smooth (`tacit.factorization.alone.numerics.constraints`); real
ones, and those beside them, are updated as `tacit.factorization.alone.numerics.real_rows` says. A
real factor's prior is Gaussian around zero, with the ``rate`` as its precision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from tacit._core import kernels
from tacit._core.check import Real
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.constraints import Constraints
from tacit.factorization.alone.numerics.priors import each_factor
from tacit.factorization.alone.numerics.real_rows import halved, real_step, split_rows
from tacit.factorization.alone.numerics.sums import Engine, Expanded, fresh_factors
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.divergences import LOGIT, loss_name, majorisation_powers

__all__ = ["AcceleratedUpdates", "MultiplicativeUpdates", "UpdateInfo", "UpdateState"]

FLOOR = 1e-16  # factors stay positive, or they could never grow again


class UpdateState(NamedTuple):
    """The factors, and how far an accelerated step may reach."""

    factors: Factors
    reach: float = 4.0


class UpdateInfo(NamedTuple):
    """The objective after a step: Σ_v cost_v/φ_v minus the log prior, up to a constant."""

    objective: float


def _move(theta: Any, up: Any, down: Any, exponent: float, moved: Any) -> None:
    """Multiply by (up/down)^γ; rows without any observed cell keep what they have."""
    for i in range(theta.shape[0]):
        for j in range(theta.shape[1]):
            ratio = 1.0 if down[i, j] <= 0.0 else up[i, j] / max(down[i, j], 1e-300)
            if exponent != 1.0:
                ratio = ratio**exponent
            moved[i, j] = max(theta[i, j] * ratio, FLOOR)


class MultiplicativeUpdates:
    """A kernel: `init` draws factors, `step` updates each of them once.

    Shape and rate are those of the gamma prior, for all factors or one each; shape 1 and rate 0 is
    maximum likelihood.
    """

    def __init__(
        self,
        engine: Engine,
        shape: float | Mapping[str, float] = 1.0,
        rate: float | Mapping[str, float] = 0.0,
        constraints: Constraints | None = None,
    ) -> None:
        self.engine = engine
        self.constraints = constraints or Constraints()
        self.shape = each_factor("shape", shape, engine.model, Real(1))
        self.rate = each_factor("rate", rate, engine.model, Real(0))
        self._beside = {name: self._beside_real(name) for name in engine.model.factors}
        self._exponents = {name: self._exponent(name) for name in engine.model.factors}
        self._cached: tuple[UpdateState | None, Expanded | None] = (None, None)

    @property
    def priors(self) -> dict[str, tuple[float, float]]:
        """Shape and rate of every factor's prior."""
        return {name: (self.shape[name], self.rate[name]) for name in self.shape}

    def _beside_real(self, factor: str) -> tuple[str, ...]:
        """Return the relations whose loss is quadratic, or majorised so, along a factor."""
        real, found = self.constraints.real, []
        for relation, _ in self.engine.model.using(factor):
            free = relation.power in (0.0, LOGIT)
            if not free and real & set(relation.factors):
                raise ParameterError(
                    f"relation {relation.name!r} has {loss_name(relation.power)}, whose estimates "
                    f"are positive: {min(real & set(relation.factors))!r} may not be negative. "
                    "Leave it out of real_factors, or use divergence='euclidean' or 'logit'"
                )
            others = real & (set(relation.factors) - {factor})
            if free and (others or relation.power == LOGIT):
                found.append(relation.name)
        return tuple(dict.fromkeys(found))

    def _exponent(self, factor: str) -> float:
        model, beside = self.engine.model, self._beside[factor]
        powers = [
            majorisation_powers(relation.power, relation.times(factor))
            for relation, _ in model.using(factor)
            if relation.name not in beside and factor not in self.constraints.real
        ]
        if beside or factor in self.constraints.graphs:
            powers.append((2.0, 0.0))
        if self.shape[factor] > 1.0:
            powers.append((0.0, 0.0))
        if self.rate[factor] > 0.0 or not powers:
            powers.append((1.0, 1.0))
        return 1.0 / max(max(s for s, _ in powers) - min(t for _, t in powers), 1.0)

    def _halves(self, factor: str) -> bool:
        """Whether a step is only a direction: no majorant has it for a minimum."""
        quadratic = factor in self.constraints.real or self._beside[factor]
        twice = any(r.times(factor) > 1 for r, _ in self.engine.model.using(factor))
        return bool(quadratic) and twice

    def init(self, rng: np.random.Generator) -> UpdateState:
        """Draw random factors."""
        fixed, real = self.constraints.fixed, self.constraints.real
        factors = fresh_factors(self.engine, rng, fixed, real)
        for name in sorted(real - fixed.keys()):
            factors[name] = factors[name] * rng.standard_normal(factors[name].shape)
        return UpdateState(factors)

    def _expanded(self, state: UpdateState) -> Expanded:
        known, expanded = self._cached
        if known is not state or expanded is None:
            expanded = Expanded(self.engine.model, state.factors)
        return expanded

    def step(
        self, state: UpdateState, *, objective: bool = True
    ) -> tuple[UpdateState, UpdateInfo]:
        """Update every factor once; the objective costs about one more pass over the data."""
        expanded = self._expanded(state)
        self._cached = (None, None)  # until the step is complete: it may be interrupted
        factors = dict(state.factors)
        for name in factors:
            factors[name] = self.update(expanded, name, factors[name])
            expanded.put(name, factors[name])
        state = UpdateState(factors, state.reach)
        self._cached = (state, expanded)
        return state, UpdateInfo(self.objective(state) if objective else np.nan)

    def update(self, expanded: Expanded, name: str, theta: Floats) -> Floats:
        """Return one factor after its update."""
        if name in self.constraints.fixed:
            return theta
        if not self._halves(name):
            return self._moved(expanded, name, theta)(1.0)

        def cost(rows: Floats) -> float:
            expanded.put(name, rows)
            relations = {r.name: r for r, _ in self.engine.model.using(name)}
            losses = [r.weight * self.engine.cost(expanded, r) for r in relations.values()]
            return sum(losses) + self.penalty(name, rows)

        return halved(theta, self._moved(expanded, name, theta), cost)

    def _moved(self, expanded: Expanded, name: str, theta: Floats) -> Callable[[float], Floats]:
        """Return what becomes of a factor by some share of its step."""
        graph, real = self.constraints.graphs.get(name), name in self.constraints.real
        if real:
            step = real_step(self.engine, expanded, name, theta, self.rate[name], graph)
            return lambda share: theta + share * step
        up: Any = 0.0 if self.shape[name] == 1.0 else (self.shape[name] - 1.0) / theta
        down: Any = self.rate[name]
        for relation, position in self.engine.model.using(name):
            if relation.name in self._beside[name]:
                continue
            numerator, denominator = self.engine.both(expanded, relation, position)
            if relation.weight != 1.0:
                numerator = numerator * relation.weight
                denominator = denominator * relation.weight
            if relation.power == 0.0:
                # −B·u with B < 0 is a rising cost: it is majorised as part of the denominator
                negative = np.minimum(numerator, 0.0)
                numerator, denominator = numerator - negative, denominator - negative
            up, down = up + numerator, down + denominator
        if self._beside[name]:
            rising, falling = split_rows(self.engine, expanded, name, theta, self._beside[name])
            up, down = up + rising, down + falling
        if graph is not None:
            up, down = up + graph.pulled(theta), down + graph.degrees[:, None] * theta
        up, down = np.broadcast_to(up, theta.shape), np.broadcast_to(down, theta.shape)

        def moved(share: float) -> Floats:
            found = np.empty_like(theta)
            kernels.compiled(_move)(theta, up, down, share * self._exponents[name], found)
            return found

        return moved

    def penalty(self, name: str, theta: Floats) -> float:
        """Return minus the log prior of a factor, up to a constant."""
        if name in self.constraints.fixed:
            return 0.0
        total, graph = 0.0, self.constraints.graphs.get(name)
        if graph is not None:
            total += graph.penalty(theta)
        if name in self.constraints.real:
            return total + 0.5 * self.rate[name] * float(np.vdot(theta, theta))
        total += self.rate[name] * float(theta.sum())
        if self.shape[name] != 1.0:
            total -= (self.shape[name] - 1.0) * float(np.log(theta).sum())
        return total

    def objective(self, state: UpdateState) -> float:
        """Return Σ_v cost_v/φ_v minus the log prior, up to a constant."""
        expanded = self._expanded(state)
        total = sum(
            self.engine.cost(expanded, relation) * relation.weight
            for relation in self.engine.model.relations
        )
        return float(
            total + sum(self.penalty(name, state.factors[name]) for name in state.factors)
        )


class AcceleratedUpdates:
    """A kernel: multiplicative updates with squared extrapolation (Varadhan & Roland 2008).

    One step is three updates of every factor. From θ₀, two updates give θ₁ and θ₂; along
    r = θ₁ − θ₀ and v = (θ₂ − θ₁) − r the path is followed to θ₀ + 2αr + α²v with α = ‖r‖/‖v‖, at
    most `UpdateState.reach` and at least 1 (θ₂ itself), and the third update starts there. If its
    result is worse than θ₂, θ₂ is kept and the reach is halved; so the objective never rises.
    """

    sweeps = 3

    def __init__(self, updates: MultiplicativeUpdates) -> None:
        self.updates = updates
        self._real, self._fixed = updates.constraints.real, updates.constraints.fixed
        self.init, self.objective = updates.init, updates.objective

    def step(
        self, state: UpdateState, *, objective: bool = True
    ) -> tuple[UpdateState, UpdateInfo]:
        """Update every factor three times; the objective is always known."""
        start, reach = state.factors, state.reach
        once, _ = self.updates.step(state, objective=False)
        twice, info = self.updates.step(once)
        length, far = _extrapolation(start, once.factors, twice.factors, reach, self._real)
        far |= self._fixed
        if length <= 1.0:
            return twice, info
        beyond, there = self.updates.step(UpdateState(far, reach))
        if there.objective <= info.objective:
            wider = 4.0 * reach if length == reach else reach
            return beyond._replace(reach=wider), there
        return twice._replace(reach=max(2.0, length / 2.0)), info


def _extrapolation(
    start: Factors,
    once: Factors,
    twice: Factors,
    reach: float,
    real: Collection[str] = (),
) -> tuple[float, Arrays]:
    """Return α and the extrapolated factors; positive ones shrink to no less than a thousandth."""
    moved, bent = 0.0, 0.0
    for name, theta in start.items():
        r = once[name] - theta
        v = twice[name] - once[name] - r
        moved, bent = moved + float(np.vdot(r, r)), bent + float(np.vdot(v, v))
    length = min(max(1.0, np.sqrt(moved / bent)), reach) if bent > 0.0 else 1.0
    if length <= 1.0:
        return length, {}
    # θ₀ + 2αr + α²v in terms of the three points
    a, b, c = (1.0 - length) ** 2, 2.0 * length * (1.0 - length), length**2
    far = {}
    for name, theta in start.items():
        far[name] = a * theta + b * once[name] + c * twice[name]
        if name not in real:
            far[name] = np.maximum(far[name], 1e-3 * twice[name])
    return length, far
