"""Many privacy losses added up: tilted convolutions whose rounding error is part of δ.

The losses of independent events add up. Their sum is convolved by discrete Fourier transforms,
whose rounding errors are small beside the *largest* probabilities; δ lives in the tail. So the
laws are tilted first (Esscher): with K(t) = ln E e^(tL) and P_t(x) = e^(tx − K(t))·P(x),

    δ(ε) = e^(k·K(t) − t·ε) · Σ_{x > ε} e^(−t(x − ε))·(1 − e^(−(x − ε)))·P_t^{*k}(x),

and t is chosen so that the tilted sum has its mean about ε. What is lost in a transform is then
lost relative to δ itself.

**The bound.** Write u = 2⁻⁵³, N = 2^m for the length, and η = 8·(m + 2)·u. In a fast Fourier
transform every output is reached through m levels of additions and multiplications by numbers of
size one that are right to some u; each level adds at most 8u of the sum of the absolute values
below it, so each output errs by at most η·Σ|input| (Higham 2002, chapter 24, componentwise). With
computed F̃ of a tilted law of mass M, |F̃ − F| ≤ ηM. Over events l that occur n_l times, with
G_l = |F̃_l| + ηM_l ≥ |F_l|, by telescoping

    |Π F̃_l^{n_l} − Π F_l^{n_l}| ≤ Π G_l^{n_l} · Σ n_l·ηM_l/G_l,

and the power exp(n·ln F̃) itself errs by a share of n·u·(8 + 4·|ln F̃|). The inverse transform
spreads the sum of these over all outputs, divided by N, and adds its own η/N·Σ|·|. The result E
is added to every probability. Probability above the window of N losses wraps around to its bottom
and is counted as infinite by Chernoff's bound; what lies below wraps around to the top, where it
counts as more than it is.

The **sketch** of an event (`losses.sketch`) gives K(t) from above, and with it Rényi's bound on ε
(Canonne, Kamath & Steinke 2020, Proposition 12), which plans the convolution and stands in for it
where no convolution of bearable length resolves δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from scipy import fft

from tacit.privacy.accounting.curves import Curve, tilted_curve
from tacit.privacy.accounting.losses import extent, grid_losses, is_symmetric, sketch
from tacit.privacy.accounting.pairs import UNIT, Losses
from tacit.privacy.events import DpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "Bag",
    "Orders",
    "Plan",
    "bag_of",
    "best_order",
    "convolve",
    "convolved",
    "log_moments",
    "planned",
    "renyi",
    "renyi_delta",
    "renyi_epsilon",
    "sides",
]

Bag = tuple[tuple[DpEvent, int], ...]

_LONGEST = 1 << 19  # of a transform, and of one event's grid
_ACCURACY = 1e-4  # the share of ε that the grid may add
_TAIL = 1e-6  # the share of δ that lies beyond the grids and the window
_WRAPPED = 1e-8  # tilted probability that wraps around from below
_ORDERS = (1e-4, 1e13, 86)  # Rényi orders less one that are tried first, in geometric steps
_SHORT = 1 << 15  # transforms of this length are cheap: the grid is as fine as they allow


class Orders:
    """K(t) = Σ n·ln E e^(tL) of a bag, of one side, from its sketches."""

    def __init__(self, sketches: Sequence[tuple[Losses, int]]) -> None:
        self.parts: list[tuple[Losses, Floats, int]] = []
        for losses, n in sketches:
            kept = losses.mass > 0.0
            at = losses.at[kept]
            self.parts.append(
                (Losses(at, losses.mass[kept], losses.infinite), np.log(losses.mass[kept]), n)
            )
        self.infinite = _infinite([(losses.infinite, n) for losses, _, n in self.parts])

    def log_moment(self, order: float) -> float:
        """Return K(t), rounded up a little."""
        total = size = 0.0
        for losses, log_mass, n in self.parts:
            part = n * _log_sum(log_mass + order * losses.at)
            total, size = total + part, size + abs(part)
            size += n * abs(order) * float(np.max(np.abs(losses.at)))
        return total + 8.0 * UNIT * size + 1e-15 * sum(n for *_, n in self.parts)

    def spread(self, order: float) -> float:
        """Return the standard deviation of the tilted sum."""
        variance = 0.0
        for losses, log_mass, n in self.parts:
            exponent = log_mass + order * losses.at
            weight = np.exp(exponent - np.max(exponent))
            weight /= weight.sum()
            mean = float(weight @ losses.at)
            variance += n * float(weight @ np.square(losses.at - mean))
        return math.sqrt(variance)


def _infinite(parts: list[tuple[float, int]]) -> float:
    """Return 1 − Π (1 − m)^n, from above."""
    return -math.expm1(math.fsum(n * math.log1p(-m) for m, n in parts if m)) * (1.0 + 1e-12)


def _log_sum(exponent: Floats) -> float:
    most = float(np.max(exponent))
    return most + math.log(float(np.sum(np.exp(exponent - most))))


def renyi(moment: float, order: float, log_delta: float) -> float:
    """Return ε at a Rényi order 1 + t: K/t + ln(t/(1 + t)) − (ln δ + ln(1 + t))/t."""
    found = (moment - log_delta - math.log1p(order)) / order + math.log(order) - math.log1p(order)
    return found if math.isfinite(found) else math.inf


@lru_cache(maxsize=512)
def _orders(bag: Bag, swapped: bool) -> Orders:
    return Orders([(sketch(leaf, swapped and not is_symmetric(leaf)), n) for leaf, n in bag])


def log_moments(bag: Bag, swapped: bool, at: Sequence[float]) -> tuple[list[float], float]:
    """Return K(t) of one side of a bag at some orders, and the mass at infinity beside it."""
    orders = _orders(bag, swapped)
    return [orders.log_moment(order) for order in at], orders.infinite


def best_order(orders: Orders, log_delta: float) -> tuple[float, float]:
    """Return the least ε over Rényi orders, and the smallest t that hardly gives more."""
    coarse = np.geomspace(*_ORDERS)
    tried = [(renyi(orders.log_moment(t), t, log_delta), t) for t in coarse.tolist()]
    best = min(range(len(tried)), key=lambda place: tried[place])
    fine = np.geomspace(coarse[max(best - 1, 0)], coarse[min(best + 1, len(coarse) - 1)], 25)
    tried += [(renyi(orders.log_moment(t), t, log_delta), t) for t in fine.tolist()]
    least, order = min(tried)
    if not math.isfinite(least):
        return math.inf, order
    return least, min(t for epsilon, t in tried if epsilon <= least + 1e-3 * abs(least))


def sides(bag: Bag) -> tuple[bool, ...]:
    """Return which of (P, Q) and (Q, P) have to be looked at."""
    if not bag:
        return ()
    return (False,) if all(is_symmetric(leaf) for leaf, _ in bag) else (False, True)


@lru_cache(maxsize=1024)
def renyi_epsilon(bag: Bag, swapped: bool, delta: float) -> float:
    """Return the ε of one side of a bag by Rényi's bound, infinite where it says nothing."""
    orders = _orders(bag, swapped)
    left = delta - orders.infinite
    return max(0.0, best_order(orders, math.log(left))[0]) if left > 0.0 else math.inf


