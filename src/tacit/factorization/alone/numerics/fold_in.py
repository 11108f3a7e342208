"""Fold-in: factor rows of new members of one entity, with all other factors fixed."""

from __future__ import annotations

import numpy as np

from tacit.factorization.alone.numerics.constraints import Constraints
from tacit.factorization.alone.numerics.log_odds import starting_precisions
from tacit.factorization.alone.numerics.multiplicative import MultiplicativeUpdates
from tacit.factorization.alone.numerics.normal_rows import (
    normal_equations,
    row_chunks,
    solve_rows,
)
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Factors, Floats

__all__ = ["fold_in_positive", "fold_in_real"]

_MOST = 2_000  # the problem is convex for p in [0, 1]; this many updates always sufficed


def fold_in_positive(
    entity: str,
    engine: Engine,
    factors: Factors,
    shape: float,
    rate: float,
    real: frozenset[str] = frozenset(),
) -> Floats:
    """Return rows by multiplicative updates under a gamma prior with shape and rate.

    The engine holds the new members' data; their rows start at the mean of the entity's fitted
    ones. Which factors may be negative is said by ``real``: an entity that is among them has a
    Gaussian prior with that rate as its precision.
    """
    bound = engine.model
    spec = bound.factors[entity]
    start = np.maximum(factors[entity].mean(axis=0), 1e-6)
    rows = np.tile(start, (spec.rows, 1))
    fixed = {n: v for n, v in factors.items() if n in bound.factors and n != entity}
    kernel = MultiplicativeUpdates(engine, shape, rate, Constraints(real=real))
    expanded = Expanded(bound, {**fixed, entity: rows})
    for _ in range(_MOST):
        updated = kernel.update(expanded, entity, rows)
        expanded.put(entity, updated)
        moved = np.abs(updated - rows).max() / max(np.abs(rows).max(), 1e-300)
        rows = updated
        if moved < 1e-8:
            break
    return np.asarray(rows.reshape((spec.rows, *spec.ranks)))


def fold_in_real(
    entity: str, engine: Engine, factors: Factors, mean: Floats, precision: Floats
) -> Floats:
    """Return real rows: the posterior modes of new members, under the prior of the components.

    Under a logit link they are found by expected precisions, which bound the likelihood, so that
    the density never falls; otherwise at once, and then they are means as well.
    """
    spec = engine.model.factors[entity]
    rows = np.tile(mean, (spec.rows, 1))
    fixed = {n: v for n, v in factors.items() if n in engine.model.factors and n != entity}
    expanded = Expanded(engine.model, {**fixed, entity: rows})
    phi = {relation.name: relation.dispersion for relation in engine.model.relations}
    for _ in range(_MOST):
        before = rows.copy()
        odds = starting_precisions(engine, expanded, entity)
        for part in row_chunks(*spec.table):
            left, right = normal_equations(engine, expanded, entity, phi, part, odds=odds)
            right += precision * mean
            rows[part] = solve_rows(left, precision, right, np.zeros_like(right))
        expanded.put(entity, rows)
        if not odds or np.abs(rows - before).max() < 1e-8 * max(np.abs(rows).max(), 1e-300):
            break
    return rows.reshape((spec.rows, *spec.ranks))
