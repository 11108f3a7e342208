"""Variational Bayes for Poisson–gamma models.

Source: Ermiş (2020), (3.7)–(3.12), with the corrections of PRIVACY B1. Every factor entry has a
gamma prior with shape A and mean B (rate A/B), and q(θ) is gamma with shape C and scale D:

    C = A + Σ_v (L ∘ Σ x/x̂_L · Π L')/φ_v,   D = 1/(A/B + Σ_v (Σ Π E')/φ_v),

where E = C·D are means and L = exp⟨log θ⟩ = exp(ψ(C))·D; numerators use L of every factor,
denominators E of the other ones. Each update maximises the evidence lower bound over one q, so
the bound never decreases. A and B that are adapted have a prior themselves: that of a quarter as
many entries as the factor has, drawn with the stated A and B. On their own they would shrink the
factors of data that vary less than Poisson counts to constants. The bound counts this prior, up to
a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import estimate_cells
from tacit.factorization.alone.numerics.priors import each_factor
from tacit.factorization.alone.numerics.sums import Engine, Expanded, fresh_factors
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.language.structure import BoundRelation

__all__ = ["VariationalBayes", "VariationalInfo", "VariationalState", "variance_of_estimates"]


_EXACT = 1e12  # the shape of a law that is a point, as far as numbers tell
STATED = 0.25  # entries that the stated prior counts for, of each one of a factor


class VariationalState(NamedTuple):
    """q of every factor (shape C, scale D) and the hyper-parameters (shape A, mean B)."""

    shapes: Factors
    scales: Factors
    prior_shape: Mapping[str, float]
    prior_mean: Mapping[str, float]

    @property
    def means(self) -> Arrays:
        """E = C·D."""
        return {name: self.shapes[name] * self.scales[name] for name in self.shapes}

    @property
    def log_means(self) -> Arrays:
        """L = exp⟨log θ⟩."""
        return {name: _geometric(self.shapes[name], self.scales[name]) for name in self.shapes}

    @property
    def deviations(self) -> Arrays:
        """Posterior standard deviations of the entries: √C·D."""
        return {name: np.sqrt(self.shapes[name]) * self.scales[name] for name in self.shapes}


class VariationalInfo(NamedTuple):
    """The evidence lower bound after a step."""

    bound: float


def _geometric(shape: Floats, scale: Floats) -> Floats:
    return np.asarray(np.exp(special.digamma(shape)) * scale)


class VariationalBayes:
    """A kernel: `init` draws q, `step` updates every q once.

    The prior has shape A and mean B for every factor entry; if they are to be adapted, `step` also
    moves them per factor, to maximise the bound. Every relation must have the KL divergence.
    Factors that are ``fixed`` stay as they are, known exactly.
    """

    def __init__(
        self,
        engine: Engine,
        shape: float | Mapping[str, float] = 0.5,
        mean: float | Mapping[str, float] = 10.0,
        *,
        adapt: bool = False,
        fixed: Factors | None = None,
    ) -> None:
        self.fixed = fixed or {}
        self.shape = each_factor("shape", shape, engine.model)
        self.mean = each_factor("mean", mean, engine.model)
        for relation in engine.model.relations:
            if relation.power != 1.0:
                raise ParameterError(
                    f"variational Bayes is for Poisson–gamma models: relation {relation.name!r} "
                    "must have divergence='kl'"
                )
        self.engine, self.adapt = engine, adapt
        self._cached: tuple[VariationalState | None, tuple[Expanded, Expanded] | None] = (
            None,
            None,
        )

    def init(self, rng: np.random.Generator) -> VariationalState:
        """Draw q with random means of the data's size."""
        start = fresh_factors(self.engine, rng, self.fixed)
        shapes = {
            n: np.full(theta.shape, _EXACT if n in self.fixed else self.shape[n] + 1.0)
            for n, theta in start.items()
        }
        scales = {name: theta / shapes[name] for name, theta in start.items()}
        return VariationalState(shapes, scales, dict(self.shape), dict(self.mean))

    def _expanded(self, state: VariationalState) -> tuple[Expanded, Expanded]:
        known, pair = self._cached
        if known is not state or pair is None:
            model = self.engine.model
            pair = Expanded(model, state.log_means), Expanded(model, state.means)
        return pair

    def step(
        self, state: VariationalState, *, objective: bool = True
    ) -> tuple[VariationalState, VariationalInfo]:
        """Update q of every factor once."""
        log_means, means = self._expanded(state)
        self._cached = (None, None)  # until the step is complete: it may be interrupted
        shapes, scales = dict(state.shapes), dict(state.scales)
        prior_shape, prior_mean = dict(state.prior_shape), dict(state.prior_mean)
        for name in [n for n in shapes if n not in self.fixed]:
            geometric = _geometric(shapes[name], scales[name])
            counts = np.zeros_like(geometric)
            exposure = np.zeros_like(geometric)
            for relation, position in self.engine.model.using(name):
                up = self.engine.numerator(log_means, relation, position)
                down = self.engine.denominator(means, relation, position)
                counts += up / relation.dispersion
                exposure += down / relation.dispersion
            shapes[name] = prior_shape[name] + geometric * counts
            scales[name] = 1.0 / (prior_shape[name] / prior_mean[name] + exposure)
            if self.adapt:
                prior_shape[name], prior_mean[name] = _adapt(
                    shapes[name], scales[name], self.shape[name], self.mean[name]
                )
            log_means.put(name, _geometric(shapes[name], scales[name]))
            means.put(name, shapes[name] * scales[name])
        state = VariationalState(shapes, scales, prior_shape, prior_mean)
        self._cached = (state, (log_means, means))
        return state, VariationalInfo(self.bound(state) if objective else np.nan)

    def bound(self, state: VariationalState) -> float:
        """Return the evidence lower bound.

        For dispersions other than 1 the likelihood of a relation is raised to the power 1/φ_v.
        """
        log_means, means = self._expanded(state)
        total = 0.0
        for relation in self.engine.model.relations:
            found = self.engine.data[relation.name]
            rates = estimate_cells(found.indices, log_means.banks[relation.name])
            counted = found.values > 0
            part = float(found.values[counted] @ np.log(np.maximum(rates[counted], 1e-300)))
            part -= float(special.gammaln(found.values + 1.0).sum())
            part -= self.engine.total_estimate(means, relation)
            total += part / relation.dispersion
        for name, c in state.shapes.items():
            if name in self.fixed:
                continue
            d, a, b = state.scales[name], state.prior_shape[name], state.prior_mean[name]
            log_theta = special.digamma(c) + np.log(d)
            prior = (
                (a - 1.0) * log_theta - (a / b) * c * d - special.gammaln(a) + a * np.log(a / b)
            )
            entropy = c + np.log(d) + special.gammaln(c) + (1.0 - c) * special.digamma(c)
            total += float((prior + entropy).sum())
            if self.adapt:
                stated = self.mean[name], _log_mean(self.shape[name], self.mean[name])
                known = (a - 1.0) * stated[1] - (a / b) * stated[0] + a * np.log(a / b)
                total += STATED * c.size * float(known - special.gammaln(a))
        return total


