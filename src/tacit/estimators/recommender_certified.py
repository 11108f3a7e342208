"""Item offsets from ratings of different privacy, certified; features of items for nothing.

Ratings are mapped to [−2, 2] by their public bounds. Who rated what and the weights
0 < W_ij ≤ 1 are public. Sums over raters leave the devices, under secure aggregation, each
rater having added a share of the noise: in one process the whole noise is drawn once, which has
the same law.

=======  ====================================  ==================================
round    what is summed                        how far rating (i, j) moves it (L2)
=======  ====================================  ==================================
mean     Σ_ij W_ij·x_ij                        4·W_ij
offsets  per item Σ_i W_ij·clip(x_ij − b_i, ±c)  W_ij·√(min(2c, 4)² + 4/κ)
later    the same again, or a round on factors  the same
         (`tacit.estimators.recommender_factors`)
=======  ====================================  ==================================

**Offsets.** With S_i = Σ_j W_ij and r₀ the mean released before, a user's own mean is
b_i = (Σ_j W_ij·x_ij + κ·r₀)/(S_i + κ). Replacing x_ij moves it by at most 4W_ij/(S_i + κ), so the
user's other messages by at most W_ij'·4W_ij/(S_i + κ) each, together in L2 by at most

    4W_ij·√(Σ_j' W_ij'²)/(S_i + κ) ≤ 4W_ij·√S_i/(S_i + κ) ≤ 4W_ij/(2√κ),

since W ≤ 1, and the own message by at most W_ij·min(2c, 4). Hence W_ij·√(min(2c, 4)² + 4/κ): it
scales with W_ij because the own mean is weighted as well. A plain mean would not do: a rating of
tiny weight moves it, and it moves messages of weight 1 (PRIVACY B2).

**Later.** By what is public, the recommender has the third round spent on factors where they stand
out from the noise, else on the offsets again: what it costs does not depend on which.

Noise is calibrated for weight 1. A rating of weight W_ij sees noise 1/W_ij times larger, is
(W_ij·μ)-GDP, and its ε is at most W_ij·ε, up to the rounding of sums, which is counted too.

**Post-processing.** Offsets are posterior means given the noise and what popularity and the
features of the pattern say about items (`tacit.inference.shrinkage.shrink_towards`). **On the
device**, a user's own ratings, unweighted, are regressed on the items' features
(`tacit.estimators.recommender_device`); nothing of it leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import OneOf, Real, check
from tacit.errors import ParameterError
from tacit.estimators.recommender_device import fold_in
from tacit.estimators.recommender_method import Learned, RecommenderMethod, Task, nothing_private
from tacit.inference.members import ByMember
from tacit.mechanisms.additive import Gaussian
from tacit.mechanisms.operator import GaussianShare
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import REPLACE, DpEvent, GaussianDpEvent, NonPrivateDpEvent, compose
from tacit.rounds.aggregate import SumAggregator
from tacit.rounds.inprocess import run

if TYPE_CHECKING:
    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

__all__ = ["HeterogeneousOffsets"]

HALF = 2.0  # ratings are mapped to [−2, 2]
_MEAN, _LATER = 0.05, 0.3  # shares of the squared noise multiplier; offsets have the rest
_SLACK = 1.0 + 2.0**-30  # on sensitivities: the rounding of products


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
        Whether a private round learns how items are liked along those features; ``"auto"``: where
        that stands out from the noise.
    """

    clip: float = 1.0
    prior_weight: float = 10.0
    pattern: bool = True
    factors: bool | str = "auto"

    unit = "entry"
    trusts = ("aggregator", "site", "central")
    source = "exact"

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

    # -- what it costs --------------------------------------------------------------------

    @property
    def plan(self) -> dict[str, float]:
        """The rounds in order, each with its share of the squared noise multiplier."""
        if self.factors is False or not self.pattern:
            return {"mean": _MEAN, "offsets": 1.0 - _MEAN}
        return {"mean": _MEAN, "offsets": 1.0 - _MEAN - _LATER, "later": _LATER}

    def sensitivities(self) -> dict[str, float]:
        """Return how far a rating of weight 1 moves each sum; see the module."""
        own = min(2.0 * self.clip, 2.0 * HALF)
        reach = math.sqrt(own**2 + 4.0 / self.prior_weight)
        return {"mean": 2.0 * HALF, "offsets": reach, "later": reach}

    def mechanisms(self, task: Task) -> dict[str, Gaussian]:
        """Return the mechanism of each round."""
        bounds, plan = self.sensitivities(), self.plan
        sizes = {"mean": 1, "offsets": task.items, "later": task.items * task.rank}
        kind: type[Gaussian] = Gaussian
        more: dict[str, Any] = {"neighbours": REPLACE, "source": "exact"}
        if task.sites:
            kind, more = GaussianShare, {"neighbours": REPLACE, "shares": task.shares}
        if not task.noisy or task.privacy is None:
            return {n: kind(0.0, bounds[n], (sizes[n],), **more) for n in plan}
        whole = gaussian_sigma(task.privacy.epsilon, task.privacy.delta)
        return {
            name: kind.calibrated(
                whole / math.sqrt(share), bounds[name] * _SLACK, (sizes[name],), **more
            )
            for name, share in plan.items()
        }

    def schedule(self, task: Task) -> DpEvent:
        """Return all rounds, as a rating of weight 1 sees them."""
        return nothing_private(task) or compose(m.event for m in self.mechanisms(task).values())

    def scaled(self, task: Task, weight: float) -> DpEvent:
        """Return all rounds, as a rating of some weight sees them.

        Rounding to the grid does not shrink with the weight, and is added in full.
        """
        if not task.noisy:
            return NonPrivateDpEvent()
        events = []
        for mechanism in self.mechanisms(task).values():
            growth = mechanism.grid.growth(mechanism.size, 2, REPLACE)
            events.append(
                GaussianDpEvent(mechanism.scale / (weight * mechanism.sensitivity + growth))
            )
        return compose(events)

    def groups(self, task: Task, cells: ByMember) -> dict[str, DpEvent]:
        """Return bands of weights, each with what its heaviest rating sees."""
        return self.bands(task, cells) if task.noisy else {}

    def assumptions(self, task: Task) -> tuple[str, ...]:
        """Say what is public and who is trusted."""
        notes = [
            "who rated what is public, and so is every privacy weight",
            "ε of a rating scales with its weight; the headline is for weight 1",
            "users keep their own mean and factor: predictions are made on the device",
        ]
        if task.sites:
            shares = self.mechanisms(task)["mean"]
            assert isinstance(shares, GaussianShare)
            notes += [*shares.assumptions, "the sites hold different users"]
        elif task.privacy is not None and task.privacy.trust == "aggregator":
            notes.append(
                "secure aggregation: only sums over raters are seen, and every rater adds its "
                "share of the noise"
            )
        return tuple(notes)

    # -- the protocol ---------------------------------------------------------------------

    def learn(
        self,
        task: Task,
        cells: ByMember,
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Learned:
        """Run all rounds, then fold every user's own ratings in."""
        from tacit.estimators.recommender_certified_parts import ItemServer, Raters

        raters = Raters(self, task, cells, reservation, noise)
        pattern = cells._replace(values=np.zeros(0))
        server = ItemServer(self, task, pattern, rng)
        run(server, [raters], aggregator=SumAggregator(minimum=1))
        shared = server.shared()
        return Learned(shared, fold_in(shared, cells))
