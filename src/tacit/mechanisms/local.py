"""Local mechanisms: each person randomises their own answer.

A value is an array with one answer per person; the event is what each person pays. Coins are
compared with 64-bit words, and probabilities are rounded towards more noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import ApproximateDpEvent, DpEvent, RandomizedResponseDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OneBitMean", "Piecewise", "RandomizedResponse"]

_EPSILON = Real(1e-3, 30)
# Whole numbers below 2^20 drawn from a word are uniform to one part in 2^44; probabilities
# give way by 2^-40, towards more noise.
_GIVE = 2.0**-40


def _one_axis(value: Any) -> None:
    if np.ndim(value) != 1:
        raise ParameterError(f"value must hold one answer per person, got {np.ndim(value)} axes")


def _coins(noise: Noise, probability: Any, count: int) -> NDArray[np.bool_]:
    """Return heads with the given probabilities, rounded down to multiples of 2^-53."""
    words = noise.stream.words(count) >> np.uint64(11)
    return np.asarray(words < (np.asarray(probability) * 2.0**53).astype(np.uint64))


def _rare_coins(noise: Noise, probability: float, count: int) -> NDArray[np.bool_]:
    """Return heads with one probability, rounded up to a multiple of 2^-64."""
    threshold = min(math.ceil(Fraction(probability) * 2**64), 2**64 - 1)
    return np.asarray(noise.stream.words(count) < np.uint64(threshold))


def _uniform(noise: Noise, limit: int, count: int) -> NDArray[np.int64]:
    """Return uniform whole numbers below ``limit`` < 2^32, to one part in 2^31."""
    # 64-bit words split in two: (high·limit + (low·limit >> 32)) >> 32
    words = noise.stream.words(count)
    factor, half = np.uint64(limit), np.uint64(32)
    low = (words & np.uint64(0xFFFFFFFF)) * factor
    return (((words >> half) * factor + (low >> half)) >> half).astype(np.int64)


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """k-ary randomized response: the truth, or with some probability a uniform answer.

    Parameters
    ----------
    epsilon
        1e-6 ≤ ε ≤ 30 per person.
    categories
        The number k ≥ 2 of answers, 0 … k − 1; anything else counts as 0.

    Examples
    --------
    >>> RandomizedResponse(math.log(3)).truth  # the classical coin
    0.75
    """

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(1e-6, 30))
        check("categories", self.categories, Integer(2, 2**20))

    @property
    def lie(self) -> float:
        """The probability of a uniform answer, p = k/(e^ε + k − 1), rounded up."""
        k = self.categories
        return min(1.0, k / (math.exp(self.epsilon) + k - 1.0) * (1.0 + 2 * _GIVE))

    @property
    def truth(self) -> float:
        """The probability that the released answer is the true one."""
        k = self.categories
        return round(1.0 - k / (math.exp(self.epsilon) + k - 1.0) * (k - 1) / k, 15)

    @property
    def event(self) -> DpEvent:
        """What each person pays."""
        # `lie` gives way by twice as much, so this states no more noise than there is
        k = self.categories
        stated = k / (math.exp(self.epsilon) + k - 1.0) * (1.0 + _GIVE)
        return RandomizedResponseDpEvent(min(stated, 1.0), k)

    def check(self, value: Any) -> None:
        """Check the shape and type."""
        _one_axis(value)
        if not np.issubdtype(np.asarray(value).dtype, np.integer):
            raise ParameterError("value must hold whole numbers, one category per person")

    def draw(self, value: Any, noise: Noise) -> NDArray[np.int64]:
        """Answer for each person."""
        truth = self._known(value)
        lies = _rare_coins(noise, self.lie, truth.size)
        return np.where(lies, _uniform(noise, self.categories, truth.size), truth)

    def _known(self, value: Any) -> NDArray[np.int64]:
        """Return the answers, unknown ones as 0."""
        truth = np.asarray(value).astype(np.int64)
        return np.where((truth >= 0) & (truth < self.categories), truth, 0)

    def frequencies(self, answers: Any) -> NDArray[np.float64]:
        """Return unbiased estimates of the shares of each category."""
        observed = np.bincount(np.asarray(answers), minlength=self.categories) / len(answers)
        return np.asarray((observed - self.lie / self.categories) / (1.0 - self.lie))

    def bias(self, value: Any) -> NDArray[np.float64]:
        """Return the bias of the raw shares of each category; `frequencies` removes it."""
        shares = np.bincount(self._known(value), minlength=self.categories) / len(value)
        return np.asarray(self.lie * (1.0 / self.categories - shares))

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return the variance of the estimated share of each category, given the truth."""
        n, k = len(value), self.categories
        shares = np.bincount(self._known(value), minlength=k) / n
        hit, miss = 1.0 - self.lie + self.lie / k, self.lie / k
        spread = shares * hit * (1.0 - hit) + (1.0 - shares) * miss * (1.0 - miss)
        return np.asarray(spread / n / (1.0 - self.lie) ** 2)


