"""Smooth sensitivity of order statistics: the search that mechanisms and samplers share.

Source: Nissim, Raskhodnikova & Smith (2007). For the order statistic x_(m) of n values in
[low, high], with x_(0) = low and x_(n+1) = high,

    S_β(x) = max over i ≤ m ≤ j, i < j of exp(−β·(j − i − 1))·(x_(j) − x_(i)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core import kernels
from tacit._core.linear import inlined

__all__ = ["best_pair", "smooth_sensitivities", "smooth_sensitivity"]


def smooth_sensitivity(ordered: Any, rank: int, beta: float, low: float, high: float) -> float:
    """Return S_β of sorted data within [low, high], of the order statistic of a rank (from 1).

    In O(n log n): for each i the best j does not decrease with i, so the range is halved
    recursively (divide and conquer).

    Examples
    --------
    >>> round(smooth_sensitivity([0.2, 0.4, 0.5, 0.9], 2, 0.5, 0.0, 1.0), 4)
    0.3033
    """
    return float(smooth_sensitivities([ordered], rank, beta, low, high)[0])


def smooth_sensitivities(rows: Any, rank: int, beta: float, low: float, high: float) -> Any:
    """Return `smooth_sensitivity` of every row of sorted data (rows, n)."""
    rows = np.ascontiguousarray(rows, np.float64)
    out = np.empty(len(rows))
    kernels.compiled(_search_rows)(rows, rank, beta, low, high, out)
    return out


def _search_rows(rows: Any, rank: int, beta: float, low: float, high: float, out: Any) -> None:
    size = rows.shape[1]
    padded = np.empty(size + 2)
    padded[0], padded[size + 1] = low, high
    stack = np.empty((128, 4), np.int64)
    for i in range(rows.shape[0]):
        for k in range(size):
            padded[k + 1] = rows[i, k]
        out[i] = best_pair(padded, rank, beta, stack)


@inlined
def best_pair(padded: Any, rank: int, beta: float, stack: Any) -> Any:
    """Maximise exp(−β(j−i−1))·(x_j − x_i) over i ≤ rank ≤ j, i < j, with monotone argmax.

    stack: room for (first i, last i, first j, last j), at most one entry per level of halving.
    """
    last = padded.shape[0] - 1
    width = padded[last] - padded[0]
    best = max(padded[rank] - padded[rank - 1], padded[rank + 1] - padded[rank], width * 1e-300)
    ratio = math.exp(-beta)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, rank, rank, last
    depth = 1
    while depth > 0:
        depth -= 1
        i_low, i_high = stack[depth, 0], stack[depth, 1]
        j_low, j_high = stack[depth, 2], stack[depth, 3]
        if i_low > i_high:
            continue
        i = (i_low + i_high) // 2
        top = -1.0
        where = j_low
        # beyond this j no gap, for this i or a smaller one, makes up for the decay; among the
        # columns up to it the argmax is monotone as well
        start, stop = max(j_low, i + 1), j_high
        if best > 0.0:
            stop = min(stop, i + 2 + int(math.log(width / best) / beta))
        decay = math.exp(-beta * (start - i - 1))
        for j in range(start, stop + 1):
            value = decay * (padded[j] - padded[i])
            # products are faster than exponentials, which stop errors from adding up
            decay = decay * ratio if (j - start) & 63 != 63 else math.exp(-beta * (j - i))
            if value > top:
                top = value
                where = j
        best = max(best, top)
        stack[depth, 0], stack[depth, 1] = i_low, i - 1
        stack[depth, 2], stack[depth, 3] = j_low, where
        depth += 1
        stack[depth, 0], stack[depth, 1] = i + 1, i_high
        stack[depth, 2], stack[depth, 3] = where, j_high
        depth += 1
    return best
