"""The baseline of Shin et al. (2018): every user answers for every item, in every round.

A message has a bit per item, 1 where the user has rated it, which goes through randomized
response, and d numbers per item, g_ij = −2·e_ij·u_i where rated and 0 elsewhere, with Laplace
noise. The server estimates y_ij by (y* − p/2)/(1 − p) and averages that times the noisy g*
(PRIVACY B2).

**What a message gives away.** The printed scale Δ·d·k/ε₂ takes u_i as fixed and bounds neither u_i
nor g. But u_i is a function of all of the user's ratings, so one rating moves every number of the
message: as printed, no finite ε holds. Here a user's m × d numbers are shortened to an L1 norm of
C, so that whatever changes at the user moves them by at most 2C, and Laplace noise of scale
2C·k/ε₂ is ε₂/k-private per round. Of the bits

- one changes where one cell of the table changes (rated or not, and how): ε₁/k each
  (`ItemResponseGradient`, unit ``entry``);
- all m may change with the user: ε₁/(k·m) each (`ResponseGradient`, unit ``user``).

Nothing but the bits gains from protecting single cells only.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.estimators.agreement import Ask, Asked, Step
from tacit.estimators.gate import Gate
from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.mechanisms.item_responses import ItemResponses
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.recommender.local.descent import (
    Averaged,
    LocalAgreement,
    LocalMethod,
    LocalRaters,
    user_errors,
)
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Collected

__all__ = ["EveryItemAgreement", "ItemResponseGradient", "ResponseGradient"]

_BLOCK = 1 << 22  # numbers of messages at a time


@dataclass(frozen=True)
class ResponseGradient(LocalMethod):
    """Randomized response and Laplace noise, for everything about a user.

    Parameters
    ----------
    rounds
        k.
    share
        ε₁/ε, the part of ε for the bits.
    norm
        C, to which the numbers of a message are shortened, in L1; ratings are mapped to ±1.
    own_offset, step_size
        As in `tacit.recommender.local.one_answer.LocalGradient`.
    """

    rounds: int = 10
    share: float = 0.5
    norm: float = 5.0
    own_offset: bool = True
    step_size: float = 10.0

    unit: ClassVar[str] = "user"
    trusts: ClassVar[tuple[str, ...]] = ("local",)
    told: ClassVar[tuple[str, ...]] = ("rounds", "share", "norm", "own_offset", "step_size")

    def __post_init__(self) -> None:
        check("rounds", self.rounds, Integer(1))
        check("share", self.share, Real(0, 1, open_low=True, open_high=True))
        check("norm", self.norm, Real(0, open_low=True))
        check("own_offset", self.own_offset, OneOf(True, False))
        check("step_size", self.step_size, Real(0, open_low=True))

    def check(self, task: Task) -> None:
        """Refuse budgets that leave a bit nothing."""
        super().check(task)
        if not task.devices:
            raise ParameterError(
                "the baseline's messages are too long for sites: pass method='gd', 'gd-dr' or "
                "'groups'"
            )
        if task.noisy and task.privacy is not None:
            bit = self.share * task.privacy.epsilon / self.rounds / self.changed(task)
            if bit < 1e-6:
                raise ParameterError(f"ε leaves {bit:.2g} for a bit: use fewer rounds")

    def changed(self, task: Task) -> int:
        """Return how many bits of a user differ between neighbours."""
        return task.items

    def agree(self, task: Task) -> EveryItemAgreement:
        """Return what is public about a fit."""
        self.check(task)
        return EveryItemAgreement(self, task, task.privacy)


@dataclass(frozen=True)
class ItemResponseGradient(ResponseGradient):
    """The same for one cell: whether a user rated an item, and how."""

    unit: ClassVar[str] = "entry"

    def changed(self, task: Task) -> int:
        """Return 1: one cell has one bit."""
        return 1


@dataclass(frozen=True)
class EveryItemAgreement(LocalAgreement):
    """What users send where everybody answers for every item: a row of bits and numbers."""

    trusts = ("local",)

    settings: ResponseGradient

    @cached_property
    def mechanism(self) -> ItemResponses | None:
        """What a user's message of one round goes through."""
        task, settings = self.task, self.settings
        if not task.noisy or task.privacy is None:
            return None
        each = task.privacy.epsilon / settings.rounds
        changed, numbers, reach = settings.changed(task), task.items * task.rank, 2 * settings.norm
        scale = ItemResponses.scale_for((1.0 - settings.share) * each, reach, numbers)
        bit = settings.share * each / changed
        return ItemResponses(bit, changed, scale, reach, task.items, numbers)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say what is public."""
        notes = [
            *self.task.notes,
            "the number of users is public; each message is randomised on its device",
        ]
        if self.settings.unit == "entry":
            notes.append("a cell is one user and one item: its rating, or that there is none")
        return tuple(notes)

    @cached_property
    def blocks(self) -> tuple[tuple[int, int], ...]:
        """The first and the last of the users whose messages are in memory together."""
        users = self.task.people
        size = max(1, _BLOCK // (self.task.items * (1 + self.task.rank)))
        return tuple((first, min(first + size, users)) for first in range(0, users, size))

    def _messages(self) -> tuple[Step, ...]:
        width, mechanism = self.task.items * (1 + self.task.rank), self.mechanism
        reach = "ratings are mapped to ±1: messages are shorter than the norm they may have"
        return tuple(
            Step(
                f"round {k} block {b}",
                mechanism,
                self.asks_v,
                {"messages": ArraySpec((last - first, width))},
                part=f"block {b}",
                merge="stack",
                reach=reach,
            )
            for k in range(self.settings.rounds)
            for b, (first, last) in enumerate(self.blocks)
        )

    def gradient(self, number: int, v: Floats, drawn: Any) -> Generator[Ask, Collected, Averaged]:
        """Average everybody's whole message, some users at a time.

        Messages are independent, so that Σ(s² − q) is zero on average where nobody says anything,
        with s and q the sums of messages and of their squares, and has the variance 2·Σq².
        """
        task, mechanism = self.task, self.mechanism
        assert mechanism is not None
        total, squares = np.zeros((2, task.items, task.rank))
        for b in range(len(self.blocks)):
            found = yield Ask(f"round {number} block {b}", v=v)
            sent = found.total["messages"]
            numbers = sent[:, task.items :].reshape(-1, task.items, task.rank)
            rated = mechanism.rated(sent)
            total += np.einsum("ij,ijk->jk", rated, numbers)
            squares += np.einsum("ij,ijk->jk", rated**2, numbers**2)
        spread = np.sqrt(2.0) * float(np.linalg.norm(squares))
        excess = float(np.square(total).sum() - squares.sum())
        signal = excess / max(float(squares.sum()), 1e-300)
        return Averaged(total / task.people, excess / max(spread, 1e-300), signal)

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> RespondingRaters:
        """Return all devices."""
        return RespondingRaters(self, name, data, gate, seed)

    @classmethod
    def examples(cls) -> Iterator[EveryItemAgreement]:
        """For users and for cells."""
        for kind in (ResponseGradient, ItemResponseGradient):
            privacy = Privacy(4.0, unit=kind.unit, neighbours=REPLACE, trust="local")
            task = Task(3, 4, (1.0, 5.0), 2, privacy)
            for norm in (0.5, 5.0):
                yield kind(2, norm=norm).agree(task)


class RespondingRaters(LocalRaters):
    """All devices where everybody answers for every item."""

    agreement: EveryItemAgreement

    def messages(self, step: Step, asked: Asked, cells: ByMember) -> Floats:
        """Return the messages of a block of users."""
        first, last = self.agreement.blocks[int(step.name.split()[-1])]
        here = cells.of(np.arange(first, last))
        return whole_messages(
            self.agreement.task, here, *user_errors(self.agreement.task, here, asked.arrays["v"])
        )


def whole_messages(task: Task, cells: ByMember, u: Floats, errors: Floats) -> Floats:
    """Return the messages of users before noise: bits, then numbers."""
    owners = cells.owners
    table = np.zeros((cells.members, task.items, 1 + task.rank))
    table[owners, cells.items, 0] = 1.0
    table[owners, cells.items, 1:] = -2.0 * errors[:, None] * u[owners]
    return np.column_stack([table[:, :, 0], table[:, :, 1:].reshape(cells.members, -1)])
