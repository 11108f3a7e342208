"""Rows of a ledger as people read them: a charge in its own unit, and as the ledger counts it."""

from __future__ import annotations

import json
import math
from decimal import ROUND_CEILING, Decimal, localcontext

from tacit.errors import TacitError
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.amounts import float_above
from tacit.privacy.events import event_from_json
from tacit.privacy.ledger.rows import Row

__all__ = ["table_row"]

_COUNTED = {"basic": "", "gdp": "μ² ", "zcdp": "ρ "}


def table_row(row: Row, rule: str) -> tuple[str, ...]:
    """Return a row as text: number, time, kind, purpose, for whom, its own ε, here, and in all."""
    return (
        str(row.counter),
        row.time[:19].replace("T", " "),
        row.kind,
        row.purpose,
        f"{row.unit}, {row.neighbours}" if row.unit else "",
        _own(row) if row.kind == "charge" else "",
        _COUNTED[rule] + _up(float_above(row.cost)) if row.kind == "charge" else "",
        _up(row.epsilon),
    )


def _up(value: float) -> str:
    """Return a number to six digits, rounded up from the decimal that it spells."""
    if not math.isfinite(value):
        return str(value)
    with localcontext(prec=6, rounding=ROUND_CEILING):
        return f"{+Decimal(repr(value)):f}".rstrip("0").rstrip(".") or "0"


def _own(row: Row) -> str:
    """Return the ε of a charge in its own unit and relation, at the δ at which it is counted."""
    delta = float(row.run_delta) if row.run_delta else 0.0
    try:
        return _up(epsilon_of(event_from_json(json.loads(row.event)), delta))
    except TacitError:  # noise that has no ε at this δ, such as a ρ
        return ""
