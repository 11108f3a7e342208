"""p(y | θ) of an order statistic with smooth-sensitivity noise.

y = x_(m) + Laplace noise of scale 2·S/ε, S the smooth sensitivity of the people. F(x_(m)) has a
Beta law, and given x_(m) = s the people on either side are independent of each other (`windows`):

    p(y | θ) = ∫ E[Laplace density of y − s at scale 2·S/ε, given x_(m) = s] dBeta(F(s)).

The integral is a sum over cells between quantiles of the Beta law, within each of which the
density is integrated as it stands; log S is interpolated between some s, window by window.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from tacit._core import kernels
from tacit._core.arrays import Array
from tacit.posterior.numerics.orders.domain import Domain, Spread
from tacit.posterior.numerics.orders.windows import Windows, largest_gaps, windows
from tacit.posterior.numerics.populations.base import Population

__all__ = ["SmoothOrders"]

_WINDOWS = 32
_REACH, _CELLS = 7.0, 161  # spreads of x_(m), and cells over them
_NODES, _OF_TIES = 9, 65  # places at which S is found, and where it jumps from value to value
_GRID = 2.0**-30  # of the range: the steps in which the mechanism answers
_DECAY = 40.0  # ranks at which e^−β·k is smaller than e^−40 do not count, but for the ends


class SmoothOrders:
    """log p(y | θ) of one release.

    Parameters
    ----------
    domain
        The scale of x or |x|, of which the statistic is a power.
    size, rank
        n and m.
    epsilon, beta
        Of the noise.
    value
        y.
    ties
        Numbers that many people share.
    """

    def __init__(
        self,
        domain: Domain,
        size: int,
        rank: int,
        epsilon: float,
        beta: float,
        value: float,
        ties: Array | None = None,
    ) -> None:
        self.domain, self.size, self.rank = domain, size, rank
        self.epsilon, self.beta, self.value = epsilon, beta, value
        self.spread = Spread(domain, float(domain.inward(np.array(value))), ties)
        self.people = windows(size, _WINDOWS)
        self._nodes = _NODES if ties is None else _OF_TIES
        low, high = domain.outward(np.array([domain.low, domain.high]))
        self._range = float(high - low)
        self._law = float(rank), float(size + 1 - rank)
        level = special.ndtr(np.linspace(-_REACH, _REACH, _CELLS))
        self._edges = special.betaincinv(*self._law, level)  # shares F(x_(m))
        self._mass = np.diff(level) / (level[-1] - level[0])

    def log_density(
        self, population: Population, theta: Array, people: Windows | None = None
    ) -> float:
        """Return log p(y | θ)."""
        people = self.people if people is None else people
        points, shares = self.spread.points, self.spread.shares(population, theta)
        edges = self.domain.outward(np.interp(self._edges, shares, points))
        nodes = np.linspace(0, _CELLS - 1, self._nodes).astype(int)
        scales = 2.0 / self.epsilon * self._smooth(self._edges[nodes], points, shares, people)
        middle = np.arange(_CELLS - 1) + 0.5
        # the mechanism's own answers lie on a grid: below its step no noise is told from none
        logs = np.log(np.maximum(scales, _GRID * self._range))
        scale = np.exp(np.array([np.interp(middle, nodes, row) for row in logs.T]))
        values = _log_laplace(self.value, edges[:-1], edges[1:], scale)
        return float(special.logsumexp(values + np.log(self._mass)) - math.log(len(scale)))

    def error(self, population: Population, thetas: Array) -> float:
        """Return the standard deviation over θ of what windows leave uncertain in log p(y | θ)."""
        halves = np.array(
            [
                [self.log_density(population, theta, self.people.half(which)) for theta in thetas]
                for which in (0, 1)
            ]
        )
        return float((halves[0] - halves[1]).std() / 2.0)

    def _smooth(self, levels: Array, points: Array, shares: Array, people: Windows) -> Array:
        """Return S given F(x_(m)), (levels, windows)."""
        out = np.empty((len(levels), len(people.below)))
        values = self.domain.outward(np.clip(points, self.domain.low, self.domain.high))
        kernels.compiled(largest_gaps)(
            (people.steps, people.below, people.above),
            float(self.size),
            float(self.rank),
            self.beta,
            _DECAY / self.beta,
            values,
            shares,
            levels,
            out,
        )
        return out


def _log_laplace(value: float, low: Array, high: Array, scale: Array) -> Array:
    """Return the log of a Laplace density's mean over where its centre may lie.

    ∫ exp(−|y − s|/b)/(2b) ds over [low, high] is a difference of distribution functions; far from
    y, where that would cancel, it is taken relative to the nearer end.
    """
    width = np.maximum(high - low, 1e-12 * scale)
    near = np.maximum(np.maximum(low - value, value - high), 0.0)  # 0 where y lies within
    outside = -near / scale + np.log(-np.expm1(-width / scale)) - np.log(2.0 * width)
    left, right = np.maximum(value - low, 0.0), np.maximum(high - value, 0.0)
    both = -np.expm1(-left / scale) - np.expm1(-right / scale)
    inside = np.log(np.maximum(both, 1e-300)) - np.log(2.0 * width)
    return np.where(near > 0.0, outside, np.where(high - low > 1e-9 * scale, inside, outside))
