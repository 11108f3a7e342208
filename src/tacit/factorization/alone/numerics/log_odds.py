"""Relations with a logit link, as Gaussian ones: the precision of every cell.

Given a precision ω of its own, a cell with log odds ψ has the likelihood of a Gaussian one,

    w·(x − ½)·ψ − ½·ω·ψ²,   w = 1/φ,

which is exact for ω ~ PG(w, ψ), and the bound of Jaakkola and Jordan (2000) for ω = E[PG(w, ξ)],
tight at ψ² = ξ² (`tacit.factorization.alone.numerics.polya_gamma`). Precisions are found anew
for every factor, for the cells sorted along it: it saves a permutation, and a chain mixes better.

Zeros that are observed but not listed have one ξ together, where they are bounded: then their sum
needs column sums and Gram matrices of the factors only. The best ξ² is their mean E[ψ²].
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import estimate_cells
from tacit.factorization.alone.numerics.polya_gamma import expected_precision, polya_gamma
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Floats
from tacit.factorization.divergences import LOGIT
from tacit.factorization.language.structure import BoundRelation

__all__ = [
    "Precisions",
    "check_whole",
    "deviance",
    "drawn_precisions",
    "log_cosh",
    "starting_precisions",
]


class Precisions(NamedTuple):
    """ω of the listed cells of a relation, in some order, and of each zero that is not listed."""

    listed: Floats
    unlisted: float = 0.0


def log_cosh(odds: Floats) -> Floats:
    """Return log(2·cosh(ψ/2)), by which the likelihood of log odds is divided.

    >>> log_cosh(np.array([0.0])).round(4).tolist()
    [0.6931]
    """
    size = np.abs(odds)
    return np.asarray(size / 2.0 + np.log1p(np.exp(-size)))


def check_whole(engine: Engine) -> None:
    """Refuse weights for which there is no exact draw of precisions."""
    for relation in engine.model.relations:
        if relation.power == LOGIT and abs(relation.weight - round(relation.weight)) > 1e-9:
            raise ParameterError(
                f"Gibbs sampling of log odds counts a cell a whole number of times: relation "
                f"{relation.name!r} has dispersion {relation.dispersion:g}, of which 1 must be a "
                "whole multiple. Pass such a dispersion, or inference='vb' or 'sgld'"
            )


def drawn_precisions(
    rng: np.random.Generator, engine: Engine, expanded: Expanded, name: str
) -> dict[str, Precisions]:
    """Return ω ~ PG(w, ψ) of the cells of every logit link that a factor occurs in."""
    found = {}
    for relation, position in _links(engine, name):
        odds = _odds(engine, expanded, relation, position)
        found[relation.name] = Precisions(polya_gamma(rng, odds, round(relation.weight)))
    return found


def starting_precisions(engine: Engine, expanded: Expanded, name: str) -> dict[str, Precisions]:
    """Return E[PG(w, ψ)] of the cells of every logit link that a factor occurs in.

    Of zeros that are not listed it is that at their root mean square.
    """
    found = {}
    for relation, position in _links(engine, name):
        odds = _odds(engine, expanded, relation, position)
        listed = expected_precision(odds, relation.weight)
        size = _unlisted_size(engine, expanded, relation, odds)
        unlisted = float(expected_precision(size, relation.weight)[0])
        found[relation.name] = Precisions(listed, unlisted)
    return found


def deviance(engine: Engine, expanded: Expanded, relation: BoundRelation) -> float:
    """Return −2·log likelihood over observed cells; of zeros that are not listed, its bound."""
    data, bank = engine.data[relation.name], expanded.banks[relation.name]
    odds = estimate_cells(data.indices, bank)
    total = float(log_cosh(odds).sum() - (data.values - 0.5) @ odds)
    if data.zeros == "observed":
        size = _unlisted_size(engine, expanded, relation, odds)
        total += (data.observed - data.cells) * float(log_cosh(size)[0])
        total += 0.5 * (engine.total_estimate(expanded, relation) - float(odds.sum()))
    return 2.0 * total


def _unlisted_size(
    engine: Engine, expanded: Expanded, relation: BoundRelation, odds: Floats
) -> Floats:
    """Return the root mean square of the log odds of observed zeros that are not listed."""
    data, bank = engine.data[relation.name], expanded.banks[relation.name]
    count = data.observed - data.cells
    if data.zeros == "missing" or not count:
        return np.zeros(1)
    whole = float(bank.weights @ expanded.grams(relation, -1) @ bank.weights)
    held_out = estimate_cells(data.held_out, bank)
    whole -= float(odds @ odds) + float(held_out @ held_out)
    return np.array([np.sqrt(max(whole, 0.0) / count)])


def _links(engine: Engine, name: str) -> list[tuple[BoundRelation, int]]:
    return [(r, position) for r, position in engine.model.using(name) if r.power == LOGIT]


def _odds(engine: Engine, expanded: Expanded, relation: BoundRelation, position: int) -> Floats:
    cells = engine.sorted_cells(relation, position).indices
    return estimate_cells(cells, expanded.banks[relation.name])
