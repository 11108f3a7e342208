"""Gamma priors of factor entries, one for all factors or one each."""

from __future__ import annotations

from collections.abc import Mapping

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.factorization.language.structure import BoundModel

__all__ = ["DEFAULT", "each_factor", "per_factor"]

DEFAULT = (0.5, 10.0)  # shape and mean, of the Bayesian inferences


def per_factor(
    model: BoundModel,
    stated: Mapping[str, tuple[float, float]],
    other: tuple[float, float] = DEFAULT,
) -> dict[str, tuple[float, float]]:
    """Return (shape, mean) of every factor: as stated, or the same for all others.

    >>> from tacit import CoupledModel, Relation
    >>> model = CoupledModel("a:k b:k").bind({"data": Relation.from_dense("ab", [[1.0]])})
    >>> per_factor(model, {"a": (2.0, 1.0)})
    {'a': (2.0, 1.0), 'b': (0.5, 10.0)}
    """
    for name, pair in stated.items():
        if name not in model.factors:
            raise ParameterError(
                f"prior names {name!r}, which is no factor: there are {list(model.factors)}"
            )
        for what, part in zip(("shape", "mean"), pair, strict=True):
            check(f"{what} of the prior of {name!r}", part, Real(0, open_low=True))
    return {
        name: (float(stated[name][0]), float(stated[name][1])) if name in stated else other
        for name in model.factors
    }


def each_factor(
    what: str, value: float | Mapping[str, float], model: BoundModel, low: Real | None = None
) -> dict[str, float]:
    """Return a number of every factor's prior, from one for all or a mapping, once checked."""
    given = value if isinstance(value, Mapping) else dict.fromkeys(model.factors, value)
    for number in given.values():
        check(what, number, low or Real(0, open_low=True))
    return {name: float(given[name]) for name in model.factors}
