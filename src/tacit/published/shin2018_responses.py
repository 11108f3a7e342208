"""The baseline of Shin et al. (2018) as printed: randomized response beside Laplace noise.

In each of k rounds every user sends, for every item j, a bit y*_ij, which is y_ij (1 where it has
rated j) with probability 1 − p and a fair coin otherwise, and g*_ij = −2·u_i·(r_ij − u_iᵀv_j) plus
Laplace noise of scale σ; r_ij is 0 where j was not rated. The server averages
(y*_ij − p/2)/(1 − p)·g*_ij and steps V ← V − γ_t(∇* + 2λ_v·V); users step their vectors as in
`tacit.published.shin2018_descent`.

============================  =====================  ==================
of two data sets differ       p                      σ
============================  =====================  ==================
one item or rating of a user  2/(1 + e^{ε₁/k})       Δ·d·k/ε₂
all of a user's               2/(1 + e^{ε₁/(k·m)})   m·Δ·d·k/ε₂
============================  =====================  ==================

**What the claim leaves out** (PRIVACY B2). σ takes u_i and V as fixed and |u_il| ≤ ½, and neither
is bounded; and u_i follows from all of the user's ratings, so that one of them moves the numbers
of every item. With nothing bounded no finite ε holds. Here a message is shortened to an L1 norm of
2Δ·m·d, which it exceeds only where vectors grow out of all proportion, and means nothing then.
Whatever changes at a user moves it by 4Δ·m·d at most, and the certificate shows what that gives:
k·(4Δ·m·d/σ) beside ε₁, which is 4·m·ε₂ for one item and 4·ε₂ for all of a user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.estimators.agreement import Ask, Asked, Coordinating, Start, Step
from tacit.estimators.gate import Gate
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember, residuals
from tacit.mechanisms.item_responses import ItemResponses
from tacit.privacy.events import REPLACE, LaplaceDpEvent, leaves
from tacit.privacy.guarantee import Privacy, round_up
from tacit.published.shin2018_descent import (
    FAR,
    START,
    PrintedVectors,
    step_of_items,
    within_reach,
)
from tacit.recommender.devices import Devices, Rows
from tacit.recommender.local.every_item import (
    EveryItemAgreement,
    RespondingRaters,
    ResponseGradient,
)
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import ArraySpec

__all__ = ["PrintedItemResponses", "PrintedResponses", "PrintedResponsesAgreement"]

_LEFT_OUT = (
    "the scale of the noise takes users' vectors as fixed and short: they follow from all ratings "
    "of the user, and nothing keeps them in bounds"
)


@dataclass(frozen=True)
class PrintedResponses(ResponseGradient):
    """The baseline where everything about a user may differ.

    Parameters
    ----------
    rounds
        k.
    share
        ε₁/ε, the part of ε for the bits.
    step_size
        γ, of γ_t = γ/t.
    user_ridge, item_ridge
        λ_u and λ_v.
    norm, own_offset
        Not printed: as they are.
    """

    own_offset: bool = False
    user_ridge: float = 1e-8
    item_ridge: float = 1e-8

    told: ClassVar[tuple[str, ...]] = ("rounds", "share", "step_size", "user_ridge", "item_ridge")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("user_ridge", self.user_ridge, Real(0))
        check("item_ridge", self.item_ridge, Real(0))
        if (self.norm, self.own_offset) != (5.0, False):
            raise ParameterError(
                "the printed baseline has no norm and no offsets: pass "
                "tacit.recommender.ResponseGradient"
            )

    def agree(self, task: Task) -> PrintedResponsesAgreement:
        """Return what is public about a fit."""
        self.check(task)
        return PrintedResponsesAgreement(self, task, task.privacy)


@dataclass(frozen=True)
class PrintedItemResponses(PrintedResponses):
    """The baseline where one cell may differ: whether a user rated an item, and how."""

    unit: ClassVar[str] = "entry"

    def changed(self, task: Task) -> int:
        """Return 1: one cell has one bit."""
        return 1


@dataclass(frozen=True)
class PrintedResponsesAgreement(EveryItemAgreement):
    """k rounds in which everybody answers for every item, with the printed noise."""

    settings: PrintedResponses

    @cached_property
    def mechanism(self) -> ItemResponses | None:
        """What a user's message of one round goes through."""
        task, settings = self.task, self.settings
        if not task.noisy or task.privacy is None:
            return None
        each, changed = task.privacy.epsilon / settings.rounds, settings.changed(task)
        scale = changed * task.range * task.rank / ((1.0 - settings.share) * each)
        numbers = task.items * task.rank
        reach = 4.0 * task.range * numbers
        bit = settings.share * each / changed
        return ItemResponses(bit, changed, scale, reach, task.items, numbers)

    @property
    def asks_v(self) -> dict[str, ArraySpec]:
        """V, which nothing keeps in bounds."""
        return {"v": ArraySpec((self.task.items, self.task.rank), low=-FAR, high=FAR)}

    def _steps(self) -> tuple[Step, ...]:
        steps = super()._steps()
        if self.task.noisy:
            return steps
        return tuple(replace(step, replies={"gradient": self.asks_v["v"]}) for step in steps)

    @property
    def claim(self) -> tuple[float, str] | None:
        """The claimed ε and what it leaves out."""
        if self.privacy is None or not self.task.noisy:
            return None
        return self.privacy.epsilon, _LEFT_OUT

    @property
    def charged(self) -> Privacy | None:
        """What a ledger is charged: what it really costs with messages of the stated norm."""
        mechanism = self.mechanism
        if self.privacy is None or mechanism is None:
            return self.privacy
        (numbers,) = (one for one in leaves(mechanism.event) if isinstance(one, LaplaceDpEvent))
        each = mechanism.changed * mechanism.bit_epsilon + 1.0 / numbers.noise_multiplier
        return self.privacy.with_epsilon(round_up(self.settings.rounds * each * (1.0 + 1e-9)))

    def coordinate(self, start: Start) -> Coordinating:
        """Descend for k rounds, as printed; return the table of items."""
        _, v, drawn = self.first(start.seed)
        v, settings = v * START * np.sqrt(self.task.rank), self.settings
        for number in range(settings.rounds):
            if self.task.noisy:
                gradient, *_ = yield from self.gradient(number, v, drawn)
            else:
                gradient = (yield Ask("whole", v=v)).total["gradient"]
            rate = settings.step_size / (number + 1)
            v = step_of_items(v, gradient, rate, settings.item_ridge)
        return {
            "base": np.zeros(self.task.items),
            "features": v,
            "penalties": np.full((1, self.task.rank), 1.0),
            "spread": np.ones(1),
        }

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> PrintedResponders:
        """Return all devices, each with its vector."""
        return PrintedResponders(self, name, data, gate, seed)

    @classmethod
    def examples(cls) -> Iterator[PrintedResponsesAgreement]:
        """For users and for cells."""
        for kind in (PrintedResponses, PrintedItemResponses):
            privacy = Privacy(4.0, unit=kind.unit, neighbours=REPLACE, trust="local")
            yield kind(2, step_size=0.1).agree(Task(3, 4, (1.0, 5.0), 2, privacy))


