"""The first of many questions whose answer is above a threshold: the sparse vector technique.

Source: Dwork & Roth (2014), Algorithm 1; Lyu, Su & Li (2017) on what goes wrong in variants of it.
The threshold gets noise of scale 2Δ/ε, every answer fresh noise of scale 4Δ/ε, and nothing but the
number of the first answer that reaches the threshold leaves. However many questions are below:
they are free. Why: with the answers' noise before the first one fixed, let the noisy threshold
move up by Δ and the first answer's noise by 2Δ: then a neighbour gives the same result, and the
two moves cost ε/2 each. Noise is two-sided geometric on whole numbers, so sums and comparisons are
exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import RESOLUTION, Noise
from tacit.privacy.events import ApproximateDpEvent, DpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["AboveThreshold"]

_LARGEST = 2**40  # of an answer: beyond, it is as good as infinite
_ROOM = 1.0 + 2.0**-40  # covers the rounding of the scales


@dataclass(frozen=True)
class AboveThreshold(Mechanism):
    """Find the first answer that reaches a threshold, purely ε-private.

    Parameters
    ----------
    epsilon
        ε of the whole search.
    threshold
        A public whole number.
    questions
        The public number of answers; as many as that stands for "none".
    sensitivity
        How far one neighbour moves any answer, a whole number.
    source
        The kind of noise source.

    Examples
    --------
    >>> search = AboveThreshold(4.0, 100, 5)
    >>> search.draw(np.array([3, 8, 40, 180, 500]), Noise(seed=1))
    3
    """

    epsilon: float
    threshold: int
    questions: int
    sensitivity: int = 1
    source: str = "grid"

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(1e-6))
        check("threshold", self.threshold, Integer(-_LARGEST, _LARGEST))
        check("questions", self.questions, Integer(1))
        check("sensitivity", self.sensitivity, Integer(1, 10**6))
        check("source", self.source, OneOf(*RESOLUTION))

    @property
    def event(self) -> DpEvent:
        """What the whole search costs."""
        return ApproximateDpEvent(self.epsilon)

    def check(self, value: Any) -> None:
        """Check shape and type: answers are whole numbers."""
        array = np.asarray(value)
        if array.shape != (self.questions,) or not np.issubdtype(array.dtype, np.integer):
            raise ParameterError(f"value must hold {self.questions} whole numbers")

    @property
    def _scales(self) -> tuple[float, float]:
        one = 2.0 * self.sensitivity / self.epsilon * _ROOM
        return one, 2.0 * one

    def _answers(self, value: Any) -> NDArray[np.int64]:
        clipped = np.clip(np.asarray(value), -_LARGEST, _LARGEST)
        return np.asarray(clipped, np.int64)

    def draw(self, value: Any, noise: Noise) -> int:
        """Return the number of the first answer that reaches the noisy threshold."""
        first, second = self._scales
        bar = self.threshold + int(noise.geometric(1, first)[0])
        # all answers get their noise, so that time does not tell more than the result
        reached = self._answers(value) + noise.geometric(self.questions, second) >= bar
        return int(np.argmax(reached)) if reached.any() else self.questions

    def probabilities(self, value: Any) -> NDArray[np.float64]:
        """Return the probability of every result, "none" last; private.

        Sums over thresholds within 40 scales.
        """
        first, second = self._scales
        reach = int(40 * first) + 1
        moves = np.arange(-reach, reach + 1)
        ratio = np.exp(-1.0 / first)
        weights = ratio ** np.abs(moves) * (1.0 - ratio) / (1.0 + ratio)
        # P(noise ≥ k) of the answers' law, for k = threshold + move − answer
        gaps = self.threshold + moves[:, None] - self._answers(value)[None, :]
        ratio = np.exp(-1.0 / second)
        tail = ratio ** np.abs(gaps).astype(float)
        above = np.where(gaps > 0, tail / (1.0 + ratio), 1.0 - tail * ratio / (1.0 + ratio))
        still = np.cumprod(np.column_stack([np.ones(moves.size), 1.0 - above]), axis=1)
        return np.asarray(weights @ (still * np.column_stack([above, np.ones(moves.size)])))

    def distance(self, value: Any, other: Any) -> float:
        """Return the largest change of an answer over the sensitivity."""
        return float(np.abs(self._answers(value) - self._answers(other)).max() / self.sensitivity)

    def bias(self, value: Any) -> float:
        """Return the expected result minus the true one."""
        reached = self._answers(value) >= self.threshold
        truth = int(np.argmax(reached)) if reached.any() else self.questions
        return float(self.probabilities(value) @ np.arange(self.questions + 1) - truth)

    def variance(self, value: Any) -> float:
        """Return the variance of the result."""
        chances, results = self.probabilities(value), np.arange(self.questions + 1)
        return float(chances @ (results - chances @ results) ** 2)
