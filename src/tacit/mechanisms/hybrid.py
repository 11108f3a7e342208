"""The hybrid of one bit and a piecewise density (Wang et al. 2019): the least worst-case noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.local import LocalNumber, _coins
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.one_bit import OneBitMean
from tacit.mechanisms.piecewise import Piecewise

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Hybrid"]

# Below, a mixture is no better than one bit: where the worst variances meet (Wang et al., ε*)
_FROM = 0.61


@dataclass(frozen=True)
class Hybrid(LocalNumber):
    """One bit or the piecewise mechanism, by a coin that does not look at the value.

    From ε = 0.61 on the coin says piecewise with probability α = 1 − e^(−ε/2), below never. Either
    is ε-private, so is the mixture, even for somebody who sees the coin. With this α the parts of
    the variance that depend on the value cancel: it is the same for every value in [−1, 1], and at
    most that of either mechanism in its worst case.

    Examples
    --------
    >>> import numpy as np
    >>> worst = np.array([0.0, 1.0])
    >>> bool((Hybrid(1.5).variance(worst) < OneBitMean(1.5).variance(worst).max()).all())
    True
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share:
            Piecewise(self.epsilon)

    @property
    def share(self) -> float:
        """α, the probability of the piecewise mechanism."""
        return -math.expm1(-self.epsilon / 2.0) if self.epsilon > _FROM else 0.0

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Release a number per person."""
        clipped = clip_values(value, -1.0, 1.0)
        answers = OneBitMean(self.epsilon).draw(clipped, noise)
        if self.share:
            smooth = Piecewise(self.epsilon).draw(clipped, noise)
            answers = np.where(_coins(noise, self.share, clipped.size), smooth, answers)
        return answers

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return the variance per person: both are unbiased, so it is their mixture."""
        found = (1.0 - self.share) * OneBitMean(self.epsilon).variance(value)
        if self.share:
            found = found + self.share * Piecewise(self.epsilon).variance(value)
        return np.asarray(found)
