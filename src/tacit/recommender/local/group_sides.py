"""A site's side of `groups`: one answer of each person about one group, or sums over all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit._core.rng import generator
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.contributions import message_scales, sum_messages
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.factorization.offsets.sums import HALF
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum, pieces, wide_sum
from tacit.mechanisms.shuffled import Shuffled
from tacit.privacy.events import DpEvent
from tacit.recommender.devices import Devices
from tacit.recommender.local.group_agreement import COUNT, GroupsAgreement
from tacit.recommender.local.hierarchy import Level
from tacit.recommender.method import Rated

__all__ = ["GroupRaters", "counted", "group_values", "value_at"]

_PRIOR = 2.0  # ratings that a device's own mean has to outweigh
_SOFT = 0.5  # of a message that is summed


class GroupRaters(Holder):
    """All devices of one process or of a site."""

    agreement: GroupsAgreement
    devices: Devices

    def __init__(
        self, agreement: GroupsAgreement, name: str, data: Rated, gate: Gate, seed: int | None
    ) -> None:
        task = agreement.task
        middle, half = task.scale
        scaled = (clip_values(data.cells.values, *task.bounds) - middle) * (HALF / half)
        super().__init__(agreement, name, [data.cells._replace(values=scaled)], gate)
        self._rated, self._rng = data, generator(seed, f"recommender {name}")
        order = self._rng.permutation(data.cells.members)  # who is asked about which level
        at = 0.5 if task.devices else float(self._rng.random())
        ends = agreement.cohorts(data.cells.members, at)
        parts = np.split(order, ends[:-1])
        self._cohorts = {
            question[0]: np.sort(part)
            for question, part in zip(agreement.questions, parts, strict=True)
        }

    def units(self, shard: ByMember) -> int:
        """Return the number of users."""
        return shard.members

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: ByMember, picks: Integers
    ) -> Any:
        """Return what people send before noise, or its sum."""
        public = self.agreement
        level = next(level for name, level, _ in public.questions if name == step.name)
        cells = shard.of(self._cohorts[step.name]) if public.local else shard
        if step.name.startswith("reach"):
            groups = group_values(cells, np.zeros(public.task.items), level, True)
            self._places = np.zeros(cells.members, np.int64)
            return self._sent(step, 2.0 * groups.sums(counted(cells, level)) / level.size - 1.0)
        groups = group_values(cells, asked.arrays["base"], level, step.name == "level 0")
        clip = HALF if step.name == "level 0" else public.settings.clip
        if step.open is not None:
            size = level.size
            sums = np.bincount(groups.items, groups.values, size) / clip
            return np.array([sums, np.bincount(groups.items, minlength=size)], np.float64)
        if isinstance(step.mechanism, Gaussian):
            return _summed(groups, level.size, clip, step.mechanism)
        self._places = self._rng.integers(0, level.size, cells.members)
        return self._sent(step, value_at(groups, self._places, level.size) / clip)

    def _sent(self, step: Step, values: Floats) -> Floats:
        """Return answers within [−1, 1]; beside them, for a shuffler, what they are about."""
        answers = np.clip(values, -1.0, 1.0)
        if isinstance(step.mechanism, Shuffled):
            return np.column_stack([answers, self._places])
        return answers

    def sends(self, step: Step, asked: Asked, released: Any) -> Mapping[str, Any]:
        """Return sums of messages by group: each message was randomised before."""
        if step.open is not None:
            return {"sum": released[0], "count": released[1]}
        if isinstance(step.mechanism, Gaussian):
            return {"sum": released}
        answers, places = released, getattr(self, "_places", None)
        if isinstance(step.mechanism, Shuffled):
            answers, places = released[:, 0], released[:, 1].astype(np.int64)
        (size,) = step.replies["sum"].shape
        assert places is not None and isinstance(size, int)
        count = np.bincount(places, minlength=size).astype(np.float64)
        return {"sum": np.bincount(places, answers, size).astype(np.float64), "count": count}

    def groups(self) -> Mapping[str, DpEvent]:
        """Return nothing: everybody has the same ε."""
        return {}

    def finish(self, shared: Mapping[str, Any]) -> None:
        """Fold every user's own ratings in."""
        self.devices = Devices.folded(shared, self.agreement.task, self._rated)


def group_values(cells: ByMember, base: Floats, level: Level, whole: bool) -> ByMember:
    """Return every person's value for each group that it has rated something of.

    Cells of a person and a group are one; ``whole`` is the question about the mean, of which the
    own mean is not taken off.
    """
    rest = cells.values - base[cells.items]
    owners = cells.owners
    if not whole:
        own = cells.sums(rest) / (np.diff(cells.starts) + _PRIOR)
        rest = rest - own[owners]
    keys = owners * level.size + level.of_items[cells.items]
    order = np.argsort(keys, kind="stable")
    found, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
    sums = np.add.reduceat(rest[order], first) if len(found) else np.zeros(0)
    starts = np.searchsorted(found, np.arange(cells.members + 1) * level.size)
    groups = (found % level.size).astype(np.int32)
    return ByMember(starts.astype(np.int64), groups, sums / (counts + 1.0))


def counted(cells: ByMember, level: Level) -> Floats:
    """Return n/(n + 1) for every person and group of which it has rated n items."""
    keys = cells.owners * level.size + level.of_items[cells.items]
    counts = np.unique(keys, return_counts=True)[1]
    return np.asarray(counts / (counts + 1.0))


def value_at(groups: ByMember, places: Integers, size: int) -> Floats:
    """Return every person's value for one group each, 0 where there is none."""
    keys = groups.owners * size + groups.items
    wanted = np.arange(groups.members) * size + places
    if not len(keys):
        return np.zeros(len(wanted))
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, groups.values[place], 0.0)


def _summed(groups: ByMember, size: int, clip: float, mechanism: Gaussian) -> Any:
    """Return the sum of messages of norm below one: values, then counts."""
    values = np.clip(groups.values / clip, -1.0, 1.0)
    left = np.column_stack([values, np.full(len(values), COUNT)])
    right, which = np.ones((1, 1)), np.zeros(len(values), np.int64)
    scales = message_scales(groups, left, right, which, _SOFT)
    inverse = math.ldexp(1.0, -mechanism.grid.exponent)
    about = groups.items
    total = wide_sum(
        sum_messages(about[part], size, left[part], right, which[part], scales[part], inverse)
        for part in pieces(len(about))
    )
    return GridSum(np.ascontiguousarray(total.T).ravel(), mechanism.grid)
