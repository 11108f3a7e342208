"""`Certificate`: what was given, with the events to check it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tacit._core.answers import Answer, Answering
from tacit._core.check import Integer, check
from tacit._core.html import Html, table
from tacit._version import __version__
from tacit.errors import NotCertified, TacitError, VerificationFailed
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.answers import certificate_answer
from tacit.privacy.certificate_fields import fields_of
from tacit.privacy.claims import check_claims, with_claims
from tacit.privacy.curve import Curve, curve_of
from tacit.privacy.events import DpEvent, NonPrivateDpEvent, event_to_json, leaves
from tacit.privacy.groups import group_event
from tacit.privacy.guarantee import Privacy, change_words, round_up
from tacit.privacy.ledger.entry import LedgerEntry, Seal
from tacit.privacy.ledger.keys import (
    Endorsement,
    check_endorsement,
    check_pin,
    identity_fingerprint,
    is_signed,
    key_fingerprint,
)
from tacit.privacy.ledger.terms import Terms

__all__ = ["Certificate", "LedgerEntry"]


class Confirms(Protocol):
    """A ledger that can say whether it holds a charge."""

    def confirm(self, entry: LedgerEntry, event: DpEvent, terms: Terms, seal: Seal | None) -> None:
        """Raise unless this ledger's row holds exactly what a certificate states."""


class Signs(Protocol):
    """A ledger that can sign."""

    def seal(self, text_of: Callable[[Seal], bytes]) -> Seal | None:
        """Sign a text that names the end of the ledger; None where it has no key."""


# Each upgrade turns the JSON of one certificate schema into the next one's.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: lambda data: {**data, "schema": 2, "group": 1, "seal": None},
}
SCHEMA = 2


