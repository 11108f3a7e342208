"""How `CoupledFactorization` infers: which kernel with which prior, and when to stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Signature
from typing import Any

from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import cell_divergence
from tacit.factorization.alone.numerics.gibbs import GibbsSampler
from tacit.factorization.alone.numerics.langevin import LangevinSampler
from tacit.factorization.alone.numerics.multiplicative import (
    AcceleratedUpdates,
    MultiplicativeUpdates,
)
from tacit.factorization.alone.numerics.sums import Engine
from tacit.factorization.alone.numerics.variational import VariationalBayes

__all__ = [
    "INFERENCES",
    "READ_BY",
    "check_read",
    "descend",
    "kernel_of",
    "mean_divergence",
    "row_prior",
]

INFERENCES = ("map", "vb", "gibbs", "sgld")
_DEFAULT_PRIOR = (0.5, 10.0)  # shape and mean, of the Bayesian inferences
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
    "real_factors": ("sgld",),
}
_LOOK = 10  # the objective is looked at every so many iterations


def check_read(inference: str, given: Mapping[str, Any], constructor: Signature) -> None:
    """Raise where a parameter is given that the inference does not read."""
    for name, readers in READ_BY.items():
        if inference not in readers and given[name] != constructor.parameters[name].default:
            raise ParameterError(
                f"{name} is not read by inference={inference!r}: it is for "
                f"{' and '.join(repr(reader) for reader in readers)}"
            )


def kernel_of(engine: Engine, given: Mapping[str, Any]) -> Any:
    """Return the kernel that an estimator's parameters describe."""
    inference, prior = given["inference"], given["prior"]
    if inference == "map":
        shape, rate = (1.0, 0.0) if prior is None else (prior[0], _rate(prior))
        plain = MultiplicativeUpdates(engine, shape, rate)
        return AcceleratedUpdates(plain) if given["accelerate"] else plain
    shape, mean = prior or _DEFAULT_PRIOR
    if inference == "vb":
        return VariationalBayes(engine, shape, mean, adapt=given["adapt"])
    if inference == "gibbs":
        return GibbsSampler(engine, shape, mean)
    return LangevinSampler(
        engine,
        prior="normal" if given["real_factors"] else "gamma",
        shape=shape,
        mean=mean,
        batch=given["batch"],
        step=given["step_size"],
        decay=given["decay"],
    )


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


def row_prior(
    inference: str, prior: tuple[float, float] | None, state: Any, entity: str
) -> tuple[float, float]:
    """Return (shape, rate) of the prior that new rows of an entity are fitted with."""
    if inference == "map":
        return (1.0, 0.0) if prior is None else (prior[0], _rate(prior))
    shape, mean = prior or _DEFAULT_PRIOR
    if inference == "vb":  # given, or adapted
        shape, mean = float(state.prior_shape[entity]), float(state.prior_mean[entity])
    return max(1.0, shape), _rate((shape, mean))


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
        measure = kernel.bound if isinstance(kernel, VariationalBayes) else kernel.objective
        history.append(float(measure(state)))
    return state, history, done, settled, interrupted
