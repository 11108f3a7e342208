"""Functions of one parameter as cubic splines, so that compiled loops may call anything.

A random walk moves on η, the parameter on the real line: θ itself, log θ or logit θ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.linear import inlined
from tacit.errors import ParameterError
from tacit.posterior.numerics.priors import ScalarPrior

__all__ = [
    "SCALES",
    "Table",
    "clip_to_range",
    "everywhere",
    "from_line",
    "line_range",
    "log_slope",
    "look_up",
    "look_up_within",
    "spline",
    "to_line",
]

SCALES = ("real", "positive", "unit")  # the order is the code that compiled loops use
_LARGEST = 1e100  # of a positive parameter: its square is a double
_BEYOND = 1.000001e100  # above it by more than logarithms and exponentials are rounded
_TAIL = 1e-10  # prior mass that a table leaves out at each end


@inlined
def to_line(scale: int, theta: float) -> Any:
    """Return η of θ."""
    if scale == 0:
        return theta
    if scale == 1:
        return math.log(theta)
    return math.log(theta / (1.0 - theta))


@inlined
def from_line(scale: int, eta: float) -> Any:
    """Return θ of η."""
    if scale == 0:
        return eta
    if scale == 1:
        return math.exp(min(eta, 231.0))  # above 1e100, where a walk has left the range
    if eta > 0.0:
        return 1.0 / (1.0 + math.exp(-eta))
    tail = math.exp(eta)
    return tail / (1.0 + tail)


@inlined
def log_slope(scale: int, theta: float) -> Any:
    """Return log |dθ/dη|, the Jacobian of a walk on η; −∞ where θ has left its range."""
    if scale == 0:
        return 0.0
    if not theta > 0.0:
        return -math.inf
    if scale == 1:  # beyond, θ no longer grows with η: a density there would have no end
        return math.log(theta) if theta < _BEYOND else -math.inf
    if theta >= 1.0:
        return -math.inf
    return math.log(theta) + math.log1p(-theta)


class Table(NamedTuple):
    """A cubic spline on equal steps of η; outside it is the value at the nearer end."""

    scale: int
    low: float
    step: float
    coefficients: Array  # (pieces, 4), in powers of the fraction of a step


@inlined
def look_up(table: Any, eta: float) -> Any:
    """Return the spline at η."""
    pieces = table.coefficients.shape[0]
    place = (eta - table.low) / table.step
    if place <= 0.0:
        return table.coefficients[0, 0]
    i = min(int(place), pieces - 1)
    t = min(place - i, 1.0)
    c = table.coefficients
    return c[i, 0] + t * (c[i, 1] + t * (c[i, 2] + t * c[i, 3]))


@inlined
def look_up_within(table: Any, eta: float) -> Any:
    """Return the spline at η, −∞ outside of it: what was tabulated has no mass there."""
    place = (eta - table.low) / table.step
    if place < 0.0 or place > table.coefficients.shape[0]:
        return -math.inf
    return look_up(table, eta)


def everywhere(scale: int) -> Table:
    """Return the table that is 0 for every η: nothing is known."""
    return Table(scale, -1e300, 1e301, np.zeros((1, 4)))


def line_range(prior: ScalarPrior, scale: int) -> tuple[float, float]:
    """Return the range of η that holds all but 1e-10 of the prior at each end."""
    low, high = (float(prior.quantile(level)) for level in (_TAIL, 1.0 - _TAIL))
    if scale == 1:
        high = min(high, _LARGEST)  # an inverse gamma law may have no largest double
        low = low if low > 0.0 else _TAIL * high
    if scale == 2:
        low, high = max(low, 1e-12), min(high, 1.0 - 1e-12)
    if not low < high:
        raise ParameterError(f"prior {prior} leaves the parameter's range ({SCALES[scale]})")
    return float(to_line(scale, low)), float(to_line(scale, high))


def clip_to_range(prior: ScalarPrior, scale: int, theta: Any) -> Array:
    """Return parameters, moved to where the prior leaves them possible."""
    low, high = (from_line(scale, end) for end in line_range(prior, scale))
    return np.asarray(np.clip(theta, low, high))


def spline(scale: int, eta: Array, values: Array) -> Table:
    """Return the spline through values at equal steps of η."""
    from scipy.interpolate import CubicSpline

    step = float(eta[1] - eta[0])
    c = CubicSpline(np.arange(len(eta)), values).c  # highest power first
    return Table(scale, float(eta[0]), step, np.ascontiguousarray(c[::-1].T))


def scale_codes(scales: Sequence[str]) -> NDArray[np.int64]:
    """Return the codes of scales."""
    return np.array([SCALES.index(scale) for scale in scales], np.int64)
