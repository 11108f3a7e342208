"""Rarely sampled events: one large loss at a time, apart from the sum of the small ones.

The losses of a rarely sampled event, ln(1 + q·(e^y − 1)), have a heavy tail below one: a sum of
many that is improbably large is so because one of them is, and no tilt (`composition`) makes that
typical. So each event's losses are split at a cut into small ones, of mass m, and *jumps*, of mass
p and with the law J. With B_b(ε) = E(1 − e^(ε − S))₊ for the sum S of the small losses of a bag b,
whose probability is below one, and summing over which events jump,

    δ(ε) ≤ B_b(ε) + Σ_l n_l·∫ B_{b∖l}(ε − y) J_l(dy) + (Σ_l n_l·p_l)²/2 + Σ_l n_l·J_l(∞),

where two jumps and more count as infinite: their probability is at most that of two given events,
summed over all pairs. Small losses are bounded by the cut, so that B_b is found by a tilted
convolution; the second term needs it with an error of δ/Σ n·p only, by the same convolution or one
with hardly any tilt, whichever says less. All terms are sums of positive numbers.

**One event less.** B_{b∖l} follows from B_b. With r = E[e^(−L); L small], by Jensen's inequality,

    B_b(ε) = E ∫ (1 − e^(ε − S − x))₊ B_l(dx) ≥ E (m − r·e^(ε − S))₊ = m·B_{b∖l}(ε + ln(r/m)),

so B_{b∖l}(ε) ≤ B_b(ε − ln(r/m))/m, where ln(r/m) is about E[1 − e^(−L); L jumps]. Where an event
occurs few times only, B_{b∖l} is convolved by itself.

**Grids.** Cells do not cross the cut: the masses of those below bound the small losses (`pairs`),
those of the others the jumps. A grid that ends later has more small losses, and only adds to B.
Improbable losses far below are moved up, which adds their probability to δ, relative to δ itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.privacy.accounting.composition import (
    Bag,
    Orders,
    Plan,
    best_order,
    convolve,
    planned,
)
from tacit.privacy.accounting.losses import (
    extent,
    grid_losses,
    is_symmetric,
    sketch,
    split_losses,
)
from tacit.privacy.accounting.pairs import UNIT, Losses
from tacit.privacy.events import (
    DpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Deltas = Callable[[Floats], Floats]  # ε → δ

__all__ = ["JumpCurve", "has_jumps", "with_jumps"]

_RARE = 0.1  # sampling rates below which losses have jumps
_TWICE = 1e-4  # the share of δ that is left for two jumps
_LOW = 1e-6  # probability of losses that are moved up
_TAIL = 1e-7  # the share of δ beyond the largest jump
_GENTLE = 1e-2  # standard deviations by which the mean of a gentle tilt may move
_SMALL, _LARGE = 1e-9, 1e4  # losses and ε that need not be told apart
_FEW = 64  # events of which one less makes a difference
_SUMMED = 64.0 * UNIT  # relative error of a sum of half a million numbers, added in pairs
_CLOSE = 1e-9  # how exactly ε is found, relative


def has_jumps(bag: Bag) -> bool:
    """Whether an event of a bag is sampled rarely."""
    return any(_jumps(leaf) for leaf, _ in bag)


def _jumps(leaf: DpEvent) -> bool:
    match leaf:
        case PoissonSampledDpEvent(rate, _, _):
            return rate < _RARE
        case SampledWithoutReplacementDpEvent():
            return leaf.upper.sampling_probability < _RARE
    return False


class _Cut(NamedTuple):
    """Where the losses of one event are split, and how often it occurs."""

    leaf: DpEvent
    times: int
    swapped: bool
    low: float
    high: float


def _cuts(bag: Bag, swapped: bool, probability: float, tail: float) -> list[_Cut]:
    """Split events so that one of them jumps with some probability in all."""
    rare = sum(_jumps(leaf) for leaf, _ in bag)
    found = []
    for leaf, n in bag:
        side = swapped and not is_symmetric(leaf)
        if not _jumps(leaf):
            found.append(_Cut(leaf, n, side, *extent(leaf, side, tail)))
            continue
        at, mass, infinite = sketch(leaf, side)
        above = infinite + np.append(np.cumsum(mass[:0:-1])[::-1], 0.0)
        below = np.append(0.0, np.cumsum(mass[:-1]))
        low = float(at[np.flatnonzero(below <= _LOW / (rare * n))[-1]])
        high = float(at[-1] if side else at[np.argmax(above <= probability / (rare * n))])
        found.append(_Cut(leaf, n, side, min(low, -_SMALL), max(high, _SMALL)))
    return found


class _Jumps(NamedTuple):
    """Losses that one event has at most once, and δ(ε) of the others' small losses."""

    at: Floats
    mass: Floats
    others: list[Deltas]  # each is valid


