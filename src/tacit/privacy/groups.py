"""Group privacy and other units: what a release costs when more than its own unit changes.

The rules (PRIVACY A1) are applied to events where that is possible, because it loses nothing: k
units move a sum k times as far. Elsewhere the general rule holds: an (ε, δ)-private release is
(kε, δ·(e^{kε} − 1)/(e^ε − 1))-private for k units. One unit that is *replaced* is one that is
removed and one that is added: a group of two under add-remove.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from tacit.errors import NotCertified, ParameterError
from tacit.privacy.accounting.accountants import epsilon_of, pure_total
from tacit.privacy.amounts import as_exact, float_above
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    ApproximateDpEvent,
    DiscreteGaussianDpEvent,
    DiscreteLaplaceDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
    compose,
    leaves,
    pure_epsilon,
)

__all__ = ["Protected", "group_event", "group_guarantee", "stated_relation"]

# what one unit consists of
_PARTS = {"row": ("entry",), "document": ("entry",), "user": ("entry", "row", "document")}
_UP = 1.0 + 1e-12
_FINEST = 1e-290  # no smaller δ is tried


def stated_relation(event: DpEvent) -> str | None:
    """Return the relation that parts of an event hold for, or None where any will do.

    >>> stated_relation(PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0), REPLACE))
    'replace-one'
    """
    stated = {leaf.neighbours for leaf in leaves(event) if hasattr(leaf, "neighbours")}
    if len(stated) > 1:
        raise NotCertified("parts of the event hold for different relations")
    return next(iter(stated), None)


def group_guarantee(epsilon: float, delta: float, count: int) -> tuple[float, float]:
    """Return the (ε, δ) for ``count`` units of what is (ε, δ)-private for one; rounded up.

    >>> group_guarantee(1.0, 0.0, 3)
    (3.0, 0.0)
    >>> epsilon, delta = group_guarantee(1.0, 1e-6, 2)
    >>> epsilon, round(delta * 1e6, 4)     # 1 + e
    (2.0, 3.7183)
    """
    if count == 1 or not math.isfinite(epsilon):
        return epsilon, delta
    try:
        grown = math.fsum(math.exp(j * epsilon) for j in range(count)) if delta else 0.0
    except OverflowError:
        grown = math.inf
    return float_above(as_exact(epsilon) * count), min(1.0, delta * grown * _UP)


def _shared(noise: float, count: int) -> float:
    """Return noise relative to a sensitivity that is ``count`` times as large, rounded down."""
    if math.isinf(noise):
        return noise
    found = noise / count
    while as_exact(found) * count > as_exact(noise):
        found = math.nextafter(found, 0.0)
    return found


def _moved(leaf: DpEvent, count: int) -> DpEvent | None:
    """Return an elementary event when ``count`` units change; None without a rule of its own."""
    match leaf:
        case GaussianDpEvent(multiplier):
            return GaussianDpEvent(_shared(multiplier, count))
        case LaplaceDpEvent(multiplier):
            return LaplaceDpEvent(_shared(multiplier, count))
        case DiscreteLaplaceDpEvent(parameter, sensitivity):
            return DiscreteLaplaceDpEvent(parameter, sensitivity * count)
        case DiscreteGaussianDpEvent(sigma, moved):
            try:
                return DiscreteGaussianDpEvent(sigma, moved * count)
            except ParameterError:  # the noise is lost in what so many move
                return NonPrivateDpEvent()
        case ZCDpEvent(rho):
            return ZCDpEvent(rho * count**2 * (_UP if count & (count - 1) else 1.0))
        case NonPrivateDpEvent():
            return leaf
        case ApproximateDpEvent(epsilon, delta):
            grown = group_guarantee(epsilon, delta, count)
            return ApproximateDpEvent(*grown) if grown[1] < 1.0 else NonPrivateDpEvent()
    exact = pure_epsilon(leaf)
    if exact is None:
        return None
    return ApproximateDpEvent(float_above(exact * count))


def _replaced(leaf: DpEvent) -> DpEvent | None:
    """Return an elementary add-remove event when one unit is replaced."""
    if isinstance(leaf, PoissonSampledDpEvent) and isinstance(leaf.event, GaussianDpEvent):
        return PoissonSampledDpEvent(leaf.sampling_probability, leaf.event, REPLACE)
    return _moved(leaf, 2)


@lru_cache(maxsize=1024)
def group_event(event: DpEvent, count: int, delta: float, accountant: str = "pld") -> DpEvent:
    """Return what a release is when ``count`` of its units change at once.

    Parameters
    ----------
    event
        As it was recorded, for one unit.
    count
        How many change.
    delta
        The δ at which the result will be stated, for noise that only the general rule covers.
    accountant
        Which one computes ε for that rule.
    """
    if count == 1:
        return event
    moved = {leaf: _moved(leaf, count) for leaf in leaves(event)}
    return _composed(event, moved) or _general(event, count, delta, accountant)


def _composed(event: DpEvent, moved: Mapping[DpEvent, DpEvent | None]) -> DpEvent | None:
    parts = []
    for leaf, times in leaves(event).items():
        new = moved[leaf]
        if new is None:
            return None
        parts.append(SelfComposedDpEvent(new, times))
    return compose(parts)


def _general(event: DpEvent, count: int, delta: float, accountant: str) -> DpEvent:
    """Return the (ε, δ) of a group by the general rule, at most the stated δ.

    Any δ' whose grown δ fits is valid; smaller ones have a larger ε, so the largest is looked for.
    """
    exact = pure_total(leaves(event))
    if exact is not None:
        return ApproximateDpEvent(float_above(exact * count))

    def grown(smaller: float) -> tuple[float, float]:
        return group_guarantee(epsilon_of(event, smaller, accountant), smaller, count)

    high, low = math.log(delta) if delta > 0.0 else -math.inf, math.log(_FINEST)
    step = math.log(10.0)
    found = None
    for tried in range(1, 40):
        at = high - tried * step
        if at < low:
            break
        result = grown(math.exp(at))
        if result[1] <= delta and math.isfinite(result[0]):
            found = result
            inner, outer = at, at + step
            for _ in range(6):
                middle = (inner + outer) / 2
                result = grown(math.exp(middle))
                if result[1] <= delta:
                    inner, found = middle, result
                else:
                    outer = middle
            break
    if found is None:
        raise NotCertified(
            f"{count} units at once have no finite ε at δ = {delta:g} for this noise: state a "
            "larger δ, or fewer units"
        )
    return ApproximateDpEvent(*found)


@dataclass(frozen=True)
class Protected:
    """What a ledger's ceiling is for: one unit, one relation.

    Attributes
    ----------
    unit, neighbours
        As in `tacit.privacy.guarantee.Privacy`.
    most
        Finer unit → how many of them one unit has at most, a public bound that is held when
        contributions are made. Finer charges are converted by it.
    """

    unit: str
    neighbours: str
    most: Mapping[str, int] = field(default_factory=dict)

    def count(self, unit: str, neighbours: str) -> int:
        """Return how many units of a charge one unit of the ledger is; refuse what is none.

        Raises
        ------
        NotCertified
            If a guarantee of that unit and relation says nothing about this one.
        """
        wanted = f"{self.unit} under {self.neighbours}"
        given = f"{unit} under {neighbours}"
        if neighbours == REPLACE and self.neighbours == ADD_REMOVE:
            raise NotCertified(
                f"the ledger is for one {wanted}, and a guarantee for one {given} says nothing "
                "about units that come or go: ask for neighbours='add-remove-one', or use a "
                f"ledger made with unit={unit!r}, neighbours='replace-one'"
            )
        most = 1
        if unit != self.unit:
            if unit not in _PARTS.get(self.unit, ()):
                raise NotCertified(
                    f"the ledger is for one {wanted}, and the charge for one {given}: make a "
                    "ledger for the coarsest unit that any use needs (normally 'user')"
                )
            if unit not in self.most:
                raise NotCertified(
                    f"the ledger is for one {wanted}, and the charge for one {given}: a ledger "
                    f"made with most={{{unit!r}: …}}, the public bound on what one {self.unit} "
                    "has, converts it"
                )
            most = self.most[unit]
        return most if neighbours == self.neighbours else 2 * most

    def converted(
        self, event: DpEvent, unit: str, neighbours: str, delta: float | None
    ) -> DpEvent:
        """Return an event as one unit of the ledger sees it."""
        if unit == self.unit and neighbours == self.neighbours:
            return event
        count = self.count(unit, neighbours)
        if unit == self.unit:
            moved = _composed(event, {leaf: _replaced(leaf) for leaf in leaves(event)})
            if moved is not None:
                return moved
        return group_event(event, count, 0.0 if delta is None else delta)

    def said(self, unit: str, neighbours: str) -> str:
        """Return in words how a charge is counted here; nothing where it is as it was made.

        >>> Protected("user", REPLACE, {"entry": 20}).said("entry", REPLACE)
        'one user as 20 entry changes (replace-one), on the same public cells'
        """
        if (unit, neighbours) == (self.unit, self.neighbours):
            return ""
        if unit == self.unit:
            return f"replaced, as one {unit} removed and one added"
        count = self.count(unit, neighbours)
        same = " on the same public cells" if unit == "entry" else " on as many of them"
        return f"one {self.unit} as {count} {unit} changes ({neighbours})" + (
            f",{same}" if neighbours == REPLACE else ""
        )
