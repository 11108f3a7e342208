"""Where a release was charged, and the seal that a ledger puts on a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tacit._core.check import InstanceOf, Integer, OneOf, check
from tacit.errors import ParameterError

__all__ = ["LedgerEntry", "Seal"]

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


_HEX = InstanceOf(str)
_SEAL = {
    "key": _HEX,
    "counter": Integer(1),
    "head": _HEX,
    "identity": _HEX,
    "endorsement": _HEX,
    "signature": _HEX,
}


@dataclass(frozen=True)
class Seal:
    """A ledger's signature under a certificate.

    Attributes
    ----------
    key
        The ledger's public key.
    counter, head
        The last row of the ledger when it signed, and that row's hash: a ledger that does not
        have it any more has lost rows.
    identity, endorsement
        The public identity of the site and its signature of the key; empty where it has none.
    signature
        Of the whole certificate, by the key.
    """

    key: str
    counter: int
    head: str
    identity: str = ""
    endorsement: str = ""
    signature: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Seal:
        """Read it from plain data; anything else is refused."""
        if set(data) != set(_SEAL):
            raise ParameterError(f"a seal has the fields {sorted(_SEAL)}")
        for name, constraint in _SEAL.items():
            check(name, data[name], constraint)
        return cls(**data)
