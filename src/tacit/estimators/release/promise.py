"""What several certificates promise together.

Numbers that were inferred from several releases rest on all of them. Where two certificates
protect the same people (they were charged to one ledger, or have one holder) what holds for these
people is the composition of both; certificates of different holders stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import compose
from tacit.privacy.guarantee import round_up

__all__ = ["Promise", "gathered", "promises"]


class Promise(NamedTuple):
    """What holds for the people of one holder.

    Attributes
    ----------
    certificates
        The names of the certificates that it puts together.
    epsilon, delta
        What holds for them together; no number where they state different units.
    unit, neighbours
        What one neighbour changes.
    """

    certificates: tuple[str, ...]
    epsilon: float | None
    delta: float
    unit: str
    neighbours: str

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**self._asdict(), "certificates": list(self.certificates)}

    def __str__(self) -> str:
        names = " and ".join(self.certificates)
        if self.epsilon is None:
            return f"{names}: different units; what each gives adds up for a person in both"
        together = " together" if len(self.certificates) > 1 else ""
        size = f"ε = {round_up(self.epsilon, 4):g}, δ = {self.delta:g}"
        return f"{names}: {size}{together}, per {self.unit} ({self.neighbours})"


def gathered(
    parts: Iterable[tuple[str, Certificate]],
) -> dict[str, Certificate]:
    """Return certificates by names of their own; the same one counts once.

    Parameters
    ----------
    parts
        (name, certificate), in order; a name that is taken is numbered.

    Examples
    --------
    >>> from tacit.privacy.events import LaplaceDpEvent
    >>> from tacit.privacy.guarantee import Privacy
    >>> one, two = (Certificate.issue(Privacy(1.0), LaplaceDpEvent(b)) for b in (1.0, 2.0))
    >>> list(gathered([("the data", one), ("the data", two), ("North", one)]))
    ['the data', 'the data (2)']
    """
    found: dict[str, Certificate] = {}
    for name, certificate in parts:
        if certificate in found.values():
            continue
        own, number = name, 2
        while own in found:
            own, number = f"{name} ({number})", number + 1
        found[own] = certificate
    return found


def promises(certificates: Mapping[str, Certificate]) -> tuple[Promise, ...]:
    """Return what certificates promise, one for each holder.

    Parameters
    ----------
    certificates
        Name → certificate, as a release has them.

    Examples
    --------
    >>> from tacit.privacy.events import LaplaceDpEvent
    >>> from tacit.privacy.guarantee import Privacy
    >>> one, two = (Certificate.issue(Privacy(1.0), LaplaceDpEvent(b)) for b in (1.0, 2.0))
    >>> [found.epsilon for found in promises({"the data": one, "the data (2)": two})]
    [1.5]
    """
    groups: dict[str, list[tuple[str, Certificate]]] = {}
    for name, certificate in certificates.items():
        entry = certificate.ledger
        durable = entry is not None and entry.durable
        # in memory every fit has a ledger of its own: the holder's name is all there is
        people = f"ledger {entry.ledger}" if entry is not None and durable else "holder "
        people += "" if durable else (certificate.holder or "the data")
        groups.setdefault(people, []).append((name, certificate))
    return tuple(_together(group) for group in groups.values())


def _together(group: list[tuple[str, Certificate]]) -> Promise:
    names = tuple(name for name, _ in group)
    first = group[0][1]
    if len(group) == 1:
        return Promise(names, first.epsilon, first.delta, first.unit, first.neighbours)
    alike = {(c.unit, c.neighbours, c.group) for _, c in group}
    delta = max(c.delta for _, c in group)
    epsilon = None
    if len(alike) == 1:
        event = compose(c.worst_event for _, c in group)
        accountants = {c.accountant for _, c in group}
        rule = accountants.pop() if len(accountants) == 1 else "pld"
        epsilon = round_up(epsilon_of(event, delta, rule))
    return Promise(names, epsilon, delta, first.unit, first.neighbours)
