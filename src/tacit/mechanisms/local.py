"""What local mechanisms share: `LocalNumber`, and coins and whole numbers from words.

Each person randomises their own answer. A value is an array with one answer per person; the event
is what each person pays. Coins are compared with 64-bit words, and probabilities are rounded
towards more noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import ApproximateDpEvent, DpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LocalNumber"]

# Whole numbers below 2^20 drawn from a word are uniform to one part in 2^44; probabilities
# give way by 2^-40, towards more noise.
_GIVE = 2.0**-40


def _one_axis(value: Any) -> None:
    if np.ndim(value) != 1:
        raise ParameterError(f"value must hold one answer per person, got {np.ndim(value)} axes")


@dataclass(frozen=True)
class LocalNumber(Mechanism):
    """An unbiased answer about each person's number in [−1, 1], ε-private for that person.

    Values are clipped to [−1, 1].
    """

    epsilon: float

    local = True

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(1e-3, 30))

    @property
    def event(self) -> DpEvent:
        """What each person pays."""
        return ApproximateDpEvent(self.epsilon)

    def check(self, value: Any) -> None:
        """Check the shape."""
        _one_axis(value)

    def distance(self, value: Any, other: Any) -> float:
        """Return how many people's answers differ: each pays for its own."""
        ours, theirs = (clip_values(answers, -1.0, 1.0) for answers in (value, other))
        return float(np.count_nonzero(ours != theirs))

    def bias(self, value: Any) -> float:
        """Unbiased for values within [−1, 1]."""
        return 0.0


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
