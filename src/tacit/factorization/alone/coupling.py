"""How much a relation has to say about factors that it shares, chosen by what it helps to predict.

A relation of large dispersion φ says little, and at φ = ∞ nothing: it is not coupled at all. The
quasi-likelihood (`tacit.factorization.alone.numerics.dispersion`) learns φ from how well a
relation describes *itself*; whether it helps another one is a different question, and where most
cells are zeros the answers are far apart. Here a fifth of the cells of the relations that are to
be predicted is held out, and every helper's φ is chosen among multiples of its learned value, "no
coupling" first, by the divergence at the cells held out. A helper is coupled only where it
predicts them better, so that on these cells coupling never hurts; and more than it describes
itself only where that is better by two standard errors. (Chance alone often spoke for a tenth of
the learned dispersion, with which a large helper drowns what is to be predicted.) Helpers take
turns, in the order of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from scipy import special

from tacit.data.relations import Relation
from tacit.data.split import Holdout, hold_out_listed
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.constraints import Constraints
from tacit.factorization.alone.numerics.dispersion import estimate_dispersions
from tacit.factorization.alone.stated import has_real_factors
from tacit.factorization.arrays import Floats
from tacit.factorization.divergences import (
    LOGIT,
    NEGATIVE_BINOMIAL,
    divergence,
    loss_code,
    loss_name,
)
from tacit.factorization.language.structure import CoupledModel, FromData

__all__ = ["APART", "MULTIPLES", "choose_dispersions", "find_dispersions"]

MULTIPLES = (100.0, 10.0, 1.0, 0.1)  # of the learned dispersion
_CLEARLY = 2.0  # standard errors by which less than the learned dispersion must help
APART = 1e6  # the multiple at which a relation has no say
SHARE = 0.2  # of the cells, which are held out
_ENOUGH, _REPEATS = 150, 3  # listed cells; where fewer are held out, that is done again
_MIXED, _TOLERANCE = 0.01, 1e-4


def find_dispersions(
    estimator: Any,
    model: CoupledModel,
    data: Mapping[str, Relation],
    rng: np.random.Generator,
    constraints: Constraints,
) -> tuple[dict[str, float], frozenset[str]]:
    """Return the dispersions that a model leaves open, and those that are learned along.

    Candidates are fits of the same estimator; real factors learn what is to be estimated.
    """
    stated = estimator.get_params(deep=False)
    real = has_real_factors(stated, model)
    if stated["inference"] in ("map", "vb"):  # candidates need not be as exact as the fit
        stated["tolerance"] = max(stated["tolerance"], _TOLERANCE)

    def fitted(model: CoupledModel, part: Mapping[str, Relation]) -> Callable[[str, Any], Any]:
        given = {"model": model, "dispersion": None, "progress": False}
        other = type(estimator)(**{**stated, **given})
        return partial(other.fit(part).predict, positions=True)

    found: dict[str, float] = {}
    if real and len(model.chosen) == len(model.forms):  # the first one learns its noise along
        model = model.with_dispersions({model.chosen[0]: "estimate"})
    if model.chosen:
        found = choose_dispersions(model, data, fitted, rng, constraints)
        model = model.with_dispersions(found)
    if model.open and not real:
        return found | estimate_dispersions(model, data, rng, constraints), frozenset()
    learned = frozenset(model.open)
    return found | {name: FromData(1.0) for name in learned}, learned  # until drawn


def choose_dispersions(
    model: CoupledModel,
    data: Mapping[str, Relation],
    fitted: Callable[[CoupledModel, Mapping[str, Relation]], Callable[[str, Any], Any]],
    rng: np.random.Generator,
    constraints: Constraints,
) -> dict[str, float]:
    """Return the dispersions of the relations for which the model says ``"choose"``.

    Parameters
    ----------
    model
        What is not ``"choose"`` is to be predicted; where everything is, the first relation: its
        dispersion is 1 if it is one of counts (p = 1), and learned otherwise.
    data
        All relations.
    fitted
        Fits a model to data, and returns how it predicts: of a relation, by positions of cells.
    rng
        Draws the cells that are held out, and the start of the learned dispersions.
    constraints
        What is stated about factors.
    """
    for name in model.chosen:
        if model.powers[name] in (LOGIT, NEGATIVE_BINOMIAL):
            raise ParameterError(
                f"dispersion='choose' weighs the divergence of a relation, and {name!r} has "
                f"{loss_name(model.powers[name])}: state its dispersion"
            )
    helpers, stated = model.chosen, dict[str, float]()
    if len(helpers) == len(model.forms):
        first, *helpers = helpers
        counts = model.powers[first] == 1.0
        every = {first: 1.0} if counts else estimate_dispersions(model, data, rng, constraints)
        stated = {first: every[first]}
        model = model.with_dispersions(stated)
    learned = estimate_dispersions(model, data, rng, constraints)
    targets = [name for name in model.forms if name not in helpers]
    held_out = SHARE * max(1, sum(data[name].cells for name in targets))
    inner = [
        {name: hold_out_listed(data[name], SHARE, rng) for name in targets}
        for _ in range(min(_REPEATS, math.ceil(_ENOUGH / held_out)))
    ]
    phis = {name: float(learned.get(name, model.dispersions[name])) for name in targets}

    def error(multiples: Mapping[str, float]) -> Floats:
        tried = model.with_dispersions({n: learned[n] * times for n, times in multiples.items()})
        total = []
        for part in inner:
            predict = fitted(tried, {**data, **{name: held.train for name, held in part.items()}})
            for name, held in part.items():
                means, power = predict(name, held.cells), model.powers[name]
                total.append(_apart(data[name], held, means, power, phis[name]))
        return np.concatenate(total)

    best = dict.fromkeys(helpers, APART)
    least = error(best)
    for name in helpers:
        for multiple in MULTIPLES:
            found = error({**best, name: multiple})
            gains = least - found
            spread = math.sqrt(float(np.square(gains - gains.mean()).sum()))
            if gains.sum() > (_CLEARLY * spread if multiple < 1.0 else 0.0):
                best, least = {**best, name: multiple}, found
    return {n: FromData(learned[n] * multiple) for n, multiple in best.items()} | stated


def _apart(relation: Relation, held: Holdout, means: Floats, power: float, phi: float) -> Floats:
    """Return the divergence at held-out cells; sampled zeros count for all they stand for.

    Estimates are mixed with a hundredth of the mean, or one that is zero would decide everything.
    """
    if power != 0.0:
        mean = max(float(relation.values.sum()) / max(1, relation.observed), 1e-12)
        means = (1.0 - _MIXED) * means + _MIXED * mean
    if power == LOGIT:
        means = special.logit(means)
    found = divergence(held.values, means, loss_code(power, phi))
    listed = relation.cells - held.train.cells
    if zeros := len(held.cells) - listed:
        found[listed:] *= SHARE * (relation.observed - relation.cells) / zeros
    return np.asarray(found / (1.0 if power == NEGATIVE_BINOMIAL else phi))
