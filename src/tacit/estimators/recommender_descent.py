"""Gradient descent on items from messages that each user randomises: what such methods share.

In each of k rounds the server sends V and gets an estimate of the average gradient; it steps once
with γ_t = γ₁/t, and scales V to rows of typical length one, which is post-processing, and without
which noise makes V grow without bound. Users find their own vector by ridge regression on V, on
the device. Without noise nobody has to sample or to add anything: the gradient is whole.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_matrix

from tacit.estimators.recommender_device import fold_in, ladder
from tacit.estimators.recommender_method import Learned, RecommenderMethod, Task
from tacit.inference.members import ByMember, residuals, ridge_rows
from tacit.privacy.events import DpEvent, NonPrivateDpEvent, repeat
from tacit.privacy.ledger import Ledger, Reservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.base import Mechanism
    from tacit.mechanisms.noise import Noise

    Floats = NDArray[np.float64]

__all__ = ["LocalDescent", "Payers", "user_errors", "whole_gradient"]

RIDGE = 1.0  # of a user's vector in a round


class Payers:
    """Who pays: every person for itself. The given reservation is that of the first party."""

    def __init__(self, method: RecommenderMethod, task: Task, first: Reservation | None) -> None:
        self._method, self._task = method, task
        self._known: list[Reservation | None] = [first]

    def __getitem__(self, party: int) -> Reservation | None:
        """Return the reservation of a party of persons who send the same messages."""
        privacy = self._task.privacy
        if self._known[0] is None or privacy is None:
            return None
        while len(self._known) <= party:
            ledger = Ledger.memory(epsilon=privacy.epsilon, delta=privacy.delta)
            self._known.append(
                ledger.reserve(
                    self._method.schedule(self._task),
                    purpose="a person's own messages",
                    delta=privacy.delta or None,
                    asked=privacy.epsilon,
                )
            )
        return self._known[party]


class LocalDescent(RecommenderMethod):
    """k rounds of gradient descent; a child says what users send and what is made of it."""

    rounds: int
    own_offset: bool
    rate: float

    @property
    def times(self) -> int:
        """How many messages a person sends."""
        return self.rounds

    @abstractmethod
    def mechanism(self, task: Task) -> Mechanism | None:
        """Return what one message goes through; None where no noise is asked for."""

    def schedule(self, task: Task) -> DpEvent:
        """Return all messages of one person."""
        mechanism = self.mechanism(task)
        if mechanism is None:
            return NonPrivateDpEvent()
        return repeat(mechanism.event, self.times)

    def learn(
        self,
        task: Task,
        cells: ByMember,
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Learned:
        """Run k rounds, then fold every user's own ratings in."""
        low, high = task.bounds
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        scaled = cells._replace(values=(np.clip(cells.values, low, high) - middle) / half)
        v = rng.standard_normal((task.items, task.rank)) / math.sqrt(task.rank)
        payers = Payers(self, task, reservation)
        gradient = self.answering(task, scaled, payers, noise, rng)
        for round in range(self.rounds):
            v = v - self.rate / (round + 1) * gradient(round, v)
            v /= max(1.0, float(np.sqrt((v**2).sum(axis=1).mean())))
        features = half * v
        if self.own_offset:
            features = np.column_stack([np.ones(task.items), features])
            penalties = ladder(task.rank)
        else:
            penalties = np.full((1, task.rank), RIDGE)
        shared = {"base": np.full(task.items, middle), "features": features,
                  "penalties": penalties, "spread": np.array([0.2 * half**2])}  # fmt: skip
        return Learned(shared, fold_in(shared, cells))

    @abstractmethod
    def answering(
        self,
        task: Task,
        cells: ByMember,
        payers: Payers,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Callable[[int, Floats], Floats]:
        """Return (round, V) → the server's estimate of the average gradient; ratings in ±1."""


def user_errors(task: Task, cells: ByMember, v: Floats) -> tuple[Floats, Floats]:
    """Return every user's vector given V, and what it leaves of every rating."""
    u = ridge_rows(cells, v, np.full(task.rank, RIDGE))
    return u, residuals(cells, v, u)


def whole_gradient(task: Task, cells: ByMember, v: Floats) -> Floats:
    """Return −2/n·Σ_i e_ij·u_i for every item, which nobody is shown."""
    u, errors = user_errors(task, cells, v)
    table = csr_matrix((errors, cells.items, cells.starts), shape=(cells.members, task.items))
    return np.asarray(-2.0 / task.users * (table.T @ u))
