"""A ledger as it can be read and verified: the holder's own, or one that was exported."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tacit._core.answers import Answer, Answering
from tacit.errors import LedgerCorrupt
from tacit.privacy.answers import ledger_answer
from tacit.privacy.curve import Curve
from tacit.privacy.events import DpEvent
from tacit.privacy.groups import Protected
from tacit.privacy.guarantee import round_up
from tacit.privacy.ledger.ceiling import Budget, Ceiling
from tacit.privacy.ledger.entry import LedgerEntry, Seal
from tacit.privacy.ledger.meta import new_meta
from tacit.privacy.ledger.rows import Row
from tacit.privacy.ledger.shown import table_row
from tacit.privacy.ledger.store import ExportedStore, Store
from tacit.privacy.ledger.terms import Terms
from tacit.privacy.ledger.witness import check_whole, confirm_row, confirm_seal

__all__ = ["Record"]


class Record(Answering):
    """What was ever charged to a ledger, to read and to verify."""

    def __init__(self, store: Store) -> None:
        self._store = store
        meta = store.meta
        try:
            self.epsilon, self.delta = float(meta.epsilon), float(meta.delta)
            most = json.loads(meta.most)
            new_meta(self.epsilon, self.delta, meta.filter, meta.unit, meta.neighbours, most)
            bytes.fromhex(meta.key)
        except (TypeError, ValueError):
            raise LedgerCorrupt("the ledger's ceiling or rule cannot be read") from None
        self.filter, self.unit, self.neighbours = meta.filter, meta.unit, meta.neighbours
        self.most: dict[str, int] = most
        self._protected = Protected(self.unit, self.neighbours, most)
        self._ceiling = Ceiling(self.epsilon, self.delta, self.filter)

    @classmethod
    def from_export(cls, data: Mapping[str, Any]) -> Record:
        """Return a ledger that was exported, to verify it and certificates against it."""
        return Record(ExportedStore(data))

    @property
    def id(self) -> str:
        """The ledger's identity, named by every certificate it backs."""
        return self._store.meta.id

    @property
    def key(self) -> str:
        """The ledger's public key in hexadecimal; empty where it has none."""
        return self._store.meta.key

    @property
    def identity(self) -> str:
        """The public identity that vouches for the key, in hexadecimal; empty without one."""
        return next((one.identity for one in self._store.endorsements()), "")

    @property
    def marked(self) -> bool:
        """Whether rows that were removed at the end would be noticed here."""
        return self._store.marked

    @property
    def durable(self) -> bool:
        """Whether charges survive this process."""
        return self._store.durable

    @property
    def counter(self) -> int:
        """How many rows there are."""
        return self._store.head().counter

    @property
    def spent(self) -> Budget:
        """What has been spent, rounded up."""
        return self._ceiling.spent(self._store.head())

    @property
    def remaining(self) -> Budget:
        """What is left, rounded down; under ``gdp`` and ``zcdp`` the ε at the ledger's δ."""
        return self._ceiling.remaining(self._store.head())

    def rows(self) -> Iterator[Row]:
        """Yield every row, oldest first."""
        return self._store.rows()

    def curve(self) -> Curve:
        """Return ε(δ) of the ceiling under the ledger's rule: that is what a ledger promises."""
        return self._ceiling.curve()

    def conversions(self) -> set[str]:
        """Return in words how charges of another unit or relation are counted here."""
        charged = {(row.unit, row.neighbours) for row in self.rows() if row.kind == "charge"}
        return {self._protected.said(*pair) for pair in charged} - {""}

    def table(self) -> list[tuple[str, ...]]:
        """Return the rows for people: what each release is for, what it costs there and here."""
        return [table_row(row, self.filter) for row in self.rows()]

    def export(self) -> dict[str, Any]:
        """Return the whole ledger as plain JSON data, with the signature of its head."""
        spent = self.spent
        return {
            "id": self.id,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "filter": self.filter,
            "created": self._store.meta.created,
            "durable": self.durable,
            "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
            "meta": self._store.meta._asdict(),
            "endorsements": [list(one) for one in self._store.endorsements()],
            "rows": [row.to_json() for row in self.rows()],
        }

    def verify(self) -> int:
        """Check every hash, sum and cost, the head's signature and the mark; return the rows.

        Raises
        ------
        LedgerCorrupt
            If a row was edited, removed or reordered, states less than its event costs, or is not
            signed by the ledger's key; if its triggers were changed.
        """
        head = check_whole(self._store, self._protected)
        if head.amount > self._ceiling.amount(head.delta):
            raise LedgerCorrupt(f"ledger {self.id[:8]} is over its ceiling")
        return head.counter

    def confirm(self, entry: LedgerEntry, event: DpEvent, terms: Terms, seal: Seal | None) -> None:
        """Check that a certificate states exactly what its row holds."""
        confirm_row(self._store, entry, event, terms)
        if seal is not None:
            confirm_seal(self._store, seal)

    def _answer(self, level: float) -> Answer:
        return ledger_answer(self)

    def __repr__(self) -> str:
        spent, kind = self.spent, "" if self.durable else ", not durable"
        return (
            f"<Ledger {self.id[:8]} for one {self.unit} ({self.neighbours}): spent ε = "
            f"{round_up(spent.epsilon, 4):g} of {self.epsilon:g}, δ = "
            f"{round_up(spent.delta, 4):g} of {self.delta:g}; {self.counter} rows{kind}>"
        )
