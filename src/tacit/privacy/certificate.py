"""`Certificate`: what was given, with the events to check it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, check
from tacit._core.html import Html, table, tag
from tacit._version import __version__
from tacit.errors import NotCertified, ParameterError, TacitError, VerificationFailed
from tacit.privacy.accounting.accountants import ACCOUNTANTS, epsilon_of
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    DpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    event_from_json,
    event_to_json,
    leaves,
)
from tacit.privacy.guarantee import NEIGHBOURS, TRUSTS, UNITS, Privacy, round_up
from tacit.privacy.ledger.entry import LedgerEntry

__all__ = ["Certificate", "LedgerEntry"]

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


class Confirms(Protocol):
    """A ledger that can say whether it holds a charge."""

    def confirm(self, entry: LedgerEntry, event: DpEvent) -> None:
        """Raise unless this ledger holds the charge that a certificate names."""


# Each upgrade turns the JSON of one certificate schema into the next one's.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
SCHEMA = 1


@dataclass(frozen=True)
class Certificate:
    """What was given: two numbers, five words, and the events from which they follow.

    Build one with `Certificate.issue`, which computes ε; read it with ``str``; check it with
    `verify`, which recomputes ε from the recorded events.

    Attributes
    ----------
    epsilon, delta, unit, neighbours, trust, against, assumptions
        As in the law (PRIVACY A1); ε is rounded up.
    event
        Everything that was released, as one composed event.
    accountant
        Which accountant computed ε.
    groups
        For heterogeneous guarantees: group → (event, ε). ``epsilon`` is then the largest.
    calibration, claimed_epsilon, claim
        ``"published"`` reproduces a paper's noise: what the paper claimed, and in words what
        that claim leaves out.
    holder, ledger
        Whose data it was, and where it was charged.
    """

    epsilon: float
    delta: float
    unit: str
    neighbours: str
    trust: str
    against: str
    assumptions: tuple[str, ...]
    event: DpEvent
    accountant: str = "pld"
    groups: Mapping[str, tuple[DpEvent, float]] = field(default_factory=dict)
    calibration: str = "certified"
    claimed_epsilon: float | None = None
    claim: str | None = None
    holder: str | None = None
    ledger: LedgerEntry | None = None
    version: str = __version__
    schema: int = SCHEMA

    @classmethod
    def issue(
        cls,
        privacy: Privacy,
        event: DpEvent,
        *,
        assumptions: tuple[str, ...] = (),
        groups: Mapping[str, DpEvent] | None = None,
        accountant: str = "pld",
        claimed_epsilon: float | None = None,
        claim: str | None = None,
        holder: str | None = None,
        ledger: LedgerEntry | None = None,
    ) -> Certificate:
        """Compute ε of what was done and state it.

        Parameters
        ----------
        privacy
            Unit, neighbours, trust and δ; its ε is only what was asked for.
        event
            Everything that was released, for the worst-protected group.
        assumptions
            Every public input and caveat.
        groups
            Group → the event as that group experiences it.
        claimed_epsilon, claim
            For published calibrations, what the paper claimed and what that leaves out.
        """
        assert privacy.neighbours is not None and privacy.against is not None
        table = {
            name: (part, round_up(epsilon_of(part, privacy.delta, accountant)))
            for name, part in (groups or {}).items()
        }
        total = round_up(epsilon_of(event, privacy.delta, accountant))
        certificate = cls(
            epsilon=max([total, *(epsilon for _, epsilon in table.values())]),
            delta=privacy.delta,
            unit=privacy.unit,
            neighbours=privacy.neighbours,
            trust=privacy.trust,
            against=privacy.against,
            assumptions=assumptions,
            event=event,
            accountant=accountant,
            groups=table,
            calibration="certified" if claimed_epsilon is None else "published",
            claimed_epsilon=claimed_epsilon,
            claim=claim,
            holder=holder,
            ledger=ledger,
        )
        certificate._check_consistent()
        return certificate

    def _check_consistent(self) -> None:
        """Refuse events whose relation is not the stated one, and published without a claim."""
        for leaf in leaves(self.event):
            if isinstance(leaf, PoissonSampledDpEvent) and leaf.neighbours != self.neighbours:
                raise NotCertified(
                    f"an event was recorded for {leaf.neighbours} neighbours, but the "
                    f"certificate states {self.neighbours}"
                )
        if self.calibration == "published" and (self.claimed_epsilon is None or not self.claim):
            raise NotCertified("a published calibration must state its claim and what it omits")

    def verify(self, ledger: Confirms | None = None) -> Certificate:
        """Recompute ε from the events; raise `VerificationFailed` if anything disagrees.

        Parameters
        ----------
        ledger
            The data holder's ledger; then also check that it holds the charge.
        """
        self._check_consistent()
        recomputed = round_up(epsilon_of(self.event, self.delta, self.accountant))
        for name, (event, epsilon) in self.groups.items():
            group = round_up(epsilon_of(event, self.delta, self.accountant))
            if not _agrees(group, epsilon):
                raise VerificationFailed(
                    f"group {name!r} states epsilon={epsilon:g}, but its events give {group:g}"
                )
            recomputed = max(recomputed, group)
        if not _agrees(recomputed, self.epsilon):
            raise VerificationFailed(
                f"the certificate states epsilon={self.epsilon:g}, but its events give "
                f"{recomputed:g} at delta={self.delta:g}"
            )
        if ledger is not None:
            if self.ledger is None:
                raise VerificationFailed("the certificate names no ledger")
            ledger.confirm(self.ledger, self.event)
        return self

    @property
    def is_private(self) -> bool:
        """Whether ε is finite."""
        return math.isfinite(self.epsilon)

    def __str__(self) -> str:
        if not self.is_private:
            return "No privacy guarantee: " + (
                "data was released without noise."
                if any(isinstance(leaf, NonPrivateDpEvent) for leaf in leaves(self.event))
                else "the events recorded have no finite epsilon."
            )
        change = _CHANGE[self.unit, self.neighbours]
        whose = f" of {self.holder}" if self.holder else ""
        text = (
            f"What was released{whose} is (ε = {round_up(self.epsilon, 4):g}, "
            f"δ = {self.delta:g})-differentially private when {change} ({self.neighbours}), "
            f"against {self.against}; trust: {self.trust}; computed by the {self.accountant} "
            f"accountant from {sum(leaves(self.event).values())} recorded event(s)"
        )
        if self.groups:
            smallest = min(epsilon for _, epsilon in self.groups.values())
            text += f"; ε differs between {len(self.groups)} groups, from {smallest:g} up"
        if self.ledger is not None:
            durable = "" if self.ledger.durable else ", which is not durable"
            text += f"; charged to ledger {self.ledger.ledger[:8]}{durable}"
            text += f" as row {self.ledger.counter}"
        if self.claimed_epsilon is not None:
            text += f". The published claim was ε = {self.claimed_epsilon:g}: {self.claim}"
        if self.assumptions:
            text += ". It assumes: " + "; ".join(self.assumptions)
        return text.rstrip(".") + "."

    def table(self) -> list[tuple[str, str]]:
        """Return the certificate as rows of (field, value), for people."""
        events = sum(leaves(self.event).values())
        rows = [
            ("ε", f"{self.epsilon:g}"),
            ("δ", f"{self.delta:g}"),
            ("unit", self.unit),
            ("neighbours", self.neighbours),
            ("trust", self.trust),
            ("against", self.against),
            ("accountant", f"{self.accountant}, over {events} event(s)"),
            ("calibration", self.calibration),
        ]
        rows += [(f"ε of {name}", f"{epsilon:g}") for name, (_, epsilon) in self.groups.items()]
        if self.claimed_epsilon is not None:
            rows.append(("published claim", f"ε = {self.claimed_epsilon:g}: {self.claim}"))
        if self.ledger is not None:
            charged = f"ledger {self.ledger.ledger[:8]}, row {self.ledger.counter}"
            rows.append(("charged to", charged))
        return rows + [(f"assumption {k}", a) for k, a in enumerate(self.assumptions, 1)]

    def html_table(self) -> Html:
        """Return the rows of `table` as HTML."""
        return table(
            f"Certificate of {self.holder or 'the data'}", ["field", "value"], self.table()
        )

    def _repr_html_(self) -> str:
        return tag("div", tag("p", str(self)), self.html_table())

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the certificate as JSON, with a digest over its content."""
        data: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, DpEvent):
                value = event_to_json(value)
            elif isinstance(value, LedgerEntry):
                value = dataclasses.asdict(value)
            elif item.name == "groups":
                value = {
                    name: {"event": event_to_json(event), "epsilon": epsilon}
                    for name, (event, epsilon) in value.items()
                }
            elif isinstance(value, float) and math.isinf(value):
                value = "inf"
            data[item.name] = value
        data["digest"] = _digest(data)
        return json.dumps(data, ensure_ascii=False, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate; a changed byte of its content is found by its digest.

        The digest shows accidents and careless edits. It is not a signature: whoever can
        rewrite the file can recompute it, so check a certificate against the holder's ledger.
        """
        try:
            data = json.loads(text)
            found, schema = data.pop("digest"), int(data["schema"])
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise VerificationFailed(f"not a tacit certificate: {error}") from None
        if _digest(data) != found:
            raise VerificationFailed("the certificate was changed after it was issued")
        while schema in UPGRADES and schema < SCHEMA:
            data = UPGRADES[schema](data)
            schema = int(data["schema"])
        if schema != SCHEMA:
            raise VerificationFailed(
                f"certificate schema {schema} is unknown here (this tacit reads {SCHEMA}): "
                "update tacit"
            )
        try:
            return cls(**_fields_of(data))
        except (KeyError, TypeError, ValueError, RecursionError, TacitError) as error:
            raise VerificationFailed(f"the certificate cannot be used: {error}") from None


_TEXT, _EPSILON = InstanceOf(str), Real(0, allow_inf=True)
_FIELDS: dict[str, Constraint] = {  # of the JSON form, besides events
    "epsilon": _EPSILON,
    "delta": Real(0, 1, open_high=True),
    "unit": OneOf(*UNITS),
    "neighbours": OneOf(*NEIGHBOURS),
    "trust": OneOf(*TRUSTS),
    "against": _TEXT,
    "assumptions": InstanceOf(list),
    "accountant": OneOf(*ACCOUNTANTS),
    "groups": InstanceOf(dict),
    "calibration": OneOf("certified", "published"),
    "claimed_epsilon": AnyOf(_EPSILON, None),
    "claim": AnyOf(_TEXT, None),
    "holder": AnyOf(_TEXT, None),
    "ledger": AnyOf(InstanceOf(dict), None),
    "version": _TEXT,
    "schema": Integer(1),
}


def _fields_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a certificate from its JSON form, each of them checked."""
    found = dict(data)
    for name in ("epsilon", "claimed_epsilon"):
        found[name] = _number(found[name])
    for name, constraint in _FIELDS.items():
        check(name, found[name], constraint)
    for number, text in enumerate(found["assumptions"]):
        check(f"assumption {number}", text, _TEXT)
    found["assumptions"] = tuple(found["assumptions"])
    found["event"] = event_from_json(found["event"])
    for name, row in found["groups"].items():
        if not isinstance(row, dict) or set(row) != {"event", "epsilon"}:
            raise ParameterError(f"group {name!r} must have an event and an epsilon")
        epsilon = _number(row["epsilon"])
        check(f"epsilon of group {name!r}", epsilon, _EPSILON)
        found["groups"][name] = event_from_json(row["event"]), epsilon
    if found["ledger"] is not None:
        found["ledger"] = LedgerEntry.from_json(found["ledger"])
    return found


def _number(value: Any) -> Any:
    return math.inf if value == "inf" else value


def _agrees(recomputed: float, stated: float) -> bool:
    """Whether a stated ε is the recomputed one, up to the last digits of another machine."""
    if math.isinf(recomputed) or math.isinf(stated):
        return recomputed == stated
    return math.isclose(recomputed, stated, rel_tol=1e-6, abs_tol=1e-12)


def _digest(data: Mapping[str, Any]) -> str:
    canonical = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
