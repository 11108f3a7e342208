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

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.estimators.recommender_descent import (
    LocalDescent,
    Payers,
    user_errors,
    whole_gradient,
)
from tacit.estimators.recommender_method import Task
from tacit.inference.members import ByMember
from tacit.mechanisms.base import privatize
from tacit.mechanisms.responses import ItemResponses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise

    Floats = NDArray[np.float64]

__all__ = ["ItemResponseGradient", "ResponseGradient"]

_BLOCK = 1 << 22  # numbers of messages at a time


@dataclass(frozen=True)
class ResponseGradient(LocalDescent):
    """Randomized response and Laplace noise, for everything about a user.

    Parameters
    ----------
    rounds
        k.
    share
        ε₁/ε, the part of ε for the bits.
    norm
        C, to which the numbers of a message are shortened, in L1; ratings are mapped to ±1.
    own_offset, rate
        As in `tacit.estimators.recommender_local.LocalGradient`.
    """

    rounds: int = 10
    share: float = 0.5
    norm: float = 5.0
    own_offset: bool = False
    rate: float = 10.0

    unit: ClassVar[str] = "user"
    trusts: ClassVar[tuple[str, ...]] = ("local",)

    def __post_init__(self) -> None:
        check("rounds", self.rounds, Integer(1))
        check("share", self.share, Real(0, 1, open_low=True, open_high=True))
        check("norm", self.norm, Real(0, open_low=True))
        check("own_offset", self.own_offset, OneOf(True, False))
        check("rate", self.rate, Real(0, open_low=True))

    def check(self, task: Task) -> None:
        """Refuse budgets that leave a bit nothing."""
        super().check(task)
        if task.noisy and task.privacy is not None:
            bit = self.share * task.privacy.epsilon / self.rounds / self.changed(task)
            if bit < 1e-6:
                raise ParameterError(f"ε leaves {bit:.2g} for a bit: use fewer rounds")

    def changed(self, task: Task) -> int:
        """Return how many bits of a user differ between neighbours."""
        return task.items

    def mechanism(self, task: Task) -> ItemResponses | None:
        """Return what a user's message of one round goes through."""
        if not task.noisy or task.privacy is None:
            return None
        each = task.privacy.epsilon / self.rounds
        changed, numbers, reach = self.changed(task), task.items * task.rank, 2.0 * self.norm
        scale = ItemResponses.scale_for((1.0 - self.share) * each, reach, numbers)
        bit = self.share * each / changed
        return ItemResponses(bit, changed, scale, reach, task.items, numbers)

    def assumptions(self, task: Task) -> tuple[str, ...]:
        """Say what is public."""
        notes = ["the number of users is public; each message is randomised on its device"]
        if self.unit == "entry":
            notes.append("a cell is one user and one item: its rating, or that there is none")
        return tuple(notes)

    def answering(
        self,
        task: Task,
        cells: ByMember,
        payers: Payers,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Callable[[int, Floats], Floats]:
        """Return the estimate of a round, from everybody's whole message, some users at a time."""
        mechanism = self.mechanism(task)
        if mechanism is None:
            return lambda round, v: whole_gradient(task, cells, v)
        size = max(1, _BLOCK // (task.items * (1 + task.rank)))

        def estimate(round: int, v: Floats) -> Floats:
            u, errors = user_errors(task, cells, v)
            total = np.zeros((task.items, task.rank))
            for block, first in enumerate(range(0, task.users, size)):
                last = min(first + size, task.users)
                table = _messages(task, cells, u, errors, first, last)
                sent = privatize(mechanism, table, ledger=payers[block], rng=noise)
                numbers = sent[:, task.items :].reshape(-1, task.items, task.rank)
                total += np.einsum("ij,ijk->jk", mechanism.rated(sent), numbers)
            return total / task.users

        return estimate


@dataclass(frozen=True)
class ItemResponseGradient(ResponseGradient):
    """The same for one cell: whether a user rated an item, and how."""

    unit: ClassVar[str] = "entry"

    def changed(self, task: Task) -> int:
        """Return 1: one cell has one bit."""
        return 1


def _messages(
    task: Task, cells: ByMember, u: Floats, errors: Floats, first: int, last: int
) -> Floats:
    """Return the messages of some users before noise: bits, then numbers."""
    own = slice(cells.starts[first], cells.starts[last])
    owners = np.repeat(np.arange(last - first), np.diff(cells.starts[first : last + 1]))
    table = np.zeros((last - first, task.items, 1 + task.rank))
    table[owners, cells.items[own], 0] = 1.0
    table[owners, cells.items[own], 1:] = -2.0 * errors[own, None] * u[first:last][owners]
    return np.column_stack([table[:, :, 0], table[:, :, 1:].reshape(last - first, -1)])
