"""Pólya–Gamma variables: what makes a logit link Gaussian.

Source: Polson, Scott and Windle (2013). For x ∈ [0, 1] and log odds ψ,

    e^(xψ)/(1 + e^ψ) = ½·e^((x − ½)ψ)·E[e^(−ωψ²/2)],   ω ~ PG(1, 0),

and given x and ψ, ω ~ PG(1, ψ): given ω, x has the likelihood of a Gaussian observation of ψ, of
value (x − ½)/ω and precision ω. The mean of PG(b, z) is b·tanh(z/2)/(2z), which is also what the
quadratic bound of Jaakkola and Jordan (2000) has for a precision; it is at most b/4.

PG(1, z) is a quarter of J*(1, z/2), which is drawn exactly (Devroye 2009): its density is an
alternating series whose partial sums bound it from either side, so a draw from an envelope (an
inverse Gaussian law below 0.64, an exponential one above) is accepted or refused after a few
terms. PG(b, z) for whole b is the sum of b of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable

from tacit._core import kernels
from tacit.factorization.arrays import Floats

__all__ = ["expected_precision", "polya_gamma"]

_CUT = 0.64  # where the envelope changes: any point near it will do
_ROOT = math.sqrt(2.0 * _CUT)


def expected_precision(odds: Floats, times: float = 1.0) -> Floats:
    """Return the mean of PG(b, ψ).

    >>> expected_precision(np.array([0.0, 2.0])).round(4).tolist()
    [0.25, 0.1904]
    """
    size = np.abs(odds)
    small = size < 1e-4  # tanh(z/2)/(2z) = ¼ − z²/48 + …
    safe = np.where(small, 1.0, size)
    found = np.where(small, 0.25 - size**2 / 48.0, np.tanh(safe / 2.0) / (2.0 * safe))
    return np.asarray(times * found)


def polya_gamma(rng: np.random.Generator, odds: Floats, times: int = 1) -> Floats:
    """Return a draw of PG(b, ψ) for each of the log odds ψ, b a whole number."""
    drawn = np.empty(len(odds))
    kernels.compiled(_draw, unchecked=True)(rng, odds, times, drawn)
    return drawn


def _term(n: int, x: float) -> float:
    """Return term n of the series for the density of J*(1, 0) at x."""
    half = n + 0.5
    if x > _CUT:
        found = math.pi * half * math.exp(-0.5 * (half * math.pi) ** 2 * x)
    else:
        found = math.pi * half * (2.0 / (math.pi * x)) ** 1.5 * math.exp(-2.0 * half**2 / x)
    return found


def _below(rng: Any, z: float) -> Any:
    """Draw an inverse Gaussian variable of mean 1/z and shape 1, given that it is below 0.64."""
    if z * _CUT < 1.0:  # from the law for z = 0, a reciprocal χ², by rejection
        while True:
            first, second = rng.standard_exponential(), rng.standard_exponential()
            if first * first <= 2.0 * second / _CUT:
                x = _CUT / (1.0 + _CUT * first) ** 2
                if rng.random() <= math.exp(-0.5 * z * z * x):
                    return x
    mean = 1.0 / z
    while True:
        y = mean * rng.standard_normal() ** 2
        x = mean * (1.0 + 0.5 * (y - math.sqrt(4.0 * y + y * y)))
        if rng.random() > mean / (mean + x):
            x = mean * mean / x
        if x < _CUT:
            return x


_a, _short = register_jitable(_term), register_jitable(_below)


def _draw(rng: Any, odds: Any, times: int, drawn: Any) -> None:
    """Draw Σ of PG(1, ψ) at every cell."""
    for c in range(odds.shape[0]):
        z = 0.5 * abs(odds[c])
        rate = 0.125 * math.pi * math.pi + 0.5 * z * z
        # what the envelope holds below the cut and above it, both times e^z
        below = 0.5 * math.erfc((1.0 - _CUT * z) / _ROOT)
        if z < 15.0:  # beyond, the second part is below what a double can tell
            far = 0.5 * math.erfc((1.0 + _CUT * z) / _ROOT)
            below += math.exp(2.0 * z) * far
        above = 0.25 * math.pi / rate * math.exp(z - rate * _CUT)
        chance = above / (above + below)
        total = 0.0
        for _ in range(times):
            accepted = False
            while not accepted:
                if rng.random() < chance:
                    x = _CUT + rng.standard_exponential() / rate
                else:
                    x = _short(rng, z)
                partial = _a(0, x)
                y = rng.random() * partial
                n = 0
                while True:
                    n += 1
                    if n % 2 == 1:
                        partial -= _a(n, x)
                        if y <= partial:
                            accepted = True
                            break
                    else:
                        partial += _a(n, x)
                        if y > partial:
                            break
            total += 0.25 * x
        drawn[c] = total
