"""Gamma priors of factor entries, one for all factors or one each."""

from __future__ import annotations

from collections.abc import Mapping

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.sums import Engine, mean_factors
from tacit.factorization.language.structure import BoundModel

__all__ = ["each_factor", "per_factor"]


def per_factor(
    engine: Engine, stated: Mapping[str, tuple[float, float]], shape: float = 1.0
) -> dict[str, tuple[float, float]]:
    """Return (shape, mean) of every factor: as stated, or one shape and a mean of the data's size.

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
    found = {name: (shape, mean) for name, mean in mean_factors(engine).items()}
    return found | {name: (float(a), float(b)) for name, (a, b) in stated.items()}


def each_factor(
    what: str, value: float | Mapping[str, float], model: BoundModel, low: Real | None = None
) -> dict[str, float]:
    """Return a number of every factor's prior, from one for all or a mapping, once checked."""
    given = value if isinstance(value, Mapping) else dict.fromkeys(model.factors, value)
    for number in given.values():
        check(what, number, low or Real(0, open_low=True))
    return {name: float(given[name]) for name in model.factors}
