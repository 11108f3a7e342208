"""Statistics that may be released: what they are, their public range, their sensitivity.

A statistic is either **additive**, S = (1/n)·Σ s(x_i), or an **order statistic** of s(x_1), …,
s(x_n). s sees data that were clipped to public bounds, and its own values are clipped to the
declared range, so nothing here depends on what the data are.

**Sensitivity** (replace-one, n public; attacked by search in the tests). Replacing one person
moves S by (s(x') − s(x))/n, coordinate by coordinate at most w_k/n with w the width of the range:
Δ₁ = Σ_k w_k/n, Δ₂ = ‖w‖₂/n. One person's own answer (local release) is the case n = 1. An order
statistic may move by the whole range; its noise follows its smooth sensitivity instead.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Range, Real, check
from tacit._core.linear import inlined
from tacit.errors import ParameterError

__all__ = [
    "Additive",
    "Custom",
    "OrderStatistic",
    "Power",
    "Statistic",
    "as_statistic",
    "clipped_moments",
    "power",
]

_PROBES = 4097  # public points at which a declared range is checked
_ALONE = 16  # of them, at which the function is also called for one number
_TOLERANCE = 1e-9


@inlined
def power(absolute: int, exponent: float, x: float) -> Any:
    """Return |x|^a, or x^a for a whole number a."""
    if exponent == 1.0:
        return abs(x) if absolute else x
    if exponent == 2.0:
        return x * x
    if absolute:
        return abs(x) ** exponent
    size = abs(x) ** exponent
    return -size if x < 0.0 and exponent % 2.0 == 1.0 else size


def _clipped(x: Any, bounds: tuple[float, float]) -> Array:
    """Return numbers within their bounds; what is none counts as the lower one."""
    low, high = bounds
    clean = np.nan_to_num(np.asarray(x, np.float64), nan=low, posinf=high, neginf=low)
    return np.clip(clean, low, high)


@dataclass(frozen=True)
class Additive(ABC):
    """Base of functions s of one person's number; the mean of s over people is released."""

    @property
    @abstractmethod
    def name(self) -> str:
        """How tables call it."""

    @abstractmethod
    def evaluate(self, x: Array) -> Array:
        """Return s(x), with one more axis of coordinates at the end."""

    @abstractmethod
    def range(self, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """Return the smallest and largest value of every coordinate over the public bounds."""

    def within(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the bounds beyond which s says nothing more of a person than at them."""
        return bounds

    def values(self, x: Any, bounds: tuple[float, float]) -> Array:
        """Return s of the clipped data, clipped to its range; what is no number counts as low."""
        return self._within(self.evaluate(_clipped(x, bounds)), bounds)

    def of_each(self, x: Any, bounds: tuple[float, float]) -> Array:
        """Return the same for people (n,), none of whose values can depend on another's number.

        A function that is not ours is called for one person at a time, with a copy of its number.
        What it returns no row of numbers for counts as low, like what is no number.
        """
        found = np.full((len(x), self.dimension(bounds)), np.nan)
        for i, number in enumerate(_clipped(x, bounds)):
            with suppress(Exception, SystemExit, GeneratorExit):
                found[i] = self.evaluate(np.array([number]))[0]
        return self._within(found, bounds)

    def _within(self, found: Array, bounds: tuple[float, float]) -> Array:
        low, high = self.range(bounds)
        return np.clip(np.where(np.isfinite(found), found, low), low, high)

    def sensitivity(self, bounds: tuple[float, float], size: int, norm: int) -> float:
        """Return Δ₁ or Δ₂ of the mean of ``size`` people when one is replaced."""
        low, high = self.range(bounds)
        width = high - low
        total = float(width.sum()) if norm == 1 else math.sqrt(float(width @ width))
        if not total > 0.0:
            raise ParameterError(f"{self.name} is constant over the bounds {bounds}")
        return total / size

    def dimension(self, bounds: tuple[float, float]) -> int:
        """How many numbers are released."""
        return len(self.range(bounds)[0])


@dataclass(frozen=True)
class Power(Additive):
    """|x|^a, or x^a for a whole number a; with a cap c its size is at most c.

    A cap narrows the range, and so the noise: |x|^a ∧ c is the power of x clipped to ±c^(1/a).

    >>> Power(2.0).name, Power(3.0, absolute=False).name, Power(0.5, cap=2.0).name
    ('|x|^2', 'x^3', '|x|^0.5 ∧ 2')
    """

    exponent: float = 1.0
    absolute: bool = True
    cap: float | None = None

    def __post_init__(self) -> None:
        check("exponent", self.exponent, Real(0, 100, open_low=True))
        if not self.absolute and self.exponent != round(self.exponent):
            raise ParameterError(f"x^{self.exponent:g} is not defined for x < 0: use |x|")
        check("cap", self.cap, AnyOf(Real(0, open_low=True), None))

    @property
    def name(self) -> str:
        """|x|^a or x^a, and its cap."""
        base = "|x|" if self.absolute else "x"
        base = base if self.exponent == 1.0 else f"{base}^{self.exponent:g}"
        return base if self.cap is None else f"{base} ∧ {self.cap:g}"

    def within(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return ±c^(1/a), or the bounds where they are narrower."""
        if self.cap is None:
            return bounds
        reach = self.cap ** (1.0 / self.exponent)
        low, high = (min(max(end, -reach), reach) for end in bounds)
        return low, high

    def evaluate(self, x: Array) -> Array:
        """Return the power."""
        x = np.asarray(x, np.float64)
        out = np.abs(x) ** self.exponent
        if not self.absolute and self.exponent % 2.0 == 1.0:
            out = np.sign(x) * out
        if self.cap is not None:
            out = np.clip(out, -self.cap, self.cap)
        return np.asarray(out)[..., None]

    def range(self, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """A power is monotone on each side of 0, so its extremes lie at the bounds or at 0."""
        at = self.evaluate(self.ends(bounds))
        return at.min(axis=0), at.max(axis=0)

    def ends(self, bounds: tuple[float, float]) -> Array:
        """Return where its extremes may lie."""
        return np.array([*bounds, *([0.0] if bounds[0] < 0.0 < bounds[1] else [])], np.float64)

    def of_each(self, x: Any, bounds: tuple[float, float]) -> Array:
        """A power of a number depends on that number."""
        return self.values(x, bounds)


@dataclass(frozen=True)
class Custom(Additive):
    """Any function with declared bounds.

    Parameters
    ----------
    function
        Takes an array of numbers and returns one number, or a row of numbers, for each. Of
        private data it sees one person at a time, as an array of one number; simulated data come
        as a whole.
    bounds
        (low, high) of what it returns, or one such pair for each coordinate. Values outside are
        clipped, silently.
    label
        How tables call it.
    """

    function: Callable[[Any], Any]
    bounds: Any
    label: str = "s(x)"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ParameterError("function must be a function of x")
        for pair in self._pairs:
            check("bounds of the statistic", pair, Range())

    @property
    def _pairs(self) -> list[Any]:
        nested = isinstance(self.bounds, tuple | list) and all(
            isinstance(pair, tuple | list) for pair in self.bounds
        )
        return list(self.bounds) if nested and self.bounds else [self.bounds]

    @property
    def name(self) -> str:
        """The label."""
        return self.label

    def evaluate(self, x: Array) -> Array:
        """Call the function, and check the shape of what it returns."""
        x = np.asarray(x, np.float64)
        out = np.asarray(self.function(x), np.float64)
        width = len(self._pairs)
        if width == 1 and out.shape == x.shape:
            out = out[..., None]
        if out.shape != (*x.shape, width):
            raise ParameterError(
                f"{self.label} must return {width} number(s) for each x: got shape {out.shape} "
                f"for x of shape {x.shape}"
            )
        return out

    def range(self, bounds: tuple[float, float]) -> tuple[Array, Array]:
        """Return the declared bounds."""
        pairs = np.array(self._pairs, np.float64)
        return pairs[:, 0], pairs[:, 1]

    @property
    def _kept(self) -> bytes:
        """What the function could keep between calls, as far as it can be seen."""
        inner = getattr(self.function, "__func__", self.function)
        owner = getattr(self.function, "__self__", None)
        cells = [cell.cell_contents for cell in getattr(inner, "__closure__", None) or ()]
        named = getattr(getattr(inner, "__code__", None), "co_names", ())
        known = {n: v for n, v in getattr(inner, "__globals__", {}).items() if n in named}
        attributes = [getattr(thing, "__dict__", {}) for thing in (inner, owner)]
        defaults = getattr(inner, "__defaults__", None), getattr(inner, "__kwdefaults__", None)
        return _snapshot([cells, known, attributes, defaults])

    def check_range(self, bounds: tuple[float, float]) -> None:
        """Raise where it leaves its bounds or looks at other numbers, at public points only."""
        low, high = self.range(bounds)
        # in no order: 1597 and 4097 = 17·241 have no divisor in common
        points = np.linspace(*bounds, _PROBES)[np.arange(_PROBES) * 1597 % _PROBES]
        some = points[:: _PROBES // _ALONE]
        with np.errstate(all="ignore"):
            kept = self._kept
            at = self.evaluate(points)
            alone = np.concatenate([self.evaluate(point[None]) for point in some])
            again = np.concatenate([self.evaluate(point[None]) for point in some[::-1]])[::-1]
        if self._kept != kept or not np.array_equal(alone, again, equal_nan=True):
            raise ParameterError(
                f"{self.label} must remember nothing from one call to the next: it is called for "
                "one person after another, in any order"
            )
        slack = _TOLERANCE * (high - low)
        outside = ~((at >= low - slack) & (at <= high + slack))
        if outside.any():
            i, k = np.argwhere(outside)[0]
            raise ParameterError(
                f"{self.label} leaves its declared bounds [{low[k]:g}, {high[k]:g}]: it is "
                f"{at[i, k]:g} at x = {points[i]:g}. Declare wider bounds, or narrower bounds of x"
            )
        if not (np.abs(alone - at[:: _PROBES // _ALONE]) <= slack).all():
            raise ParameterError(
                f"{self.label} must be a function of one person's number: it is another one where "
                "it sees that number alone"
            )


def _snapshot(thing: Any, deep: int = 6) -> bytes:
    """Return what can be seen of a value, some levels deep, so that a change of it shows."""
    if deep and isinstance(thing, dict):
        thing = [*thing.keys(), *thing.values()]
    if deep and isinstance(thing, list | tuple | set | frozenset):
        return b"[" + b",".join(_snapshot(part, deep - 1) for part in thing) + b"]"
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        return thing.tobytes()
    if isinstance(thing, np.random.Generator):
        return repr(thing.bit_generator.state).encode()
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        return repr(thing).encode()
    return str(id(thing)).encode()


@dataclass(frozen=True)
class OrderStatistic:
    """A quantile of s(x_1), …, s(x_n): 0.5 is the median, 1 the maximum.

    The rank is max(1, ⌈quantile·n⌉).
    """

    quantile: float = 0.5
    of: Power = Power(1.0, absolute=False)

    def __post_init__(self) -> None:
        check("quantile", self.quantile, Real(0, 1))
        if not isinstance(self.of, Power):
            raise ParameterError("an order statistic is taken of a power of x: pass of=Power(…)")
        if self.of.cap is not None:
            raise ParameterError("an order statistic needs no cap: pass of=Power(…) without one")

    @property
    def name(self) -> str:
        """Median, maximum, minimum or quantile of s."""
        known = {0.0: "minimum", 0.5: "median", 1.0: "maximum"}
        return f"{known.get(self.quantile, f'quantile {self.quantile:g}')} {self.of.name}"

    def rank(self, size: int) -> int:
        """Which order statistic it is."""
        from fractions import Fraction

        return max(1, math.ceil(Fraction(str(self.quantile)) * size))

    def range(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the public range of s."""
        low, high = self.of.range(bounds)
        return float(low[0]), float(high[0])

    def dimension(self, bounds: tuple[float, float]) -> int:
        """One number."""
        return 1


Statistic = Additive | OrderStatistic

_POWER = re.compile(r"(\|x\||x)(?:\^([0-9.]+))?$")
_CAPPED = re.compile(r"(\S+) *(?:∧|min) *([0-9.]+(?:e[+-]?[0-9]+)?)$")
_EXPONENTS, _CAPS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0), 10
_ORDERS = {"minimum": 0.0, "median": 0.5, "maximum": 1.0}


def as_statistic(given: Any) -> Statistic:
    """Return a statistic from its name, or as it is.

    Names: ``"mean"``, ``"x"``, ``"x^3"``, ``"|x|"``, ``"|x|^0.5"``, and ``"minimum"``,
    ``"median"``, ``"maximum"`` or ``"quantile 0.9"``, alone or of a power (``"median |x|"``).
    A power may have a cap: ``"|x|^0.5 ∧ 2"``, or ``"|x|^0.5 min 2"``.

    >>> as_statistic("quantile 0.9 |x|")
    OrderStatistic(quantile=0.9, of=Power(exponent=1.0, absolute=True, cap=None))
    """
    if isinstance(given, Additive | OrderStatistic):
        return given
    if isinstance(given, str):
        if (capped := _CAPPED.match(given.strip())) is not None:
            inner = as_statistic(capped[1])
            if isinstance(inner, Power):
                return replace(inner, cap=float(capped[2]))
        words = given.split()
        if words == ["mean"]:
            return Power(1.0, absolute=False)
        if len(words) == 1 and (found := _as_power(words[0])) is not None:
            return found
        level: float | None = None
        if words and words[0] in _ORDERS:
            level, words = _ORDERS[words[0]], words[1:]
        elif len(words) > 1 and words[0] == "quantile":
            try:
                level, words = float(words[1]), words[2:]
            except ValueError:
                level = None
        of = _as_power(words[0]) if len(words) == 1 else None
        if level is not None and (of is not None or not words):
            return OrderStatistic(level, of or Power(1.0, absolute=False))
    raise ParameterError(
        "a statistic must be a name ('mean', '|x|^0.5', 'x^3', 'median |x|', 'maximum', "
        f"'quantile 0.9') or Custom(function, bounds=(low, high)), got {given!r}"
    )


def clipped_moments(bounds: tuple[float, float]) -> tuple[Power, ...]:
    """Return moments |x|^a ∧ c, and x ∧ c where x may be negative, over a and c together.

    Noise is in proportion to the cap, and information about a law in the body of the data is soon
    all there: which cap is best, and which power beneath it, depends on each other. Caps are those
    of data clipped to ±r, r from a 32nd of the bounds up to them by factors of √2.

    >>> [one.name for one in clipped_moments((0.0, 8.0))][:3]
    ['|x|^0.25', '|x|^0.25 ∧ 1.54221', '|x|^0.25 ∧ 1.41421']
    """
    reach = max(abs(end) for end in bounds)
    signs = [(a, True) for a in _EXPONENTS] + ([(1.0, False)] if bounds[0] < 0.0 else [])
    found = []
    for exponent, absolute in signs:
        caps = [(reach * 2.0 ** (-k / 2.0)) ** exponent for k in range(1, _CAPS + 1)]
        found += [Power(exponent, absolute, cap) for cap in (None, *caps)]
    least = min(abs(end) for end in bounds) if bounds[0] * bounds[1] > 0.0 else 0.0
    return tuple(p for p in found if p.cap is None or p.cap > least**p.exponent)


def _as_power(text: str) -> Power | None:
    match = _POWER.match(text)
    if match is None:
        return None
    return Power(float(match[2] or 1.0), absolute=match[1] == "|x|")
