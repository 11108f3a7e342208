"""δ(ε) of a sum of privacy losses, from above, on the losses of a window."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy.accounting.pairs import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Curve", "tilted_curve"]

_TIGHT, _SMALL = 3e-4, 1e-7  # of ε, and beside it, that nobody minds
_NOUGHT = 1e-290  # stands for numbers that underflow


class Curve:
    """δ(ε) of one side of a bag, from above, on the losses of a window."""

    def __init__(
        self,
        at: Floats,
        log_scale: Floats,
        delta: Floats,
        infinite: float,
        error: float = 0.0,
        slack: float = 0.0,
    ) -> None:
        self._at, self._delta = at, delta
        self._log_scale = log_scale
        self._infinite = infinite
        self._error = error  # the part of each delta that may stand for nothing but errors
        self._slack = slack  # what the grid adds to ε, but for its order

    def delta(self, epsilon: float) -> float:
        """Return δ(ε); 1 below the window."""
        at = self._at
        if epsilon < at[0]:
            return 1.0
        place = min(int(np.searchsorted(at, epsilon, side="right")) - 1, len(at) - 1)
        found = self._value(place)
        if place + 1 < len(at) and 0.0 < at[place + 1] - at[place] < 30.0:
            share = math.expm1(epsilon - at[place]) / math.expm1(at[place + 1] - at[place])
            found += (self._value(place + 1) - found) * min(max(share, 0.0), 1.0)
        return min(1.0, found * (1.0 + 1e-12) + self._infinite)

    def is_tight(self, delta: float) -> bool:
        """Whether rounding and grid add little to ε at δ."""
        epsilon = self.epsilon(delta)
        if not math.isfinite(epsilon):
            return False
        last = len(self._at) - 1
        place = min(int(np.searchsorted(self._at, epsilon)), last - 1)
        near = max(place - max(last // 1000, 1), 0)
        low, high = self._value(near), self._value(place)
        if not 0.0 < high < low:
            return False
        slope = math.log(low / high) / float(self._at[place] - self._at[near])
        share = self._error / float(self._delta[place]) + self._infinite / delta
        return share / slope + self._slack * (1.0 + slope) <= _TIGHT * epsilon + _SMALL

    def deltas(self, epsilon: Floats) -> Floats:
        """Return δ(ε) at many ε, also below the window.

        δ is convex in e^ε, at most one where that is 0, and falls: below the window it lies under
        the chord from there, inside under those between neighbours, above under its last value.
        """
        at = self._at
        place = np.clip(np.searchsorted(at, epsilon, side="right") - 1, 0, len(at) - 2)
        low, high = (
            np.minimum(self._delta[i] * np.exp(np.minimum(self._log_scale[i], 700.0)), 1.0)
            for i in (place, place + 1)
        )
        inside = np.clip(epsilon, at[place], at[place + 1])
        share = np.expm1(inside - at[place]) / np.expm1(np.minimum(at[place + 1] - at[place], 700))
        found = low + (high - low) * np.clip(share, 0.0, 1.0)
        below = np.expm1(np.minimum(epsilon - at[0], 0.0))
        found = found - (1.0 - found) * below + self._infinite
        return np.asarray(np.minimum(found, 1.0) * (1.0 + 1e-12))

    def _value(self, place: int) -> float:
        return float(self._delta[place]) * math.exp(min(float(self._log_scale[place]), 700.0))

    def epsilon(self, delta: float) -> float:
        """Return the least ε of the window whose δ is no more, infinite if there is none."""
        left = delta - self._infinite
        if left <= 0.0:
            return math.inf
        log_left = math.log(left)
        with np.errstate(divide="ignore"):
            within = np.log(self._delta) + self._log_scale <= log_left
        if not within[-1]:
            return math.inf
        first = int(np.argmax(within))
        if first == 0:
            return float(self._at[0])
        low, high = self._value(first - 1), self._value(first)
        width = float(self._at[first] - self._at[first - 1])
        share = (low - left) / (low - high) if low > high else 1.0
        if width > 30.0:  # a grid for losses that nobody needs to know
            return float(self._at[first])
        found = float(self._at[first - 1]) + math.log1p(math.expm1(width) * min(max(share, 0), 1))
        return min(found * (1.0 + math.copysign(1e-12, found)), float(self._at[first]))


def tilted_curve(
    at: Floats,
    tilted: Floats,
    order: float,
    step: float,
    moment: float,
    start: float,
    loose: float,
    infinite: float,
    error: float,
    slack: float,
) -> Curve:
    """Return δ at every loss of the window, from tilted probabilities.

    With weights w_i = e^(−t·h·i)·P_t(x_i) and A_j = Σ_{i > j} w_i, δ_j = (1 − e^(−h))·Σ_{i ≥ j}
    e^(−h(i − j))·A_i: sums of positive numbers only. Both sums fall by e^(−t·h) a step, and are
    kept relative to it: a_j = e^(t·h·j)·A_j obeys a_j = e^(−t·h)·(P_t(x_{j+1}) + a_{j+1}).
    """
    fall = math.exp(-order * step)
    after = np.append(tilted[1:], 0.0)[::-1]
    from scipy import signal  # here: it takes a third of a second, and few guarantees need it

    sums = signal.lfilter([fall], [1.0, -fall], after)
    deltas = signal.lfilter([-math.expm1(-step)], [1.0, -fall * math.exp(-step)], sums)[::-1]
    log_scale = moment - order * (at - start)
    rounding = loose + 8.0 * UNIT * (abs(moment) + np.abs(order * (at - start)))
    log_scale = log_scale + rounding + 1e-9  # a filter of N steps errs by some N·u
    return Curve(at, log_scale, deltas + _NOUGHT, infinite, error, slack)
