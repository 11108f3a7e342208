"""Pairs of laws, cell by cell: privacy losses that bound the true ones from above.

For outputs with laws P and Q the privacy loss is L = ln(P/Q) under P, and
δ(ε) = E[(1 − e^(ε − L))₊]. Three changes of the law of L can only raise the δ(ε) of every
composition it takes part in, because (1 − c·e^(−x))₊ is nonnegative, rises with x, and is convex
in e^(−x):

1. adding mass (so every mass may be rounded up, and needs no total of one);
2. moving mass to larger losses (to infinity included);
3. replacing the mass inside a cell [x₀, x₁] by masses a at x₀ and b at x₁ with the same P and the
   same Q (a + b = p, a·e^(−x₀) + b·e^(−x₁) = q), by Jensen's inequality: "connecting the dots"
   (Doroshenko et al. 2022), whose error is of second order in the width of the cell.

So b = (p − e^(x₀)·q)/(1 − e^(x₀ − x₁)). The difference p − e^(x₀)·q, called the *gain* of a cell,
is ∫ P·(1 − e^(−(L − x₀))), which is integrated as it stands where a cell is narrow: nothing
cancels, and the masses have a *relative* error far below one part in 10¹⁰ also where they are
tiny. What is left of it, bounded cell by cell, moves mass upwards (2).

For the pair (Q, P) the mass at −x is e^(−x) times that at x, with the bound taken the other way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "UNIT",
    "Cells",
    "Losses",
    "gaussian_above",
    "laplace_above",
    "plain_gaussian",
    "plain_laplace",
    "replaced_gaussian",
    "replaced_loss",
    "replaced_place",
    "sampled_gaussian",
    "sampled_laplace",
]

UNIT = 2.0**-53  # rounding of one operation
_NARROW = 0.05  # cells over which a Gaussian density changes by less are integrated
# nodes and weights of Gauss and Legendre on [0, 1]; the relative error is 5e-7·_NARROW⁶ < 1e-14
_NODES = (0.5 - math.sqrt(0.15), 0.5, 0.5 + math.sqrt(0.15))
_WEIGHTS = (5.0 / 18.0, 8.0 / 18.0, 5.0 / 18.0)


class Losses(NamedTuple):
    """Masses at ascending finite losses ``at``, and the mass at infinity."""

    at: Floats
    mass: Floats
    infinite: float


@dataclass(frozen=True)
class Cells:
    """Cells of losses [edges[i], edges[i + 1]] with P, its gain, and the error of the gain."""

    edges: Floats
    p: Floats
    gain: Floats
    error: Floats
    above_least: Floats | None = None  # edges[i] − edges[0], where that is known more precisely
    below: float = 0.0  # P of losses below all edges
    above: float = 0.0  # P of losses beyond them
    q_above: float = 0.0  # Q there

    def split(self, first: int) -> tuple[Cells, Cells]:
        """Return some first cells, and the others."""

        def some(cells: slice, edges: slice) -> Cells:
            least = None if self.above_least is None else self.above_least[edges]
            return Cells(
                self.edges[edges], self.p[cells], self.gain[cells], self.error[cells], least
            )

        low, high = some(slice(first), slice(first + 1)), some(*[slice(first, None)] * 2)
        high = replace(high, above=self.above, q_above=self.q_above)
        return replace(low, below=self.below), high

    def losses(self, *, swapped: bool = False) -> Losses:
        """Return the measure of (P, Q), or of (Q, P)."""
        steps = np.diff(self.edges if self.above_least is None else self.above_least)
        width = -np.expm1(-steps)
        p = self.p * (1.0 + 64.0 * UNIT)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            share = self.gain - self.error if swapped else self.gain + self.error
            upper = np.where(width > 0.0, share / width, p)
        upper = np.clip(upper, 0.0, p)
        mass = np.zeros(len(self.edges))
        mass[1:] += upper
        mass[:-1] += p - upper
        if not swapped:
            mass[0] += self.below
            return Losses(self.edges, mass, self.above)
        mass = mass * np.exp(np.maximum(-self.edges, -745.0)) * (1.0 + 64.0 * UNIT)
        mass[-1] += self.q_above
        return Losses(-self.edges[::-1], mass[::-1], 0.0)


def _between(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return P(low < N ≤ high) of standard Gaussians, and its error by cancellation."""
    right = low > 0.0
    first = special.ndtr(np.where(right, -low, high))
    found = np.maximum(first - special.ndtr(np.where(right, -high, low)), 0.0)
    nearest = np.minimum(np.square(np.where(right, low, high)), 1500.0)
    return found, 16.0 * UNIT * (1.0 + nearest) * first