def _log_mean(shape: float, mean: float) -> float:
    """Return E[log θ] of a gamma law."""
    return float(special.digamma(shape) + np.log(mean / shape))


def _adapt(c: Floats, d: Floats, stated_shape: float, stated_mean: float) -> tuple[float, float]:
    """Return the (A, B) that maximise the bound for one factor.

    With averages over the factor's entries and, at their weight, those that the stated prior
    stands for: B is the mean of E, and A solves log A − ψ(A) = log(mean E) − mean⟨log θ⟩, by
    Newton's method on log A.
    """
    logs = float((special.digamma(c) + np.log(d)).mean())
    mean = (float((c * d).mean()) + STATED * stated_mean) / (1.0 + STATED)
    logs = (logs + STATED * _log_mean(stated_shape, stated_mean)) / (1.0 + STATED)
    gap = float(np.log(mean)) - logs
    shape = 0.5 / max(gap, 1e-12)  # log A − ψ(A) is about 1/(2A)
    for _ in range(50):
        excess = np.log(shape) - special.digamma(shape) - gap
        slope = 1.0 - shape * special.polygamma(1, shape)  # derivative along log A, negative
        step = float(np.clip(excess / slope, -1.0, 1.0))
        shape = float(np.clip(shape * np.exp(-step), 1e-6, 1e6))
        if abs(step) < 1e-12:
            break
    return shape, mean


def variance_of_estimates(
    state: VariationalState, relation: BoundRelation, cells: NDArray[np.int32]
) -> Floats:
    """Return Var Σ_r Π_f θ at cells, under independent gammas.

    E[x̂²] = Σ_{r,s} Π_f E[θ_f(r)·θ_f(s)], where the expectation is E[θ²] if both combinations use
    the same entry of a factor and E·E otherwise.
    """
    means = state.means
    variances = {name: means[name] * state.scales[name] for name in means}
    combinations = relation.combinations
    out = np.empty(len(cells))
    chunk = max(1, (1 << 20) // combinations**2)
    for start in range(0, len(cells), chunk):
        part = cells[start : start + chunk]
        second = np.ones((len(part), combinations, combinations))
        first = np.ones((len(part), combinations))
        for position, name in enumerate(relation.factors):
            rows = part[:, position] if position < relation.modes else np.zeros(len(part), int)
            columns = relation.columns[position]
            mean = means[name][rows][:, columns]
            same = columns[:, None] == columns[None, :]
            spread = variances[name][rows][:, columns]
            second *= mean[:, :, None] * mean[:, None, :] + same * spread[:, :, None]
            first *= mean
        out[start : start + chunk] = second.sum(axis=(1, 2)) - first.sum(axis=1) ** 2
    return np.maximum(out, 0.0)
