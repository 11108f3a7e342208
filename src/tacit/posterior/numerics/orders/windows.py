"""People around a place, in order: gaps between n numbers at a cost that n hardly changes.

Given that c of n independent people lie below a place v, those below are c independent draws from
the law below v, and those above n − c from the law above. Sorted uniform numbers are sums of
independent exponential ones divided by their total (Rényi 1953): with a_1, a_2, … the sums from v
downward, the d-th person below v stands at the share F(v)·(1 − a_d/a_{c+1}), and so upward. The
sums serve every c and every law, so all θ see the same people, and what chance does to one
likelihood it does to all.

**Skeleton.** The 64 nearest people on each side are followed one by one; further away blocks
grow by a twentieth, whose sums are drawn as a whole (a gamma law). Within a block gaps count as
equal, and weights by rank as they are. So n = 10⁶ takes 270 numbers on each side.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.linear import inlined
from tacit._core.rng import generator

__all__ = ["Windows", "sums_of_gaps", "weights_by_rank", "windows"]

_SINGLE, _GROWTH = 64, 1.05


class Windows(NamedTuple):
    """People around a place, many times: distances in ranks (D,), sums below and above (M, D)."""

    steps: Array
    below: Array
    above: Array

    def half(self, which: int) -> Windows:
        """Return every second of the drawn ones."""
        return Windows(self.steps, self.below[which::2], self.above[which::2])


@lru_cache(maxsize=8)
def windows(size: int, count: int) -> Windows:
    """Return so many windows for n people; the same ones whenever they are asked for."""
    steps = [float(d) for d in range(1, min(_SINGLE, size + 1) + 1)]
    while steps[-1] < size + 1:
        steps.append(min(float(size + 1), np.ceil(steps[-1] * _GROWTH)))
    at = np.array(steps)
    shape = np.diff(at, prepend=0.0)
    rng = generator(17, f"windows {size}")
    below, above = (np.cumsum(rng.gamma(shape, size=(count, len(at))), axis=1) for _ in range(2))
    return Windows(at, np.ascontiguousarray(below), np.ascontiguousarray(above))


def weights_by_rank(first: Array, last: Array, target: float, rate: float) -> Array:
    """Return the mean of exp(−rate·|k − target|) over whole numbers k from first to last.

    >>> weights_by_rank(np.array([2.0]), np.array([4.0]), 3.0, np.log(2.0))
    array([0.66666667])
    """
    below = np.minimum(last, np.floor(target))
    above = np.maximum(first, np.floor(target) + 1.0)
    whole = -np.expm1(-rate)

    def geometric(nearest: Array, count: Array) -> Array:
        """Sum a geometric series from its largest term."""
        many = np.maximum(count, 0.0)
        top = np.exp(-rate * np.where(many > 0.0, np.abs(nearest - target), 0.0))
        return np.asarray(top * -np.expm1(-rate * many) / whole)

    total = geometric(below, below - first + 1.0) + geometric(above, last - above + 1.0)
    return np.asarray(total / (last - first + 1.0))


@inlined
def _total(sums: Any, steps: Any, count: float) -> Any:
    """Return the sum of ``count`` exponential numbers, evenly within a block."""
    i = np.searchsorted(steps, count)
    if steps[i] == count or i == 0:
        return sums[i]
    share = (count - steps[i - 1]) / (steps[i] - steps[i - 1])
    return sums[i - 1] + share * (sums[i] - sums[i - 1])


@inlined
def _one_side(
    sums: Any,
    total: float,
    used: int,
    weights: Any,
    origin: float,
    reach: float,
    way: int,
    points: Any,
    shares: Any,
    start: int,
    end: float,
) -> Any:
    """Return the weighted length from a place to an end, over ``used`` blocks and the rest."""
    length, last, k = 0.0, points[start], start
    stop = points.shape[0] - 1 if way > 0 else 0
    for i in range(used):
        share = origin + reach * sums[i] / total
        while k != stop and (shares[k + way] - share) * way < 0.0:
            k += way
        if k == stop:
            here = end
        else:
            rise = shares[k + way] - shares[k]
            part = (share - shares[k]) / rise if rise != 0.0 else 1.0
            here = points[k] + part * (points[k + way] - points[k])
        length += abs(here - last) * weights[i]
        last = here
    return length + abs(end - last) * weights[used]


def sums_of_gaps(
    people: Any,
    size: float,
    counts: Any,
    used: Any,
    weights: Any,
    points: Any,
    shares: Any,
    start: int,
    out: Any,
) -> None:
    """Fill in Z = Σ over gaps of weight·length, (counts, windows).

    people: steps and sums of `Windows`. counts: how many lie below the place. used (counts, 2):
    how many blocks there are below and above. weights (counts, 2, D + 1): by block, with what
    is left up to the end behind the last. points, shares: F. start: the place among points.
    """
    steps, below, above = people
    share = shares[start]
    for c in range(counts.shape[0]):
        count = counts[c]
        for m in range(below.shape[0]):
            under = _total(below[m], steps, count + 1.0)
            over = _total(above[m], steps, size - count + 1.0)
            out[c, m] = _one_side(
                below[m],
                under,
                used[c, 0],
                weights[c, 0],
                share,
                -share,
                -1,
                points,
                shares,
                start,
                points[0],
            ) + _one_side(
                above[m],
                over,
                used[c, 1],
                weights[c, 1],
                share,
                1.0 - share,
                1,
                points,
                shares,
                start,
                points[-1],
            )


def largest_gaps(
    people: Any,
    size: float,
    rank: float,
    beta: float,
    reach: float,
    values: Any,
    shares: Any,
    levels: Any,
    out: Any,
) -> None:
    """Fill in S = max over i, j of exp(−β(i + j − 1))·(x_j − x_−i), (levels, windows).

    i and j count people below and above the order statistic of a rank, whose share is given by
    ``levels``; the ends of the range stand ``rank`` below and size + 1 − rank above. ``reach``:
    the ranks that are looked at besides the ends. values, shares: F.
    """
    steps, below, above = people
    room = steps.shape[0] + 2
    apart, decay = np.empty((2, room)), np.empty((2, room))
    for a in range(levels.shape[0]):
        level = levels[a]
        middle = _value_at(values, shares, level)
        for m in range(below.shape[0]):
            used = np.zeros(2, np.int64)
            for side in range(2):
                sums = below[m] if side == 0 else above[m]
                whole = rank if side == 0 else size + 1.0 - rank
                total = _total(sums, steps, whole)
                apart[side, 0], decay[side, 0] = 0.0, 1.0
                k = 1
                for i in range(steps.shape[0]):
                    if steps[i] >= whole or steps[i] > reach:
                        break
                    part = sums[i] / total
                    share = level * (1.0 - part) if side == 0 else level + (1.0 - level) * part
                    apart[side, k] = abs(_value_at(values, shares, share) - middle)
                    decay[side, k] = np.exp(-beta * steps[i])
                    k += 1
                apart[side, k] = abs((values[0] if side == 0 else values[-1]) - middle)
                decay[side, k] = np.exp(-beta * whole)
                used[side] = k + 1
            out[a, m] = _best_pair(apart, decay, used) * np.exp(beta)


@inlined
def _best_pair(apart: Any, decay: Any, used: Any) -> Any:
    """Return max over i, j, not both 0, of decay_i·decay_j·(apart_i + apart_j).

    A pair is at most decay_i·(apart_i + the largest decay_j·apart_j), and so for j: most are
    beaten by the best pair with nobody on one side.
    """
    least, most = 0.0, 0.0
    for i in range(used[0]):
        least = max(least, decay[0, i] * apart[0, i])
    for j in range(used[1]):
        most = max(most, decay[1, j] * apart[1, j])
    best = max(least, most)
    for i in range(1, used[0]):
        if decay[0, i] * (apart[0, i] + most) > best:
            for j in range(1, used[1]):
                if decay[1, j] * (apart[1, j] + least) > best:
                    best = max(best, decay[0, i] * decay[1, j] * (apart[0, i] + apart[1, j]))
    return best


@inlined
def _value_at(values: Any, shares: Any, share: float) -> Any:
    """Return the value up to which a share of the people lies."""
    k = min(max(np.searchsorted(shares, share), 1), shares.shape[0] - 1)
    rise = shares[k] - shares[k - 1]
    part = (share - shares[k - 1]) / rise if rise > 0.0 else 1.0
    return values[k - 1] + part * (values[k] - values[k - 1])