@dataclass(frozen=True)
class OneBitMean(Mechanism):
    """One bit per person, whose scaled mean is unbiased (Duchi et al. 2013, Nguyên et al. 2016).

    A value x in [−1, 1] becomes +B with probability ½ + x/(2B), else −B, with
    B = (e^ε + 1)/(e^ε − 1). Values are clipped to [−1, 1].
    """

    epsilon: float

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, _EPSILON)

    @property
    def magnitude(self) -> float:
        """B, the absolute value of every released number, rounded up."""
        return 1.0 / math.tanh(self.epsilon / 2.0) * (1.0 + _GIVE)

    @property
    def event(self) -> DpEvent:
        """What each person pays."""
        return ApproximateDpEvent(self.epsilon)

    def check(self, value: Any) -> None:
        """Check the shape."""
        _one_axis(value)

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Release ±B for each person."""
        clipped = clip_values(value, -1.0, 1.0)
        heads = _coins(noise, 0.5 + clipped / (2.0 * self.magnitude), clipped.size)
        return np.where(heads, self.magnitude, -self.magnitude)

    def bias(self, value: Any) -> float:
        """Unbiased for values within [−1, 1]."""
        return 0.0

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return B² − x² for each person."""
        return np.asarray(self.magnitude**2 - clip_values(value, -1.0, 1.0) ** 2)


@dataclass(frozen=True)
class Piecewise(Mechanism):
    """The piecewise mechanism of Wang et al. (2019) on [−1, 1], on a grid of cells.

    The output range is cut into M = 2²⁰ cells. A window of W cells, whose place is linear in
    x (randomly rounded), gets probability e^{ε/2}/(e^{ε/2} + 1), the rest the remainder, so that
    any two inputs give any cell with probabilities at most e^ε apart. The cell is released as
    an unbiased number.
    """

    epsilon: float
    cells = 1 << 20

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, _EPSILON)
        if self._window < 1:
            raise ParameterError("epsilon is too large for the grid of the piecewise mechanism")

    @property
    def _window(self) -> int:
        # (C − 1)/(2C) of the cells, with C = coth(ε/4): W/M = 1/(e^{ε/2} + 1)
        return round(self.cells / (math.exp(self.epsilon / 2.0) + 1.0))

    @property
    def _inside(self) -> float:
        """The probability of the window: per-cell odds of e^ε against the rest, rounded down."""
        outside_cells, inside_cells = self.cells - self._window, self._window
        odds = math.exp(self.epsilon) * inside_cells / outside_cells
        return odds / (1.0 + odds) * (1.0 - _GIVE)

    @property
    def event(self) -> DpEvent:
        """What each person pays."""
        return ApproximateDpEvent(self.epsilon)

    def check(self, value: Any) -> None:
        """Check the shape."""
        _one_axis(value)

    def _affine(self) -> tuple[float, float]:
        """Return (a, b): the mean cell is a + b·(start of the window)."""
        cells, window, inside = self.cells, self._window, self._inside
        outside = 1.0 - inside
        rest = cells - window
        slope = inside - outside * window / rest
        constant = inside * (window - 1) / 2.0 + outside / rest * (
            cells * (cells - 1) / 2.0 - window * (window - 1) / 2.0
        )
        return constant, slope

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Release a number per person."""
        clipped = clip_values(value, -1.0, 1.0)
        count, window, rest = clipped.size, self._window, self.cells - self._window
        place = (clipped + 1.0) / 2.0 * rest
        start = np.floor(place).astype(np.int64)
        start += _coins(noise, place - start, count)
        start = np.clip(start, 0, rest)
        inside = _coins(noise, self._inside, count)
        within = start + _uniform(noise, window, count)
        beyond = _uniform(noise, rest, count)
        beyond += np.where(beyond >= start, window, 0)
        constant, slope = self._affine()
        cell = np.where(inside, within, beyond)
        return np.asarray(2.0 / rest * (cell - constant) / slope - 1.0)

    def bias(self, value: Any) -> float:
        """Unbiased for values within [−1, 1]."""
        return 0.0

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return the variance per person, of the discrete law itself.

        For a fine grid it is x²/(e^{ε/2} − 1) + (e^{ε/2} + 3)/(3(e^{ε/2} − 1)²).
        """
        window, rest = self._window, self.cells - self._window
        constant, slope = self._affine()
        place = (clip_values(value, -1.0, 1.0) + 1.0) / 2.0 * rest
        share = place - np.floor(place)  # of the upper of the two windows
        first = second = np.zeros(place.shape)
        for start, weight in ((np.floor(place), 1.0 - share), (np.ceil(place), share)):
            first = first + weight * (constant + slope * start)
            second = second + weight * self._second_moment(start, window, rest)
        return np.asarray((2.0 / (rest * slope)) ** 2 * (second - first**2))

    def _second_moment(self, start: Any, window: int, rest: int) -> Any:
        """Return E[cell²] given the start of the window."""

        def squares(count: Any) -> Any:  # 0² + … + (count − 1)²
            return (count - 1.0) * count * (2.0 * count - 1.0) / 6.0

        inner = squares(start + window) - squares(start)
        outer = squares(float(self.cells)) - inner
        return self._inside * inner / window + (1.0 - self._inside) * outer / rest
