"""The two sides of `tacit.estimators.recommender_certified`: the raters, and the recommender."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.estimators.recommender_certified import HALF, HeterogeneousOffsets
from tacit.estimators.recommender_device import ladder
from tacit.estimators.recommender_factors import (
    Messages,
    crowd,
    factor_messages,
    features_from_sums,
    pays,
)
from tacit.estimators.recommender_method import Task
from tacit.inference.members import ByMember
from tacit.inference.messages import sum_messages
from tacit.inference.pattern import features_of_pattern, pattern_counts
from tacit.inference.shrinkage import shrink_towards
from tacit.mechanisms.additive import Gaussian
from tacit.mechanisms.base import privatize
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.grid import GridSum
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected, Coordinator, Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Floats = NDArray[np.float64]

__all__ = ["ItemServer", "Raters"]

KINDS = ("offsets", "factors")  # what the later round may be
_RESIDUAL = 0.8  # the variance of a rating about its offsets, of a half-range of 2, as a rule


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
    name
        Of the site, where there are several.
    """

    def __init__(
        self,
        method: HeterogeneousOffsets,
        task: Task,
        cells: ByMember,
        reservation: Reservation | None,
        noise: Noise,
        name: str = "the raters",
    ) -> None:
        self.name = name
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
        stage = list(self._mechanisms)[request.round]
        mechanism = self._mechanisms[stage]
        if stage == "later":
            stage = KINDS[int(request["kind"][0]) % len(KINDS)]
        value = getattr(self, f"_{stage}")(mechanism, request)
        noisy = privatize(mechanism, value, ledger=self._reservation, rng=self._noise)
        return Message(request.round, {"sum": noisy})

    def _mean(self, mechanism: Gaussian, request: Message) -> GridSum:
        return mechanism.grid.sum(self._cells.values[:, None], self._weights)

    def _offsets(self, mechanism: Gaussian, request: Message) -> GridSum:
        cells, weights, method = self._cells, self._weights, self._method
        # whatever was sent, the mean lies in the range that the bound was derived for
        mean = float(np.clip(np.nan_to_num(request["mean"][0]), -HALF, HALF))
        total = cells.sums(weights * cells.values) + method.prior_weight * mean
        own = total / (cells.sums(weights) + method.prior_weight)
        rest = np.clip(cells.values - own[cells.owners], -method.clip, method.clip)
        even = Messages(rest[:, None], np.ones((cells.members, 1)), weights)
        return self._summed(mechanism, even)

    def _factors(self, mechanism: Gaussian, request: Message) -> GridSum:
        base = np.clip(np.nan_to_num(request["base"]), -3.0 * HALF, 3.0 * HALF)
        return self._summed(
            mechanism,
            factor_messages(
                self._cells, self._weights, base, request["features"], self._method.clip,
                self._method.prior_weight,
            ),
        )  # fmt: skip

    def _summed(self, mechanism: Gaussian, messages: Messages) -> GridSum:
        """Return the sum of messages on the mechanism's grid, zeros after it."""
        cells, inverse = self._cells, math.ldexp(1.0, -mechanism.grid.exponent)
        summed = sum_messages(
            cells.items, self._task.items, messages.left, messages.right, cells.owners,
            messages.scales, inverse,
        )  # fmt: skip
        padded = np.zeros(mechanism.size, np.int64)
        padded[: summed.size] = summed.ravel()
        return GridSum(padded, mechanism.grid)


class ItemServer(Coordinator):
    """The recommender: knows the pattern, the weights and what was released."""

    def __init__(
        self,
        method: HeterogeneousOffsets,
        task: Task,
        pattern: ByMember,
        rng: np.random.Generator,
    ) -> None:
        self._method, self._task, self._mechanisms = method, task, method.mechanisms(task)
        weights = task.weights.of(pattern.owners, pattern.items)
        self._weights: Floats = np.bincount(pattern.items, weights, task.items).astype(float)
        self._squares: Floats = np.bincount(pattern.items, weights**2, task.items).astype(float)
        self._counts = pattern_counts(pattern, task.items)
        self._features = np.zeros((task.items, 0))
        if method.pattern:
            self._features = features_of_pattern(pattern, task.items, task.rank, rng)
        self._mean, self._offsets = 0.0, np.zeros(task.items)
        self._sums, self._precision = np.zeros(task.items), 0.0
        self._learned = np.zeros((task.items, 0))
        self._reach, self._spread = crowd(pattern, weights, method.clip, task.items)
        self._kind = self._round = 0
        if "later" in self._mechanisms:
            noise = math.sqrt(self._variance("later"))
            worth = method.factors is True or pays(pattern, self._reach, noise)
            self._kind = KINDS.index("factors") if worth else 0

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """One sum per round, on its mechanism's grid."""
        mechanism = list(self._mechanisms.values())[self._round]
        return {"sum": ArraySpec((mechanism.size,), exponent=mechanism.grid.exponent)}

    def _variance(self, stage: str) -> float:
        """Return the variance of a round's noise, over all sites."""
        return max(self._task.sites, 1) * self._mechanisms[stage].variance()

    def request(self, round: int) -> Message | None:
        """Ask for the mean, then for the offsets about it, then for factors or offsets again."""
        if round >= len(self._mechanisms):
            return None
        self._round = round
        asked = {"mean": np.array([self._mean])}
        if round == 2:
            asked |= {"kind": np.array([self._kind]), "base": self._mean + self._offsets,
                      "features": self._features}  # fmt: skip
        return Message(round, asked)

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in a sum."""
        total = np.asarray(collected.total["sum"], np.float64)
        noise = self._variance(list(self._mechanisms)[round])
        if round == 0:
            mean = float(total[0]) / float(self._weights.sum())
            self._mean = float(np.clip(mean, -HALF, HALF))
        elif round == 1 or KINDS[self._kind] == "offsets":
            self._take_offsets(total[: self._task.items], noise)
        else:
            width = self._features.shape[1]
            sums = total[: self._task.items * width].reshape(-1, width)
            self._learned = features_from_sums(
                sums, self._reach, self._spread, noise, self._features, _RESIDUAL
            )

    def _take_offsets(self, total: Floats, noise: float) -> None:
        """Shrink sums, averaged with those before by their noise, towards what is expected."""
        precision = 1.0 / max(noise, 1e-12)
        whole = self._precision + precision
        self._sums = (self._precision * self._sums + precision * total) / whole
        self._precision = whole
        covariates = np.column_stack([np.log1p(self._counts), self._features])
        self._offsets = shrink_towards(
            self._sums, self._weights, 1.0 / whole if noise else 0.0,
            _RESIDUAL * self._squares, covariates,
        )  # fmt: skip

    def shared(self) -> dict[str, Any]:
        """Return base values and features in the scale of ratings."""
        low, high = self._task.bounds
        scale = (high - low) / (2.0 * HALF)
        return {
            "base": (low + high) / 2.0 + scale * (self._mean + self._offsets),
            "features": np.column_stack(
                [np.ones(self._task.items), self._features, self._learned]
            ),
            "penalties": ladder(self._features.shape[1], self._learned.shape[1]),
            "spread": np.array([_RESIDUAL * scale**2]),
        }
