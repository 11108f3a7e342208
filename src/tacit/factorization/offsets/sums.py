"""Sums over members about items: what offsets and factors are learned from, and why it is private.

Values are mapped to [−2, 2] by their public bounds. A cell of member i (a user) and item j has a
public weight 0 < W_ij = β_i·γ_j ≤ 1; where nobody asked for weights they are 1. Members keep their
own offset and factor; what leaves are sums over members about items, in steps:

==============  ===================================================  ===========================
step or kind    what is summed                                       Δ (L2), of a cell of weight W
==============  ===================================================  ===========================
counts          cells per item; with weights, their sums (open)      public for entries
pattern         NᵀN·Q of the 0/1 pattern (`numerics.pattern`; open)  public for entries
mean            entry: Σ W·x                                         4·W
                user: Σ (own mean/2, 1)                              √2, replaced 2
offsets         entry: per item Σ W·clip(x − b_i, ±c)                W·√(min(2c, 4)² + 4/κ)
                user: per item Σ scaled (clip(x − b_i, ±c), ½)       1, replaced 2
covariance      Σ x_i·x_iᵀ over popular items, ‖x_i‖ ≤ 1             user 1, replaced or entry √2
factors         per item Σ scaled e_ij·û_i, ‖û_i‖ = 1                user 1, replaced or entry 2
damped factors  per item Σ s_i·W·e_ij·u_i (`offsets.factors`)        W·√(min(2c, 4)² + 4/κ)
==============  ===================================================  ===========================

**Entry: offsets.** With S_i = Σ_j W_ij and r₀ the mean released before, a member's own mean is
b_i = (Σ_j W_ij·x_ij + κ·r₀)/(S_i + κ). Replacing x_ij moves it by at most 4W_ij/(S_i + κ), so the
member's other messages by at most W_ij'·4W_ij/(S_i + κ) each, together in L2 by at most

    4W_ij·√(Σ_j' W_ij'²)/(S_i + κ) ≤ 4W_ij·√S_i/(S_i + κ) ≤ 4W_ij/(2√κ),

since W ≤ 1, and the own message by at most W_ij·min(2c, 4). Hence W_ij·√(min(2c, 4)² + 4/κ): it
scales with W_ij because the own mean is weighted as well. A plain mean would not do: a value of
tiny weight moves it, and it moves messages of weight 1 (PRIVACY B2). r₀ may be any number.

**User.** Every member's whole message is scaled below norm one
(`tacit.factorization.offsets.numerics.contributions`), so adding or removing a member moves the
sum by at most one; replacing one entry replaces at most one member's message, which moves a sum of
messages by at most two and a sum of outer products of unit vectors by at most √2. A member's own
mean and factor are functions of its own cells and of the request, whatever it holds.

**Later steps** are asked for one of several kinds. Their mechanism has the largest sensitivity and
size of those kinds, and no other kind can be asked for: offsets of entries, which move by up to
√(min(2c, 4)² + 4/κ), are none of a later step that is calibrated for 2.

**Weights of users and sites.** Every message of member i is multiplied by β_i, after it was scaled
below one: its own mean and factor do not depend on the weight of anybody else, so what the member
moves is β_i times the bounds above (an outer product: its vector is scaled by √β_i). Where a
secure sum hides sites that ask for different ε, noise is made for the largest ε, and β has a
factor w ≤ 1 for all members of a site: `OffsetsAgreement.own_weight`.

Noise is calibrated for weight 1. A value of weight W_ij sees noise 1/W_ij times larger, is
(W_ij·μ)-GDP, and its ε is at most W_ij·ε, up to the rounding of sums, which is counted too.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.estimators.agreement import Agreement, Ask, Kind, Neighbours, Step
from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.numerics.pattern import (
    OVERSAMPLING,
    Pattern,
    edge_of_chance,
    pattern_basis,
    pattern_features,
    standing_out,
    trace_seen,
)
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.mechanisms.gaussian import Gaussian
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    compose,
)
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Collected

__all__ = ["HALF", "OffsetsAgreement", "worst_members"]

HALF = 2.0  # values are mapped to [−2, 2]
LARGEST = {"features": 1e3, "tastes": 50.0}  # of a feature, whose typical size is one
_SLACK = 1.0 + 2.0**-30  # on sensitivities: the rounding of norms and products
_COUNTS = "how often each item occurs"
_SUMS = "how often each item occurs, and sums of privacy weights by item"
_PATTERN = "products of the pattern of which cells are observed"


@dataclass(frozen=True)
class OffsetsAgreement(Agreement):
    """Which sums over members leave, and what they cost; a child says what is made of them."""

    items: int
    rank: int  # features of each item
    bounds: tuple[float, float]  # of a value
    unit: str  # "entry" or "user"
    privacy: Privacy | None
    sites: int
    plan: tuple[tuple[str, float], ...]  # noisy steps; shares of the squared noise multiplier
    later: tuple[str, ...]  # which kinds a later step may be asked for
    clip: float  # c
    prior_weight: float  # κ
    popular: int = 1  # over how many items a covariance is taken
    products: int = 0  # of the public pattern that are asked for
    weighted: bool = False  # whether members may have weights
    item_weights: tuple[float, ...] | None = None  # γ; None for 1
    filled: bool = False  # whether cells that are not listed are observed zeros (`offsets.filled`)
    own_weight: float = 1.0  # of all that a site contributes, where noise is made for others

    # -- how far a member moves a sum ------------------------------------------------------

    @property
    def noisy(self) -> bool:
        """Whether noise is added at all."""
        return self.privacy is not None and bool(np.isfinite(self.privacy.epsilon))

    @property
    def neighbours(self) -> str:
        """The neighbour relation."""
        return ADD_REMOVE if self.privacy is None else str(self.privacy.neighbours)

    @property
    def fill(self) -> float:
        """What a cell that is not listed holds, where it is an observed zero; in [−2, 2]."""
        middle, step = self.scale
        return float(np.clip(-middle / step, -HALF, HALF))

    @property
    def features(self) -> int:
        """How many features an item has: not more than there are items."""
        return min(self.rank, self.items)

    @property
    def looked_at(self) -> int:
        """How many features are taken from the public pattern."""
        return self.features

    @cached_property
    def sensitivities(self) -> dict[str, float]:
        """The L2 sensitivity of every kind of sum, for weight 1; see the module."""
        if self.unit == "entry":
            own = min(2.0 * self.clip, 2.0 * HALF)
            reach = math.sqrt(own**2 + 4.0 / self.prior_weight)
            if self.filled:  # no member's own mean enters
                reach = 2.0 * HALF
            return {
                "mean": 2.0 * HALF,
                "offsets": reach,
                "covariance": math.sqrt(2.0),
                "factors": 2.0,
                "damped factors": reach,
            }
        if self.neighbours == REPLACE:
            return {"mean": 2.0, "offsets": 2.0, "covariance": math.sqrt(2.0), "factors": 2.0}
        return {"mean": math.sqrt(2.0), "offsets": 1.0, "covariance": 1.0, "factors": 1.0}

    def size(self, kind: str) -> int:
        """Return how many numbers a kind of sum has."""
        beside = 2 if self.unit == "user" else 1  # counts stand beside residuals
        if kind == "mean":
            return beside
        if kind == "offsets":
            return self.items + beside - 1 if self.filled else self.items * beside
        if kind == "covariance":
            return self.popular * (self.popular + 1) // 2
        return self.items * self.rank

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def mechanisms(self) -> dict[str, Gaussian]:
        """The mechanism of every noisy step."""
        found = {}
        for name, share in self.plan:
            kinds = self.kinds_of(name)
            size = max(self.size(kind) for kind in kinds)
            bound = max(self.sensitivities[kind] for kind in kinds) * _SLACK
            found[name] = self._noise(share, bound, (size,))
            if self.own_weight != 1.0:  # the same noise, and less that could move it
                found[name] = replace(found[name], sensitivity=self.own_weight * bound)
        return found

    def kinds_of(self, step: str) -> tuple[str, ...]:
        """Return which sums a step may be asked for."""
        return self.later if step.startswith("later") else (step,)

    @abstractmethod
    def _noise(self, share: float, bound: float, shape: tuple[int, ...]) -> Gaussian:
        """Return the noise of a step with some share and sensitivity; none without a request."""

    def scaled(self, weight: float, sites: int = 1) -> DpEvent:
        """Return all steps, as a value of some weight sees them.

        Rounding to the grid does not shrink with the weight, and is added in full: once for every
        one of ``sites`` in one sum, whose weights add up to ``weight``.
        """
        if not self.noisy:
            return NonPrivateDpEvent()
        events = []
        for mechanism in self.mechanisms.values():
            growth = sites * mechanism.grid.growth(mechanism.size, 2, REPLACE)
            events.append(
                GaussianDpEvent(mechanism.scale / (weight * mechanism.sensitivity + growth))
            )
        return compose(events)

    def _steps(self) -> tuple[Step, ...]:
        steps = [*self._open_steps()]
        for name, mechanism in self.mechanisms.items():
            spec = ArraySpec((mechanism.size,), exponent=mechanism.grid.exponent)
            kinds = self.kinds_of(name)
            if kinds == (name,):
                asks = {} if name == "mean" else self.asks(name)
                steps.append(
                    Step(name, mechanism, asks, {"sum": spec}, reach=self._reach_of(name))
                )
                continue
            moved = {k: self.own_weight * self.sensitivities[k] for k in kinds}
            choices = {k: Kind(self.asks(k), moved[k]) for k in kinds}
            reach = "a later step has room for the largest of its kinds, whichever is asked for"
            steps.append(Step(name, mechanism, replies={"sum": spec}, kinds=choices, reach=reach))
        return tuple(steps)

    def _open_steps(self) -> tuple[Step, ...]:
        """Return what is asked without noise: which cells are observed is public for entries."""
        if self.unit != "entry":
            return ()
        by_item = ArraySpec((self.items,), low=0.0)
        more = ("weights", "squares", "reach", "spread") if self.weighted else ()
        counts = Step(
            "counts",
            open=_SUMS if self.weighted else _COUNTS,
            replies={name: by_item for name in ("sum", *more)},
        )
        if not self.products:
            return (counts,)
        width = min(self.looked_at + OVERSAMPLING, self.items)
        asks = {
            "counts": ArraySpec((self.items,), low=0.0, high=2.0**53),
            "block": ArraySpec((self.items, width), low=-2.0, high=2.0),
        }
        replies = {"sum": ArraySpec((self.items, width))}
        return counts, Step(
            "pattern", open=_PATTERN, asks=asks, replies=replies, times=self.products
        )

    def asks(self, kind: str) -> dict[str, ArraySpec]:
        """Return what a request for a kind of sum holds: all of it released or public."""
        mean = ArraySpec((1,), low=-HALF, high=HALF)
        offsets = ArraySpec((self.items,), low=-2.0 * HALF, high=2.0 * HALF)

        def features(name: str) -> ArraySpec:
            return ArraySpec((self.items, self.features), low=-LARGEST[name], high=LARGEST[name])

        if kind == "offsets":
            return {"mean": mean}
        if kind == "covariance":
            return {
                "mean": mean,
                "offsets": offsets,
                "rates": ArraySpec((self.popular,), low=0.0, high=1.0),
                "popular": ArraySpec(
                    (self.popular,), "int64", 0, self.items - 1, rule=_all_different
                ),
            }
        if kind == "factors":
            return {"mean": mean, "offsets": offsets, "features": features("features")}
        base = ArraySpec((self.items,), low=-3.0 * HALF, high=3.0 * HALF)
        return {"base": base, "features": features("tastes")}

    def _reach_of(self, step: str) -> float | str:
        """Return what the worst case reaches of a step's sensitivity."""
        if step == "offsets" and self.unit == "user" and self.neighbours == REPLACE:
            return "counts stand beside residuals, and never point the other way"
        return 1.0

    def shared(self, result: Any) -> dict[str, Any]:
        """Return all of the table of items: it was released, or is public."""
        return dict(result)

    # -- what both children ask first ------------------------------------------------------

    def pattern_of(
        self, counts: Floats, rng: np.random.Generator
    ) -> Generator[Ask, Collected, Pattern]:
        """Ask for products of the public pattern and return (items, features) made of them."""
        width = min(self.looked_at + OVERSAMPLING, self.items)
        start = rng.standard_normal((self.items, width))
        block, edge = pattern_basis(counts, start), 0.0
        for k in range(self.products):
            found = yield Ask("pattern", counts=counts, block=block)
            product = np.asarray(found.total["sum"], np.float64)
            if k == 0:
                edge = edge_of_chance(trace_seen(block, product), counts)
            if k + 1 < self.products:
                block = pattern_basis(counts, product)
        features = pattern_features(block, product, min(self.looked_at, product.shape[1]))
        known = standing_out(block, product, edge)
        return Pattern(features, min(known, features.shape[1]))

    @property
    def scale(self) -> tuple[float, float]:
        """The middle of a value's range, and one step of [−2, 2] in it."""
        low, high = self.bounds
        return (low + high) / 2.0, (high - low) / (2.0 * HALF)


