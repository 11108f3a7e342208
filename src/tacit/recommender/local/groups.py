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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement, Ask, Asked, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.contributions import message_scales
from tacit.factorization.offsets.numerics.ridge import NEVER, ByMember
from tacit.factorization.offsets.sums import HALF
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.local import LocalNumber
from tacit.mechanisms.one_bit import OneBitMean
from tacit.mechanisms.piecewise import Piecewise
from tacit.mechanisms.shuffled import Shuffled
from tacit.privacy.calibration import SOURCE_SHARE, gaussian_sigma, shuffled_local_epsilon
from tacit.privacy.events import REPLACE, ApproximateDpEvent, DpEvent, NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.recommender.devices import Devices
from tacit.recommender.local.hierarchy import (
    Level,
    LevelNeed,
    level_needs,
    level_shares,
    levels_of,
)
from tacit.recommender.method import Rated, RecommenderMethod, Task
from tacit.rounds.messages import ArraySpec

__all__ = ["GroupsAgreement", "LocalGroups"]

_ANSWERS: dict[str, type[LocalNumber]] = {"one-bit": OneBitMean, "piecewise": Piecewise}
_LOCAL = ("local", "shuffler")
_OWN = 0.15  # the typical variance of a person's own answer about a group, for values in [−2, 2]
_PRIOR = 2.0  # ratings that a device's own mean has to outweigh
_COUNT, _SOFT = 0.5, 0.5  # of a message that is summed
_REACH = 0.08  # of the people asked about a level: how much of it they have rated
_CLEAR = 3.0  # standard errors, from which that is believed
_RESIDUAL = 0.8  # the variance of a rating about its offsets, as in `tacit.recommender.sides`
_PERSON = 0.15  # the variance of people's own offsets, as a rule
_LADDER = np.append(0.0, np.geomspace(1e-3, 0.2, 24))  # of τ²
_NOTHING = 0.2  # the chance that a level says nothing, beforehand
_FACTOR = 0.25  # the variance of a factor on what was learned, as a rule


