"""The methods over sites by name, and which one ``method="auto"`` takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tacit.estimators.joint import JointMethod, Problem
from tacit.estimators.joint_als import AlternatingLeastSquares, is_matrix
from tacit.estimators.joint_langevin import Langevin
from tacit.estimators.joint_local import LocalCounts

__all__ = ["METHODS", "choose_method"]

METHODS: dict[str, Callable[[], JointMethod]] = {
    "als": AlternatingLeastSquares,
    "local": LocalCounts,
    "offsets": partial(AlternatingLeastSquares, rounds=0, factors=False, pattern=False),
    "sgld": Langevin,
}


def choose_method(problem: Problem) -> JointMethod:
    """Return the method for a problem, from what is public about it.

    Least squares for one matrix of values under a Euclidean divergence, counts perturbed locally
    where nobody is trusted but the person, and Langevin dynamics for everything else.
    """
    if problem.privacy is not None and problem.privacy.trust == "local":
        return LocalCounts()
    euclidean = set(problem.model.powers.values()) == {0.0}
    if euclidean and problem.calibration == "certified" and is_matrix(problem):
        return AlternatingLeastSquares()
    return Langevin()