class PrintedResponders(RespondingRaters):
    """All devices; each keeps its vector, and takes a gradient step after every round."""

    agreement: PrintedResponsesAgreement

    def __init__(
        self,
        agreement: PrintedResponsesAgreement,
        name: str,
        data: Rated,
        gate: Gate,
        seed: int | None,
    ) -> None:
        super().__init__(agreement, name, data, gate, seed)
        task, settings = agreement.task, agreement.settings
        inside = np.clip(data.cells.values, *task.bounds)  # ratings as they are
        self.shards = (data.cells._replace(values=inside),)
        first = START * self._rng.standard_normal((data.cells.members, task.rank))
        self._vectors = PrintedVectors(first, settings.step_size, settings.user_ridge)
        self._round = -1

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: ByMember, picks: Integers
    ) -> Any:
        """Return what users send before noise, with vectors stepped once in every round."""
        v, task = asked.arrays["v"], self.agreement.task
        number = self._round + 1 if step.name == "whole" else int(step.name.split()[1])
        if number != self._round:
            self._round = number
            self._vectors.sees(shard, v)
        u = self._vectors.u
        if step.name == "whole":
            weighted = residuals(shard, v, u)[:, None] * u[shard.owners]
            found = np.zeros(v.shape)
            with np.errstate(over="ignore", invalid="ignore"):
                np.add.at(found, shard.items, weighted)
            return within_reach(-2.0 / shard.members * found)
        first, last = self.agreement.blocks[int(step.name.split()[-1])]
        return printed_messages(task, shard.of(np.arange(first, last)), u[first:last], v)

    def finish(self, shared: Mapping[str, Any]) -> None:
        """Step once more along the last V; the vector is the user's row."""
        task = self.agreement.task
        self._vectors.sees(self.shards[0], shared["features"])
        weights = task.weights(self._rated.openness)
        cells = self._rated.cells
        self.devices = Devices(dict(shared), task.bounds, cells, Rows.of(self._vectors.u), weights)


def printed_messages(task: Task, cells: ByMember, u: Floats, v: Floats) -> Floats:
    """Return messages before noise: bits, then −2·u_i·(r_ij − u_iᵀv_j) with r = 0 if not rated."""
    bits, ratings = np.zeros((2, cells.members, task.items))
    bits[cells.owners, cells.items] = 1.0
    ratings[cells.owners, cells.items] = cells.values
    with np.errstate(over="ignore", invalid="ignore"):
        errors = ratings - u @ v.T
        numbers = -2.0 * errors[:, :, None] * u[:, None, :]
    return np.column_stack([bits, np.nan_to_num(numbers).reshape(cells.members, -1)])
