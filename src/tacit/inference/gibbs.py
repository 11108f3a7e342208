"""Gibbs sampling for Poisson–gamma models.

Given the factors, the counts of a cell are allocated to the latent combinations by a multinomial
draw; given the allocations, every factor entry is gamma distributed:

    s | x, θ ~ Multinomial(x, Π θ / x̂),   θ | s, θ' ~ Gamma(A + Σ s, rate A/B + Σ Π θ').

Each `step` draws the allocations once and then all factors, one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.inference.engine import Engine, Expanded, fresh_factors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.models.structure import BoundRelation

__all__ = ["GibbsInfo", "GibbsSampler", "GibbsState"]

_CHUNK = 1 << 16  # cells whose allocations are held at once


class GibbsState(NamedTuple):
    """The factors."""

    factors: Mapping[str, NDArray[np.float64]]


class GibbsInfo(NamedTuple):
    """The expected count over all observed cells."""

    total: float


class GibbsSampler:
    """A kernel for Poisson–gamma models.

    Parameters
    ----------
    engine
        The bound model with its data: whole counts, KL divergence, dispersion 1.
    shape, mean
        The prior's shape A and mean B.
    """

    def __init__(self, engine: Engine, shape: float = 0.5, mean: float = 10.0) -> None:
        check("shape", shape, Real(0, open_low=True))
        check("mean", mean, Real(0, open_low=True))
        for relation in engine.model.relations:
            values = engine.data[relation.name].values
            if relation.power != 1.0 or relation.dispersion != 1.0:
                raise ParameterError(
                    f"Gibbs sampling is for Poisson–gamma models: relation {relation.name!r} must "
                    "have divergence='kl' and dispersion 1"
                )
            if (values != np.floor(values)).any():
                raise ParameterError(
                    f"Gibbs sampling needs whole counts, and relation {relation.name!r} has others"
                )
        self.engine, self.shape, self.mean = engine, float(shape), float(mean)

    def init(self, rng: np.random.Generator) -> GibbsState:
        """Draw random factors of the data's size."""
        return GibbsState(fresh_factors(self.engine, rng))

    def prior(self, rng: np.random.Generator) -> GibbsState:
        """Draw the factors from their prior."""
        return GibbsState(
            {
                name: rng.gamma(self.shape, self.mean / self.shape, (spec.rows, spec.columns))
                for name, spec in self.engine.model.factors.items()
            }
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
        values: Mapping[str, NDArray[np.float64]],
    ) -> dict[str, NDArray[np.float64]]:
        """Draw allocations, then every factor, for given counts at the listed cells.

        Parameters
        ----------
        expanded
            The current factors, brought up to date with the new ones.
        values
            Relation → counts of its listed cells.
        """
        model = self.engine.model
        specs = model.factors.items()
        counts = {name: np.zeros((spec.rows, spec.columns)) for name, spec in specs}
        for relation in model.relations:
            self._allocate(rng, expanded, relation, values[relation.name], counts)
        factors = {}
        for name, allocated in counts.items():
            exposure = np.full_like(allocated, self.shape / self.mean)
            for relation, position in model.using(name):
                exposure += self.engine.denominator(expanded, relation, position, 1.0)
            drawn = rng.standard_gamma(self.shape + allocated) / exposure
            factors[name] = np.maximum(drawn, 1e-290)  # a gamma draw may underflow to zero
            expanded.put(name, factors[name])
        return factors

    def _allocate(
        self,
        rng: np.random.Generator,
        expanded: Expanded,
        relation: BoundRelation,
        values: NDArray[np.float64],
        counts: dict[str, NDArray[np.float64]],
    ) -> None:
        """Draw the allocations of one relation and add them up per factor entry."""
        found = self.engine.data[relation.name]
        bank = expanded.banks[relation.name]
        listed = np.flatnonzero(values > 0)
        for start in range(0, len(listed), _CHUNK):
            part = listed[start : start + _CHUNK]
            cells = found.indices[part]
            rates = np.tile(bank.weights, (len(part), 1))
            for mode in range(relation.modes):
                rates *= bank.mode(mode)[cells[:, mode]]
            rates = np.maximum(rates, 1e-300)
            shares = rates / rates.sum(axis=1, keepdims=True)
            drawn = rng.multinomial(values[part].astype(np.int64), shares).astype(float)
            for position, name in enumerate(relation.factors):
                rows = (
                    cells[:, position] if position < relation.modes else np.zeros(len(part), int)
                )
                expanded_counts = np.zeros((counts[name].shape[0], relation.combinations))
                np.add.at(expanded_counts, rows, drawn)
                counts[name] += self.engine.reduce(relation, position, expanded_counts)
