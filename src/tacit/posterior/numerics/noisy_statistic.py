"""What was released: a statistic, how it was perturbed, and the noisy numbers.

A `NoisyStatistic` holds public facts only. It is all that inference needs, and it may be mailed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacit._core.answers import Answer, Answering
from tacit._core.arrays import Array
from tacit._core.check import Bounds, Integer, OneOf, Real, check
from tacit._core.linear import inlined
from tacit._core.order_statistics import smooth_sensitivities
from tacit.errors import ParameterError
from tacit.posterior.numerics.answers import ENOUGH, weighed
from tacit.posterior.numerics.counts import NoisyCount
from tacit.posterior.numerics.orders.domain import Domain
from tacit.posterior.numerics.orders.simulated import draws_log_density, simulated_draws
from tacit.posterior.numerics.shown import noisy_answer
from tacit.posterior.numerics.statistics import Additive, OrderStatistic, Statistic

__all__ = ["NOISES", "NoiseLaw", "NoisyStatistic", "log_noise", "normal_laplace"]

# the order is the code that compiled loops use
NOISES = ("gaussian", "laplace", "smooth", "response", "exponential")
_ROOT_TWO = math.sqrt(2.0)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@inlined
def log_noise(noise: int, scale: float, gap: float) -> Any:
    """Return log g(y | s) from y − s: normal, Laplace, or the truth of a 0/1 answer."""
    if noise == 0:
        ratio = gap / scale
        return -0.5 * ratio * ratio - math.log(scale) - 0.9189385332046727
    if noise == 3:
        return math.log(scale) if abs(gap) < 0.5 else math.log1p(-scale)
    return -abs(gap) / scale - math.log(2.0 * scale)


@dataclass(frozen=True)
class NoiseLaw:
    """How a number was perturbed.

    Parameters
    ----------
    kind
        ``"gaussian"`` (scale is the standard deviation), ``"laplace"`` (its scale), ``"smooth"``
        (Laplace with scale 2·S_β(x)/ε: ``scale`` is ε) or ``"response"`` (a 0/1 answer that is
        true with probability ``scale``) or ``"exponential"`` (drawn with a density that falls by
        e for each ``scale`` people between it and the rank).
    scale
        See above.
    beta
        The smoothness β, for ``"smooth"``.
    step
        How far apart people's possible values are, for ``"exponential"``; 0 for any value.
    """

    kind: str
    scale: float
    beta: float = 0.0
    step: float = 0.0

    def __post_init__(self) -> None:
        check("kind", self.kind, OneOf(*NOISES))
        check("scale", self.scale, Real(0, open_low=True))
        if self.kind == "smooth":
            check("beta", self.beta, Real(0, open_low=True))
        if self.kind == "response":
            check("scale", self.scale, Real(0.5, 1, open_high=True))
        check("step", self.step, Real(0))

    @property
    def name(self) -> str:
        """The law in words."""
        words = {
            "smooth": "smooth Laplace",
            "response": "randomized response",
            "exponential": "exponential-mechanism",
        }
        return words.get(self.kind, self.kind)

    @property
    def code(self) -> int:
        """The number by which compiled loops know it."""
        return NOISES.index(self.kind)

    def log_density(self, gap: Any, scale: Any = None) -> Array:
        """Return log g(y | s) from y − s, elementwise; smooth noise brings its own scale."""
        gap = np.asarray(gap, np.float64)
        scale = self.scale if scale is None else scale
        if self.kind == "gaussian":
            return np.asarray(-0.5 * (gap / scale) ** 2 - np.log(scale) - _LOG_ROOT_TWO_PI)
        if self.kind == "response":
            truth = np.abs(gap) < 0.5
            return np.asarray(np.where(truth, math.log(self.scale), math.log1p(-self.scale)))
        return np.asarray(-np.abs(gap) / scale - np.log(2.0 * np.asarray(scale)))

    def perturb(self, rng: np.random.Generator, centre: Any, scale: Any = None) -> Array:
        """Return simulated releases, for studies: this is no privacy noise."""
        centre = np.asarray(centre, np.float64)
        scale = self.scale if scale is None else scale
        if self.kind == "gaussian":
            return np.asarray(centre + scale * rng.standard_normal(centre.shape))
        if self.kind == "response":
            truth = rng.random(centre.shape) < self.scale
            return np.asarray(np.where(truth, centre, 1.0 - centre))
        return np.asarray(centre + scale * rng.laplace(size=centre.shape))


@dataclass(frozen=True)
class NoisyStatistic(Answering):
    """A released statistic of n people, or each person's own noisy answer.

    Parameters
    ----------
    statistic
        What was released.
    bounds
        The public bounds to which data were clipped.
    size
        The public number of people n.
    noise
        How it was perturbed.
    values
        The noisy numbers: the statistic's coordinates, or n answers.
    local
        Whether each person answered alone.
    count
        Where the number of people is private: their noisy number, to which ``size`` is nearest.
        Values and noise are then as if they were so many (`tacit.posterior.numerics.counts`).
    certificates
        (holder, certificate) of what was released; what is inferred rests on them.
    """

    statistic: Statistic
    bounds: tuple[float, float]
    size: int
    noise: NoiseLaw
    values: Array = field(repr=False)
    local: bool = False
    count: NoisyCount | None = None
    certificates: tuple[tuple[str, Any], ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check("bounds", self.bounds, Bounds())
        check("size", self.size, Integer(1))
        values = np.atleast_1d(np.asarray(self.values, np.float64))
        object.__setattr__(self, "values", values)
        width = self.size if self.local else self.statistic.dimension(self.bounds)
        if values.shape != (width,) or not np.isfinite(values).all():
            raise ParameterError(
                f"values must hold {width} finite number(s), got shape {values.shape}"
            )
        ordered = isinstance(self.statistic, OrderStatistic)
        if ordered != (self.noise.kind in ("smooth", "exponential")) or (ordered and self.local):
            raise ParameterError(
                "order statistics go with smooth noise or the exponential mechanism of whoever "
                "holds all rows, and with nothing else"
            )
        if self.local and self.statistic.dimension(self.bounds) != 1:
            raise ParameterError("an answer of each person is one number, not a vector")
        if self.noise.kind == "response" and not self.local:
            raise ParameterError("randomized responses are each person's own: pass local=True")
        if self.count is not None and (self.local or self.count.people != self.size):
            raise ParameterError(
                "count must be that of people whose data one holder has, and size the nearest "
                f"number to it, {self.count.people}"
            )

    @classmethod
    def planned(
        cls,
        statistic: Statistic,
        bounds: tuple[float, float],
        size: int,
        noise: NoiseLaw,
        local: bool = False,
        count: NoisyCount | None = None,
    ) -> NoisyStatistic:
        """Return a release that has not happened yet; its values are 0."""
        width = size if local else statistic.dimension(bounds)
        return cls(statistic, bounds, size, noise, np.zeros(width), local, count)

    def _answer(self, level: float) -> Answer:
        return noisy_answer(self, level)

    @property
    def additive(self) -> bool:
        """Whether the mean of a function was released."""
        return isinstance(self.statistic, Additive)

    @property
    def middle(self) -> Array:
        """The middle of the range of an additive statistic."""
        assert isinstance(self.statistic, Additive)
        low, high = self.statistic.range(self.bounds)
        return np.asarray((low + high) / 2.0)

    def replace(self, values: Any) -> NoisyStatistic:
        """Return the like of this release with other numbers, which nothing certifies."""
        return replace(self, values=values, certificates=())

    def centre(self, x: Array) -> tuple[Array, Any]:
        """Return what is released of data (…, n) before noise, and its scale (None: the law's)."""
        if isinstance(self.statistic, Additive):
            s = self.statistic.values(x, self.bounds)
            return (s[..., 0] if self.local else s.mean(axis=-2)), None
        s = np.sort(self.statistic.of.values(x, self.bounds)[..., 0], axis=-1)
        rank, (low, high) = self.statistic.rank(self.size), self.statistic.range(self.bounds)
        flat = s.reshape(-1, self.size)
        smooth = smooth_sensitivities(flat, rank, self.noise.beta, low, high)
        scale = 2.0 / self.noise.scale * smooth.reshape(*s.shape[:-1], 1)
        return s[..., rank - 1 : rank], np.maximum(scale, 1e-300)

    def counted(self, corners: tuple[float, ...]) -> tuple[Array, Array]:
        """Return points and weights that stand for each person's own answers; see `answers`."""
        kept: dict[Any, tuple[Array, Array]] = self.__dict__.setdefault("_counted", {})
        if corners not in kept:
            points, counts = np.unique(self.values, return_counts=True)
            kept[corners] = points, counts.astype(np.float64)
            if len(points) > ENOUGH:
                kept[corners] = weighed(self.values, self.noise.scale, corners)
        return kept[corners]

    @property
    def domain(self) -> Domain:
        """Where an order statistic lies, on the scale of x or |x|."""
        assert isinstance(self.statistic, OrderStatistic)
        return Domain.of(self.statistic, self.bounds, self.noise.step)

    def log_density(self, x: Array) -> Array:
        """Return log p(y given data (…, n)), up to a constant."""
        if self.noise.kind == "exponential":
            assert isinstance(self.statistic, OrderStatistic)
            return draws_log_density(
                self.domain,
                self.statistic.quantile,
                1.0 / self.noise.scale,
                x,
                float(self.values[0]),
            )
        centre, scale = self.centre(x)
        return np.asarray(self.noise.log_density(self.values - centre, scale).sum(axis=-1))

    def simulate(self, rng: np.random.Generator, x: Array) -> Array:
        """Return a simulated release of data, for studies."""
        if self.noise.kind == "exponential":
            assert isinstance(self.statistic, OrderStatistic)
            return simulated_draws(
                rng, self.domain, self.statistic.quantile, 1.0 / self.noise.scale, x
            )
        return self.noise.perturb(rng, *self.centre(x))


def normal_laplace(gap: Any, sd: Any, scale: Any) -> Array:
    """Return the log density of N(0, sd²) + Laplace(scale) at ``gap``.

    The integral of (4.6) in closed form: with r = sd/scale and k = gap/sd,

        p = φ(k)·[M(r − k) + M(r + k)]/(2·scale),

    M the Mills ratio Φ(−x)/φ(x); nothing overflows that does not vanish.
    """
    from scipy import special

    sd = np.maximum(sd, 1e-12 * np.asarray(scale))
    k, r = np.abs(np.asarray(gap, np.float64)) / sd, sd / np.asarray(scale)

    def log_mills(x: Any, shift: Any) -> Any:
        """Return log φ(k)·M(x), where (x² − k²)/2 = shift without cancellation."""
        direct = special.log_ndtr(-np.minimum(x, 0.0)) + shift  # M overflows for x < 0
        scaled = np.log(special.erfcx(np.maximum(x, 0.0) / _ROOT_TWO) * 0.5) - 0.5 * k * k
        return np.where(x < 0.0, direct, scaled)

    half, cross = 0.5 * r * r, np.abs(np.asarray(gap, np.float64)) / np.asarray(scale)
    both = np.logaddexp(log_mills(r - k, half - cross), log_mills(r + k, half + cross))
    return np.asarray(both - np.log(2.0 * np.asarray(scale)))
