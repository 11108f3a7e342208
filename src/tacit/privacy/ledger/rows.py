"""What a ledger holds: its meta data, and rows that are chained by their hashes.

Every row carries a hash over its content and the hash before it, so that an edited, removed or
reordered row is found; the signature of the ledger's key over the last hash stands for all of
them. Amounts are exact rationals, kept as text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from tacit.errors import LedgerCorrupt

__all__ = ["AMOUNTS", "Head", "Meta", "Row", "genesis", "next_row"]

AMOUNTS = ("cost", "cost_delta", "amount", "delta")


def _chain_hash(parts: tuple[object, ...]) -> str:
    """Return a hash over texts, each in its quotes, so that none can borrow from the next."""
    content = ascii(parts)
    return hashlib.sha256(content.encode()).hexdigest()


class Meta(NamedTuple):
    """What is fixed when a ledger is created.

    ``unit`` and ``neighbours`` are what the ceiling is for, ``most`` how many of each finer unit
    one unit has at most (JSON), ``key`` the ledger's public key, empty where it has none.
    """

    id: str
    epsilon: str
    delta: str
    filter: str
    created: str
    unit: str
    neighbours: str
    most: str
    key: str = ""


class Head(NamedTuple):
    """The end of the chain: the last row's counter, sums, hash and signature."""

    counter: int
    amount: Fraction
    delta: Fraction
    digest: str
    signature: str = ""

    @property
    def link(self) -> str:
        """What the next row binds: this hash, and the signature that it got."""
        return f"{self.digest} {self.signature}" if self.signature else self.digest


class Row(NamedTuple):
    """One row: a charge, a claim of steps that an earlier charge has paid for, or a note.

    ``unit`` and ``neighbours`` are those of the release, ``event`` its exact multiset of events,
    and ``terms`` a digest of what else its certificate states, assumptions among it. ``cost`` is
    in the ledger's own unit and relation.
    """

    counter: int
    time: str
    kind: str
    run: str
    purpose: str
    event: str
    unit: str
    neighbours: str
    terms: str
    run_delta: str
    cost: Fraction
    cost_delta: Fraction
    amount: Fraction
    delta: Fraction
    epsilon: float
    previous: str
    digest: str
    signature: str

    def computed_digest(self) -> str:
        """Return the hash over everything but the hash itself and its signature."""
        texts = self if isinstance(self.cost, str) else self._written()
        return _chain_hash(texts[:-2])

    def _written(self) -> Row:
        amounts: dict[str, Any] = {name: str(getattr(self, name)) for name in AMOUNTS}
        return self._replace(**amounts)

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON data, its amounts as exact fractions."""
        exact = {name: str(getattr(self, name)) for name in AMOUNTS}
        return {**self._asdict(), "event": json.loads(self.event), **exact}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """Read a row from plain JSON data."""
        try:
            fields = {name: data[name] for name in cls._fields}
            fields["event"] = json.dumps(fields["event"], separators=(",", ":"))
            return cls(**fields).exact()
        except (TypeError, KeyError, AttributeError):
            raise LedgerCorrupt("a row of the exported ledger cannot be read") from None

    def exact(self) -> Row:
        """Return the row with amounts as numbers, where they were text."""
        try:
            amounts: dict[str, Any] = {n: Fraction(str(getattr(self, n))) for n in AMOUNTS}
            return self._replace(**amounts)
        except (ValueError, ZeroDivisionError):
            raise LedgerCorrupt(f"row {self.counter} of the ledger cannot be read") from None

    def head(self) -> Head:
        """Return the end of the chain after this row."""
        return Head(self.counter, self.amount, self.delta, self.digest, self.signature)


def next_row(head: Head, **fields: Any) -> Row:
    """Return the row with the given content that follows ``head``; without a cost, it has none."""
    free: dict[str, Any] = {
        **dict.fromkeys(("run_delta", "unit", "neighbours", "terms", "signature"), ""),
        **dict.fromkeys(("cost", "cost_delta"), Fraction(0)),
    }
    fields = free | {"amount": head.amount, "delta": head.delta} | fields
    row = Row(counter=head.counter + 1, previous=head.link, digest="", **fields)
    return row._replace(digest=row.computed_digest())


def genesis(meta: Meta) -> Head:
    """Return the head of an empty ledger; its hash binds the ceiling, the id and the key."""
    return Head(0, Fraction(0), Fraction(0), _chain_hash(tuple(meta)))
