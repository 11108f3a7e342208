"""Gibbs sampling for Poisson–gamma models, and for negative binomial counts.

Given the factors, the counts of a cell are allocated to the latent combinations by a multinomial
draw; given the allocations, every factor entry is gamma distributed:

    s | x, θ ~ Multinomial(x, Π θ / x̂),   θ | s, θ' ~ Gamma(A + Σ s, rate A/B + Σ Π θ').

Each `step` draws the allocations once and then all factors, one after the other.

Negative binomial counts are Poisson ones of rate g·x̂ with g ~ Gamma(r, rate r), r = 1/φ. The
shares of a cell do not depend on g; given its count g ~ Gamma(r + x, rate r + x̂), drawn anew
before every factor, whose exposure at the cell it multiplies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from tacit._core import kernels
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import estimate_cells
from tacit.factorization.alone.numerics.priors import each_factor
from tacit.factorization.alone.numerics.sums import Engine, Expanded, fresh_factors
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.divergences import NEGATIVE_BINOMIAL, loss_name
from tacit.factorization.language.structure import BoundRelation

__all__ = ["GibbsInfo", "GibbsSampler", "GibbsState"]

_FEW = 16.0  # counts up to which one uniform number each is cheaper than binomial draws


class GibbsState(NamedTuple):
    """The factors."""

    factors: Factors


class GibbsInfo(NamedTuple):
    """The expected count over all observed cells."""

    total: float


class GibbsSampler:
    """A kernel for Poisson–gamma models with a prior of shape A and mean B.

    Both are numbers for all factors, or one each; factors that are ``fixed`` stay as they are. The
    engine's data are whole counts: negative binomial, or with the KL divergence and dispersion 1.
    """

    def __init__(
        self,
        engine: Engine,
        shape: float | Mapping[str, float] = 0.5,
        mean: float | Mapping[str, float] = 10.0,
        fixed: Factors | None = None,
    ) -> None:
        self.fixed = fixed or {}
        self.shape = each_factor("shape", shape, engine.model)
        self.mean = each_factor("mean", mean, engine.model)
        for relation in engine.model.relations:
            values = engine.data[relation.name].values
            poisson = relation.power == 1.0 and relation.dispersion == 1.0
            if not poisson and relation.power != NEGATIVE_BINOMIAL:
                raise ParameterError(
                    f"Gibbs sampling of counts: relation {relation.name!r} must have "
                    "divergence='kl' and dispersion 1, or 'negative-binomial' (or all of them "
                    f"'euclidean' or 'logit'). {loss_name(relation.power)} has no conjugate law: "
                    "pass inference='vb' or 'sgld'"
                )
            if (values != np.floor(values)).any():
                raise ParameterError(
                    f"Gibbs sampling needs whole counts, and relation {relation.name!r} has others"
                )
        self.engine = engine

    def init(self, rng: np.random.Generator) -> GibbsState:
        """Draw random factors of the data's size."""
        return GibbsState(fresh_factors(self.engine, rng, self.fixed))

    def prior(self, rng: np.random.Generator) -> GibbsState:
        """Draw the factors from their prior."""
        specs, shape, mean = self.engine.model.factors.items(), self.shape, self.mean
        return GibbsState(
            {n: rng.gamma(shape[n], mean[n] / shape[n], spec.table) for n, spec in specs}
        )

    def step(self, rng: np.random.Generator, state: GibbsState) -> tuple[GibbsState, GibbsInfo]:
        """Draw allocations, then every factor."""
        expanded = Expanded(self.engine.model, state.factors)
        values = {name: found.values for name, found in self.engine.data.items()}
        factors = self.draw_factors(rng, expanded, values)
        total = sum(self.engine.total_estimate(expanded, r) for r in self.engine.model.relations)
        return GibbsState(factors), GibbsInfo(float(total))

    def draw_factors(
        self,
        rng: np.random.Generator,
        expanded: Expanded,
        values: Factors,
        only: Collection[str] | None = None,
    ) -> Arrays:
        """Draw allocations of the given counts, then every factor, or ``only`` some of them.

        ``expanded`` follows.
        """
        model = self.engine.model
        counts = {name: np.zeros(spec.table) for name, spec in model.factors.items()}
        for relation in model.relations:
            self._allocate(rng, expanded, relation, values[relation.name], counts)
        factors = {}
        for name, allocated in counts.items():
            if only is not None and name not in only:
                continue
            if name in self.fixed:
                factors[name] = np.asarray(self.fixed[name])
                continue
            exposure = np.full_like(allocated, self.shape[name] / self.mean[name])
            for relation, position in model.using(name):
                if relation.power == NEGATIVE_BINOMIAL:
                    shares = self._frailties(rng, expanded, relation, position)
                    exposure += self.engine.weighted(expanded, relation, position, shares)
                else:
                    exposure += self.engine.denominator(expanded, relation, position)
            drawn = rng.standard_gamma(self.shape[name] + allocated) / exposure
            factors[name] = np.maximum(drawn, 1e-290)  # a gamma draw may underflow to zero
            expanded.put(name, factors[name])
        return factors

    def _frailties(
        self,
        rng: np.random.Generator,
        expanded: Expanded,
        relation: BoundRelation,
        position: int,
    ) -> Floats:
        """Draw g of the cells of negative binomial counts, sorted along a factor."""
        cells, r = self.engine.sorted_cells(relation, position), 1.0 / relation.dispersion
        rates = estimate_cells(cells.indices, expanded.banks[relation.name])
        return np.asarray(rng.standard_gamma(r + cells.values) / (r + rates))

    def _allocate(
        self,
        rng: np.random.Generator,
        expanded: Expanded,
        relation: BoundRelation,
        values: Floats,
        counts: Arrays,
    ) -> None:
        """Draw the allocations of one relation and add them up per factor entry."""
        found = self.engine.data[relation.name]
        bank = expanded.banks[relation.name]
        rows = np.zeros((int(bank.offsets[-1]), relation.combinations))
        core = np.zeros((1, relation.combinations))
        kernels.compiled(_share_out, unchecked=True)(
            rng, found.indices, values, bank.rows, bank.offsets, bank.weights, rows, core
        )
        for position, name in enumerate(relation.factors):
            part = core
            if position < relation.modes:
                part = rows[bank.offsets[position] : bank.offsets[position + 1]]
            counts[name] += self.engine.reduce(relation, position, part)


