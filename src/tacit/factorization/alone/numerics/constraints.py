"""What a caller states about factors: given ones, signs, and neighbours that should be alike.

**A graph** over the members of a factor adds μ/2·tr(θᵀLθ) = μ/2·Σ_{i<j} W_ij·‖θ_i − θ_j‖² to the
objective, L = D − W its Laplacian: neighbours have similar rows. Of an ordered mode, neighbours of
a member are those before and after it. Along θ ← u·θ of a non-negative factor, D's part is
quadratic and −W's at most linear in log u (u_i·u_j ≥ 1 + log u_i + log u_j): numerator μWθ and
denominator μDθ with powers (2, 0) of `tacit.factorization.divergences.majorisation_powers`.

The penalty says nothing about sizes: where nothing holds the other factors, they grow and this one
shrinks until it costs nothing. So every factor has a prior where one has a graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.language.structure import BoundModel

__all__ = ["Constraints", "Graph", "given_factor", "graph_of"]


@dataclass(frozen=True)
class Graph:
    """Weights μ·W between the members of a factor, and their sums μ·D."""

    weights: Any
    degrees: Floats

    def pulled(self, theta: Floats) -> Floats:
        """Return μWθ."""
        return np.asarray(self.weights @ theta)

    def slope(self, theta: Floats) -> Floats:
        """Return μLθ, the gradient of the penalty."""
        return self.degrees[:, None] * theta - self.pulled(theta)

    def penalty(self, theta: Floats) -> float:
        """Return μ/2·tr(θᵀLθ)."""
        return 0.5 * float(np.vdot(theta, self.slope(theta)))


@dataclass(frozen=True)
class Constraints:
    """Factors that are given, those that may be negative, and graphs of others."""

    fixed: Factors = field(default_factory=dict)
    real: frozenset[str] = frozenset()
    graphs: Mapping[str, Graph] = field(default_factory=dict)

    def imposed(self, factors: Factors) -> Arrays:
        """Return factors of which the given ones are as given."""
        return {**factors, **self.fixed}


def graph_of(entity: str, stated: Any, rows: int) -> Graph:
    """Return the graph of an entity: a strength μ of an ordered one, or (weights, μ).

    >>> graph_of("day", 2.0, 3).degrees.tolist()
    [2.0, 4.0, 2.0]
    """
    weights, strength = stated if isinstance(stated, tuple | list) else (None, stated)
    check(f"smooth of {entity!r}", strength, Real(0, open_low=True))
    if weights is None:
        near = np.ones(rows - 1)
        table = sparse.diags_array([near, near], offsets=[-1, 1], shape=(rows, rows))
    else:
        table = sparse.coo_array(weights).astype(np.float64)
    table = sparse.csr_array(table)
    if table.shape != (rows, rows):
        raise ParameterError(
            f"smooth of {entity!r} must have weights of shape {(rows, rows)}, one row and column "
            f"for each member in order, got {table.shape}"
        )
    different = abs(table - table.T)
    if table.nnz and (
        not np.isfinite(table.data).all() or table.data.min() < 0.0 or different.max() > 1e-12
    ):
        raise ParameterError(
            f"smooth of {entity!r} must have symmetric weights ≥ 0: pass (W + W.T) / 2 of those "
            "that are not"
        )
    table = sparse.csr_array(strength * table)
    return Graph(table, np.asarray(table.sum(axis=1), np.float64).ravel())


def given_factor(model: BoundModel, name: str, values: Any, positive: bool) -> Floats:
    """Return a given factor as a table, checked."""
    spec = model.factors[name]
    table = np.asarray(values, np.float64)
    if table.shape != spec.shape:
        raise ParameterError(
            f"fixed of {name!r} must have shape {spec.shape}, one row for each member in order, "
            f"got {table.shape}"
        )
    if not np.isfinite(table).all() or (positive and table.min() < 0.0):
        raise ParameterError(
            f"fixed of {name!r} must hold finite numbers"
            + (" ≥ 0: name it in real_factors if it may be negative" if positive else "")
        )
    return table.reshape(spec.table)
