"""A site's side of `offsets.sums`: what its members contribute to every sum."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._core.threads import each
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.executors import Loaded
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder, merged
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.factors import (
    WEIGHTS,
    Messages,
    factor_messages,
    item_weight_sums,
    weight_sums,
)
from tacit.factorization.offsets.numerics.contributions import (
    LATTICE,
    isometric,
    lattice_gram,
    message_scales,
    sum_messages,
)
from tacit.factorization.offsets.numerics.pattern import FINE, pattern_product, pattern_sums
from tacit.factorization.offsets.numerics.ridge import ByMember, ridge_rows
from tacit.factorization.offsets.sums import HALF, OffsetsAgreement
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.gaussian import Gaussian, SymmetricGaussian
from tacit.mechanisms.grid import Grid, GridSum, pieces, wide_sum

__all__ = ["BLOCK", "COUNT", "SOFT", "Members", "Own", "Shard", "entries", "packed", "packing"]

COUNT = 0.5  # weight of a count beside a residual
SOFT = 0.5  # members whose message is shorter than this are hardly scaled up
_LEAST, _MOST = 1 << 17, 1 << 21  # cells that are looked at together: what is formed stays near
_PER_NUMBER = 4  # so many for each number of their sum
BLOCK = 1 << 18  # numbers of members' rows that are formed at once
_MIX = 0.5  # of pattern and residuals in the covariance
_RIDGE = 20.0  # of a member's factor in a step: typical features have size one


class Shard(NamedTuple):
    """Cells in [−2, 2], sorted by member, the weight W of each, and β of every member.

    Where other cells are observed zeros, ``listed`` are the cells that are not held out.
    """

    cells: ByMember
    weights: Floats
    openness: Floats
    listed: NDArray[np.bool_] | None = None


class Own(NamedTuple):
    """The cells of a site's members as they were read, sorted by member, and what they count.

    What is made of all of them (values in [−2, 2], weights) is made of some members at a time.
    """

    cells: ByMember
    sent: Floats  # β of every member
    weights: Floats | None = None  # W of every cell, where it is not that of member and item
    counts: NDArray[np.bool_] | None = None  # who counts here; None: all
    listed: NDArray[np.bool_] | None = None  # as in `Shard`
    marks: NDArray[np.uint64] | None = None  # a number of every member, by name

    def between(self, first: int, last: int) -> Own:
        """Return some members, who all count."""
        here = slice(self.cells.starts[first], self.cells.starts[last])
        return Own(
            self.cells.between(first, last),
            self.sent[first:last],
            None if self.weights is None else self.weights[here],
            listed=None if self.listed is None else self.listed[here],
        )


class Members(Holder):
    """The members of one site, or the devices of one process, with β of every member.

    A child says how its data are read (`members_of`). What it keeps for predictions are all cells
    of the site, also of those who do not count here, unless these are in shards elsewhere.
    """

    agreement: OffsetsAgreement
    everybody: Own

    def __init__(self, agreement: OffsetsAgreement, name: str, data: Any, gate: Gate) -> None:
        self.agreement = agreement
        if isinstance(data, Loaded):
            super().__init__(agreement, name, data, gate)
            return
        self.everybody = self.members_of(data)
        super().__init__(agreement, name, [_counting(self.everybody, None)], gate)

    @abstractmethod
    def members_of(self, data: Any) -> Own:
        """Return what was read of members, from a part of the data."""

    def scaled(self, cells: ByMember) -> ByMember:
        """Return cells with values within the bounds, mapped to [−2, 2]."""
        low, high = self.agreement.bounds
        middle, step = self.agreement.scale
        scaled = (clip_values(cells.values, low, high) - middle) / step
        return cells._replace(values=np.clip(scaled, -HALF, HALF))

    def weights_of(self, own: Own) -> Floats:
        """Return W of every cell, the site's own weight included."""
        if own.weights is not None:
            return own.weights
        weights = own.cells.spread(own.sent)
        if self.agreement.item_weights is not None:
            weights *= np.array(self.agreement.item_weights)[own.cells.items]
        return weights

    def prepared(self, data: Any) -> Own:
        """Return the cells of those who count here, and a number of each of them, by name."""
        return _counting(self.members_of(data), self.marked(data))

    def marked(self, data: Any) -> NDArray[np.uint64] | None:
        """Return a number of each member in a part of the data, by name; None without names."""
        return None

    def marks(self, shard: Own) -> NDArray[np.uint64] | None:
        """Return a number of every member, by name."""
        return shard.marks

    def units(self, shard: Own) -> int:
        """Return the number of members."""
        return shard.cells.members

    def contributions(self, shard: Own) -> int:
        """Return the number of members, or of cells where they count one by one."""
        return len(shard.cells.values) if self.agreement.unit == "entry" else self.units(shard)

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: Own, picks: Integers
    ) -> Any:
        """Return the sum over all members, of the kind that is asked for.

        Members are taken so many at a time: what is formed for each of their cells is let go.
        """
        if step.name == "pattern":
            arrays = asked.arrays
            sums = pattern_sums(shard.cells, arrays["counts"], arrays["block"])
            return GridSum(wide_sum(sums), Grid(-FINE))
        drawn = self.agreement.mechanisms.get(step.name)
        size = self.agreement.items if drawn is None else drawn.size
        cells = min(max(_LEAST, _PER_NUMBER * size), _MOST)
        parts = (shard.between(*part) for part in shard.cells.parts(cells))
        return merged("sum", each(lambda part: self._sums(step, asked, part), parts))

    def formed(self, own: Own) -> Shard:
        """Return what is added up of some members: values in [−2, 2], and a weight for each."""
        return Shard(self.scaled(own.cells), self.weights_of(own), own.sent, own.listed)

    def _sums(self, step: Step, asked: Asked, own: Own) -> Any:
        """Return the sum over some members."""
        shard = self.formed(own)
        if step.name == "counts":
            return self._counts(shard)
        assert isinstance(step.mechanism, Gaussian)
        kind = (asked.kind or step.name).replace(" ", "_")
        return getattr(self, f"_{kind}")(asked, shard, step.mechanism)

    def sends(self, step: Step, asked: Asked, released: Any) -> Mapping[str, Any]:
        """Return the sum, or what is public."""
        if step.name == "counts":
            counts, *sums = released
            weights = [row * 2.0**-WEIGHTS for row in sums]
            rows = [counts.astype(np.float64), *weights]
            return dict(zip(step.leaving, rows, strict=True))
        if step.name == "pattern":
            return {"sum": pattern_product(released.integers, asked.arrays["counts"])}
        return {"sum": released}

    def completed(self, step: Step, asked: Asked, value: Any) -> Any:
        """Return the sum; a covariance in the coordinates in which noise is the same for each."""
        kind = asked.kind or step.name
        if kind != "covariance":
            return value
        assert isinstance(step.mechanism, Gaussian)
        return packed(value, step.mechanism)

    def _counts(self, shard: Shard) -> Integers:
        """Return what is public about every item, a row each: whole numbers (`weight_sums`)."""
        cells, items = shard.cells, self.agreement.items
        counts = np.bincount(cells.items, minlength=items)
        if not self.agreement.weighted:
            return counts[None, :]
        reach, spread = item_weight_sums(cells, shard.weights, self.agreement.clip, items)
        weights = weight_sums(cells.items, shard.weights, items)
        squares = weight_sums(cells.items, shard.weights**2, items)
        return np.array([counts, weights, squares, reach, spread])

    def _mean(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        cells = shard.cells
        if self.agreement.unit == "entry":
            return mechanism.grid.sum(cells.values[:, None], shard.weights)
        counts = np.diff(cells.starts)
        filled = counts > 0
        means = cells.sums(cells.values)[filled] / counts[filled]
        rows = np.column_stack([means / HALF, np.ones(len(means))])
        return mechanism.grid.sum(rows, shard.openness[filled])

    def _offsets(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        """Sum every value minus its member's own shrunken mean, clipped."""
        cells, weights, public = shard.cells, shard.weights, self.agreement
        prior, clip = self._prior(shard), public.clip
        total = cells.sums(weights * cells.values) + prior * float(asked.arrays["mean"][0])
        own = total / (cells.sums(weights) + prior)
        rest = np.clip(cells.values - cells.spread(own), -clip, clip)
        left, scales = rest[:, None], weights
        right, which = np.ones((1, 1)), np.zeros(len(rest), np.int64)
        if public.unit == "user":
            left = np.column_stack([rest, np.full(len(rest), COUNT)])
            scales = message_scales(cells, left, right, which, SOFT)
            scales = scales * cells.spread(shard.openness)
        return self._summed(mechanism, cells, which, Messages(left, right, scales))

    def _prior(self, shard: Shard) -> Floats | float:
        """Return κ, how many cells of weight one the overall mean counts for in a member's own."""
        return self.agreement.prior_weight

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
        return np.asarray(np.clip(rest - cells.spread(own), -clip, clip))

    def _covariance(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        cells, popular = shard.cells, asked.arrays["popular"]
        width = len(popular)
        place = np.full(self.agreement.items, -1)
        place[popular] = np.arange(width)
        column = place[cells.items]
        kept = column >= 0
        rest, owners = self._residuals(asked, cells)[kept], cells.owners[kept]
        total = np.zeros((width, width), np.int64)
        step = max(1, BLOCK // width)
        for first in range(0, cells.members, step):
            last = min(first + step, cells.members)
            here = slice(*np.searchsorted(owners, [first, last]))  # cells are sorted by member
            rows = np.zeros((last - first, width))
            spot = owners[here] - first, column[kept][here]
            rows[spot] = 1.0
            # which items, beyond what their popularity says, and how they were liked
            rows -= np.minimum(rows.sum(axis=1, keepdims=True) * asked.arrays["rates"], 1.0)
            rows *= _MIX
            rows[spot] += (1.0 - _MIX) * rest[here]
            norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
            lengths = np.sqrt(shard.openness[first:last, None])
            total += lattice_gram(rows / np.maximum(norms * (1.0 + 1e-9), 1e-9), lengths)
        return entries(total)

    def _factors(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        cells = shard.cells._replace(values=self._residuals(asked, shard.cells))
        features = asked.arrays["features"]
        rows = ridge_rows(cells, features, np.full(features.shape[1], _RIDGE))
        lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        right = rows / np.maximum(lengths * (1.0 + 1e-9), 1e-9)
        left, which = cells.values[:, None], cells.owners
        scales = message_scales(cells, left, right, which, SOFT) * shard.openness[which]
        return self._summed(mechanism, cells, which, Messages(left, right, scales))

    def _damped_factors(self, asked: Asked, shard: Shard, mechanism: Gaussian) -> GridSum:
        cells, clip, prior = shard.cells, self.agreement.clip, self.agreement.prior_weight
        base, features = asked.arrays["base"], asked.arrays["features"]
        found = factor_messages(cells, shard.weights, base, features, clip, prior)
        return self._summed(mechanism, cells, cells.owners, found)


def _counting(own: Own, marks: NDArray[np.uint64] | None) -> Own:
    """Return the cells of those who count here; the others contribute nothing at all."""
    if own.counts is None:
        return own._replace(marks=marks)
    mine = own.cells.spread(own.counts)
    return Own(
        own.cells.of(np.flatnonzero(own.counts)),
        own.sent[own.counts],
        None if own.weights is None else own.weights[mine],
        listed=None if own.listed is None else own.listed[mine],
        marks=None if marks is None else marks[own.counts],
    )


def entries(total: Integers) -> GridSum:
    """Return the entries of a symmetric sum of outer products, each once."""
    return GridSum(total[np.triu_indices(len(total))], Grid(LATTICE))


def packed(value: GridSum, mechanism: Gaussian) -> GridSum:
    """Return the coordinates of such a sum on a mechanism's grid, zeros after them."""
    width = (math.isqrt(8 * len(value.integers) + 1) - 1) // 2
    first, second = np.triu_indices(width)
    shift = mechanism.grid.exponent - value.grid.exponent
    found = isometric(value.integers, first != second, shift)
    padded = np.zeros(mechanism.size, found.dtype)
    padded[: len(found)] = found
    return GridSum(padded, mechanism.grid)


def packing(width: int) -> SymmetricGaussian:
    """Return the coordinates of symmetric matrices in which noise is the same for each."""
    return SymmetricGaussian(0.0, 1.0, order=2, dimension=width)
