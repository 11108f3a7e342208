"""Where a release was charged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit._core.check import InstanceOf, Integer, OneOf, check
from tacit.errors import ParameterError

__all__ = ["LedgerEntry"]

_FIELDS = {
    "ledger": InstanceOf(str),
    "counter": Integer(1),
    "digest": InstanceOf(str),
    "durable": OneOf(True, False),
}


@dataclass(frozen=True)
class LedgerEntry:
    """Where a release was charged: the ledger's id, the row's counter and hash."""

    ledger: str
    counter: int
    digest: str
    durable: bool = True

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LedgerEntry:
        """Read it from plain data; anything else is refused."""
        if set(data) != set(_FIELDS):
            raise ParameterError(f"a ledger's entry has the fields {sorted(_FIELDS)}")
        for name, constraint in _FIELDS.items():
            check(name, data[name], constraint)
        return cls(**data)
