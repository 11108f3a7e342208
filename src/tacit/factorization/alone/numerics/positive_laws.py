"""Laws of positive factor entries in variational Bayes: gamma, and generalised inverse Gaussian.

An entry with shape ν and scale D = 1/ρ has a density in proportion to θ^(ν−1)·e^(−ρθ − τ/θ). With
a pull τ = 0 away from zero that is a gamma law; otherwise, with z = 2√(ρτ) and s = √(τ/ρ),

    E[θ] = s·K_(ν+1)(z)/K_ν(z),   E[1/θ] = K_(ν−1)(z)/(s·K_ν(z)),
    E[log θ] = log s + ∂ log K_ν(z)/∂ν,   normaliser 2·s^ν·K_ν(z),

K the modified Bessel function of the second kind. Where it overflows, its order is large beside z
and the uniform expansion for large orders takes its place (Olver 1954).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from tacit.factorization.arrays import Floats

__all__ = ["Law"]

_LEAST = 1e-12  # of z: a pull below changes nothing that a double can tell
_STEP = 1e-4  # along ν, for the derivative


class Law(NamedTuple):
    """Shape ν, scale 1/ρ and pull τ of the entries of a factor; None for no pull."""

    shape: Floats
    scale: Floats
    pull: Floats | None = None

    @property
    def mean(self) -> Floats:
        """E[θ]."""
        if self.pull is None:
            return self.shape * self.scale
        ratio = _log_bessel(self.shape + 1.0, self._z) - _log_bessel(self.shape, self._z)
        return np.asarray(np.exp(ratio) * self._size)

    @property
    def log_mean(self) -> Floats:
        """E[log θ]."""
        if self.pull is None:
            return np.asarray(special.digamma(self.shape) + np.log(self.scale))
        above, below = (_log_bessel(self.shape + h, self._z) for h in (_STEP, -_STEP))
        return np.asarray(np.log(self._size) + (above - below) / (2.0 * _STEP))

    @property
    def geometric(self) -> Floats:
        """The geometric mean, e^(E[log θ])."""
        if self.pull is None:
            return np.asarray(np.exp(special.digamma(self.shape)) * self.scale)
        return np.asarray(np.exp(self.log_mean))

    @property
    def harmonic(self) -> Floats:
        """1/E[1/θ]; of a gamma law it is zero where its shape is at most 1."""
        if self.pull is None:
            return np.maximum(self.shape - 1.0, 0.0) * self.scale
        ratio = _log_bessel(self.shape, self._z) - _log_bessel(self.shape - 1.0, self._z)
        return np.asarray(np.exp(ratio) * self._size)

    @property
    def variance(self) -> Floats:
        """Var θ."""
        if self.pull is None:
            return self.shape * self.scale**2
        mean = self.mean  # K_(ν+2) = K_ν + 2(ν + 1)/z·K_(ν+1)
        second = self._size**2 + 2.0 * (self.shape + 1.0) / self._z * self._size * mean
        return np.asarray(np.maximum(second - mean**2, 0.0))

    @property
    def log_normaliser(self) -> Floats:
        """Log of the integral of θ^(ν−1)·e^(−ρθ − τ/θ)."""
        if self.pull is None:
            return np.asarray(special.gammaln(self.shape) + self.shape * np.log(self.scale))
        logs = self.shape * np.log(self._size) + _log_bessel(self.shape, self._z)
        return np.asarray(np.log(2.0) + logs)

    @property
    def entropy(self) -> Floats:
        """Minus E[log q]."""
        whole = (1.0 - self.shape) * self.log_mean + self.mean / self.scale + self.log_normaliser
        if self.pull is None:
            return np.asarray(whole)
        return np.asarray(whole + self.pull / self.harmonic)

    @property
    def _z(self) -> Floats:
        assert self.pull is not None
        return np.maximum(2.0 * np.sqrt(self.pull / self.scale), _LEAST)

    @property
    def _size(self) -> Floats:
        """√(τ/ρ)."""
        return np.asarray(0.5 * self._z * self.scale)


def _log_bessel(order: Floats, z: Floats) -> Floats:
    """Return log K_ν(z)."""
    order = np.abs(order)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        found = np.asarray(np.log(special.kve(order, z)) - z)
    lost = ~np.isfinite(found)
    if lost.any():
        found = np.where(lost, _for_large_orders(np.where(lost, order, 100.0), z), found)
    return found


def _for_large_orders(order: Floats, z: Floats) -> Floats:
    """Return log K_ν(z) by its uniform expansion, three terms of it."""
    t = z / order
    root = np.sqrt(1.0 + t * t)
    exponent = root + np.log(t / (1.0 + root))
    p = 1.0 / root
    first = (3.0 * p - 5.0 * p**3) / 24.0
    second = (81.0 * p**2 - 462.0 * p**4 + 385.0 * p**6) / 1152.0
    third = 30375.0 * p**3 - 369603.0 * p**5 + 765765.0 * p**7 - 425425.0 * p**9
    series = 1.0 - first / order + second / order**2 - third / 414720.0 / order**3
    leading = 0.5 * np.log(0.5 * np.pi / order) - order * exponent - 0.5 * np.log(root)
    return np.asarray(leading + np.log(series))