@lru_cache(maxsize=1024)
def renyi_delta(bag: Bag, swapped: bool, epsilon: float) -> float:
    """Return the δ of one side of a bag by Rényi's bound."""
    orders = _orders(bag, swapped)

    def log_delta(order: float) -> float:
        moment = orders.log_moment(order) - order * epsilon
        found = moment + order * math.log(order) - (1.0 + order) * math.log1p(order)
        return found if math.isfinite(found) else math.inf

    coarse = np.geomspace(*_ORDERS)
    best = int(np.argmin([log_delta(float(t)) for t in coarse]))
    fine = np.geomspace(coarse[max(best - 1, 0)], coarse[min(best + 1, len(coarse) - 1)], 25)
    least = min(log_delta(float(t)) for t in fine)
    return min(math.exp(min(least, 0.0)) + orders.infinite, 1.0)


@dataclass(frozen=True)
class Plan:
    """How one side of a bag is convolved."""

    order: float  # t
    step: float
    low: float  # the window of losses
    length: int
    tail: float  # probability of one event beyond its grid
    beyond: float  # the order at which Chernoff bounds the probability above the window


def _plan(bag: Bag, swapped: bool, delta: float, expected: float) -> Plan | None:
    """Choose tilt, grid and window for δ about ``delta``, where ε is about as ``expected``.

    Splitting a cell of width h adds at most h²/4·t(t + 1)/2 to K(t), hence k·(t + 1)·h²/8 to ε.
    """
    orders = _orders(bag, swapped)
    if orders.infinite > delta:
        return None
    epsilon, order = best_order(orders, math.log(delta))
    if not math.isfinite(epsilon):
        return None
    tail = _TAIL * delta / (4.0 * sum(n for _, n in bag))
    sizes = [extent(leaf, swapped and not is_symmetric(leaf), tail) for leaf, _ in bag]
    return planned(
        orders, order, sizes, delta, min(epsilon, expected), tail, partial(_on_atoms, sizes)
    )


