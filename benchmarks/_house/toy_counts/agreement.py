"""What a count per category releases, and why that is private.

**Sensitivity.** A row lies in one category: adding or removing it moves one count by 1, replacing
it moves two by 1 each. So the L1 sensitivity of all counts is 1, or 2 under replace-one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec

if TYPE_CHECKING:
    from tacit.estimators.gate import Gate
    from tacit.estimators.shards import Holder

__all__ = ["CountsAgreement"]


@dataclass(frozen=True)
class CountsAgreement(Agreement):
    """One noisy count per category."""

    family = "toy_counts"
    cites = ("ghosh2009",)

    categories: tuple[str, ...]
    privacy: Privacy | None
    sites: int = 1

    @property
    def replaces(self) -> bool:
        """Whether one row is replaced rather than added or removed."""
        return self.privacy is not None and self.privacy.neighbours == REPLACE

    @property
    def mechanism(self) -> Mechanism:
        """Geometric noise on all counts."""
        epsilon = math.inf if self.privacy is None else self.privacy.epsilon
        return TwoSidedGeometric(epsilon, 1 + self.replaces, (len(self.categories),))

    def _steps(self) -> tuple[Step, ...]:
        replies = {"counts": ArraySpec((len(self.categories),), "int64")}
        return (Step("counts", self.mechanism, replies=replies),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The categories are public."""
        return (f"the categories are {', '.join(self.categories)}",)

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Holder:
        """Return a site with the category of each of its rows."""
        from .sides import Counting

        return Counting(self, name, [data], gate)

    def coordinate(self, start: Start) -> Coordinating:
        """Ask once."""
        found = yield Ask("counts")
        return found.total["counts"]

    def shared(self, result: Any) -> dict[str, Any]:
        """Return the counts."""
        return {"counts": result}

    def worst_case(self) -> Neighbours:
        """One row more, or a row that lies in another category."""
        rows = np.array([0, 0, 1])
        return Neighbours(rows, np.array([0, 0, 0]) if self.replaces else rows[:2])

    @classmethod
    def examples(cls) -> Iterator[CountsAgreement]:
        """Both relations."""
        for neighbours in (ADD_REMOVE, REPLACE):
            yield cls(("a", "b", "c"), Privacy(1.0, unit="row", neighbours=neighbours))
