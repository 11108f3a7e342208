"""Gradient descent on items from messages that each user randomises: what such methods share.

In each of k rounds the server sends V and gets an estimate of the average gradient; it steps once
with γ_t = γ₁/t, and scales V to rows of typical length one, which is post-processing, and without
which noise makes V grow without bound. Users find their own vector by ridge regression on V, on
the device. Without noise nobody has to sample or to add anything: the gradient is whole.

A message is randomised on its device, for whatever V was sent: nothing that a server asks makes
it say more.

**Nobody loses to a mean of their own.** A device's own offset costs nothing. Where nothing was
learned about the mean of all, a person's mean may lie anywhere in the range beforehand, and is
hardly shrunk. V counts only where the answers of all rounds are longer than noise alone would
make them, by three standard deviations, and hold more signal than noise: below that it is next to
a random V, and fitting it to one's own ratings only does harm. That looks at released answers and
at the public law of their noise. Which of both a person's own ratings speak for is decided on the
device.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.estimators.agreement import Agreement, Ask, Asked, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import (
    NEVER,
    ByMember,
    by_member,
    residuals,
    ridge_rows,
)
from tacit.mechanisms.base import Mechanism
from tacit.privacy.events import DpEvent, NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.recommender.devices import Devices
from tacit.recommender.method import Rated, RecommenderMethod, Task
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Collected

__all__ = [
    "Averaged",
    "LocalAgreement",
    "LocalMethod",
    "LocalRaters",
    "user_errors",
    "whole_gradient",
]

RIDGE = 1.0  # of a user's vector in a round
_RESIDUAL = 0.2  # the variance of a rating about its offsets, of a half-range of 1, as a rule
_MEAN = 0.29  # and that of a person's mean, where nothing is known of the mean of all
_CLEAR = 3.0  # standard deviations of noise
_TASTES = (20.0, 80.0)  # how far V is trusted; more choices take longer, and say hardly more
_WHOLE = "the average gradient of every round: no guarantee was asked for"


class Averaged(NamedTuple):
    """The estimate of an average gradient, and how far its answers stand out of the noise."""

    gradient: Floats
    seen: float  # what answers are longer than noise makes them, in standard deviations
    signal: float  # and in units of the noise itself


class LocalMethod(RecommenderMethod):
    """Settings of a descent: k, whether devices also fit an offset of their own, and γ₁."""

    rounds: int
    own_offset: bool
    step_size: float


@dataclass(frozen=True)
class LocalAgreement(Agreement):
    """k rounds of gradient descent; a child says what users send and what is made of it."""

    family = "recommender"
    trusts: ClassVar[tuple[str, ...]] = ("local", "shuffler")
    cites = ("shin2018",)

    settings: LocalMethod
    task: Task
    privacy: Privacy | None
    sites: int = 1

    # -- what a child says -----------------------------------------------------------------

    @property
    @abstractmethod
    def mechanism(self) -> Mechanism | None:
        """What one message goes through; None where no noise is asked for."""

    @abstractmethod
    def _messages(self) -> tuple[Step, ...]:
        """Return the steps of all rounds, with noise."""

    def draw_public(self, rng: np.random.Generator) -> Any:
        """Draw what does not depend on anybody's ratings, after V's first value."""
        return None

    @abstractmethod
    def gradient(self, number: int, v: Floats, drawn: Any) -> Generator[Ask, Collected, Averaged]:
        """Ask for the messages of a round and return the estimate of the average gradient."""

    # -- what follows ----------------------------------------------------------------------

    @property
    def asks_v(self) -> dict[str, ArraySpec]:
        """V: its rows have typical length one, so that no number is larger than √items."""
        most = 10.0 + math.sqrt(self.task.items)
        return {"v": ArraySpec((self.task.items, self.task.rank), low=-most, high=most)}

    def _steps(self) -> tuple[Step, ...]:
        if self.task.noisy:
            return self._messages()
        replies = {"gradient": ArraySpec((self.task.items, self.task.rank))}
        times = self.settings.rounds
        return (Step("whole", open=_WHOLE, asks=self.asks_v, replies=replies, times=times),)

    @cached_property
    def event(self) -> DpEvent:
        """All messages of one person; without noise there is no guarantee at all."""
        if not self.task.noisy:
            return NonPrivateDpEvent()
        return super().event

    def without_noise(self, gradient: Floats, rng: np.random.Generator) -> Floats:
        """Return what is made of an average gradient where no noise is asked for."""
        return gradient

    def scaled(self, weight: float) -> DpEvent:
        """Return what a rating of some weight sees: weights do not count here."""
        return self.event

    def first(self, seed: int | None) -> tuple[np.random.Generator, Floats, Any]:
        """Return the stream of what is random and public, V's first value, and what follows."""
        rng, task = generator(seed, "recommender"), self.task
        v = rng.standard_normal((task.items, task.rank)) / math.sqrt(task.rank)
        return rng, v, self.draw_public(rng) if task.noisy else None

    def coordinate(self, start: Start) -> Coordinating:
        """Descend for k rounds; return the table of items."""
        _, v, drawn = self.first(start.seed)
        task, settings, seen, signal = self.task, self.settings, 0.0, 0.0
        for number in range(settings.rounds):
            if task.noisy:
                gradient, clear, ratio = yield from self.gradient(number, v, drawn)
                seen += clear / math.sqrt(settings.rounds)
                signal += ratio / settings.rounds
            else:
                found = yield Ask("whole", v=v)
                gradient = found.total["gradient"] / len(found.sites)
                gradient = self.without_noise(gradient, generator(start.seed, "projection"))
            v = v - settings.step_size / (number + 1) * gradient
            v /= max(1.0, float(np.sqrt((v**2).sum(axis=1).mean())))
        middle, half = task.scale
        features, penalties = half * v, np.full((1, task.rank), RIDGE)
        if settings.own_offset:
            learned = (seen > _CLEAR and signal > 1.0) or not task.noisy
            features = np.column_stack([np.ones(task.items), features * learned])
            penalties = _choices(task.rank, learned)
        return {
            "base": np.full(task.items, middle),
            "features": features,
            "penalties": penalties,
            "spread": np.array([_RESIDUAL * half**2]),
        }

    def shared(self, result: Any) -> dict[str, Any]:
        """Return the table of items."""
        return dict(result)

    def worst_case(self) -> Neighbours:
        """One person who likes all items, or has rated one only, and not liked it."""
        low, high = self.task.bounds
        people, items = self.task.users or 3, self.task.items
        table = generator(0, "audit").choice([low, high], (people, items))
        other = table.copy()
        if self.settings.unit == "user":
            table[0], other[0] = high, np.nan
            other[0, 0] = low
        else:  # whether a cell is rated is secret as well
            table[0, 0], other[0, 0] = high, np.nan
        return Neighbours(*(_rated(one) for one in (table, other)))


