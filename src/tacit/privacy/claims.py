"""Events that a caller brings along: a Rényi curve of a mechanism that tacit does not know.

tacit cannot check such a curve. It composes it soundly with everything else, and a certificate
lists it among its assumptions as the caller's own claim; without that it is refused.

**Between the orders.** With t = α − 1, K(t) = t·D_{1+t} is the logarithm of a moment: convex in t,
and 0 at t = 0. So between two stated orders it is at most the straight line between their values,
and below the first at most the line from 0. Beyond the last order nothing is known.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from tacit._core.check import Integer, Real, Text, check
from tacit.errors import NotCertified, ParameterError
from tacit.privacy.events import DpEvent, leaves

__all__ = ["RenyiDpEvent", "check_claims", "with_claims"]

_MOST_ORDERS = 1000
_UP = 1.0 + 1e-12  # covers the rounding of a line


@dataclass(frozen=True)
class RenyiDpEvent(DpEvent):
    """A mechanism whose Rényi divergences of some orders are at most those stated.

    They hold for both orders of two neighbours, and for the relation of the certificate.

    Parameters
    ----------
    name
        Where the curve comes from, in a few words; certificates repeat it.
    orders
        Orders α > 1, ascending.
    divergences
        A bound on the Rényi divergence of each order, not falling.

    Examples
    --------
    >>> orders = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
    >>> mine = RenyiDpEvent("my sampler", orders, tuple(a / 8 for a in orders))
    >>> from tacit.privacy.accounting.accountants import epsilon_of
    >>> round(epsilon_of(mine, 1e-6), 2)           # of Gaussian noise, σ = 2: 2.44
    2.54
    """

    name: str
    orders: tuple[float, ...]
    divergences: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        check("name", self.name, Text())
        if not self.name.strip() or len(self.name) > 200:
            raise ParameterError("name must say in up to 200 letters where the curve comes from")
        for field, least in (("orders", 1.0), ("divergences", 0.0)):
            numbers = _numbers(field, getattr(self, field), Real(least, 1e9, open_low=least > 0.0))
            object.__setattr__(self, field, numbers)
        if len(self.orders) != len(self.divergences):
            raise ParameterError(
                f"divergences must be as many as orders, got {len(self.divergences)} for "
                f"{len(self.orders)}"
            )
        if any(low >= high for low, high in itertools.pairwise(self.orders)):
            raise ParameterError("orders must be ascending")
        if any(low > high for low, high in itertools.pairwise(self.divergences)):
            raise ParameterError(
                "divergences must not fall with the order: a bound at a higher order holds at the "
                "lower ones, so state the least of them"
            )

    @property
    def excesses(self) -> tuple[float, ...]:
        """The stated orders less one."""
        return tuple(order - 1.0 for order in self.orders)

    def log_moment(self, excess: float) -> float:
        """Return a bound on t·D_{1+t} at t = ``excess``; infinite beyond the last order."""
        low = low_moment = 0.0
        for high, divergence in zip(self.excesses, self.divergences, strict=True):
            moment = high * divergence
            if excess <= high:
                share = (excess - low) / (high - low)
                return (low_moment * (1.0 - share) + moment * share) * _UP
            low, low_moment = high, moment
        return math.inf

    @property
    def claim(self) -> str:
        """What a certificate says about it."""
        return f"the Rényi curve of {self.name!r} is the caller's own claim, which is not checked"


def _numbers(field: str, values: Any, each: Real) -> tuple[float, ...]:
    if not isinstance(values, tuple | list):
        raise ParameterError(f"{field} must be a tuple of numbers, got {values!r:.60}")
    check(f"number of {field}", len(values), Integer(1, _MOST_ORDERS))
    for place, value in enumerate(values):
        check(f"{field}[{place}]", value, each)
    return tuple(float(value) for value in values)


def with_claims(assumptions: tuple[str, ...], *events: DpEvent) -> tuple[str, ...]:
    """Return assumptions together with the claims that events rest on."""
    found = {
        leaf.claim: None
        for event in events
        for leaf in leaves(event)
        if isinstance(leaf, RenyiDpEvent) and leaf.claim not in assumptions
    }
    return (*assumptions, *found)


def check_claims(assumptions: tuple[str, ...], *events: DpEvent) -> None:
    """Refuse assumptions that leave out a claim."""
    missing = with_claims(assumptions, *events)[len(assumptions) :]
    if missing:
        raise NotCertified(f"the certificate must list among its assumptions: {missing[0]}")
