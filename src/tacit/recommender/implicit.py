"""Recommending from clicks: who took what is private, and there are no ratings.

Everything about a user is protected (unit ``"user"``, replace-one, the number of users public).
Two sums over users leave, each once, with Gaussian noise, split 40 to 60:

==========  ==========================================================  ======
step        what is summed                                              Δ (L2)
==========  ==========================================================  ======
popularity  x_i/√(n_i + 4), x_i the 0/1 row of what user i took, n_i    √2
            how many items that are
taste       r_i·r_iᵀ over popular items, |r_i| ≤ 1, r_i the centred     √2
            row of user i
==========  ==========================================================  ======

**Popularity.** Every message has non-negative numbers and a norm below one, whatever the user
took; of two such messages |a − b|² ≤ |a|² + |b|² ≤ 2. **Taste.** The server names ``popular``
items, any distinct ones, and a rate for each in [0, 1]. A user's row over them is x_ij less the
smaller of 1 and rate_j times how many of them the user took, brought to norm one; |aaᵀ − bbᵀ|² =
|a|⁴ + |b|⁴ − 2(aᵀb)² ≤ 2. Both are functions of that user's own clicks, of the request and of
what was released; nothing grows with how much a user clicked. Items that were taken several times
count once.

**Post-processing.** Popularity is denoised; b_j is its logarithm. Of the noisy second moment
those eigenvectors are kept that stand out from the noise: symmetric noise of σ (σ/√2 off the
diagonal) on p items has eigenvalues up to σ·√(2p). Where none does, nothing but popularity is
left, so that a budget too small for tastes costs a share of popularity's, and no more. How many
of the popular items are looked at is chosen by how much stands out. **On the device** a user's
own clicks say which tastes it has, by lists or by pairs (`tacit.recommender.tastes`); nothing of
it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.lazy import late
from tacit.errors import ParameterError
from tacit.estimators.agreement import Coordinating, Neighbours, Start
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.factorization.offsets.sums import OffsetsAgreement
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.recommender.method import Rated, RecommenderMethod, Task
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

__all__ = ["ImplicitAgreement", "ImplicitFeedback"]

_POPULARITY = 0.4  # of the squared noise multiplier
_VISIBLE = 0.05  # the part of users' rows along one common taste, as a rule
_CLEARLY = 1.5  # by which it must exceed what noise alone has, for popularity pays for it
_FEWEST = 50  # items that tastes are looked for in, at least


@dataclass(frozen=True)
class ImplicitFeedback(RecommenderMethod):
    """Certified: popularity and tastes from clicks, with everything about a user protected.

    Parameters
    ----------
    popular
        Over how many items, the most popular ones, tastes are learned.
    tastes
        Whether they are learned at all; popularity has all of the budget otherwise. ``"auto"``:
        where a common taste would stand out from the noise, by ε and the number of users.
    ranking
        How a device finds its user's taste: ``"listwise"`` or ``"bpr"``, by pairs.
    prior
        τ², the variance of a user's taste along the strongest feature. The default is that of
        0.05, 0.1, 0.2, 0.4 and 0.8 which did best on simulated clicks of three kinds (no tastes,
        factors, groups of items); where there are no tastes, four times as much loses up to 7 %.
    """

    popular: int = 400
    tastes: bool | str = "auto"
    ranking: str = "listwise"
    prior: float = 0.05

    unit = "user"
    trusts = ("aggregator", "site", "central")
    told = ("popular", "tastes", "ranking", "prior")
    clicks = True
    parts = True

    def __post_init__(self) -> None:
        check("popular", self.popular, Integer(2, 4000))
        check("tastes", self.tastes, OneOf("auto", True, False))
        check("ranking", self.ranking, OneOf("listwise", "bpr"))
        check("prior", self.prior, Real(0, open_low=True))

    def check(self, task: Task) -> None:
        """Refuse what the method cannot give."""
        super().check(task)
        if task.by_rating or task.item_weights is not None:
            raise ParameterError("clicks have no privacy weights: pass none")
        if task.noisy and task.privacy is not None and task.privacy.delta == 0.0:
            raise ParameterError("this method adds Gaussian noise: pass Privacy(…, delta=1e-6)")

    def _worthwhile(self, task: Task) -> bool:
        """Whether tastes are learned, by what is public; yes where nobody knows how many users."""
        privacy = task.privacy
        if self.tastes != "auto" or privacy is None or not task.noisy or task.users is None:
            return bool(self.tastes)
        sigma = gaussian_sigma(privacy.epsilon, privacy.delta) * math.sqrt(2.0)
        edge = sigma / math.sqrt(1.0 - _POPULARITY) * math.sqrt(2.0 * min(_FEWEST, task.items))
        summed = task.sites if task.shares == 1 else 1  # how often noise is in the sum
        return _VISIBLE * task.users > _CLEARLY * edge * math.sqrt(summed)

    def agree(self, task: Task) -> ImplicitAgreement:
        """Return what is public about a fit."""
        self.check(task)
        plan = (("popularity", _POPULARITY), ("taste", 1.0 - _POPULARITY))
        return ImplicitAgreement(
            items=task.items,
            rank=task.rank,
            bounds=(0.0, 1.0),
            unit="user",
            privacy=task.privacy,
            sites=task.sites,
            plan=plan if self._worthwhile(task) else (("popularity", 1.0),),
            later=(),
            clip=1.0,
            prior_weight=1.0,
            popular=min(self.popular, task.items),
            task=task,
            settings=self,
        )


@dataclass(frozen=True, kw_only=True)
class ImplicitAgreement(OffsetsAgreement):
    """What leaves devices or sites where there are clicks alone."""

    family = "recommender"
    trusts = ImplicitFeedback.trusts

    task: Task
    settings: ImplicitFeedback

    @cached_property
    def sensitivities(self) -> dict[str, float]:
        """The L2 sensitivity of both sums; see the module."""
        return {"popularity": math.sqrt(2.0), "taste": math.sqrt(2.0)}

    def size(self, kind: str) -> int:
        """Return how many numbers a sum has."""
        return self.items if kind == "popularity" else self.popular * (self.popular + 1) // 2

    def asks(self, kind: str) -> dict[str, ArraySpec]:
        """Return what a request holds: public or released."""
        if kind == "popularity":
            return {}
        covariance = super().asks("covariance")
        return {name: covariance[name] for name in ("rates", "popular")}

    def _reach_of(self, step: str) -> float | str:
        if step == "popularity":
            return "messages are shorter than one: a little is kept for users with few items"
        return "both of two users cannot take all that is popular and nothing in common"

    def _noise(self, share: float, bound: float, shape: tuple[int, ...]) -> Gaussian:
        kind: type[Gaussian] = Gaussian
        more: dict[str, Any] = {"neighbours": REPLACE}
        if not self.task.devices:
            kind, more = GaussianShare, {**more, "shares": self.task.shares}
        if self.privacy is None or not self.noisy:
            return kind(0.0, bound, shape, **more)
        whole = gaussian_sigma(self.privacy.epsilon, self.privacy.delta)
        return kind.calibrated(whole / math.sqrt(share), bound, shape, **more)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say what is public and who is trusted."""
        _, *sizes = self.task.notes  # a click has no range
        notes = [
            *sizes,
            "which items users took is private, and counts once each",
            "users keep their own taste: rankings are made on the device",
        ]
        if not self.task.devices:
            notes += [*self.mechanisms["popularity"].assumptions, "the sites hold different users"]
        elif self.privacy is not None and self.privacy.trust == "aggregator":
            notes.append(
                "secure aggregation: only sums over users are seen, and every user adds "
                "a share of the noise"
            )
        return tuple(notes)

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> Participant:
        """Return a site's users, or the devices of one process."""
        made: Participant = late(f"{__package__}.implicit_sides").Clickers(self, name, data, gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Learn the table of items."""
        made: Coordinating = late(f"{__package__}.implicit_sides").coordinate(self, start)
        return made

    def worst_case(self) -> Neighbours:
        """One user who took the first half of the items, or the second."""
        items, half = self.items, self.items // 2
        others = np.arange(0, items, 2)
        return Neighbours(
            *(
                _clicks([own, others, others[:2]])
                for own in (np.arange(half), np.arange(half, items))
            )
        )

    @classmethod
    def examples(cls) -> Iterator[ImplicitAgreement]:
        """Devices and sites, with tastes and without."""
        for trust, devices in (("aggregator", True), ("site", False)):
            privacy = Privacy(20.0, 1e-6, unit="user", neighbours=REPLACE, trust=trust)
            task = Task(3, 16, (0.0, 1.0), 2, privacy, None, None, 1 if devices else 3, 1, devices)
            yield ImplicitFeedback(popular=8, tastes=devices).agree(task)


def _clicks(rows: list[Any]) -> Rated:
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    items = np.concatenate(rows).astype(np.int32)
    return Rated(ByMember(starts, items, np.ones(len(items))), np.ones(len(rows)))
