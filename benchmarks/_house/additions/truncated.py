"""Geometric noise, and what falls below zero is zero (Ghosh, Roughgarden & Sundararajan 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import DpEvent

__all__ = ["TruncatedGeometric"]


@dataclass(frozen=True)
class TruncatedGeometric(Mechanism):
    """Two-sided geometric noise on counts, cut at zero: post-processing costs nothing."""

    epsilon: float
    sensitivity: int = 1
    shape: tuple[int, ...] = ()
    source: str = "grid"

    @property
    def _whole(self) -> TwoSidedGeometric:
        return TwoSidedGeometric(self.epsilon, self.sensitivity, self.shape, self.source)

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        return self._whole.event

    def check(self, value: Any) -> None:
        """Check shape and type."""
        self._whole.check(value)

    def distance(self, value: Any, other: Any) -> float:
        """Return the L1 distance over the sensitivity."""
        return self._whole.distance(value, other)

    def draw(self, value: Any, noise: Noise) -> Any:
        """Add noise, cut at zero."""
        return np.maximum(self._whole.draw(value, noise), 0)

    def bias(self, value: Any) -> float:
        """Upwards, the more the nearer to zero; at most the standard deviation."""
        return float(np.sqrt(self.variance()))

    def variance(self, value: Any = None) -> float:
        """At most that of the whole law."""
        return self._whole.variance()
