"""Additive noise: Gaussian, Laplace, two-sided geometric, isotropic symmetric, and sampling."""

from __future__ import annotations

import dataclasses
import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.grid import Grid, GridSum
from tacit.mechanisms.noise import RESOLUTION, Noise
from tacit.privacy import calibration
from tacit.privacy.amounts import as_exact, float_below
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    DiscreteLaplaceDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Gaussian", "Laplace", "PoissonSampled", "SymmetricGaussian", "TwoSidedGeometric"]

_SCALE = Real(0)


@dataclass(frozen=True)
class GridMechanism(Mechanism):
    """Noise on a power-of-two grid; see `tacit.mechanisms.grid`.

    Parameters
    ----------
    scale
        Scale of the noise (standard deviation for Gaussian); 0 means no noise at all, for
        runs at ε = ∞ that keep the clipping.
    sensitivity
        How far one neighbour moves the value before rounding, in the norm of the noise and
        for the stated relation.
    shape
        Shape of the value.
    neighbours
        The relation that ``sensitivity`` is stated for.
    source
        ``"grid"`` or ``"exact"``; the noise source of `privatize` must be of the same kind.
    """

    scale: float
    sensitivity: float
    shape: tuple[int, ...] = ()
    neighbours: str = ADD_REMOVE
    source: str = "grid"

    norm = 2  # of the sensitivity

    def __post_init__(self) -> None:
        check("scale", self.scale, _SCALE)
        check("sensitivity", self.sensitivity, Real(0, open_low=True))
        check("neighbours", self.neighbours, OneOf(ADD_REMOVE, REPLACE))
        check("source", self.source, OneOf(*RESOLUTION))

    @classmethod
    def calibrated(
        cls,
        multiplier: float,
        sensitivity: float,
        shape: tuple[int, ...] = (),
        *,
        neighbours: str = ADD_REMOVE,
        source: str = "grid",
        **more: Any,
    ) -> Self:
        """Return the mechanism whose event has (at least) the given noise multiplier.

        The scale is raised by what rounding to the grid adds to the sensitivity.
        """
        if math.isinf(multiplier):
            raise ParameterError("an infinite noise multiplier releases nothing at all")
        draft = cls(1.0, sensitivity, shape, neighbours, source, **more)
        reach = Grid(-draft.bits).growth(draft.size, cls.norm, REPLACE)
        room = 1.0 - multiplier * reach  # the step is at most scale·2^-bits
        if room < 0.5:
            raise ParameterError(
                f"a release of {draft.size} numbers with noise {multiplier:g} times the "
                "sensitivity is too fine for the grid: release fewer numbers at once"
            )
        enough = cls(
            multiplier * sensitivity / room * (1.0 + 1e-12),
            sensitivity, shape, neighbours, source, **more,
        )  # fmt: skip
        # the same grid (or a finer one) with no more noise than it takes
        growth = enough.grid.growth(draft.size, cls.norm, REPLACE)
        scale = multiplier * (sensitivity + growth)
        for _ in range(8):
            tight = dataclasses.replace(enough, scale=scale)
            if tight.noise_multiplier >= multiplier:
                return tight
            scale = math.nextafter(scale, math.inf)
        return enough

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Log2 of the scale in grid steps."""
        return RESOLUTION[self.source]

    @property
    def grid(self) -> Grid:
        """The grid, fixed by the scale alone (by the sensitivity where there is no noise)."""
        if self.scale == 0.0:
            return Grid.for_scale(self.sensitivity, 40)
        return Grid.for_scale(self.scale, self.bits)

    @property
    def noise_multiplier(self) -> float:
        """The scale over the sensitivity after rounding.

        The growth is that of replacement also where a unit is added or removed: a float value
        may be a statistic, which is rounded on both sides.
        """
        growth = self.grid.growth(self.size, self.norm, REPLACE)
        return self.scale / (self.sensitivity + growth)

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        return NonPrivateDpEvent() if self.scale == 0.0 else self._event()

    @abstractmethod
    def _event(self) -> DpEvent: ...

    @abstractmethod
    def _noise(self, noise: Noise, count: int, scale: float) -> NDArray[np.int64]: ...

    def check(self, value: Any) -> None:
        """Check the shape, and that a sum lies on this mechanism's grid."""
        found = value.shape if isinstance(value, GridSum) else np.shape(value)
        if tuple(found) != tuple(self.shape):
            raise ParameterError(f"value must have shape {self.shape}, got {tuple(found)}")
        if isinstance(value, GridSum) and value.grid != self.grid:
            raise ParameterError("the sum was rounded to another grid: use mechanism.grid.sum")

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Add noise on the grid. A float array counts as one unit's contribution."""
        integers = value.integers if isinstance(value, GridSum) else self.grid.round(value)
        if self.scale > 0.0:
            steps = math.ldexp(self.scale, -self.grid.exponent)
            drawn = self._noise(noise, self.size, steps).reshape(self.shape)
            integers = integers + drawn
        return np.ldexp(integers.astype(np.float64), self.grid.exponent)

    def bias(self, value: Any) -> float:
        """Additive noise is centred."""
        return 0.0


