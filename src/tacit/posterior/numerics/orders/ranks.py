"""p(v | θ) of a quantile drawn by the exponential mechanism.

Given people x, v has the density exp(−r·|C − t|)/Z, with C how many lie below v, t = q·n, and
Z = ∫ exp(−r·|C(s) − t|) ds, a sum over the gaps between people. Over people,

    p(v | θ) = Σ_c P(c people below v)·exp(−r·|c − t|)·E[1/Z given c],

P binomial with n and F_θ(v). The sum over c is taken as it stands, no person is simulated for it.
E[1/Z given c] is a mean over windows of people around v (`windows`), at some c between which its
logarithm is nearly straight; the windows are the same for every θ. What a finite number of them
leaves uncertain is measured: `Ranks.error` compares the two halves.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from tacit._core import kernels
from tacit._core.arrays import Array
from tacit.posterior.numerics.orders.domain import Domain, Spread
from tacit.posterior.numerics.orders.windows import (
    Windows,
    sums_of_gaps,
    weights_by_rank,
    windows,
)
from tacit.posterior.numerics.populations.base import Population

__all__ = ["WINDOWS", "Ranks"]

WINDOWS = 64
_DEPTH = 36.0  # log: terms of the sum over c that are smaller do not count
_TERMS = 4096  # of the sum, at most
_LEVELS = (0.0, 1e-3, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 0.999, 1.0)  # of c, for E[1/Z]


class Ranks:
    """log p(v | θ) of one draw.

    Parameters
    ----------
    domain
        Where the mechanism drew.
    size, level, rate
        n, q and r.
    place
        v.
    count
        How many windows.
    ties
        Numbers that many people share, where they lie on no stated grid.
    """

    def __init__(
        self,
        domain: Domain,
        size: int,
        level: float,
        rate: float,
        place: float,
        count: int = WINDOWS,
        ties: Array | None = None,
    ) -> None:
        self.size, self.rate, self.target = size, rate, level * size
        self.spread = Spread(domain, place, ties)
        self.people = windows(size, count)
        self._start = int(np.searchsorted(self.spread.points, self.spread.place))
        self._of_all = float(special.gammaln(size + 1.0))

    def log_density(
        self, population: Population, theta: Array, people: Windows | None = None
    ) -> float:
        """Return log p(v | θ)."""
        shares = self.spread.shares(population, theta)
        counts, logs = self._terms(float(shares[self._start]))
        weights = np.exp(logs - logs.max())
        total = np.cumsum(weights)
        levels = np.searchsorted(total, np.array(_LEVELS) * total[-1])
        picked = counts[np.minimum(levels, len(counts) - 1)]
        nodes = np.unique([*picked, counts[0], counts[-1], *self._kink(counts)])
        heights = self._log_inverse(nodes, shares, self.people if people is None else people)
        values = logs + np.interp(counts, nodes, heights)
        return float(special.logsumexp(values) + math.log(max(1.0, self._stride(counts))))

    def error(self, population: Population, thetas: Array) -> float:
        """Return the standard deviation over θ of what windows leave uncertain in log p(v | θ)."""
        halves = np.array(
            [
                [self.log_density(population, theta, self.people.half(which)) for theta in thetas]
                for which in (0, 1)
            ]
        )
        return float((halves[0] - halves[1]).std() / 2.0)

    def distance(self, population: Population, theta: Array) -> float:
        """Return by how much the ranks of v and of the target differ, in units of the mechanism.

        Less six times what the sampling of people explains.
        """
        share = float(self.spread.shares(population, theta)[self._start])
        spread = 6.0 * math.sqrt(max(self.size * share * (1.0 - share), 1.0))
        return self.rate * max(abs(self.size * share - self.target) - spread, 0.0)

    # -- how many lie below ----------------------------------------------------------------

    def _log_term(self, count: Array, share: float) -> Array:
        """Return log P(c people below v) − r·|c − t|."""
        n, c = float(self.size), np.asarray(count, np.float64)
        ways = self._of_all - special.gammaln(c + 1.0) - special.gammaln(n - c + 1.0)
        chance = special.xlogy(c, share) + special.xlog1py(n - c, -share)
        return np.asarray(ways + chance - self.rate * np.abs(c - self.target))

    def _terms(self, share: float) -> tuple[Array, Array]:
        """Return the c that matter, and their logarithms: they rise to one c, and fall from it."""
        n, t = float(self.size), self.target
        odds = min(self.rate, 700.0)
        # where the binomial law alone falls as fast as the mechanism pulls, on either side of t
        rising = n * share / (share + math.exp(-odds) * (1.0 - share))
        falling = n * share / (share + math.exp(odds) * (1.0 - share))
        mode = min(max(round(min(max(t, falling), rising)), 0), self.size)
        around = np.clip(np.arange(mode - 2.0, mode + 3.0), 0.0, self.size)
        mode = int(around[np.argmax(self._log_term(around, share))])
        floor = float(self._log_term(np.array(mode), share)) - _DEPTH
        first = mode - _last(lambda k: self._log_term(np.array(mode - k), share) >= floor, mode)
        room = self.size - mode
        last = mode + _last(lambda k: self._log_term(np.array(mode + k), share) >= floor, room)
        stride = max(1, -(-(last - first + 1) // _TERMS))
        counts = np.arange(float(first), last + 1.0, float(stride))
        return counts, self._log_term(counts, share)

    @staticmethod
    def _stride(counts: Array) -> float:
        return float(counts[1] - counts[0]) if len(counts) > 1 else 1.0

    def _kink(self, counts: Array) -> list[float]:
        """Return the c beside t, where Z(c) turns."""
        inside = (math.floor(self.target), math.ceil(self.target))
        return [float(c) for c in inside if counts[0] < c < counts[-1]]

    # -- the gaps --------------------------------------------------------------------------

    def _log_inverse(self, counts: Array, shares: Array, people: Windows) -> Array:
        """Return log E[1/Z given c]."""
        steps, n = people.steps, float(self.size)
        used = np.empty((len(counts), 2), np.int64)
        weights = np.zeros((len(counts), 2, len(steps) + 1))
        for c, count in enumerate(counts):
            for side, (there, way) in enumerate(((count, -1.0), (n - count, 1.0))):
                blocks = int(np.searchsorted(steps, there, side="right"))
                used[c, side] = blocks
                # between the people at distances a and b lie the counts from a to b − 1
                near = np.concatenate([[0.0], steps[:blocks]])
                far = np.concatenate([steps[:blocks] - 1.0, [there]])
                ends = count + way * near, count + way * far
                weights[c, side, : blocks + 1] = weights_by_rank(
                    np.minimum(*ends), np.maximum(*ends), self.target, self.rate
                )
        out = np.empty((len(counts), len(people.below)))
        kernels.compiled(sums_of_gaps)(
            (steps, people.below, people.above),
            n,
            counts,
            used,
            weights,
            self.spread.points,
            shares,
            self._start,
            out,
        )
        return np.asarray(-np.log(out).min(axis=1) + np.log(_relative_mean(out)))


def _relative_mean(lengths: Array) -> Array:
    """Return the mean of 1/Z relative to the largest, by rows."""
    return np.asarray((lengths.min(axis=1, keepdims=True) / lengths).mean(axis=1))


def _last(holds, most: int) -> int:  # type: ignore[no-untyped-def]
    """Return the largest k up to ``most`` at which a condition holds that ends once."""
    low, high = 0, 1
    while high <= most and holds(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
