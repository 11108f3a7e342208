"""One bit per person, whose mean is that of the values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.local import _GIVE, LocalNumber, _coins
from tacit.mechanisms.noise import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OneBitMean"]


@dataclass(frozen=True)
class OneBitMean(LocalNumber):
    """One bit per person, whose scaled mean is unbiased (Duchi et al. 2013, Nguyên et al. 2016).

    A value x in [−1, 1] becomes +B with probability ½ + x/(2B), else −B, with
    B = (e^ε + 1)/(e^ε − 1).
    """

    @property
    def magnitude(self) -> float:
        """B, the absolute value of every released number, rounded up."""
        return 1.0 / math.tanh(self.epsilon / 2.0) * (1.0 + _GIVE)

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Release ±B for each person."""
        clipped = clip_values(value, -1.0, 1.0)
        heads = _coins(noise, 0.5 + clipped / (2.0 * self.magnitude), clipped.size)
        return np.where(heads, self.magnitude, -self.magnitude)

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return B² − x² for each person."""
        return np.asarray(self.magnitude**2 - clip_values(value, -1.0, 1.0) ** 2)
