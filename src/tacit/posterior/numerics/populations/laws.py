"""Populations: the law P_θ from which each person's number is drawn.

Every population is a **reparameterised simulator**, x = φ_θ(z) with z standard normal, one for
each person (thesis (5.4)). One base law for all of them lets correlated pseudo-marginal samplers
work with any population, and turns an expectation into a one-dimensional integral.

| population | θ | x = φ_θ(z) |
|---|---|---|
| `NormalMean` | mean | θ + sd·z |
| `NormalVariance` | variance, mean 0 | √θ·z |
| `UniformWidth` | half the width, centre 0 | θ·(2Φ(z) − 1) |
| `Bernoulli` | probability of 1 | 1 if Φ(z) > 1 − θ |
| `Exponential` | mean | −θ·log Φ(−z) |
| `Poisson` | mean | the smallest k with P(X ≤ k) ≥ Φ(z) |

Data are clipped to public bounds before anything is computed from them, and so is x here: what
is modelled is what is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tacit._core.arrays import Array
from tacit._core.check import Real, check
from tacit._core.linear import inlined
from tacit.errors import ParameterError
from tacit.posterior.numerics.populations.base import CustomPopulation, Population
from tacit.posterior.numerics.populations.nodes import Continuous, Discrete
from tacit.posterior.numerics.priors import Beta, ScalarPrior, Uniform

__all__ = [
    "Bernoulli",
    "CustomPopulation",
    "Exponential",
    "NormalMean",
    "NormalVariance",
    "Poisson",
    "Population",
    "UniformWidth",
    "transform",
]

NORMAL_MEAN, NORMAL_VARIANCE, UNIFORM_WIDTH, BERNOULLI, EXPONENTIAL, POISSON = range(6)
_REACH = 8.6  # standard deviations beyond which a normal law has no mass that a double sees
_LARGEST_COUNT = 500.0  # e^−θ must not underflow in the inversion of the Poisson law


@inlined
def transform(code: int, constant: float, theta: float, z: float, high: float) -> Any:
    """Return φ_θ(z) of a built-in population; counts need not exceed ``high``."""
    if code == 0:
        return theta + constant * z
    if code == 1:
        return math.sqrt(theta) * z
    if code == 2:
        return theta * math.erf(z * 0.7071067811865476)
    if code == 3:
        return 1.0 if 0.5 * math.erfc(z * 0.7071067811865476) < theta else 0.0
    if code == 4:
        return -theta * math.log(0.5 * math.erfc(z * 0.7071067811865476))
    below = 0.5 * math.erfc(-z * 0.7071067811865476)
    mass = math.exp(-theta)
    total = mass
    count = 0.0
    while total < below and count < high:
        count += 1.0
        mass *= theta / count
        total += mass
    return count


@dataclass(frozen=True)
class NormalMean(Continuous):
    """N(θ, sd²) with a known standard deviation."""

    sd: float = 1.0

    code = NORMAL_MEAN
    names = ("mean",)

    def __post_init__(self) -> None:
        check("sd", self.sd, Real(0, open_low=True))

    @property
    def constant(self) -> float:  # type: ignore[override]
        """The known standard deviation."""
        return self.sd

    def simulate(self, theta: Array, z: Array) -> Array:
        """Return θ + sd·z."""
        return np.asarray(theta[0] + self.sd * z)

    def log_density(self, x: Array, theta: Array) -> Array:
        """Return the normal log density."""
        gap = (x - theta[0]) / self.sd
        return np.asarray(-0.5 * gap * gap - math.log(self.sd * math.sqrt(2.0 * math.pi)))

    def score(self, x: Array, theta: Array) -> Array:
        """Return (x − θ)/sd²."""
        return np.asarray((x - theta[0]) / self.sd**2)[..., None]

    def limits(self, theta: Array) -> tuple[float, float]:
        """Return where all mass lies."""
        return theta[0] - _REACH * self.sd, theta[0] + _REACH * self.sd

    def share_below(self, x: Any, theta: Array) -> Array:
        """Return P(X < x)."""
        return np.asarray(special.ndtr((np.asarray(x) - theta[0]) / self.sd))

    def share_above(self, x: float, theta: Array) -> float:
        """Return P(X > x)."""
        return float(special.ndtr((theta[0] - x) / self.sd))

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat over the bounds."""
        return (Uniform(*bounds),)