class JumpCurve:
    """δ(ε) of one side of a bag, from above, by at most one jump."""

    def __init__(
        self, none: list[Deltas], jumps: list[_Jumps], infinite: float, growth: float
    ) -> None:
        self._none, self._jumps = none, jumps
        self._infinite, self._growth = infinite, growth * (1.0 + 1e-12)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε)."""
        total = float(_least(self._none, np.array([epsilon]))[0]) + self._infinite
        for at, mass, others in self._jumps:
            total += float(mass @ _least(others, epsilon - at))
        return min(1.0, total * self._growth)

    def epsilon(self, delta: float) -> float:
        """Return the least ε ≥ 0 whose δ is no more, infinite if there is none.

        The places where δ(ε) is asked for depend on its answers alone, so ε falls with δ.
        """
        if self.delta(0.0) <= delta:
            return 0.0
        low, high = 0.0, _SMALL
        while self.delta(high) > delta:
            low, high = high, 4.0 * high
            if high > _LARGE:
                return math.inf
        while high - low > _CLOSE * high:
            middle = (low + high) / 2.0
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return high


def _least(curves: list[Deltas], epsilon: Floats) -> Floats:
    return np.asarray(np.min([curve(epsilon) for curve in curves], axis=0))


def _of_nothing(epsilon: Floats) -> Floats:
    """Return δ(ε) of no loss at all."""
    return np.asarray(np.maximum(-np.expm1(np.minimum(epsilon, 0.0)), 0.0) * (1.0 + 4.0 * UNIT))


@lru_cache(maxsize=64)
def with_jumps(bag: Bag, swapped: bool, decade: int) -> JumpCurve | None:
    """Return the curve of one side of a bag for δ about 10^(−decade), or None."""
    delta = 10.0**-decade
    tail = _TAIL * delta / (4.0 * sum(n for _, n in bag))
    jumping = math.sqrt(2.0 * _TWICE * delta)
    cuts = _cuts(bag, swapped, jumping, tail)
    orders = Orders([(_small_sketch(cut), cut.times) for cut in cuts])
    bound, order = best_order(orders, math.log(delta))
    if not math.isfinite(bound):
        return None
    sizes = [(cut.low, cut.high) for cut in cuts]
    gentle = min(order, _GENTLE / max(orders.spread(_GENTLE), _SMALL))
    # a jump is added to a sum whose less probable values matter less
    tilts = ((order, delta), (gentle, delta / jumping))
    plans = [
        planned(orders, tilt, sizes, least, max(bound, 0.0), tail, farther=(order,))
        for tilt, least in tilts
    ]
    grids = [
        (plan, [_split(cut, plan.step, tail) for cut in cuts])
        for plan in plans
        if plan is not None
    ]
    return _joined([cut.times for cut in cuts], grids) if grids else None


def _joined(times: list[int], grids: list[tuple[Plan, list[tuple[Losses, Losses]]]]) -> JumpCurve:
    """Return one curve from events on several grids.

    Jumps begin where the shortest of the grids ends: the small losses of the others are more.
    """

    def curves(counts: list[int]) -> list[Deltas]:
        if not any(counts):
            return [_of_nothing]
        return [
            convolve(
                [(part[0], n) for part, n in zip(split, counts, strict=True) if n], plan
            ).deltas
            for plan, split in grids
        ]

    none, jumps = curves(times), []
    infinite = pairs = growth = 0.0
    for place, n in enumerate(times):
        event = [split[place] for _, split in grids]
        large = min((large for _, large in event), key=lambda large: (*large.at[:1],))
        wholes = [float(np.sum(small.mass)) for small, _ in event]
        jumping = math.fsum(large.mass) + large.infinite
        infinite += n * large.infinite
        pairs += n * jumping
        # masses are rounded up: together they may exceed one a little
        growth += n * max(math.log((max(wholes) + jumping) * (1.0 + _SUMMED)), 0.0)
        if not len(large.at):
            continue
        if n <= _FEW:
            less = [count - (other == place) for other, count in enumerate(times)]
            jumps.append(_Jumps(large.at, n * large.mass, curves(less)))
        else:
            shift = max(_log_ratio(small) for small, _ in event)
            mass = n * large.mass / (min(wholes) * (1.0 - _SUMMED))
            jumps.append(_Jumps(large.at + shift, mass, none))
    growth = math.exp(growth) if growth < 1.0 else math.inf
    return JumpCurve(none, jumps, infinite + pairs * pairs / 2.0, growth)


def _log_ratio(small: Losses) -> float:
    """Return ln(r/m), from above and no less than 0."""
    differences = small.mass * np.expm1(-small.at)
    more = float(np.sum(differences)) + 2.0 * _SUMMED * float(np.sum(np.abs(differences)))
    return math.log1p(max(more, 0.0) / (float(np.sum(small.mass)) * (1.0 - _SUMMED))) + UNIT


def _small_sketch(cut: _Cut) -> Losses:
    """Return the small losses at a thousand places, to plan with."""
    at, mass, _ = sketch(cut.leaf, cut.swapped)
    if not _jumps(cut.leaf):
        return Losses(at, mass, 0.0)
    kept = np.flatnonzero((at >= cut.low) & (at <= cut.high))
    some = mass[kept]
    some[0] += float(np.sum(mass[: kept[0]]))
    return Losses(at[kept], some, 0.0)


def _split(cut: _Cut, step: float, tail: float) -> tuple[Losses, Losses]:
    """Return the small losses of an event on a grid, and its jumps."""
    if _jumps(cut.leaf):
        return split_losses(cut.leaf, cut.swapped, step, cut.low, cut.high, tail)
    small, nothing = grid_losses(cut.leaf, cut.swapped, step, tail), np.zeros(0)
    return small._replace(infinite=0.0), Losses(nothing, nothing, small.infinite)