def _choices(rank: int, learned: bool) -> Floats:
    """Return the penalties that a device averages over: twice as often without V as with it."""
    own = _RESIDUAL / _MEAN
    without = [[own, *[NEVER] * rank]] * (2 * len(_TASTES) if learned else 1)
    return np.array([*without, *([own, *[taste] * rank] for taste in _TASTES if learned)])


def _rated(table: Floats) -> Rated:
    cells = by_member(Relation.from_dense(("user", "item"), table), "user")
    return Rated(cells, np.ones(len(table)))


class LocalRaters(Holder):
    """All devices of one process; each message is randomised by itself."""

    agreement: LocalAgreement
    devices: Devices

    def __init__(
        self, agreement: LocalAgreement, name: str, data: Rated, gate: Gate, seed: int | None
    ) -> None:
        middle, half = agreement.task.scale
        inside = np.clip(data.cells.values, *agreement.task.bounds)
        scaled = data.cells._replace(values=(inside - middle) / half)
        super().__init__(agreement, name, [scaled], gate)
        self._rated = data
        self._rng, _, self._drawn = agreement.first(seed)
        if not agreement.task.devices:  # no two sites draw alike, in a run with a seed either
            self._rng = generator(seed, f"recommender {name}")

    def units(self, shard: ByMember) -> int:
        """Return the number of users."""
        return shard.members

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: ByMember, picks: Integers
    ) -> Any:
        """Return what the users of a step send, before noise."""
        if step.name == "whole":
            return whole_gradient(self.agreement.task, shard, asked.arrays["v"])
        return self.messages(step, asked, shard)

    @abstractmethod
    def messages(self, step: Step, asked: Asked, cells: ByMember) -> Floats:
        """Return one message of each user who answers in a step."""

    def finish(self, shared: Mapping[str, NDArray[Any]]) -> None:
        """Fold every user's own ratings in."""
        self.devices = Devices.folded(shared, self.agreement.task, self._rated)


def user_errors(task: Task, cells: ByMember, v: Floats) -> tuple[Floats, Floats]:
    """Return every user's vector given V, and what it leaves of every rating."""
    u = ridge_rows(cells, v, np.full(task.rank, RIDGE))
    return u, residuals(cells, v, u)


def whole_gradient(task: Task, cells: ByMember, v: Floats) -> Floats:
    """Return −2/n·Σ_i e_ij·u_i for every item, which nobody is shown."""
    u, errors = user_errors(task, cells, v)
    table = csr_matrix((errors, cells.items, cells.starts), shape=(cells.members, task.items))
    return np.asarray(-2.0 / cells.members * (table.T @ u))
