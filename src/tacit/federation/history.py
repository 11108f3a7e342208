"""Which runs a site has begun, and for whom: what its limits count, and proof that it has paid.

A line is on disk before anything is reserved, so a run that was paid for is always on the list.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from tacit.errors import LedgerError

__all__ = ["Begun", "History"]


class Begun(NamedTuple):
    """A run that a site began."""

    run: str
    coordinator: str
    epsilon: float
    time: str


class History:
    """The runs that a site has begun.

    Parameters
    ----------
    state
        The site's folder of what was paid for.
    """

    def __init__(self, state: Path) -> None:
        self._path = state / "runs.jsonl"

    def runs(self) -> list[Begun]:
        """Return all of them, the oldest first."""
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").splitlines()
        try:
            return [Begun(*json.loads(line)) for line in lines]
        except (ValueError, TypeError):
            raise LedgerError(
                f"{self._path} is damaged: it lists the runs that were begun"
            ) from None

    def begin(self, run: str, coordinator: str, epsilon: float) -> None:
        """Note a run, durably and once, before it is paid for."""
        if any(one.run == run for one in self.runs()):
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps([run, coordinator, epsilon, now]) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def earlier(self, run: str, coordinator: str) -> list[tuple[float, float]]:
        """Return how many days ago each other run of a coordinator began, and its ε."""
        now = datetime.now(UTC)
        return [
            ((now - datetime.fromisoformat(one.time)).total_seconds() / 86400.0, one.epsilon)
            for one in self.runs()
            if one.coordinator == coordinator and one.run != run
        ]
