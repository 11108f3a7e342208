"""Gaussian noise on whole numbers: the discrete Gaussian.

Source: Canonne, Kamath & Steinke (2020). Noise k has P(k) ∝ exp(−k²/(2σ²)) on the whole numbers,
so a count stays a count, and nothing is rounded.

**What it costs.** Let a neighbour move one number by j ≤ Δ. The law is log-concave, so the ratio
of the law moved by j to the law itself rises with k, and the sets that tell the two apart best
are rays {k ≥ t}: δ_j(ε) = max_t P(k + j ≥ t) − e^ε·P(k ≥ t), which rises with j. So a move by Δ is
the worst at every ε, and the pair of laws at Δ dominates. Numbers get independent noise, hence m
numbers that move cost m such pairs: the event is `DiscreteGaussianDpEvent`, m times, whose privacy
losses Δ·(2k + Δ)/(2σ²) are counted one by one. It is also m·Δ²/(2σ²)-zero-concentrated (their
Proposition 5), which is what a ledger with ``filter="zcdp"`` adds up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import RESOLUTION, Noise
from tacit.privacy.events import (
    LEAST_DISCRETE,
    MOST_DISCRETE,
    DiscreteGaussianDpEvent,
    DpEvent,
    repeat,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DiscreteGaussian"]


@dataclass(frozen=True)
class DiscreteGaussian(Mechanism):
    """Discrete Gaussian noise on whole numbers.

    Parameters
    ----------
    scale
        σ of the law, from 1/16 to 2¹⁵; its standard deviation is never more than that. Where more
        is needed, whole numbers are fine enough for `tacit.mechanisms.gaussian.Gaussian`.
    sensitivity
        How far one neighbour moves any of the numbers, a whole number.
    moved
        How many of the numbers one neighbour moves at most: of a histogram 1 where a unit is added
        or removed, 2 where one is replaced. The L2 sensitivity is Δ·√moved.
    shape
        Shape of the numbers.
    source
        The kind of noise source.

    Examples
    --------
    >>> noise = DiscreteGaussian(4.0, shape=(3,))
    >>> noise.draw(np.array([10, 200, 3000]), Noise(seed=1)).dtype
    dtype('int64')
    >>> from tacit.privacy.accounting.accountants import epsilon_of
    >>> round(epsilon_of(noise.event, 1e-6), 4)     # of the continuous one: 1.0607
    1.0634
    """

    scale: float
    sensitivity: int = 1
    moved: int = 1
    shape: tuple[int, ...] = ()
    source: str = "grid"

    def __post_init__(self) -> None:
        check("scale", self.scale, Real(LEAST_DISCRETE, MOST_DISCRETE))
        check("sensitivity", self.sensitivity, Integer(1))
        check("moved", self.moved, Integer(1, max(math.prod(self.shape), 1)))
        check("source", self.source, OneOf(*RESOLUTION))
        self.event  # noqa: B018 (refuses a sensitivity that is out of proportion)

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        return repeat(DiscreteGaussianDpEvent(self.scale, self.sensitivity), self.moved)

    def check(self, value: Any) -> None:
        """Check shape and type: counts are whole numbers."""
        array = np.asarray(value)
        if array.shape != tuple(self.shape) or not np.issubdtype(array.dtype, np.integer):
            raise ParameterError(
                f"value must hold whole numbers with shape {self.shape}, got {array.dtype} with "
                f"shape {array.shape}"
            )

    def distance(self, value: Any, other: Any) -> float:
        """Return the larger of the change of one number and of how many change, as shares."""
        moved = np.abs(np.asarray(value).astype(np.int64) - np.asarray(other).astype(np.int64))
        most = float(moved.max(initial=0)) / self.sensitivity
        return max(most, float(np.count_nonzero(moved)) / self.moved) if most else 0.0

    def draw(self, value: Any, noise: Noise) -> NDArray[np.int64]:
        """Add discrete Gaussian noise; sums beyond 64 bits wrap around, which tells nothing."""
        counts = np.asarray(value).astype(np.int64)
        drawn = noise.discrete_gaussian(counts.size, self.scale).reshape(self.shape)
        return np.asarray(counts + drawn)

    def bias(self, value: Any) -> float:
        """Centred."""
        return 0.0

    def variance(self, value: Any = None) -> float:
        """Return the variance of the law, at most σ²."""
        reach = math.ceil(14.0 * self.scale) + 1
        numbers = np.arange(-reach, reach + 1.0)
        weights = np.exp(-0.5 * np.square(numbers / self.scale))
        return float(weights @ np.square(numbers) / weights.sum())
