"""How far sums of independent normal and Laplace errors reach.

The characteristic function of such a sum is a product, exp(−v·t²/2)·Π 1/(1 + b_i²·t²); its
density is the Fourier transform of that, here on a grid of a thousandth of the range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tacit._core.arrays import Array

__all__ = ["reach", "spread"]

_POINTS = 1 << 12
_RANGE = 16.0  # standard deviations on either side: a Laplace law holds all but e⁻²² there


def spread(variance: float, scales: Sequence[float] | Array = ()) -> float:
    """Return the standard deviation of a sum of errors.

    Parameters
    ----------
    variance
        Of the normal ones together.
    scales
        b of each Laplace one.
    """
    return math.sqrt(variance + 2.0 * float(np.sum(np.square(scales))))


def reach(level: float, variance: float, scales: Sequence[float] | Array = ()) -> float:
    """Return the number that a sum of errors stays within, in size, with a probability.

    Parameters
    ----------
    level
        The probability.
    variance, scales
        As in `spread`.

    Examples
    --------
    >>> round(reach(0.9, 1.0), 3), round(reach(0.9, 0.0, [1.0]), 2)
    (1.645, 2.3)
    """
    sd = spread(variance, scales)
    if sd == 0.0:
        return 0.0
    step = 2.0 * _RANGE / _POINTS  # in standard deviations
    frequency = 2.0 * np.pi * np.arange(_POINTS // 2 + 1) / (_POINTS * step)
    transform = np.exp(-0.5 * variance / sd**2 * frequency**2)
    for scale in np.asarray(scales, np.float64).ravel():
        transform /= 1.0 + (scale / sd * frequency) ** 2
    density = np.maximum(np.fft.irfft(transform)[: _POINTS // 2], 0.0)  # from 0 on; symmetric
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)])
    places = np.arange(cumulative.size) * step
    return float(sd * np.interp(level, cumulative / cumulative[-1], places))
