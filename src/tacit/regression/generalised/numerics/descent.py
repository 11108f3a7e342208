"""Coefficients of hundreds of features: gradient steps, averaged, and then their length.

With hundreds of features a noisy matrix of their products says little about directions, and
Newton's method has no Hessian. In a frame in which no direction is longer than white
(`Frame.of_many`) the slope of the gradient is at most n·max μ′, so that steps of its inverse are
never too long; Nesterov's momentum makes up for directions that are short.

**The ridge.** All rounds together say T = Σ w·z·y with noise of variance v. With A_j = n·h·s_j the
slope along a direction of spread s_j and a ridge ρ a coefficient is t_j/(A_j + ρ). If truths have
the variance Λ, and J = A, what it misses is (ρ²·Λ + A_j + v)/(A_j + ρ)², which counts A_j times in
predictions: ρ is where the sum of that over directions is least. Everything in it is public or
released.

**The length.** A ridge makes coefficients too small, and where noise hides everything they are
noise. So the last rounds are asked along what was found: two coefficients, the intercept and how
much of that direction counts, have a posterior of their own (`…numerics.wide`), from gradients
whose noise is independent of what led there. Directions beside it are as uncertain as the sum
above says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tacit._core.arrays import Array
from tacit.regression.generalised.numerics.frame import Frame
from tacit.regression.generalised.numerics.links import Link

__all__ = ["Descent", "turned"]

# of log-odds and log-rates over rows, in the ridge's rule: rather too large, because the length of
# what is found is measured afterwards
_SCALE = {"logistic": 4.0, "poisson": 1.0}
_ROOM = 1.3  # by which a direction may be longer than white
_RIDGES = np.exp(np.linspace(math.log(1e-4), math.log(1e3), 150))  # of the largest slope
_MOMENTUM = 0.9  # at most


@dataclass
class Descent:
    """Accelerated gradient steps with a ridge; the second half of them is averaged.

    Parameters
    ----------
    link, frame
        The model.
    offset
        Where the intercept begins.
    noise
        The variance of noise on a number of the mean gradient of all rounds.
    rounds
        How many there are.
    """

    link: Link
    frame: Frame
    offset: float
    noise: float
    rounds: int
    place: Array = field(init=False)
    ridge: float = field(init=False)

    def __post_init__(self) -> None:
        rows = self.frame.rows * self.frame.kept
        begin = np.array([self.offset])
        steep = 0.25 if self.link.name == "logistic" else 2.0 * float(self.link.slope(begin)[0])
        self._slopes = 0.8 * steep * rows * self.frame.spread[1:]
        largest = _ROOM * steep * rows
        scale = _SCALE[self.link.name]
        missed = [self._missed(one * largest, scale) @ self._slopes for one in _RIDGES]
        self.ridge = float(_RIDGES[int(np.argmin(missed))]) * largest
        self._step = 1.0 / (largest + self.ridge)
        root = math.sqrt((largest + self.ridge) / self.ridge)
        self._momentum = min((root - 1.0) / (root + 1.0), _MOMENTUM)
        self.place = np.zeros(self.frame.size)
        self.place[0] = self.offset
        self._last, self._total, self._count, self._done = self.place, 0.0 * self.place, 0, 0

    def _missed(self, ridge: float, scale: float) -> Array:
        """Return the mean square error of every slope."""
        variance = scale**2 / max(float(self.frame.spread[1:].sum()), 1e-300)
        found = ridge**2 * variance + self._slopes + self.noise
        return np.asarray(found / (self._slopes + ridge) ** 2)

    def missed(self, scale: float) -> float:
        """Return the mean square error of a slope, if they are as large as η of this spread."""
        return float(self._missed(self.ridge, scale).mean())

    def observe(self, gradient: Array) -> None:
        """Take a step from the place by the gradient there."""
        pull = gradient + self.ridge * self.place
        pull[0] = gradient[0]
        found = self.place - self._step * pull
        self._done += 1
        if 2 * self._done > self.rounds:
            self._total, self._count = self._total + found, self._count + 1
        self.place = found + self._momentum * (found - self._last)
        self._last = found

    @property
    def mean(self) -> Array:
        """The average of the second half of steps."""
        return np.asarray(self._total / max(self._count, 1))


def turned(direction: Array) -> Array:
    """Return an orthogonal matrix whose second column is a direction of slopes (Householder).

    >>> turned(np.array([0.0, 0.6, 0.8]))[:, 1].round(6).tolist()
    [0.0, 0.6, 0.8]
    """
    found = np.eye(len(direction))
    apart = found[:, 1] - direction
    square = float(apart @ apart)
    if square < 1e-24:
        return found
    return np.asarray(found - 2.0 * np.outer(apart, apart) / square)
