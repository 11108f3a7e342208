"""Which items, and numbers about each: randomized response beside Laplace noise, per person."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.errors import ParameterError
from tacit.mechanisms.additive import Laplace
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.local import RandomizedResponse
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import REPLACE, DpEvent, compose, repeat

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ItemResponses"]


@dataclass(frozen=True)
class ItemResponses(Mechanism):
    """A bit per item and noisy numbers, of every person (the baseline of Shin et al. 2018).

    A person's value is a row: ``items`` bits, 1 where the person has rated the item, then
    ``numbers`` numbers. Bits go through randomized response, numbers get Laplace noise.

    Parameters
    ----------
    bit_epsilon
        ε of one bit.
    changed
        How many bits of a person differ between neighbours: 1, or all ``items``.
    scale, reach
        Of the Laplace noise, and the L1 distance of a person's numbers between neighbours: rows are
        shortened to an L1 norm of half of it.
    items, numbers
        The sizes.
    """

    bit_epsilon: float
    changed: int
    scale: float
    reach: float
    items: int
    numbers: int

    def __post_init__(self) -> None:
        check("items", self.items, Integer(1))
        check("numbers", self.numbers, Integer(1))
        check("changed", self.changed, Integer(1, self.items))
        self._bits, self._numbers  # noqa: B018 - they check their parameters

    @property
    def _bits(self) -> RandomizedResponse:
        return RandomizedResponse(self.bit_epsilon)

    @property
    def _numbers(self) -> Laplace:
        """Return the noise of one person, whose grid is that of everybody."""
        return Laplace(self.scale, self.reach, (self.numbers,), REPLACE)

    @property
    def event(self) -> DpEvent:
        """What each person pays: the bits that change, and the numbers."""
        return compose([repeat(self._bits.event, self.changed), self._numbers.event])

    def check(self, value: Any) -> None:
        """Check the shape."""
        if np.ndim(value) != 2 or np.shape(value)[1] != self.items + self.numbers:
            raise ParameterError(
                f"value must hold a row of {self.items} bits and {self.numbers} numbers per person"
            )

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Release a row per person."""
        table = np.array(value, np.float64)
        bits = (table[:, : self.items] == 1.0).astype(np.int64)
        table[:, : self.items] = self._bits.draw(bits.ravel(), noise).reshape(bits.shape)
        numbers = np.nan_to_num(table[:, self.items :], posinf=0.0, neginf=0.0)
        with np.errstate(over="ignore"):
            lengths = np.abs(numbers).sum(axis=1, keepdims=True)
        room = self.reach / 2.0 * (1.0 - 2.0**-30)  # for the rounding of sums and products
        numbers = numbers * np.minimum(1.0, room / np.maximum(lengths, 1e-300))
        everybody = dataclasses.replace(self._numbers, shape=numbers.shape)
        table[:, self.items :] = everybody.draw(numbers, noise)
        return table

    def bits(self, answers: Any) -> NDArray[np.float64]:
        """Return unbiased estimates of the true bits from released ones: (y − p/2)/(1 − p)."""
        lie = self._bits.lie
        return np.asarray((np.asarray(answers)[:, : self.items] - lie / 2.0) / (1.0 - lie))

    def bias(self, value: Any) -> NDArray[np.float64]:
        """Return that of every bit, p·(½ − y); numbers within the norm have none."""
        table = np.asarray(value, np.float64)
        found = np.zeros(table.shape)
        found[:, : self.items] = self._bits.lie * (0.5 - table[:, : self.items])
        return found

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return that of every released bit and number."""
        table = np.asarray(value, np.float64)
        found = np.full(table.shape, self._numbers.variance())
        lie = self._bits.lie
        found[:, : self.items] = lie / 2.0 * (1.0 - lie / 2.0)
        return found
