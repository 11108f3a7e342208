"""Exact draws from the half-normal and exponential laws, rounded to integers.

A draw is the inverse CDF of a uniform number U that is known to as many bits as the answer
needs. The half line is cut into bins of width h (a power of two); the CDF at the bin edges is
computed in integer arithmetic with 256 fractional bits. One 64-bit word gives a sign and the
first 63 bits of U. These determine the bin, and a few Newton steps in floating point then give
the position x inside the bin to better than 1e-9, which nearly always settles the integer
``floor(±scale·z + offset)``. Where it does not (the number lies within the error bound of an
integer, or in the far tail), U is extended by fresh words and compared with the CDF in integer
arithmetic. So every draw has the law of the exact real number, rounded: the only deviation is
the 127-bit rounding of the tail, a total-variation distance below 2⁻¹⁰⁰ (`DISTANCE`).

Within bin k of the half-normal law the density is φ(z_k)·exp(−a·x − b·x²) with a = z_k·h and
b = h²/2; for the exponential law a = h and b = 0.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tacit._core import kernels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit._core.rng import WordStream

__all__ = ["DISTANCE", "HalfLaw", "exponential", "half_normal"]

# Total-variation distance per draw to the exact law: mass beyond the last bin edge (below
# 2^-127 for both laws) plus 2^-256 of rounding per bin edge.
DISTANCE = 2.0**-100

_BITS = 256  # fractional bits of fixed-point numbers
_ONE = 1 << _BITS
_TOLERANCE = 1 << (_BITS - 200)  # the table is exact to better than 2^-200
_GUIDE_BITS = 13
_CHUNK = 1 << 16


def _exp_minus(x: Fraction) -> int:
    """Return exp(-x)·2^256 for 0 ≤ x ≤ 1, by its Taylor series."""
    total = term = _ONE
    j = 1
    while term:
        term = -(term * x.numerator) // (x.denominator * j)
        term = term if term != -1 else 0  # floor division never reaches zero from below
        total += term
        j += 1
    return total


def _pi() -> int:
    """Return π·2^256 by Machin's formula."""
    guard = 1 << (_BITS + 32)

    def arctan_inverse(n: int) -> int:
        total = power = guard // n
        k, sign = 3, -1
        while power:
            power //= n * n
            total += sign * (power // k)
            k, sign = k + 2, -sign
        return total

    return (4 * (4 * arctan_inverse(5) - arctan_inverse(239))) >> 32


class HalfLaw:
    """A law on [0, ∞) with a table of its CDF, from which exact draws are made.

    Bins have width 2^-log2_width. ``cdf`` and ``density`` are those at the bin edges, as integers
    over 2^256; the last CDF is 2^256. ``derivatives`` gives those of the density over the density,
    for the Taylor series within bins (`_increment`). With the module's docstring, a = tilt[0] +
    tilt[1]·k, and b is ``curvature``.
    """

    def __init__(
        self,
        log2_width: int,
        cdf: list[int],
        density: list[int],
        derivatives: Callable[[int, int, int], int],
        tilt: tuple[float, float],
        curvature: float,
    ) -> None:
        self.log2_width = log2_width
        self.width = 2.0**-log2_width
        self.bins = len(cdf) - 1
        self._cdf, self._density, self._derivatives = cdf, density, derivatives
        self._high = np.array([c >> (_BITS - 63) for c in cdf], dtype=np.uint64)
        self._tilt, self._curvature = tilt, curvature
        starts = np.arange(1 << _GUIDE_BITS, dtype=np.uint64) << np.uint64(63 - _GUIDE_BITS)
        guide = np.searchsorted(self._high, starts, side="right") - 1
        self._guide = np.minimum(guide, self.bins - 1).astype(np.int32)

    def cdf(self, z: Fraction) -> int:
        """Return F(z)·2^256, exact to better than 2^-200."""
        if z <= 0:
            return 0
        k = math.floor(z * (1 << self.log2_width))
        if k >= self.bins:
            return _ONE
        t = z - Fraction(k, 1 << self.log2_width)
        step = (t.numerator << _BITS) // t.denominator
        return self._cdf[k] + _increment(self._density[k], self._derivatives, k, step)

    def integers(
        self, stream: WordStream, count: int, scale: float, *, offset: float, signed: bool
    ) -> NDArray[np.int64]:
        """Return draws of floor(±scale·Z + offset), Z of this law.

        ``scale`` is in units of the result, at most 2^48; an ``offset`` of 0.5 rounds to the
        nearest integer, 0 takes the floor; ``signed`` applies a random sign first.
        """
        out = np.empty(count, np.int64)
        unsure = np.empty(min(count, _CHUNK), np.int64)
        for start in range(0, count, _CHUNK):
            words = stream.words(min(_CHUNK, count - start))
            part = out[start : start + words.size]
            pending = kernels.invert_words(
                words,
                self._high,
                *self._tilt,
                self._curvature,
                self.width,
                self._guide,
                scale,
                offset,
                signed,
                part,
                unsure,
            )
            for position in unsure[:pending]:
                word, hint = int(words[position]), int(part[position])
                part[position] = self._settle(stream, word, scale, offset, signed, hint)
        return out

    def _settle(
        self,
        stream: WordStream,
        word: int,
        scale: float,
        offset: float,
        signed: bool,
        hint: int = kernels.NO_HINT,
    ) -> int:
        """Finish one draw in integer arithmetic, extending U by fresh words as needed.

        The result does not depend on ``hint``, a guess of it: it says where to look first.
        """
        negative = signed and bool(word & 1)
        uniform, bits = word >> 1, 63
        # Z lies between the first edge of U's lowest bin and the last edge of its highest: one
        # bin in the body of the law, many in the far tail
        lowest = self._bin(uniform << (_BITS - bits))
        highest = self._bin(((uniform + 1) << (_BITS - bits)) - 1)
        slope, shift = Fraction(scale), Fraction(offset)
        edge = Fraction(1, 1 << self.log2_width)
        sign = -1 if negative else 1
        ends = [sign * slope * edge * k + shift for k in (lowest, highest + 1)]
        low, high = math.floor(min(ends)) - 1, math.floor(max(ends)) + 1
        guesses = [hint, hint + 1]
        while low < high:
            middle = (low + high + 1) // 2  # is the result at least `middle`?
            if guesses and low < guesses[-1] <= high:
                middle = guesses[-1]
            guesses = guesses[:-1]
            boundary = (middle - shift) / slope
            target = self.cdf(-boundary if negative else boundary)
            while True:
                floor_u = uniform << (_BITS - bits)
                ceil_u = (uniform + 1) << (_BITS - bits)
                if ceil_u + _TOLERANCE <= target or floor_u >= target + _TOLERANCE:
                    break
                if bits > 190:  # U and F agree to 2^-190: either answer is within DISTANCE
                    break
                uniform, bits = (uniform << 64) | stream.word(), bits + 64
            # z ≥ boundary when U ≥ F(boundary); for a negative draw the order is reversed
            at_least = floor_u < target if negative else floor_u >= target
            low, high = (middle, high) if at_least else (low, middle - 1)
        return low

    def fixed_point(self, stream: WordStream, bits: int) -> int:
        """Return one exact draw Z as an integer over 2^bits, rounded down.

        The bin is chosen by the table; inside it uniform positions are tried until one is
        accepted, with probability exp(−a·x − b·x²), so that any number of bits costs the same.
        """
        k = self._bin(stream.bits(192) << (_BITS - 192))
        while True:
            position = stream.bits(bits)
            x = position / (1 << bits)
            coin = stream.word()
            # the exponent is small and off by a few units of 2⁻⁵³, so this is by at most 2¹⁴
            approximate = math.exp(-x * (self._tilt[0] + k * self._tilt[1] + x * self._curvature))
            approximate *= 2.0**64
            if abs(coin - approximate) > 2.0**20:
                accepted = coin < approximate
            else:
                threshold = _exp_minus(self._exponent(k, Fraction(position, 1 << bits)))
                accepted = (coin << 64 | stream.word()) < threshold >> (_BITS - 128)
            if accepted:
                return ((k << bits) + position) >> self.log2_width

    def _exponent(self, k: int, x: Fraction) -> Fraction:
        """Return a·x + b·x² of a place in bin k, without rounding."""
        a = Fraction(self._tilt[0]) + k * Fraction(self._tilt[1])
        return x * (a + x * Fraction(self._curvature))

    def _bin(self, uniform: int) -> int:
        """Return the bin that holds a 256-bit uniform number."""
        return bisect_right(self._cdf, uniform, hi=self.bins) - 1


def _increment(
    density: int, derivatives: Callable[[int, int, int], int], k: int, step: int
) -> int:
    """Return the mass between edge k and edge k + step, by the Taylor series of the density.

    ``derivatives(k, d, previous·j)`` maps (D_j, j·D_{j-1}) to D_{j+1}.
    """
    power, total, j = step, 0, 0
    current, previous = _ONE, 0
    while power:
        total += (current * power) >> _BITS
        current, previous, j = derivatives(k, current, j * previous), current, j + 1
        power = ((power * step) >> _BITS) // (j + 1)
    return (total * density) >> _BITS


@cache
def half_normal() -> HalfLaw:
    """Return the law of |Z|, Z standard normal: bins of 2^-10 up to 13.5."""
    log2_width, bins = 10, 13824
    # density of |Z| at 0 is sqrt(2/π)
    density0 = math.isqrt((2 << (3 * _BITS)) // _pi())
    half_square = _exp_minus(Fraction(1, 2 << (2 * log2_width)))  # exp(-h²/2)
    square = (half_square * half_square) >> _BITS

    def derivatives(k: int, current: int, scaled_previous: int) -> int:
        # φ^(j+1)/φ = −z·φ^(j)/φ − j·φ^(j−1)/φ, with z = k·2^-10
        return -((k * current) >> log2_width) - scaled_previous

    cdf, density = [0], [density0]
    ratio = half_square  # φ(z_{k+1})/φ(z_k) = exp(−k·h² − h²/2)
    for k in range(bins):
        cdf.append(cdf[-1] + _increment(density[-1], derivatives, k, 1 << (_BITS - log2_width)))
        density.append((density[-1] * ratio) >> _BITS)
        ratio = (ratio * square) >> _BITS
    cdf[-1] = _ONE
    width = 2.0**-log2_width
    return HalfLaw(log2_width, cdf, density, derivatives, (0.0, width * width), width * width / 2)


@cache
def exponential() -> HalfLaw:
    """Return the exponential law with mean one: bins of 2^-8 up to 89."""
    log2_width, bins = 8, 89 * 256
    ratio = _exp_minus(Fraction(1, 1 << log2_width))

    def derivatives(k: int, current: int, scaled_previous: int) -> int:
        return -current

    density = [_ONE]
    for _ in range(bins):
        density.append((density[-1] * ratio) >> _BITS)
    cdf = [_ONE - value for value in density]
    cdf[-1] = _ONE
    width = 2.0**-log2_width
    return HalfLaw(log2_width, cdf, density, derivatives, (width, 0.0), 0.0)
