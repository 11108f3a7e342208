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

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special

from tacit._core.check import Real, check
from tacit._core.linear import inlined
from tacit.errors import ParameterError
from tacit.models.priors import Beta, ScalarPrior, Uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

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
_NODES = 256  # Gauss–Legendre nodes of each smooth piece
_STRATA = 1 << 14  # equal strata of z for a simulator about which nothing else is known
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


class Population:
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

    def simulate(self, theta: Array, z: Array) -> Array:
        """Return x = φ_θ(z), elementwise in z."""
        raise NotImplementedError

    def log_density(self, x: Array, theta: Array) -> Array:
        """Return log p(x | θ), elementwise in x."""
        raise NotImplementedError

    def score(self, x: Array, theta: Array) -> Array:
        """Return ∂ log p(x | θ)/∂θ, with one more axis at the end for the parameters.

        By central differences of fourth order unless a population knows better.
        """
        columns = []
        for k in range(self.dimension):
            step = difference_step(theta, self.scales, k)
            at = [self.log_density(x, _moved(theta, k, m * step)) for m in (-2, -1, 1, 2)]
            columns.append((at[0] - 8.0 * at[1] + 8.0 * at[2] - at[3]) / (12.0 * step))
        return np.stack(columns, axis=-1)

    def nodes(self, theta: Array, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """Return points and weights that integrate over the clipped X.

        Without knowledge of the law: the means of equal strata of z, exact to the square of
        their width for smooth simulators.
        """
        edges = special.ndtri(np.linspace(0.0, 1.0, _STRATA + 1)[1:-1])
        height = np.exp(-0.5 * edges**2) / math.sqrt(2.0 * math.pi)
        z = -np.diff(np.concatenate([[0.0], height, [0.0]])) * _STRATA
        return self._clip(self.simulate(theta, z), bounds), np.full(_STRATA, 1.0 / _STRATA)

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


def _moved(theta: Array, k: int, by: float) -> Array:
    out = np.array(theta, dtype=np.float64)
    out[k] += by
    return out


# --- built in ----------------------------------------------------------------------------------


class _Continuous(Population):
    """A population with a density that is smooth between known points."""

    def _limits(self, theta: Array) -> tuple[float, float]:
        """Return where all mass lies."""
        raise NotImplementedError

    def _below(self, x: float, theta: Array) -> float:
        """Return P(X < x)."""
        raise NotImplementedError

    def _above(self, x: float, theta: Array) -> float:
        """Return P(X > x)."""
        raise NotImplementedError

    def nodes(self, theta: Array, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """Return Gauss–Legendre nodes on each side of 0, and an atom at each bound.

        x = b·t⁴ near 0 makes |x|^a smooth enough for every a > 0.
        """
        low, high = bounds
        first, last = self._limits(theta)
        first, last = max(first, low), min(last, high)
        x, weights = [np.array([low, high])], [np.array([self._below(low, theta),
                                                         self._above(high, theta)])]  # fmt: skip
        t, w = _legendre()
        cuts = sorted({first, last, *([0.0] if first < 0.0 < last else [])})
        for start, end in itertools.pairwise(cuts):
            if start == 0.0 or end == 0.0:
                far = end if start == 0.0 else start
                at, slope = far * t**4, abs(far) * 4.0 * t**3
            else:
                at, slope = start + (end - start) * t, np.full_like(t, end - start)
            x.append(at)
            weights.append(w * slope * np.exp(self.log_density(at, theta)))
        return np.concatenate(x), np.concatenate(weights)


class _Cache:
    legendre: ClassVar[list[Any]] = []


def _legendre() -> tuple[Array, Array]:
    """Return Gauss–Legendre nodes and weights on [0, 1]."""
    if not _Cache.legendre:
        t, w = np.polynomial.legendre.leggauss(_NODES)
        _Cache.legendre.append(((t + 1.0) / 2.0, w / 2.0))
    nodes: tuple[Array, Array] = _Cache.legendre[0]
    return nodes


@dataclass(frozen=True)
class NormalMean(_Continuous):
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

    def _limits(self, theta: Array) -> tuple[float, float]:
        return theta[0] - _REACH * self.sd, theta[0] + _REACH * self.sd

    def _below(self, x: float, theta: Array) -> float:
        return float(special.ndtr((x - theta[0]) / self.sd))

    def _above(self, x: float, theta: Array) -> float:
        return float(special.ndtr((theta[0] - x) / self.sd))

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat over the bounds."""
        return (Uniform(*bounds),)


@dataclass(frozen=True)
class NormalVariance(_Continuous):
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

    def _limits(self, theta: Array) -> tuple[float, float]:
        reach = _REACH * math.sqrt(theta[0])
        return -reach, reach

    def _below(self, x: float, theta: Array) -> float:
        return float(special.ndtr(x / math.sqrt(theta[0])))

    def _above(self, x: float, theta: Array) -> float:
        return float(special.ndtr(-x / math.sqrt(theta[0])))

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat up to the largest variance within the bounds, a quarter of the squared range."""
        return (Uniform(0.0, 0.25 * (bounds[1] - bounds[0]) ** 2),)


@dataclass(frozen=True)
class UniformWidth(_Continuous):
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

    def _limits(self, theta: Array) -> tuple[float, float]:
        return -float(theta[0]), float(theta[0])

    def _below(self, x: float, theta: Array) -> float:
        return float(np.clip((x / theta[0] + 1.0) / 2.0, 0.0, 1.0))

    def _above(self, x: float, theta: Array) -> float:
        return float(np.clip((1.0 - x / theta[0]) / 2.0, 0.0, 1.0))

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat up to the larger of the bounds."""
        return (Uniform(0.0, max(abs(bounds[0]), abs(bounds[1]))),)


@dataclass(frozen=True)
class Exponential(_Continuous):
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

    def _limits(self, theta: Array) -> tuple[float, float]:
        return 0.0, 40.0 * float(theta[0])

    def _below(self, x: float, theta: Array) -> float:
        return float(-np.expm1(-max(x, 0.0) / theta[0]))

    def _above(self, x: float, theta: Array) -> float:
        return math.exp(-max(x, 0.0) / float(theta[0]))

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat up to the upper bound."""
        return (Uniform(0.0, bounds[1]),)

    def check_bounds(self, bounds: tuple[float, float]) -> None:
        """The upper bound must be positive."""
        if bounds[1] <= 0.0:
            raise ParameterError(f"bounds of an exponential law must reach above 0, got {bounds}")


class _Discrete(Population):
    """A population of whole numbers."""

    def _largest(self, bounds: tuple[float, float]) -> int:
        raise NotImplementedError

    def nodes(self, theta: Array, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """Return every value with its probability; what lies above counts at the upper bound."""
        k = np.arange(self._largest(bounds) + 1.0)
        weights = np.exp(self.log_density(k, theta))
        weights[-1] += max(0.0, 1.0 - weights.sum())
        return self._clip(k, bounds), weights


@dataclass(frozen=True)
class Bernoulli(_Discrete):
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

    def _largest(self, bounds: tuple[float, float]) -> int:
        return 1

    def default_prior(self, bounds: tuple[float, float]) -> tuple[ScalarPrior, ...]:
        """Flat."""
        return (Beta(1.0, 1.0),)

    def check_bounds(self, bounds: tuple[float, float]) -> None:
        """The bounds must hold 0 and 1."""
        if bounds[0] > 0.0 or bounds[1] < 1.0:
            raise ParameterError(f"bounds of 0/1 answers must hold 0 and 1, got {bounds}")


@dataclass(frozen=True)
class Poisson(_Discrete):
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

    def _largest(self, bounds: tuple[float, float]) -> int:
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


# --- the user's own ----------------------------------------------------------------------------


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
