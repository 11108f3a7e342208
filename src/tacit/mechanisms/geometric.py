"""Two-sided geometric noise on counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import RESOLUTION, Noise
from tacit.privacy.amounts import as_exact, float_below
from tacit.privacy.events import DiscreteLaplaceDpEvent, DpEvent, NonPrivateDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TwoSidedGeometric"]


@dataclass(frozen=True)
class TwoSidedGeometric(Mechanism):
    """Two-sided geometric noise on counts: P(k) = (1 − α)/(1 + α)·α^|k|, α = exp(−ε/Δ).

    Parameters
    ----------
    epsilon
        ε of one release; infinity adds no noise.
    sensitivity
        The largest L1 change Δ of the counts, a whole number.
    shape
        Shape of the counts.
    source
        The kind of noise source.
    """

    epsilon: float
    sensitivity: int = 1
    shape: tuple[int, ...] = ()
    source: str = "grid"

    additive = True

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(1e-9, allow_inf=True))
        check("sensitivity", self.sensitivity, Integer(1, 10**6))
        check("source", self.source, OneOf(*RESOLUTION))

    @property
    def alpha(self) -> float:
        """The ratio α = exp(−ε/Δ) of the law."""
        return math.exp(-self.epsilon / self.sensitivity)

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        if math.isinf(self.epsilon):
            return NonPrivateDpEvent()
        parameter = float_below(as_exact(self.epsilon) / self.sensitivity)
        return DiscreteLaplaceDpEvent(parameter, self.sensitivity)

    def check(self, value: Any) -> None:
        """Check shape and type: counts are whole numbers."""
        array = np.asarray(value)
        if array.shape != tuple(self.shape) or not np.issubdtype(array.dtype, np.integer):
            raise ParameterError(
                f"value must hold whole numbers with shape {self.shape}, got {array.dtype} with "
                f"shape {array.shape}"
            )

    def distance(self, value: Any, other: Any) -> float:
        """Return the L1 distance over the sensitivity."""
        moved = np.abs(np.asarray(value).astype(np.int64) - np.asarray(other).astype(np.int64))
        return float(moved.sum()) / self.sensitivity

    def draw(self, value: Any, noise: Noise) -> NDArray[np.int64]:
        """Add two-sided geometric noise."""
        counts = np.asarray(value).astype(np.int64)
        if math.isinf(self.epsilon):
            return counts
        # one part in 2^40 covers the rounding of the scale
        scale = self.sensitivity / self.epsilon * (1.0 + 2.0**-40)
        return np.asarray(counts + noise.geometric(counts.size, scale).reshape(self.shape))

    def bias(self, value: Any) -> float:
        """Centred."""
        return 0.0

    def variance(self, value: Any = None) -> float:
        """Return 2α/(1 − α)²."""
        return 2.0 * self.alpha / math.expm1(-self.epsilon / self.sensitivity) ** 2
