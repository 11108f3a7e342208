"""The exponential mechanism: a private choice among public candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core import exact
from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import ApproximateDpEvent, DpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Exponential", "clean_utilities"]

_LARGEST_LOSS = 512.0  # exp(−512) is never drawn in practice; capping keeps the sensitivity
_STEPS = 2.0**20  # exponential waiting times are compared on this grid


@dataclass(frozen=True)
class Exponential(Mechanism):
    """Choose candidate i with probability ∝ exp(ε·u_i/(2Δ)).

    By rejection: a uniform candidate is accepted when an exact exponential waiting time exceeds
    ε·(max u − u_i)/(2Δ). Losses are rounded up to multiples of 2⁻²⁰ (which moves each by at
    most 2⁻²⁰; ε pays for it) and capped, so that the comparison is exact.

    Parameters
    ----------
    epsilon
        ε of one choice.
    sensitivity
        How far one neighbour moves any utility.
    candidates
        The public number of candidates.
    """

    epsilon: float
    sensitivity: float
    candidates: int

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(2.0**-10))
        check("sensitivity", self.sensitivity, Real(0, open_low=True))
        check("candidates", self.candidates, Integer(1))

    @property
    def event(self) -> DpEvent:
        """What one choice costs."""
        return ApproximateDpEvent(self.epsilon)

    def check(self, value: Any) -> None:
        """Check the public number of candidates."""
        if np.shape(value) != (self.candidates,):
            raise ParameterError(
                f"value must hold one utility for each of {self.candidates} candidates"
            )

    def _losses(self, value: Any) -> NDArray[np.int64]:
        """Return the losses ε'·(max u − u)/(2Δ) as whole numbers of 2^-20.

        Rounding moves the log-ratio of two probabilities by up to 2·2^-20 each way, so the
        part ε' = ε − 4·2^-20 is spent on the utilities.
        """
        utility = clean_utilities(value)
        rate = (self.epsilon - 4.0 / _STEPS) / (2.0 * self.sensitivity)
        with np.errstate(over="ignore"):
            loss = np.minimum((utility.max() - utility) * rate, _LARGEST_LOSS)
        return np.asarray(np.ceil(loss * _STEPS), dtype=np.int64)

    def probabilities(self, value: Any) -> NDArray[np.float64]:
        """Return the probability of each candidate; private."""
        weights = np.exp(-self._losses(value) / _STEPS)
        return np.asarray(weights / weights.sum())

    def draw(self, value: Any, noise: Noise) -> int:
        """Return the index of the chosen candidate."""
        losses = self._losses(value)
        batch = min(4096, max(64, self.candidates))
        while True:
            # floor(E·2^20) ≥ L is E ≥ L/2^20, which has probability exp(−L/2^20) exactly
            waits = exact.exponential().integers(
                noise.stream, batch, _STEPS, offset=0.0, signed=False
            )
            picks = np.array([noise.stream.below(self.candidates) for _ in range(batch)])
            accepted = np.flatnonzero(waits >= losses[picks])
            if accepted.size:
                return int(picks[accepted[0]])

    def bias(self, value: Any) -> float:
        """Return the expected utility of the choice minus the best one."""
        utility = clean_utilities(value)
        return float(self.probabilities(value) @ np.maximum(utility - utility.max(), -1e300))

    def variance(self, value: Any) -> float:
        """Return the variance of the utility of the choice."""
        utility = np.maximum(clean_utilities(value), clean_utilities(value).max() - 1e150)
        chosen = self.probabilities(value)
        mean = chosen @ utility
        return float(chosen @ (utility - mean) ** 2)


def clean_utilities(value: Any) -> NDArray[np.float64]:
    """Return utilities with NaN as the worst of all."""
    return np.nan_to_num(np.asarray(value, np.float64), nan=-1e308, posinf=1e308, neginf=-1e308)
