"""The methods over sites by name, and which one ``method="auto"`` takes."""

from __future__ import annotations

from tacit.errors import ParameterError
from tacit.estimators.joint import JointMethod, Problem
from tacit.estimators.joint_langevin import Langevin

__all__ = ["METHODS", "choose_method"]

METHODS: dict[str, type[JointMethod]] = {"sgld": Langevin}


def choose_method(problem: Problem) -> JointMethod:
    """Return the method for a problem, from what is public about it."""
    raise ParameterError("no method fits this problem yet")
