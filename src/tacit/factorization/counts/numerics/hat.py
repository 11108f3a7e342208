"""What samplers of log-concave laws on whole numbers share: Stirling's rest, and a hat.

The hat is flat between ``first`` and ``last`` (log height 0) and falls geometrically on either
side, from ``height_left`` at first − 1 and ``height_right`` at last + 1. Compiled kernels inline
both functions; they take the NumPy generator itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable

__all__ = ["propose", "stirling"]


_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def stirling(x: float) -> float:
    """Return log Γ(x) − ((x − ½)·log x − x + ½·log 2π), for x ≥ 1."""
    if x < 8.0:
        return math.lgamma(x) - ((x - 0.5) * math.log(x) - x + _HALF_LOG_2PI)
    y = 1.0 / (x * x)  # the next term of the series, 1/(156·x¹³), is below 2e-14
    high = 1.0 / 1680.0 - y * (1.0 / 1188.0 - y * (691.0 / 360360.0))
    return (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * high))) / x


def propose(
    rng: Any,
    first: float,
    last: float,
    height_left: float,
    height_right: float,
    slope_left: float,
    slope_right: float,
    left: float,
    right: float,
) -> tuple[float, float]:
    """Draw a whole number from the hat; return it and the log height of the hat there.

    ``left`` and ``right`` are the masses of the two tails, relative to a flat height of one.
    """
    flat = last - first + 1.0
    u = rng.random() * (flat + right + left)
    if u < flat:
        return first + np.floor(u), 0.0
    if u < flat + right:
        steps = np.floor(math.log(1.0 - rng.random()) / slope_right)
        return last + 1.0 + steps, height_right + steps * slope_right
    steps = np.floor(math.log(1.0 - rng.random()) / slope_left)
    return first - 1.0 - steps, height_left + steps * slope_left


for _function in (stirling, propose):
    register_jitable(_function)
