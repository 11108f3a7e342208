"""Variational Bayes for models of real factors.

The model is that of `tacit.factorization.alone.numerics.normal_prior`. q of a factor's row is
Gaussian with its own covariance, those of means μ_dk Gaussian, of precisions λ_dk and of noise
precisions τ_v gamma, all independent:

    rows:  P = E[Λ] + Σ_v E[τ_v]·Σ E[z·zᵀ],   m = P⁻¹(E[Λ]E[μ] + Σ_v E[τ_v]·Σ x·E[z]),   S = P⁻¹.

E[z·zᵀ] is a product of second moments m·mᵀ + S of the other factors: a multilinear form again,
over pairs of latent combinations. So Σ E[z·zᵀ] and Σ E[x̂²] are the denominator and the total
estimate of a *squared* model, whose factors are those second moments. Each update maximises the
evidence lower bound over one q, so the bound never decreases.

**Under a logit link** the likelihood of a cell is bounded once more (Jaakkola and Jordan 2000): it
is at least that of a Gaussian one of precision ω(ξ), and ξ² = E[ψ²], the best choice, is found
anew before every update (`tacit.factorization.alone.numerics.log_odds`). Zeros that are observed
but not listed share one ξ, so that they need no visit. An expected value is that of 1/(1 + e^(−ψ))
for a Gaussian ψ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import estimate_cells
from tacit.factorization.alone.numerics.log_odds import log_cosh
from tacit.factorization.alone.numerics.normal_gibbs import NormalGibbs, start_dispersions
from tacit.factorization.alone.numerics.normal_prior import MEANS, Components
from tacit.factorization.alone.numerics.polya_gamma import expected_precision
from tacit.factorization.alone.numerics.sums import Engine, Expanded, estimates_at
from tacit.factorization.alone.numerics.variational import VariationalInfo
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.divergences import LOGIT
from tacit.factorization.language.structure import BoundModel, BoundRelation, FactorSpec

__all__ = ["NormalBayes", "NormalBayesState", "expected_chances", "variance_of_products"]

_MOST = 1 << 28  # numbers in the second moments of a relation's factors
_NODES = 32
_LOG_2PI = math.log(2.0 * math.pi)


class Columns(NamedTuple):
    """q of the components of one factor: of μ mean and variance, of λ shape and rate."""

    mean: Floats
    variance: Floats
    shape: Floats
    rate: Floats

    @property
    def precision(self) -> Floats:
        """E[λ]."""
        return self.shape / self.rate

    @property
    def log_precision(self) -> Floats:
        """E[log λ]."""
        return np.asarray(special.digamma(self.shape) - np.log(self.rate))


class NormalBayesState(NamedTuple):
    """q of the rows of every factor, of their components, and of the noise (shape and rate)."""

    means: Factors
    covariances: Factors
    columns: Mapping[str, Columns]
    noise: Mapping[str, tuple[float, float]]

    @property
    def deviations(self) -> Arrays:
        """Posterior standard deviations of the entries."""
        diagonals = {n: np.diagonal(s, axis1=1, axis2=2) for n, s in self.covariances.items()}
        return {n: np.sqrt(d) for n, d in diagonals.items()}

    @property
    def components(self) -> dict[str, Components]:
        """The prior of new rows."""
        width = {name: mean.shape[1] for name, mean in self.means.items()}
        return {
            n: Components(*(np.broadcast_to(part, width[n]) for part in (q.mean, q.precision)))
            for n, q in self.columns.items()
        }

    @property
    def dispersions(self) -> dict[str, float]:
        """1/E[τ] of every relation."""
        return {name: rate / shape for name, (shape, rate) in self.noise.items()}

    @property
    def squares(self) -> Arrays:
        """Second moments of rows, (rows, columns²)."""
        return {n: _square(m, self.covariances[n]) for n, m in self.means.items()}


class NormalBayes:
    """A kernel: `init` starts q at random, `step` updates every q once.

    ``stated`` are shape and mean of the precisions of some factors, ``learned`` the relations
    whose noise is inferred; others have that of their dispersion. Factors that are ``fixed`` are
    known exactly.
    """

    def __init__(
        self,
        engine: Engine,
        stated: Mapping[str, tuple[float, float]] | None = None,
        learned: Set[str] = frozenset(),
        fixed: Factors | None = None,
    ) -> None:
        self.chain = NormalGibbs(engine, stated, learned, fixed, exact=False)
        self.engine, self.learned, self.prior = engine, learned, self.chain.prior
        self.fixed = fixed or {}
        model = _squared(engine.model)
        alone = {n: replace(f, values=np.ones(f.cells)) for n, f in engine.data.items()}
        self.squared = Engine(model, alone)

    def init(self, rng: np.random.Generator) -> NormalBayesState:
        """Return q around a state of a chain, which has left the poorest optima behind."""
        specs, scales = self.engine.model.factors, self.prior.scales
        means = dict(self.chain.init(rng).factors)
        covariances = {
            n: np.tile(
                (n not in self.fixed) * 0.01 * scales[n] ** 2 * np.eye(spec.columns),
                (spec.rows, 1, 1),
            )
            for n, spec in specs.items()
        }
        columns = {}
        for name, spec in specs.items():
            one = np.ones(1 if spec.core else spec.columns)
            columns[name] = Columns(0.0 * one, 0.0 * one, one, scales[name] ** 2 * one)
        start = start_dispersions(self.engine, self.prior, self.learned)
        noise = {name: (1.0, phi) for name, phi in start.items()}
        return NormalBayesState(means, covariances, columns, noise)

    def step(
        self, state: NormalBayesState, *, objective: bool = True
    ) -> tuple[NormalBayesState, VariationalInfo]:
        """Update q of every factor's rows and components, then of the noise."""
        plain, squared = self._expanded(state)
        means, covariances = dict(state.means), dict(state.covariances)
        columns, noise = dict(state.columns), dict(state.noise)
        for name in [n for n in means if n not in self.fixed]:
            prior = state._replace(columns=columns).components[name]
            left = np.tile(np.diag(prior.precision), (len(means[name]), 1, 1))
            right = np.tile(prior.precision * prior.mean, (len(means[name]), 1))
            for relation, position in self.engine.model.using(name):
                if relation.power == LOGIT:
                    gram, linear = self._odds(plain, squared, relation, position)
                else:
                    gram, linear = self._gaussian(plain, squared, relation, position, noise)
                left += gram.reshape(-1, *left.shape[1:])
                right += linear
            covariances[name] = np.asarray(np.linalg.inv(left), np.float64)
            means[name] = np.einsum("ikl,il->ik", covariances[name], right)
            plain.put(name, means[name])
            squared.put(name, _square(means[name], covariances[name]))
            columns[name] = self._columns(name, means[name], covariances[name], columns[name])
        for name in self.learned:
            known = self.prior.noise[name]
            errors = self._errors(plain, squared, name)
            noise[name] = known.shape + known.cells / 2.0, known.rate + errors / 2.0
        state = NormalBayesState(means, covariances, columns, noise)
        return state, VariationalInfo(self.bound(state) if objective else np.nan)

    def _gaussian(
        self,
        plain: Expanded,
        squared: Expanded,
        relation: BoundRelation,
        position: int,
        noise: Mapping[str, tuple[float, float]],
    ) -> tuple[Floats, Floats]:
        """Return E[τ]·Σ E[z·zᵀ] and E[τ]·Σ x·E[z] of the cells of a Gaussian relation."""
        shape, rate = noise[relation.name]
        twin = self.squared.model.relation(relation.name)
        gram = self.squared.denominator(squared, twin, position, signed=True)
        return shape / rate * gram, shape / rate * self.engine.numerator(plain, relation, position)

    def _odds(
        self, plain: Expanded, squared: Expanded, relation: BoundRelation, position: int
    ) -> tuple[Floats, Floats]:
        """Return Σ ω·E[z·zᵀ] and Σ w·(x − ½)·E[z] of the cells of a logit link."""
        twin = self.squared.model.relation(relation.name)
        cells = self.engine.sorted_cells(relation, position)
        listed = self._sizes(squared, relation, cells.indices)
        shares, weight = expected_precision(listed, relation.weight), relation.weight
        linear = weight * (cells.values - 0.5)
        if self.engine.data[relation.name].zeros == "missing":
            gram = self.squared.weighted(squared, twin, position, shares)
            return gram, self.engine.weighted(plain, relation, position, linear)
        # every cell as one of the unlisted zeros, and what the listed ones have beyond that
        size = self._unlisted_size(squared, relation)
        common = float(expected_precision(size, weight)[0])
        gram = self.squared.weighted(squared, twin, position, shares - common)
        gram = gram + common * self.squared.sums(squared, twin, position)
        found = self.engine.weighted(plain, relation, position, linear + 0.5 * weight)
        return gram, found - 0.5 * weight * self.engine.sums(plain, relation, position)

    def _sizes(self, squared: Expanded, relation: BoundRelation, cells: Any) -> Floats:
        """Return √E[ψ²] at cells."""
        second = estimate_cells(cells, squared.banks[relation.name])
        return np.sqrt(np.maximum(second, 0.0))

    def _unlisted_size(self, squared: Expanded, relation: BoundRelation) -> Floats:
        """Return the root mean E[ψ²] of the observed zeros that are not listed."""
        found = self.engine.data[relation.name]
        twin = self.squared.model.relation(relation.name)
        whole = self.squared.total_estimate(squared, twin)
        whole -= float(estimate_cells(found.indices, squared.banks[relation.name]).sum())
        return np.array([np.sqrt(max(whole, 0.0) / max(1, found.observed - found.cells))])

    def _odds_bound(self, plain: Expanded, squared: Expanded, relation: BoundRelation) -> float:
        """Return the bound of the expected log likelihood of a logit link, at the best ξ."""
        found = self.engine.data[relation.name]
        means = estimate_cells(found.indices, plain.banks[relation.name])
        total = float((found.values - 0.5) @ means)
        total -= float(log_cosh(self._sizes(squared, relation, found.indices)).sum())
        if found.zeros == "observed":
            size = self._unlisted_size(squared, relation)
            total -= (found.observed - found.cells) * float(log_cosh(size)[0])
            total -= 0.5 * (self.engine.total_estimate(plain, relation) - float(means.sum()))
        return relation.weight * total

    def _expanded(self, state: NormalBayesState) -> tuple[Expanded, Expanded]:
        squares = Expanded(self.squared.model, state.squares)
        return Expanded(self.engine.model, state.means), squares

    def _errors(self, plain: Expanded, squared: Expanded, name: str) -> float:
        """Return E Σ (x − x̂)² over the observed cells of a relation."""
        found = self.engine.data[name]
        cross = float(found.values @ estimate_cells(found.indices, plain.banks[name]))
        second = self.squared.total_estimate(squared, self.squared.model.relation(name))
        return max(0.0, float(found.values @ found.values) - 2.0 * cross + second)

    def _columns(self, name: str, mean: Floats, covariance: Floats, old: Columns) -> Columns:
        """Return q of the components of a factor: first of means, then of precisions."""
        first, second, count = self._sums(name, mean, covariance)
        weight = count + MEANS
        centre = first / weight
        variance = 1.0 / (weight * old.precision)
        shape = np.full(len(first), self.prior.shape[name] + (count + 1.0) / 2.0)
        spread = second - 2.0 * centre * first + weight * (centre**2 + variance)
        return Columns(centre, variance, shape, self.prior.rate[name] + spread / 2.0)

    def _sums(self, name: str, mean: Floats, covariance: Floats) -> tuple[Floats, Floats, int]:
        """Return Σ E[θ], Σ E[θ²] per component and how many entries each has."""
        first = mean.sum(axis=0)
        second = (mean**2 + np.diagonal(covariance, axis1=1, axis2=2)).sum(axis=0)
        if self.engine.model.factors[name].core:
            return first.sum(keepdims=True), second.sum(keepdims=True), mean.size
        return first, second, len(mean)

    def bound(self, state: NormalBayesState) -> float:
        """Return the evidence lower bound."""
        plain, squared = self._expanded(state)
        total = 0.0
        for name, (shape, rate) in state.noise.items():
            if self.engine.model.relation(name).power == LOGIT:
                total += self._odds_bound(plain, squared, self.engine.model.relation(name))
                continue
            cells = self.prior.noise[name].cells
            errors = self._errors(plain, squared, name)
            learned = name in self.learned
            log_tau = (special.digamma(shape) if learned else math.log(shape)) - math.log(rate)
            total += cells / 2.0 * (log_tau - _LOG_2PI) - shape / rate * errors / 2.0
            if learned:
                a, b, _ = self.prior.noise[name]
                total += float(_gamma_part(a, b, shape, rate, log_tau))
        for name, mean in state.means.items():
            if name in self.fixed:
                continue
            covariance, q = state.covariances[name], state.columns[name]
            first, second, count = self._sums(name, mean, covariance)
            square = q.mean**2 + q.variance
            apart = second - 2.0 * q.mean * first + count * square
            logs = q.log_precision
            total += float(np.sum(count / 2.0 * (logs - _LOG_2PI) - q.precision * apart / 2.0))
            centres = np.log(MEANS) + logs - _LOG_2PI - MEANS * q.precision * square
            total += float(np.sum(centres)) / 2.0
            total += float(np.sum(1.0 + _LOG_2PI + np.log(q.variance))) / 2.0
            entropy = np.linalg.slogdet(covariance)[1].sum() + mean.size * (1.0 + _LOG_2PI)
            total += float(entropy) / 2.0
            known = self.prior.shape[name], self.prior.rate[name]
            total += float(np.sum(_gamma_part(*known, q.shape, q.rate, logs)))
        return total


