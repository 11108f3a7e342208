"""Item offsets from ratings whose privacy weights are private too.

Every rating (i, j) has a weight 0 < W_ij ≤ 1 that its user chose, any number for any rating, and
nobody else is told (Hu & Fang 2023). Who rated what is public, and listed. Two statements hold:

1. **With its weight unchanged**, a rating of weight W has at most W·ε.
2. **A rating and its weight together** have max(W, W')·ε ≤ ε, whatever they were and become.

Values lie in [−2, 2]. What leaves are two sums, each once, with Gaussian noise:

=======  =======================================================  ==================
step     what is summed                                           Δ (L2), M = max(W, W')
=======  =======================================================  ==================
mean     Σ (W·x, 2√3·W)                                           4·M
offsets  per item Σ (W·e, t·W),  e = clip(x − b_i, ±c), c ≤ 2     M·√(4c² + 4/κ)
=======  =======================================================  ==================

with b_i = (Σ_j W_ij·x_ij + κ·r₀)/(Σ_j W_ij + κ), r₀ released before, and t = √3·c.

**The joint change** (x, W) → (x', W') at one rating of user i. *Its own numbers.* e and e' lie in
[−c, c], so |We − W'e'| ≤ c(W + W'), and with the weight's own number

    c²(W + W')² + 3c²(W − W')² = 4c²(W² + W'² − W·W') ≤ 4c²·M²,

because W² − W·W' ≤ 0 for the smaller of the two. So sums of weights cost nothing: a weight cannot
change much while the signed rating changes by 2c. (Likewise 4(W + W')² + 12(W − W')² ≤ 16M² for
the mean.) *The user's other ratings.* Let A = (Σ' W·x + κ·r₀)/D be the own mean without the
rating, D = Σ' W + κ. Then b = A + p·(x − A) with p = W/(D + W) ≤ M/(D + M), and likewise b'. x −
A and x' − A lie in one interval of length 4 that holds 0, since A is in [−2, 2]; scaled by p and
p' they lie in one of length 4M/(D + M). So b moves by at most that, **the denominator's change
included**, and the other numbers, W_ij'·e each, in L2 by at most 4M·√(Σ' W²)/(D + M) ≤ 4M·√T/(T +
κ) ≤ 2M/√κ with T = Σ' W ≥ Σ' W². Other ratings' weights, and so their own second numbers, do not
move. With the weight unchanged M = W.

The noise is calibrated for M = 1. A user who changes k weights has the guarantee of k ratings.

**Post-processing.** Sums of weights behind noise are a mean weight, released with the overall
mean, and a deviation of every item from it that is shrunk by the known noise; how often an item
is rated is public. On the device, ratings count alike: what stays there needs no weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.lazy import late
from tacit.estimators.agreement import Neighbours
from tacit.factorization.offsets.sums import HALF, worst_members
from tacit.privacy.guarantee import Privacy
from tacit.recommender.method import Rated, Task
from tacit.recommender.weighted import WeightedOffsetsAgreement
from tacit.rounds.sides import Participant

if TYPE_CHECKING:
    from tacit.estimators.gate import Gate

__all__ = ["PrivateWeightsAgreement"]

_NAMES = (
    "who rated what is public; privacy weights are not",
    "with its weight unchanged a rating of weight W has at most W·ε; a rating and its weight "
    "together have ε, or the larger weight's share of it",
    "a user who changes k weights has the guarantee of k ratings",
)


@dataclass(frozen=True, kw_only=True)
class PrivateWeightsAgreement(WeightedOffsetsAgreement):
    """What leaves devices or sites for offsets of items where weights are private."""

    @cached_property
    def sensitivities(self) -> dict[str, float]:
        """The L2 sensitivity of both sums to one rating and its weight; see the module."""
        reach = math.sqrt(4.0 * self.clip**2 + 4.0 / self.prior_weight)
        return {"mean": 2.0 * HALF, "offsets": reach}

    def size(self, kind: str) -> int:
        """Return how many numbers a kind of sum has: sums of weights stand beside residuals."""
        return 2 if kind == "mean" else 2 * self.items

    def kinds_of(self, step: str) -> tuple[str, ...]:
        """Return which sums a step may be asked for: one each."""
        return (step,)

    @property
    def _about_weights(self) -> tuple[str, ...]:
        return _NAMES

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> Participant:
        """Return a site's raters, or the devices of one process."""
        made: Participant = late(f"{__package__}.private_sides").PrivateRaters(
            self, name, data, gate
        )
        return made

    def items_known(self, opened: Mapping[str, Any], sites: int) -> Any:
        """Return what the recommender knows of items, as it begins."""
        return late(f"{__package__}.private_sides").PrivateItems(self, opened, sites)

    def worst_case(self) -> Neighbours:
        """See `worst_members`; the rating that changes has weight 1, and keeps it."""
        found = worst_members(self)
        return Neighbours(
            *(Rated(cells, np.ones(cells.members), np.ones(len(cells.values))) for cells in found)
        )

    @classmethod
    def examples(cls) -> Iterator[PrivateWeightsAgreement]:
        """Devices and sites, with and without features."""
        method = late(f"{__package__}.agreement").HeterogeneousOffsets
        for trust, devices in (("aggregator", True), ("site", False)):
            privacy = Privacy(50.0, 1e-6, unit="entry", trust=trust)
            sites = 1 if devices else 3
            task = Task(2, 13, (1.0, 5.0), 2, privacy, None, None, sites, 1, devices)
            yield method(public_weights=False, pattern=devices).agree(task)