@dataclass(frozen=True)
class NormalVariance(Continuous):
    """N(0, θ)."""

    code = NORMAL_VARIANCE
    scales = ("positive",)
    names = ("variance",)

    def simulate(self, theta: Array, z: Array) -> Array:
        """Return √θ·z."""
        return np.asarray(math.sqrt(theta[0]) * z)

    def log_density(self, x: Array, theta: Array) -> Array:
        """Return the normal log density."""
        return np.asarray(-0.5 * x * x / theta[0] - 0.5 * math.log(2.0 * math.pi * theta[0]))

    def score(self, x: Array, theta: Array) -> Array:
        """Return (x²/θ − 1)/(2θ)."""
        return np.asarray((x * x / theta[0] - 1.0) / (2.0 * theta[0]))[..., None]

    def limits(self, theta: Array) -> tuple[float, float]:
        """Return where all mass lies."""
        reach = _REACH * math.sqrt(theta[0])
        return -reach, reach

    def share_below(self, x: Any, theta: Array) -> Array:
        """Return P(X < x)."""
        return np.asarray(special.ndtr(np.asarray(x) / math.sqrt(theta[0])))

    def share_above(self, x: float, theta: Array) -> float:
        """Return P(X > x)."""
        return float(special.ndtr(-x / math.sqrt(theta[0])))

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat up to the largest variance within the bounds, a quarter of the squared range."""
        return (Uniform(0.0, 0.25 * (bounds[1] - bounds[0]) ** 2),)


@dataclass(frozen=True)
class UniformWidth(Continuous):
    """Uniform(−θ, θ)."""

    code = UNIFORM_WIDTH
    scales = ("positive",)
    names = ("width",)
    has_density = False  # its support moves with θ: no score (thesis, Example 5)

    def simulate(self, theta: Array, z: Array) -> Array:
        """Return θ·(2Φ(z) − 1)."""
        return np.asarray(theta[0] * special.erf(z / math.sqrt(2.0)))

    def log_density(self, x: Array, theta: Array) -> Array:
        """Return −log 2θ within the support."""
        return np.where(np.abs(x) <= theta[0], -math.log(2.0 * theta[0]), -np.inf)

    def limits(self, theta: Array) -> tuple[float, float]:
        """Return where all mass lies."""
        return -float(theta[0]), float(theta[0])

    def share_below(self, x: Any, theta: Array) -> Array:
        """Return P(X < x)."""
        return np.asarray(np.clip((np.asarray(x) / theta[0] + 1.0) / 2.0, 0.0, 1.0))

    def share_above(self, x: float, theta: Array) -> float:
        """Return P(X > x)."""
        return float(np.clip((1.0 - x / theta[0]) / 2.0, 0.0, 1.0))

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat up to the larger of the bounds."""
        return (Uniform(0.0, max(abs(bounds[0]), abs(bounds[1]))),)


