"""What a whole ledger must satisfy: every hash, every sum, every cost, every claim."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction

from tacit.errors import LedgerCorrupt, TacitError
from tacit.privacy.amounts import add_amounts
from tacit.privacy.events import DpEvent, event_from_json, leaves
from tacit.privacy.ledger.filters import run_cost
from tacit.privacy.ledger.reservation import claimed_positions
from tacit.privacy.ledger.store import Head, Row

__all__ = ["add_charge", "check_rows"]

_NEARLY = 1 - Fraction(1, 10**6)


def add_charge(head: Head, cost: Fraction, cost_delta: Fraction) -> tuple[Fraction, Fraction]:
    """Return the sums after a charge."""
    delta = add_amounts(head.delta, cost_delta) if cost_delta else head.delta
    return add_amounts(head.amount, cost), delta


def check_rows(rows: Iterable[Row], head: Head, rule: str, name: str) -> Head:
    """Return the end of a chain of rows, or raise `LedgerCorrupt` with the first that is wrong.

    All rows, oldest first, after ``head``; ``rule`` and ``name`` are the ledger's filter and its
    id.
    """
    paid: dict[str, dict[DpEvent, int]] = {}
    drawn: dict[tuple[str, str, int], str] = {}
    for row in rows:
        where = f"row {row.counter} of ledger {name[:8]}"
        if row.counter != head.counter + 1 or row.previous != head.digest:
            raise LedgerCorrupt(f"{where} does not follow the row before it")
        if row.computed_digest() != row.digest:
            raise LedgerCorrupt(f"{where} was changed")
        if (row.amount, row.delta) != add_charge(head, row.cost, row.cost_delta):
            raise LedgerCorrupt(f"{where} does not add up")
        try:
            event = event_from_json(json.loads(row.event))
            delta = float(row.run_delta) if row.run_delta else None
            cost = run_cost(event, delta, rule) if row.kind == "charge" else None
        except (ValueError, TypeError, AttributeError, TacitError):
            raise LedgerCorrupt(f"{where} holds an event that cannot be read") from None
        if cost is not None:
            # another machine may round the last digits of an accountant differently
            stated = row.cost, row.cost_delta
            if any(c * _NEARLY > s for c, s in zip(cost, stated, strict=True)):
                raise LedgerCorrupt(f"{where} states less than its event costs")
            paid[row.run] = dict(leaves(event))
        else:
            _check_claim(row, event, paid, drawn, where)
        head = row.head()
    return head


def _check_claim(
    row: Row,
    event: DpEvent,
    paid: dict[str, dict[DpEvent, int]],
    drawn: dict[tuple[str, str, int], str],
    where: str,
) -> None:
    """Raise unless a claim was paid for, and names no position that was claimed before.

    A try may claim once more what the last one claimed, by name and for nothing. ``drawn`` holds
    the name of the last try at every position.
    """
    if row.run not in paid or row.cost or row.cost_delta:
        raise LedgerCorrupt(f"{where} claims a step that was not reserved")
    for leaf, count in leaves(event).items():
        left = paid[row.run].get(leaf, 0) - count
        if left < 0:
            raise LedgerCorrupt(f"{where} claims a step that was not reserved")
        paid[row.run][leaf] = left
    named = claimed_positions(row.purpose)
    if named is not None:
        for position in range(named.first, named.stop):
            place = row.run, named.step, position
            last = drawn.get(place)
            again = bool(named.after) and named.after == last and not leaves(event)
            if (last is not None or named.after) and not again:
                raise LedgerCorrupt(f"{where} claims a step that was claimed before")
            drawn[place] = named.name
