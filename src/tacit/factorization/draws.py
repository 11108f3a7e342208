"""Draws of factors among released arrays: their names, their means, their spread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.factorization.arrays import Arrays, Factors

__all__ = ["DEVIATION", "DRAWS", "PRIOR", "draws_of", "estimates_of", "summarised"]

# what the name of an array ends with that holds standard deviations, or draws, of another
DEVIATION, DRAWS = " sd", " draws"
PRIOR = "prior"  # shape and mean of a gamma prior that was chosen by what was released


def summarised(draws: Factors) -> Arrays:
    """Return draws, (draws, …) by factor, beside their means and standard deviations.

    >>> sorted(summarised({"item": np.zeros((4, 3, 2))}))
    ['item', 'item draws', 'item sd']
    """
    means = {name: found.mean(axis=0) for name, found in draws.items()}
    spread = {f"{name}{DEVIATION}": found.std(axis=0) for name, found in draws.items()}
    return means | spread | {f"{name}{DRAWS}": found for name, found in draws.items()}


def draws_of(shared: Mapping[str, Any]) -> Arrays:
    """Return the draws among released arrays, by factor; nothing where there are none."""
    return {
        name.removesuffix(DRAWS): np.asarray(array)
        for name, array in shared.items()
        if name.endswith(DRAWS)
    }


def estimates_of(shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was learned: neither its deviations, nor draws, nor a prior."""
    return {
        name: array
        for name, array in shared.items()
        if not name.endswith((DEVIATION, DRAWS)) and name != PRIOR
    }