@dataclass(frozen=True)
class Certificate(Answering):
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
    group
        How many units change at once; one, unless `for_group` converted it.
    seal
        The signature of the ledger's key; None where it is unsigned.
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
    group: int = 1
    seal: Seal | None = None
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
        terms = Terms.of(
            privacy,
            assumptions=with_claims(assumptions, event, *(groups or {}).values()),
            groups=groups,
            accountant=accountant,
            claimed_epsilon=claimed_epsilon,
            claim=claim,
            holder=holder,
        )
        return cls.of_terms(terms, event, ledger=ledger)

    @classmethod
    def of_terms(
        cls, terms: Terms, event: DpEvent, *, ledger: LedgerEntry | None = None
    ) -> Certificate:
        """Compute ε of what was done under terms that were fixed before."""
        table = {
            name: (part, round_up(epsilon_of(part, terms.delta, terms.accountant)))
            for name, part in terms.groups.items()
        }
        total = round_up(epsilon_of(event, terms.delta, terms.accountant))
        stated = {one.name: getattr(terms, one.name) for one in dataclasses.fields(Terms)}
        certificate = cls(
            epsilon=max([total, *(epsilon for _, epsilon in table.values())]),
            event=event,
            ledger=ledger,
            **{**stated, "groups": table},
        )
        certificate._check_consistent()
        return certificate

    def _check_consistent(self) -> None:
        """Refuse events of another relation, and claims that are not listed or say nothing."""
        for leaf in leaves(self.event):
            if (recorded := getattr(leaf, "neighbours", self.neighbours)) != self.neighbours:
                raise NotCertified(
                    f"an event was recorded for {recorded} neighbours, but the "
                    f"certificate states {self.neighbours}"
                )
        check_claims(self.assumptions, *self._events)
        if self.calibration == "published" and (self.claimed_epsilon is None or not self.claim):
            raise NotCertified("a published calibration must state its claim and what it omits")

    @property
    def terms(self) -> Terms:
        """What it states besides ε and its events, as the row of a ledger holds it."""
        groups = {name: event for name, (event, _) in self.groups.items()}
        names = [one.name for one in dataclasses.fields(Terms) if one.name != "groups"]
        return Terms(groups=groups, **{name: getattr(self, name) for name in names})

    def verify(self, ledger: Confirms | None = None, *, pin: str | None = None) -> Certificate:
        """Recompute ε from the events; raise `VerificationFailed` if anything disagrees.

        A signature that is there must be right: `signature` says ``"signed"`` or ``"unsigned"``,
        and what is forged raises.

        Parameters
        ----------
        ledger
            The data holder's ledger; then also check that its row holds exactly what is stated.
        pin
            A fingerprint that you were told: that of the site's identity, or of the ledger's key.
        """
        self._check_consistent()
        self._check_seal()
        if pin is not None:
            check_pin(pin, self.seal.key if self.seal else "", self.identity)
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
            ledger.confirm(self.ledger, self.event, self.terms, self.seal)
        return self

    # -- signatures ---------------------------------------------------------------------------

    def signed(self, ledger: Signs) -> Certificate:
        """Return it with the ledger's signature; as it is where the ledger has no key."""
        return dataclasses.replace(self, seal=ledger.seal(self._sealed_text))

    @property
    def signature(self) -> str:
        """``"signed"`` or ``"unsigned"``; `verify` says whether the signature is right."""
        return "unsigned" if self.seal is None else "signed"

    @property
    def identity(self) -> str:
        """The public identity that vouches for the ledger's key; empty without one."""
        return "" if self.seal is None else self.seal.identity

    @property
    def signed_by(self) -> str:
        """Who signed, in words, with fingerprints to compare."""
        if self.seal is None:
            return "unsigned"
        text = f"signed by the ledger's key {key_fingerprint(self.seal.key)}"
        if self.identity:
            text += f", which the identity {identity_fingerprint(self.identity)} vouches for"
        return text

    def _sealed_text(self, seal: Seal) -> bytes:
        """Return what a ledger signs: the whole certificate, with who signs and what it saw."""
        unsigned = dataclasses.replace(self, seal=dataclasses.replace(seal, signature=""))
        return b"tacit 1 certificate\n" + _digest(unsigned._content()).encode()

    def _check_seal(self) -> None:
        seal = self.seal
        if seal is None:
            return
        if self.ledger is None or seal.counter < self.ledger.counter:
            raise VerificationFailed("forged: a seal without the charge that it is for")
        if not is_signed(seal.key, seal.signature, self._sealed_text(seal)):
            raise VerificationFailed(
                "forged: the certificate is not what its ledger's key has signed"
            )
        if seal.identity or seal.endorsement:
            given = Endorsement(seal.identity, seal.endorsement)
            check_endorsement(self.ledger.ledger, seal.key, given)

    # -- conversions --------------------------------------------------------------------------

    def for_group(self, count: int) -> Certificate:
        """Return what the same release gives to ``count`` units together.

        Computed on the events where they have a rule (k·μ for Gaussian noise, k·ε for pure, k²·ρ)
        and by the general rule elsewhere, at the same δ; the ledger's signature is for one unit,
        so that the result is unsigned and says where it comes from.

        Parameters
        ----------
        count
            How many units change at once.

        Examples
        --------
        >>> from tacit.privacy.events import LaplaceDpEvent
        >>> Certificate.issue(Privacy(1.0), LaplaceDpEvent(1.0)).for_group(2).epsilon
        2.0
        """
        check("count", count, Integer(1))
        if count == 1:
            return self
        event = group_event(self.worst_event, int(count), self.delta, self.accountant)
        origin = f"converted from the certificate of one {self.unit} (ε = {self.epsilon:.9g})"
        if self.ledger is not None:
            origin += f", row {self.ledger.counter} of ledger {self.ledger.ledger[:8]}"
        return dataclasses.replace(
            self,
            epsilon=round_up(epsilon_of(event, self.delta, self.accountant)),
            event=event,
            groups={},
            group=self.group * int(count),
            assumptions=(*self.assumptions, origin),
            ledger=None,
            seal=None,
        )

    @property
    def worst_event(self) -> DpEvent:
        """What was released, as the group that is protected least sees it."""
        return max(self._events, key=lambda one: epsilon_of(one, self.delta, self.accountant))

    @property
    def _events(self) -> list[DpEvent]:
        return [self.event, *(event for event, _ in self.groups.values())]

    def curve(self, deltas: Sequence[float] | None = None) -> Curve:
        """Return ε at every δ, from the recorded events (`tacit.privacy.curve`)."""
        return curve_of(self._events, accountant=self.accountant, deltas=deltas)

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
        change = change_words(self.unit, self.neighbours)
        if self.group > 1:
            change = f"up to {self.group} times over, {change}"
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
            text += f"; charged as row {self.ledger.counter} of ledger {self.ledger.ledger[:8]}"
            text += f"{durable}; {self.signature}"
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
            rows += [("charged to", charged), ("signature", self.signed_by)]
        return rows + [(f"assumption {k}", a) for k, a in enumerate(self.assumptions, 1)]

    def html_table(self) -> Html:
        """Return the rows of `table` as HTML."""
        return table(
            f"Certificate of {self.holder or 'the data'}", ["field", "value"], self.table()
        )

    def _answer(self, level: float) -> Answer:
        return certificate_answer(self)

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the certificate as JSON, with a digest over its content."""
        data = self._content()
        data["digest"] = _digest(data)
        return json.dumps(data, ensure_ascii=False, indent=indent)

    def _content(self) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if isinstance(value, DpEvent):
                value = event_to_json(value)
            elif isinstance(value, LedgerEntry | Seal):
                value = dataclasses.asdict(value)
            elif item.name == "groups":
                value = {
                    name: {"event": event_to_json(event), "epsilon": epsilon}
                    for name, (event, epsilon) in value.items()
                }
            elif isinstance(value, float) and math.isinf(value):
                value = "inf"
            data[item.name] = value
        return data

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Read a certificate; a changed byte of its content is found by its digest.

        The digest shows accidents and careless edits. It is not a signature: whoever can
        rewrite the file can recompute it. The seal is one: see `verify`.
        """
        try:
            data = json.loads(text)
            found, schema = data.pop("digest"), data["schema"]
            check("schema", schema, Integer(1))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            raise VerificationFailed(f"not a tacit certificate: {error}") from None
        if _digest(data) != found:
            raise VerificationFailed("the certificate was changed after it was issued")
        while schema in UPGRADES and schema < SCHEMA:
            data = UPGRADES[schema](data)
            schema = int(data["schema"])
        if schema != SCHEMA:
            raise VerificationFailed(
                f"certificate schema {schema} is unknown here, which reads {SCHEMA}: update tacit"
            )
        try:
            return cls(**fields_of(data))
        except (KeyError, TypeError, ValueError, RecursionError, TacitError) as error:
            raise VerificationFailed(f"the certificate cannot be used: {error}") from None


def _agrees(recomputed: float, stated: float) -> bool:
    """Whether a stated ε is the recomputed one, up to the last digits of another machine."""
    if math.isinf(recomputed) or math.isinf(stated):
        return recomputed == stated
    return math.isclose(recomputed, stated, rel_tol=1e-6, abs_tol=1e-12)


def _digest(data: Mapping[str, Any]) -> str:
    canonical = json.dumps(data, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
