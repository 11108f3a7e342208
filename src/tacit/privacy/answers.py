"""Certificates and ledgers as people read them: the line of promise first, then the fields."""

from __future__ import annotations

import math
from typing import Any

from tacit._core.answers import Answer, Table
from tacit._core.pictures import Later, Lines, Picture
from tacit.privacy.guarantee import shown, shown_left
from tacit.privacy.promises import promise

__all__ = ["certificate_answer", "ledger_answer", "left_number", "spent_number"]


def spent_number(value: float) -> float:
    """Return a cost as it is shown: to four digits, never less.

    >>> spent_number(0.87654), spent_number(0.1)
    (0.8766, 0.1)
    """
    return float(shown(value, 4))


def left_number(value: float) -> float:
    """Return what is left as it is shown: to four digits, never more.

    >>> left_number(0.87659)
    0.8765
    """
    return float(shown_left(value, 4))


def certificate_answer(certificate: Any) -> Answer:
    """Return the answer of a `tacit.Certificate`; its curve is computed when it is drawn."""
    rows = certificate.table()
    fields = {"field": [name for name, _ in rows], "value": [text for _, text in rows]}
    whose = certificate.holder or "the data"

    def curve() -> Picture:
        points = [(delta, epsilon) for delta, epsilon in certificate.curve().finite]
        return Lines(
            f"Every guarantee that {whose} has at once",
            "δ",
            "ε",
            {"ε(δ)": points},
            {"as stated": certificate.epsilon} if math.isfinite(certificate.epsilon) else {},
            logarithmic=True,
        )

    return Answer(
        f"Certificate of {whose}",
        promise({whose: certificate}),
        (Table("certificate", f"Certificate of {whose}", fields),),
        details={"In full, for experts": str(certificate)},
        pictures=Later({"curve": curve}),
    )


def ledger_answer(ledger: Any) -> Answer:
    """Return the answer of a `tacit.Ledger` or of one that was exported: its holder's own."""
    spent, left = ledger.spent, ledger.remaining
    charges = [row for row in ledger.table() if row[2] == "charge"]
    headings = ("row", "time (UTC)", "purpose", "for one", "own ε", "ε here", "total ε")
    kept = (0, 1, 3, 4, 5, 6, 7)
    columns = {name: [row[k] for row in charges] for name, k in zip(headings, kept, strict=True)}
    points = [(0.0, 0.0)]
    points += [(float(k), float(row[7])) for k, row in enumerate(charges, 1)]
    warned = ["it is not durable: charges are lost with this process."]
    return Answer(
        f"Ledger {ledger.id[:8]} for one {ledger.unit} ({ledger.neighbours})",
        f"ε = {shown(spent.epsilon, 4)} of {ledger.epsilon:g} and δ = {shown(spent.delta, 4)} of "
        f"{ledger.delta:g} are spent, by {len(charges)} charge{'s' * (len(charges) != 1)}; "
        f"ε = {shown_left(left.epsilon, 4)} is left.",
        (
            Table(
                "budget",
                "Budget",
                {
                    "of": ["ε", "δ"],
                    "spent": [spent_number(spent.epsilon), spent_number(spent.delta)],
                    "left": [left_number(left.epsilon), left_number(left.delta)],
                    "ceiling": [ledger.epsilon, ledger.delta],
                },
            ),
            Table("charges", "Charges", columns, ("numbers are rounded up, as text",)),
        ),
        () if ledger.durable else tuple(warned),
        pictures={
            "budget": Lines(
                "Budget over time",
                "charge",
                "ε spent in all",
                {"spent": points},
                {"ceiling": ledger.epsilon},
            )
        },
    )
