"""Draws of a Poisson count that is seen through two-sided geometric noise.

With x ~ Poisson(λ) and z = x + τ, P(τ) ∝ α^|τ|, the count given z has

    P(x) ∝ f(x) = λ^x/x!·α^|z−x|,    f(x)/f(x−1) = λ/x·(1/α if x ≤ z, else α).

The ratio falls with x: the law is log-concave, with its mode at z brought into [⌊λα⌋, ⌊λ/α⌋], and
no normalising constant is ever needed. It is the mixture of two truncated Poisson laws, of rate
λ/α up to z and λα beyond; taken together they need neither of the two incomplete gamma functions.

- Where it is narrow: weights relative to the mode are added up outwards, then inverted.
- Where it is wide: rejection. With f(mode) = 1 and an anchor j on either side, log-concavity
  gives f(x) ≤ f(j)·r^|x−j| for *every* x, r < 1 being the ratio at the anchor away from the mode.
  The hat is the smallest of 1 and these two lines. Anchors stand where log f ≈ −1, which is best
  for normal and for exponential shapes alike.

Kernels take the NumPy generator itself, so draws are reproducible from it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike

from tacit._core import kernels
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats

__all__ = ["latent_counts", "log_weight", "propose", "stirling"]

_NARROW = 8.0  # distance of the anchors up to which adding up all weights is cheaper
_LARGEST = 1e12  # of |z| and λ: whole numbers and their ratios stay exact in float64
_NEGLIGIBLE = 1e-18
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


def stirling(x: float) -> float:
    """Return log Γ(x) − ((x − ½)·log x − x + ½·log 2π), for x ≥ 1."""
    if x < 8.0:
        return math.lgamma(x) - ((x - 0.5) * math.log(x) - x + _HALF_LOG_2PI)
    y = 1.0 / (x * x)  # the next term of the series, 1/(156·x¹³), is below 2e-14
    high = 1.0 / 1680.0 - y * (1.0 / 1188.0 - y * (691.0 / 360360.0))
    return (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * high))) / x


def propose(rng: Any, hat: Any, left: float, right: float) -> tuple[float, float]:
    """Draw a whole number from the hat; return it and the log height of the hat there.

    The hat is ``first, last, height_left, height_right, slope_left, slope_right``: flat from first
    to last (log height 0), and falling geometrically on either side, from height_left at first − 1
    and height_right at last + 1. The masses of the two tails are ``left`` and ``right``, relative
    to a flat height of one.
    """
    first, last, height_left, height_right, slope_left, slope_right = hat
    flat = last - first + 1.0
    u = rng.random() * (flat + right + left)
    if u < flat:
        return first + np.floor(u), 0.0
    if u < flat + right:
        steps = np.floor(math.log(1.0 - rng.random()) / slope_right)
        return last + 1.0 + steps, height_right + steps * slope_right
    steps = np.floor(math.log(1.0 - rng.random()) / slope_left)
    return first - 1.0 - steps, height_left + steps * slope_left


def log_weight(x: float, m: float, z: float, rate: float, decay: float) -> float:
    """Return log P(x)/P(m), with decay = −log α.

    Stirling's formula for Γ(x+1)/Γ(m+1) with the large terms cancelled by hand: what is left is of
    the size of x − m, and so is the rounding error.
    """
    d = x - m
    moved = (m + 0.5) * math.log1p(d / (m + 1.0)) - d + d * math.log((x + 1.0) / rate)
    moved += stirling(x + 1.0) - stirling(m + 1.0)
    return -moved - decay * (abs(z - x) - abs(z - m))


def _invert(rng: Any, m: float, z: float, rate: float, alpha: float) -> float:
    """Add the weights up from the mode outwards, then walk the same way to a uniform share."""
    total, weight, k = 1.0, 1.0, m
    while weight > _NEGLIGIBLE * total:
        k += 1.0
        weight *= rate / (k * alpha) if k <= z else rate * alpha / k
        total += weight
    weight, k = 1.0, m
    while k > 0.0 and weight > _NEGLIGIBLE * total:
        weight *= k * alpha / rate if k <= z else k / (rate * alpha)
        total += weight
        k -= 1.0
    left = rng.random() * total - 1.0
    up, down, above, below = m, m, 1.0, 1.0
    while left >= 0.0:
        up += 1.0
        above *= rate / (up * alpha) if up <= z else rate * alpha / up
        left -= above
        if left < 0.0:
            return up
        if down > 0.0:
            below *= down * alpha / rate if down <= z else down / (rate * alpha)
            down -= 1.0
            left -= below
            if left < 0.0:
                return down
        if above + below * (down > 0.0) < _NEGLIGIBLE * total:  # rounding ate the last share
            return m
    return m


def _reach(rest: float, slope: float, at: float) -> float:
    """Return the distance d with slope·d + d²/(2·at) = rest."""
    return 2.0 * rest / (slope + math.sqrt(slope * slope + 2.0 * rest / at))


def _anchors(m: float, z: float, rate: float, decay: float) -> tuple[float, float]:
    """Return where log f is about −1, left and right of the mode.

    Left of the mode log f(m−d) ≈ −(slope·d + d²/(2m)), with the slope of the first step, and
    likewise right of it; at z, where the law has a kink, another slope begins. Any two anchors
    give a valid hat: approximations cost acceptance, never exactness.
    """
    side = decay if m < z else -decay  # of the steps upwards: their ratio is λ/k·exp(side)
    right = m + _reach(1.0, max(math.log((m + 1.0) / rate) - side, 0.0), m + 1.0)
    if m < z < right:
        slope = max(math.log((m + 1.0) / rate) - decay, 0.0)
        rest = 1.0 - (z - m) * (slope + 0.5 * (z - m) / (m + 1.0))
        right = z + _reach(max(rest, 0.0), max(math.log((z + 1.0) / rate) + decay, 0.0), z + 1.0)
    left = m
    if m >= 1.0:
        side = decay if m <= z else -decay
        slope = max(math.log(rate / m) + side, 0.0)
        left = m - _reach(1.0, slope, m)
        if left < z < m:
            rest = 1.0 - (m - z) * (slope + 0.5 * (m - z) / m)
            at = max(z, 1.0)
            left = z - _reach(max(rest, 0.0), max(math.log(rate / at) + decay, 0.0), at)
    return left, right


def _reject(
    rng: Any, m: float, z: float, rate: float, decay: float, low: float, high: float
) -> float:
    """Propose from a hat of a flat middle and two geometric tails."""
    right = m + max(1.0, np.floor(high - m + 0.5))
    log_right = log_weight(right, m, z, rate, decay)
    # log-ratios of the steps beyond the anchors, away from the mode: both negative
    slope_right = math.log(rate / (right + 1.0)) + (decay if right + 1.0 <= z else -decay)
    last = max(np.floor(right - log_right / slope_right), m)  # the line meets 1 here
    height_right = log_right + (last + 1.0 - right) * slope_right  # at last + 1
    mass_right = math.exp(height_right) / -math.expm1(slope_right)
    left = m - max(1.0, np.floor(m - low + 0.5))
    first, height_left, slope_left, mass_left = 0.0, 0.0, -1.0, 0.0
    if left >= 1.0:
        log_left = log_weight(left, m, z, rate, decay)
        slope_left = math.log(left / rate) - (decay if left <= z else -decay)
        first = min(np.ceil(left + log_left / slope_left), m)
        height_left = log_left + (left - first + 1.0) * slope_left  # at first − 1
        mass_left = math.exp(height_left) / -math.expm1(slope_left)
    hat = (first, last, height_left, height_right, slope_left, slope_right)
    while True:
        k, height = propose(rng, hat, mass_left, mass_right)
        if k >= 0.0 and rng.random() < math.exp(log_weight(k, m, z, rate, decay) - height):
            return k


def _draw_one(rng: Any, z: float, rate: float, alpha: float) -> float:
    if alpha == 0.0:  # no noise
        return z
    m: float = max(np.floor(rate * alpha), min(z, np.floor(rate / alpha)))
    decay = -math.log(alpha)
    low, high = _anchors(m, z, rate, decay)
    if high - low < _NARROW:
        return _invert(rng, m, z, rate, alpha)
    return _reject(rng, m, z, rate, decay, low, high)


# the kernel below calls these
for _function in (stirling, propose, log_weight, _invert, _reach, _anchors, _reject, _draw_one):
    register_jitable(_function)


def _fill(rng: Any, perturbed: Any, rates: Any, alpha: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = _draw_one(rng, perturbed[i], rates[i], alpha[i])


def latent_counts(
    rng: np.random.Generator, perturbed: ArrayLike, rates: ArrayLike, alpha: ArrayLike
) -> Floats:
    """Draw the counts behind perturbed ones, one draw per entry.

    ``perturbed`` is z, whole numbers up to 1e12 in size; ``rates`` λ, from 1e-300 to 1e12;
    ``alpha`` α, from 0 (no noise: the draw is z, which is not negative then) to below 1. No other
    thread may use the generator meanwhile.

    >>> from tacit._core.rng import generator
    >>> bool((latent_counts(generator(1), [-3, 4, 1_000_000], [2.0, 2.0, 1e6], 0.5) >= 0).all())
    True
    """
    z, rate, ratio = np.broadcast_arrays(
        *(np.asarray(values, np.float64) for values in (perturbed, rates, alpha))
    )
    if not ((np.abs(z) <= _LARGEST) & (z == np.floor(z))).all():
        raise ParameterError(f"perturbed must hold whole numbers of at most {_LARGEST:g}")
    if not ((rate >= 1e-300) & (rate <= _LARGEST)).all():
        raise ParameterError(f"rates must hold numbers in [1e-300, {_LARGEST:g}]")
    if not ((ratio >= 0.0) & (ratio < 1.0) & ((ratio > 0.0) | (z >= 0.0))).all():
        raise ParameterError("alpha must hold numbers in [0, 1), and above 0 where z is negative")
    out = np.empty(z.size)
    # copies: one that may not be written to would be compiled for anew
    kernels.compiled(_fill, unchecked=True)(rng, z.flatten(), rate.flatten(), ratio.flatten(), out)
    return out.reshape(z.shape)
