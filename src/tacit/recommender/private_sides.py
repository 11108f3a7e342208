"""The two sides of `tacit.recommender.private_weights`."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tacit.estimators.agreement import Asked
from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.factors import Messages
from tacit.factorization.offsets.numerics.shrinkage import shrink
from tacit.factorization.offsets.sides import Shard
from tacit.factorization.offsets.sums import HALF
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.privacy.events import DpEvent
from tacit.recommender.sides import Items, Raters

__all__ = ["PrivateItems", "PrivateRaters"]

_OWN = math.sqrt(3.0) * (1.0 - 2.0**-40)  # t/c, less the rounding of products
_LEAST = 0.02  # of a mean weight, and of an item's in shares of that
_WITHIN = 0.1  # the variance of single weights about their item's mean, as a rule


class PrivateRaters(Raters):
    """The users of one site, or all devices of one process, whose weights nobody is told."""

    def groups(self) -> Mapping[str, DpEvent]:
        """Return nothing: which weights there are is private."""
        return {}

    def _mean(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        values = np.column_stack([shard.cells.values, np.full(len(shard.weights), _OWN * HALF)])
        return mechanism.grid.sum(values, shard.weights)

    def _offsets(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        """Sum W·e and t·W by item, e a value minus its member's own weighted mean, clipped."""
        cells, weights, public = shard.cells, shard.weights, self.agreement
        prior, clip = public.prior_weight, public.clip
        total = cells.sums(weights * cells.values) + prior * float(asked.arrays["mean"][0])
        own = total / (cells.sums(weights) + prior)
        rest = np.clip(cells.values - cells.spread(own), -clip, clip)
        left = np.column_stack([rest, np.full(len(rest), _OWN * clip)])
        which = np.zeros(len(rest), np.int64)
        return self._summed(mechanism, cells, which, Messages(left, np.ones((1, 1)), weights))


class PrivateItems(Items):
    """What the recommender knows, sums of weights behind noise among it."""

    _average = 1.0  # weight of a rating

    def take(self, kind: str, total: Floats, noise: float) -> None:
        """Take in a sum."""
        if kind == "mean":
            ratings = max(float(self.counts.sum()), 1.0)
            found = float(total[1]) / (_OWN * HALF) / ratings
            self._average = float(np.clip(found, _LEAST, 1.0))
            self._weights = self.counts * self._average
            self._squares = self.counts * self._average**1.5
            super().take(kind, total[:1], noise)
            return
        pairs = total[: 2 * self._agreed.items].reshape(-1, 2)
        self._take_weights(pairs[:, 1] / (_OWN * self._agreed.clip), noise)
        self._take_offsets(pairs[:, 0], noise)

    def _take_weights(self, sums: Floats, noise: float) -> None:
        """Set ΣW of every item, shrunk towards the average weight, and about Σ W²."""
        about = sums - self.counts * self._average
        spread = noise / (_OWN * self._agreed.clip) ** 2
        moved = shrink(about, self.counts, spread, _WITHIN)
        shares = np.clip(
            moved / np.maximum(self.counts, 1.0) + self._average, _LEAST * self._average, 1.0
        )
        self._weights = self.counts * shares
        # between the square of the mean and the mean: as of weights spread over (0, 1]
        self._squares = self.counts * shares**1.5
