"""Simulations of a plan: data with a known truth through the real estimator at the real noise.

Every family has its own (`PrivateEstimator._simulate`); here they are repeated and averaged.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from tacit.estimators.base import PrivateEstimator
from tacit.estimators.facts import Facts
from tacit.estimators.families import estimator_names, estimator_of

__all__ = ["Facts", "error_of", "kinds"]


def kinds(plugins: Sequence[str] = ()) -> list[str]:
    """Return the names of the estimators that can be planned with."""
    own = PrivateEstimator._simulate.__func__  # type: ignore[attr-defined]
    found = {name: estimator_of(name, plugins) for name in estimator_names(plugins)}
    return [name for name, kind in found.items() if kind._simulate.__func__ is not own]  # type: ignore[attr-defined]


def error_of(
    kind: str, facts: Facts, repeats: int, seed: int, plugins: Sequence[str] = ()
) -> tuple[float, float]:
    """Return the mean simulated error and its standard error."""
    simulate = estimator_of(kind, plugins)._simulate
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too little signal is what a plan is there to find
        errors = np.array([simulate(facts, seed + k) for k in range(repeats)])
    return float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(repeats))