def _all_different(array: NDArray[Any]) -> str | None:
    return None if len(np.unique(array)) == len(array) else "must hold distinct items"


def worst_members(agreement: OffsetsAgreement) -> Neighbours:
    """Return two members' cells, one of whose differ as much as the unit allows.

    Of an entry: one value goes from one end to the other, among about κ in the middle that only
    the member's mean moves. Of a user: all items at one end, or none; replaced, at the other end.
    """
    low, high = agreement.bounds
    middle, items = (low + high) / 2.0, agreement.items
    others = np.full(items, middle)
    others[:2] = low, high
    if agreement.unit == "entry":
        count = min(items, max(2, round(agreement.prior_weight) + 2))
        one = np.full(count, middle)
        two = one.copy()
        one[0], two[0] = high, low
        return Neighbours(*(_cells([own, others]) for own in (one, two)))
    other = np.full(items, low) if agreement.neighbours == REPLACE else np.zeros(0)
    own = np.full(items, high)
    return Neighbours(_cells([own, others]), _cells([other, others]))


def _cells(rows: list[Floats]) -> ByMember:
    """Return cells of members who have the first of all items each."""
    starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    items = np.concatenate([np.arange(len(row)) for row in rows]).astype(np.int32)
    return ByMember(starts, items, np.concatenate(rows))
