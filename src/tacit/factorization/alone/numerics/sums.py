"""What every factorization asks of its relations: numerators, denominators, costs, estimates.

An `Engine` holds a model with its data. `Expanded` holds one set of factors expanded for every
relation (`tacit.factorization.alone.numerics.cells.Bank`); variational inference keeps two of
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tacit.data.relations import ModeLayout, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import (
    Bank,
    cell_divergence,
    estimate_cells,
    sweep,
    sweep_of_others,
)
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.divergences import LOGIT, loss_name
from tacit.factorization.language.structure import BoundModel, BoundRelation

__all__ = ["Engine", "Expanded", "estimates_at", "estimates_of_draws"]


class Expanded:
    """One set of factors, expanded to the latent combinations of every relation."""

    def __init__(self, model: BoundModel, factors: Factors) -> None:
        self.model = model
        self.banks: dict[str, Bank] = {}
        self._cores: dict[str, Arrays] = {}
        for relation in model.relations:
            sizes = [model.factors[name].rows for name in relation.factors[: relation.modes]]
            self.banks[relation.name] = Bank(sizes, relation.combinations)
            self._cores[relation.name] = {}
        for name, values in factors.items():
            self.put(name, values)

    def put(self, name: str, values: Floats) -> None:
        """Bring one factor up to date in every relation that uses it."""
        for relation, position in self.model.using(name):
            bank = self.banks[relation.name]
            plain = relation.is_plain(position, values.shape[1])
            expanded = values if plain else values[:, relation.columns[position]]
            if position < relation.modes:
                bank.put(position, expanded)
            else:
                self._cores[relation.name][name] = expanded
                bank.weights = self.weights(relation)

    def own(self, relation: BoundRelation, position: int) -> Floats:
        """Return the expanded rows of one factor of a relation."""
        if position < relation.modes:
            return self.banks[relation.name].mode(position)
        return self._cores[relation.name][relation.factors[position]]

    def weights(self, relation: BoundRelation, without: int = -1) -> Floats:
        """Return the product of a relation's cores, without one of them."""
        product = np.ones(relation.combinations)
        for name, core in self._cores[relation.name].items():
            if relation.factors.index(name) != without:
                product = product * core[0]
        return product

    def sums(self, relation: BoundRelation, skip: int) -> Floats:
        """Return Π of the column sums of all modes but one: Σ over all cells of q."""
        product = np.ones(relation.combinations)
        for mode in range(relation.modes):
            if mode != skip:
                product = product * self.banks[relation.name].sums(mode)
        return product

    def grams(self, relation: BoundRelation, skip: int) -> Floats:
        """Return Π of the Gram matrices of all modes but one: Σ over all cells of q·qᵀ."""
        product = np.ones((relation.combinations, relation.combinations))
        for mode in range(relation.modes):
            if mode != skip:
                rows = self.banks[relation.name].mode(mode)
                product *= rows.T @ rows
        return product


def estimates_at(
    model: BoundModel, relation: str, factors: Factors, cells: NDArray[np.int32]
) -> Floats:
    """Return x̂ at cells of one relation."""
    one = BoundModel(model.factors, (model.relation(relation),))
    needed = {name: factors[name] for name in one.relations[0].factors}
    return estimate_cells(cells, Expanded(one, needed).banks[relation])


def estimates_of_draws(
    model: BoundModel, relation: str, draws: Factors, cells: NDArray[np.int32]
) -> Floats:
    """Return x̂ at cells of one relation for every draw of its factors, (draws, cells)."""
    names = model.relation(relation).factors
    number = min(len(draws[name]) for name in names)
    found = np.empty((number, len(cells)))
    for k in range(number):
        found[k] = estimates_at(model, relation, {n: draws[n][k] for n in names}, cells)
    return found


