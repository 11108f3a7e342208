"""Where a posterior of one parameter has mass, found by search, and its log density as a table.

A prior may be a million times wider than the posterior. So no grid over the prior is trusted to
meet it: every local maximum of a coarse grid is followed by halving the steps beside it, until the
peak itself is resolved. The table then has its equal steps where the peaks are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit.errors import ParameterError
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.splines import Table, from_line, line_range, log_slope, spline

__all__ = ["Searched", "search", "tabulate"]

_COARSE = 65  # nodes over the prior, from which local maxima are followed
_DEPTH = 45.0  # how far below its top a log density still matters: e^-45 is 3e-20
_TALL = 20.0  # below its top a separate part needs no nodes of its own
_PEAK, _SLOPE = 1.0, 4.0  # the largest drops of a log density beside a peak, and on the way down
_NARROWEST = 1e-13  # of the prior's range: what doubles still tell apart
_NODES, _MOST, _LONGEST = 128, 1024, 1 << 15  # of a table: where there is mass, at most, in all
_ROUNDS = 64


class Searched(NamedTuple):
    """Points in ascending order and a function's values there."""

    at: Array
    values: Array


def search(
    function: Callable[[float], float],
    low: float,
    high: float,
    drop: float = _PEAK,
    enough: float = math.inf,
) -> Searched:
    """Return a function's values, with every local maximum followed to its top.

    Parameters
    ----------
    function
        Of one number; −∞ where it is impossible.
    low, high
        Between which it is looked at.
    drop
        By how much it may fall from a local maximum to the points beside it.
    enough
        A value at which the search ends.

    Examples
    --------
    >>> found = search(lambda x: -1e12 * (x - 0.123456) ** 2, 0.0, 1.0)
    >>> round(float(found.at[found.values.argmax()]), 5)
    0.12346
    """
    at = np.linspace(low, high, _COARSE)
    found = Searched(at, np.array([function(float(x)) for x in at]))
    for _ in range(_ROUNDS):
        values = _finite(found.values)
        if values.max() >= enough:
            break
        padded = np.concatenate([[-np.inf], values, [-np.inf]])
        peak = (values >= padded[:-2]) & (values >= padded[2:])
        wide = _steps(found) & (np.abs(np.diff(values)) > drop)
        split = np.flatnonzero(wide & (peak[:-1] | peak[1:]))
        if not len(split):
            break
        found = _halved(function, found, split)
    return found


def _finite(values: Array) -> Array:
    """Return values with what is impossible far below all others."""
    known = values[np.isfinite(values)]
    least, most = (known.min(), known.max()) if known.size else (0.0, 0.0)
    return np.where(np.isfinite(values), values, least - 10.0 * (most - least) - 1e3)


def _steps(found: Searched) -> NDArray[np.bool_]:
    """Return which steps can be halved."""
    at = found.at
    room = _NARROWEST * max(at[-1] - at[0], float(np.abs(at).max()))
    return np.asarray(np.diff(at) > room)


def _halved(
    function: Callable[[float], float], found: Searched, split: NDArray[np.intp]
) -> Searched:
    middle = 0.5 * (found.at[split] + found.at[split + 1])
    values = np.array([function(float(x)) for x in middle])
    return Searched(
        np.insert(found.at, split + 1, middle), np.insert(found.values, split + 1, values)
    )


def _resolved(function: Callable[[float], float], found: Searched) -> Searched:
    """Halve the steps over which a density falls fast, as far as it still matters."""
    for _ in range(_ROUNDS):
        values = _finite(found.values)
        heights = np.maximum(values[:-1], values[1:])
        steep = np.abs(np.diff(values)) > _SLOPE
        split = np.flatnonzero(_steps(found) & steep & (heights > values.max() - _DEPTH))
        if not len(split) or len(found.at) > _MOST:
            break
        found = _halved(function, found, split)
    return found


def tabulate(
    function: Callable[[float], float], prior: ScalarPrior, scale: int
) -> tuple[Table, Array, Array]:
    """Return log p(y | θ) as a spline over where the posterior has mass, with η and log posterior.

    Parameters
    ----------
    function
        log p(y | θ) of one parameter.
    prior, scale
        What is known of it, and the scale on which a walk moves.
    """
    known: dict[float, float] = {}

    def posterior(eta: float) -> float:
        theta = float(from_line(scale, eta))
        own = prior.log_density(theta) + float(log_slope(scale, theta))
        if own == -math.inf:  # outside of the prior's support
            known[eta] = math.nan
            return own
        known[eta] = function(theta)
        return known[eta] + own

    found = _resolved(posterior, search(posterior, *line_range(prior, scale)))
    if not np.isfinite(found.values).any():
        raise ParameterError("the release is impossible under every parameter of the prior")
    weights = _finite(found.values)
    alive = np.maximum(weights[:-1], weights[1:]) > weights.max() - _DEPTH
    starts, ends = found.at[:-1][alive], found.at[1:][alive]
    # equal steps, so short that the narrowest of the parts that count has nodes enough
    gaps = np.flatnonzero(starts[1:] > ends[:-1]) + 1
    parts = [
        (s[0], e[-1]) for s, e in zip(np.split(starts, gaps), np.split(ends, gaps), strict=True)
    ]
    low, high = parts[0][0], parts[-1][1]
    tall = [
        end - start
        for start, end in parts
        if weights[(found.at >= start) & (found.at <= end)].max() > weights.max() - _TALL
    ]
    step = min(tall) / _NODES
    step = max(step, sum(end - start for start, end in parts) / _MOST, (high - low) / _LONGEST)
    eta = np.linspace(low, high, max(2, math.ceil((high - low) / step)) + 1)
    inside = np.zeros(len(eta), bool)
    for start, end in parts:
        inside |= (eta >= start - step) & (eta <= end + step)
    log_posterior = np.full(len(eta), -np.inf)
    log_posterior[inside] = [posterior(float(e)) for e in eta[inside]]
    # between the parts nothing has mass: any smooth way from one to the other will do
    at = np.array(sorted(e for e, value in known.items() if math.isfinite(value)))
    values = np.interp(eta, at, np.array([known[e] for e in at]))
    return spline(scale, eta, values), eta, log_posterior
