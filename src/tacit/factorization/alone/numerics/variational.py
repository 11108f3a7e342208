"""Variational Bayes for positive factors: Poisson–gamma models, and what resembles them.

Source: Ermiş (2020), (3.7)–(3.12), with the corrections of PRIVACY B1. Every factor entry has a
gamma prior with shape A and mean B (rate A/B), and q(θ) is gamma with shape C and scale D:

    C = A + Σ_v (L ∘ Σ x/x̂_L · Π L')/φ_v,   D = 1/(A/B + Σ_v (Σ Π E')/φ_v),

where E = C·D are means and L = exp⟨log θ⟩ = exp(ψ(C))·D; numerators use L of every factor,
denominators E of the other ones. Each update maximises the evidence lower bound over one q, so
the bound never decreases. A and B that are adapted have a prior themselves: that of a quarter as
many entries as the factor has, drawn with the stated A and B. On their own they would shrink the
factors of data that vary less than Poisson counts to constants. The bound counts this prior, up to
a constant.

- **Negative binomial counts** are Poisson ones of rate g·x̂, g ~ Gamma(r, rate r) with r = 1/φ.
  q(g) is gamma with mean (r + x)/(r + x̂_E), found anew before every update: it multiplies Π E' of
  its cell. In the bound, q(g) integrates out.
- **Gamma values** (p = 2, shape 1/φ and mean x̂): −log x̂ is at least its tangent at x̂_E, and by
  Jensen −1/x̂ = −1/Σ_r v_r is at least −Σ_r π_r²/v_r for any shares π of the combinations, the best
  of them in proportion to 1/E[1/v_r] (Hoffman, Blei and Cook 2010). So D has Σ Π E'/x̂_E, and q is
  generalised inverse Gaussian: e^(−τ/θ) pulls entries away from zero, with
  τ = H²·Σ_v (Σ x/x̂_H²·Π H')/φ_v and H = 1/E[1/θ]
  (`tacit.factorization.alone.numerics.positive_laws`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import FLOOR, estimate_cells
from tacit.factorization.alone.numerics.positive_laws import Law
from tacit.factorization.alone.numerics.priors import each_factor
from tacit.factorization.alone.numerics.sums import Engine, Expanded, fresh_factors
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.divergences import NEGATIVE_BINOMIAL, loss_name
from tacit.factorization.language.structure import BoundRelation

__all__ = ["VariationalBayes", "VariationalInfo", "VariationalState", "variance_of_estimates"]


_EXACT = 1e12  # the shape of a law that is a point, as far as numbers tell
_GAMMA = 2.0  # p of gamma values
STATED = 0.25  # entries that the stated prior counts for, of each one of a factor


class VariationalState(NamedTuple):
    """q of every factor and the hyper-parameters (shape A, mean B).

    q has shape C and scale D; beside gamma values also a pull τ.
    """

    shapes: Factors
    scales: Factors
    prior_shape: Mapping[str, float]
    prior_mean: Mapping[str, float]
    pulls: Factors | None = None

    def law(self, name: str) -> Law:
        """Return q of the entries of a factor."""
        return Law(self.shapes[name], self.scales[name], (self.pulls or {}).get(name))

    @property
    def means(self) -> Arrays:
        """E[θ]."""
        return {name: self.law(name).mean for name in self.shapes}

    @property
    def log_means(self) -> Arrays:
        """L = exp⟨log θ⟩."""
        return {name: self.law(name).geometric for name in self.shapes}

    @property
    def variances(self) -> Arrays:
        """Posterior variances of the entries."""
        return {name: self.law(name).variance for name in self.shapes}

    @property
    def deviations(self) -> Arrays:
        """Posterior standard deviations of the entries."""
        return {name: np.sqrt(found) for name, found in self.variances.items()}


class VariationalInfo(NamedTuple):
    """The evidence lower bound after a step."""

    bound: float


class _Expanded(NamedTuple):
    """L, E and, beside gamma values, H of every factor, expanded."""

    geometric: Expanded
    means: Expanded
    harmonic: Expanded | None


class VariationalBayes:
    """A kernel: `init` draws q, `step` updates every q once.

    The prior has shape A and mean B for every factor entry; if they are to be adapted, `step` also
    moves them per factor, to maximise the bound. Relations are of counts, Poisson or negative
    binomial, or of gamma values. Factors that are ``fixed`` stay as they are, known exactly.
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
            if relation.power not in (1.0, NEGATIVE_BINOMIAL, _GAMMA):
                raise ParameterError(
                    f"variational Bayes of positive factors has no closed form for "
                    f"{loss_name(relation.power)}: relation {relation.name!r} must have "
                    "divergence='kl', 'negative-binomial' or 'gamma', or pass inference='sgld'"
                )
        self.engine, self.adapt = engine, adapt
        self._pulled = {
            name
            for name in engine.model.factors
            if any(relation.power == _GAMMA for relation, _ in engine.model.using(name))
        } - set(self.fixed)
        self._gamma = any(relation.power == _GAMMA for relation in engine.model.relations)
        self._cached: tuple[VariationalState | None, _Expanded | None] = (None, None)

    def init(self, rng: np.random.Generator) -> VariationalState:
        """Draw q with random means of the data's size."""
        start = fresh_factors(self.engine, rng, self.fixed)
        shapes = {
            n: np.full(theta.shape, _EXACT if n in self.fixed else self.shape[n] + 1.0)
            for n, theta in start.items()
        }
        scales = {name: theta / shapes[name] for name, theta in start.items()}
        # as if every entry had seen one value of its own size, and no more
        pulls = {name: start[name] for name in self._pulled}
        return VariationalState(shapes, scales, dict(self.shape), dict(self.mean), pulls or None)

    def _expanded(self, state: VariationalState) -> _Expanded:
        known, found = self._cached
        if known is not state or found is None:
            model, laws = self.engine.model, {name: state.law(name) for name in state.shapes}
            found = _Expanded(
                Expanded(model, {name: law.geometric for name, law in laws.items()}),
                Expanded(model, {name: law.mean for name, law in laws.items()}),
                Expanded(model, {name: law.harmonic for name, law in laws.items()})
                if self._gamma
                else None,
            )
        return found

    def step(
        self, state: VariationalState, *, objective: bool = True
    ) -> tuple[VariationalState, VariationalInfo]:
        """Update q of every factor once."""
        expanded = self._expanded(state)
        self._cached = (None, None)  # until the step is complete: it may be interrupted
        shapes, scales = dict(state.shapes), dict(state.scales)
        pulls = dict(state.pulls) if state.pulls else None
        prior_shape, prior_mean = dict(state.prior_shape), dict(state.prior_mean)
        for name in [n for n in shapes if n not in self.fixed]:
            law = self._law(expanded, name, state.law(name), prior_shape[name], prior_mean[name])
            shapes[name], scales[name] = law.shape, law.scale
            if pulls is not None and law.pull is not None:
                pulls[name] = law.pull
            mean = law.mean
            if self.adapt:
                prior_shape[name], prior_mean[name] = _adapt(
                    mean, law.log_mean, self.shape[name], self.mean[name]
                )
            expanded.geometric.put(name, law.geometric)
            expanded.means.put(name, mean)
            if expanded.harmonic is not None:
                expanded.harmonic.put(name, law.harmonic)
        state = VariationalState(shapes, scales, prior_shape, prior_mean, pulls)
        self._cached = (state, expanded)
        return state, VariationalInfo(self.bound(state) if objective else np.nan)

    def _law(
        self, expanded: _Expanded, name: str, old: Law, prior_shape: float, prior_mean: float
    ) -> Law:
        """Return the best q of a factor, given those of all others."""
        counts, exposure, pull = (np.zeros_like(old.shape) for _ in range(3))
        for relation, position in self.engine.model.using(name):
            if relation.power == NEGATIVE_BINOMIAL:
                counts += self.engine.numerator(expanded.geometric, relation, position)
                cells = self.engine.sorted_cells(relation, position)
                x, phi = cells.values, relation.dispersion
                rates = estimate_cells(cells.indices, expanded.means.banks[relation.name])
                frailty = (1.0 + phi * x) / (1.0 + phi * rates)
                exposure += self.engine.weighted(expanded.means, relation, position, frailty)
                continue
            down = self.engine.denominator(expanded.means, relation, position)
            exposure += down / relation.dispersion
            if relation.power == 1.0:
                up = self.engine.numerator(expanded.geometric, relation, position)
                counts += up / relation.dispersion
            elif expanded.harmonic is not None:
                up = self.engine.numerator(expanded.harmonic, relation, position)
                pull += up / relation.dispersion
        shape = prior_shape + old.geometric * counts
        scale = 1.0 / (prior_shape / prior_mean + exposure)
        if name not in self._pulled:
            return Law(shape, scale)
        return Law(shape, scale, old.harmonic**2 * pull)

    def bound(self, state: VariationalState) -> float:
        """Return the evidence lower bound.

        For dispersions other than 1 the likelihood of a relation is raised to the power 1/φ_v.
        """
        expanded = self._expanded(state)
        total = 0.0
        for relation in self.engine.model.relations:
            total += self._likelihood(expanded, relation)
        for name in state.shapes:
            if name in self.fixed:
                continue
            law, a, b = state.law(name), state.prior_shape[name], state.prior_mean[name]
            prior = (a - 1.0) * law.log_mean - (a / b) * law.mean
            prior = prior - special.gammaln(a) + a * np.log(a / b)
            total += float((prior + law.entropy).sum())
            if self.adapt:
                stated = self.mean[name], _log_mean(self.shape[name], self.mean[name])
                known = (a - 1.0) * stated[1] - (a / b) * stated[0] + a * np.log(a / b)
                total += STATED * law.shape.size * float(known - special.gammaln(a))
        return total

    def _likelihood(self, expanded: _Expanded, relation: BoundRelation) -> float:
        """Return the bound of the expected log likelihood of a relation."""
        found, phi = self.engine.data[relation.name], relation.dispersion
        x = found.values
        means = expanded.means.banks[relation.name]
        if relation.power == _GAMMA and expanded.harmonic is not None:
            harmonic = estimate_cells(found.indices, expanded.harmonic.banks[relation.name])
            lost = np.log(np.maximum(estimate_cells(found.indices, means), FLOOR))
            lost = lost + x / np.maximum(harmonic, FLOOR) - (1.0 - phi) * np.log(x)
            known = math.log(phi) + phi * math.lgamma(1.0 / phi)
            return -float((lost + known).sum()) / phi
        rates = estimate_cells(found.indices, expanded.geometric.banks[relation.name])
        counted = x > 0
        part = float(x[counted] @ np.log(np.maximum(rates[counted], 1e-300)))
        part -= float(special.gammaln(x + 1.0).sum())
        if relation.power == NEGATIVE_BINOMIAL:
            r, rates = 1.0 / phi, estimate_cells(found.indices, means)
            apart = special.gammaln(r + x) - special.gammaln(r) - x * np.log(r)
            return part + float((apart - (r + x) * np.log1p(phi * rates)).sum())
        return (part - self.engine.total_estimate(expanded.means, relation)) / phi


def _log_mean(shape: float, mean: float) -> float:
    """Return E[log θ] of a gamma law."""
    return float(special.digamma(shape) + np.log(mean / shape))


def _adapt(
    means: Floats, log_means: Floats, stated_shape: float, stated_mean: float
) -> tuple[float, float]:
    """Return the (A, B) that maximise the bound for one factor.

    With averages over the factor's entries and, at their weight, those that the stated prior
    stands for: B is the mean of E, and A solves log A − ψ(A) = log(mean E) − mean⟨log θ⟩, by
    Newton's method on log A.
    """
    logs = float(log_means.mean())
    mean = (float(means.mean()) + STATED * stated_mean) / (1.0 + STATED)
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
    """Return Var Σ_r Π_f θ at cells, under independent entries.

    E[x̂²] = Σ_{r,s} Π_f E[θ_f(r)·θ_f(s)], where the expectation is E[θ²] if both combinations use
    the same entry of a factor and E·E otherwise.
    """
    means, variances = state.means, state.variances
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
