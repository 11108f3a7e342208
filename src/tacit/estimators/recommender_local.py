"""Gradient descent from answers that each user randomises: private GD and GD-DR.

Source: Shin et al. (2018). In a round every user draws one coordinate of its own gradient, an
m × d table, or q × d after a projection Φ that server and devices make from a public seed; clips
it to [−1, 1] and sends it through a mechanism that is ε/k-private for *any* two values. The
coordinate is drawn without looking at the ratings, so a message is ε/k-private for all of the
user's items and ratings, and exactly k messages are ε-private (the printed loop sends k + 1).

The server averages, scales up by the number of coordinates, projects back with Φ⁺, and descends
(`tacit.estimators.recommender_descent`).

**Once instead of every time** (``participation="once"``): k rounds in which everybody answers with
ε/k give an average of variance k²/(n·ε²) each; k rounds in which another n/k users answer with all
of ε give k/(n·ε²). Every user still sends one message or k that are ε-private together.

**Through a shuffler** (``trust="shuffler"``), another trust: messages, each with the coordinate
that it is about, come in random order, and ε is what somebody learns who does not know who sent
which. Every message is then ε₀-private by itself, with an ε₀ that is many times larger
(`tacit.privacy.shuffling`): n persons are shuffled in every round, or n/k where each answers once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.estimators.recommender_descent import (
    LocalDescent,
    Payers,
    user_errors,
    whole_gradient,
)
from tacit.estimators.recommender_method import Task
from tacit.inference.members import ByMember
from tacit.inference.projection import Projection, projected_gradients
from tacit.mechanisms.base import Mechanism, privatize
from tacit.mechanisms.hybrid import Hybrid
from tacit.mechanisms.local import OneBitMean, Piecewise
from tacit.mechanisms.shuffled import Shuffled
from tacit.privacy.shuffling import shuffled_local_epsilon

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Floats = NDArray[np.float64]

__all__ = ["LocalGradient"]

_ANSWERS: dict[str, Callable[[float], Mechanism]] = {
    "one-bit": OneBitMean,
    "piecewise": Piecewise,
    "hybrid": Hybrid,
}


@dataclass(frozen=True)
class LocalGradient(LocalDescent):
    """Private GD (``dimensions=None``) and GD-DR.

    Parameters
    ----------
    rounds
        k.
    dimensions
        q, the rows of the projection; None works on all m items.
    answer
        ``"one-bit"``, as published; ``"piecewise"``, whose variance is smaller from ε = 0.61
        a message on for values near 0, as most are (the worst cases compare so from 1.29 on); or
        ``"hybrid"``, the least in the worst case (Wang et al. 2019).
    participation
        ``"every"`` round with ε/k, as published, or ``"once"`` with ε.
    own_offset
        Whether devices also fit an offset of their own; costs nothing. As published: no.
    rate
        γ₁; about one over the share of cells that are rated, as far as that is known.
    """

    rounds: int = 10
    dimensions: int | None = None
    answer: str = "one-bit"
    participation: str = "every"
    own_offset: bool = False
    rate: float = 10.0

    unit: ClassVar[str] = "user"
    trusts: ClassVar[tuple[str, ...]] = ("local", "shuffler")

    def __post_init__(self) -> None:
        check("rounds", self.rounds, Integer(1))
        check("dimensions", self.dimensions, AnyOf(Integer(1), None))
        check("answer", self.answer, OneOf(*_ANSWERS))
        check("participation", self.participation, OneOf("every", "once"))
        check("own_offset", self.own_offset, OneOf(True, False))
        check("rate", self.rate, Real(0, open_low=True))

    def check(self, task: Task) -> None:
        """Refuse projections that enlarge, and rounds that nobody answers."""
        super().check(task)
        if self.dimensions is not None and self.dimensions > task.items:
            raise ParameterError(f"dimensions must be at most the {task.items} items")
        if self.participation == "once" and self.rounds > task.users:
            raise ParameterError(f"{task.users} users are too few for {self.rounds} rounds")
        privacy = task.privacy
        if privacy and task.noisy and privacy.trust == "shuffler" and privacy.delta == 0.0:
            raise ParameterError("a shuffler gives (ε, δ): pass Privacy(…, delta=1e-6)")

    # -- what it costs --------------------------------------------------------------------

    @property
    def times(self) -> int:
        """How many messages a person sends."""
        return self.rounds if self.participation == "every" else 1

    def mechanism(self, task: Task) -> Mechanism | None:
        """Return what one message goes through; None where no noise is asked for."""
        if not task.noisy or task.privacy is None:
            return None
        epsilon, delta = task.privacy.epsilon, task.privacy.delta
        if task.privacy.trust != "shuffler":
            return _ANSWERS[self.answer](epsilon / self.times)
        crowd = task.users * self.times // self.rounds
        local = shuffled_local_epsilon(epsilon, delta, crowd, self.times)
        return Shuffled(_ANSWERS[self.answer](local), crowd)

    def assumptions(self, task: Task) -> tuple[str, ...]:
        """Say who answers when, and who is trusted."""
        notes = ["the number of users is public; each message is randomised on its device"]
        if self.participation == "once":
            notes.append("every user answers in one round, drawn without looking at ratings")
        mechanism = self.mechanism(task)
        return (*notes, *(mechanism.assumptions if mechanism else ()))

    # -- learning -------------------------------------------------------------------------

    def answering(
        self,
        task: Task,
        cells: ByMember,
        payers: Payers,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Callable[[int, Floats], Floats]:
        """Return the estimate of a round: one answer of everybody, or of the round's cohort."""
        if self.mechanism(task) is None:
            return lambda round, v: whole_gradient(task, cells, v)
        projection = None
        if self.dimensions is not None:
            seed = int(rng.integers(2**63))
            projection = Projection(self.dimensions, task.items, seed)
        cohorts = None
        if self.participation == "once":
            cohorts = np.array_split(rng.permutation(task.users), self.rounds)

        def estimate(round: int, v: Floats) -> Floats:
            if cohorts is None:
                return self.gradient(task, cells, v, projection, payers[0], noise, rng)
            asked = cells.of(np.sort(cohorts[round]))  # a cohort pays for itself
            return self.gradient(task, asked, v, projection, payers[round], noise, rng)

        return estimate

    def gradient(
        self,
        task: Task,
        cells: ByMember,
        v: Floats,
        projection: Projection | None,
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Floats:
        """Return the server's estimate of the average gradient, from one answer of each user."""
        mechanism = self.mechanism(task)
        assert mechanism is not None
        u, errors = user_errors(task, cells, v)
        height = task.items if projection is None else projection.rows
        rows = rng.integers(0, height, cells.members)
        columns = rng.integers(0, task.rank, cells.members)
        sizes = u[np.arange(cells.members), columns]
        if projection is None:
            answers = -2.0 * sizes * _errors_at(cells, errors, rows, task.items)
        else:
            answers = projected_gradients(
                cells.starts, cells.items, errors, rows, sizes, projection
            )
        answers = np.clip(answers, -1.0, 1.0)
        places = rows * task.rank + columns  # drawn without looking at ratings
        if isinstance(mechanism, Shuffled):
            table = np.column_stack([answers, places])
            answers, places = privatize(mechanism, table, ledger=reservation, rng=noise).T
            places = places.astype(np.int64)
        else:
            answers = privatize(mechanism, answers, ledger=reservation, rng=noise)
        size = height * task.rank
        total = np.bincount(places, answers, size).astype(np.float64)
        average = total.reshape(height, task.rank) * (size / cells.members)
        return average if projection is None else projection.back(average)


def _errors_at(cells: ByMember, errors: Floats, items: NDArray[np.int64], size: int) -> Floats:
    """Return each user's error at one item, 0 where the user has not rated it."""
    keys = cells.owners * size + cells.items
    wanted = np.arange(cells.members) * size + items
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, errors[place], 0.0)
