"""Public scales of factors: how large a typical entry is, from forms, ranks and bounds alone."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tacit.factorization.arrays import Arrays
from tacit.factorization.together.problem import Problem

__all__ = ["TYPICAL", "factor_scales", "fresh_values", "relation_scale", "relation_weight"]

TYPICAL = 0.4  # a typical estimate on values mapped to [−1, 1]


def relation_scale(problem: Problem, relation: str) -> float:
    """Return the public scale of a relation's factor entries.

    Normal: Σ over R combinations of products of P independent entries of variance s² has the
    variance R·s^(2P), that of a typical estimate. KL: R·s^P is a quarter of the way up the bounds.
    """
    factors = len(problem.model.forms[relation])
    combinations = problem.model.combinations(relation)
    if problem.model.powers[relation] == 0.0:
        return float((TYPICAL / math.sqrt(combinations)) ** (1.0 / factors))
    low, high = problem.bounds.get(relation, (0.0, 4.0))
    return float(((low + (high - low) / 4.0) / combinations) ** (1.0 / factors))


def relation_weight(problem: Problem, relation: str, low: float, high: float) -> float:
    """Return 1/φ for values mapped to [−1, 1] (Normal), or as they are (KL)."""
    phi = float(problem.model.dispersions[relation])
    half = (high - low) / 2.0
    return half * half / phi if problem.model.powers[relation] == 0.0 else 1.0 / phi


def factor_scales(problem: Problem) -> dict[str, float]:
    """Return the public scale of every factor, from the first relation that names it."""
    scales: dict[str, float] = {}
    for relation in sorted(problem.model.forms, key=lambda name: name not in problem.bounds):
        for factor in problem.model.names(relation):
            scales.setdefault(factor, relation_scale(problem, relation))
    return scales


def fresh_values(
    problem: Problem, shapes: Mapping[str, tuple[int, int]], rng: np.random.Generator
) -> Arrays:
    """Return random factors of their public scale."""
    scales = factor_scales(problem)
    if 0.0 in problem.model.powers.values():
        return {n: scales[n] * rng.standard_normal(shape) for n, shape in shapes.items()}
    return {n: scales[n] * rng.uniform(0.5, 1.5, shape) for n, shape in shapes.items()}
