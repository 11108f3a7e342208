"""The ledger: one per data holder, append-only, a filter that refuses before any noise is drawn.

It is for one unit and one neighbour relation, fixed when it is created; charges of a finer unit,
or of add-remove where the ledger is for replace-one, are converted (`tacit.privacy.groups`).

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
import os
import uuid
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from tacit._core.check import AnyOf, InstanceOf, Integer, Real, Text, check
from tacit.errors import BudgetExceeded, LedgerError, NotCertified
from tacit.privacy.amounts import as_exact
from tacit.privacy.events import DpEvent, NoOpDpEvent, event_to_json, leaves
from tacit.privacy.groups import stated_relation
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ceiling import Budget
from tacit.privacy.ledger.checking import add_charge
from tacit.privacy.ledger.entry import LedgerEntry, Seal
from tacit.privacy.ledger.filters import refused, run_cost
from tacit.privacy.ledger.keys import KeyFile, endorse
from tacit.privacy.ledger.mark import CallbackMark, MarkFile, Told
from tacit.privacy.ledger.meta import new_meta, now
from tacit.privacy.ledger.record import Record
from tacit.privacy.ledger.reservation import Reservation, row_leaves
from tacit.privacy.ledger.rows import Head, Row, next_row
from tacit.privacy.ledger.sqlite import SQLiteStore
from tacit.privacy.ledger.store import MemoryStore
from tacit.privacy.ledger.terms import Terms
from tacit.privacy.ledger.witness import sealed

__all__ = ["Budget", "Ledger", "Reservation"]


class Ledger(Record):
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

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        filter: str | None = None,
        unit: str | None = None,
        neighbours: str | None = None,
        most: Mapping[str, int] | None = None,
        key: str | os.PathLike[str] | None = None,
        mark: str | os.PathLike[str] | Told | None = None,
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
        unit, neighbours
            What the ceiling is for, as in `tacit.Privacy` and with the same defaults: the
            coarsest unit that any use will need.
        most
            Finer unit → how many of them one unit has at most (``{"row": 5}`` for a ledger of
            users): finer charges are converted by it, and refused without it.
        key
            The file of the ledger's own signing key; beside the ledger, with ``.key`` added to
            its name, unless given.
        mark
            Where the last row is remembered, so that removed ones are noticed: a small file
            (beside the ledger, with ``.mark`` added to its name, unless given), or a function of
            (id, counter, hash) that keeps the highest and returns it.
        """
        check("path", path, InstanceOf(str, os.PathLike, text="str or path"))
        create = None
        if epsilon is not None:
            at = 0.0 if delta is None else delta
            create = new_meta(
                epsilon, at, filter or "basic", unit or "row", neighbours, most or {}
            )
        file = Path(path)
        beside = {end: file.with_name(file.name + end) for end in (".key", ".mark")}
        kept = CallbackMark(mark) if callable(mark) else MarkFile(Path(mark or beside[".mark"]))
        ledger = cls(SQLiteStore(file, create, KeyFile(Path(key or beside[".key"])), kept))
        wanted = {
            "epsilon": epsilon,
            "delta": delta,
            "filter": filter,
            "unit": unit,
            "neighbours": neighbours,
            "most": most,
        }
        for name, value in wanted.items():
            found = getattr(ledger, name)
            if value is not None and value != found:
                raise LedgerError(
                    f"the ledger {path} was created with {name}={found!r}, not {value!r}: its "
                    "ceiling is fixed. Open it without stating one, or use another file"
                )
        return ledger

    @classmethod
    def memory(
        cls,
        *,
        epsilon: float,
        delta: float = 0.0,
        filter: str = "basic",
        unit: str = "row",
        neighbours: str | None = None,
        most: Mapping[str, int] | None = None,
    ) -> Ledger:
        """Return a ledger that lives in this process only; certificates say so."""
        return cls(MemoryStore(new_meta(epsilon, delta, filter, unit, neighbours, most or {})))

    # -- signing ------------------------------------------------------------------------------

    def endorse(self, identity: bytes) -> None:
        """Let the site's identity (its private key) vouch for the ledger's own key, once.

        Partners who know the identity's fingerprint then know this ledger's certificates.
        """
        given = endorse(identity, self.id, self.key)
        if given not in self._store.endorsements():
            self._store.endorse(given)

    def seal(self, text_of: Callable[[Seal], bytes]) -> Seal | None:
        """Sign a text that names the end of this ledger; None where it has no key."""
        return sealed(self._store, text_of)

    def mark_anew(self) -> None:
        """Make a lost high-water mark again, from the ledger as it is now."""
        if isinstance(self._store, SQLiteStore):
            self._store.mark_anew()

    # -- charging -----------------------------------------------------------------------------

    def charge(
        self,
        event: DpEvent,
        *,
        purpose: str,
        delta: float | None = None,
        terms: Terms | None = None,
    ) -> LedgerEntry:
        """Pay for one release; the noise is drawn after this returns.

        Parameters
        ----------
        event
            What will be released.
        purpose
            A few words for people.
        delta
            The δ at which a run of approximate noise is counted (filter ``basic``).
        terms
            What its certificate will state: the unit and relation, trust and assumptions. Unless
            given: the ledger's unit, the relation that the event states or else the ledger's, no
            assumptions.

        Raises
        ------
        BudgetExceeded
            If it does not fit; nothing has changed then.
        NotCertified
            If what it guarantees says nothing about the ledger's unit.
        """
        return self._charge(event, purpose, delta, "", terms)

    def _terms(self, terms: Terms | None, event: DpEvent, delta: float | None) -> Terms:
        relation = stated_relation(event)
        if terms is None:
            return _own_terms(self.unit, relation or self.neighbours, delta or 0.0)
        if relation not in (None, terms.neighbours):
            raise NotCertified(
                f"the event is of a release for {relation}, stated for {terms.neighbours}"
            )
        return terms

    def _price(
        self, event: DpEvent, delta: float | None, asked: float | None, terms: Terms
    ) -> tuple[Fraction, Fraction]:
        """Return what a run costs here; refuse one that is dearer than it was calibrated for."""
        seen = self._protected.converted(event, terms.unit, terms.neighbours, delta)
        cost, cost_delta = run_cost(seen, delta, self.filter)
        if asked is None or self.filter != "basic":
            return cost, cost_delta
        own = cost if seen is event else run_cost(event, delta, self.filter)[0]
        if own > as_exact(asked):
            raise NotCertified(
                f"the release was calibrated for ε = {asked:g}, but costs {float(own):g}"
            )
        return max(cost, as_exact(asked)), cost_delta

    def admits(
        self,
        event: DpEvent,
        *,
        delta: float | None = None,
        asked: float | None = None,
        terms: Terms | None = None,
    ) -> bool:
        """Return whether a charge would fit now; nothing is spent."""
        try:
            cost, cost_delta = self._price(event, delta, asked, self._terms(terms, event, delta))
        except BudgetExceeded:
            return False
        amount, total_delta = add_charge(self._store.head(), cost, cost_delta)
        return amount <= self._ceiling.amount(total_delta)

    def _charge(
        self,
        event: DpEvent,
        purpose: str,
        delta: float | None,
        run: str,
        terms: Terms | None,
        asked: float | None = None,
    ) -> LedgerEntry:
        check("event", event, InstanceOf(DpEvent))
        check("purpose", purpose, Text())
        check("delta", delta, AnyOf(Real(0, 1, open_high=True), None))
        delta = None if delta is None else float(delta)
        stated = self._terms(terms, event, delta)
        cost, cost_delta = self._price(event, delta, asked, stated)
        text, words = _event_text(event), stated.digest
        stamp = now()

        def build(head: Head) -> Row:
            if run and self._store.run_rows(run):
                raise _AlreadyReserved
            amount, total_delta = add_charge(head, cost, cost_delta)
            if amount > self._ceiling.amount(total_delta):
                self._refuse(purpose, cost, cost_delta, head)
            return next_row(
                head,
                time=stamp,
                kind="charge",
                run=run,
                purpose=purpose,
                event=text,
                unit=stated.unit,
                neighbours=stated.neighbours,
                terms=words,
                run_delta="" if delta is None else repr(delta),
                cost=cost,
                cost_delta=cost_delta,
                amount=amount,
                delta=total_delta,
                epsilon=self._ceiling.shown(amount, total_delta),
            )

        return self._entry(self._store.append(build))

    def _refuse(self, purpose: str, cost: Fraction, cost_delta: Fraction, head: Head) -> NoReturn:
        left = self._ceiling.remaining(head)
        price = f"ε = {self._ceiling.as_epsilon(cost, cost_delta):g}"
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
        terms: Terms | None = None,
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
        terms
            As in `charge`.
        """
        check("claim", claim, Integer(1))
        check("run", run, AnyOf(Text(), None))
        run = run or uuid.uuid4().hex
        try:
            entry = self._charge(schedule, purpose, delta, run, terms, asked)
            return Reservation(self, run, purpose, entry, leaves(schedule), claim)
        except _AlreadyReserved:
            first = self._store.run_rows(run)[0]
        if row_leaves(first) != leaves(schedule):
            raise LedgerError(f"run {run!r} was reserved with another schedule") from None
        if first.terms != self._terms(terms, schedule, delta).digest:
            raise LedgerError(f"run {run!r} was reserved with other assumptions") from None
        return Reservation(self, run, purpose, self._entry(first), leaves(schedule), claim)

    def note(self, text: str) -> LedgerEntry:
        """Add a row that says something and costs nothing."""
        check("text", text, Text())
        stamp = now()

        def build(head: Head) -> Row:
            return next_row(
                head,
                time=stamp,
                kind="note",
                run="",
                purpose=text,
                event=_event_text(NoOpDpEvent()),
                epsilon=self._ceiling.shown(head.amount, head.delta),
            )

        return self._entry(self._store.append(build))

    def ready(self) -> None:
        """Raise `LedgerError` where no row can be added at all; nothing is spent or written."""
        self._store.ready()

    def holds(self, run: str | None) -> bool:
        """Whether a run was reserved here under that name."""
        return run is not None and bool(self._store.run_rows(run))

    def _claim(self, reservation: Reservation, wanted: Callable[[], tuple[str, DpEvent]]) -> Row:
        """Record that steps of a reservation are used up; concurrent claims are counted.

        ``wanted`` says which steps, and in which words, once the transaction knows what is left.
        """
        stamp = now()

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
                epsilon=self._ceiling.shown(head.amount, head.delta),
            )

        return self._store.append(build)

    def _entry(self, row: Row) -> LedgerEntry:
        return LedgerEntry(self.id, row.counter, row.digest, self.durable)

    # -- a ledger has no copies ---------------------------------------------------------------

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self

    def __reduce__(self) -> tuple[Callable[..., Ledger], tuple[Any, ...]]:
        """Return how to open the same files: other processes charge this ledger, not a copy."""
        files = self._store.files
        if files is None:
            where = "whose mark is a function" if self.durable else "in memory"
            raise TypeError(
                f"a ledger {where} cannot be pickled: a copy would start the budget anew. "
                "Ledger.open(path) makes one that other processes open by its path"
            )
        return _opened_again, (self.id, *files)


def _opened_again(identity: str, path: str, key: str, mark: str) -> Ledger:
    """Return the ledger that another process named by its files; it must be that one."""
    ledger = Ledger.open(path, key=key, mark=mark)
    if ledger.id != identity:
        raise LedgerError(f"{path} is another ledger than the one that was sent here by its path")
    return ledger


class _AlreadyReserved(Exception):
    """A run of that name is in the ledger."""


@lru_cache(maxsize=1024)
def _own_terms(unit: str, neighbours: str, delta: float) -> Terms:
    return Terms.of(Privacy(1.0, delta, unit=unit, neighbours=neighbours))


@lru_cache(maxsize=4096)
def _event_text(event: DpEvent) -> str:
    return json.dumps(event_to_json(event), separators=(",", ":"))
