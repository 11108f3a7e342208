"""Item offsets from ratings of different privacy, certified; features of items for nothing.

Ratings are mapped to [−2, 2] by their public bounds. Who rated what and the weights
0 < W_ij ≤ 1 are public. Two sums over raters leave the devices, under secure aggregation, each
rater having added a share of the noise: in one process the whole noise is drawn once, which has
the same law.

=======  ====================================  ==================================
round    what is summed                        how far rating (i, j) moves it (L2)
=======  ====================================  ==================================
mean     Σ_ij W_ij·x_ij                        4·W_ij
offsets  per item Σ_i W_ij·clip(x_ij − b_i, ±c)  W_ij·√(min(2c, 4)² + 4/κ)
=======  ====================================  ==================================

**Offsets.** With S_i = Σ_j W_ij and r₀ the mean released before, a user's own mean is
b_i = (Σ_j W_ij·x_ij + κ·r₀)/(S_i + κ). Replacing x_ij moves it by at most 4W_ij/(S_i + κ), so the
user's other messages by at most W_ij'·4W_ij/(S_i + κ) each, together in L2 by at most

    4W_ij·√(Σ_j' W_ij'²)/(S_i + κ) ≤ 4W_ij·√S_i/(S_i + κ) ≤ 4W_ij/(2√κ),

since W ≤ 1, and the own message by at most W_ij·min(2c, 4). Hence W_ij·√(min(2c, 4)² + 4/κ): it
scales with W_ij because the own mean is weighted as well. A plain mean would not do: a rating of
tiny weight moves it, and it moves messages of weight 1 (PRIVACY B2).

Noise is calibrated for weight 1. A rating of weight W_ij sees noise 1/W_ij times larger, is
(W_ij·μ)-GDP, and its ε is at most W_ij·ε, up to the rounding of sums, which is counted too.

**Post-processing.** Offsets are posterior means given the noise and what popularity and the
features of the pattern say about items (`tacit.inference.shrinkage.shrink_towards`). **On the
device**, a user's own ratings, unweighted, are regressed on the items' features
(`tacit.estimators.recommender_device`); nothing of it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import OneOf, Real, check
from tacit.errors import ParameterError
from tacit.estimators.recommender_device import fold_in, ladder
from tacit.estimators.recommender_method import Learned, RecommenderMethod, Task, nothing_private
from tacit.inference.members import ByMember
from tacit.inference.messages import sum_messages
from tacit.inference.pattern import features_of_pattern, pattern_counts
from tacit.inference.shrinkage import shrink_towards
from tacit.mechanisms.additive import Gaussian
from tacit.mechanisms.base import privatize
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.grid import GridSum
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import REPLACE, DpEvent, GaussianDpEvent, NonPrivateDpEvent, compose
from tacit.rounds.aggregate import SumAggregator
from tacit.rounds.inprocess import run
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected, Coordinator, Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Floats = NDArray[np.float64]

__all__ = ["HeterogeneousOffsets", "Raters"]

HALF = 2.0  # ratings are mapped to [−2, 2]
PLAN = {"mean": 0.02, "offsets": 0.98}  # shares of the squared noise multiplier
_SLACK = 1.0 + 2.0**-30  # on sensitivities: the rounding of products
_RESIDUAL = 0.8  # the variance of a rating about its offsets, of a half-range of 2, as a rule


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
    """

    clip: float = 1.0
    prior_weight: float = 10.0
    pattern: bool = True

    unit = "entry"
    trusts = ("aggregator", "central")
    source = "exact"

    def __post_init__(self) -> None:
        check("clip", self.clip, Real(0, 2 * HALF, open_low=True))
        check("prior_weight", self.prior_weight, Real(0, open_low=True))
        check("pattern", self.pattern, OneOf(True, False))

    def check(self, task: Task) -> None:
        """Refuse what the method cannot give."""
        super().check(task)
        if task.noisy and task.privacy is not None and task.privacy.delta == 0.0:
            raise ParameterError("this method adds Gaussian noise: pass Privacy(…, delta=1e-6)")

    # -- what it costs --------------------------------------------------------------------

    def sensitivities(self) -> dict[str, float]:
        """Return how far a rating of weight 1 moves each sum; see the module."""
        own = min(2.0 * self.clip, 2.0 * HALF)
        return {"mean": 2.0 * HALF, "offsets": math.sqrt(own**2 + 4.0 / self.prior_weight)}

    def mechanisms(self, task: Task) -> dict[str, Gaussian]:
        """Return the mechanism of each round."""
        bounds, sizes = self.sensitivities(), {"mean": 1, "offsets": task.items}
        if not task.noisy or task.privacy is None:
            return {n: Gaussian(0.0, bounds[n], (sizes[n],), REPLACE, "exact") for n in PLAN}
        whole = gaussian_sigma(task.privacy.epsilon, task.privacy.delta)
        return {
            name: Gaussian.calibrated(
                whole / math.sqrt(share), bounds[name] * _SLACK, (sizes[name],),
                neighbours=REPLACE, source="exact",
            )
            for name, share in PLAN.items()
        }  # fmt: skip

    def schedule(self, task: Task) -> DpEvent:
        """Return both rounds, as a rating of weight 1 sees them."""
        return nothing_private(task) or compose(m.event for m in self.mechanisms(task).values())

    def scaled(self, task: Task, weight: float) -> DpEvent:
        """Return both rounds, as a rating of some weight sees them.

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
        if task.privacy is not None and task.privacy.trust == "aggregator":
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
        """Run two rounds, then fold every user's own ratings in."""
        raters = Raters(self, task, cells, reservation, noise)
        pattern = cells._replace(values=np.zeros(0))
        server = ItemServer(self, task, pattern, rng)
        run(server, [raters], aggregator=SumAggregator(minimum=1))
        shared = server.shared()
        return Learned(shared, fold_in(shared, cells))


