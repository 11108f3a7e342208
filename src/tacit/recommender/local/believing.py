"""What is made of released averages of groups: how far they are believed, here and on a device."""

from __future__ import annotations

import numpy as np

from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.numerics.ridge import NEVER

__all__ = ["believed", "penalties"]

_PERSON = 0.15  # the variance of people's own offsets, as a rule
_LADDER = np.append(0.0, np.geomspace(1e-3, 0.2, 24))  # of τ²
_NOTHING = 0.2  # the chance that a level says nothing, beforehand
_FACTOR = 0.25  # the variance of a factor on what was learned, as a rule


def believed(estimate: Floats, variance: Floats) -> Floats:
    """Return posterior means of a level's offsets, τ² averaged over a ladder from 0 on.

    >>> believed(np.array([0.5, -0.5, 0.4]), np.full(3, 1e-4)).round(2).tolist()
    [0.5, -0.5, 0.4]
    """
    known = np.isfinite(variance)
    chances = np.log(np.append(_NOTHING, np.full(len(_LADDER) - 1, (1 - _NOTHING) / 24)))
    total = _LADDER[:, None] + variance[known]
    chances += -0.5 * (np.log(total) + estimate[known] ** 2 / total).sum(axis=1)
    chances = np.exp(chances - chances.max())
    gain = (chances / chances.sum()) @ (_LADDER[:, None] / total)
    found = np.zeros(len(estimate))
    found[known] = gain * estimate[known]
    return found


def penalties(mean_variance: float, residual: float, step: float, learned: bool) -> Floats:
    """Return what a device averages over: its own offset, and a factor on what was learned."""
    own = residual / (_PERSON + mean_variance)
    if not learned:
        return np.array([[own, NEVER]])
    factor = residual * step**2 / _FACTOR
    return np.array([[own, one] for one in (NEVER, 4.0 * factor, factor, factor / 4.0)])
