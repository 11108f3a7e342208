"""Priors of factor entries, one for all factors or one each.

**Maximum a posteriori without a prior of the caller's** (`gentle_priors`). Where members have few
cells, maximum likelihood follows them and loses to a constant. Without knowledge, entries of a
non-negative factor are gamma with a mean m that gives estimates the data's mean, and with as much
spread as the data have beyond noise: of F factors and R combinations with shape A, estimates have
the relative variance ((1 + 1/A)^F − 1)/R; A is what makes it that of the data, at most 20. In
log θ, where θ has no lower end, the density of that law is highest at m, and this is the maximum
that is looked for: A·log θ − (A/m)·θ. Counts have the variance of their law as noise; otherwise
half of the variance is taken for noise, φ₀ in units of x̂^p, and all is multiplied by φ₀/φ, so
that the unit of the data does not matter. Entries of real factors are N(0, s²), s such that
estimates have the size of the data, to the same rule. Where relations share a factor they count
by their cells, and less the more noise they are said to have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

import numpy as np

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.sums import Engine, mean_factors, root_mean_square
from tacit.factorization.arrays import Factors
from tacit.factorization.divergences import LOGIT, NEGATIVE_BINOMIAL
from tacit.factorization.language.structure import BoundModel, BoundRelation

__all__ = ["each_factor", "gentle_priors", "per_factor"]

_NOISE, _LEAST, _MOST = 0.5, 0.1, 20.0


def per_factor(
    engine: Engine,
    stated: Mapping[str, tuple[float, float]],
    shape: float = 1.0,
    known: Factors | None = None,
) -> dict[str, tuple[float, float]]:
    """Return (shape, mean) of every factor: as stated, or one shape and a mean of the data's size.

    Factors that are ``known`` have the size that they have.

    >>> from tacit import CoupledModel, Relation
    >>> data = {"data": Relation.from_dense("ab", [[4.0]])}
    >>> engine = Engine(CoupledModel("a:k b:k", 1).bind(data), data)
    >>> per_factor(engine, {"a": (2.0, 1.0)})
    {'a': (2.0, 1.0), 'b': (1.0, 2.0)}
    """
    model = engine.model
    for name, pair in stated.items():
        if name not in model.factors:
            raise ParameterError(
                f"prior names {name!r}, which is no factor: there are {list(model.factors)}"
            )
        for what, part in zip(("shape", "mean"), pair, strict=True):
            check(f"{what} of the prior of {name!r}", part, Real(0, open_low=True))
    means = mean_factors(engine, known=known)
    found = {name: (shape, mean) for name, mean in means.items()}
    return found | {name: (float(a), float(b)) for name, (a, b) in stated.items()}


def each_factor(
    what: str, value: float | Mapping[str, float], model: BoundModel, low: Real | None = None
) -> dict[str, float]:
    """Return a number of every factor's prior, from one for all or a mapping, once checked."""
    given = value if isinstance(value, Mapping) else dict.fromkeys(model.factors, value)
    for number in given.values():
        check(what, number, low or Real(0, open_low=True))
    return {name: float(given[name]) for name in model.factors}


def gentle_priors(
    engine: Engine, real: Set[str] = frozenset(), known: Factors | None = None
) -> dict[str, tuple[float, float]]:
    """Return (shape, rate) of every factor's prior where the caller states none.

    Of real factors the rate is the precision of their Gaussian prior.
    """
    model, means = engine.model, mean_factors(engine, real, known)
    found = {}
    for name in model.factors:
        weights, logs, scales = [], [], []
        for relation, _ in model.using(name):
            strength, scale = _moment_rule(engine, relation, bool(real & set(relation.factors)))
            said = min(1.0, relation.weight if relation.power == 1.0 else scale)
            weights.append(said * max(1, engine.data[relation.name].observed))
            logs.append(math.log(strength))
            scales.append(math.log(scale))
        share = [w / sum(weights) for w in weights]
        strength, scale = (
            math.exp(sum(w * v for w, v in zip(share, values, strict=True)))
            for values in (logs, scales)
        )
        if name in real:
            found[name] = (1.0, scale / _spread(engine, name, known or {}) ** 2)
        else:
            pull = strength * scale
            found[name] = (1.0 + pull, pull / max(means[name], 1e-300))
    return found


def _moment_rule(engine: Engine, relation: BoundRelation, real: bool) -> tuple[float, float]:
    """Return A of the gamma law whose products vary as the data do, and φ₀/φ."""
    cells, power = engine.data[relation.name], relation.power
    mean = abs(float(cells.values.sum())) / max(1, cells.observed)
    variance = max(root_mean_square(engine, relation) ** 2 - mean**2, 1e-300)
    if power in (1.0, NEGATIVE_BINOMIAL):
        over = relation.dispersion * (mean if power == 1.0 else mean**2)
        noise, scale = over + (mean if power == NEGATIVE_BINOMIAL else 0.0), 1.0
    elif power == LOGIT:
        noise, scale = _NOISE * variance, 1.0 / relation.weight
    else:
        noise = _NOISE * variance
        scale = max(noise / max(mean, 1e-300) ** power * relation.weight, 1e-12)
    size = root_mean_square(engine, relation) if real else mean
    signal = max(variance - noise, _LEAST * variance) / max(size, 1e-150) ** 2
    ratio = math.log1p(relation.combinations * signal) / len(relation.factors)
    return min(1.0 / max(math.expm1(min(ratio, 700.0)), 1e-12), _MOST), float(scale)


def _spread(engine: Engine, name: str, known: Factors) -> float:
    """Return the standard deviation of a real factor's entries that gives estimates their size."""
    sizes = []
    for relation, _ in engine.model.using(name):
        size = 2.0 if relation.power == LOGIT else root_mean_square(engine, relation)
        each, free = max(size, 1e-12) / math.sqrt(relation.combinations), 0
        for other in relation.factors:
            if other in known:
                each /= max(float(np.sqrt(np.mean(np.square(known[other])))), 1e-12)
            free += other not in known
        sizes.append(each ** (1.0 / max(1, free)))
    return float(np.mean(sizes))
