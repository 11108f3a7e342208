"""Which items, and numbers about each: randomized response beside Laplace noise, per person."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.privacy.events import REPLACE, DpEvent, LaplaceDpEvent, compose, repeat

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ItemResponses"]

_FINE = 30  # log2 of the noise's scale in grid steps


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
        Of the Laplace noise, and the L1 distance of a person's numbers between neighbours: rows
        are shortened to an L1 norm of half of it.
    items, numbers
        The sizes.
    """

    bit_epsilon: float
    changed: int
    scale: float
    reach: float
    items: int
    numbers: int

    local = True

    def __post_init__(self) -> None:
        check("items", self.items, Integer(1))
        check("numbers", self.numbers, Integer(1))
        check("changed", self.changed, Integer(1, self.items))
        check("scale", self.scale, Real(0, open_low=True))
        check("reach", self.reach, Real(0, open_low=True))
        check("bit_epsilon", self.bit_epsilon, Real(1e-6, 30))

    @property
    def _bits(self) -> RandomizedResponse:
        return RandomizedResponse(self.bit_epsilon)

    @property
    def _grid(self) -> Grid:
        """A fine one: a person's numbers are many, and rounding moves each of them."""
        return Grid.for_scale(self.scale, _FINE)

    @property
    def event(self) -> DpEvent:
        """What each person pays: the bits that change, and the numbers."""
        reach = self.reach + self._grid.growth(self.numbers, 1, REPLACE)
        return compose(
            [repeat(self._bits.event, self.changed), LaplaceDpEvent(self.scale / reach)]
        )

    @staticmethod
    def scale_for(epsilon: float, reach: float, numbers: int) -> float:
        """Return the scale at which the numbers of a person are ε-private, rounding included."""
        left = epsilon - numbers * 2.0**-_FINE
        if left < epsilon / 2.0:
            raise ParameterError(f"ε = {epsilon:g} is too little for {numbers} numbers")
        return reach / left * (1.0 + 1e-12)

    def check(self, value: Any) -> None:
        """Check the shape."""
        if np.ndim(value) != 2 or np.shape(value)[1] != self.items + self.numbers:
            raise ParameterError(
                f"value must hold a row of {self.items} bits and {self.numbers} numbers per person"
            )

    def _shortened(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return everybody's numbers, shortened to an L1 norm of half the reach."""
        numbers = np.nan_to_num(table[:, self.items :], posinf=0.0, neginf=0.0)
        with np.errstate(over="ignore"):
            lengths = np.abs(numbers).sum(axis=1, keepdims=True)
        room = self.reach / 2.0 * (1.0 - 2.0**-30)  # for the rounding of sums and products
        return np.asarray(numbers * np.minimum(1.0, room / np.maximum(lengths, 1e-300)))

    def distance(self, value: Any, other: Any) -> float:
        """Return how far one person's bits or numbers are apart, or how many people differ."""
        ours, theirs = (np.asarray(part, np.float64) for part in (value, other))
        bits = ((ours == 1.0) != (theirs == 1.0))[:, : self.items].sum(axis=1)
        apart = np.abs(self._shortened(ours) - self._shortened(theirs)).sum(axis=1)
        people = int(np.count_nonzero((bits > 0) | (apart > 0.0)))
        far = max(float(bits.max()) / self.changed, float(apart.max()) / self.reach)
        return max(far, float(people)) if people > 1 else far

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Release a row per person."""
        table = np.array(value, np.float64)
        bits = (table[:, : self.items] == 1.0).astype(np.int64)
        table[:, : self.items] = self._bits.draw(bits.ravel(), noise).reshape(bits.shape)
        numbers = self._shortened(table)
        steps = noise.laplace(numbers.size, math.ldexp(self.scale, -self._grid.exponent))
        total = self._grid.round(numbers) + steps.reshape(numbers.shape)
        table[:, self.items :] = self._grid.values(total)
        return table

    def rated(self, answers: Any) -> NDArray[np.float64]:
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
        found = np.full(table.shape, 2.0 * self.scale**2)
        lie = self._bits.lie
        found[:, : self.items] = lie / 2.0 * (1.0 - lie / 2.0)
        return found