def _gaussian_cells(mu: float, z: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return masses under N(0, 1) and N(μ, 1) of cells, the gain, and a bound of its error.

    The likelihood ratio is e^y with y = μ·z − μ²/2, and the gain that of N(μ, 1) over N(0, 1):
    over narrow cells ∫ φ(z − μ)·(1 − e^(−μ·(z − z₀))) dz by three nodes.
    """
    low, high = z[:-1], z[1:]
    zero, zero_error = _between(low, high)
    one, one_error = _between(low - mu, high - mu)
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = np.exp(np.minimum(mu * low - mu * mu / 2.0, 700.0))
        ratio = np.where(zero > 0.0, ratio, 0.0)
        gain = one - ratio * zero
        size = 1.0 + np.abs(np.where(np.isfinite(low), low, 0.0))
        error = one_error + ratio * (zero_error + 8.0 * UNIT * (1.0 + mu * (size + mu)) * zero)
        zero, one = zero + zero_error, one + one_error
        width = high - low
        narrow = width * (size + mu) < _NARROW
    start, step = low[narrow], width[narrow]
    sums = np.zeros((3, len(start)))
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        at = start + node * step
        sums[0] += weight * np.exp(-0.5 * at * at)
        density = weight * np.exp(-0.5 * (at - mu) ** 2)
        sums[1] += density
        sums[2] -= density * np.expm1(-mu * node * step)
    far = np.square(1.0 + np.abs(start) + mu)  # exponents are off by some roundings of themselves
    sums *= step / math.sqrt(2.0 * math.pi) * (1.0 + 1e-13 + 4.0 * UNIT * far)
    zero[narrow], one[narrow], gain[narrow] = sums
    error[narrow] = (2e-13 + 8.0 * UNIT * far) * sums[2]
    # an edge is off by some roundings of z: that share of the cell lies on its other side
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(np.isfinite(width), 64.0 * UNIT * (size + mu) / width, 0.0)
    return zero, one, np.maximum(gain, 0.0), error + np.minimum(moved, 1.0) * np.maximum(gain, 0.0)


def _log_expm1(x: Floats) -> Floats:
    """Return ln(e^x − 1) for x ≥ 0."""
    with np.errstate(divide="ignore"):
        return np.where(x > 1.0, x + np.log1p(-np.exp(-x)), np.log(np.expm1(np.minimum(x, 1.0))))


def gaussian_above(rate: float, mu: float, z: Floats) -> Floats:
    """Return how far the loss of a sampled Gaussian at z lies above the least, ln(1 − q)."""
    return np.logaddexp(0.0, math.log(rate) - math.log1p(-rate) + mu * z - mu * mu / 2.0)


def sampled_gaussian(rate: float, mu: float, above: Floats) -> Cells:
    """Return cells of (1 − q)·N(0, 1) + q·N(μ, 1) against N(0, 1), from ln(1 − q) upwards.

    The loss is ln(1 − q + q·e^y), so x = ln(1 − q) + v where e^y = (1 − q)·(e^v − 1)/q, and the
    gain of a cell is q times that of the plain Gaussians between the y of its ends.
    """
    y = math.log1p(-rate) - math.log(rate) + _log_expm1(above)
    z = (y + mu * mu / 2.0) / mu
    zero, one, gain, error = _gaussian_cells(mu, z)
    beyond, beyond_one = special.ndtr(-z[-1]), special.ndtr(mu - z[-1])
    return Cells(
        math.log1p(-rate) + above,
        (1.0 - rate) * zero + rate * one,
        rate * gain,
        rate * error,
        above,
        above=((1.0 - rate) * beyond + rate * beyond_one) * (1.0 + 1e-13),
        q_above=beyond * (1.0 + 1e-13),
    )


def plain_gaussian(mu: float, edges: Floats) -> Cells:
    """Return cells of N(μ, 1) against N(0, 1)."""
    z = (edges + mu * mu / 2.0) / mu
    _, one, gain, error = _gaussian_cells(mu, z)
    below, beyond = special.ndtr(z[0] - mu), special.ndtr(mu - z[-1])
    return Cells(
        edges, one, gain, error, below=below * (1.0 + 1e-13), above=beyond * (1.0 + 1e-13)
    )


def replaced_loss(rate: float, mu: float, z: Floats) -> Floats:
    """Return ln of (1 − q + q·e^(μz − μ²/2)) / (1 − q + q·e^(−μz − μ²/2)) for z ≥ 0."""
    shift = math.log(rate) - math.log1p(-rate) - mu * mu / 2.0
    minus, plus = shift - mu * z, shift + mu * z
    low = np.exp(np.minimum(minus, 700.0))
    near = np.log1p(low * np.expm1(np.minimum(2.0 * mu * z, 700.0)) / (1.0 + low))
    return np.where(plus > 0.0, np.logaddexp(0.0, plus) - np.logaddexp(0.0, minus), near)


def _replaced_places(rate: float, mu: float, loss: Floats) -> Floats:
    """Return the z at which a sampled Gaussian has some losses where a unit is replaced."""
    half = np.abs(loss) / 2.0
    with np.errstate(divide="ignore"):
        log_sine = np.where(
            half > 1.0,
            half + np.log1p(-np.exp(-2.0 * half)) - math.log(2.0),
            np.log(np.sinh(np.minimum(half, 1.0))),
        )
    log_ratio = math.log1p(-rate) - math.log(rate) + mu * mu / 2.0 + log_sine
    inverse = np.where(
        log_ratio > 20.0,
        log_ratio + math.log(2.0),
        np.arcsinh(np.exp(np.minimum(log_ratio, 20.0))),
    )
    return np.asarray(np.sign(loss) * (half + inverse) / mu)


def replaced_place(rate: float, mu: float, loss: float) -> float:
    """Return the z at which a sampled Gaussian has a loss where a unit is replaced."""
    return float(_replaced_places(rate, mu, np.array([loss]))[0])


def replaced_gaussian(rate: float, mu: float, edges: Floats) -> Cells:
    """Return cells of (1 − q)·N(0, 1) + q·N(μ, 1) against (1 − q)·N(0, 1) + q·N(−μ, 1).

    With m = x/2, tanh m = B·sinh(μz)/(A + B·cosh(μz)) gives μz = m + asinh(A·sinh(m)/B), where
    A = 1 − q and B = q·e^(−μ²/2). The pair is symmetric: edges are odd in their order.
    """
    z = _replaced_places(rate, mu, edges)
    low, high = z[:-1], z[1:]
    parts = [_between(low - shift, high - shift) for shift in (0.0, mu, -mu)]
    (zero, e0), (plus, e1), (minus, e2) = parts
    p = (1.0 - rate) * (zero + e0) + rate * (plus + e1)
    ratio = np.exp(np.minimum(edges[:-1], 700.0))
    gain = (1.0 - rate) * -np.expm1(np.minimum(edges[:-1], 700.0)) * zero
    gain += rate * (plus - ratio * minus)
    error = (1.0 + ratio) * (1.0 - rate) * (e0 + 4.0 * UNIT * zero)
    error += rate * (e1 + 4.0 * UNIT * plus + ratio * (e2 + 4.0 * UNIT * minus))
    width = high - low
    narrow = width * (1.0 + np.abs(low) + mu) < _NARROW
    start, step, bottom = low[narrow], width[narrow], edges[:-1][narrow]
    mass, gained = np.zeros(len(start)), np.zeros(len(start))
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        at = start + node * step
        density = (1.0 - rate) * np.exp(-0.5 * at * at) + rate * np.exp(-0.5 * (at - mu) ** 2)
        loss = np.sign(at) * replaced_loss(rate, mu, np.abs(at))
        mass += weight * density
        gained -= weight * density * np.expm1(np.minimum(bottom - loss, 0.0))
    far = np.square(1.0 + np.abs(start) + mu)
    scale = step / math.sqrt(2.0 * math.pi) * (1.0 + 1e-13 + 4.0 * UNIT * far)
    p[narrow], gain[narrow] = mass * scale, gained * scale
    # the loss is off by some roundings of itself, and by what an edge is off in z
    loose = 32.0 * UNIT * (1.0 + mu + np.abs(bottom)) * np.maximum(np.abs(bottom), UNIT)
    error[narrow] = (2e-13 + 8.0 * UNIT * far) * gain[narrow] + loose * p[narrow]
    moved = np.minimum(64.0 * UNIT * (1.0 + np.abs(low) + mu) / np.maximum(width, 1e-300), 1.0)
    gain = np.maximum(gain, 0.0)
    ends = [(1.0 - rate) * special.ndtr(s) + rate * special.ndtr(s + t) for s, t in
            ((z[0], -mu), (-z[-1], mu))]  # fmt: skip
    below, beyond = (float(end) * (1.0 + 1e-13) for end in ends)
    return Cells(edges, p, gain, error + moved * gain, below=below, above=beyond)


def _laplace_cells(top: float, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return masses of a Laplace pair whose log-ratio y lies in ±ε, and the gain of each cell.

    The pair has densities e^((y − ε)/2)/4 and e^(−(y + ε)/2)/4 between atoms (½·e^(−ε), ½) at −ε
    and (½, ½·e^(−ε)) at ε. The first edge is at most −ε, the last at least ε.
    """
    low, high = np.clip(y[:-1], -top, top), np.clip(y[1:], -top, top)
    step = high - low
    fall = -np.expm1(-step / 2.0)
    one = 0.5 * np.exp((high - top) / 2.0) * fall
    zero = 0.5 * np.exp(-(low + top) / 2.0) * fall
    gain = 0.5 * np.exp((high - top) / 2.0) * np.square(fall)
    short = math.exp(-top) - math.exp(y[0]) if y[0] < -top else 0.0  # of the first cell's edge
    gain[0] += short * (zero[0] + 0.5)
    one[0] += 0.5 * math.exp(-top)
    zero[0] += 0.5
    last = int(np.searchsorted(y, top)) - 1  # the cell that holds the upper atom
    last = min(max(last, 0), len(one) - 1)
    gain[last] += -0.5 * math.expm1(min(y[last] - top, 0.0))
    one[last] += 0.5
    zero[last] += 0.5 * math.exp(-top)
    return zero, one, gain


def laplace_above(rate: float, top: float, y: Floats) -> Floats:
    """Return how far the loss of sampled Laplace noise at y lies above the least."""
    odds = math.log(rate) - math.log1p(rate * math.expm1(-top))
    return np.logaddexp(0.0, odds - top + _log_expm1(y + top))


def sampled_laplace(rate: float, top: float, above: Floats) -> Cells:
    """Return cells of the Poisson-sampled Laplace pair, from its least loss upwards."""
    least = 1.0 + rate * math.expm1(-top)
    y = np.logaddexp(-top, math.log(least) - math.log(rate) + _log_expm1(above))
    y[0] = -top
    zero, one, gain = _laplace_cells(top, y)
    loose = 64.0 * UNIT * (1.0 + top) / np.maximum(np.diff(y), 1e-300)
    error = rate * gain * (1e-13 + np.minimum(loose, 1.0))
    p = (1.0 - rate) * zero + rate * one
    return Cells(math.log(least) + above, p, rate * gain, error, above)


def plain_laplace(top: float, edges: Floats) -> Cells:
    """Return cells of Laplace noise against itself moved by its sensitivity."""
    _, one, gain = _laplace_cells(top, edges)
    loose = 64.0 * UNIT * (1.0 + top) / np.diff(edges)
    return Cells(edges, one, gain, gain * (1e-13 + np.minimum(loose, 1.0)))
