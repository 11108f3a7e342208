"""The methods over sites by name, and which one ``method="auto"`` takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tacit.estimators.joint import JointMethod, Problem
from tacit.estimators.joint_als import AlternatingLeastSquares
from tacit.estimators.joint_local import LocalCounts

__all__ = ["METHODS", "choose_method"]

METHODS: dict[str, Callable[[], JointMethod]] = {
    "als": AlternatingLeastSquares,
    "local": LocalCounts,
    "offsets": partial(AlternatingLeastSquares, rounds=0, factors=False, pattern=False),
}


def choose_method(problem: Problem) -> JointMethod:
    """Return the method for a problem, from what is public about it."""
    return AlternatingLeastSquares()