class Raters(Participant):
    """All devices of one process: the sums over their users, with the sum of their noise shares.

    Parameters
    ----------
    method, task
        What is public.
    cells
        The ratings, sorted by user.
    reservation, noise
        Who pays, and the source of noise.
    """

    name = "the raters"

    def __init__(
        self,
        method: HeterogeneousOffsets,
        task: Task,
        cells: ByMember,
        reservation: Reservation | None,
        noise: Noise,
    ) -> None:
        self._method, self._task = method, task
        self._reservation, self._noise = reservation, noise
        low, high = task.bounds
        inside = clip_values(cells.values, low, high)
        scaled = (inside - (low + high) / 2.0) * (2.0 * HALF / (high - low))
        self._cells = cells._replace(values=np.clip(scaled, -HALF, HALF))
        self._weights = task.weights.of(cells.owners, cells.items)
        self._mechanisms = method.mechanisms(task)

    def respond(self, request: Message) -> Message:
        """Release the sum of one round through the gate."""
        stage = list(PLAN)[request.round]
        mechanism = self._mechanisms[stage]
        value = self._mean(mechanism) if stage == "mean" else self._offsets(mechanism, request)
        noisy = privatize(mechanism, value, ledger=self._reservation, rng=self._noise)
        return Message(request.round, {"sum": noisy})

    def _mean(self, mechanism: Gaussian) -> GridSum:
        return mechanism.grid.sum(self._cells.values[:, None], self._weights)

    def _offsets(self, mechanism: Gaussian, request: Message) -> GridSum:
        cells, weights, method = self._cells, self._weights, self._method
        # whatever was sent, the mean lies in the range that the bound was derived for
        mean = float(np.clip(np.nan_to_num(request["mean"][0]), -HALF, HALF))
        total = cells.sums(weights * cells.values) + method.prior_weight * mean
        own = total / (cells.sums(weights) + method.prior_weight)
        rest = np.clip(cells.values - own[cells.owners], -method.clip, method.clip)
        summed = sum_messages(
            cells.items, self._task.items, rest[:, None], np.ones((1, 1)),
            np.zeros(len(rest), np.int64), weights, math.ldexp(1.0, -mechanism.grid.exponent),
        )  # fmt: skip
        return GridSum(summed.ravel(), mechanism.grid)


class ItemServer(Coordinator):
    """The recommender: knows the pattern, the weights and what was released."""

    def __init__(
        self,
        method: HeterogeneousOffsets,
        task: Task,
        pattern: ByMember,
        rng: np.random.Generator,
    ) -> None:
        self._task, self._mechanisms = task, method.mechanisms(task)
        weights = task.weights.of(pattern.owners, pattern.items)
        self._weights: Floats = np.bincount(pattern.items, weights, task.items).astype(float)
        self._squares: Floats = np.bincount(pattern.items, weights**2, task.items).astype(float)
        self._counts = pattern_counts(pattern, task.items)
        self._features = np.zeros((task.items, 0))
        if method.pattern:
            self._features = features_of_pattern(pattern, task.items, task.rank, rng)
        self._mean, self._offsets = 0.0, np.zeros(task.items)

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """One sum per round."""
        return {"sum": ArraySpec((None,))}

    def request(self, round: int) -> Message | None:
        """Ask for the mean, then for the offsets about it."""
        return Message(round, {"mean": np.array([self._mean])}) if round < len(PLAN) else None

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in a sum."""
        total = np.asarray(collected.total["sum"], np.float64)
        if round == 0:
            mean = float(total[0]) / float(self._weights.sum())
            self._mean = float(np.clip(mean, -HALF, HALF))
            return
        popularity = np.log1p(self._counts)
        covariates = np.column_stack(
            [np.ones(len(total)), popularity - popularity.mean(), self._features]
        )
        self._offsets = shrink_towards(
            total, self._weights, self._mechanisms["offsets"].variance(),
            _RESIDUAL * self._squares, covariates,
        )  # fmt: skip

    def shared(self) -> dict[str, Any]:
        """Return base values and features in the scale of ratings."""
        low, high = self._task.bounds
        scale = (high - low) / (2.0 * HALF)
        return {
            "base": (low + high) / 2.0 + scale * (self._mean + self._offsets),
            "features": np.column_stack([np.ones(self._task.items), self._features]),
            "penalties": ladder(self._features.shape[1]),
            "spread": np.array([_RESIDUAL * scale**2]),
        }
