"""Hyper-priors of the Normal–Normal model, and where its chains start.

Source: Ermiş (2020), 4.2.1: component k of factor d has its own mean μ_dk and precision λ_dk,

    θ_ik ~ N(μ_dk, 1/λ_dk),   λ_dk ~ Gamma(a, rate a/b),   μ_dk | λ_dk ~ N(0, 1/(β·λ_dk)),

and cells have noise of variance φ_v, whose inverse is Gamma(1, rate 0.1·s_v²), s_v² the variance
of the relation's values. All are drawn from their conditional laws. Without a prior of the
caller's, a = 1 and 1/b is the variance that a factor's entries need for estimates to have the
size of the data. The entries of a core are one component. Log odds have no noise; their size is
taken for √(2² + logit(x̄)²).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tacit.factorization.alone.numerics.cells import estimate_cells
from tacit.factorization.alone.numerics.log_odds import deviance
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.divergences import LOGIT
from tacit.factorization.language.structure import BoundRelation

__all__ = ["Components", "Noise", "NormalPrior", "squared_errors"]

MEANS = 0.1  # β: how many rows the prior knowledge that means are zero is worth
_NOISE_SHAPE, _NOISE_SHARE = 1.0, 0.1
_ODDS = 2.0  # how far log odds vary: chances from a tenth to nine tenths


class Components(NamedTuple):
    """Prior mean and precision of the columns of one factor."""

    mean: Floats
    precision: Floats


class Noise(NamedTuple):
    """The gamma prior of a relation's noise precision, and how many cells it has."""

    shape: float
    rate: float
    cells: int

    def variance(self, rng: np.random.Generator, squares: float) -> float:
        """Return φ from its conditional law, given the sum of squared errors."""
        drawn = rng.standard_gamma(self.shape + self.cells / 2.0)
        return (self.rate + squares / 2.0) / max(float(drawn), 1e-300)


class NormalPrior:
    """The hyper-priors of a model, on the scale of its data.

    ``stated`` has shape and mean of λ for those factors whose prior the caller gives; factors that
    are ``known`` have the size that they have.
    """

    def __init__(
        self,
        engine: Engine,
        stated: Mapping[str, tuple[float, float]],
        known: Factors | None = None,
    ) -> None:
        self.engine = engine
        self.scales = _scales(engine, known or {})
        self.shape = {n: stated[n][0] if n in stated else 1.0 for n in self.scales}
        self.rate = {
            n: stated[n][0] / stated[n][1] if n in stated else self.scales[n] ** 2
            for n in self.scales
        }
        self.noise = {}
        for relation in engine.model.relations:
            spread = max(_moments(engine, relation.name)[1], 1e-12)
            cells = engine.data[relation.name].observed
            self.noise[relation.name] = Noise(_NOISE_SHAPE, _NOISE_SHARE * spread, cells)

    def start(self, rng: np.random.Generator) -> Arrays:
        """Return random factors whose estimates have the size of the data, of either sign."""
        specs = self.engine.model.factors
        return {n: s * rng.standard_normal(specs[n].table) for n, s in self.scales.items()}

    def start_dispersion(self, relation: str) -> float:
        """Return the variance of a relation's values."""
        return self.noise[relation].rate / _NOISE_SHARE

    def components(self, rng: np.random.Generator, name: str, table: Floats) -> Components:
        """Return means and precisions from their conditional law, given the factor."""
        core = self.engine.model.factors[name].core
        rows = table.reshape(-1, 1) if core else table
        count = len(rows)
        average = rows.mean(axis=0)
        within = np.square(rows - average).sum(axis=0)
        weight = MEANS + count
        rate = self.rate[name] + 0.5 * within + 0.5 * MEANS * count / weight * average**2
        drawn = rng.standard_gamma(self.shape[name] + count / 2.0, len(rate))
        precision = np.maximum(drawn, 1e-300) / rate
        mean = count / weight * average
        mean = mean + rng.standard_normal(len(mean)) / np.sqrt(weight * precision)
        width = table.shape[1]
        return Components(np.broadcast_to(mean, width), np.broadcast_to(precision, width))


def squared_errors(engine: Engine, expanded: Expanded, name: str) -> float:
    """Return Σ (x − x̂)² over the observed cells of a relation; of log odds the deviance."""
    found = engine.data[name]
    if engine.model.relation(name).power == LOGIT:
        return deviance(engine, expanded, engine.model.relation(name))
    if found.zeros == "observed":
        return 2.0 * engine.cost(expanded, engine.model.relation(name))
    apart = found.values - estimate_cells(found.indices, expanded.banks[name])
    # no BLAS: its threads take longer to wake than such a sum takes
    return float(np.square(apart).sum())


def _moments(engine: Engine, name: str) -> tuple[float, float]:
    """Return the mean square and the variance of the observed cells."""
    found = engine.data[name]
    cells = max(1, found.observed)
    square = float(found.values @ found.values) / cells
    return square, max(0.0, square - (float(found.values.sum()) / cells) ** 2)


def _size(engine: Engine, relation: BoundRelation) -> float:
    """Return the root mean square that estimates are to have."""
    found = engine.data[relation.name]
    if relation.power != LOGIT:
        return math.sqrt(_moments(engine, relation.name)[0]) or 1.0
    count = max(1, found.observed)  # a mean that is neither 0 nor 1
    mean = (float(found.values.sum()) + 0.5) / (count + 1.0)
    return math.hypot(_ODDS, math.log(mean / (1.0 - mean)))


def _scales(engine: Engine, known: Factors) -> dict[str, float]:
    """Return how large entries are where estimates have the root mean square of the data.

    Relations are scaled one after the other, each by the factors that no earlier one fixed.
    """
    scales = {n: max(float(np.sqrt(np.mean(np.square(t)))), 1e-12) for n, t in known.items()}
    for relation in engine.model.relations:
        free = [name for name in relation.factors if name not in scales]
        size = _size(engine, relation)
        fixed = math.prod(scales[name] for name in relation.factors if name in scales)
        target = size / (math.sqrt(relation.combinations) * fixed)
        for name in free:
            scales[name] = target ** (1.0 / len(free))
    return scales
