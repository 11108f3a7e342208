"""Priors of single parameters; a vector of parameters has one each, independent.

The densities are written once, for plain Python and for compiled loops alike.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import special

from tacit._core.arrays import Array
from tacit._core.check import Real, check
from tacit._core.linear import inlined
from tacit.errors import ParameterError

__all__ = ["Beta", "Gamma", "InverseGamma", "Normal", "ScalarPrior", "Uniform", "log_prior"]

_POSITIVE = Real(0, open_low=True)


@inlined
def log_prior(code: float, a: float, b: float, x: float) -> Any:
    """Return the log density at x up to a constant; −∞ outside of the support."""
    if code == 0.0:  # uniform
        return 0.0 if a < x < b else -math.inf
    if code == 1.0:  # normal
        return -0.5 * (x - a) * (x - a) / (b * b)
    if x <= 0.0:
        return -math.inf
    if code == 2.0:  # gamma: shape, scale
        return (a - 1.0) * math.log(x) - x / b
    if code == 3.0:  # inverse gamma: shape, scale
        return -(a + 1.0) * math.log(x) - b / x
    if x >= 1.0:
        return -math.inf
    return (a - 1.0) * math.log(x) + (b - 1.0) * math.log1p(-x)  # beta


@dataclass(frozen=True)
class ScalarPrior(ABC):
    """Base: a law with two numbers."""

    a: float
    b: float
    code: ClassVar[int] = -1

    def __post_init__(self) -> None:
        check("the first parameter", self.a, _POSITIVE)
        check("the second parameter", self.b, _POSITIVE)

    def log_density(self, x: float) -> float:
        """Return the log density up to a constant."""
        return float(log_prior(float(self.code), self.a, self.b, float(x)))

    @abstractmethod
    def quantile(self, level: Any) -> Array:
        """Return quantiles."""

    @property
    @abstractmethod
    def mean(self) -> float:
        """The mean."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance."""

    def sample(self, rng: np.random.Generator, count: int) -> Array:
        """Draw, by inversion."""
        return self.quantile(rng.random(count))


@dataclass(frozen=True)
class Uniform(ScalarPrior):
    """Uniform between a and b."""

    code: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check("a", self.a, Real())
        check("b", self.b, Real())
        if not self.a < self.b:
            raise ParameterError(f"a uniform prior needs a < b, got {self.a} and {self.b}")

    @property
    def mean(self) -> float:
        """The mean."""
        return 0.5 * (self.a + self.b)

    @property
    def variance(self) -> float:
        """The variance."""
        return (self.b - self.a) ** 2 / 12.0

    def quantile(self, level: Any) -> Array:
        """Return a + level·(b − a)."""
        return np.asarray(self.a + np.asarray(level) * (self.b - self.a))


@dataclass(frozen=True)
class Normal(ScalarPrior):
    """Normal with mean a and standard deviation b."""

    code: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check("a", self.a, Real())
        check("b", self.b, _POSITIVE)

    @property
    def mean(self) -> float:
        """The mean."""
        return self.a

    @property
    def variance(self) -> float:
        """The variance."""
        return self.b**2

    def quantile(self, level: Any) -> Array:
        """Return normal quantiles."""
        return np.asarray(self.a + self.b * special.ndtri(level))


@dataclass(frozen=True)
class Gamma(ScalarPrior):
    """Gamma with shape a and scale b."""

    code: ClassVar[int] = 2

    @property
    def mean(self) -> float:
        """The mean."""
        return self.a * self.b

    @property
    def variance(self) -> float:
        """The variance."""
        return self.a * self.b**2

    def quantile(self, level: Any) -> Array:
        """Return gamma quantiles."""
        return np.asarray(self.b * special.gammaincinv(self.a, level))


@dataclass(frozen=True)
class InverseGamma(ScalarPrior):
    """Inverse gamma with shape a and scale b."""

    code: ClassVar[int] = 3

    @property
    def mean(self) -> float:
        """The mean."""
        return self.b / (self.a - 1.0) if self.a > 1.0 else math.inf

    @property
    def variance(self) -> float:
        """The variance."""
        return self.mean**2 / (self.a - 2.0) if self.a > 2.0 else math.inf

    def quantile(self, level: Any) -> Array:
        """Return inverse gamma quantiles."""
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(self.b / special.gammainccinv(self.a, level))


@dataclass(frozen=True)
class Beta(ScalarPrior):
    """Beta with parameters a and b."""

    code: ClassVar[int] = 4

    @property
    def mean(self) -> float:
        """The mean."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> float:
        """The variance."""
        return self.mean * (1.0 - self.mean) / (self.a + self.b + 1.0)

    def quantile(self, level: Any) -> Array:
        """Return beta quantiles."""
        return np.asarray(special.betaincinv(self.a, self.b, level))
