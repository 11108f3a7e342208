"""What a population is: a reparameterised simulator x = φ_θ(z), and one of the caller's own.

Built-in ones stand in `tacit.posterior.numerics.populations.laws`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from tacit._core.arrays import Array
from tacit.errors import ParameterError
from tacit.posterior.numerics.priors import ScalarPrior

__all__ = ["CustomPopulation", "Population", "difference_step", "slopes"]

_STRATA = 1 << 14  # equal strata of z for a simulator about which nothing else is known


class Population(ABC):
    """Base of all populations.

    Attributes
    ----------
    scales
        For each parameter ``"real"``, ``"positive"`` or ``"unit"``: where it lives, and so on
        which scale a random walk moves (identity, log, logit).
    names
        The parameters' names.
    """

    scales: tuple[str, ...] = ("real",)
    names: tuple[str, ...] = ("theta",)
    code: int = -1  # of a built-in population, for compiled loops
    constant: float = 0.0
    has_density: bool = True

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return len(self.scales)

    @abstractmethod
    def simulate(self, theta: Array, z: Array) -> Array:
        """Return x = φ_θ(z), elementwise in z."""

    @abstractmethod
    def log_density(self, x: Array, theta: Array) -> Array:
        """Return log p(x | θ), elementwise in x."""

    def score(self, x: Array, theta: Array) -> Array:
        """Return ∂ log p(x | θ)/∂θ, with one more axis at the end for the parameters.

        By central differences of fourth order unless a population knows better.
        """
        return np.stack(slopes(lambda at: self.log_density(x, at), theta, self.scales), axis=-1)

    def nodes(self, theta: Array, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """Return points and weights that integrate over the clipped X.

        Without knowledge of the law: the means of equal strata of z, exact to the square of
        their width for smooth simulators.
        """
        edges = special.ndtri(np.linspace(0.0, 1.0, _STRATA + 1)[1:-1])
        height = np.exp(-0.5 * edges**2) / math.sqrt(2.0 * math.pi)
        z = -np.diff(np.concatenate([[0.0], height, [0.0]])) * _STRATA
        return self._clip(self.simulate(theta, z), bounds), np.full(_STRATA, 1.0 / _STRATA)

    def share_below(self, x: Any, theta: Array) -> Array:
        """Return P(X < x), elementwise; without knowledge of the law, of equal strata of z.

        Between two neighbouring strata it grows evenly, and a value of many of them is a jump.
        """
        x = np.asarray(x, np.float64)
        z = special.ndtri((np.arange(_STRATA) + 0.5) / _STRATA)
        s = np.sort(self.simulate(theta, z))
        count = np.searchsorted(s, x)
        last, first = s[np.minimum(count, _STRATA - 1)], s[np.maximum(count - 1, 0)]
        within = (count > 0) & (count < _STRATA) & (last > first)
        share = np.where(within, (x - first) / np.where(within, last - first, 1.0), 0.0)
        found = (count + np.where(within, share - 0.5, 0.0)) / _STRATA
        return np.asarray(np.clip(found, 0.0, 1.0))

    def ties(self, bounds: tuple[float, float]) -> Array | None:
        """Return the numbers that many people share, besides the bounds; None for none."""
        return None

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Return the flat prior over what the public bounds leave possible."""
        raise ParameterError(
            f"prior must be given for {type(self).__name__}: pass prior=…, one for each parameter"
        )

    def check_bounds(self, bounds: tuple[float, float]) -> None:
        """Raise where public bounds make no sense for this population."""

    def check_theta(self, theta: Array) -> None:
        """Raise unless θ lies where it may."""
        for value, scale, name in zip(theta, self.scales, self.names, strict=True):
            fits = {"real": True, "positive": value > 0.0, "unit": 0.0 < value < 1.0}[scale]
            if not (fits and math.isfinite(value)):
                raise ParameterError(f"{name} must be a {scale} number, got {value}")

    @staticmethod
    def _clip(x: Any, bounds: tuple[float, float]) -> Array:
        return np.asarray(np.clip(x, *bounds))


def difference_step(theta: Array, scales: Sequence[str], k: int) -> float:
    """Return a step for fourth-order differences that stays within the parameter's range."""
    value, scale = float(theta[k]), scales[k]
    if scale == "real":
        return 1e-3 * max(1.0, abs(value))
    return 1e-3 * (value if scale == "positive" else value * (1.0 - value))


def slopes(function: Callable[[Array], Any], theta: Array, scales: Sequence[str]) -> list[Any]:
    """Return a function's derivatives in each parameter, by differences of fourth order."""
    found = []
    for k in range(len(theta)):
        step = difference_step(theta, scales, k)
        at = []
        for m in (-2.0, -1.0, 1.0, 2.0):
            moved = np.array(theta, np.float64)
            moved[k] += m * step
            at.append(function(moved))
        found.append((at[0] - 8.0 * at[1] + 8.0 * at[2] - at[3]) / (12.0 * step))
    return found


@dataclass(frozen=True)
class CustomPopulation(Population):
    """A population of the caller's own.

    Parameters
    ----------
    simulator
        ``simulator(theta, z)`` returns x = φ_θ(z), elementwise, for θ an array of parameters and
        z standard normal numbers.
    density
        ``density(x, theta)`` returns log p(x | θ), elementwise; needed for the Monte-Carlo
        information of statistics that are not additive.
    scales
        ``"real"``, ``"positive"`` or ``"unit"`` for each parameter.
    names
        The parameters' names.

    Examples
    --------
    >>> laplace = CustomPopulation(
    ...     simulator=lambda theta, z: -theta[0] * np.sign(z) * special.log_ndtr(-np.abs(z)),
    ...     scales=("positive",), names=("scale",))
    >>> laplace.dimension
    1
    """

    simulator: Callable[[Any, Any], Any]
    density: Callable[[Any, Any], Any] | None = None
    scales: tuple[str, ...] = field(default=("real",))
    names: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        if not callable(self.simulator):
            raise ParameterError("simulator must be a function of (theta, z)")
        for scale in self.scales:
            if scale not in ("real", "positive", "unit"):
                raise ParameterError(f"scales must be 'real', 'positive' or 'unit', got {scale!r}")
        names = tuple(self.names) or tuple(f"theta{k}" for k in range(len(self.scales)))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "scales", tuple(self.scales))
        if len(self.names) != len(self.scales):
            raise ParameterError("names and scales must have one entry for each parameter")

    @property
    def has_density(self) -> bool:  # type: ignore[override]
        """Whether log p(x | θ) was given."""
        return self.density is not None

    def simulate(self, theta: Array, z: Array) -> Array:
        """Call the simulator, and check the shape of what it returns."""
        x = np.asarray(self.simulator(theta, z), np.float64)
        if x.shape != np.shape(z):
            raise ParameterError(
                f"simulator must return one number for each z: got shape {x.shape} for z of shape "
                f"{np.shape(z)}"
            )
        return x

    def log_density(self, x: Array, theta: Array) -> Array:
        """Call the density."""
        if self.density is None:
            raise ParameterError("density must be given: pass density(x, theta), log p(x | theta)")
        return np.asarray(self.density(x, theta), np.float64)