class Engine:
    """A model, bound to the sizes of its data, with these data.

    Zeros that are observed but not listed need a cost that adds up over all of them, unless they
    are to be ``bounded``: all by one quadratic function, which a logit link allows.
    """

    def __init__(
        self, model: BoundModel, data: Mapping[str, Relation], *, bounded: bool = False
    ) -> None:
        self.model, self.data = model, dict(data)
        for relation in model.relations:
            _check_values(relation, self.data[relation.name], bounded)
        self._whole = {
            name: found.layouts[0]._replace(starts=np.array([0, found.cells]))
            for name, found in self.data.items()
        }
        self._reducers = {
            (relation.name, position): _reducer(relation, position, model)
            for relation in model.relations
            for position in range(len(relation.factors))
        }

    def numerator(self, expanded: Expanded, relation: BoundRelation, position: int) -> Floats:
        """Return Σ x·x̂^(−p)·q for every entry of a factor, over one relation."""
        return self._listed(expanded, relation, position, with_denominator=False)[0]

    def both(
        self, expanded: Expanded, relation: BoundRelation, position: int
    ) -> tuple[Floats, Floats]:
        """Return numerator Σ x·x̂^(−p)·q and denominator Σ x̂^(1−p)·q over observed cells."""
        if self.data[relation.name].zeros == "missing":
            return self._listed(expanded, relation, position)
        up = self.numerator(expanded, relation, position)
        return up, self.denominator(expanded, relation, position)

    def denominator(
        self, expanded: Expanded, relation: BoundRelation, position: int, *, signed: bool = False
    ) -> Floats:
        """Return Σ x̂^(1−p)·q over observed cells, one row if all rows are alike.

        With observed zeros, p is 0 or 1. Factors may be ``signed``: sums may then be negative.
        """
        found, power = self.data[relation.name], relation.power
        if found.zeros == "missing":
            return self._listed(expanded, relation, position)[1]
        skip = position if position < relation.modes else -1
        own = expanded.own(relation, position)
        weights = expanded.weights(relation, position)
        if power == 1.0:
            total = (weights * expanded.sums(relation, skip))[None, :]  # the same for all rows
        else:
            total = (own * weights) @ expanded.grams(relation, skip) * weights
        if len(found.held_out):
            layout = found.held_out_layouts[max(skip, 0)]
            if skip < 0:
                layout = layout._replace(starts=np.array([0, len(found.held_out)]))
            bank = expanded.banks[relation.name]
            total = total - sweep(layout, bank, own, weights, skip, power)[1]
            # a row that is held out altogether has nothing left, whatever rounding says
            others = math.prod(n for m, n in enumerate(found.shape) if m != skip)
            total[np.diff(layout.starts) == others] = 0.0
            if power == 1.0 and not signed:
                total = np.maximum(total, 0.0)
        return self.reduce(relation, position, total)

    def _listed(
        self,
        expanded: Expanded,
        relation: BoundRelation,
        position: int,
        with_denominator: bool = True,
    ) -> tuple[Floats, Floats]:
        """Sweep over the listed cells."""
        layout = self.sorted_cells(relation, position)
        own, weights = expanded.own(relation, position), expanded.weights(relation, position)
        bank = expanded.banks[relation.name]
        skip = position if position < relation.modes else -1
        if relation.loss < 0.0:
            up, down = sweep_of_others(layout, bank, own, weights, skip, relation.loss)
        else:
            up, down = sweep(
                layout, bank, own, weights, skip, relation.loss, with_denominator=with_denominator
            )
        return self.reduce(relation, position, up), self.reduce(relation, position, down)

    def reduce(self, relation: BoundRelation, position: int, values: Floats) -> Floats:
        """Add up the combinations that use the same column of a factor."""
        reducer = self._reducers[relation.name, position]
        return values if reducer is None else np.asarray(values @ reducer)

    def weighted(
        self, expanded: Expanded, relation: BoundRelation, position: int, shares: Floats
    ) -> Floats:
        """Return Σ s·q over listed cells, for shares s of the cells sorted along that factor."""
        layout = self.sorted_cells(relation, position)._replace(values=shares)
        own, weights = expanded.own(relation, position), expanded.weights(relation, position)
        skip = position if position < relation.modes else -1
        bank = expanded.banks[relation.name]
        found, _ = sweep(layout, bank, own, weights, skip, 0.0, with_denominator=False)
        return self.reduce(relation, position, found)

    def sorted_cells(self, relation: BoundRelation, position: int) -> ModeLayout:
        """Return the listed cells of a relation, sorted along one of its factors."""
        if position >= relation.modes:
            return self._whole[relation.name]
        return self.data[relation.name].layouts[position]

    def sums(self, expanded: Expanded, relation: BoundRelation, position: int) -> Floats:
        """Return Σ q over observed cells, a row for each of a factor's."""
        rows = self.model.factors[relation.factors[position]].table
        counts = replace(relation, power=1.0)
        found = self.denominator(expanded, counts, position, signed=True)
        return np.broadcast_to(found, rows)

    def total_estimate(self, expanded: Expanded, relation: BoundRelation) -> float:
        """Return Σ x̂ over the observed cells."""
        found = self.data[relation.name]
        bank = expanded.banks[relation.name]
        if found.zeros == "missing":
            return float(estimate_cells(found.indices, bank).sum())
        total = float(bank.weights @ expanded.sums(relation, -1))
        return total - float(estimate_cells(found.held_out, bank).sum())

    def cost(self, expanded: Expanded, relation: BoundRelation) -> float:
        """Return Σ d_p(x, x̂) over the observed cells."""
        found, power = self.data[relation.name], relation.power
        bank = expanded.banks[relation.name]
        estimates = estimate_cells(found.indices, bank)
        listed = cell_divergence(found.values, estimates, relation.loss)
        if found.zeros == "missing":
            return listed
        apart = estimate_cells(found.held_out, bank)
        if power == 1.0:  # d(0, y) = y
            return listed + self.total_estimate(expanded, relation) - float(estimates.sum())
        # p = 0: d(0, y) = y²/2, summed over all cells by Gram matrices
        whole = float(bank.weights @ expanded.grams(relation, -1) @ bank.weights)
        zeros = whole - float(estimates @ estimates) - float(apart @ apart)
        return listed + 0.5 * zeros