@dataclass(frozen=True)
class Gaussian(GridMechanism):
    """Gaussian noise with standard deviation ``scale``, for an L2 sensitivity.

    >>> from tacit.privacy.ledger import Ledger
    >>> from tacit.mechanisms.base import privatize
    >>> mechanism = Gaussian.for_privacy(1.0, 1e-6, sensitivity=1.0, shape=(3,))
    >>> ledger = Ledger.memory(epsilon=1.0, delta=1e-6)
    >>> privatize(mechanism, [1.0, 2.0, 3.0], ledger=ledger, rng=Noise(), delta=1e-6).shape
    (3,)
    """

    norm = 2

    @classmethod
    def for_privacy(
        cls, epsilon: float, delta: float, sensitivity: float, shape: tuple[int, ...] = (),
        *, neighbours: str = ADD_REMOVE, source: str = "grid", **more: Any,
    ) -> Self:  # fmt: skip
        """Return the least noise for which one release is (ε, δ)-private; ε = ∞ adds none."""
        if math.isinf(epsilon):
            return cls(0.0, sensitivity, shape, neighbours, source, **more)
        multiplier = calibration.gaussian_sigma(epsilon, delta)
        return cls.calibrated(
            multiplier, sensitivity, shape, neighbours=neighbours, source=source, **more
        )

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
        return self.scale**2 + (self.grid.step**2 / 12.0 if self.scale else 0.0)


@dataclass(frozen=True)
class PureGridMechanism(GridMechanism):
    """Grid noise that is purely private: ε is the sensitivity over the scale."""

    @classmethod
    def for_privacy(
        cls, epsilon: float, sensitivity: float, shape: tuple[int, ...] = (),
        *, neighbours: str = ADD_REMOVE, source: str = "grid",
    ) -> Self:  # fmt: skip
        """Return the least noise for which one release is ε-private; ε = ∞ adds none."""
        if math.isinf(epsilon):
            return cls(0.0, sensitivity, shape, neighbours, source)
        multiplier = calibration.laplace_noise_multiplier(epsilon)
        return cls.calibrated(multiplier, sensitivity, shape, neighbours=neighbours, source=source)


@dataclass(frozen=True)
class Laplace(PureGridMechanism):
    """Laplace noise with the given scale per number, for an L1 sensitivity."""

    norm = 1

    def _event(self) -> DpEvent:
        return LaplaceDpEvent(self.noise_multiplier)

    def _noise(self, noise: Noise, count: int, scale: float) -> NDArray[np.int64]:
        return noise.laplace(count, scale)

    def variance(self, value: Any = None) -> float:
        """Return 2·scale², plus what rounding adds."""
        return 2.0 * self.scale**2 + (self.grid.step**2 / 12.0 if self.scale else 0.0)


