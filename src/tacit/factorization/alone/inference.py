"""How `CoupledFactorization` infers: which kernel with which prior, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from tacit._core.progress import progress_bar
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import cell_divergence
from tacit.factorization.alone.numerics.constraints import Constraints
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
    expected_chances,
    variance_of_products,
)
from tacit.factorization.alone.numerics.priors import gentle_priors, per_factor
from tacit.factorization.alone.numerics.sums import Engine, estimates_at
from tacit.factorization.alone.numerics.variational import VariationalBayes, variance_of_estimates
from tacit.factorization.alone.stated import FLAT, stated_priors
from tacit.factorization.divergences import LOGIT, expected

__all__ = [
    "best_descent",
    "descend",
    "kernel_of",
    "mean_divergence",
    "predicted",
    "row_prior",
    "sample",
]

# of gamma priors that are not given: VB alone would prune components of sparse data for less
_SHAPES = {"vb": 2.0}
_LOOK = 10  # the objective is looked at every so many iterations


def kernel_of(
    engine: Engine,
    given: Mapping[str, Any],
    real: bool = False,
    learned: Set[str] = frozenset(),
    constraints: Constraints | None = None,
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
    constraints
        What is stated about factors.
    """
    inference, known = given["inference"], constraints or Constraints()
    fixed = known.fixed
    stated = stated_priors(given["prior"], engine.model.factors)
    whole = per_factor(engine, stated, _SHAPES.get(inference, 1.0), known.fixed)
    shape, mean = ({n: pair[k] for n, pair in whole.items()} for k in (0, 1))
    if inference == "map":
        weak = {} if given["prior"] == FLAT else gentle_priors(engine, known.real, fixed)
        found = {n: weak.get(n, (1.0, 0.0)) for n in whole}
        found |= {n: _penalties(pair, n in known.real) for n, pair in stated.items()}
        shape, rate = ({n: pair[k] for n, pair in found.items()} for k in (0, 1))
        plain = MultiplicativeUpdates(engine, shape, rate, known)
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
            fixed=fixed,
        )
    if inference == "gibbs" and real:
        return NormalGibbs(engine, stated, learned, fixed)
    if inference == "gibbs":
        return GibbsSampler(engine, shape, mean, fixed)
    if real and given["adapt"]:
        raise ParameterError("adapt=True is for gamma priors: real factors learn theirs anyway")
    if real:
        return NormalBayes(engine, stated, learned, fixed)
    return VariationalBayes(engine, shape, mean, adapt=given["adapt"], fixed=fixed)


def _penalties(prior: tuple[float, float], real: bool) -> tuple[float, float]:
    """Return shape and rate of a stated prior; of a real factor, its precision as the rate."""
    return (1.0, prior[1]) if real else (prior[0], prior[0] / prior[1])


def predicted(model: Any, relation: str, index: NDArray[np.int32], with_variance: bool) -> Any:
    """Return the expected values at cells of a fitted model, and their posterior variances."""
    bound, state = model._bound, model._state
    if model.inference in ("gibbs", "sgld"):
        power = bound.relation(relation).power
        draws = np.array(
            [expected(estimates_at(bound, relation, one, index), power) for one in model._draws()]
        )
        mean = draws.mean(axis=0)
        return (mean, draws.var(axis=0)) if with_variance else mean
    mean = estimates_at(bound, relation, model._flat_means(), index)
    if bound.relation(relation).power == LOGIT and isinstance(state, NormalBayesState):
        chances = expected_chances(mean, variance_of_products(state, bound, relation, index))
        return chances if with_variance else chances[0]
    if not with_variance:
        return expected(mean, bound.relation(relation).power)
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
    predicted: Callable[[str, Any], Any], losses: Mapping[str, float], relations: Mapping[str, Any]
) -> float:
    """Return the mean divergence of predictions from listed cells, over all relations.

    Parameters
    ----------
    predicted
        The expected values of a relation's listed cells, by its name and itself.
    losses
        Relation → what stands for its loss; p of a divergence.
    relations
        With the cells to compare with.
    """
    total, cells = 0.0, 0
    for name, found in relations.items():
        estimates = predicted(name, found)
        if losses[name] == -math.inf:
            estimates = special.logit(np.clip(estimates, 1e-15, 1.0 - 1e-15))
        total += cell_divergence(found.values, estimates, losses[name])
        cells += found.cells
    return total / max(cells, 1)


def row_prior(model: Any, entity: str) -> tuple[float, float]:
    """Return (shape, rate) of the prior that new rows of a fitted model's entity have."""
    inference, state = model.inference, model._state
    stated = stated_priors(model.prior, [entity])
    if inference == "map":
        shape, rate = model._penalties[entity]
        return float(shape), float(rate)
    if inference == "vb":  # given, or adapted
        stated[entity] = float(state.prior_shape[entity]), float(state.prior_mean[entity])
    if entity not in stated:  # an exponential law with the mean of the members that were fitted
        return 1.0, 1.0 / max(float(np.mean(state.factors[entity])), 1e-12)
    shape, mean = stated[entity]
    return max(1.0, shape), shape / mean


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


def best_descent(
    kernel: Any, starts: Sequence[Any], given: Mapping[str, Any], sign: float = 1.0
) -> tuple[Any, list[float], int, bool]:
    """Return state, history, iterations and convergence of the best of several starts.

    Parameters
    ----------
    kernel
        With ``step`` and ``init``.
    starts
        States, or generators (None for a start without one) that ``init`` makes them of.
    given
        The parameters ``iterations``, ``tolerance`` and ``progress``.
    sign
        1 where a smaller objective is better, −1 where a larger one is.
    """
    best, most = None, given["iterations"]
    with progress_bar(given["progress"], most * len(starts), "factorizing") as advance:
        for start in starts:
            fresh = start is None or isinstance(start, np.random.Generator)
            state = kernel.init(start) if fresh else start
            *run, interrupted = descend(kernel, state, most, given["tolerance"], advance)
            if best is None or sign * run[1][-1] < sign * best[1][-1]:
                best = run
            if interrupted:
                break
    assert best is not None
    return best[0], best[1], best[2], best[3]
