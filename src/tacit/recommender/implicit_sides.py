"""The two sides of `tacit.recommender.implicit`: whose clicks they are, and the recommender."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.data.members import marked
from tacit.errors import SiteFailure
from tacit.estimators.agreement import Ask, Asked, Coordinating, Start, Step
from tacit.estimators.executors import Loaded
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.contributions import (
    lattice_gram,
    message_scales,
    sum_messages,
)
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.factorization.offsets.numerics.shrinkage import denoised_counts
from tacit.factorization.offsets.sides import BLOCK, entries, packed, packing
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum, pieces, wide_sum
from tacit.privacy.events import DpEvent
from tacit.recommender.devices import Devices
from tacit.recommender.implicit import ImplicitAgreement
from tacit.recommender.method import Rated

__all__ = ["Clickers", "coordinate"]

_SOFT = 2.0  # √4: users with fewer items are not blown up
_LOOKED = (50, 100, 200, 400, 800, 1600, 3200)  # how many popular items tastes are looked for in
_EDGE = 1.1  # of the largest eigenvalue that noise alone has, from which one counts
_LEAST = 0.1  # clicks of an item nobody was seen with
_LOST = "a site was lost between two sums: the run can be resumed when it is back"


class Clicks(NamedTuple):
    """Which items users took, sorted by user, and the users' names."""

    cells: ByMember
    names: Any


class Clickers(Holder):
    """The users of one site, or all devices of one process."""

    agreement: ImplicitAgreement
    devices: Devices

    def __init__(self, agreement: ImplicitAgreement, name: str, data: Any, gate: Gate) -> None:
        shards = data if isinstance(data, Loaded) else [self.prepared(data)]
        super().__init__(agreement, name, shards, gate)
        self._rated = data

    def prepared(self, data: Rated) -> Clicks:
        """Return every item of a user once."""
        return Clicks(once(data.cells), data.names)

    def marks(self, shard: Clicks) -> NDArray[np.uint64] | None:
        """Return a number of each user, by name."""
        return None if shard.names is None else marked(shard.names)

    def units(self, shard: Clicks) -> int:
        """Return the number of users."""
        return shard.cells.members

    @property
    def notes(self) -> tuple[str, ...]:
        """How many users a site has; of one process the agreement says so."""
        if self.agreement.task.devices:
            return ()
        return (f"public size of the site: {sum(n for n, _ in self.sizes)} users",)

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: Clicks, picks: Integers
    ) -> GridSum:
        """Return the sum over all users."""
        mechanism, cells = step.mechanism, shard.cells
        assert isinstance(mechanism, Gaussian)
        if step.name == "popularity":
            one, which = np.ones((1, 1)), np.zeros(len(cells.items), np.int64)
            left = np.ones((len(cells.items), 1))
            scales = message_scales(cells, left, one, which, _SOFT)
            inverse, size = math.ldexp(1.0, -mechanism.grid.exponent), self.agreement.items
            total = wide_sum(
                sum_messages(
                    cells.items[part], size, left[part], one, which[part], scales[part], inverse
                )
                for part in pieces(len(cells.items))
            )
            return GridSum(total.ravel(), mechanism.grid)
        popular, rates = asked.arrays["popular"], asked.arrays["rates"]
        return entries(_moment(cells, popular, rates, self.agreement.items))

    def completed(self, step: Step, asked: Asked, value: GridSum) -> GridSum:
        """Return the sum; of tastes in the coordinates in which noise is the same for each."""
        assert isinstance(step.mechanism, Gaussian)
        return packed(value, step.mechanism) if step.name == "taste" else value

    def groups(self) -> Mapping[str, DpEvent]:
        """Return nothing: everybody has the same ε."""
        return {}

    def finish(self, shared: Mapping[str, NDArray[Any]]) -> None:
        """Find every user's own taste, where they are here."""
        if self.is_elsewhere:
            return
        cells = once(self._rated.cells)
        self.devices = Devices.folded(
            shared, self.agreement.task, self._rated._replace(cells=cells)
        )


