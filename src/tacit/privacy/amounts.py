"""Budgets as exact rationals.

A float that a person wrote stands for its shortest decimal, so that 0.01 is one hundredth and
five hundred of them are five. Sums are exact; a sum whose denominator has grown unwieldy is
rounded up to 10⁻⁴⁰.
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["add_amounts", "as_exact", "as_float", "float_above", "float_below"]

_LARGEST_DENOMINATOR = 1 << 512
_GRID = 10**40


def as_exact(value: float) -> Fraction:
    """Return the number that the shortest decimal of a float spells.

    >>> as_exact(0.01) * 500 == 5
    True
    """
    return Fraction(repr(float(value)))


def as_float(count: int) -> float:
    """Return a count of any size as a float from above.

    >>> as_float(10**400)
    inf
    """
    return float(count) if count < 1 << 53 else float_above(Fraction(count))


def add_amounts(total: Fraction, cost: Fraction) -> Fraction:
    """Return an exact sum, rounded up where its denominator has grown beyond 512 bits."""
    result = total + cost
    if result.denominator > _LARGEST_DENOMINATOR:
        return Fraction(math.ceil(result * _GRID), _GRID)
    return result


def float_above(value: Fraction) -> float:
    """Return the nearest float that spells at least ``value``, or infinity."""
    try:
        result = float(value)
    except OverflowError:
        return math.inf
    while math.isfinite(result) and as_exact(result) < value:
        result = math.nextafter(result, math.inf)
    return result


def float_below(value: Fraction) -> float:
    """Return the nearest float that spells at most ``value``."""
    result = float(value)
    while as_exact(result) > value:
        result = math.nextafter(result, -math.inf)
    return result
