"""`Privacy`: the guarantee that is asked for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from tacit._core.check import InstanceOf, OneOf, Real, check
from tacit.privacy.events import ADD_REMOVE, REPLACE

__all__ = ["Privacy", "change_words", "round_up", "shown", "shown_left"]

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


def shown(value: float, digits: int = 6) -> str:
    """Return what was spent, or what noise is needed, as text that is never less.

    >>> shown(1.00000001), shown(0.5), shown(2.00001, 3)
    ('1.00001', '0.5', '2.01')
    """
    return _text(value, digits, ROUND_CEILING)


def shown_left(value: float, digits: int = 6) -> str:
    """Return what is left of a budget as text that is never more.

    >>> shown_left(0.99999999)
    '0.999999'
    """
    return _text(value, digits, ROUND_FLOOR)


def _text(value: float, digits: int, rounding: str) -> str:
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    exact = Decimal(value)
    spelled = Decimal(repr(float(value)))
    if len(spelled.normalize().as_tuple().digits) <= digits:  # what a person wrote
        return f"{value:.{digits}g}"
    quantum = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(quantum, rounding=rounding)):.{digits}g}"


@dataclass(frozen=True)
class Privacy:
    """The guarantee that is asked for.

    Parameters
    ----------
    epsilon, delta
        ε > 0 (``inf`` runs the same code with clipping but no noise) and 0 ≤ δ < 1.
    unit
        What one neighbour may change: ``"entry"``, ``"row"``, ``"user"`` or ``"document"``. An
        estimator for which only one makes sense fills it in; a row otherwise.
    neighbours
        ``"replace-one"`` or ``"add-remove-one"``; by default entries are replaced and
        everything else is added or removed.
    trust
        Who sees raw data: ``"central"``, ``"site"``, ``"local"``, ``"aggregator"`` or
        ``"shuffler"``. Filled in where it is left out: one holder is its own curator, several
        sites trust nobody else.
    against
        Whom it protects against; follows from ``trust`` unless given.
    by_site
        Site → its own ε, of those that ask for another one than ``epsilon``; public, and agreed on
        by all. ``inf`` is a site whose data are public: it adds no noise and pays nothing.

    Examples
    --------
    >>> Privacy(epsilon=1, delta=1e-6, unit="user").neighbours
    'add-remove-one'
    >>> Privacy(1, 1e-6, by_site={"North": 0.1}).at("North").epsilon
    0.1
    """

    epsilon: float
    delta: float = 0.0
    unit: str = ""
    neighbours: str | None = None
    trust: str = ""
    against: str | None = None
    by_site: Mapping[str, float] = dataclasses.field(default_factory=dict)
    open: tuple[str, ...] = dataclasses.field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        # what nobody stated, so that `suiting` may fill it in; a copy keeps its own list
        said = {"unit": self.unit, "neighbours": self.neighbours, "trust": self.trust}
        silent = {name for name, value in said.items() if value in (None, "")}
        silent |= {"against"} if self.against is None else set()
        object.__setattr__(self, "open", tuple(sorted(silent | set(self.open))))
        if self.unit == "":
            object.__setattr__(self, "unit", "row")
        if self.trust == "":
            object.__setattr__(self, "trust", "central")
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
        check("by_site", self.by_site, InstanceOf(Mapping))
        for site, epsilon in self.by_site.items():
            check("a site of by_site", site, InstanceOf(str))
            check(f"by_site[{site!r}]", epsilon, Real(0, open_low=True, allow_inf=True))
        own = {site: float(epsilon) for site, epsilon in sorted(self.by_site.items())}
        object.__setattr__(self, "by_site", own)

    def __hash__(self) -> int:
        said = (self.epsilon, self.delta, self.unit, self.neighbours, self.trust, self.against)
        return hash((*said, *self.by_site.items()))

    def __repr__(self) -> str:
        names = ("epsilon", "delta", "unit", "neighbours", "trust", "against")
        said = [f"{name}={getattr(self, name)!r}" for name in names]
        said += [f"by_site={dict(self.by_site)!r}"] if self.by_site else []
        return f"Privacy({', '.join(said)})"

    def at(self, site: str) -> Privacy:
        """Return what one site is asked to give."""
        if not self.by_site:
            return self
        return dataclasses.replace(self, epsilon=self.by_site.get(site, self.epsilon), by_site={})

    @property
    def public_sites(self) -> tuple[str, ...]:
        """The sites whose data are public, of those that have an ε of their own."""
        return tuple(site for site, epsilon in self.by_site.items() if math.isinf(epsilon))

    def suiting(self, unit: str, trust: str, neighbours: str | None = None) -> Privacy:
        """Return the same request with what nobody stated filled in.

        Parameters
        ----------
        unit, trust, neighbours
            What makes sense; without ``neighbours`` the default of the unit.

        Examples
        --------
        >>> Privacy(1, 1e-6).suiting("user", "site").unit
        'user'
        >>> Privacy(1, 1e-6, unit="row").suiting("user", "site").unit
        'row'
        """
        wanted = {"unit": unit, "trust": trust, "neighbours": neighbours, "against": None}
        filled = {name: value for name, value in wanted.items() if name in self.open}
        return dataclasses.replace(self, **filled)  # type: ignore[arg-type]

    def fixed(self) -> Privacy:
        """Return the same request with nothing left to fill in: between parties, as it stands."""
        return dataclasses.replace(self, open=())

    @property
    def is_curated(self) -> bool:
        """Whether somebody stated that one curator sees all raw data."""
        return self.trust == "central" and "trust" not in self.open

    def changed(self, **parts: Any) -> Privacy:
        """Return the same request with some parts stated anew; the others stay open or stated.

        Examples
        --------
        >>> Privacy(1, 1e-6).changed(unit="entry").neighbours
        'replace-one'
        """
        silent = {name: "" if name in ("unit", "trust") else None for name in self.open}
        return dataclasses.replace(self, **{**silent, **parts, "open": ()})

    def stated(self) -> dict[str, Any]:
        """Return what was stated, by name; ``Privacy(**stated)`` is the same request.

        Examples
        --------
        >>> Privacy(1, 1e-6, unit="user").stated()
        {'epsilon': 1, 'delta': 1e-06, 'unit': 'user'}
        """
        names = ("epsilon", "delta", "unit", "neighbours", "trust", "against")
        said = {name: getattr(self, name) for name in names if name not in self.open}
        return said | ({"by_site": dict(self.by_site)} if self.by_site else {})

    def with_epsilon(self, epsilon: float) -> Privacy:
        """Return the same request at another ε, the same for all sites."""
        return dataclasses.replace(self, epsilon=epsilon, by_site={})
