"""Item offsets from ratings of different privacy, certified; features of items for nothing.

Who rated what and the weights 0 < W_ij ≤ 1 are public. Which sums over raters leave and why that
is private stands in `tacit.factorization.offsets.sums`. Under secure aggregation each rater adds a
share of the noise: in one process the whole noise is drawn once, which has the same law. Over
sites each adds its own noise (trust ``"site"``), or a share of it, and only the sum is seen.

**What is open** is how often each item is rated, sums of weights by item, and products of the
pattern: no site says who rated what, user by user.

**Later.** By what is public, the recommender has the third step spent on factors where they stand
out from the noise (`tacit.factorization.offsets.factors`), else on the offsets again: what it
costs does not depend on which.

**Post-processing.** Offsets are posterior means given the noise and what popularity and the
features of the pattern say about items
(`tacit.factorization.offsets.numerics.shrinkage.shrink_towards`). **On the device**, a user's own
ratings, unweighted, are regressed on the items' features (`tacit.recommender.device`); nothing of
it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.lazy import late
from tacit.estimators.agreement import Coordinating, Neighbours, Start
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.sums import OffsetsAgreement, worst_members
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.recommender.method import Rated, Task
from tacit.rounds.sides import Participant

__all__ = ["WeightedOffsetsAgreement"]


@dataclass(frozen=True, kw_only=True)
class WeightedOffsetsAgreement(OffsetsAgreement):
    """What leaves devices or sites for offsets of items under privacy weights."""

    family = "recommender"
    trusts = ("aggregator", "site", "central")
    cites = ("hu2023",)

    source: str = "exact"  # of noise: for the devices of one process; "grid" over sites
    task: Task
    factors: bool | str = "auto"  # as in `HeterogeneousOffsets`

    @property
    def looked_at(self) -> int:
        """Features of the pattern: they cost nothing, and devices decide how many to use."""
        return min(2 * self.rank, self.items)

    @property
    def neighbours(self) -> str:
        """The neighbour relation: a rating's value is replaced."""
        return REPLACE

    def _noise(self, share: float, bound: float, shape: tuple[int, ...]) -> Gaussian:
        kind: type[Gaussian] = Gaussian
        more: dict[str, Any] = {"neighbours": REPLACE, "source": self.source}
        if not self.task.devices:
            kind, more = GaussianShare, {"neighbours": REPLACE, "shares": self.task.shares}
        if self.privacy is None or not self.noisy:
            return kind(0.0, bound, shape, **more)
        whole = gaussian_sigma(self.privacy.epsilon, self.privacy.delta)
        return kind.calibrated(whole / math.sqrt(share), bound, shape, **more)

    @property
    def _about_weights(self) -> tuple[str, ...]:
        """Say what is public of weights, and what they mean."""
        return (
            "who rated what is public, and so is every privacy weight",
            "ε of a rating scales with its weight; the headline is for weight 1",
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say what is public and who is trusted."""
        notes = [
            *self.task.notes,
            *self._about_weights,
            "users keep their own mean and factor: predictions are made on the device",
        ]
        if not self.task.devices:
            notes += [*self.mechanisms["mean"].assumptions, "the sites hold different users"]
        elif self.privacy is not None and self.privacy.trust == "aggregator":
            notes.append(
                "secure aggregation: only sums over raters are seen, and every rater adds its "
                "share of the noise"
            )
        return tuple(notes)

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> Participant:
        """Return a site's raters, or the devices of one process."""
        made: Participant = late(f"{__package__}.sides").Raters(self, name, data, gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Learn the table of items."""
        made: Coordinating = late(f"{__package__}.sides").coordinate(self, start)
        return made

    def items_known(self, opened: Mapping[str, Any], sites: int) -> Any:
        """Return what the recommender knows of items, as it begins."""
        return late(f"{__package__}.sides").Items(self, opened, sites)

    def worst_case(self) -> Neighbours:
        """See `worst_members`; everybody has weight 1."""
        found = worst_members(self)
        return Neighbours(*(Rated(cells, np.ones(cells.members)) for cells in found))

    @classmethod
    def examples(cls) -> Iterator[WeightedOffsetsAgreement]:
        """Devices and sites, with and without weights, features and factors."""
        method = late(f"{__package__}.agreement").HeterogeneousOffsets
        for trust, devices, weight in (
            ("aggregator", True, 1.0),
            ("site", False, 1.0),
            ("aggregator", False, 0.5),
        ):
            privacy = Privacy(50.0, 1e-6, unit="entry", trust=trust)
            weights = None if weight == 1.0 else (*(1.0,) * 12, weight)
            sites = 1 if devices else 3
            shares = sites if trust == "aggregator" else 1
            task = Task(2, 13, (1.0, 5.0), 2, privacy, weights, None, sites, shares, devices)
            for options in ({"pattern": False}, {"factors": True}):
                yield method(**options).agree(task)
