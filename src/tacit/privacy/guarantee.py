"""`Privacy`: the guarantee that is asked for."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from tacit._core.check import OneOf, Real, check
from tacit.privacy.events import ADD_REMOVE, REPLACE

__all__ = ["Privacy", "change_words", "round_up"]

UNITS = ("entry", "row", "user", "document")
NEIGHBOURS = (REPLACE, ADD_REMOVE)
TRUSTS = ("central", "site", "local", "aggregator", "shuffler")
_AGAINST = {
    "central": "the public",
    "site": "the coordinator, the other sites and the public",
    "local": "everyone but the person",
    "aggregator": "the coordinator and the public, given secure aggregation",
    "shuffler": "the analyst and the public, given a shuffler",
}

_CHANGE = {
    ("entry", REPLACE): "the value of one observed cell is replaced",
    ("entry", ADD_REMOVE): "one observed cell is added or removed",
    ("row", REPLACE): "one row is replaced",
    ("row", ADD_REMOVE): "one row is added or removed",
    ("user", REPLACE): "everything about one user is replaced",
    ("user", ADD_REMOVE): "everything about one user is added or removed",
    ("document", REPLACE): "one document is replaced",
    ("document", ADD_REMOVE): "one document is added or removed",
}


def change_words(unit: str, neighbours: str) -> str:
    """Return in words what one neighbour changes.

    >>> change_words("row", "add-remove-one")
    'one row is added or removed'
    """
    return _CHANGE[unit, neighbours]


def round_up(value: float, digits: int = 9) -> float:
    """Return ``value`` rounded up to ``digits`` significant digits.

    >>> round_up(0.12345678912)
    0.12345679
    """
    if value == 0.0 or not math.isfinite(value):
        return value
    exact = Decimal(value)
    quantum = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    rounded = float(exact.quantize(quantum, rounding=ROUND_CEILING))
    return rounded if rounded >= value else math.nextafter(value, math.inf)


@dataclass(frozen=True)
class Privacy:
    """The guarantee that is asked for.

    Parameters
    ----------
    epsilon, delta
        ε > 0 (``inf`` runs the same code with clipping but no noise) and 0 ≤ δ < 1.
    unit
        What one neighbour may change: ``"entry"``, ``"row"``, ``"user"`` or ``"document"``.
    neighbours
        ``"replace-one"`` or ``"add-remove-one"``; by default entries are replaced and
        everything else is added or removed.
    trust
        Who sees raw data: ``"central"``, ``"site"``, ``"local"``, ``"aggregator"`` or
        ``"shuffler"``.
    against
        Whom it protects against; follows from ``trust`` unless given.

    Examples
    --------
    >>> Privacy(epsilon=1, delta=1e-6, unit="user").neighbours
    'add-remove-one'
    """

    epsilon: float
    delta: float = 0.0
    unit: str = "row"
    neighbours: str | None = None
    trust: str = "central"
    against: str | None = None

    def __post_init__(self) -> None:
        check("epsilon", self.epsilon, Real(0, open_low=True, allow_inf=True))
        check("delta", self.delta, Real(0, 1, open_high=True))
        check("unit", self.unit, OneOf(*UNITS))
        check("trust", self.trust, OneOf(*TRUSTS))
        if self.neighbours is None:
            default = REPLACE if self.unit == "entry" else ADD_REMOVE
            object.__setattr__(self, "neighbours", default)
        check("neighbours", self.neighbours, OneOf(*NEIGHBOURS))
        if self.against is None:
            object.__setattr__(self, "against", _AGAINST[self.trust])

    def with_epsilon(self, epsilon: float) -> Privacy:
        """Return the same request at another ε."""
        return dataclasses.replace(self, epsilon=epsilon)
