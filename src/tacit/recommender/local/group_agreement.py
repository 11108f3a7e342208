"""Offsets of groups of items along a public hierarchy: one answer per person, or one sum.

What single items are worth cannot be learned from people who trust nobody, unless there are
hundreds of them for each item. What can be learned is coarser: the overall mean, and the offsets
of groups that items are in by public knowledge (`tacit.recommender.local.hierarchy` says how
many people are asked about what, and which levels are not worth asking about).

**A question** about a level: the server sends the base values that were learned so far. A device
subtracts them and its own mean b_i = Σ_j (x_ij − base_j)/(n_i + 2) from its ratings, and its
value for group g is r_ig = Σ_{j∈g} e_ij/(n_ig + 1), 0 where it has rated nothing of it. About the
mean, it is Σ_j (x_ij − 0)/(n_i + 1). Levels are asked one after the other, each about what those
before it left.

**One answer** (``trust="local"``, ``"shuffler"``). A person is asked about one level, and about
one group of it; both are drawn without looking at the ratings, the group by the device. The
value, clipped to ±c, goes through a mechanism that is ε-private for *any* two values of [−1, 1].
The whole message, which group and what answer, is therefore ε-private for everything about the
person, items and ratings; a person sends one message in all. Whatever base values a request
holds, a message says no more. What leaves a site or a process are sums of messages by group,
which is post-processing. Through a shuffler messages come in random order within a level, and ε
is what somebody learns who does not know who sent which.

**How much of a level people have rated.** Answers about a group are 0 where nothing of it was
rated, and too small where little was: on average by 1/G·Σ_g n_ig/(n_ig + 1). A few of the people
who are asked about a level answer that number in place of an offset, through the same mechanism,
and averages of the level are divided by it where it is clear.

**A sum** (``trust="aggregator"``, ``"site"``, ``"central"``). Everybody contributes to every level
(r_ig/c, ½) for each group of which something was rated, multiplied by 1/√(‖·‖² + ¼) so that its
norm is below one whatever the ratings are. Replacing a person moves the sum by at most 2, in L2;
the Gaussian noise of all levels together is (ε, δ). The group of a rating is public, and base
values are the request's, so a contribution is a function of that person's ratings alone.

**Post-processing.** A group's offset is its posterior mean given the known variance of its
average, averaged over what the variance τ² of the level's offsets may be; of offsets that noise
hides next to nothing remains. **On the device**, a person's own mean is added, and how far the
learned offsets are believed (in full, or with a factor that its ratings say) is averaged by how
each did on the person's own ratings, left out one at a time. So nobody does worse than by their
own mean, but for what that choice costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.lazy import late
from tacit._core.rng import generator
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.factorization.offsets.sums import HALF
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.shuffled import Shuffled
from tacit.privacy.calibration import SOURCE_SHARE, gaussian_sigma
from tacit.privacy.events import REPLACE, ApproximateDpEvent, DpEvent, NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.recommender.local.believing import believed, penalties
from tacit.recommender.local.groups import LOCAL, OWN, LocalGroups
from tacit.recommender.local.hierarchy import (
    Level,
    level_shares,
)
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

__all__ = ["COUNT", "GroupsAgreement"]

COUNT = 0.5  # of a message that is summed, beside a value
_REACH = 0.08  # of the people asked about a level: how much of it they have rated
_CLEAR = 3.0  # standard errors, from which that is believed
_RESIDUAL = 0.8  # the variance of a rating about its offsets, as in `tacit.recommender.sides`
_PERSON = 0.15  # the variance of a person's answer about the mean, as a rule


@dataclass(frozen=True)
class GroupsAgreement(Agreement):
    """The questions about the mean and about every level that is worth it."""

    family = "recommender"
    trusts = LocalGroups.trusts
    cites = ("wang2019",)

    settings: LocalGroups
    task: Task
    privacy: Privacy | None
    sites: int = 1

    # -- who is asked about what -----------------------------------------------------------

    @property
    def local(self) -> bool:
        """Whether every person's message is randomised by itself."""
        return self.task.noisy and self.privacy is not None and self.privacy.trust in LOCAL

    @cached_property
    def shares(self) -> Floats:
        """The share of people asked about the mean and about every level.

        Where only sites know how many people there are, they are thought to be a thousand for
        each group.
        """
        sizes = [level.size for level in self.settings.levels]
        if not self.task.noisy or self.privacy is None:
            return np.full(len(sizes) + 1, 1.0 / (len(sizes) + 1))
        people = self.task.users or 1000 * max([1, *sizes])
        return level_shares(sizes, people, self.settings.variance(self.privacy, people))

    @cached_property
    def questions(self) -> tuple[tuple[str, Level, float], ...]:
        """Name, level and share of people of every question; the mean is a level of one group."""
        whole = Level("mean", (0,) * self.task.items)
        levels = (whole, *self.settings.levels)
        found: list[tuple[str, Level, float]] = []
        for k, (level, share) in enumerate(zip(levels, self.shares, strict=True)):
            if share > 0.0 and k and self.local:
                found.append((f"reach {k}", level, _REACH * float(share)))
                share = (1.0 - _REACH) * share
            if share > 0.0:
                found.append((f"level {k}", level, float(share)))
        return tuple(found)

    def cohorts(self, people: int, at: float = 0.5) -> list[int]:
        """Return where cohorts of so many people end.

        With ``at`` drawn from [0, 1), every cohort has its share of people on average, however few
        there are: a site may be one person's device.
        """
        ends = np.floor(np.cumsum([share for _, _, share in self.questions]) * people + at)
        return [int(end) for end in np.append(np.minimum(ends, people)[:-1], people)]

    # -- what it costs ---------------------------------------------------------------------

    @cached_property
    def mechanisms(self) -> dict[str, Mechanism]:
        """The mechanism of every question."""
        privacy, found = self.privacy, {}
        assert privacy is not None
        people, before = self.task.users or 0, 0
        ends = self.cohorts(people)
        for (name, level, share), end in zip(self.questions, ends, strict=True):
            if not self.local:
                multiplier = gaussian_sigma(privacy.epsilon, privacy.delta) / math.sqrt(share)
                found[name] = self._summing(multiplier, level.size)
                continue
            inner: Mechanism = self.settings._inner(privacy, end - before)
            if privacy.trust == "shuffler":
                inner = Shuffled(inner, end - before)
            found[name], before = inner, end
        return found

    def _summing(self, multiplier: float, groups: int) -> Mechanism:
        kind: type[Gaussian] = Gaussian
        more: dict[str, Any] = {"neighbours": REPLACE}
        if not self.task.devices:
            kind, more = GaussianShare, {**more, "shares": self.task.shares}
        return kind.calibrated(multiplier, 2.0 * (1.0 + 2.0**-30), (2 * groups,), **more)

    def _steps(self) -> tuple[Step, ...]:
        asks = {"base": ArraySpec((self.task.items,), low=-3.0 * HALF, high=3.0 * HALF)}
        steps = []
        for name, level, _ in self.questions:
            if name.startswith("reach"):
                level = Level("reach", (0,))
            if not self.task.noisy:
                replies = {"sum": ArraySpec((level.size,)), "count": ArraySpec((level.size,))}
                steps.append(Step(name, open=_OPEN, asks=asks, replies=replies))
                continue
            mechanism = self.mechanisms[name]
            if isinstance(mechanism, Gaussian):
                spec = ArraySpec((mechanism.size,), exponent=mechanism.grid.exponent)
                steps.append(Step(name, mechanism, asks, {"sum": spec}, reach=_SHORT))
                continue
            replies = {
                "sum": ArraySpec((level.size,), low=-(2.0**60), high=2.0**60),
                "count": ArraySpec((level.size,), low=0.0, high=2.0**40),
            }
            steps.append(
                Step(
                    name,
                    mechanism,
                    {} if level.name == "reach" else asks,
                    replies,
                    part=name,
                    merge="stack",
                    cost=self._cost,
                    reach="a person is asked about one level only",
                )
            )
        return tuple(steps)

    @property
    def _cost(self) -> ApproximateDpEvent | None:
        """What a shuffled cohort is charged: sizes differ, and so do their events."""
        privacy = self.privacy
        if privacy is None or privacy.trust != "shuffler":
            return None
        return ApproximateDpEvent(float(privacy.epsilon), privacy.delta * (1.0 - SOURCE_SHARE))

    @cached_property
    def event(self) -> DpEvent:
        """All that leaves; without noise there is no guarantee at all."""
        return super().event if self.task.noisy else NonPrivateDpEvent()

    def scaled(self, weight: float) -> DpEvent:
        """Return what a rating of some weight sees: weights do not count here."""
        return self.event

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say what is public, and who is trusted."""
        asked = {name for name, _, _ in self.questions}
        sizes = [f"{level.name} ({level.size} groups)" for level in self.settings.levels]
        notes = [*self.task.notes]
        if sizes:
            notes.append(f"public hierarchy of items: {', '.join(sizes)}")
        left = [
            level.name
            for k, level in enumerate(self.settings.levels)
            if f"level {k + 1}" not in asked
        ]
        if left:
            notes.append(f"not asked, by ε and the number of people: {', '.join(left)}")
        if self.local:
            notes += [
                "each person answers about one group of one level, both drawn without looking at "
                "ratings, and each message is randomised on its device",
                *dict.fromkeys(n for m in self.mechanisms.values() for n in m.assumptions),
            ]
        elif self.task.noisy:
            first = next(iter(self.mechanisms.values()))
            notes += [*first.assumptions]
            if not self.task.devices:
                notes.append("the sites hold different users")
            elif self.privacy is not None and self.privacy.trust == "aggregator":
                notes.append(
                    "secure aggregation: only sums over people are seen, and every "
                    "person adds a share of the noise"
                )
        return tuple(notes)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> Participant:
        """Return all devices, or those of a site."""
        made: Participant = late(f"{__package__}.group_sides").GroupRaters(
            self, name, data, gate, seed
        )
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Ask level by level; return the table of items."""
        base, mean_variance = np.zeros(self.task.items), 1.0
        offsets = np.zeros(self.task.items)
        reach, known = 1.0, 0.0
        for name, level, _ in self.questions:
            if name.startswith("reach"):
                found = yield Ask(name)
                reach, known = self._reached(name, found.total)
                continue
            found = yield Ask(name, base=np.clip(base + offsets, -3.0 * HALF, 3.0 * HALF))
            estimate, variance = self._estimated(name, found.total, len(found.sites), level)
            if name == "level 0":
                # a mean anywhere in the range beforehand: N(0, 1)
                mean_variance = float(1.0 / (1.0 + 1.0 / variance[0]))  # 1 if nobody answered
                base = base + estimate[0] * (1.0 - mean_variance)
            else:
                share = reach if reach > _CLEAR * known else 1.0
                learned = believed(estimate / share, variance / share**2)
                offsets = offsets + learned[level.of_items]
                reach, known = 1.0, 0.0
        middle, half = self.task.scale
        step = half / HALF
        features = np.column_stack([np.ones(self.task.items), step * offsets])
        return {
            "base": middle + step * np.clip(base + offsets, -HALF, HALF),
            "features": features,
            "penalties": penalties(mean_variance, _RESIDUAL, step, bool(offsets.any())),
            "spread": np.array([_RESIDUAL * step**2]),
        }

    def _reached(self, name: str, total: Mapping[str, Any]) -> tuple[float, float]:
        """Return by how much answers about a level are too small, and its standard error."""
        inner = self.mechanisms[name]
        inner = getattr(inner, "inner", inner)
        people = max(float(total["count"][0]), 1.0)
        error = 0.5 * math.sqrt(float(np.max(inner.variance(np.array([0.0, 1.0])))) / people)
        return float(np.clip(0.5 + 0.5 * float(total["sum"][0]) / people, 0.02, 1.0)), error

    def _estimated(
        self, name: str, total: Mapping[str, Any], sites: int, level: Level
    ) -> tuple[Floats, Floats]:
        """Return the average answer about every group, and how uncertain it is."""
        clip = HALF if name == "level 0" else self.settings.clip
        if self.task.noisy and not self.local:
            mechanism = self.mechanisms[name]
            assert isinstance(mechanism, Gaussian)
            noise = sites * mechanism.variance()
            sums, counts = np.asarray(total["sum"], np.float64).reshape(2, level.size)
            weight = np.maximum(counts / COUNT, math.sqrt(noise))
            return clip * sums / weight, clip**2 * noise / weight**2 + OWN / weight
        sums, counts = (np.asarray(total[n], np.float64) for n in ("sum", "count"))
        people = np.maximum(counts, 1.0)
        each = 0.0
        if self.task.noisy:
            mechanism = self.mechanisms[name]
            inner = getattr(mechanism, "inner", mechanism)
            each = clip**2 * float(np.max(inner.variance(np.array([0.0, 0.5]))))
        own = _PERSON if name == "level 0" else OWN
        return clip * sums / people, np.where(counts > 0, (each + own) / people, np.inf)

    def shared(self, result: Any) -> dict[str, Any]:
        """Return the table of items."""
        return dict(result)

    def worst_case(self) -> Neighbours:
        """One person who likes all items, or does not."""
        low, high = self.task.bounds
        people, items = self.task.people if self.task.users else 3, self.task.items
        table = generator(0, "audit").choice([low, high], (people, items))
        found = []
        for value in (low, high):
            table = table.copy()
            table[0] = value
            starts = np.arange(0, people * items + 1, items, dtype=np.int64)
            places = np.tile(np.arange(items, dtype=np.int32), people)
            found.append(Rated(ByMember(starts, places, table.ravel()), np.ones(people)))
        return Neighbours(*found)

    @classmethod
    def examples(cls) -> Iterator[Agreement]:
        """Local, shuffled and summed, over devices and sites."""
        levels = {"kind": [0, 0, 1, 1, 0, 1], "band": [0, 1, 2, 0, 1, 2]}
        for trust, people, delta, epsilon in (
            ("local", 60, 0.0, 8.0),
            ("shuffler", 4000, 1e-5, 6.0),
            ("aggregator", 60, 1e-5, 8.0),
        ):
            privacy = Privacy(epsilon, delta, unit="user", neighbours=REPLACE, trust=trust)
            yield LocalGroups(levels).agree(Task(people, 6, (1.0, 5.0), 1, privacy))
        privacy = Privacy(8.0, 1e-5, unit="user", neighbours=REPLACE, trust="site")
        yield LocalGroups(levels).agree(
            Task(None, 6, (1.0, 5.0), 1, privacy, sites=3, devices=False)
        )


_OPEN = "sums of people's answers about every level: no guarantee was asked for"
_SHORT = "a message is scaled below norm one, and its counts never point the other way"
