"""Exact draws of the discrete Gaussian: whole numbers with P(k) ∝ exp(−k²/(2σ²)).

Source: Canonne, Kamath & Steinke (2020), Algorithm 3. With t = ⌊σ⌋ + 1 a two-sided geometric
number k, P(k) ∝ exp(−|k|/t), is kept with probability exp(−(|k| − σ²/t)²/(2σ²)); the product of
the two is the law, up to a constant. The coin is settled by 64 bits and a probability in floating
point, which is right to 2⁻⁴⁴; where the two are closer than that, in integer arithmetic by 128
bits. What is rejected depends on nothing but the noise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tacit._core.exact import _BITS, _exp_minus, exponential

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit._core.rng import WordStream

__all__ = ["discrete_gaussian"]

_CLOSE = 2.0**20  # of 2⁶⁴: how near coin and probability may be in floating point


def discrete_gaussian(stream: WordStream, count: int, scale: float) -> NDArray[np.int64]:
    """Return ``count`` draws with parameter σ = ``scale``, at most 2³⁰.

    >>> from tacit._core.rng import WordStream
    >>> discrete_gaussian(WordStream(1), 4, 0.01).tolist()
    [0, 0, 0, 0]
    """
    proposal = math.floor(scale) + 1
    law, parts, missing = exponential(), [], count
    while missing > 0:
        size = missing + missing // 2 + 8
        pair = law.integers(stream, 2 * size, float(proposal), offset=0.0, signed=False)
        numbers = pair[:size] - pair[size:]
        # two steps, so that no scale is too small to be squared
        off = (np.abs(numbers) / scale - scale / proposal) / math.sqrt(2.0)
        with np.errstate(over="ignore", under="ignore"):
            likely = np.ldexp(np.exp(-np.square(off)), 64)
        coins = stream.words(size)
        kept = coins.astype(np.float64) < likely
        for place in np.flatnonzero(np.abs(coins.astype(np.float64) - likely) <= _CLOSE):
            coin = int(coins[place]) << 64 | stream.word()
            kept[place] = coin < _acceptance(int(numbers[place]), scale, proposal)
        found = numbers[kept][:missing]
        parts.append(found)
        missing -= found.size
    return np.concatenate([np.empty(0, np.int64), *parts])


def _acceptance(number: int, scale: float, proposal: int) -> int:
    """Return exp(−(|k| − σ²/t)²/(2σ²))·2¹²⁸, rounded down."""
    square = Fraction(scale) ** 2
    exponent = (abs(number) - square / proposal) ** 2 / (2 * square)
    if exponent > 100:  # less than 2⁻¹²⁸
        return 0
    whole = math.floor(exponent)
    value = _exp_minus(exponent - whole)
    for _ in range(whole):
        value = value * _exp_minus(Fraction(1)) >> _BITS
    return value >> (_BITS - 128)
