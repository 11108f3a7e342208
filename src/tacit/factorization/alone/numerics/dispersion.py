"""Dispersions estimated from the data.

With mean x̂ and variance φ·x̂^p, the extended quasi-likelihood of a relation with n observed cells
is −Σ d_p(x, x̂)/φ − (n/2)·log φ up to a constant (exact for p = 0; a saddle-point approximation
otherwise). For given factors it is largest at φ̂ = 2·Σ d_p/n. Multiplicative updates and φ̂ take
turns, and neither ever lowers it. The fit that follows holds φ̂ fixed, whatever its method. Of
negative binomial counts φ̂ maximises their likelihood; log odds have no dispersion.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy import optimize, special

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import estimate_cells
from tacit.factorization.alone.numerics.constraints import Constraints
from tacit.factorization.alone.numerics.multiplicative import MultiplicativeUpdates
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.divergences import LOGIT, NEGATIVE_BINOMIAL
from tacit.factorization.language.structure import CoupledModel, FromData

__all__ = ["estimate_dispersions"]

SMALLEST = 1e-9  # a perfect fit has no dispersion
_SWEEPS, _TURNS, _SETTLED = 20, 25, 1e-3


def estimate_dispersions(
    model: CoupledModel,
    data: Mapping[str, Relation],
    rng: np.random.Generator,
    constraints: Constraints | None = None,
) -> dict[str, float]:
    """Return the dispersions of the relations whose dispersion the model leaves open."""
    odds = [name for name in model.open if model.powers[name] == LOGIT]
    if odds:
        raise ParameterError(
            f"the dispersion of {odds[0]!r} cannot be estimated: divergence='logit' has none. "
            "Leave it out, or give a weight to count its cells for less"
        )
    found = dict.fromkeys(model.open, 1.0)
    state = None
    for _ in range(_TURNS):
        bound = model.with_dispersions(found).bind(data)
        engine = Engine(bound, data)
        kernel = MultiplicativeUpdates(engine, constraints=constraints)
        state = kernel.init(rng) if state is None else state
        for _ in range(_SWEEPS):
            state, _ = kernel.step(state, objective=False)
        expanded = Expanded(bound, state.factors)
        before = dict(found)
        for relation in bound.relations:
            if relation.name in found:
                if relation.power == NEGATIVE_BINOMIAL:
                    found[relation.name] = _overdispersion(engine, expanded, relation.name)
                    continue
                cells = max(1, data[relation.name].observed)
                cost = engine.cost(expanded, relation)
                found[relation.name] = max(SMALLEST, 2.0 * cost / cells)
        if all(abs(np.log(found[n] / before[n])) < _SETTLED for n in found):
            break
    return {name: FromData(phi) for name, phi in found.items()}


def _overdispersion(engine: Engine, expanded: Expanded, name: str) -> float:
    """Return φ that maximises the negative binomial likelihood of listed counts."""
    found = engine.data[name]
    x, y = found.values, np.maximum(estimate_cells(found.indices, expanded.banks[name]), 1e-100)

    def loss(log: float) -> float:
        r = float(np.exp(-log))
        joint = special.gammaln(x + r) - special.gammaln(r) - (x + r) * np.log1p(y / r)
        return float(x.sum()) * float(np.log(r)) - float(joint.sum())

    best = optimize.minimize_scalar(loss, bounds=(np.log(1e-6), np.log(1e3)), method="bounded")
    return float(np.exp(best.x))
