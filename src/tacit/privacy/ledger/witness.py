"""The ledger as a witness: what it confirms of a certificate, and what it signs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tacit.errors import LedgerCorrupt
from tacit.privacy.events import DpEvent, leaves
from tacit.privacy.groups import Protected
from tacit.privacy.ledger.checking import check_rows
from tacit.privacy.ledger.entry import LedgerEntry, Seal
from tacit.privacy.ledger.keys import check_endorsement
from tacit.privacy.ledger.reservation import row_leaves
from tacit.privacy.ledger.rows import Head
from tacit.privacy.ledger.sqlite import check_head
from tacit.privacy.ledger.store import Store
from tacit.privacy.ledger.terms import Terms

__all__ = ["check_whole", "confirm_row", "confirm_seal", "sealed"]


def check_whole(store: Store, protected: Protected) -> Head:
    """Check rows, signatures, mark and triggers of a ledger; return the end of its chain."""
    meta = store.meta
    head = check_rows(store.texts(), meta, protected)
    check_head(meta, head, f"ledger {meta.id[:8]}")
    for given in store.endorsements():
        check_endorsement(meta.id, meta.key, given)
    store.head()  # which looks at the mark
    store.check()
    return head


def confirm_row(store: Store, entry: LedgerEntry, event: DpEvent, terms: Terms) -> None:
    """Raise `LedgerCorrupt` unless a certificate states exactly what its row holds.

    Stating less than the row is a forgery as much as stating more: fewer events, another unit,
    another trust or fewer assumptions all make a release look better than it was.
    """
    row = store.row(entry.counter)
    if entry.ledger != store.meta.id or row is None or row.digest != entry.digest:
        raise LedgerCorrupt("this ledger does not hold the charge that the certificate names")
    if row.kind != "charge" or row.computed_digest() != row.digest:
        raise LedgerCorrupt("the row that the certificate names is no charge, or was changed")
    paid, stated = row_leaves(row), leaves(event)
    if any(paid.get(leaf, 0) < n for leaf, n in stated.items()):
        raise LedgerCorrupt("the ledger was charged for less than the certificate states")
    if paid != stated:
        raise LedgerCorrupt("the certificate states less than the ledger was charged for")
    if (row.unit, row.neighbours) != (terms.unit, terms.neighbours):
        raise LedgerCorrupt(
            f"the ledger was charged for one {row.unit} under {row.neighbours}: the certificate "
            f"states one {terms.unit} under {terms.neighbours}"
        )
    if row.terms != terms.digest or entry.durable != store.durable:
        raise LedgerCorrupt(
            "the certificate states other terms than the ledger holds: its assumptions, trust, δ, "
            "groups, claim or holder were changed"
        )


def confirm_seal(store: Store, seal: Seal) -> None:
    """Raise unless a seal is that of this ledger's key, and what it saw is still there."""
    if seal.key != store.meta.key:
        raise LedgerCorrupt("the certificate is signed by another key than this ledger's")
    seen = store.row(seal.counter)
    if seen is None or seen.digest != seal.head:
        raise LedgerCorrupt(
            f"rows were removed from this ledger, or it is an older copy: the certificate saw row "
            f"{seal.counter}, which is not there"
        )


def sealed(store: Store, text_of: Callable[[Seal], bytes]) -> Seal | None:
    """Sign a text that names the end of a ledger; None where it has no key."""
    signing = store.signing()
    if signing is None:
        return None
    head = store.head()
    vouched = next(iter(store.endorsements()), ("", ""))
    draft = Seal(store.meta.key, head.counter, head.digest, *vouched)
    return replace(draft, signature=signing.sign(text_of(draft)))
