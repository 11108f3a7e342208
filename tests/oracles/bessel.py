"""Draws from the Bessel law: P(k) ∝ (a/2)^(2k+ν) / (k!·Γ(k+ν+1)), k = 0, 1, 2 and so on.

It is the law of the smaller of two Poisson counts whose difference is known to be ±ν, with
a = 2·√(product of their rates) (Yuan & Kalbfleisch 2000; Devroye 2002). Consecutive weights have
the ratio ρ(k) = q/(k·(k+ν)) with q = a²/4, which falls with k: the law is log-concave, and no
normalising constant (a Bessel function) is ever needed.

- Where it is narrow: weights relative to the mode are added up outwards, then inverted.
- Where it is wide: rejection. With f(mode) = 1 and an anchor j on either side, log-concavity gives
  f(k) ≤ f(j)·r^(k−j) for *every* k, r being the ratio at the anchor. The hat is the smallest of
  1 and these two lines: uniform in the middle, geometric on both sides. Anchors √2 standard
  deviations out are best for a normal shape and accept 89 of 100 proposals.

Kernels take the NumPy generator itself, so draws are reproducible from it.

`draw_latent` is the chain of Schein et al. (2019; PRIVACY B1), whose law of x is that of
`tacit.factorization.counts.numerics.latent`: the noise is a difference of two Poisson counts with
exponential rates, τ = g₁ − g₂, g ~ Poisson(t), t ~ Exponential(mean α/(1−α)), each g being
geometric with ratio α, and

    min(y⁺, y⁻) | z, λ, t ~ Bessel(|z|, 2·√((λ + t₁)·t₂))    where y⁺ = x + g₁, y⁻ = g₂ = y⁺ − z,
    x | y⁺ ~ Binomial(y⁺, λ/(λ + t₁)),                       g₁ = y⁺ − x,
    t | g ~ Gamma(1 + g, scale α)                            since 1/α = (1−α)/α + 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike

from tacit._core import kernels
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.counts.numerics.latent import propose, stirling

__all__ = ["bessel", "draw_latent", "log_weight"]

_NARROW = 4.0  # standard deviations up to which adding up all weights is cheaper than rejection
_TINY = 1e-200  # the least rate of the noise: far below the least rate of a cell
_LARGEST = 1e12  # of ν and a: whole numbers and their ratios stay exact in float64


def log_weight(k: float, m: float, nu: float, q: float) -> float:
    """Return log P(k)/P(m).

    Stirling's formula for Γ(k+1)/Γ(m+1) and Γ(k+ν+1)/Γ(m+ν+1) with the large terms cancelled by
    hand: what is left is of the size of k − m, and so is the rounding error.
    """
    d = k - m
    lower, upper = m + 1.0, m + nu + 1.0
    moved = (lower - 0.5) * math.log1p(d / lower) - d
    moved += (upper - 0.5) * math.log1p(d / upper) - d
    moved += d * math.log((k + 1.0) * (k + nu + 1.0) / q)
    moved += stirling(k + 1.0) - stirling(lower)
    moved += stirling(k + nu + 1.0) - stirling(upper)
    return -moved


def _invert(rng: Any, m: float, nu: float, q: float) -> float:
    """Add the weights up from the mode outwards, then walk the same way to a uniform share."""
    total, weight, k = 1.0, 1.0, m
    while weight > 1e-18 * total:
        k += 1.0
        weight *= q / (k * (k + nu))
        total += weight
    weight, k = 1.0, m
    while k > 0.0 and weight > 1e-18 * total:
        weight *= k * (k + nu) / q
        total += weight
        k -= 1.0
    left = rng.random() * total - 1.0
    up, down, above, below = m, m, 1.0, 1.0
    while left >= 0.0:
        up += 1.0
        above *= q / (up * (up + nu))
        left -= above
        if left < 0.0:
            return up
        if down > 0.0:
            below *= down * (down + nu) / q
            down -= 1.0
            left -= below
            if left < 0.0:
                return down
        if above + below * (down > 0.0) < 1e-18 * total:  # rounding ate the last share
            return m
    return m


def _squeeze(k: float, m: float, nu: float) -> float:
    """Return a lower bound of log f(k) without logarithms; see `_hat`."""
    d = abs(k - m)
    nearest = m if k >= m else k + 1.0
    return -0.5 * d * (d + 1.0) * (1.0 / nearest + 1.0 / (nearest + nu))


def _hat(
    m: float, nu: float, q: float, deviation: float
) -> tuple[float, float, float, float, float, float]:
    """Return the flat part [first, last], and height and slope of log f's bound beside it.

    Bounds stand in for log f wherever they decide. The mode has m(m+ν) ≤ q ≤ (m+1)(m+1+ν), so with
    x/(1+x) ≤ log(1+x) ≤ x, summed over the ratios of d steps, and c(k) = 1/k + 1/(k+ν):

        −d(d+1)/2·c(m) ≤ log f(m+d) ≤ −d(d−1)/2·c(m+d),
        −d(d+1)/2·c(m−d+1) ≤ log f(m−d) ≤ −d(d−1)/2·c(m).
    """
    step = np.floor(math.sqrt(2.0) * deviation + 0.5)
    right, left = m + step, m - step  # m ≥ deviation² ≥ 16, so left > 0
    log_right = -0.5 * step * (step - 1.0) * (1.0 / right + 1.0 / (right + nu))
    log_left = -0.5 * step * (step - 1.0) * (1.0 / m + 1.0 / (m + nu))
    # log-ratios at the anchors, away from the mode: both negative
    slope_right = math.log(q / ((right + 1.0) * (right + nu + 1.0)))
    slope_left = math.log(left * (left + nu) / q)
    last = np.floor(right - log_right / slope_right)  # the lines meet 1 here
    first = np.ceil(left + log_left / slope_left)
    height_right = log_right + (last + 1.0 - right) * slope_right  # at last + 1
    height_left = log_left + (left - first + 1.0) * slope_left  # at first − 1
    return first, last, height_left, height_right, slope_left, slope_right


def _reject(rng: Any, m: float, nu: float, q: float, deviation: float) -> float:
    """Propose from a hat of a flat middle and two geometric tails."""
    hat = _hat(m, nu, q, deviation)
    _, _, height_left, height_right, slope_left, slope_right = hat
    right = math.exp(height_right) / (1.0 - math.exp(slope_right))
    left = math.exp(height_left) / (1.0 - math.exp(slope_left))
    while True:
        k, height = propose(rng, hat, left, right)
        if k < 0.0:
            continue
        v = rng.random()
        if v < 1.0 + _squeeze(k, m, nu) - height:  # exp(x) ≥ 1 + x
            return k
        if v < math.exp(log_weight(k, m, nu, q) - height):
            return k


def _draw_one(rng: Any, nu: float, a: float) -> float:
    q = 0.25 * a * a
    if q == 0.0:
        return 0.0
    # (√(a² + ν²) − ν)/2 without the difference
    m: float = np.floor(2.0 * q / (math.sqrt(4.0 * q + nu * nu) + nu))
    while (m + 1.0) * (m + 1.0 + nu) < q:  # the square root may round across a whole number
        m += 1.0
    while m > 0.0 and m * (m + nu) > q:
        m -= 1.0
    deviation = math.sqrt(m * (m + nu) / max(2.0 * m + nu, 1.0))
    if deviation < _NARROW:
        return _invert(rng, m, nu, q)
    return _reject(rng, m, nu, q, deviation)


# the kernel below calls these
for _function in (log_weight, _invert, _squeeze, _hat, _reject, _draw_one):
    register_jitable(_function)


def _fill(rng: Any, orders: Any, arguments: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = np.int64(_draw_one(rng, orders[i], arguments[i]))


def bessel(rng: np.random.Generator, order: ArrayLike, argument: ArrayLike) -> Integers:
    """Draw from the Bessel law, one draw per entry.

    Parameters
    ----------
    rng
        The generator; not to be used by another thread meanwhile.
    order
        ν, from 0 to 1e12.
    argument
        a, from 0 to 1e12; at 0 the draw is 0.

    Examples
    --------
    >>> from tacit._core.rng import generator
    >>> bessel(generator(1), [0, 5, 1_000_000], [0.0, 40.0, 3e6]).shape
    (3,)
    """
    orders, arguments = np.broadcast_arrays(
        np.asarray(order, np.float64), np.asarray(argument, np.float64)
    )
    for name, values in (("order", orders), ("argument", arguments)):
        if not ((values >= 0.0) & (values <= _LARGEST)).all():
            raise ParameterError(f"{name} must hold numbers in [0, {_LARGEST:g}]")
    out = np.empty(orders.size, np.int64)
    # copies: one that may not be written to would be compiled for anew
    kernels.compiled(_fill)(rng, orders.flatten(), arguments.flatten(), out)
    return out.reshape(orders.shape)


def draw_latent(
    rng: np.random.Generator,
    perturbed: Floats,
    rates: Floats,
    alpha: Floats,
    added: Floats,
    removed: Floats,
) -> tuple[Floats, Floats, Floats]:
    """Draw the counts x behind perturbed ones, then the rates t₁ and t₂; one of each per cell.

    The arguments are z, λ, α and the current t₁ and t₂.
    """
    smaller = bessel(rng, np.abs(perturbed), 2.0 * np.sqrt((rates + added) * removed))
    above = smaller + np.maximum(perturbed, 0.0)  # y⁺
    below = smaller + np.maximum(-perturbed, 0.0)  # y⁻
    counts = rng.binomial(above.astype(np.int64), rates / (rates + added)).astype(np.float64)
    added = alpha * rng.standard_gamma(1.0 + above - counts)
    removed = alpha * rng.standard_gamma(1.0 + below)
    return counts, np.maximum(added, _TINY), np.maximum(removed, _TINY)