@dataclass(frozen=True)
class Exponential(Continuous):
    """Exponential with mean θ."""

    code = EXPONENTIAL
    scales = ("positive",)
    names = ("mean",)

    def simulate(self, theta: Array, z: Array) -> Array:
        """Return −θ·log Φ(−z)."""
        return np.asarray(-theta[0] * special.log_ndtr(-np.asarray(z)))

    def log_density(self, x: Array, theta: Array) -> Array:
        """Return −x/θ − log θ for x ≥ 0."""
        return np.where(x >= 0.0, -x / theta[0] - math.log(theta[0]), -np.inf)

    def score(self, x: Array, theta: Array) -> Array:
        """Return (x/θ − 1)/θ."""
        return np.asarray((x / theta[0] - 1.0) / theta[0])[..., None]

    def limits(self, theta: Array) -> tuple[float, float]:
        """Return where all mass lies."""
        return 0.0, 40.0 * float(theta[0])

    def share_below(self, x: Any, theta: Array) -> Array:
        """Return P(X < x)."""
        return np.asarray(-np.expm1(-np.maximum(x, 0.0) / theta[0]))

    def share_above(self, x: float, theta: Array) -> float:
        """Return P(X > x)."""
        return math.exp(-max(x, 0.0) / float(theta[0]))

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat up to the upper bound."""
        return (Uniform(0.0, bounds[1]),)

    def check_bounds(self, bounds: tuple[float, float]) -> None:
        """The upper bound must be positive."""
        if bounds[1] <= 0.0:
            raise ParameterError(f"bounds of an exponential law must reach above 0, got {bounds}")


@dataclass(frozen=True)
class Bernoulli(Discrete):
    """0 or 1, the latter with probability θ."""

    code = BERNOULLI
    scales = ("unit",)
    names = ("probability",)

    def simulate(self, theta: Array, z: Array) -> Array:
        """Return 1 where Φ(−z) < θ."""
        return np.asarray(special.ndtr(-np.asarray(z)) < theta[0], np.float64)

    def log_density(self, x: Array, theta: Array) -> Array:
        """Return x·log θ + (1 − x)·log(1 − θ)."""
        return np.asarray(special.xlogy(x, theta[0]) + special.xlog1py(1.0 - x, -theta[0]))

    def score(self, x: Array, theta: Array) -> Array:
        """Return (x − θ)/(θ(1 − θ))."""
        return np.asarray((x - theta[0]) / (theta[0] * (1.0 - theta[0])))[..., None]

    def largest(self, bounds: tuple[float, float]) -> int:
        """Return the largest value that counts on its own."""
        return 1

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat."""
        return (Beta(1.0, 1.0),)

    def check_bounds(self, bounds: tuple[float, float]) -> None:
        """The bounds must hold 0 and 1."""
        if bounds[0] > 0.0 or bounds[1] < 1.0:
            raise ParameterError(f"bounds of 0/1 answers must hold 0 and 1, got {bounds}")


@dataclass(frozen=True)
class Poisson(Discrete):
    """Counts with mean θ."""

    code = POISSON
    scales = ("positive",)
    names = ("mean",)

    def simulate(self, theta: Array, z: Array) -> Array:
        """Return the quantile at Φ(z)."""
        k = np.arange(math.ceil(theta[0] + 40.0 * math.sqrt(theta[0]) + 60.0))
        total = np.cumsum(np.exp(self.log_density(k, theta)))
        return np.asarray(np.searchsorted(total, special.ndtr(np.asarray(z))), np.float64)

    def log_density(self, x: Array, theta: Array) -> Array:
        """Return x·log θ − θ − log x!."""
        return np.asarray(special.xlogy(x, theta[0]) - theta[0] - special.gammaln(x + 1.0))

    def score(self, x: Array, theta: Array) -> Array:
        """Return x/θ − 1."""
        return np.asarray(x / theta[0] - 1.0)[..., None]

    def largest(self, bounds: tuple[float, float]) -> int:
        """Return the largest value that counts on its own."""
        return math.ceil(bounds[1])

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat up to the upper bound."""
        return (Uniform(0.0, bounds[1]),)

    def check_bounds(self, bounds: tuple[float, float]) -> None:
        """The upper bound must be a count that can be inverted."""
        if not 0.0 < bounds[1] <= _LARGEST_COUNT:
            raise ParameterError(
                f"bounds of a Poisson law must end within (0, {_LARGEST_COUNT:g}], got {bounds}: "
                "for larger counts pass a CustomPopulation"
            )
