"""Gradient descent from answers that each user randomises: private GD and GD-DR.

Source: Shin et al. (2018). In a round every user draws one coordinate of its own gradient, an
m × d table, or q × d after a projection Φ that server and devices make from a public seed; clips
it to [−1, 1] and sends it through a mechanism that is ε/k-private for *any* two values. The
coordinate is drawn without looking at the ratings, so a message is ε/k-private for all of the
user's items and ratings, and exactly k messages are ε-private (the printed loop sends k + 1).

The server averages, scales up by the number of coordinates, projects back with Φ⁺, and steps once
per round with γ_t = γ₁/t. It then scales V to rows of typical length one, which is
post-processing, and without which noise makes V grow without bound. Users find their own vector by
ridge regression on V, on the device. Without noise nobody has to sample: the gradient is whole.

**Once instead of every time** (``participation="once"``): k rounds in which everybody answers with
ε/k give an average of variance k²/(n·ε²) each; k rounds in which another n/k users answer with all
of ε give k/(n·ε²). Every user still sends one message or k that are ε-private together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.estimators.recommender_device import fold_in, ladder
from tacit.estimators.recommender_method import Learned, RecommenderMethod, Task, nothing_private
from tacit.inference.members import ByMember, ridge_rows
from tacit.inference.projection import Projection, projected_gradients
from tacit.mechanisms.base import Mechanism, privatize
from tacit.mechanisms.local import OneBitMean, Piecewise
from tacit.privacy.events import DpEvent, repeat
from tacit.privacy.ledger import Ledger, Reservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise

    Floats = NDArray[np.float64]

__all__ = ["LocalGradient"]

_RIDGE = 1.0  # of a user's vector in a round
_ANSWERS = {"one-bit": OneBitMean, "piecewise": Piecewise}


@dataclass(frozen=True)
class LocalGradient(RecommenderMethod):
    """Private GD (``dimensions=None``) and GD-DR.

    Parameters
    ----------
    rounds
        k.
    dimensions
        q, the rows of the projection; None works on all m items.
    answer
        ``"one-bit"``, as published, or ``"piecewise"``, whose variance is smaller from ε = 0.61
        a message on for values near 0, as most are; the worst cases compare so from 1.29 on.
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
    trusts: ClassVar[tuple[str, ...]] = ("local",)

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

    # -- what it costs --------------------------------------------------------------------

    def mechanism(self, task: Task) -> Mechanism | None:
        """Return what one message goes through; None where no noise is asked for."""
        if not task.noisy or task.privacy is None:
            return None
        share = task.privacy.epsilon / (self.rounds if self.participation == "every" else 1)
        return _ANSWERS[self.answer](share)

    def schedule(self, task: Task) -> DpEvent:
        """Return all messages of one person."""
        mechanism = self.mechanism(task)
        if mechanism is None:
            found = nothing_private(task)
            assert found is not None
            return found
        return repeat(mechanism.event, self.rounds if self.participation == "every" else 1)

    def assumptions(self, task: Task) -> tuple[str, ...]:
        """Say who answers when."""
        notes = ["the number of users is public; each message is randomised on its device"]
        if self.participation == "once":
            notes.append("every user answers in one round, drawn without looking at ratings")
        return tuple(notes)

    # -- learning -------------------------------------------------------------------------

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
        projection = None
        if self.dimensions is not None:
            seed = int(rng.integers(2**63))
            projection = Projection(self.dimensions, task.items, seed)
        v = rng.standard_normal((task.items, task.rank)) / math.sqrt(task.rank)
        cohorts = self._cohorts(task, rng)
        for round, users in enumerate(cohorts):
            payer = reservation
            if self.participation == "once" and round and reservation is not None:
                payer = self._own_payer(task)  # other people, who pay for themselves
            step = self.gradient(task, scaled, v, users, projection, payer, noise, rng)
            v = v - self.rate / (round + 1) * step
            v /= max(1.0, float(np.sqrt((v**2).sum(axis=1).mean())))
        features = half * v
        if self.own_offset:
            features = np.column_stack([np.ones(task.items), features])
            penalties = ladder(task.rank)
        else:
            penalties = np.full((1, task.rank), _RIDGE)
        shared = {"base": np.full(task.items, middle), "features": features,
                  "penalties": penalties, "spread": np.array([0.2 * half**2])}  # fmt: skip
        return Learned(shared, fold_in(shared, cells))

    def _cohorts(self, task: Task, rng: np.random.Generator) -> list[NDArray[np.int64]]:
        if self.participation == "every":
            return [np.arange(task.users)] * self.rounds
        return [np.sort(p) for p in np.array_split(rng.permutation(task.users), self.rounds)]

    def _own_payer(self, task: Task) -> Reservation:
        assert task.privacy is not None
        ledger = Ledger.memory(epsilon=task.privacy.epsilon, delta=task.privacy.delta)
        return ledger.reserve(self.schedule(task), purpose="one message each")

    def gradient(
        self,
        task: Task,
        cells: ByMember,
        v: Floats,
        users: NDArray[np.int64],
        projection: Projection | None,
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Floats:
        """Return the server's estimate of the average gradient from one answer per user."""
        u = ridge_rows(cells, v, np.full(task.rank, _RIDGE))
        owners = cells.owners
        errors = cells.values - (u[owners] * v[cells.items]).sum(axis=1)
        mechanism = self.mechanism(task)
        if mechanism is None:
            return _whole_gradient(cells, errors, u, task)
        height = task.items if projection is None else projection.rows
        rows = rng.integers(0, height, len(users))
        columns = rng.integers(0, task.rank, len(users))
        sizes = u[users, columns]
        if projection is None:
            answers = -2.0 * sizes * _errors_at(cells, errors, users, rows, task.items)
        else:
            answers = projected_gradients(
                cells.starts, cells.items, errors, users, rows, sizes, projection
            )
        sent = privatize(mechanism, np.clip(answers, -1.0, 1.0), ledger=reservation, rng=noise)
        total = np.zeros((height, task.rank))
        np.add.at(total, (rows, columns), sent)
        average = total * (height * task.rank / len(users))
        return average if projection is None else projection.back(average)


def _whole_gradient(cells: ByMember, errors: Floats, u: Floats, task: Task) -> Floats:
    """Return −2/n·Σ_i e_ij·u_i for every item."""
    columns = [np.bincount(cells.items, errors * u[cells.owners, column], task.items)
               for column in range(task.rank)]  # fmt: skip
    return np.asarray(-2.0 / task.users * np.column_stack(columns))


def _errors_at(
    cells: ByMember, errors: Floats, users: NDArray[np.int64], items: NDArray[np.int64], size: int
) -> Floats:
    """Return each user's error at one item, 0 where the user has not rated it."""
    keys = cells.owners * size + cells.items
    wanted = users * size + items
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, errors[place], 0.0)