def planned(
    orders: Orders,
    order: float,
    sizes: list[tuple[float, float]],
    delta: float,
    epsilon: float,
    tail: float,
    adjusted: Callable[[float], float] = float,
    farther: Sequence[float] = (),
) -> Plan | None:
    """Choose grid and window for a tilt by ``order`` of events whose losses have these sizes.

    The end of the window is tried at orders near this one, and ``farther`` ones.
    """
    counts = [n for *_, n in orders.parts]
    spread = orders.spread(order)
    scale = max(epsilon, 0.01 * spread, 1e-290)
    step = math.sqrt(8.0 * _ACCURACY * scale / (sum(counts) * (1.0 + order)))
    moment = orders.log_moment(order)
    moves = np.geomspace(0.25, 40.0, 25) / max(spread, 1e-290)
    log_tail = math.log(_TAIL * delta / 4.0)
    highest = math.fsum(n * high for n, (_, high) in zip(counts, sizes, strict=True))
    lowest = math.fsum(n * low for n, (low, _) in zip(counts, sizes, strict=True))
    top, beyond = min(
        ((orders.log_moment(far) - log_tail) / far, far)
        for far in [*(order + move for move in moves.tolist()), *farther]
    )
    bottom = max(
        (moment - orders.log_moment(order - move) + math.log(_WRAPPED)) / move
        for move in moves.tolist()
    )
    top, bottom = min(top, highest), max(bottom, lowest)
    if not math.isfinite(top - bottom) or top <= bottom:
        return None
    widest = max(high - low for low, high in sizes)
    step = min(step, max((top - bottom) / _SHORT, widest / (2.0 * _SHORT)))
    step = max(step, (top - bottom) / (_LONGEST - 8 * len(counts) - 16), widest / _LONGEST)
    step = adjusted(step)
    room = math.ceil((top - bottom) / step) + 2 * len(counts) + 4
    length = 1 << max(6, (room - 1).bit_length())
    return Plan(order, step, bottom, length, tail, beyond)


def _on_atoms(sizes: list[tuple[float, float]], step: float) -> float:
    """Return a step, about as large, that divides the largest loss where all events are alike."""
    low, high = sizes[0]
    if len(sizes) > 1 or low != -high or high <= step / 4.0:
        return step
    return high / max(math.floor(high / step), 1) if high >= step else high


def _convolve(bag: Bag, swapped: bool, plan: Plan) -> Curve:
    """Return the curve of one side of a bag as planned."""
    return convolve(
        [
            (grid_losses(leaf, swapped and not is_symmetric(leaf), plan.step, plan.tail), n)
            for leaf, n in bag
        ],
        plan,
    )


