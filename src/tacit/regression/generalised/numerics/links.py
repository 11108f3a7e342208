"""Links: the mean of a response given the linear predictor, and its averages over normal rows.

Both links are canonical, so the slope of the mean is the variance of the response, and the
gradient of minus the log-likelihood of one row is (mean − response)·row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit._core.arrays import Array

__all__ = ["LINKS", "Curve", "Link"]

LINKS = ("logistic", "poisson")
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(25)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_FAR = 40.0  # log-odds beyond which a probability is 0 or 1 in float64


@dataclass(frozen=True)
class Curve:
    """Averages over η = b + r·t with a standard normal t.

    Attributes
    ----------
    mean
        Of the response.
    slope, slope_t, slope_tt
        Of the slope, of the slope times t, and times t².
    """

    mean: float
    slope: float
    slope_t: float
    slope_tt: float


@dataclass(frozen=True)
class Link:
    """A link by its name; no mean exceeds ``top``, the largest response.

    Examples
    --------
    >>> Link("logistic", 1.0).mean(np.array([0.0])).tolist()
    [0.5]
    >>> Link("poisson", 100.0).mean(np.array([0.0, 9.0])).round(9).tolist()
    [1.0, 100.0]
    """

    name: str
    top: float

    def mean(self, eta: Array) -> Array:
        """Return the mean response at linear predictors."""
        if self.name == "logistic":
            return np.asarray(1.0 / (1.0 + np.exp(-np.clip(eta, -_FAR, _FAR))))
        return np.asarray(np.exp(np.minimum(eta, math.log(self.top))))

    def slope(self, eta: Array) -> Array:
        """Return the slope of the mean, which is the variance of the response."""
        mean = self.mean(eta)
        return np.asarray(mean * (1.0 - mean)) if self.name == "logistic" else mean

    def inverse(self, mean: float) -> float:
        """Return the linear predictor of a mean within its range."""
        if self.name == "logistic":
            return math.log(mean / (1.0 - mean))
        return math.log(mean)

    def curve(self, offset: float, spread: float) -> Curve:
        """Return averages over normal predictors with this mean and standard deviation."""
        eta = offset + spread * _NODES
        slope = self.slope(eta) * _WEIGHTS
        return Curve(
            float(self.mean(eta) @ _WEIGHTS),
            float(slope.sum()),
            float(slope @ _NODES),
            float(slope @ np.square(_NODES)),
        )

    def averages(self, offset: Array, spread: Array) -> tuple[Array, Array, Array, Array]:
        """Return the numbers of `Curve` for many normal laws of predictors at once."""
        eta = offset[:, None] + spread[:, None] * _NODES
        slope = self.slope(eta) * _WEIGHTS
        return (
            self.mean(eta) @ _WEIGHTS,
            slope.sum(axis=1),
            slope @ _NODES,
            slope @ np.square(_NODES),
        )
