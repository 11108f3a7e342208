"""Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy import calibration
from tacit.privacy.events import DpEvent, LaplaceDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Laplace", "PureGridMechanism"]


@dataclass(frozen=True)
class PureGridMechanism(GridMechanism):
    """Grid noise that is purely private: ε is the sensitivity over the scale."""

    @classmethod
    def for_privacy(
        cls, epsilon: float, sensitivity: float, shape: tuple[int, ...] = (), **more: Any
    ) -> Self:
        """Return the least noise for which one release is ε-private; ε = ∞ adds none."""
        if math.isinf(epsilon):
            return cls(0.0, sensitivity, shape, **more)
        multiplier = calibration.laplace_noise_multiplier(epsilon)
        return cls.calibrated(multiplier, sensitivity, shape, **more)


@dataclass(frozen=True)
class Laplace(PureGridMechanism):
    """Laplace noise with the given scale per number, for an L1 sensitivity."""

    norm = 1

    def _event(self) -> DpEvent:
        return LaplaceDpEvent(self.noise_multiplier)

    def _noise(self, noise: Noise, count: int, scale: float) -> NDArray[np.int64]:
        return noise.laplace(count, scale)

    def variance(self, value: Any = None) -> float:
        """Return 2·scale², plus what rounding adds."""
        return 2.0 * self.scale**2 + self.rounding
