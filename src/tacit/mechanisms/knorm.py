"""K-norm (gamma) noise for vectors: purely private for an L2 sensitivity.

The noise has density ∝ exp(−‖b‖₂/scale) on R^d: its length is Gamma(d, scale) and its direction
uniform. Moving the value by Δ changes the density by at most exp(Δ/scale).

The draw is made in integer arithmetic from exact exponential and normal numbers of 160
fractional bits, and rounded to the grid, so that rounding is post-processing of the ideal
mechanism up to a distance below 2⁻¹⁰⁰.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core import exact
from tacit.mechanisms.laplace import PureGridMechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy.amounts import as_exact, float_above
from tacit.privacy.events import ApproximateDpEvent, DpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KNorm"]

_BITS = 160


@dataclass(frozen=True)
class KNorm(PureGridMechanism):
    """Noise with density ∝ exp(−‖b‖₂/scale) on a vector with bounded L2 sensitivity."""

    norm = 2

    def _event(self) -> DpEvent:
        return ApproximateDpEvent(float_above(1 / as_exact(self.noise_multiplier)))

    def _noise(self, noise: Noise, count: int, scale: float) -> NDArray[np.int64]:
        normal, waiting = exact.half_normal(), exact.exponential()
        stream = noise.stream
        direction = [
            (-1 if stream.bits(1) else 1) * normal.fixed_point(stream, _BITS) for _ in range(count)
        ]
        # a Gamma(d) number is a sum of d exponential ones
        length = sum(waiting.fixed_point(stream, _BITS) for _ in range(count))
        numerator, denominator = scale.as_integer_ratio()
        radius = length * numerator  # over denominator·2^bits
        norm = math.isqrt(sum(part * part for part in direction))  # over 2^bits
        divisor = 2 * norm * denominator << _BITS
        # floor(x + ½) of x = radius·direction/norm
        half = norm * denominator << _BITS
        return np.array(
            [(2 * radius * part + half) // divisor for part in direction], dtype=np.int64
        )

    def variance(self, value: Any = None) -> float:
        """Return the variance of each number: scale²·(d + 1)."""
        return self.scale**2 * (self.size + 1) + self.rounding
