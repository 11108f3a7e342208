"""What a certificate states besides ε and its events; a ledger's row holds a digest of it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tacit.privacy.events import DpEvent, event_to_json
from tacit.privacy.guarantee import Privacy

__all__ = ["Terms"]


@dataclass(frozen=True)
class Terms:
    """The words under which something is released, fixed before any noise is drawn.

    A row holds their digest, so that a certificate which leaves out an assumption, names another
    trust or unit, or drops what a paper claimed, is found to be a forgery.

    Attributes
    ----------
    delta, unit, neighbours, trust, against, assumptions, accountant, groups, calibration, \
claimed_epsilon, claim, holder
        As in `tacit.privacy.certificate.Certificate`; ``groups`` without their ε.
    """

    delta: float
    unit: str
    neighbours: str
    trust: str
    against: str
    assumptions: tuple[str, ...] = ()
    accountant: str = "pld"
    groups: Mapping[str, DpEvent] = field(default_factory=dict)
    calibration: str = "certified"
    claimed_epsilon: float | None = None
    claim: str | None = None
    holder: str | None = None

    @classmethod
    def of(
        cls,
        privacy: Privacy,
        *,
        assumptions: tuple[str, ...] = (),
        groups: Mapping[str, DpEvent] | None = None,
        accountant: str = "pld",
        claimed_epsilon: float | None = None,
        claim: str | None = None,
        holder: str | None = None,
    ) -> Terms:
        """Return the terms of a request; parameters as in `Certificate.issue`."""
        assert privacy.neighbours is not None and privacy.against is not None
        return cls(
            delta=float(privacy.delta),
            unit=privacy.unit,
            neighbours=privacy.neighbours,
            trust=privacy.trust,
            against=privacy.against,
            assumptions=tuple(assumptions),
            accountant=accountant,
            groups=dict(groups or {}),
            calibration="certified" if claimed_epsilon is None else "published",
            claimed_epsilon=claimed_epsilon,
            claim=claim,
            holder=holder,
        )

    @cached_property
    def digest(self) -> str:
        """A digest of all of them."""
        content = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        content["groups"] = {name: event_to_json(part) for name, part in self.groups.items()}
        content["delta"] = repr(float(self.delta))
        if self.claimed_epsilon is not None:
            content["claimed_epsilon"] = repr(float(self.claimed_epsilon))
        text = json.dumps(content, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(b"tacit 1 terms\n" + text.encode()).hexdigest()
