"""What is fixed when a ledger is created, and checked whenever one is opened."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from tacit._core.check import InstanceOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.privacy.guarantee import UNITS, Privacy
from tacit.privacy.ledger.filters import RULES
from tacit.privacy.ledger.rows import Meta

__all__ = ["new_meta", "now"]


def now() -> str:
    """Return the time, as rows state it."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def new_meta(
    epsilon: float,
    delta: float,
    rule: str,
    unit: str,
    neighbours: str | None,
    most: Mapping[str, int],
) -> Meta:
    """Return what is fixed of a new ledger, checked."""
    check("epsilon", epsilon, Real(0, open_low=True))
    check("delta", delta, Real(0, 1, open_high=True))
    check("filter", rule, OneOf(*RULES))
    if rule != "basic" and delta == 0.0:
        raise ParameterError(f"delta must be positive for a ledger with filter={rule!r}")
    own = Privacy(1.0, unit=unit, neighbours=neighbours)
    check("most", most, InstanceOf(Mapping, text="a table of finer units"))
    for finer, bound in most.items():
        check("a unit of most", finer, OneOf(*UNITS))
        check(f"most[{finer!r}]", bound, Integer(1))
    bounds = json.dumps({finer: int(bound) for finer, bound in sorted(most.items())})
    assert own.neighbours is not None
    numbers = repr(float(epsilon)), repr(float(delta))
    return Meta(uuid.uuid4().hex, *numbers, rule, now(), unit, own.neighbours, bounds)
