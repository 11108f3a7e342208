"""The ledger: one per data holder, append-only, a filter that refuses before any noise is drawn.

Across runs, which may be chosen after seeing earlier releases, a ledger admits charges by a
rule that holds under full adaptivity. The rule is fixed when the ledger is created:

========  ======================================================================================
basic     the runs' (ε, δ) add up (the default; any run)
gdp       the runs' μ² add up, at the ledger's δ (Gaussian noise only; many small releases)
zcdp      the runs' ρ add up, at the ledger's δ (pure, Gaussian and concentrated noise)
========  ======================================================================================

It is never chosen by looking at the charges: a filter that takes whichever bound is smaller
in the end would cost the sum of both δ. Within a run, whose schedule is reserved as a whole,
the cost is that of the privacy-loss distribution.
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from tacit._core.check import AnyOf, InstanceOf, Integer, OneOf, Real, Text, check
from tacit._core.html import table, tag
from tacit.errors import BudgetExceeded, LedgerCorrupt, LedgerError, NotCertified, ParameterError
from tacit.privacy.amounts import as_exact, float_above, float_below
from tacit.privacy.events import DpEvent, event_from_json, event_to_json, leaves
from tacit.privacy.ledger.checking import add_charge, check_rows
from tacit.privacy.ledger.entry import LedgerEntry
from tacit.privacy.ledger.filters import RULES, refused, rule_ceiling, rule_epsilon, run_cost
from tacit.privacy.ledger.reservation import Reservation, row_leaves
from tacit.privacy.ledger.store import (
    Head,
    MemoryStore,
    Meta,
    Row,
    SQLiteStore,
    Store,
    genesis,
    next_row,
)

__all__ = ["Budget", "Ledger", "Reservation"]


@dataclass(frozen=True)
class Budget:
    """An amount of (ε, δ)."""

    epsilon: float
    delta: float


class Ledger:
    """A data holder's privacy budget, and everything that was ever charged to it.

    Open a durable one with `Ledger.open`; `Ledger.memory` is for exploration.

    Examples
    --------
    >>> from tacit.privacy.events import LaplaceDpEvent
    >>> ledger = Ledger.memory(epsilon=1.0)
    >>> entry = ledger.charge(LaplaceDpEvent(2.0), purpose="mean age")
    >>> ledger.remaining
    Budget(epsilon=0.5, delta=0.0)
    >>> ledger.charge(LaplaceDpEvent(1.0), purpose="one too many")
    Traceback (most recent call last):
    tacit.errors.BudgetExceeded: the ledger refused the charge: 'one too many' costs ε = 1, but
    ε = 0.5 of 1 and δ = 0 of 0 are left. Nothing was released
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        meta = store.meta
        try:
            self.epsilon, self.delta = float(meta.epsilon), float(meta.delta)
            self._new_meta(self.epsilon, self.delta, meta.filter)
        except (TypeError, ValueError):
            raise LedgerCorrupt("the ledger's ceiling or rule cannot be read") from None
        self.filter = meta.filter
        self._ceiling = as_exact(self.epsilon), as_exact(self.delta)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        filter: str | None = None,
    ) -> Ledger:
        """Open the ledger at ``path``, or create it with the given ceiling.

        Parameters
        ----------
        path
            The file. It must stay in one place: a copy would start the budget anew.
        epsilon, delta
            The ceiling. Needed to create a ledger; for an existing one they may be left out,
            and must agree if given.
        filter
            The admission rule: ``"basic"`` (default), ``"gdp"`` or ``"zcdp"``.
        """
        check("path", path, InstanceOf(str, os.PathLike, text="str or path"))
        create = None
        if epsilon is not None:
            create = cls._new_meta(epsilon, 0.0 if delta is None else delta, filter or "basic")
        ledger = cls(SQLiteStore(Path(path), create))
        wanted = {"epsilon": epsilon, "delta": delta, "filter": filter}
        for name, value in wanted.items():
            found = getattr(ledger, name)
            if value is not None and value != found:
                raise LedgerError(
                    f"the ledger {path} was created with {name}={found!r}, not {value!r}: its "
                    "ceiling is fixed. Open it without stating one, or use another file"
                )
        return ledger

    @classmethod
    def memory(cls, *, epsilon: float, delta: float = 0.0, filter: str = "basic") -> Ledger:
        """Return a ledger that lives in this process only; certificates say so."""
        return cls(MemoryStore(cls._new_meta(epsilon, delta, filter)))

    @staticmethod
    def _new_meta(epsilon: float, delta: float, rule: str) -> Meta:
        check("epsilon", epsilon, Real(0, open_low=True))
        check("delta", delta, Real(0, 1, open_high=True))
        check("filter", rule, OneOf(*RULES))
        if rule != "basic" and delta == 0.0:
            raise ParameterError(f"delta must be positive for a ledger with filter={rule!r}")
        return Meta(uuid.uuid4().hex, repr(float(epsilon)), repr(float(delta)), rule, _now())

    # -- reading ------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The ledger's identity, named by every certificate it backs."""
        return self._store.meta.id

    @property
    def durable(self) -> bool:
        """Whether charges survive this process."""
        return self._store.durable

    @property
    def counter(self) -> int:
        """How many rows there are."""
        return self._store.head().counter

    @property
    def spent(self) -> Budget:
        """What has been spent, rounded up."""
        return self._spent(self._store.head())

    @property
    def remaining(self) -> Budget:
        """What is left, rounded down; under ``gdp`` and ``zcdp`` the ε at the ledger's δ."""
        return self._remaining(self._store.head())

    def _remaining(self, head: Head) -> Budget:
        spent = self._spent(head)
        if self.filter == "basic":
            return Budget(
                float_below(self._ceiling[0] - head.amount),
                float_below(self._ceiling[1] - head.delta),
            )
        return Budget(max(0.0, self.epsilon - spent.epsilon), self.delta - spent.delta)

    def _spent(self, head: Head) -> Budget:
        return Budget(self._as_epsilon(head.amount, head.delta), float_above(head.delta))

    def _as_epsilon(self, amount: Fraction, delta: Fraction) -> float:
        """Return the (ε at the ledger's δ) that an amount stands for."""
        left = self.delta - float_above(delta) if delta else self.delta
        return rule_epsilon(self.filter, float_above(amount), left)

    def _shown(self, amount: Fraction, delta: Fraction) -> float:
        """Return the cumulative ε that a row shows to people."""
        if self.filter == "basic":
            return math.nextafter(float(amount), math.inf) if amount else 0.0
        return self._as_epsilon(amount, delta)

    def rows(self) -> Iterator[Row]:
        """Yield every row, oldest first."""
        return self._store.rows()

    def export(self) -> dict[str, Any]:
        """Return the whole ledger as plain JSON data."""
        spent = self.spent
        return {
            "id": self.id,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "filter": self.filter,
            "created": self._store.meta.created,
            "durable": self.durable,
            "spent": {"epsilon": spent.epsilon, "delta": spent.delta},
            "rows": [row.to_json() for row in self.rows()],
        }

    def verify(self) -> int:
        """Check every hash, sum and cost; return the number of rows.

        Raises
        ------
        LedgerCorrupt
            If a row was edited, removed or reordered, or states less than its event costs.
        """
        head = check_rows(self.rows(), genesis(self._store.meta), self.filter, self.id)
        if head.amount > self._amount_ceiling(head.delta):
            raise LedgerCorrupt(f"ledger {self.id[:8]} is over its ceiling")
        return head.counter

    def confirm(self, entry: LedgerEntry, event: DpEvent) -> None:
        """Check that this ledger holds the charge that a certificate names."""
        row = self._store.row(entry.counter)
        if entry.ledger != self.id or row is None or row.digest != entry.digest:
            raise LedgerCorrupt("this ledger does not hold the charge that the certificate names")
        reserved = leaves(event_from_json(json.loads(row.event)))
        if any(reserved.get(leaf, 0) < n for leaf, n in leaves(event).items()):
            raise LedgerCorrupt("the ledger was charged for less than the certificate states")

    # -- charging -----------------------------------------------------------------------------

    def charge(self, event: DpEvent, *, purpose: str, delta: float | None = None) -> LedgerEntry:
        """Pay for one release; the noise is drawn after this returns.

        Parameters
        ----------
        event
            What will be released.
        purpose
            A few words for people.
        delta
            The δ at which a run of approximate noise is counted (filter ``basic``).

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing has changed then.
        """
        return self._charge(event, purpose, delta, "")

    def admits(
        self, event: DpEvent, *, delta: float | None = None, asked: float | None = None
    ) -> bool:
        """Return whether a charge would fit now; nothing is spent."""
        try:
            cost, cost_delta = run_cost(event, delta, self.filter)
        except BudgetExceeded:
            return False
        if asked is not None and self.filter == "basic":
            cost = max(cost, as_exact(asked))
        amount, total_delta = add_charge(self._store.head(), cost, cost_delta)
        return amount <= self._amount_ceiling(total_delta)

    def _charge(
        self,
        event: DpEvent,
        purpose: str,
        delta: float | None,
        run: str,
        asked: float | None = None,
    ) -> LedgerEntry:
        check("event", event, InstanceOf(DpEvent))
        check("purpose", purpose, Text())
        check("delta", delta, AnyOf(Real(0, 1, open_high=True), None))
        delta = None if delta is None else float(delta)
        cost, cost_delta = run_cost(event, delta, self.filter)
        if asked is not None and self.filter == "basic":
            if cost > as_exact(asked):
                raise NotCertified(
                    f"{purpose!r} was calibrated for ε = {asked:g}, but costs {float(cost):g}"
                )
            cost = as_exact(asked)
        text = _event_text(event)
        stamp = _now()

        def build(head: Head) -> Row:
            if run and self._store.run_rows(run):
                raise _AlreadyReserved
            amount, total_delta = add_charge(head, cost, cost_delta)
            if amount > self._amount_ceiling(total_delta):
                self._refuse(purpose, cost, cost_delta, head)
            return next_row(
                head,
                time=stamp,
                kind="charge",
                run=run,
                purpose=purpose,
                event=text,
                run_delta="" if delta is None else repr(delta),
                cost=cost,
                cost_delta=cost_delta,
                amount=amount,
                delta=total_delta,
                epsilon=self._shown(amount, total_delta),
            )

        return self._entry(self._store.append(build))

    def _amount_ceiling(self, delta: Fraction) -> Fraction:
        """Return the largest admissible amount once ``delta`` is gone: -1 if that is too much."""
        if delta > self._ceiling[1]:
            return Fraction(-1)
        left = self.delta - float_above(delta) if delta else self.delta
        return rule_ceiling(self.filter, self.epsilon, left)

    def _refuse(self, purpose: str, cost: Fraction, cost_delta: Fraction, head: Head) -> NoReturn:
        left = self._remaining(head)
        price = f"ε = {self._as_epsilon(cost, cost_delta):g}"
        price += f" and δ = {float(cost_delta):g}" if cost_delta else ""
        raise refused(
            f"{purpose!r} costs {price}, but ε = {left.epsilon:g} of {self.epsilon:g} and "
            f"δ = {left.delta:g} of {self.delta:g} are left"
        )

    def reserve(
        self,
        schedule: DpEvent,
        *,
        purpose: str,
        delta: float | None = None,
        asked: float | None = None,
        run: str | None = None,
        claim: int = 1,
    ) -> Reservation:
        """Pay for a whole run and return the reservation that its releases draw on.

        Parameters
        ----------
        schedule
            Everything the run will release, composed.
        purpose
            A few words for people.
        delta
            The δ at which the run is counted (filter ``basic``).
        asked
            The ε that the run was calibrated for. It is charged in full, so that budgets come
            out round; a schedule that costs more than asked is refused.
        run
            A name for resuming: reserving the same schedule under the same name again
            continues the earlier reservation and charges nothing.
        claim
            How many steps are claimed per durable transaction. More is faster; after a crash
            the claimed but unused steps of a block are lost.
        """
        check("claim", claim, Integer(1))
        check("run", run, AnyOf(Text(), None))
        run = run or uuid.uuid4().hex
        try:
            entry = self._charge(schedule, purpose, delta, run, asked)
            return Reservation(self, run, purpose, entry, leaves(schedule), claim)
        except _AlreadyReserved:
            first = self._store.run_rows(run)[0]
        if row_leaves(first) != leaves(schedule):
            raise LedgerError(f"run {run!r} was reserved with another schedule") from None
        return Reservation(self, run, purpose, self._entry(first), leaves(schedule), claim)

    def holds(self, run: str | None) -> bool:
        """Whether a run was reserved here under that name."""
        return run is not None and bool(self._store.run_rows(run))

    def _claim(self, reservation: Reservation, wanted: Callable[[], tuple[str, DpEvent]]) -> Row:
        """Record that steps of a reservation are used up; concurrent claims are counted.

        ``wanted`` says which steps, and in which words, once the transaction knows what is left.
        """
        stamp = _now()

        def build(head: Head) -> Row:
            for row in self._store.run_rows(reservation.run, after=reservation.seen):
                reservation.note(row)
            purpose, event = wanted()
            return next_row(
                head,
                time=stamp,
                kind="claim",
                run=reservation.run,
                purpose=purpose,
                event=_event_text(event),
                epsilon=self._shown(head.amount, head.delta),
            )

        return self._store.append(build)

    def _entry(self, row: Row) -> LedgerEntry:
        return LedgerEntry(self.id, row.counter, row.digest, self.durable)

    # -- a ledger has no copies ---------------------------------------------------------------

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a ledger cannot be pickled: a copy would start the budget anew. Open it by its path "
            "where it is needed"
        )

    def _repr_html_(self) -> str:
        rows = [
            [row.counter, row.time[:19].replace("T", " "), row.purpose, f"{row.epsilon:.6g}"]
            for row in self.rows()
            if row.kind == "charge"
        ]
        charges = table("Charges", ["row", "time (UTC)", "purpose", "total ε"], rows, numbers=1)
        return tag("div", tag("p", repr(self)), charges)

    def __repr__(self) -> str:
        spent, kind = self.spent, "" if self.durable else ", not durable"
        return (
            f"<Ledger {self.id[:8]}: spent ε = {spent.epsilon:.4g} of {self.epsilon:g}, "
            f"δ = {spent.delta:.4g} of {self.delta:g}; {self.counter} rows{kind}>"
        )


class _AlreadyReserved(Exception):
    """A run of that name is in the ledger."""


@lru_cache(maxsize=4096)
def _event_text(event: DpEvent) -> str:
    return json.dumps(event_to_json(event), separators=(",", ":"))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