@dataclass(frozen=True)
class TwoSidedGeometric(Mechanism):
    """Two-sided geometric noise on counts: P(k) = (1 − α)/(1 + α)·α^|k|, α = exp(−ε/Δ).

    Parameters
    ----------
    epsilon
        ε of one release; infinity adds no noise.
    sensitivity
        The largest L1 change Δ of the counts, a whole number.
    shape
        Shape of the counts.
    source
        The kind of noise source.
    """

    epsilon: float
    sensitivity: int = 1
    shape: tuple[int, ...] = ()
    source: str = "grid"

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(1e-9, allow_inf=True))
        check("sensitivity", self.sensitivity, Integer(1, 10**6))
        check("source", self.source, OneOf(*RESOLUTION))

    @property
    def alpha(self) -> float:
        """The ratio α = exp(−ε/Δ) of the law."""
        return math.exp(-self.epsilon / self.sensitivity)

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        if math.isinf(self.epsilon):
            return NonPrivateDpEvent()
        parameter = float_below(as_exact(self.epsilon) / self.sensitivity)
        return DiscreteLaplaceDpEvent(parameter, self.sensitivity)

    def check(self, value: Any) -> None:
        """Check shape and type: counts are whole numbers."""
        array = np.asarray(value)
        if array.shape != tuple(self.shape) or not np.issubdtype(array.dtype, np.integer):
            raise ParameterError(
                f"value must hold whole numbers with shape {self.shape}, got {array.dtype} with "
                f"shape {array.shape}"
            )

    def draw(self, value: Any, noise: Noise) -> NDArray[np.int64]:
        """Add two-sided geometric noise."""
        counts = np.asarray(value).astype(np.int64)
        if math.isinf(self.epsilon):
            return counts
        # one part in 2^40 covers the rounding of the scale
        scale = self.sensitivity / self.epsilon * (1.0 + 2.0**-40)
        return np.asarray(counts + noise.geometric(counts.size, scale).reshape(self.shape))

    def bias(self, value: Any) -> float:
        """Centred."""
        return 0.0

    def variance(self, value: Any = None) -> float:
        """Return 2α/(1 − α)²."""
        return 2.0 * self.alpha / math.expm1(-self.epsilon / self.sensitivity) ** 2


@cache
def _packing(order: int, size: int) -> tuple[Any, Any, Any]:
    """Return (indices of unique entries, √multiplicity, position of every entry).

    The symmetric arrays have an orthonormal basis with one element per unique index: the
    coordinate of a symmetric array along it is √(number of permutations) times the entry.
    """
    unique = np.array(
        list(itertools.combinations_with_replacement(range(size), order)), dtype=np.intp
    )
    full = np.indices((size,) * order).reshape(order, -1)
    full = np.sort(full, axis=0)
    code = full[0]
    for axis in range(1, order):
        code = code * size + full[axis]
    unique_code = unique[:, 0]
    for axis in range(1, order):
        unique_code = unique_code * size + unique[:, axis]
    position = np.searchsorted(unique_code, code)
    weights = np.sqrt(np.bincount(position, minlength=len(unique)).astype(np.float64))
    return unique, weights, position


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
        _, weights, position = _packing(self.order, self.dimension)
        flat = np.asarray(array, np.float64).reshape(-1)
        return np.asarray(np.bincount(position, flat, minlength=len(weights)) / weights)

    def unpack(self, vector: Any) -> NDArray[np.float64]:
        """Return the symmetric array with the given coordinates."""
        _, weights, position = _packing(self.order, self.dimension)
        flat = (np.asarray(vector, np.float64) / weights)[position]
        return np.asarray(flat.reshape((self.dimension,) * self.order))

    def entry_variance(self) -> NDArray[np.float64]:
        """Return the variance of every entry of the unpacked noise."""
        _, weights, position = _packing(self.order, self.dimension)
        flat = (self.variance() / weights**2)[position]
        return np.asarray(flat.reshape((self.dimension,) * self.order))


@dataclass(frozen=True)
class PoissonSampled(Mechanism):
    """A mechanism applied to a Poisson sample of the units, drawn afresh for each release.

    The caller draws the sample: every unit independently with probability ``rate``. The inner
    mechanism states its sensitivity for adding or removing one unit (the clip norm), also under
    replace-one, where the accountant takes care of the rest.
    """

    mechanism: GridMechanism
    rate: float
    neighbours: str = ADD_REMOVE

    def __post_init__(self) -> None:
        check("rate", self.rate, Real(0, 1, open_low=True))
        if self.mechanism.neighbours != ADD_REMOVE:
            raise ParameterError(
                "a sampled mechanism states its sensitivity for adding or removing one unit: "
                "pass neighbours='add-remove-one' to the inner mechanism"
            )

    @property
    def source(self) -> str:
        """The kind of noise source of the inner mechanism."""
        return self.mechanism.source

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        inner = self.mechanism.event
        if isinstance(inner, NonPrivateDpEvent):
            return inner
        return PoissonSampledDpEvent(self.rate, inner, self.neighbours)

    def check(self, value: Any) -> None:
        """Check as the inner mechanism does."""
        self.mechanism.check(value)

    def draw(self, value: Any, noise: Noise) -> Any:
        """Draw as the inner mechanism does."""
        return self.mechanism.draw(value, noise)

    def bias(self, value: Any) -> float:
        """Centred given the sample."""
        return self.mechanism.bias(value)

    def variance(self, value: Any = None) -> Any:
        """Return the variance given the sample."""
        return self.mechanism.variance(value)
