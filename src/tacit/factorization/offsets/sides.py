"""A site's side of `offsets.sums`: what its members contribute to every sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tacit.errors import ParameterError
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.factors import Messages, factor_messages, item_weight_sums
from tacit.factorization.offsets.numerics.contributions import (
    MOST_ROWS,
    lattice_gram,
    message_scales,
    sum_messages,
)
from tacit.factorization.offsets.numerics.pattern import pattern_counts, pattern_product
from tacit.factorization.offsets.numerics.ridge import ByMember, ridge_rows
from tacit.factorization.offsets.sums import HALF, OffsetsAgreement
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.gaussian import Gaussian, SymmetricGaussian
from tacit.mechanisms.grid import GridSum, pieces, wide_sum

__all__ = ["COUNT", "Members", "Shard", "packing"]

COUNT = 0.5  # weight of a count beside a residual
_SOFT = 0.5  # members whose message is shorter than this are hardly scaled up
_MIX = 0.5  # of pattern and residuals in the covariance
_RIDGE = 20.0  # of a member's factor in a step: typical features have size one


class Shard(NamedTuple):
    """Cells in [−2, 2], sorted by member, and the weight W of each."""

    cells: ByMember
    weights: Floats


class Members(Holder):
    """The members of one site, or the devices of one process, with β of every member."""

    agreement: OffsetsAgreement

    def __init__(
        self,
        agreement: OffsetsAgreement,
        name: str,
        cells: ByMember,
        gate: Gate,
        openness: Floats | None = None,
    ) -> None:
        low, high = agreement.bounds
        middle, step = agreement.scale
        scaled = (clip_values(cells.values, low, high) - middle) / step
        self.cells = cells._replace(values=np.clip(scaled, -HALF, HALF))
        self.weights = np.ones(len(scaled)) if openness is None else openness[cells.owners]
        if agreement.item_weights is not None:
            self.weights = self.weights * np.array(agreement.item_weights)[cells.items]
        super().__init__(agreement, name, [Shard(self.cells, self.weights)], gate)

    def units(self, shard: Shard) -> int:
        """Return the number of members."""
        return shard.cells.members

    def contributions(self, shard: Shard) -> int:
        """Return the number of members, or of cells where they count one by one."""
        return len(shard.cells.values) if self.agreement.unit == "entry" else self.units(shard)

    def check_room(self) -> None:
        """Raise where sums could overflow, or a covariance would not be exact."""
        super().check_room()
        kinds = {kind for step in self.agreement.steps for kind in (step.name, *step.kinds)}
        if self.cells.members > MOST_ROWS and "covariance" in kinds:
            raise ParameterError(
                f"{self.cells.members:,} members are more than the {MOST_ROWS:,} whose covariance "
                "is exact: make several sites of them, or leave factors out (rank=0)"
            )

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: Shard, picks: Integers
    ) -> Any:
        """Return the sum over all members, of the kind that is asked for."""
        if step.name == "counts":
            return self._counts(shard)
        if step.name == "pattern":
            return pattern_product(shard.cells, asked.arrays["counts"], asked.arrays["block"])
        assert isinstance(step.mechanism, Gaussian)
        kind = (asked.kind or step.name).replace(" ", "_")
        return getattr(self, f"_{kind}")(asked, shard, step.mechanism)

    def sends(self, step: Step, asked: Asked, released: Any) -> Mapping[str, Any]:
        """Return the sum, or what is public."""
        if step.name == "counts":
            return dict(zip(step.leaving, released, strict=True))
        return {"sum": released}

    def _counts(self, shard: Shard) -> Floats:
        """Return what is public about every item, a row each."""
        cells, items = shard.cells, self.agreement.items
        counts = pattern_counts(cells, items)
        if not self.agreement.weighted:
            return counts[None, :]
        reach, spread = item_weight_sums(cells, shard.weights, self.agreement.clip, items)
        weights = np.bincount(cells.items, shard.weights, items)
        squares = np.bincount(cells.items, shard.weights**2, items)
        return np.array([counts, weights, squares, reach, spread], np.float64)

    def _mean(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        cells = shard.cells
        if self.agreement.unit == "entry":
            return mechanism.grid.sum(cells.values[:, None], shard.weights)
        counts = np.diff(cells.starts)
        filled = counts > 0
        means = cells.sums(cells.values)[filled] / counts[filled]
        return mechanism.grid.sum(np.column_stack([means / HALF, np.ones(len(means))]))

    def _offsets(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        """Sum every value minus its member's own shrunken mean, clipped."""
        cells, weights, public = shard.cells, shard.weights, self.agreement
        prior, clip = public.prior_weight, public.clip
        total = cells.sums(weights * cells.values) + prior * float(asked.arrays["mean"][0])
        own = total / (cells.sums(weights) + prior)
        rest = np.clip(cells.values - own[cells.owners], -clip, clip)
        left, scales = rest[:, None], weights
        right, which = np.ones((1, 1)), np.zeros(len(rest), np.int64)
        if public.unit == "user":
            left = np.column_stack([rest, np.full(len(rest), COUNT)])
            scales = message_scales(cells, left, right, which, _SOFT)
        return self._summed(mechanism, cells, which, Messages(left, right, scales))

    def _summed(
        self, mechanism: Gaussian, cells: ByMember, which: Integers, sent: Messages
    ) -> GridSum:
        """Return the sum of messages on the mechanism's grid, zeros after it."""
        inverse, items = math.ldexp(1.0, -mechanism.grid.exponent), self.agreement.items
        left, right, scales = sent
        total = wide_sum(
            sum_messages(
                cells.items[part], items, left[part], right, which[part], scales[part], inverse
            )
            for part in pieces(len(cells.items))
        )
        padded = np.zeros(mechanism.size, total.dtype)
        padded[: total.size] = total.ravel()
        return GridSum(padded, mechanism.grid)

    def _residuals(self, asked: Asked, cells: ByMember) -> Floats:
        """Return what offsets leave of every value, the member's own from its own cells."""
        rest = cells.values - float(asked.arrays["mean"][0]) - asked.arrays["offsets"][cells.items]
        own = cells.sums(rest) / (np.diff(cells.starts) + self.agreement.prior_weight)
        clip = self.agreement.clip
        return np.asarray(np.clip(rest - own[cells.owners], -clip, clip))

    def _covariance(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> Floats:
        cells, popular = shard.cells, asked.arrays["popular"]
        width = len(popular)
        place = np.full(self.agreement.items, -1)
        place[popular] = np.arange(width)
        column = place[cells.items]
        kept = column >= 0
        rest, owners = self._residuals(asked, cells)[kept], cells.owners[kept]
        total = np.zeros((width, width))
        step = max(1, (1 << 24) // width)
        for first in range(0, cells.members, step):
            last = min(first + step, cells.members)
            here = (owners >= first) & (owners < last)
            rows = np.zeros((last - first, width))
            spot = owners[here] - first, column[kept][here]
            rows[spot] = 1.0
            # which items, beyond what their popularity says, and how they were liked
            rows -= np.minimum(rows.sum(axis=1, keepdims=True) * asked.arrays["rates"], 1.0)
            rows *= _MIX
            rows[spot] += (1.0 - _MIX) * rest[here]
            norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
            total += lattice_gram(rows / np.maximum(norms * (1.0 + 1e-9), 1e-9))
        padded = np.zeros(mechanism.size)
        packed = packing(width).pack(total)
        padded[: len(packed)] = packed
        return padded

    def _factors(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        cells = shard.cells._replace(values=self._residuals(asked, shard.cells))
        features = asked.arrays["features"]
        rows = ridge_rows(cells, features, np.full(features.shape[1], _RIDGE))
        lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        right = rows / np.maximum(lengths * (1.0 + 1e-9), 1e-9)
        left, which = cells.values[:, None], cells.owners
        scales = message_scales(cells, left, right, which, _SOFT)
        return self._summed(mechanism, cells, which, Messages(left, right, scales))

    def _damped_factors(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        cells, clip, prior = shard.cells, self.agreement.clip, self.agreement.prior_weight
        base, features = asked.arrays["base"], asked.arrays["features"]
        found = factor_messages(cells, shard.weights, base, features, clip, prior)
        return self._summed(mechanism, cells, cells.owners, found)


def packing(width: int) -> SymmetricGaussian:
    """Return the coordinates of symmetric matrices in which noise is the same for each."""
    return SymmetricGaussian(0.0, 1.0, order=2, dimension=width)
