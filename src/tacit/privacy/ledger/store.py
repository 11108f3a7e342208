"""Where a ledger keeps its rows: what every such place can do, and memory."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from tacit.errors import LedgerCorrupt, LedgerError
from tacit.privacy.ledger.keys import Endorsement, Signing
from tacit.privacy.ledger.rows import Head, Meta, Row, genesis

__all__ = ["ExportedStore", "MemoryStore", "Store"]


class Store(ABC):
    """Append-only rows under one lock."""

    durable: bool
    meta: Meta

    @abstractmethod
    def append(self, build: Callable[[Head], Row]) -> Row:
        """Append the row that ``build`` makes from the current head, or nothing if it raises."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield all rows in order."""

    def texts(self) -> Iterable[Row]:
        """Return all rows in order, with amounts as they are written."""
        return self.rows()

    @abstractmethod
    def head(self) -> Head:
        """Return the current end of the chain."""

    @abstractmethod
    def run_rows(self, run: str, after: int = 0) -> list[Row]:
        """Return the rows of one run that come after a counter."""

    @abstractmethod
    def row(self, counter: int) -> Row | None:
        """Return one row."""

    def ready(self) -> None:
        """Raise `LedgerError` where no row can be added at all; nothing changes."""

    def check(self) -> None:
        """Raise `LedgerCorrupt` where the place itself was tampered with."""

    @property
    def files(self) -> tuple[str, ...] | None:
        """The absolute paths of rows, key and mark; None where other processes cannot open it."""
        return None

    @property
    def marked(self) -> bool:
        """Whether rows that are missing at the end would be noticed."""
        return False

    def signing(self) -> Signing | None:
        """Return the ledger's key, where it has one at hand."""
        return None

    def endorsements(self) -> list[Endorsement]:
        """Return which identities have signed the ledger's key."""
        return []

    def endorse(self, given: Endorsement) -> None:
        """Keep an identity's word for the ledger's key."""
        raise LedgerError("only a ledger in a file has a key that an identity can sign")


class MemoryStore(Store):
    """Rows in this process only: for exploration."""

    durable = False

    def __init__(self, meta: Meta) -> None:
        self.meta = meta
        self._rows: list[Row] = []
        self._runs: dict[str, list[Row]] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def ready(self) -> None:
        """Raise in a forked process."""
        if os.getpid() != self._pid:
            raise LedgerError(
                "a ledger in memory cannot be charged in a forked process: it would be a copy "
                "with the whole budget. Use Ledger.open with a file"
            )

    def append(self, build: Callable[[Head], Row]) -> Row:
        """Append under the lock."""
        self.ready()
        with self._lock:
            row = build(self.head())
            self._keep(row)
            return row

    def _keep(self, row: Row) -> None:
        self._rows.append(row)
        self._runs.setdefault(row.run, []).append(row)

    def rows(self) -> Iterator[Row]:
        """Yield all rows."""
        yield from list(self._rows)

    def head(self) -> Head:
        """Return the end of the chain."""
        return self._rows[-1].head() if self._rows else genesis(self.meta)

    def run_rows(self, run: str, after: int = 0) -> list[Row]:
        """Return the rows of one run."""
        return [row for row in self._runs.get(run, []) if row.counter > after]

    def row(self, counter: int) -> Row | None:
        """Return one row."""
        return self._rows[counter - 1] if 0 < counter <= len(self._rows) else None


class ExportedStore(MemoryStore):
    """A ledger as `Ledger.export` wrote it: to verify, not to charge."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        try:
            super().__init__(Meta(**{name: str(data["meta"][name]) for name in Meta._fields}))
            self.durable = data["durable"] is True
            self._endorsed = [Endorsement(str(a), str(b)) for a, b in data["endorsements"]]
            for row in data["rows"]:
                self._keep(Row.from_json(row))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LedgerCorrupt("this is no exported ledger of tacit") from None

    def ready(self) -> None:
        """Refuse: it is a record."""
        raise LedgerError("an exported ledger is a record: charge the ledger itself")

    def endorsements(self) -> list[Endorsement]:
        """Return which identities have signed the ledger's key."""
        return self._endorsed