@dataclass(frozen=True)
class LocalGroups(RecommenderMethod):
    """Certified: the overall mean and offsets of public groups of items, whoever is trusted.

    Parameters
    ----------
    levels
        The public hierarchy, coarse levels first: name → a label for every item, in the order of
        items. Without one only the overall mean is learned.
    answer
        ``"one-bit"``, ``"piecewise"``, or ``"auto"``: whichever has the smaller variance at ε.
    clip
        c, where a person's answer is clipped, of a half-range of 2.

    Examples
    --------
    >>> method = LocalGroups({"kind": [0, 0, 1, 1]})
    >>> [need.people for need in method.needs(people=100_000, privacy=Privacy(1.0))]
    [95000]
    """

    levels: Any = ()
    answer: str = "auto"
    clip: float = 0.5

    unit: ClassVar[str] = "user"
    trusts: ClassVar[tuple[str, ...]] = (*_LOCAL, "aggregator", "site", "central")
    told: ClassVar[tuple[str, ...]] = ("levels", "answer", "clip")

    def __post_init__(self) -> None:
        check("answer", self.answer, OneOf("auto", *_ANSWERS))
        check("clip", self.clip, Real(0, 2 * HALF, open_low=True))
        object.__setattr__(self, "levels", levels_of(self.levels))

    def settings(self) -> dict[str, Any]:
        """Return the settings that a release carries: the hierarchy too, which is public."""
        levels = [[level.name, list(level.groups)] for level in self.levels]
        return {**super().settings(), "levels": levels}

    def check(self, task: Task) -> None:
        """Refuse a hierarchy of other items, and what a trust cannot give."""
        super().check(task)
        if self.levels and len(self.levels[0].groups) != task.items:
            raise ParameterError(
                f"levels are of {len(self.levels[0].groups)} items, and there are {task.items}: "
                "pass a label for every item, in the order of items"
            )
        privacy = task.privacy
        if privacy is None or not task.noisy:
            return
        if privacy.trust == "shuffler" and not task.devices:
            raise ParameterError("a shuffler needs all messages in one place: pass trust='local'")
        self._check_delta(privacy)

    @staticmethod
    def _check_delta(privacy: Privacy) -> None:
        if privacy.trust not in ("local", None) and privacy.delta == 0.0:
            raise ParameterError(
                f"trust={privacy.trust!r} gives (ε, δ): pass Privacy(…, delta=1e-6)"
            )

    def agree(self, task: Task) -> GroupsAgreement:
        """Return what is public about a fit."""
        self.check(task)
        return GroupsAgreement(self, task, task.privacy, task.sites)

    def needs(
        self, people: int, privacy: Privacy, sizes: Sequence[int] | None = None
    ) -> list[LevelNeed]:
        """Return what every level needs, before any data is read.

        Parameters
        ----------
        people
            How many there will be.
        privacy
            What they will be given; its trust is ``"local"`` unless stated.
        sizes
            How many groups there are in every level, where there is no hierarchy yet.
        """
        check("people", people, Integer(1))
        privacy = privacy.suiting(self.unit, "local", REPLACE)
        self._check_delta(privacy)
        if sizes is None:
            names, sizes = [v.name for v in self.levels], [v.size for v in self.levels]
        else:
            names = [f"level {k + 1}" for k in range(len(sizes))]
        if privacy.trust != "shuffler":
            return level_needs(
                names,
                sizes,
                people,
                privacy.epsilon,
                lambda epsilon, count: self.variance(privacy.with_epsilon(epsilon), count),
            )
        # as the bound's leading term has it, e^{ε₀/2} ~ ε·√n: the bound itself at one place only
        here = shuffled_local_epsilon(privacy.epsilon, privacy.delta, people)

        def alone(epsilon: float, count: int) -> float:
            gained = 2.0 * math.log(epsilon / privacy.epsilon) + math.log(max(count, 1) / people)
            local = min(max(here + gained, epsilon, 1e-3), 25.0)
            return self.variance(Privacy(local, unit="user", trust="local"), count)

        return level_needs(names, sizes, people, privacy.epsilon, alone)

    def variance(self, privacy: Privacy, people: int) -> float:
        """Return s², the variance of an answer, for values in [−2, 2]; as a rule.

        Of a sum it is that of one person's part of it, by which people are shared out as well.
        """
        if privacy.trust in (*_LOCAL, None):
            inner = self._inner(privacy, people)
            return self.clip**2 * float(np.mean(inner.variance(np.array([0.0, 0.5])))) + _OWN
        noise = 2.0 * gaussian_sigma(privacy.epsilon, max(privacy.delta, 1e-12))
        return self.clip**2 * noise**2 / max(people, 1) + _OWN

    def _inner(self, privacy: Privacy, people: int) -> LocalNumber:
        epsilon = privacy.epsilon
        if privacy.trust == "shuffler":
            epsilon = shuffled_local_epsilon(epsilon, privacy.delta, max(people, 1))
        if self.answer != "auto":
            return _ANSWERS[self.answer](epsilon)
        middle = np.array([0.4])  # of the size of a typical answer
        both = [kind(epsilon) for kind in _ANSWERS.values()]
        return min(both, key=lambda one: float(one.variance(middle)[0]))


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
        return self.task.noisy and self.privacy is not None and self.privacy.trust in _LOCAL

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

    def cohorts(self, people: int) -> list[int]:
        """Return where cohorts of so many people end."""
        ends = np.round(np.cumsum([share for _, _, share in self.questions]) * people)
        return [int(end) for end in np.minimum(ends, people)]

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
                    name, mechanism, {} if level.name == "reach" else asks,
                    replies, part=name, merge="stack", cost=self._cost,
                    reach="a person is asked about one level only",
                )
            )  # fmt: skip
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
                notes.append("secure aggregation: only sums over people are seen, and every "
                             "person adds a share of the noise")  # fmt: skip
        return tuple(notes)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> GroupRaters:
        """Return all devices, or those of a site."""
        return GroupRaters(self, name, data, gate, seed)

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
                mean_variance = float(variance[0] / (1.0 + variance[0]))
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
            "penalties": _penalties(mean_variance, _RESIDUAL, step, bool(offsets.any())),
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
            weight = np.maximum(counts / _COUNT, math.sqrt(noise))
            return clip * sums / weight, clip**2 * noise / weight**2 + _OWN / weight
        sums, counts = (np.asarray(total[n], np.float64) for n in ("sum", "count"))
        people = np.maximum(counts, 1.0)
        each = 0.0
        if self.task.noisy:
            mechanism = self.mechanisms[name]
            inner = getattr(mechanism, "inner", mechanism)
            each = clip**2 * float(np.max(inner.variance(np.array([0.0, 0.5]))))
        own = _PERSON if name == "level 0" else _OWN
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
    def examples(cls) -> Iterator[GroupsAgreement]:
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


def believed(estimate: Floats, variance: Floats) -> Floats:
    """Return posterior means of a level's offsets, τ² averaged over a ladder from 0 on.

    >>> believed(np.array([0.5, -0.5, 0.4]), np.full(3, 1e-4)).round(2).tolist()
    [0.5, -0.5, 0.4]
    """
    known = np.isfinite(variance)
    chances = np.log(np.append(_NOTHING, np.full(len(_LADDER) - 1, (1 - _NOTHING) / 24)))
    total = _LADDER[:, None] + variance[known]
    chances += -0.5 * (np.log(total) + estimate[known] ** 2 / total).sum(axis=1)
    chances = np.exp(chances - chances.max())
    gain = (chances / chances.sum()) @ (_LADDER[:, None] / total)
    found = np.zeros(len(estimate))
    found[known] = gain * estimate[known]
    return found


def _penalties(mean_variance: float, residual: float, step: float, learned: bool) -> Floats:
    """Return what a device averages over: its own offset, and a factor on what was learned."""
    own = residual / (_PERSON + mean_variance)
    if not learned:
        return np.array([[own, NEVER]])
    factor = residual * step**2 / _FACTOR
    return np.array([[own, one] for one in (NEVER, 4.0 * factor, factor, factor / 4.0)])


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
        ends = agreement.cohorts(data.cells.members)
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
    from tacit.factorization.offsets.numerics.contributions import sum_messages
    from tacit.mechanisms.grid import GridSum

    values = np.clip(groups.values / clip, -1.0, 1.0)
    left = np.column_stack([values, np.full(len(values), _COUNT)])
    right, which = np.ones((1, 1)), np.zeros(len(values), np.int64)
    scales = message_scales(groups, left, right, which, _SOFT)
    inverse = math.ldexp(1.0, -mechanism.grid.exponent)
    total = sum_messages(groups.items, size, left, right, which, scales, inverse)
    return GridSum(np.ascontiguousarray(total.T).ravel(), mechanism.grid)
