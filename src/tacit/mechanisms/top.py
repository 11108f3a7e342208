"""The best of public candidates: the noisy maximum, and the top k at once.

Gumbel noise of scale 2·Δ·k/ε is added to every utility, and the k largest win. That is the same
law as k choices of the exponential mechanism at ε/k each, without putting back (Durfee & Rogers
2019), and is drawn as such: weights are rounded to a share of 2⁻⁴¹ and the choices are exact
(`tacit._core.choice`), which floating-point Gumbel noise is not. How long a draw takes does not
follow the utilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit._core.choice import LARGEST, choose
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.exponential import clean_utilities
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import ApproximateDpEvent, DpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NoisyTop"]

_KEPT = 1.0 - 2.0**-14  # of ε: the rest pays for rounding, up to 2⁻³⁹ a choice


@dataclass(frozen=True)
class NoisyTop(Mechanism):
    """Choose the best candidates by noisy utilities, best first, purely ε-private.

    Parameters
    ----------
    epsilon
        ε of all choices together.
    sensitivity
        How far one neighbour moves any utility, for the relation that is meant: where a unit is
        replaced, a count of units moves by 1 as well, other utilities often by twice as much.
    candidates
        The public number of candidates.
    count
        How many are chosen; 1 is the noisy maximum.

    Examples
    --------
    >>> NoisyTop(8.0, 1.0, 4, 2).draw([3, 90, 5, 60], Noise(seed=1)).tolist()
    [1, 3]
    """

    epsilon: float
    sensitivity: float
    candidates: int
    count: int = 1

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(2.0**-10))
        check("sensitivity", self.sensitivity, Real(0, open_low=True))
        check("candidates", self.candidates, Integer(1))
        check("count", self.count, Integer(1, self.candidates))

    @property
    def event(self) -> DpEvent:
        """What all choices cost together."""
        return ApproximateDpEvent(self.epsilon)

    def check(self, value: Any) -> None:
        """Check the public number of candidates."""
        if np.shape(value) != (self.candidates,):
            raise ParameterError(
                f"value must hold one utility for each of {self.candidates} candidates"
            )

    def _exponents(self, utility: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ε·(max u − u)/(2·Δ·k), cut where it no longer matters."""
        rate = self.epsilon * _KEPT / (2.0 * self.sensitivity * self.count)
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum((utility.max() - utility) * rate, LARGEST))

    def probabilities(self, value: Any) -> NDArray[np.float64]:
        """Return the probability of each candidate to be the first; private."""
        weights = np.exp(-self._exponents(clean_utilities(value)))
        return np.asarray(weights / weights.sum())

    def distance(self, value: Any, other: Any) -> float:
        """Return the largest change of a utility over the sensitivity."""
        moved = np.abs(clean_utilities(value) - clean_utilities(other))
        return float(moved.max()) / self.sensitivity

    def draw(self, value: Any, noise: Noise) -> NDArray[np.int64]:
        """Return the chosen candidates, the best first."""
        utility = clean_utilities(value)
        left, found = np.arange(self.candidates), []
        for _ in range(self.count):
            ones = np.ones(left.size, np.int64)
            place = choose(noise.stream, ones, self._exponents(utility[left]))
            found.append(left[place])
            left = np.delete(left, place)
        return np.array(found, np.int64)

    def bias(self, value: Any) -> float:
        """Return the expected utility of the first choice minus the best one."""
        utility = clean_utilities(value)
        return float(self.probabilities(value) @ np.maximum(utility - utility.max(), -1e300))

    def variance(self, value: Any) -> float:
        """Return the variance of the utility of the first choice."""
        utility = np.maximum(clean_utilities(value), clean_utilities(value).max() - 1e150)
        chosen = self.probabilities(value)
        return float(chosen @ (utility - chosen @ utility) ** 2)
