"""The piecewise mechanism: a number near the value, or anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.local import _GIVE, LocalNumber, _coins, _uniform
from tacit.mechanisms.noise import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Piecewise"]


@dataclass(frozen=True)
class Piecewise(LocalNumber):
    """The piecewise mechanism of Wang et al. (2019) on [−1, 1], on a grid of cells.

    The output range is cut into M = 2²⁰ cells. A window of W cells, whose place is linear in
    x (randomly rounded), gets probability e^{ε/2}/(e^{ε/2} + 1), the rest the remainder, so that
    any two inputs give any cell with probabilities at most e^ε apart. The cell is released as
    an unbiased number.
    """

    cells = 1 << 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._window < 1:
            raise ParameterError("epsilon is too large for the grid of the piecewise mechanism")

    @property
    def _window(self) -> int:
        # (C − 1)/(2C) of the cells, with C = coth(ε/4): W/M = 1/(e^{ε/2} + 1)
        return round(self.cells / (math.exp(self.epsilon / 2.0) + 1.0))

    @property
    def _inside(self) -> float:
        """The probability of the window: per-cell odds of e^ε against the rest, rounded down."""
        outside_cells, inside_cells = self.cells - self._window, self._window
        odds = math.exp(self.epsilon) * inside_cells / outside_cells
        return odds / (1.0 + odds) * (1.0 - _GIVE)

    def _affine(self) -> tuple[float, float]:
        """Return (a, b): the mean cell is a + b·(start of the window)."""
        cells, window, inside = self.cells, self._window, self._inside
        outside = 1.0 - inside
        rest = cells - window
        slope = inside - outside * window / rest
        constant = inside * (window - 1) / 2.0 + outside / rest * (
            cells * (cells - 1) / 2.0 - window * (window - 1) / 2.0
        )
        return constant, slope

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Release a number per person."""
        clipped = clip_values(value, -1.0, 1.0)
        count, window, rest = clipped.size, self._window, self.cells - self._window
        place = (clipped + 1.0) / 2.0 * rest  # 0 … rest, both exactly: no coin leads beyond
        start = np.floor(place).astype(np.int64)
        start += _coins(noise, place - start, count)
        inside = _coins(noise, self._inside, count)
        within = start + _uniform(noise, window, count)
        beyond = _uniform(noise, rest, count)
        beyond += np.where(beyond >= start, window, 0)
        constant, slope = self._affine()
        cell = np.where(inside, within, beyond)
        return np.asarray(2.0 / rest * (cell - constant) / slope - 1.0)

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return the variance per person, of the discrete law itself.

        For a fine grid it is x²/(e^{ε/2} − 1) + (e^{ε/2} + 3)/(3(e^{ε/2} − 1)²).
        """
        window, rest = self._window, self.cells - self._window
        constant, slope = self._affine()
        place = (clip_values(value, -1.0, 1.0) + 1.0) / 2.0 * rest
        share = place - np.floor(place)  # of the upper of the two windows
        first = second = np.zeros(place.shape)
        for start, weight in ((np.floor(place), 1.0 - share), (np.ceil(place), share)):
            first = first + weight * (constant + slope * start)
            second = second + weight * self._second_moment(start, window, rest)
        return np.asarray((2.0 / (rest * slope)) ** 2 * (second - first**2))

    def _second_moment(self, start: Any, window: int, rest: int) -> Any:
        """Return E[cell²] given the start of the window."""

        def squares(count: Any) -> Any:  # 0² + … + (count − 1)²
            return (count - 1.0) * count * (2.0 * count - 1.0) / 6.0

        inner = squares(start + window) - squares(start)
        outer = squares(float(self.cells)) - inner
        return self._inside * inner / window + (1.0 - self._inside) * outer / rest
