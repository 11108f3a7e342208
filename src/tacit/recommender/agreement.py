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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tacit._core.check import OneOf, Real, check
from tacit._core.lazy import late
from tacit.errors import ParameterError
from tacit.estimators.agreement import Coordinating, Neighbours, Start
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.sums import HALF, OffsetsAgreement, worst_members
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.recommender.local.every_item import ItemResponseGradient, ResponseGradient
from tacit.recommender.local.groups import LocalGroups
from tacit.recommender.local.one_answer import LocalGradient
from tacit.recommender.method import Rated, RecommenderMethod, Task
from tacit.rounds.sides import Participant

__all__ = ["KINDS", "METHODS", "HeterogeneousOffsets", "WeightedOffsetsAgreement"]

_MEAN, _LATER = 0.05, 0.3  # shares of the squared noise multiplier; offsets have the rest
_PRODUCTS = 7  # of the public pattern


@dataclass(frozen=True)
class HeterogeneousOffsets(RecommenderMethod):
    """Certified: item offsets under weights W_ij, features from the public pattern.

    Parameters
    ----------
    clip
        c, where a rating's distance from its user's mean is clipped, of a half-range of 2.
    prior_weight
        κ, the weight of the overall mean in a user's own mean.
    pattern
        Whether items get features from who rated what.
    factors
        Whether a private step learns how items are liked along those features; ``"auto"``: where
        that stands out from the noise.
    """

    clip: float = 1.0
    prior_weight: float = 10.0
    pattern: bool = True
    factors: bool | str = "auto"

    unit = "entry"
    trusts = ("aggregator", "site", "central")
    told = ("clip", "prior_weight", "pattern", "factors")

    def __post_init__(self) -> None:
        check("clip", self.clip, Real(0, 2 * HALF, open_low=True))
        check("prior_weight", self.prior_weight, Real(0, open_low=True))
        check("pattern", self.pattern, OneOf(True, False))
        check("factors", self.factors, OneOf("auto", True, False))
        if self.factors is True and not self.pattern:
            raise ParameterError("factors need pattern=True: they start from its features")

    def check(self, task: Task) -> None:
        """Refuse what the method cannot give."""
        super().check(task)
        if task.noisy and task.privacy is not None and task.privacy.delta == 0.0:
            raise ParameterError("this method adds Gaussian noise: pass Privacy(…, delta=1e-6)")

    def agree(self, task: Task) -> WeightedOffsetsAgreement:
        """Return what is public about a fit."""
        self.check(task)
        later = [("later", _LATER)] if self.factors is not False and self.pattern else []
        rest = 1.0 - _MEAN - (_LATER if later else 0.0)
        plan = (("mean", _MEAN), ("offsets", rest), *later)
        return WeightedOffsetsAgreement(
            items=task.items,
            rank=task.rank,
            bounds=task.bounds,
            unit="entry",
            privacy=task.privacy,
            sites=task.sites,
            plan=plan,
            later=("offsets", "damped factors"),
            clip=self.clip,
            prior_weight=self.prior_weight,
            products=_PRODUCTS if self.pattern else 0,
            weighted=True,
            item_weights=task.item_weights,
            source="exact" if task.devices else "grid",
            task=task,
            factors=self.factors,
        )


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
    def assumptions(self) -> tuple[str, ...]:
        """Say what is public and who is trusted."""
        notes = [
            *self.task.notes,
            "who rated what is public, and so is every privacy weight",
            "ε of a rating scales with its weight; the headline is for weight 1",
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

    def worst_case(self) -> Neighbours:
        """See `worst_members`; everybody has weight 1."""
        found = worst_members(self)
        return Neighbours(*(Rated(cells, np.ones(cells.members)) for cells in found))

    @classmethod
    def examples(cls) -> Iterator[WeightedOffsetsAgreement]:
        """Devices and sites, with and without weights, features and factors."""
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
                yield HeterogeneousOffsets(**options).agree(task)


METHODS: dict[str, Callable[[], RecommenderMethod]] = {
    "heterogeneous": HeterogeneousOffsets,
    "offsets": partial(HeterogeneousOffsets, pattern=False),
    "groups": LocalGroups,
    "gd": LocalGradient,
    "gd-dr": partial(LocalGradient, dimensions=100),
    "responses": ResponseGradient,
    "item-responses": ItemResponseGradient,
}
# every class of settings, by its name in a release
KINDS: dict[str, type[RecommenderMethod]] = {
    kind.__name__: kind
    for kind in (
        HeterogeneousOffsets,
        ItemResponseGradient,
        LocalGradient,
        LocalGroups,
        ResponseGradient,
    )
}
