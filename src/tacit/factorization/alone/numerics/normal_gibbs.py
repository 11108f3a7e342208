"""Gibbs sampling of real factors: Bayesian factorization of coupled relations.

Source: Salakhutdinov and Mnih (2008) for one matrix; here any multilinear form and any number of
relations. Given everything else, a row of a factor is Gaussian with precision Λ + Σ_v Σ z·zᵀ/φ_v
and linear term Λ·μ + Σ_v Σ z·x/φ_v (`tacit.factorization.alone.numerics.normal_rows`); means,
precisions and noise have conjugate laws (`tacit.factorization.alone.numerics.normal_prior`). So it
is under a logit link, given Pólya–Gamma precisions of its cells, which are drawn before the rows
of each factor (`tacit.factorization.alone.numerics.log_odds`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import NamedTuple

import numpy as np

from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.log_odds import (
    check_whole,
    drawn_precisions,
    starting_precisions,
)
from tacit.factorization.alone.numerics.normal_prior import (
    Components,
    NormalPrior,
    squared_errors,
)
from tacit.factorization.alone.numerics.normal_rows import (
    normal_equations,
    row_chunks,
    solve_rows,
)
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Factors, Floats
from tacit.factorization.divergences import LOGIT, loss_name

__all__ = ["NormalGibbs", "NormalInfo", "NormalState", "check_real", "start_dispersions"]

_KEPT = 0.4  # the share of rows that damped sweeps keep
# how many starts go on, and for how many damped sweeps: of matrices, and of more modes or a core
_MATRICES, _TENSORS = ((1, 50),), ((8, 15), (3, 15), (1, 20))


class NormalState(NamedTuple):
    """The factors, the prior of their components, and the noise variance of every relation."""

    factors: Factors
    components: Mapping[str, Components]
    dispersions: Mapping[str, float]


class NormalInfo(NamedTuple):
    """Σ (x − x̂)²/φ over all observed cells, before φ was drawn anew; of log odds the deviance."""

    misfit: float


def check_real(engine: Engine) -> None:
    """Refuse relations whose estimates may not be negative."""
    for relation in engine.model.relations:
        if relation.power not in (0.0, LOGIT):
            raise ParameterError(
                "real factors need divergence='euclidean' or 'logit' in every relation: "
                f"{relation.name!r} has {loss_name(relation.power)}"
            )


def start_dispersions(engine: Engine, prior: NormalPrior, learned: Set[str]) -> dict[str, float]:
    """Return the noise variance that each relation starts with: its own, or that of its values."""
    return {
        r.name: prior.start_dispersion(r.name) if r.name in learned else r.dispersion
        for r in engine.model.relations
    }


class NormalGibbs:
    """A kernel for models of real factors.

    ``stated`` are shape and mean of the precisions of some factors, ``learned`` the relations
    whose noise variance is drawn along with the factors; those that are ``fixed`` stay. What only
    starts another method need not be ``exact``: cells of log odds then have expected precisions.
    """

    def __init__(
        self,
        engine: Engine,
        stated: Mapping[str, tuple[float, float]] | None = None,
        learned: Set[str] = frozenset(),
        fixed: Factors | None = None,
        *,
        exact: bool = True,
    ) -> None:
        check_real(engine)
        if exact:
            check_whole(engine)
        self.exact = exact
        self.engine, self.learned, self.fixed = engine, learned, fixed or {}
        self.prior = NormalPrior(engine, stated or {}, fixed)

    def init(self, rng: np.random.Generator) -> NormalState:
        """Draw random factors of the data's size, and take some damped sweeps from there.

        Full sweeps from a random start often explain one mode of a tensor by noise of another,
        and are then stuck; damped ones are so still at times. So several starts compete.
        """
        dispersions = start_dispersions(self.engine, self.prior, self.learned)
        many = any(len(relation.factors) > 2 for relation in self.engine.model.relations)
        plan = _TENSORS if many else _MATRICES
        states = [
            NormalState({**self.prior.start(rng), **self.fixed}, {}, dispersions)
            for _ in range(plan[0][0])
        ]
        for kept, sweeps in plan:
            if len(states) > kept:
                states = sorted(states, key=self._misfit)[:kept]
            for _ in range(sweeps):
                states = [self.step(rng, state, kept=_KEPT)[0] for state in states]
        return states[0]

    def _misfit(self, state: NormalState) -> float:
        """Return −2·log likelihood up to a constant, at the best noise where that is learned."""
        expanded, total = Expanded(self.engine.model, state.factors), 0.0
        for relation in self.engine.model.relations:
            squares = squared_errors(self.engine, expanded, relation.name)
            cells = max(1, self.engine.data[relation.name].observed)
            if relation.name in self.learned:
                total += cells * math.log(max(squares, 1e-300) / cells)
            else:
                total += squares / state.dispersions[relation.name]
        return float(total)

    def step(
        self, rng: np.random.Generator, state: NormalState, *, kept: float = 0.0
    ) -> tuple[NormalState, NormalInfo]:
        """Draw the components and rows of every factor, then the noise variances.

        Rows keep a share of what they were: an autoregression with the same law.
        """
        expanded = Expanded(self.engine.model, state.factors)
        factors, components = dict(state.factors), {}
        dispersions = dict(state.dispersions)
        for name in factors:
            components[name] = self.prior.components(rng, name, factors[name])
            if name in self.fixed:
                continue
            drawn = self._rows(rng, expanded, name, components[name], dispersions, kept)
            factors[name] = kept * factors[name] + drawn if kept else drawn
            expanded.put(name, factors[name])
        misfit = 0.0
        for relation in dispersions:
            squares = squared_errors(self.engine, expanded, relation)
            misfit += squares / dispersions[relation]
            if relation in self.learned:
                dispersions[relation] = self.prior.noise[relation].variance(rng, squares)
        return NormalState(factors, components, dispersions), NormalInfo(misfit)

    def _rows(
        self,
        rng: np.random.Generator,
        expanded: Expanded,
        name: str,
        components: Components,
        dispersions: Mapping[str, float],
        kept: float,
    ) -> Floats:
        """Draw all rows of a factor, given everything else, up to the share that is kept."""
        rows, columns = self.engine.model.factors[name].table
        drawn = np.empty((rows, columns))
        if self.exact:
            odds = drawn_precisions(rng, self.engine, expanded, name)
        else:
            odds = starting_precisions(self.engine, expanded, name)
        for part in row_chunks(rows, columns):
            left, right = normal_equations(
                self.engine, expanded, name, dispersions, part, odds=odds
            )
            right += components.precision * components.mean
            noise = rng.standard_normal(right.shape)
            if kept:
                noise *= np.sqrt(1.0 - kept**2)
                right *= 1.0 - kept
            drawn[part] = solve_rows(left, components.precision, right, noise)
        return drawn