def _gamma_part(a: float, b: float, shape: Any, rate: Any, log_mean: Any) -> Floats:
    """Return E[log p(λ)] plus the entropy of q(λ), both gamma."""
    prior = a * np.log(b) - special.gammaln(a) + (a - 1.0) * log_mean - b * shape / rate
    entropy = shape - np.log(rate) + special.gammaln(shape)
    entropy = entropy + (1.0 - shape) * special.digamma(shape)
    return np.asarray(prior + entropy)


def _square(mean: Floats, covariance: Floats) -> Floats:
    return (mean[:, :, None] * mean[:, None, :] + covariance).reshape(len(mean), -1)


def _squared(model: BoundModel) -> BoundModel:
    """Return the model over pairs of latent combinations, whose factors are second moments."""
    factors = {
        n: FactorSpec(n, s.latents, s.rows, (s.columns, s.columns), s.core)
        for n, s in model.factors.items()
    }
    relations = []
    for r in model.relations:
        size = sum(model.factors[n].rows for n in r.factors) * r.combinations**2
        if size > _MOST:
            raise ParameterError(
                f"relation {r.name!r} has {r.combinations} latent combinations, too many for the "
                "covariances of variational Bayes: pass a smaller rank, or inference='gibbs'"
            )
        pairs = tuple(
            (c[:, None] * model.factors[n].columns + c[None, :]).ravel()
            for n, c in zip(r.factors, r.columns, strict=True)
        )
        relations.append(BoundRelation(r.name, r.factors, pairs, r.modes, 1.0, 1.0))
    return BoundModel(factors, tuple(relations))


def variance_of_products(
    state: NormalBayesState, model: BoundModel, relation: str, cells: NDArray[np.int32]
) -> Floats:
    """Return Var x̂ at cells under independent Gaussian rows."""
    second = estimates_at(_squared(model), relation, state.squares, cells)
    first = estimates_at(model, relation, state.means, cells)
    return np.maximum(second - first**2, 0.0)


def expected_chances(means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of 1/(1 + e^(−ψ)) for Gaussian ψ, by Gauss–Hermite quadrature.

    >>> [found.round(4).tolist() for found in expected_chances(np.zeros(1), np.ones(1))]
    [[0.5], [0.0434]]
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    shares, first = weights / weights.sum(), np.zeros(len(means))
    second = np.zeros(len(means))
    spread = np.sqrt(variances)
    for node, share in zip(nodes, shares, strict=True):
        chance = special.expit(means + node * spread)
        first += share * chance
        second += share * chance**2
    return first, np.maximum(second - first**2, 0.0)
