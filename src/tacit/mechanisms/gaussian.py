"""Gaussian noise, and isotropic Gaussian noise on symmetric arrays."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy import calibration
from tacit.privacy.events import REPLACE, DpEvent, GaussianDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Gaussian", "SymmetricGaussian"]


@dataclass(frozen=True)
class Gaussian(GridMechanism):
    """Gaussian noise with standard deviation ``scale``, for an L2 sensitivity.

    >>> from tacit.privacy.ledger.ledger import Ledger
    >>> from tacit.mechanisms.base import privatize
    >>> mechanism = Gaussian.for_privacy(1.0, 1e-6, sensitivity=1.0, shape=(3,))
    >>> ledger = Ledger.memory(epsilon=1.0, delta=1e-6)
    >>> privatize(mechanism, [1.0, 2.0, 3.0], ledger=ledger, rng=Noise(), delta=1e-6).shape
    (3,)
    """

    norm = 2

    @classmethod
    def for_privacy(
        cls,
        epsilon: float,
        delta: float,
        sensitivity: float,
        shape: tuple[int, ...] = (),
        **more: Any,
    ) -> Self:
        """Return the least noise for which one release is (ε, δ)-private; ε = ∞ adds none.

        ``more`` are further fields, such as ``neighbours`` and ``source``.
        """
        if math.isinf(epsilon):
            return cls(0.0, sensitivity, shape, **more)
        multiplier = calibration.gaussian_sigma(epsilon, delta)
        return cls.calibrated(multiplier, sensitivity, shape, **more)

    @classmethod
    def within(cls, multiplier: float, clip: float, shape: tuple[int, ...]) -> Self:
        """Return noise of ``multiplier`` × ``clip`` whose price does not depend on the shape.

        What rounding to the grid may add is taken off the ``sensitivity`` to which a unit's
        contribution is clipped, instead of being added to the noise; 0 adds no noise.

        >>> Gaussian.within(2.0, 1.0, (1000,)).event == Gaussian.within(2.0, 1.0, (9,)).event
        True
        """
        scale = multiplier * clip * (1.0 + 2.0**-50)
        draft = cls(scale, clip, shape)
        if scale == 0.0:
            return draft
        growth = draft.grid.growth(draft.size, 2, REPLACE)
        if growth > 0.5 * clip:
            raise ParameterError(
                f"a release of {draft.size} numbers with noise {multiplier:g} times the clip is "
                "too fine for the grid: release fewer numbers, or ask for a larger epsilon"
            )
        norm = clip - growth
        while norm + growth > clip:
            norm = math.nextafter(norm, 0.0)
        while norm + growth < clip:
            norm = math.nextafter(norm, math.inf)
        return cls(scale, norm, shape)

    def _event(self) -> DpEvent:
        return GaussianDpEvent(self.noise_multiplier)

    def _noise(self, noise: Noise, count: int, scale: float) -> NDArray[np.int64]:
        return noise.gaussian(count, scale)

    def variance(self, value: Any = None) -> float:
        """Return σ², plus what rounding adds."""
        return self.scale**2 + self.rounding


@cache
def _packing(order: int, size: int) -> tuple[Any, Any]:
    """Return √multiplicity of every unique entry, and the unique entry of every entry.

    The symmetric arrays have an orthonormal basis with one element per unique index: the
    coordinate of a symmetric array along it is √(number of permutations) times the entry.
    """
    shape = (size,) * order
    unique = np.array(list(itertools.combinations_with_replacement(range(size), order)))
    full = np.sort(np.indices(shape).reshape(order, -1), axis=0)
    position = np.searchsorted(
        np.ravel_multi_index(tuple(unique.T), shape), np.ravel_multi_index(tuple(full), shape)
    )
    weights = np.sqrt(np.bincount(position, minlength=len(unique)).astype(np.float64))
    return weights, position


@dataclass(frozen=True)
class SymmetricGaussian(Gaussian):
    """Isotropic Gaussian noise on symmetric matrices or third-order tensors (PRIVACY B3).

    The noise is Sym(G) with G i.i.d. N(0, scale²): i.i.d. noise on the coordinates along an
    orthonormal basis of the symmetric subspace, for a Frobenius sensitivity. Entries with
    three distinct indices get variance scale²/6, with two equal scale²/3, the diagonal scale²
    (matrices: scale²/2 and scale²).

    The value is the packed vector of coordinates: `pack` symmetrises, `unpack` restores.
    """

    order: int = 2
    dimension: int = 1

    def __post_init__(self) -> None:
        check("order", self.order, OneOf(2, 3))
        check("dimension", self.dimension, Integer(1))
        object.__setattr__(
            self, "shape", (math.comb(self.dimension + self.order - 1, self.order),)
        )
        super().__post_init__()

    def pack(self, array: Any) -> NDArray[np.float64]:
        """Return the coordinates of the symmetric part of an array, norm preserved for it."""
        weights, position = _packing(self.order, self.dimension)
        flat = np.asarray(array, np.float64).reshape(-1)
        return np.asarray(np.bincount(position, flat, minlength=len(weights)) / weights)

    def unpack(self, vector: Any) -> NDArray[np.float64]:
        """Return the symmetric array with the given coordinates."""
        weights, position = _packing(self.order, self.dimension)
        flat = (np.asarray(vector, np.float64) / weights)[position]
        return np.asarray(flat.reshape((self.dimension,) * self.order))

    def entry_variance(self) -> NDArray[np.float64]:
        """Return the variance of every entry of the unpacked noise."""
        weights, position = _packing(self.order, self.dimension)
        flat = (self.variance() / weights**2)[position]
        return np.asarray(flat.reshape((self.dimension,) * self.order))
