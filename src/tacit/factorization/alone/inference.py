"""How `CoupledFactorization` infers: which kernel with which prior, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from inspect import Signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import cell_divergence
from tacit.factorization.alone.numerics.gibbs import GibbsSampler
from tacit.factorization.alone.numerics.langevin import LangevinSampler
from tacit.factorization.alone.numerics.multiplicative import (
    AcceleratedUpdates,
    MultiplicativeUpdates,
)
from tacit.factorization.alone.numerics.normal_gibbs import NormalGibbs
from tacit.factorization.alone.numerics.normal_variational import (
    NormalBayes,
    NormalBayesState,
    variance_of_products,
)
from tacit.factorization.alone.numerics.priors import per_factor
from tacit.factorization.alone.numerics.sums import Engine, estimates_at
from tacit.factorization.alone.numerics.variational import VariationalBayes, variance_of_estimates
from tacit.factorization.language.structure import CoupledModel

__all__ = [
    "INFERENCES",
    "READ_BY",
    "check_prior",
    "check_read",
    "descend",
    "has_real_factors",
    "kernel_of",
    "mean_divergence",
    "predicted",
    "row_prior",
    "sample",
    "stated_priors",
]

INFERENCES = ("map", "vb", "gibbs", "sgld")
BAYESIAN = INFERENCES[1:]
# parameter → the inferences that read it
READ_BY: Mapping[str, tuple[str, ...]] = {
    "adapt": ("vb",),
    "tolerance": ("map", "vb"),
    "restarts": ("map", "vb"),
    "accelerate": ("map",),
    "burn_in": ("gibbs", "sgld"),
    "thin": ("gibbs", "sgld"),
    "batch": ("sgld",),
    "step_size": ("sgld",),
    "decay": ("sgld",),
    "real_factors": BAYESIAN,
}
# of gamma priors that are not given: VB alone would prune components of sparse data for less
_SHAPES = {"vb": 2.0}
_LOOK = 10  # the objective is looked at every so many iterations


def check_read(inference: str, given: Mapping[str, Any], constructor: Signature) -> None:
    """Raise where a parameter is given that the inference does not read."""
    for name, readers in READ_BY.items():
        if inference not in readers and given[name] != constructor.parameters[name].default:
            raise ParameterError(
                f"{name} is not read by inference={inference!r}: it is for "
                f"{' and '.join(repr(reader) for reader in readers)}"
            )


def check_prior(prior: Any) -> None:
    """Raise unless a prior is (shape, mean), or a mapping from factors to such pairs."""
    for pair in prior.values() if isinstance(prior, Mapping) else [prior]:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ParameterError(f"prior must be (shape, mean), got {pair!r}")
        for part in pair:
            check("prior", part, Real(0, open_low=True))


def stated_priors(prior: Any, names: Iterable[str]) -> dict[str, tuple[float, float]]:
    """Return (shape, mean) of the factors whose prior is given: all of them, or those named."""
    if prior is None or isinstance(prior, Mapping):
        return dict(prior or {})
    return dict.fromkeys(names, tuple(prior))


def has_real_factors(given: Mapping[str, Any], model: CoupledModel) -> bool:
    """Whether factors may be negative: as stated, or where every relation is Gaussian."""
    if given["inference"] == "map":
        return False
    if given["real_factors"] is None:
        return all(power == 0.0 for power in model.powers.values())
    return bool(given["real_factors"])


def kernel_of(
    engine: Engine, given: Mapping[str, Any], real: bool = False, learned: Set[str] = frozenset()
) -> Any:
    """Return the kernel that an estimator's parameters describe.

    Parameters
    ----------
    engine
        The model and its data.
    given
        The parameters.
    real
        Whether factors may be negative.
    learned
        The relations whose dispersion is part of the inference.
    """
    inference = given["inference"]
    stated = stated_priors(given["prior"], engine.model.factors)
    whole = per_factor(engine, stated, _SHAPES.get(inference, 1.0))
    shape, mean = ({n: pair[k] for n, pair in whole.items()} for k in (0, 1))
    if inference == "map":
        shape = {n: stated[n][0] if n in stated else 1.0 for n in whole}
        rate = {n: _rate(stated[n]) if n in stated else 0.0 for n in whole}
        plain = MultiplicativeUpdates(engine, shape, rate)
        return AcceleratedUpdates(plain) if given["accelerate"] else plain
    if inference == "sgld":
        return LangevinSampler(
            engine,
            stated,
            learned,
            prior="normal" if real else "gamma",
            batch=given["batch"],
            step=given["step_size"],
            decay=given["decay"],
        )
    if inference == "gibbs":
        return NormalGibbs(engine, stated, learned) if real else GibbsSampler(engine, shape, mean)
    if real and given["adapt"]:
        raise ParameterError("adapt=True is for gamma priors: real factors learn theirs anyway")
    if real:
        return NormalBayes(engine, stated, learned)
    return VariationalBayes(engine, shape, mean, adapt=given["adapt"])


def predicted(model: Any, relation: str, index: NDArray[np.int32], with_variance: bool) -> Any:
    """Return the expected values at cells of a fitted model, and their posterior variances."""
    bound, state = model._bound, model._state
    if model.inference in ("gibbs", "sgld"):
        draws = np.array([estimates_at(bound, relation, one, index) for one in model._draws()])
        mean = draws.mean(axis=0)
        return (mean, draws.var(axis=0)) if with_variance else mean
    mean = estimates_at(bound, relation, model._flat_means(), index)
    if not with_variance:
        return mean
    if model.inference == "map":
        raise ParameterError(
            "a point estimate has no posterior variance: use inference='vb', 'gibbs' or 'sgld'"
        )
    if isinstance(state, NormalBayesState):
        return mean, variance_of_products(state, bound, relation, index)
    return mean, variance_of_estimates(state, bound.relation(relation), index)


def sample(
    kernel: Any,
    rng: np.random.Generator,
    state: Any,
    iterations: int,
    keep: Callable[[Any], None],
    advance: Callable[[int], None],
) -> Any:
    """Run a chain until its iterations are used up, or Ctrl-C, and return its last state.

    ``keep`` sees every state. A state that is not finite is an error that says what to change.
    """
    try:
        for k in range(iterations):
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                state, _ = kernel.step(rng, state)
            lost = [n for n, table in state.factors.items() if not np.isfinite(np.sum(table))]
            if lost:
                raise ParameterError(
                    f"after {k + 1} iterations the factor {lost[0]!r} was not finite: divide the "
                    "values by their size, pass dispersions nearer to the variance of the noise, "
                    "or leave step_size to tacit (None)"
                )
            keep(state)
            advance(1)
    except KeyboardInterrupt:
        pass
    return state


def mean_divergence(
    predicted: Callable[[str, Any], Any], powers: Mapping[str, float], relations: Mapping[str, Any]
) -> float:
    """Return the mean divergence of predictions from listed cells, over all relations.

    Parameters
    ----------
    predicted
        The expected values of a relation's listed cells, by its name and itself.
    powers
        Relation → p of its divergence.
    relations
        With the cells to compare with.
    """
    total, cells = 0.0, 0
    for name, found in relations.items():
        total += cell_divergence(found.values, predicted(name, found), powers[name])
        cells += found.cells
    return total / max(cells, 1)


def row_prior(inference: str, prior: Any, state: Any, entity: str) -> tuple[float, float]:
    """Return (shape, rate) of the prior that new rows of an entity are fitted with."""
    stated = stated_priors(prior, [entity])
    if inference == "map":
        return (stated[entity][0], _rate(stated[entity])) if entity in stated else (1.0, 0.0)
    if inference == "vb":  # given, or adapted
        stated[entity] = float(state.prior_shape[entity]), float(state.prior_mean[entity])
    if entity not in stated:  # an exponential law with the mean of the members that were fitted
        return 1.0, 1.0 / max(float(np.mean(state.factors[entity])), 1e-12)
    return max(1.0, stated[entity][0]), _rate(stated[entity])


def _rate(prior: tuple[float, float]) -> float:
    """Return the rate of a gamma prior with a shape and a mean."""
    shape, mean = prior
    return shape / mean


def descend(
    kernel: Any, state: Any, iterations: int, tolerance: float, advance: Callable[[int], None]
) -> tuple[Any, list[float], int, bool, bool]:
    """Iterate until the objective settles, the iterations are used up, or Ctrl-C.

    Returns the state, the objectives looked at, the iterations done, whether the objective
    settled, and whether the user interrupted.
    """
    history: list[float] = []
    done, settled, interrupted, looked = 0, False, False, 0
    try:
        while done < iterations and not settled:
            each = getattr(kernel, "sweeps", 1)
            if done + each > iterations:  # what is left is too short to accelerate
                kernel, each = kernel.updates, 1
            look = done + each >= min(looked + _LOOK, iterations)
            state, info = kernel.step(state, objective=look)
            done += each
            advance(each)
            if look:
                looked = done
                history.append(float(info[0]))
            if look and len(history) > 1:
                change = abs(history[-1] - history[-2])
                settled = change <= tolerance * max(abs(history[-2]), 1e-12)
    except KeyboardInterrupt:
        interrupted = True
        measure = kernel.bound if hasattr(kernel, "bound") else kernel.objective
        history.append(float(measure(state)))
    return state, history, done, settled, interrupted
