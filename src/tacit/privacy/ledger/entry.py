"""Where a release was charged."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LedgerEntry"]


@dataclass(frozen=True)
class LedgerEntry:
    """Where a release was charged: the ledger's id, the row's counter and hash."""

    ledger: str
    counter: int
    digest: str
    durable: bool = True
