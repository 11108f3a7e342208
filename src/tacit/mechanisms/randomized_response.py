"""Randomized response: the truth, or with some probability a uniform answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.local import _GIVE, _one_axis, _rare_coins, _uniform
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import DpEvent, RandomizedResponseDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RandomizedResponse"]


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

    local = True

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

    def distance(self, value: Any, other: Any) -> float:
        """Return how many people's answers differ: each pays for its own."""
        return float(np.count_nonzero(self._known(value) != self._known(other)))

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
