"""Integrals over a clipped population: points and weights for continuous and for discrete laws."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from functools import cache
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.posterior.numerics.populations.base import Population

__all__ = ["Continuous", "Discrete"]

_NODES = 256  # Gauss–Legendre nodes of each smooth piece


class Continuous(Population):
    """A population with a density that is smooth between known points."""

    @abstractmethod
    def limits(self, theta: Array) -> tuple[float, float]:
        """Return where all mass lies."""

    @abstractmethod
    def share_above(self, x: float, theta: Array) -> float:
        """Return P(X > x)."""

    def nodes(self, theta: Array, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """Return Gauss–Legendre nodes on each side of 0, and an atom at each bound.

        x = b·t⁴ near 0 makes |x|^a smooth enough for every a > 0.
        """
        low, high = bounds
        first, last = self.limits(theta)
        first, last = max(first, low), min(last, high)
        atoms = [float(self.share_below(low, theta)), self.share_above(high, theta)]
        x, weights = [np.array([low, high])], [np.array(atoms)]
        t, w = _legendre()
        # a law that lies beyond a bound altogether is the atom there
        cuts = sorted(
            {first, last, *([0.0] if first < 0.0 < last else [])} if first < last else ()
        )
        for start, end in itertools.pairwise(cuts):
            if start == 0.0 or end == 0.0:
                far = end if start == 0.0 else start
                at, slope = far * t**4, abs(far) * 4.0 * t**3
            else:
                at, slope = start + (end - start) * t, np.full_like(t, end - start)
            x.append(at)
            weights.append(w * slope * np.exp(self.log_density(at, theta)))
        return np.concatenate(x), np.concatenate(weights)


@cache
def _legendre() -> tuple[Array, Array]:
    """Return Gauss–Legendre nodes and weights on [0, 1]."""
    t, w = np.polynomial.legendre.leggauss(_NODES)
    return (t + 1.0) / 2.0, w / 2.0


class Discrete(Population):
    """A population of whole numbers."""

    @abstractmethod
    def largest(self, bounds: tuple[float, float]) -> int:
        """Return the largest value that counts on its own."""

    def share_below(self, x: Any, theta: Array) -> Array:
        """Return the mass of all whole numbers below."""
        x = np.asarray(x, np.float64)
        top = max(1, math.ceil(float(np.max(x, initial=0.0, where=np.isfinite(x)))))
        mass = np.exp(self.log_density(np.arange(top + 1.0), theta))
        total = np.concatenate([[0.0], np.cumsum(mass)])
        return np.asarray(np.minimum(total[np.clip(np.ceil(x), 0, top + 1).astype(int)], 1.0))

    def nodes(self, theta: Array, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """Return every value with its probability; what lies above counts at the upper bound."""
        k = np.arange(self.largest(bounds) + 1.0)
        weights = np.exp(self.log_density(k, theta))
        weights[-1] += max(0.0, 1.0 - weights.sum())
        return self._clip(k, bounds), weights

    def ties(self, bounds: tuple[float, float]) -> Array | None:
        """Return every value."""
        return np.arange(self.largest(bounds) + 1.0)
