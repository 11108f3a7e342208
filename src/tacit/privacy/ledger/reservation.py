"""Reservations: the steps of a run that are paid for as a whole and drawn one by one."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol

from tacit.errors import BudgetExceeded, LedgerError
from tacit.privacy.events import (
    DpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
    compose,
    event_from_json,
    leaves,
    repeat,
)
from tacit.privacy.ledger.entry import LedgerEntry, Seal
from tacit.privacy.ledger.rows import Row
from tacit.privacy.ledger.store import Store

__all__ = ["Claimed", "Reservation", "StepClaim", "claimed_positions", "row_leaves"]


def row_leaves(row: Row) -> dict[DpEvent, int]:
    """Return the elementary events that a row pays for or claims."""
    return leaves(event_from_json(json.loads(row.event)))


class Payer(Protocol):
    """The ledger that a reservation was made in."""

    _store: Store

    @property
    def durable(self) -> bool:
        """Whether charges survive this process."""

    def seal(self, text_of: Callable[[Seal], bytes]) -> Seal | None:
        """Sign a text that names the end of the ledger."""

    def _claim(
        self, reservation: Reservation, wanted: Callable[[], tuple[str, DpEvent]]
    ) -> Row: ...


_TRY = r"[0-9a-f]{32}"
_NAMED = re.compile(rf"(.*)\[(\d+):(\d+)\](?: try ({_TRY})(?: after ({_TRY}))?)?", re.DOTALL)


@dataclass(frozen=True)
class StepClaim:
    """One step of a reservation, by its name and position; `claim` uses it up, once.

    ``position`` is the how-manieth time it is drawn (from 0), of ``times`` at most; ``event`` what
    one draw costs; ``shared`` whether it is about a part of the units: disjoint parts are paid for
    once. ``name`` is that of the try it is for, and ``lost`` are tries of which nothing left,
    because their process died: what they claimed may be claimed again, by one try after the other.
    """

    reservation: Reservation
    step: str
    position: int
    times: int
    event: DpEvent
    shared: bool = False
    name: str = ""
    lost: tuple[str, ...] = ()

    def claim(self) -> None:
        """Use it up; raise `BudgetExceeded` if it was before, or was never reserved."""
        self.reservation.claim_step(self)


class Reservation:
    """The steps of one run that are paid for and not yet drawn.

    A claim names its step and position: equal events of two steps are not interchangeable.

    What is left is read from the ledger within the transaction of each claim, so that two
    processes that resume one run never draw a step twice.
    """

    def __init__(
        self,
        ledger: Payer,
        run: str,
        purpose: str,
        entry: LedgerEntry,
        steps: Mapping[DpEvent, int],
        block: int,
    ) -> None:
        self.ledger, self.run, self.purpose, self.entry = ledger, run, purpose, entry
        self.seen = entry.counter  # the last row of this run that is accounted for here
        self._left = dict(steps)
        self._claimed: dict[DpEvent, int] = {}
        self._block = block
        self._named: dict[str, list[tuple[int, int]]] = {}  # positions that anybody claimed
        self._mine: dict[str, set[int]] = {}  # of those, what this process has yet to draw
        self._tries: dict[tuple[str, int], str] = {}  # the last try at a position
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def at(
        self,
        step: str,
        position: int,
        times: int,
        event: DpEvent,
        shared: bool = False,
        name: str = "",
        lost: tuple[str, ...] = (),
    ) -> StepClaim:
        """Return one step, to be claimed; see `StepClaim`."""
        return StepClaim(self, step, position, times, event, shared, name, lost)

    def claim_step(self, wanted: StepClaim) -> None:
        """Use up one named step, claiming up to a block of its positions at once."""
        self._check_process()
        with self._lock:
            mine = self._mine.setdefault(wanted.step, set())
            if wanted.position not in mine:
                row = self.ledger._claim(self, lambda: self._named_block(wanted))
                self.note(row)
                claimed = claimed_positions(row.purpose)
                assert claimed is not None
                mine.update(range(claimed.first, claimed.stop))
            mine.remove(wanted.position)

    def _named_block(self, wanted: StepClaim) -> tuple[str, DpEvent]:
        """Return which positions are claimed and what they cost; refuse what was claimed."""
        first, name = wanted.position, f" try {wanted.name}" if wanted.name else ""
        last = self._tries.get((wanted.step, first), "")
        if name and last in wanted.lost:  # paid for by a try of which nothing left
            return f"{wanted.step}[{first}:{first + 1}]{name} after {last}", NoOpDpEvent()
        # a try is at one request: what a block claims for later ones could not be told apart
        stop = min(first + (1 if name else self._block), wanted.times)
        for start, end in self._named.get(wanted.step, []):
            if start <= first < end:
                stop = first
            elif first < start:
                stop = min(stop, start)
        if stop <= first:
            raise BudgetExceeded(
                f"the step {wanted.step!r} of {self.purpose!r} was drawn before. Nothing was "
                "released"
            )
        event = repeat(wanted.event, stop - first)
        if any(self._left.get(leaf, 0) < n for leaf, n in leaves(event).items()):
            if not wanted.shared:
                raise BudgetExceeded(
                    f"the reservation for {self.purpose!r} holds no step {wanted.step!r} at this "
                    "price. Nothing was released"
                )
            event = NoOpDpEvent()  # another part of the units has paid
        return f"{wanted.step}[{first}:{stop}]{name}", event

    def claimed(self, step: str) -> int:
        """Return how many positions of a step were claimed, by anybody, ever."""
        with self._lock:
            self._catch_up()
            return sum(stop - first for first, stop in self._named.get(step, []))

    def last_try(self, step: str, position: int) -> str:
        """Return the name of the last try at a position, of those seen here; empty without."""
        with self._lock:
            return self._tries.get((step, position), "")

    def _catch_up(self) -> None:
        for row in self.ledger._store.run_rows(self.run, after=self.seen):
            self.note(row)

    def note(self, row: Row) -> None:
        """Take note of a row that claims steps of this run, once."""
        if row.counter <= self.seen:
            return
        self.subtract(row.counter, row_leaves(row))
        if (claimed := claimed_positions(row.purpose)) is not None:
            if not claimed.after:
                self._named.setdefault(claimed.step, []).append((claimed.first, claimed.stop))
            if claimed.name:
                self._tries[claimed.step, claimed.first] = claimed.name

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise LedgerError("a reservation cannot be used in a forked process: reserve there")

    def claim(self, event: DpEvent) -> None:
        """Use up one step; raise `BudgetExceeded` if the schedule holds no such step."""
        self._check_process()
        wanted = leaves(event)
        with self._lock:
            if any(self._claimed.get(leaf, 0) < n for leaf, n in wanted.items()):
                self._top_up(event, wanted)
            for leaf, n in wanted.items():
                self._claimed[leaf] -= n

    def _top_up(self, event: DpEvent, wanted: Mapping[DpEvent, int]) -> None:
        """Claim up to a block of the wanted steps, in one durable transaction."""

        def block() -> tuple[str, DpEvent]:
            steps = []
            for leaf, n in wanted.items():
                claimed, left = self._claimed.get(leaf, 0), self._left.get(leaf, 0)
                if claimed + left < n:
                    raise BudgetExceeded(
                        f"the reservation for {self.purpose!r} holds no further step {event}. "
                        "Nothing was released"
                    )
                if claimed < n:
                    steps.append(SelfComposedDpEvent(leaf, min(left, n * self._block - claimed)))
            return self.purpose, compose(steps)

        row = self.ledger._claim(self, block)
        steps = row_leaves(row)
        self.subtract(row.counter, steps)
        for leaf, n in steps.items():
            self._claimed[leaf] = self._claimed.get(leaf, 0) + n

    def subtract(self, counter: int, steps: Mapping[DpEvent, int]) -> None:
        """Take note of a row that claims steps of this run."""
        for leaf, n in steps.items():
            self._left[leaf] = self._left.get(leaf, 0) - n
        self.seen = counter

    @property
    def left(self) -> dict[DpEvent, int]:
        """The steps that can still be drawn."""
        with self._lock:
            self._catch_up()
            total = dict(self._left)
        for leaf, n in self._claimed.items():
            total[leaf] = total.get(leaf, 0) + n
        return {leaf: n for leaf, n in total.items() if n}

    def __deepcopy__(self, memo: object) -> Reservation:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a reservation cannot be pickled: its steps would be drawn twice")


class Claimed(NamedTuple):
    """What a claim names: positions of a step, for which try, after which that was lost."""

    step: str
    first: int
    stop: int
    name: str = ""
    after: str = ""


def claimed_positions(purpose: str) -> Claimed | None:
    """Return what a claim names; None where it names nothing.

    >>> claimed_positions("offsets[0:1]")
    Claimed(step='offsets', first=0, stop=1, name='', after='')
    """
    found = _NAMED.fullmatch(purpose)
    if found is None:
        return None
    return Claimed(found[1], int(found[2]), int(found[3]), found[4] or "", found[5] or "")
