"""Declarative parameter checks.

A constraint says what a parameter may be; `check` raises `ParameterError` with the
argument, the value and the remedy. Estimators keep a table of constraints, checked at
``fit``; the tests feed every constraint its own `bad_values`.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit.errors import ParameterError, UnboundedData

__all__ = [
    "SIZE",
    "AnyOf",
    "Bounds",
    "Constraint",
    "InstanceOf",
    "Integer",
    "OneOf",
    "Range",
    "Real",
    "Text",
    "as_bounds",
    "check",
    "check_table",
]


class Constraint(ABC):
    """What a parameter may be."""

    @abstractmethod
    def accepts(self, value: Any) -> bool:
        """Whether ``value`` satisfies the constraint."""

    @abstractmethod
    def describe(self) -> str:
        """The end of the sentence "name must be …"."""

    @abstractmethod
    def bad_values(self) -> list[Any]:
        """Values that must be refused; the tests try each."""


@dataclass(frozen=True)
class Real(Constraint):
    """A real number in an interval; ``open_low`` and ``open_high`` exclude the ends."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    allow_inf: bool = False

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is a real number in the interval (a bool is not a number)."""
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        try:
            number = float(value)
        except OverflowError:
            return False
        if math.isnan(number) or (math.isinf(number) and not self.allow_inf):
            return False
        above = number > self.low if self.open_low else number >= self.low
        below = number < self.high if self.open_high else number <= self.high
        return above and below

    def describe(self) -> str:
        """Describe the interval."""
        left = "(" if self.open_low or math.isinf(self.low) else "["
        right = ")" if self.open_high or (math.isinf(self.high) and not self.allow_inf) else "]"
        return f"a number in {left}{self.low:g}, {self.high:g}{right}"

    def bad_values(self) -> list[Any]:
        """NaN, text, and a number beyond each finite end."""
        bad: list[Any] = [math.nan, "1", None, True]
        if math.isfinite(self.low):
            bad.append(self.low if self.open_low else self.low - 1.0)
        if math.isfinite(self.high):
            bad.append(self.high if self.open_high else self.high + 1.0)
        return bad


@dataclass(frozen=True)
class Integer(Constraint):
    """A whole number in [low, high]."""

    low: int | None = None
    high: int | None = None

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is a whole number in range (a bool is not)."""
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            return False
        number = int(value)
        return (self.low is None or number >= self.low) and (
            self.high is None or number <= self.high
        )

    def describe(self) -> str:
        """Describe the range."""
        if self.low is None and self.high is None:
            return "a whole number"
        if self.high is None:
            return f"a whole number of at least {self.low}"
        if self.low is None:
            return f"a whole number of at most {self.high}"
        return f"a whole number from {self.low} to {self.high}"

    def bad_values(self) -> list[Any]:
        """Fractions, text, and a number beyond each end."""
        bad: list[Any] = [1.5, "1", None, True]
        if self.low is not None:
            bad.append(self.low - 1)
        if self.high is not None:
            bad.append(self.high + 1)
        return bad


@dataclass(frozen=True)
class OneOf(Constraint):
    """One of a few named values."""

    options: tuple[Any, ...]

    def __init__(self, *options: Any) -> None:
        object.__setattr__(self, "options", options)

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is one of the options."""
        return any(type(value) is type(option) and value == option for option in self.options)

    def describe(self) -> str:
        """List the options."""
        return "one of " + ", ".join(repr(option) for option in self.options)

    def bad_values(self) -> list[Any]:
        """A name that does not exist."""
        return ["no such option", 3.25]


@dataclass(frozen=True)
class _Unsuitable:
    """An object of no useful type, for tests."""


@dataclass(frozen=True)
class InstanceOf(Constraint):
    """An instance of one of some types."""

    types: tuple[type, ...]
    text: str

    def __init__(self, *types: type, text: str | None = None) -> None:
        object.__setattr__(self, "types", types)
        object.__setattr__(self, "text", text or " or ".join(t.__name__ for t in types))

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` has one of the types."""
        return isinstance(value, self.types)

    def describe(self) -> str:
        """Name the types."""
        return f"of type {self.text}"

    def bad_values(self) -> list[Any]:
        """An object of no useful type."""
        return [_Unsuitable()]


