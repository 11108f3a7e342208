"""Reservations: the steps of a run that are paid for as a whole and drawn one by one."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from tacit.errors import BudgetExceeded, LedgerError
from tacit.privacy.events import (
    DpEvent,
    SelfComposedDpEvent,
    compose,
    event_from_json,
    leaves,
)
from tacit.privacy.guarantee import LedgerEntry
from tacit.privacy.ledger_store import Row

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger

__all__ = ["Reservation", "row_leaves"]


def row_leaves(row: Row) -> dict[DpEvent, int]:
    """Return the elementary events that a row pays for or claims."""
    return leaves(event_from_json(json.loads(row.event)))


class Reservation:
    """The steps of one run that are paid for and not yet drawn.

    What is left is read from the ledger within the transaction of each claim, so that two
    processes that resume one run never draw a step twice.
    """

    def __init__(
        self,
        ledger: Ledger,
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
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def claim(self, event: DpEvent) -> None:
        """Use up one step; raise `BudgetExceeded` if the schedule holds no such step."""
        if os.getpid() != self._pid:
            raise LedgerError("a reservation cannot be used in a forked process: reserve there")
        wanted = leaves(event)
        with self._lock:
            if any(self._claimed.get(leaf, 0) < n for leaf, n in wanted.items()):
                self._top_up(event, wanted)
            for leaf, n in wanted.items():
                self._claimed[leaf] -= n

    def _top_up(self, event: DpEvent, wanted: Mapping[DpEvent, int]) -> None:
        """Claim up to a block of the wanted steps, in one durable transaction."""

        def block() -> DpEvent:
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
            return compose(steps)

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
            for row in self.ledger._store.run_rows(self.run, after=self.seen):
                self.subtract(row.counter, row_leaves(row))
            total = dict(self._left)
        for leaf, n in self._claimed.items():
            total[leaf] = total.get(leaf, 0) + n
        return {leaf: n for leaf, n in total.items() if n}

    def __deepcopy__(self, memo: object) -> Reservation:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a reservation cannot be pickled: its steps would be drawn twice")
