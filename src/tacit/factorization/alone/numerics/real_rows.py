"""Updates beside factors that may be negative: exact rows, and what is left for non-negative ones.

Given all other factors, the loss of a relation is majorised by a quadratic function of a row θ,

    −g·(θ − θ') + ½(θ − θ')ᵀP(θ − θ'),   P = c·Σ z·zᵀ/φ,   g minus its gradient at θ',

with c = 1 for the Euclidean cost (where it is exact) and c = ¼ under a logit link, whose second
derivative y(1 − y) is at most ¼ (Böhning 1992).

- **A real factor** goes to the minimum of all of them with a Gaussian prior of precision λ: θ' +
  P⁻¹g, solved row by row; with a graph, rows depend on each other, and conjugate gradients from θ'
  solve for all of them (each of their steps lowers the quadratic function).
- **A non-negative factor** with a real partner: with h = Pθ' + g and P = P⁺ − P⁻, h = h⁺ − h⁻
  (Ding, Li and Jordan 2010), along θ ← u·θ' the function is at most A·u²/2 − B·log u, with
  A = P⁺θ' + h⁻ and B = P⁻θ' + h⁺: what `tacit.factorization.divergences` calls powers (2, 0).

A factor that occurs twice in a relation does not leave its loss quadratic. Then this step is only
a direction along which the objective falls, and it is halved until it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from tacit.factorization.alone.numerics.constraints import Graph
from tacit.factorization.alone.numerics.normal_rows import (
    normal_equations,
    row_chunks,
    solve_rows,
)
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Floats
from tacit.factorization.divergences import LOGIT

__all__ = ["halved", "real_step", "split_rows"]

_STEPS, _ENOUGH = 30, 1e-10  # of conjugate gradients
_HALVINGS = 20


def _curvatures(engine: Engine) -> dict[str, float]:
    """Return 1/(c·weight) of every relation: the variance that its rows seem to have."""
    return {
        relation.name: (4.0 if relation.power == LOGIT else 1.0) / relation.weight
        for relation in engine.model.relations
    }


def descent(
    engine: Engine, expanded: Expanded, name: str, only: Collection[str] | None = None
) -> Floats:
    """Return minus the gradient of the losses along a factor."""
    total = np.zeros(engine.model.factors[name].table)
    for relation, position in engine.model.using(name):
        if only is None or relation.name in only:
            up, down = engine.both(expanded, relation, position)
            total += relation.weight * (up - down)
    return total


def real_step(
    engine: Engine,
    expanded: Expanded,
    name: str,
    theta: Floats,
    precision: float,
    graph: Graph | None,
) -> Floats:
    """Return the way of a factor to the minimum of its majorant."""
    slope = descent(engine, expanded, name) - precision * theta
    if graph is not None:
        slope -= graph.slope(theta)
    spread = _curvatures(engine)
    ridge, moved = np.full(theta.shape[1], precision), np.empty_like(theta)
    blocks = []
    for part in row_chunks(*theta.shape):
        left, _ = normal_equations(engine, expanded, name, spread, part)
        if graph is None:
            moved[part] = solve_rows(left, ridge, slope[part], np.zeros_like(slope[part]))
        else:
            blocks.append(_whole(left, theta.shape[1]))
    if graph is None:
        return moved
    return _conjugate_gradients(np.concatenate(blocks), precision, graph, slope)


def _whole(upper: Floats, columns: int) -> Floats:
    """Return symmetric matrices of which the upper triangles are given."""
    kept = np.triu(upper[:, :, :columns])
    return np.asarray(kept + np.triu(kept, 1).transpose(0, 2, 1))


def _conjugate_gradients(blocks: Floats, precision: float, graph: Graph, slope: Floats) -> Floats:
    """Solve (P + λ + μL)·d = slope, preconditioned by its diagonal blocks."""
    eye = np.eye(blocks.shape[1])
    whole = blocks + (precision + graph.degrees)[:, None, None] * eye
    inverse = np.asarray(np.linalg.inv(whole), np.float64)

    def applied(table: Floats, of: Floats) -> Floats:
        return np.asarray(np.matmul(table, of[:, :, None])[:, :, 0])

    found, left = np.zeros_like(slope), slope
    towards = applied(inverse, left)
    direction, size = towards, float(np.vdot(left, towards))
    first = size
    for _ in range(_STEPS):
        if size <= _ENOUGH * first or size <= 0.0:
            break
        image = applied(blocks, direction) + precision * direction + graph.slope(direction)
        far = size / float(np.vdot(direction, image))
        found, left = found + far * direction, left - far * image
        towards = applied(inverse, left)
        before, size = size, float(np.vdot(left, towards))
        direction = towards + size / before * direction
    return found


def split_rows(
    engine: Engine, expanded: Expanded, name: str, theta: Floats, only: Collection[str]
) -> tuple[Floats, Floats]:
    """Return B and A of a non-negative factor, of the relations that have a real one beside it."""
    up, down = np.empty_like(theta), np.empty_like(theta)
    slope = descent(engine, expanded, name, only)
    spread = _curvatures(engine)
    for part in row_chunks(*theta.shape):
        left, _ = normal_equations(engine, expanded, name, spread, part, only)
        left = _whole(left, theta.shape[1])
        rising, falling = (
            np.matmul(np.maximum(sign * left, 0.0), theta[part][:, :, None])[:, :, 0]
            for sign in (1.0, -1.0)
        )
        linear = rising - falling + slope[part]
        up[part] = falling + np.maximum(linear, 0.0)
        down[part] = rising - np.minimum(linear, 0.0)
    return up, down


def halved(
    theta: Floats, moved: Callable[[float], Floats], cost: Callable[[Floats], float]
) -> Floats:
    """Return the factor after as much of a step as lowers the cost; itself after none."""
    before, share = cost(theta), 1.0
    for _ in range(_HALVINGS):
        found = moved(share)
        if cost(found) <= before:
            return found
        share /= 2.0
    return theta
