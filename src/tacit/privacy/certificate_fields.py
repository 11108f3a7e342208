"""The fields of a certificate in JSON, each of them checked before anything is made of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.privacy.accounting.accountants import ACCOUNTANTS
from tacit.privacy.events import event_from_json
from tacit.privacy.guarantee import NEIGHBOURS, TRUSTS, UNITS
from tacit.privacy.ledger.entry import LedgerEntry, Seal

__all__ = ["fields_of"]

_TEXT, _EPSILON = InstanceOf(str), Real(0, allow_inf=True)
_FIELDS: dict[str, Constraint] = {  # of the JSON form, besides events
    "epsilon": _EPSILON,
    "delta": Real(0, 1, open_high=True),
    "unit": OneOf(*UNITS),
    "neighbours": OneOf(*NEIGHBOURS),
    "trust": OneOf(*TRUSTS),
    "against": _TEXT,
    "assumptions": InstanceOf(list),
    "accountant": OneOf(*ACCOUNTANTS),
    "groups": InstanceOf(dict),
    "calibration": OneOf("certified", "published"),
    "claimed_epsilon": AnyOf(_EPSILON, None),
    "claim": AnyOf(_TEXT, None),
    "holder": AnyOf(_TEXT, None),
    "ledger": AnyOf(InstanceOf(dict), None),
    "group": Integer(1),
    "seal": AnyOf(InstanceOf(dict), None),
    "version": _TEXT,
    "schema": Integer(1),
}


def fields_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a certificate from its JSON form, each of them checked."""
    found = dict(data)
    for name in ("epsilon", "claimed_epsilon"):
        found[name] = _number(found[name])
    for name, constraint in _FIELDS.items():
        check(name, found[name], constraint)
    for number, text in enumerate(found["assumptions"]):
        check(f"assumption {number}", text, _TEXT)
    found["assumptions"] = tuple(found["assumptions"])
    found["event"] = event_from_json(found["event"])
    for name, row in found["groups"].items():
        if not isinstance(row, dict) or set(row) != {"event", "epsilon"}:
            raise ParameterError(f"group {name!r} must have an event and an epsilon")
        epsilon = _number(row["epsilon"])
        check(f"epsilon of group {name!r}", epsilon, _EPSILON)
        found["groups"][name] = event_from_json(row["event"]), epsilon
    if found["ledger"] is not None:
        found["ledger"] = LedgerEntry.from_json(found["ledger"])
    if found["seal"] is not None:
        found["seal"] = Seal.from_json(found["seal"])
    return found


def _number(value: Any) -> Any:
    return math.inf if value == "inf" else value