@dataclass(frozen=True)
class Text(Constraint):
    """Text that can be written as UTF-8."""

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is such text."""
        if not isinstance(value, str):
            return False
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True

    def describe(self) -> str:
        """Say so."""
        return "text"

    def bad_values(self) -> list[Any]:
        """Bytes, numbers and lone surrogates."""
        return [b"x", 3, None, "\ud800"]


@dataclass(frozen=True)
class AnyOf(Constraint):
    """A value that satisfies at least one constraint; ``None`` stands for itself."""

    parts: tuple[Constraint | None, ...]

    def __init__(self, *parts: Constraint | None) -> None:
        object.__setattr__(self, "parts", parts)

    def accepts(self, value: Any) -> bool:
        """Whether any part accepts ``value``."""
        return any(value is None if part is None else part.accepts(value) for part in self.parts)

    def describe(self) -> str:
        """Join the parts with "or"."""
        return " or ".join("None" if part is None else part.describe() for part in self.parts)

    def bad_values(self) -> list[Any]:
        """Values that every part refuses."""
        candidates = [v for part in self.parts if part is not None for v in part.bad_values()]
        return [v for v in candidates if not self.accepts(v)]


@dataclass(frozen=True)
class Bounds(Constraint):
    """A pair (low, high) of finite numbers with low < high."""

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is an increasing pair of finite numbers."""
        if not isinstance(value, tuple | list) or len(value) != 2:
            return False
        low, high = value
        return Real().accepts(low) and Real().accepts(high) and low < high

    def describe(self) -> str:
        """Describe the pair."""
        return "a pair (low, high) of finite numbers with low < high"

    def bad_values(self) -> list[Any]:
        """Reversed, equal, infinite and misshapen pairs."""
        return [(1, 0), (1.0, 1.0), (0, math.inf), (math.nan, 1), (0, 1, 2), 3, "ab"]


# fourth powers of what lies between, and ratios of them, are numbers that a computer can hold
_LEAST, _MOST = 2.0**-250, 2.0**250
SIZE: Constraint = Real(_LEAST, _MOST)  # of what noise is measured by: a radius, a sensitivity


class Range(Bounds):
    """A public range that can be computed with: neither narrower nor wider than numbers are."""

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is an increasing pair of numbers whose powers can be computed."""
        if not super().accepts(value):
            return False
        low, high = map(float, value)
        return max(-low, high) <= _MOST and high / 2.0 - low / 2.0 >= _LEAST

    def describe(self) -> str:
        """Describe the pair."""
        return f"{super().describe()}, from {_LEAST:.0e} to {_MOST:.0e} wide"

    def bad_values(self) -> list[Any]:
        """Those of any pair, and ranges whose squares are no numbers."""
        return [*super().bad_values(), (0.0, 1e-200), (-1e200, 1e200), (0.0, 1e300)]


def check(name: str, value: Any, constraint: Constraint) -> None:
    """Raise `ParameterError` unless ``value`` satisfies ``constraint``.

    >>> check("epsilon", -1, Real(0, open_low=True))
    Traceback (most recent call last):
    tacit.errors.ParameterError: epsilon must be a number in (0, inf), got -1
    """
    if not constraint.accepts(value):
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:77] + "..."
        raise ParameterError(f"{name} must be {constraint.describe()}, got {shown}")


def check_table(values: Mapping[str, Any], table: Mapping[str, Constraint]) -> None:
    """Check every named value that the table constrains."""
    for name, constraint in table.items():
        check(name, values[name], constraint)


def as_bounds(name: str, value: Any, meaning: str) -> tuple[float, float]:
    """Return ``value`` as a (low, high) pair, or say which public bound to pass.

    >>> as_bounds("bounds", None, "the range a rating may take")
    Traceback (most recent call last):
    tacit.errors.UnboundedData: bounds must be given: pass bounds=(low, high), the range a rating
    may take
    """
    if value is None:
        raise UnboundedData(f"{name} must be given: pass {name}=(low, high), {meaning}")
    check(name, value, Range())
    low, high = value
    return float(low), float(high)
