"""A number of people that is private: what a noisy count leaves open, and what else is released.

Under add-remove-one nobody is told n. What is told is c = n + noise, and of a mean the noisy sum
t = Σ(s(x_i) − m) + noise, m the middle of the range. By the central limit theorem, with μ and Σ
the moments of s(X),

    p(t, c | θ) = Σ_n p(c | n)·∫ N(u; n(μ − m), nΣ)·g(t | u) du,

over n = 1, 2, … that are all as likely before: what is known about how many there are is what c
says. A drawn quantile has p(v, c | θ) = Σ_n p(c | n)·p(v | θ, n), whose second factor is smooth in
log n (`tacit.posterior.numerics.orders`): it is found at a few n and interpolated.

**As if n were known.** A `NoisyStatistic` of this kind has the nearest whole number to c as its
``size`` N, and t/N + m as its values, whose noise is 1/N of that of t: it reads like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import interpolate, special

from tacit._core.arrays import Array
from tacit._core.check import OneOf, Real, check

__all__ = ["NoisyCount", "log_of_all_numbers"]

_REACH = {"gaussian": 9.0, "laplace": 40.0}  # scales beyond which a number has no chance left
_NUMBERS = 1024  # of people that are looked at: steps are far below the scale of the noise
# numbers of people at which the law of a quantile is found: fewer where they hardly matter
_FEW, _MANY = 4, 7
_NEAR = 12.0  # scales from the count between which these lie; beyond is what e^-12 is
_SURE, _NEARLY = 1e-3, 0.06  # of the number of people: the count's noise


@dataclass(frozen=True)
class NoisyCount:
    """How many people there are, with noise.

    Parameters
    ----------
    value
        The noisy number; it may be below zero.
    kind, scale
        Of the noise: ``"gaussian"`` with this standard deviation, or ``"laplace"``.

    Examples
    --------
    >>> people, log_chances = NoisyCount(100.0, "laplace", 2.0).numbers()
    >>> float(people[0]), float(people[log_chances.argmax()])
    (20.0, 100.0)
    """

    value: float
    kind: str
    scale: float

    def __post_init__(self) -> None:
        check("kind", self.kind, OneOf(*_REACH))
        check("scale", self.scale, Real(0, open_low=True))
        check("value", self.value, Real())

    @property
    def people(self) -> int:
        """The nearest number of people that there may be."""
        return max(1, round(self.value))

    @property
    def sd(self) -> float:
        """The standard deviation of the noise."""
        return self.scale * (1.0 if self.kind == "gaussian" else math.sqrt(2.0))

    @property
    def information(self) -> float:
        """The Fisher information about n: 1/σ² of a normal law, 1/b² of a Laplace law."""
        return self.scale**-2

    def numbers(self) -> tuple[Array, Array]:
        """Return the n that there may be, in equal steps, and log p(c | n) up to a constant."""
        reach = math.ceil(_REACH[self.kind] * self.scale)
        first = max(1, math.floor(self.value) - reach)
        last = max(1, math.ceil(self.value)) + reach
        step = max(1, -(-(last - first) // _NUMBERS))
        found = np.arange(float(first), last + 1.0, float(step))
        gap = (found - self.value) / self.scale
        return found, -0.5 * gap * gap if self.kind == "gaussian" else -np.abs(gap)


def log_of_all_numbers(count: NoisyCount, given: Callable[[int], float]) -> float:
    """Return log Σ_n p(c | n)·p(v | n) up to a constant.

    Parameters
    ----------
    count
        c.
    given
        log p(v | n), smooth in log n.
    """
    share = count.scale / count.people
    if share <= _SURE:
        return given(count.people)
    away = _NEAR * count.scale
    ends = max(1.0, count.value - away), max(1.0, count.value) + away
    at = np.unique(np.rint(np.geomspace(*ends, _FEW if share <= _NEARLY else _MANY)))
    found = np.array([given(int(n)) for n in at])
    people, logs = count.numbers()
    smooth = interpolate.PchipInterpolator(np.log(at), found)
    inside = np.log(np.clip(people, at[0], at[-1]))
    return float(special.logsumexp(logs + smooth(inside)))
