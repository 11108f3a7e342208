"""Shares of Gaussian noise, of which only the sum is seen.

With ``shares`` = S each of S holders draws noise of variance τ²/S, and only the sum of
what they send is seen. The event is that of the *sum*. A rounded Gaussian is, up to terms of size
exp(−2π²·2⁴⁰), the density of a Gaussian plus a uniform number of width g, at grid points; S of
them add up to the density of N(0, τ²) plus S uniform numbers, which is the law of rounding
N(0, τ²) plus S − 1 uniform numbers. So the sum is the continuous Gaussian mechanism with
independent numbers added and rounded afterwards: post-processing, as for one holder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.errors import ParameterError
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import DpEvent, GaussianDpEvent, NonPrivateDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GaussianShare"]


@dataclass(frozen=True)
class GaussianShare(Gaussian):
    """One of ``shares`` equal parts of Gaussian noise, of which only the sum is seen."""

    shares: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check("shares", self.shares, Integer(1, 10**6))
        if self.source != "grid":
            raise ParameterError("shares of noise are drawn from the 'grid' source")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That the sum is all that is seen."""
        if self.shares == 1:
            return ()
        return (
            f"only the sum over at least {self.shares} sites is seen, each with its share of the "
            "noise",
        )

    @property
    def alone(self) -> DpEvent:
        """What one share gives to somebody who sees it by itself: noise of 1/√S of the scale.

        >>> whole = GaussianShare(8.0, 1.0, (), shares=4)
        >>> round(whole.event.noise_multiplier, 3), round(whole.alone.noise_multiplier, 3)
        (8.0, 4.0)
        """
        if self.scale == 0.0:
            return NonPrivateDpEvent()
        return GaussianDpEvent(self.noise_multiplier / math.sqrt(self.shares))

    def unasked(self, noise: Noise) -> NDArray[np.float64]:
        """Return this share of the noise and nothing else, on zeros that are made here.

        For a holder who has nothing to say while others count on its share: no value goes in, so
        none can come out, and nothing is charged.
        """
        return self.draw(GridSum(np.zeros(self.shape, np.int64), self.grid), noise)

    def _noise(self, noise: Noise, count: int, scale: float) -> NDArray[np.int64]:
        return noise.gaussian(count, scale / math.sqrt(self.shares))

    def variance(self, value: Any = None) -> float:
        """Return the variance of one share."""
        return self.scale**2 / self.shares + self.rounding
