"""What rounds say of hundreds of coefficients: first where to, and then how far.

Four rounds of five descend (`…numerics.descent`). The others are asked along what was found: its
intercept and its length are two coefficients of rows (1, d·z), whose posterior knows the noise
(`…numerics.hypotheses`), with draws of how far rows spread along d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tacit._core.arrays import Array
from tacit._core.rng import generator
from tacit.regression.generalised.numerics.descent import Descent, turned
from tacit.regression.generalised.numerics.frame import Frame
from tacit.regression.generalised.numerics.hypotheses import Hypotheses
from tacit.regression.generalised.numerics.links import Link
from tacit.regression.generalised.numerics.rounds import Round

__all__ = ["Wide"]

_DESCENDING = 0.8  # of all rounds
_HYPOTHESES = 64
_LEAST_SPREAD = 0.05  # of how far rows are thought to spread along what was found
_LEAST_SCALE = 0.25  # of η over rows, for what is left beside what was found


@dataclass
class Wide:
    """The posterior of many coefficients, in the frame turned to where rounds lead.

    Parameters
    ----------
    link, frame
        The model.
    offset, offset_sd
        The prior of the intercept.
    asked
        How many rounds there are.
    """

    link: Link
    frame: Frame
    offset: float
    offset_sd: float
    asked: int
    dispersion: float = 1.0
    _descent: Descent | None = field(default=None, init=False, repr=False)
    _along: Hypotheses | None = field(default=None, init=False, repr=False)
    _taken: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self._descending = max(1, math.floor(_DESCENDING * self.asked))
        self._place = np.zeros(self.frame.size)
        self._place[0] = self.offset
        self._direction, self._spread, self._noise = 0.0 * self._place, 0.0, 0.0

    @property
    def place(self) -> Array:
        """Where the next round is asked."""
        return self._place

    @property
    def rows(self) -> float:
        """About how many rows there are."""
        return self.frame.rows

    def take(self, told: Round) -> None:
        """Take in everything that a round said."""
        if self._descent is None:
            noise = told.noise / self._descending
            self._descent = Descent(self.link, self.frame, self.offset, noise, self._descending)
        self._taken += 1
        if self._taken <= self._descending:
            self._descent.observe(told.gradient)
            self._place = self._descent.place
            if self._taken == self._descending:
                self._turn(self._descent.mean)
            return
        self._measure(told)
        assert self._along is not None
        both = np.array([self._place[0], float(self._direction @ self._place)])
        seen = np.array([told.gradient[0], float(self._direction @ told.gradient)])
        kept, whole = self.frame.kept, self.frame.rows + self._spread
        sd = math.sqrt(max(self._noise, 1e-12))
        self._along.take(
            Round(both, 0.0 * both, seen / kept, told.noise / kept**2, whole, sd, 0, 0)
        )
        self._put(self._along.place)

    def _turn(self, found: Array) -> None:
        """Go on along what was found."""
        length = float(np.linalg.norm(found[1:]))
        self._direction = np.concatenate([[0.0], found[1:] / max(length, 1e-300)])
        if not length:
            self._direction[1] = 1.0
        self._put(np.array([found[0], length]))

    def _put(self, both: Array) -> None:
        self._place = both[1] * self._direction
        self._place[0] = both[0]

    def _measure(self, told: Round) -> None:
        """Learn how far rows spread along the direction, and begin with draws of that."""
        done = self._taken - self._descending - 1
        own, twice = told.along, self.frame.kept_twice
        self._spread = (self._spread * done + own / twice) / (done + 1)
        self._noise = (told.along_sd / twice) ** 2 / (done + 1)
        if self._along is not None:
            return
        thought = self.frame.rows * float(self.frame.spread @ np.square(self._direction))
        least = _LEAST_SPREAD * thought
        count = _HYPOTHESES if told.noise else 8
        rng = generator(0, "wide")
        squares = np.maximum(self._spread, least) + math.sqrt(self._noise) * rng.normal(size=count)
        grams = np.zeros((count, 2, 2))
        grams[:, 0, 0], grams[:, 1, 1] = self.frame.rows, np.maximum(squares, least)
        two = np.ones(2)
        plain = Frame(np.eye(2), two, two, self.frame.rows, math.inf, 1.0, 1.0)
        self._along = Hypotheses(self.link, plain, grams, self.offset, self.offset_sd)

    def settle(self, dispersion: float) -> None:
        """Take in by how much the variance of responses exceeds that of the link."""
        self.dispersion = dispersion
        if self._along is not None:
            self._along.settle(dispersion)
            self._put(self._along.place)

    def total_mean(self, theta: Array) -> float:
        """Return the expected Σ of mean responses."""
        spread = math.sqrt(max(self._spread / self.rows, 1e-12)) * float(self._direction @ theta)
        return float(self.rows * self.link.curve(float(theta[0]), abs(spread)).mean)

    # -- what was learned ------------------------------------------------------------------

    @property
    def turn(self) -> Array:
        """The matrix whose second column is what was found; laws are in its columns."""
        return turned(self._direction)

    @property
    def weights(self) -> Array:
        """How likely every hypothesis is."""
        return np.ones(1) if self._along is None else self._along.weights

    @property
    def laws(self) -> tuple[Array, Array]:
        """The means and variances of the posterior given each hypothesis, in the turned frame."""
        size, count = self.frame.size, len(self.weights)
        means, variances = np.zeros((count, size)), np.empty((count, size))
        if self._along is None or self._descent is None:
            means[:, :2] = self._place[0], float(self._direction @ self._place)
            return means, np.full((count, size), 1.0)
        means[:, :2], covariances = self._along.laws
        spread = max(self._spread / self.rows, 0.0)
        eta = spread * float(self.weights @ np.square(means[:, 1]))
        variances[:] = self._descent.missed(math.sqrt(max(eta, _LEAST_SCALE**2)))
        variances[:, :2] = np.diagonal(covariances, axis1=1, axis2=2)
        return means, variances
