"""Events that a caller brings along: curves and losses of mechanisms that tacit does not know.

tacit cannot check these. It composes them soundly with everything else, and a certificate
lists them among its assumptions as the caller's own claim; without that it is refused.

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

__all__ = ["LossesDpEvent", "RenyiDpEvent", "check_claims", "with_claims"]

_MOST_ORDERS, _MOST_LOSSES = 1000, 20_000
_ROUNDED = 1e-9  # by how much probabilities may miss one; what is missing counts as the most
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
        _check_name(self.name)
        _hold_numbers(self, "orders", Real(1, 1e9, open_low=True), _MOST_ORDERS)
        _hold_numbers(self, "divergences", Real(0, 1e9), _MOST_ORDERS)
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


@dataclass(frozen=True)
class LossesDpEvent(DpEvent):
    """A mechanism dominated by a pair (P, Q) with finitely many privacy losses.

    The loss is ln(P/Q) under P. Of the pair (Q, P) the mass at −x follows: e^(−x) times that at x.
    Both orders of the pair are counted, and the worse one is stated.

    Parameters
    ----------
    name
        Where the losses come from, in a few words; certificates repeat it.
    losses, masses
        Losses, ascending, and the probability under P of each.
    infinite, infinite_swapped
        The probability under P of what Q never does, and under Q of what P never does. What all
        probabilities miss one by, at most 1e-9, counts as the largest loss.

    Examples
    --------
    >>> coin = LossesDpEvent("a coin", (-math.log(3), math.log(3)), (0.25, 0.75))
    >>> from tacit.privacy.accounting.accountants import epsilon_of
    >>> round(epsilon_of(coin, 1e-6), 4)           # at most ln 3
    1.0986
    """

    name: str
    losses: tuple[float, ...]
    masses: tuple[float, ...]
    infinite: float = 0.0
    infinite_swapped: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_name(self.name)
        _hold_numbers(self, "losses", Real(-700, 700), _MOST_LOSSES)
        _hold_numbers(self, "masses", Real(0, 1), _MOST_LOSSES)
        check("infinite", self.infinite, Real(0, 1, open_high=True))
        check("infinite_swapped", self.infinite_swapped, Real(0, 1, open_high=True))
        if len(self.losses) != len(self.masses):
            raise ParameterError("masses must be as many as losses")
        if any(low >= high for low, high in itertools.pairwise(self.losses)):
            raise ParameterError("losses must be ascending")
        for swapped, which in ((False, "infinite"), (True, "infinite_swapped")):
            total = math.fsum(self.side(swapped)[1]) + getattr(self, which)
            if abs(total - 1.0) > _ROUNDED:
                law = "masses·e^(−losses)" if swapped else "masses"
                raise ParameterError(f"{law} and {which} must add up to 1, got {total:.12g}")

    def side(self, swapped: bool) -> tuple[tuple[float, ...], tuple[float, ...], float]:
        """Return ascending losses with their masses, and the mass at infinity, of one order."""
        if not swapped:
            return self.losses, self.masses, self.infinite
        moved = [
            mass * math.exp(-loss) for loss, mass in zip(self.losses, self.masses, strict=True)
        ]
        return (
            tuple(-loss for loss in self.losses[::-1]),
            tuple(moved[::-1]),
            self.infinite_swapped,
        )

    @property
    def claim(self) -> str:
        """What a certificate says about it."""
        return f"the losses of {self.name!r} are the caller's own claim, which is not checked"


def _check_name(name: Any) -> None:
    check("name", name, Text())
    if not name.strip() or len(name) > 200:
        raise ParameterError("name must say in up to 200 letters where the claim comes from")


def _hold_numbers(event: DpEvent, field: str, each: Real, most: int) -> None:
    """Check a field that holds numbers, one by one, and hold Python's own."""
    values = getattr(event, field)
    if not isinstance(values, tuple | list):
        raise ParameterError(f"{field} must be a tuple of numbers, got {values!r:.60}")
    check(f"number of {field}", len(values), Integer(1, most))
    for place, value in enumerate(values):
        check(f"{field}[{place}]", value, each)
    object.__setattr__(event, field, tuple(float(value) for value in values))


def with_claims(assumptions: tuple[str, ...], *events: DpEvent) -> tuple[str, ...]:
    """Return assumptions together with the claims that events rest on."""
    found = {
        leaf.claim: None
        for event in events
        for leaf in leaves(event)
        if isinstance(leaf, RenyiDpEvent | LossesDpEvent) and leaf.claim not in assumptions
    }
    return (*assumptions, *found)


def check_claims(assumptions: tuple[str, ...], *events: DpEvent) -> None:
    """Refuse assumptions that leave out a claim."""
    missing = with_claims(assumptions, *events)[len(assumptions) :]
    if missing:
        raise NotCertified(f"the certificate must list among its assumptions: {missing[0]}")