def convolve(parts: Sequence[tuple[Losses, int]], plan: Plan) -> Curve:
    """Return the curve of losses on grids of the plan's step, each taken some times."""
    length, order, step = plan.length, plan.order, plan.step
    levels = 8.0 * (math.log2(length) + 2.0) * UNIT  # η
    log_product = np.zeros(length // 2 + 1, np.complex128)
    log_bound, log_share = np.zeros(length // 2 + 1), np.zeros(length // 2 + 1)
    start, moment, loose, infinite, position = 0.0, 0.0, 0.0, [], 0.0
    ceiling, far_moment = 0, 0.0  # the largest sum in steps, and K at the order of the far tail
    for losses, n in parts:
        first = float(losses.at[0])
        above = step * np.arange(float(len(losses.at)))
        with np.errstate(divide="ignore"):
            exponent = np.log(losses.mass) + order * above
        log_mass = _log_sum(exponent)
        tilted = np.exp(exponent - log_mass)
        ceiling += n * (len(above) - 1)
        far_moment += n * (_log_sum(exponent + (plan.beyond - order) * above) + 1e-13)
        # exponents are right to some roundings of their largest part
        loose += n * UNIT * (8.0 + 4.0 * (order * float(above[-1]) + 750.0))
        folds = -(-len(tilted) // length)
        folded = np.zeros(folds * length)
        folded[: len(tilted)] = tilted
        folded = folded.reshape(folds, length).sum(axis=0)
        loose += n * UNIT * folds
        transformed = fft.rfft(folded)
        mass = float(folded.sum()) * (1.0 + 1e-9)
        size = np.abs(transformed)
        with np.errstate(divide="ignore"):
            log_one = np.log(np.where(size > 0.0, transformed, 1e-300))
        log_product += n * log_one
        bound = size + levels * mass
        log_bound += n * np.log(bound)
        log_share += n * (levels * mass / bound + UNIT * (8.0 + 4.0 * np.abs(log_one)))
        start += n * first
        position += n * abs(first)
        moment += n * log_mass
        loose += 4.0 * UNIT * n * abs(log_mass)
        infinite.append((losses.infinite, n))
    # counted from the first loss of all: the window begins at this place, modulo the length
    begin = math.floor((plan.low - start) / step)
    spectrum = np.exp(log_product)
    spectrum[0], spectrum[-1] = spectrum[0].real, spectrum[-1].real
    weight = np.full(len(spectrum), 2.0)
    weight[0] = weight[-1] = 1.0
    error = float(weight @ (np.exp(log_bound) * np.expm1(np.minimum(log_share, 700.0))))
    error = (error + levels * float(weight @ np.abs(spectrum))) / length * (1.0 + 1e-6)
    found = np.roll(fft.irfft(spectrum, length), -(begin % length))
    upper = np.maximum(found + error, 0.0)
    at = start + step * (begin + np.arange(float(length)))
    # a loss is off by some roundings of its parts
    at += 8.0 * UNIT * (position + step * (abs(begin) + length) + np.abs(at))
    beyond = wrapped = 0.0
    if ceiling >= begin + length:
        edge = moment + (plan.beyond - order) * step * float(begin + length)
        wrapped = math.exp(min(far_moment - edge, 0.0))
        end = far_moment - plan.beyond * step * float(begin + length)
        beyond = math.exp(min(end + 1e-9 * (1.0 + abs(far_moment)), 0.0))
    fall, less = math.exp(-order * step), math.exp(-step)
    error *= fall / max(1.0 - fall, 1.0 / length) * (1.0 - less)
    error /= max(1.0 - fall * less, 1.0 / length)
    # tilted probability that wraps around from above, where it counts most
    error += wrapped * math.exp(-order * math.log1p(1.0 / order)) / (1.0 + order)
    slack = sum(n for _, n in parts) * step * step / 8.0
    infinity = _infinite(infinite) + beyond
    return tilted_curve(at, upper, order, step, moment, start, loose, infinity, error, slack)


@lru_cache(maxsize=64)
def convolved(bag: Bag, swapped: bool, decade: int) -> Curve | None:
    """Return the curve of one side of a bag for δ about 10^(−decade), or None.

    Rényi's bound says how fine the grid must be; where it is far off, a second grid is made.
    """
    delta = 10.0**-decade
    expected, curve = math.inf, None
    for _ in range(8):
        plan = _plan(bag, swapped, delta, expected)
        if plan is None:
            return curve
        curve = _convolve(bag, swapped, plan)
        found = curve.epsilon(delta)
        bound = min(expected, renyi_epsilon(bag, swapped, delta))
        if not 0.0 < found < 0.7 * bound or plan.length >= _LONGEST:
            return curve
        expected = found
    return curve


def bag_of(counts: Mapping[DpEvent, int]) -> Bag:
    """Return a bag as a hashable value in a fixed order, so that sums do not depend on it."""
    return tuple(sorted(counts.items(), key=repr))