def _check_values(relation: BoundRelation, found: Relation, bounded: bool) -> None:
    """Refuse values that the relation's loss has no likelihood for."""
    name, power = relation.name, relation.power
    lowest = found.values.min() if found.cells else 1.0
    if power == LOGIT and found.cells and (lowest < 0.0 or found.values.max() > 1.0):
        raise ParameterError(
            f"relation {name!r} has values outside of [0, 1], which a logit link is for: pass 1 "
            "for what happened and 0 for what did not, or use divergence='kl' for counts"
        )
    if power != 0.0 and lowest < 0:
        raise ParameterError(
            f"relation {name!r} has negative values, which {loss_name(power)} has no likelihood "
            "for: use divergence='euclidean' or shift the values"
        )
    if power >= 2.0 and lowest <= 0:
        raise ParameterError(
            f"relation {name!r} has zeros, whose {'Itakura–Saito ' * (power == 2.0)}divergence is "
            "infinite: leave them out or use p < 2"
        )
    if found.zeros == "observed" and power not in (0.0, 1.0, *((LOGIT,) if bounded else ())):
        odds = "inference='vb', which bounds them all at once, " if power == LOGIT else ""
        raise ParameterError(
            f"relation {name!r} has observed zeros and {loss_name(power)}: only the Kullback–"
            f"Leibler and Euclidean costs add up over all zeros without visiting them. Pass {odds}"
            "zeros='missing' with those zeros listed that count, or a dense array"
        )


def _reducer(relation: BoundRelation, position: int, model: BoundModel) -> Floats | None:
    """Return the 0-1 matrix from combinations to a factor's columns, None for the identity."""
    columns = relation.columns[position]
    width = model.factors[relation.factors[position]].columns
    if relation.is_plain(position, width):
        return None
    matrix = np.zeros((len(columns), width))
    matrix[np.arange(len(columns)), columns] = 1.0
    return matrix


def mean_scale(engine: Engine, relation: BoundRelation) -> float:
    """Return the mean of the observed cells of a relation."""
    found = engine.data[relation.name]
    return float(found.values.sum()) / max(1, found.observed)


def root_mean_square(engine: Engine, relation: BoundRelation) -> float:
    """Return the root mean square of the observed cells of a relation."""
    found = engine.data[relation.name]
    return math.sqrt(float(found.values @ found.values) / max(1, found.observed))


def _target(engine: Engine, relation: BoundRelation, real: Set[str]) -> float:
    """Return the size that estimates are to have: log odds have none of their own."""
    if relation.power == LOGIT:
        return 1.0
    of = root_mean_square if real & set(relation.factors) else mean_scale
    return max(of(engine, relation), 1e-12)


def size_of(table: Floats) -> float:
    """Return the mean entry of a factor; of one with either sign, the root mean square."""
    mean = float(table.mean())
    return mean if (table >= 0.0).all() else math.sqrt(float(np.square(table).mean()))


def mean_factors(
    engine: Engine, real: Set[str] = frozenset(), known: Factors | None = None
) -> dict[str, float]:
    """Return what every entry of each factor would be for estimates of the data's mean.

    Relations are scaled one after the other, each by the factors that no earlier one fixed. Beside
    ``real`` factors estimates have the root mean square of the data; factors that are ``known``
    have the size that they have.
    """
    means = {name: size_of(table) for name, table in (known or {}).items()}
    for relation in engine.model.relations:
        free = [name for name in relation.factors if name not in means]
        fixed = math.prod(means[name] for name in relation.factors if name in means)
        target = _target(engine, relation, real) / (relation.combinations * max(fixed, 1e-300))
        means.update(dict.fromkeys(free, target ** (1.0 / max(1, len(free)))))
    return means


def fresh_factors(
    engine: Engine,
    rng: np.random.Generator,
    stated: Factors | None = None,
    real: Set[str] = frozenset(),
) -> Arrays:
    """Return random positive factors whose estimates have about the data's mean.

    They are scaled as in `mean_factors`; those that are ``stated`` are as stated. Beside ``real``
    ones estimates have the root mean square of the data.
    """
    factors = {
        name: rng.uniform(0.5, 1.5, spec.table) for name, spec in engine.model.factors.items()
    }
    factors |= stated or {}
    fixed = set(stated or {})
    for relation in engine.model.relations:
        free = [name for name in relation.factors if name not in fixed]
        target = _target(engine, relation, real)
        expected = relation.combinations * math.prod(
            size_of(factors[name]) for name in relation.factors
        )
        for name in dict.fromkeys(free):
            factors[name] *= (target / expected) ** (1.0 / len(free))
        fixed.update(relation.factors)
    return factors
