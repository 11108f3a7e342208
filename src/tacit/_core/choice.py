"""One choice among weighted intervals of whole numbers, in exact arithmetic.

An exponential mechanism over a line draws a point with probability ∝ e^−t, where t is constant on
intervals. A weight e^−t is stored as a 53-bit whole number and a power of two, which is off by a
share of at most `ROUNDING`; from there on nothing is rounded: weights are added up as whole
numbers of any size, and the place among them is uniform by rejection.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit._core.rng import WordStream

__all__ = ["LARGEST", "ROUNDING", "choose"]

LARGEST = 512.0  # e^−512 is never drawn in practice; what lies beyond has this weight
# t is off by 2⁻⁵² of itself, at most 2⁻⁴³, its split into a power of two and the rest by as much,
# and the exponential of the rest by a few units of 2⁻⁵³
ROUNDING = 2.0**-41
_BITS = 52


def choose(stream: WordStream, widths: NDArray[np.int64], exponents: NDArray[np.float64]) -> int:
    """Return a place in the intervals laid end to end, with weight e^−t each.

    Parameters
    ----------
    stream
        Where random words come from.
    widths
        How many whole numbers each interval holds, in all at least 1 and below 2⁶².
    exponents
        t of each interval, at least 0; what exceeds `LARGEST` counts as that.

    Examples
    --------
    >>> from tacit._core.rng import WordStream
    >>> choose(WordStream(1), np.array([4, 0, 1000]), np.array([0.0, 0.0, 300.0])) < 4
    True
    """
    near = (exponents < LARGEST) & (widths > 0)
    # the far ones are alike: together they are one interval
    far = np.where(near, 0, widths)
    t = np.append(exponents[near], LARGEST)
    halvings = np.floor(t / math.log(2.0))
    # the rest lies in [0, log 2), up to rounding
    parts = np.rint(np.ldexp(np.exp(halvings * math.log(2.0) - t), _BITS)).astype(np.int64)
    shifts = (halvings.max() - halvings).astype(np.int64)
    lengths = [*widths[near].tolist(), int(far.sum())]
    weights = [
        length * part << shift
        for length, part, shift in zip(lengths, parts.tolist(), shifts.tolist(), strict=True)
    ]
    ends = list(accumulate(weights))
    place = stream.below(ends[-1])
    found = bisect_right(ends, place)
    within: int = (place - (ends[found] - weights[found])) * lengths[found] // weights[found]
    if found < len(lengths) - 1:
        which = int(np.flatnonzero(near)[found])
    else:
        reach = np.cumsum(far)
        which = int(np.searchsorted(reach, within, side="right"))
        within -= int(reach[which] - far[which])
    return int(widths[:which].sum()) + within
