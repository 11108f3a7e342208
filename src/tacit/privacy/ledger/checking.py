"""What a whole ledger must satisfy: every hash, every sum, every cost, every claim."""

from __future__ import annotations

import json
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from tacit.errors import LedgerCorrupt, TacitError
from tacit.privacy.amounts import add_amounts
from tacit.privacy.events import DpEvent, event_from_json, leaves
from tacit.privacy.groups import Protected
from tacit.privacy.ledger.filters import run_cost
from tacit.privacy.ledger.reservation import claimed_positions
from tacit.privacy.ledger.rows import Head, Meta, Row, genesis

__all__ = ["add_charge", "check_rows"]

_NEARLY = 1 - Fraction(1, 10**6)


def add_charge(head: Head, cost: Fraction, cost_delta: Fraction) -> tuple[Fraction, Fraction]:
    """Return the sums after a charge."""
    delta = add_amounts(head.delta, cost_delta) if cost_delta else head.delta
    return add_amounts(head.amount, cost), delta


class Priced(NamedTuple):
    """What a row's event is, what the row states as its cost, and whether that is enough."""

    steps: dict[DpEvent, int]
    cost: Fraction
    cost_delta: Fraction
    enough: bool


def check_rows(rows: Iterable[Row], meta: Meta, protected: Protected) -> Head:
    """Return the end of a chain of rows, or raise `LedgerCorrupt` with the first that is wrong.

    All rows, oldest first, with amounts as numbers or as text; ``meta`` and ``protected`` are the
    ledger's own. Every row of 10⁵ costs a hash, an exact sum and a look into two tables.
    """
    paid: dict[str, dict[DpEvent, int]] = {}
    drawn: dict[tuple[str, str, int], str] = {}
    start = genesis(meta)
    counter, link, amount, delta = start.counter, start.link, start.amount, start.delta
    digest, signature = start.digest, start.signature
    amount_text, delta_text = str(amount), str(delta)

    @lru_cache(maxsize=4096)
    def priced(*stated: str) -> Priced:
        kind, event, unit, neighbours, delta, cost, cost_delta = stated
        paying = _exact(cost), _exact(cost_delta)
        if kind == "note":
            return Priced({}, *paying, not any(paying))
        found = event_from_json(json.loads(event))
        if kind != "charge":
            return Priced(leaves(found), *paying, not any(paying))
        at = float(delta) if delta else None
        price = run_cost(protected.converted(found, unit, neighbours, at), at, meta.filter)
        # another machine may round the last digits of an accountant differently
        enough = all(p * _NEARLY <= s for p, s in zip(price, paying, strict=True))
        return Priced(leaves(found), *paying, enough)

    for row in rows:
        counter += 1
        if row.counter != counter or row.previous != link:
            raise LedgerCorrupt(f"{_where(row, meta)} does not follow the row before it")
        digest, signature = row.digest, row.signature
        if row.computed_digest() != digest:
            raise LedgerCorrupt(f"{_where(row, meta)} was changed")
        link = f"{digest} {signature}" if signature else digest
        kind = row.kind
        try:
            steps, cost, cost_delta, enough = priced(
                kind,
                row.event,
                row.unit,
                row.neighbours,
                row.run_delta,
                str(row.cost),
                str(row.cost_delta),
            )
        except LedgerCorrupt:
            raise
        except (ValueError, TypeError, AttributeError, ArithmeticError, TacitError):
            raise LedgerCorrupt(
                f"{_where(row, meta)} holds an event that cannot be read"
            ) from None
        if cost:
            amount = add_amounts(amount, cost)
            amount_text = str(amount)
        if cost_delta:
            delta = add_amounts(delta, cost_delta)
            delta_text = str(delta)
        if amount_text != str(row.amount) or delta_text != str(row.delta):
            raise LedgerCorrupt(f"{_where(row, meta)} does not add up")
        if kind == "charge":
            if not enough:
                raise LedgerCorrupt(f"{_where(row, meta)} states less than its event costs")
            if row.run:
                paid[row.run] = dict(steps)
        elif kind == "note":
            if not enough:
                raise LedgerCorrupt(f"{_where(row, meta)} is a note, and has a cost")
        else:
            _check_claim(row, steps, paid, drawn, _where(row, meta))
    return Head(counter, amount, delta, digest, signature)


def _where(row: Row, meta: Meta) -> str:
    return f"row {row.counter} of ledger {meta.id[:8]}"


def _exact(amount: str) -> Fraction:
    try:
        return Fraction(amount)
    except (ValueError, ZeroDivisionError):
        raise LedgerCorrupt(f"an amount of the ledger cannot be read: {amount!r:.40}") from None


def _check_claim(
    row: Row,
    steps: dict[DpEvent, int],
    paid: dict[str, dict[DpEvent, int]],
    drawn: dict[tuple[str, str, int], str],
    where: str,
) -> None:
    """Raise unless a claim was paid for, and names no position that was claimed before.

    A try may claim once more what the last one claimed, by name and for nothing. ``drawn`` holds
    the name of the last try at every position.
    """
    if row.run not in paid or str(row.cost) != "0" or str(row.cost_delta) != "0":
        raise LedgerCorrupt(f"{where} claims a step that was not reserved")
    for leaf, count in steps.items():
        left = paid[row.run].get(leaf, 0) - count
        if left < 0:
            raise LedgerCorrupt(f"{where} claims a step that was not reserved")
        paid[row.run][leaf] = left
    named = claimed_positions(row.purpose)
    if named is not None:
        for position in range(named.first, named.stop):
            place = row.run, named.step, position
            last = drawn.get(place)
            again = bool(named.after) and named.after == last and not steps
            if (last is not None or named.after) and not again:
                raise LedgerCorrupt(f"{where} claims a step that was claimed before")
            drawn[place] = named.name