def _share_out(
    rng: Any, cells: Any, values: Any, bank: Any, offsets: Any, weights: Any, rows: Any, core: Any
) -> None:
    """Draw Multinomial(x, shares) at every cell; add up per row of every mode, and over all.

    Few counts find their share one by one, many by one binomial draw per share.
    """
    combinations = weights.shape[0]
    shares = np.empty(combinations)
    drawn = np.empty(combinations)
    for c in range(cells.shape[0]):
        count = values[c]
        if count <= 0.0:
            continue
        total = 0.0
        for r in range(combinations):
            rate = weights[r]
            for m in range(cells.shape[1]):
                rate *= bank[offsets[m] + cells[c, m], r]
            shares[r] = max(rate, 1e-300)
            total += shares[r]
            drawn[r] = 0.0
        if count <= _FEW:
            for _ in range(int(count)):
                left = rng.random() * total
                r = 0
                while r < combinations - 1 and left >= shares[r]:
                    left -= shares[r]
                    r += 1
                drawn[r] += 1.0
        else:
            rest = count
            for r in range(combinations - 1):
                chance = min(shares[r] / total, 1.0) if total > 0.0 else 1.0
                if rest > 0.0:
                    drawn[r] = rng.binomial(int(rest), chance)
                rest -= drawn[r]
                total -= shares[r]
            drawn[combinations - 1] = rest
        for r in range(combinations):
            if drawn[r] > 0.0:
                core[0, r] += drawn[r]
                for m in range(cells.shape[1]):
                    rows[offsets[m] + cells[c, m], r] += drawn[r]