def once(cells: ByMember) -> ByMember:
    """Return clicks in which every item of a user counts once, as 1."""
    keys = cells.owners * (int(cells.items.max(initial=0)) + 1) + cells.items
    kept = np.sort(np.unique(keys, return_index=True)[1])
    owners = cells.owners[kept]
    starts = np.searchsorted(owners, np.arange(cells.members + 1)).astype(np.int64)
    return ByMember(starts, cells.items[kept], np.ones(len(kept)))


def _moment(cells: ByMember, popular: Integers, rates: Floats, items: int) -> Integers:
    """Return Σ r_i·r_iᵀ over users in whole steps; see `tacit.recommender.implicit`."""
    width = len(popular)
    place = np.full(items, -1)
    place[popular] = np.arange(width)
    column = place[cells.items]
    owners, column = cells.owners[column >= 0], column[column >= 0]
    total, block = np.zeros((width, width), np.int64), max(1, BLOCK // width)
    for first in range(0, cells.members, block):
        last = min(first + block, cells.members)
        here = slice(*np.searchsorted(owners, [first, last]))  # cells are sorted by user
        rows = np.zeros((last - first, width))
        rows[owners[here] - first, column[here]] = 1.0
        rows -= np.minimum(rows.sum(axis=1, keepdims=True) * rates, 1.0)
        norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        total += lattice_gram(rows / np.maximum(norms * (1.0 + 1e-9), 1e-9))
    return total


def coordinate(public: ImplicitAgreement, start: Start) -> Coordinating:
    """Ask for popularity, then for tastes; return the table of items."""
    found = yield Ask("popularity")
    sites, noise = found.sites, len(found.sites) * public.mechanisms["popularity"].variance()
    counts, _ = denoised_counts(np.asarray(found.total["sum"], np.float64), noise)
    counts = np.maximum(counts, 0.0)
    features = np.zeros((public.items, public.rank))
    if len(public.plan) > 1:
        popular = np.argsort(-counts, kind="stable")[: public.popular]
        rates = counts[popular] / max(float(counts[popular].sum()), 1e-300)
        found = yield Ask("taste", popular=popular, rates=np.clip(rates, 0.0, 1.0))
        if found.sites != sites:
            raise SiteFailure(_LOST)
        mechanism, width = public.mechanisms["taste"], len(popular)
        size = width * (width + 1) // 2
        moment = packing(width).unpack(np.asarray(found.total["sum"], np.float64)[:size])
        deviation = math.sqrt(len(found.sites) * mechanism.variance())
        tastes = _standing_out(moment, deviation, public.rank)
        features[popular[: len(tastes)]] = tastes
    least = _LEAST / math.sqrt(1.0 + _SOFT**2) + math.sqrt(noise) * 0.01
    pairs = float(public.settings.ranking == "bpr")
    return {
        "base": np.log(counts + least),
        "features": features,
        "ranking": np.array([public.settings.prior, pairs]),
    }


def _standing_out(moment: Floats, deviation: float, rank: int) -> Floats:
    """Return features of the first items, (looked at, rank), from a noisy second moment."""
    best, found = 0.0, np.zeros((0, rank))
    for width in [*(w for w in _LOOKED if w < len(moment)), len(moment)]:
        values, vectors = np.linalg.eigh(moment[:width, :width])
        values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
        edge = deviation * math.sqrt(2.0 * width)
        # noise adds about edge²/4λ to an eigenvalue λ that stands out
        above = np.maximum(values, edge)
        clear = np.where(values > _EDGE * edge, above - edge**2 / (4.0 * above), 0.0)
        gain = float(np.maximum(clear - edge / 2.0, 0.0).sum())
        if gain > best:
            lengths = np.sqrt(clear / clear[0]) * np.sqrt(width)
            # and turns an eigenvector away by a known angle
            angle = edge / (2.0 * np.maximum(clear, edge))
            kept = np.sqrt(1.0 - np.minimum(angle, 1.0) ** 2)
            table = np.zeros((width, rank))
            table[:, : len(values)] = vectors * np.where(clear > 0.0, lengths * kept, 0.0)
            best, found = gain, table
    return found
