"""Fold-in: factor rows of new members of one entity, with all other factors fixed."""

from __future__ import annotations

import numpy as np

from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.multiplicative import MultiplicativeUpdates
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Factors, Floats

__all__ = ["fold_in_positive", "fold_in_real"]

_MOST = 2_000  # the problem is convex for p in [0, 1]; this many updates always sufficed


def fold_in_positive(
    entity: str, engine: Engine, factors: Factors, shape: float, rate: float
) -> Floats:
    """Return non-negative rows by multiplicative updates under a gamma prior with shape and rate.

    The engine holds the new members' data; their rows start at the mean of the entity's fitted
    ones.
    """
    bound = engine.model
    spec = bound.factors[entity]
    start = np.maximum(factors[entity].mean(axis=0), 1e-6)
    rows = np.tile(start, (spec.rows, 1))
    fixed = {n: v for n, v in factors.items() if n in bound.factors and n != entity}
    kernel = MultiplicativeUpdates(engine, shape, rate)
    expanded = Expanded(bound, {**fixed, entity: rows})
    for _ in range(_MOST):
        updated = kernel.update(expanded, entity, rows)
        expanded.put(entity, updated)
        moved = np.abs(updated - rows).max() / max(np.abs(rows).max(), 1e-300)
        rows = updated
        if moved < 1e-8:
            break
    return np.asarray(rows.reshape((spec.rows, *spec.ranks)))


def fold_in_real(entity: str, engine: Engine, factors: Factors, precision: float) -> Floats:
    """Return real rows: the ridge regression of new members' cells on the fixed factors."""
    spec = engine.model.factors[entity]
    left = np.tile(precision * np.eye(spec.columns), (spec.rows, 1, 1))
    right = np.zeros((spec.rows, spec.columns))
    for relation, position in engine.model.using(entity):
        found = engine.data[relation.name]
        if found.zeros == "observed":
            raise ParameterError("list the new members' cells: pass zeros='missing'")
        product = np.ones((found.cells, relation.combinations))
        for other, name in enumerate(relation.factors):
            if other != position:
                core = other >= relation.modes
                rows = np.zeros(found.cells, int) if core else found.indices[:, other]
                product *= factors[name][rows][:, relation.columns[other]]
        design = np.zeros((found.cells, spec.columns))
        for r, column in enumerate(relation.columns[position]):
            design[:, column] += product[:, r]
        owner = found.indices[:, position]
        np.add.at(left, owner, design[:, :, None] * design[:, None, :] / relation.dispersion)
        np.add.at(right, owner, design * found.values[:, None] / relation.dispersion)
    solved = np.linalg.solve(left, right[:, :, None])[:, :, 0]
    return np.asarray(solved.reshape((spec.rows, *spec.ranks)))
