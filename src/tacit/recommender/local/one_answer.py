"""Gradient descent from answers that each user randomises: private GD and GD-DR.

Source: Shin et al. (2018). In a round every user draws one coordinate of its own gradient, an
m × d table, or q × d after a projection Φ that server and devices make from a public seed; clips
it to [−1, 1] and sends it through a mechanism that is ε/k-private for *any* two values. The
coordinate is drawn on the device without looking at the ratings, so a message is ε/k-private for
all of the user's items and ratings, and exactly k messages are ε-private (the printed loop sends
k + 1).

The server averages, scales up by the number of coordinates, projects back with Φ⁺, and descends
(`tacit.recommender.local.descent`).

**Once instead of every time** (``participation="once"``): k rounds in which everybody answers with
ε/k give an average of variance k²/(n·ε²) each; k rounds in which another n/k users answer with all
of ε give k/(n·ε²). Every user still sends one message or k that are ε-private together.

**Through a shuffler** (``trust="shuffler"``), another trust: messages, each with the coordinate
that it is about, come in random order, and ε is what somebody learns who does not know who sent
which. Every message is then ε₀-private by itself, with an ε₀ that is many times larger
(`tacit.privacy.accounting.shuffled`): n persons are shuffled in every round, or n/k where each
answers once. A server that chose who is asked about which coordinate would know who sent which:
devices draw it themselves, and nothing in a request tells them what.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.estimators.agreement import Ask, Asked, Step
from tacit.estimators.gate import Gate
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.hybrid import Hybrid
from tacit.mechanisms.one_bit import OneBitMean
from tacit.mechanisms.piecewise import Piecewise
from tacit.mechanisms.shuffled import Shuffled
from tacit.privacy.calibration import shuffled_local_epsilon
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.recommender.local.descent import (
    Averaged,
    LocalAgreement,
    LocalMethod,
    LocalRaters,
    user_errors,
)
from tacit.recommender.local.projection import Projection, projected_gradients
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Collected

__all__ = ["LocalGradient", "OneAnswerAgreement"]

_ANSWERS: dict[str, Callable[[float], Mechanism]] = {
    "one-bit": OneBitMean,
    "piecewise": Piecewise,
    "hybrid": Hybrid,
}
_WORD = 1 << 32  # a public seed travels as two numbers below this


@dataclass(frozen=True)
class LocalGradient(LocalMethod):
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
        Whether devices also fit an offset of their own, which costs nothing, and do without V
        where noise hides what was answered. As published: no.
    step_size
        γ₁; about one over the share of cells that are rated, as far as that is known.
    """

    rounds: int = 10
    dimensions: int | None = None
    answer: str = "one-bit"
    participation: str = "every"
    own_offset: bool = True
    step_size: float = 10.0

    unit: ClassVar[str] = "user"
    trusts: ClassVar[tuple[str, ...]] = ("local", "shuffler")
    told: ClassVar[tuple[str, ...]] = (
        "rounds",
        "dimensions",
        "answer",
        "participation",
        "own_offset",
        "step_size",
    )

    def __post_init__(self) -> None:
        check("rounds", self.rounds, Integer(1))
        check("dimensions", self.dimensions, AnyOf(Integer(1), None))
        check("answer", self.answer, OneOf(*_ANSWERS))
        check("participation", self.participation, OneOf("every", "once"))
        check("own_offset", self.own_offset, OneOf(True, False))
        check("step_size", self.step_size, Real(0, open_low=True))

    def check(self, task: Task) -> None:
        """Refuse projections that enlarge, and rounds that nobody answers."""
        super().check(task)
        privacy = task.privacy
        if self.dimensions is not None and self.dimensions > task.items:
            raise ParameterError(f"dimensions must be at most the {task.items} items")
        if not task.devices and privacy and privacy.trust == "shuffler":
            raise ParameterError("a shuffler needs all messages in one place: pass trust='local'")
        if task.devices and self.participation == "once" and self.rounds > task.people:
            raise ParameterError(f"{task.users} users are too few for {self.rounds} rounds")
        if privacy and task.noisy and privacy.trust == "shuffler" and privacy.delta == 0.0:
            raise ParameterError("a shuffler gives (ε, δ): pass Privacy(…, delta=1e-6)")

    @property
    def times(self) -> int:
        """How many messages a person sends."""
        return self.rounds if self.participation == "every" else 1

    def agree(self, task: Task) -> OneAnswerAgreement:
        """Return what is public about a fit."""
        self.check(task)
        return OneAnswerAgreement(self, task, task.privacy)


class _Drawn(NamedTuple):
    """What does not depend on ratings: the projection's seed, and who answers in which round."""

    seed: int
    cohorts: list[Integers] | None


@dataclass(frozen=True)
class OneAnswerAgreement(LocalAgreement):
    """What users send in private GD and GD-DR: one randomised number each and its place."""

    settings: LocalGradient

    @property
    def height(self) -> int:
        """The rows of a user's gradient."""
        return self.task.items if self.settings.dimensions is None else self.settings.dimensions

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """What one message goes through; None where no noise is asked for."""
        task, settings = self.task, self.settings
        if not task.noisy or task.privacy is None:
            return None
        epsilon, delta = task.privacy.epsilon, task.privacy.delta
        answer = _ANSWERS[settings.answer]
        if task.privacy.trust != "shuffler":
            return answer(epsilon / settings.times)
        crowd = task.people * settings.times // settings.rounds
        local = shuffled_local_epsilon(epsilon, delta, crowd, settings.times)
        return Shuffled(answer(local), crowd)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say who answers when, and who is trusted."""
        notes = [
            *self.task.notes,
            "the number of users is public; each message is randomised on its device",
        ]
        if self.settings.participation == "once":
            notes.append("every user answers in one round, drawn without looking at ratings")
        return (*notes, *(self.mechanism.assumptions if self.mechanism else ()))

    def _messages(self) -> tuple[Step, ...]:
        rounds = self.settings.rounds
        users = self.task.people if self.task.devices else rounds  # a site does not say how many
        if self.settings.participation == "every":
            return (self._step("answers", users, rounds, None),)
        sizes = [len(part) for part in np.array_split(np.zeros(users), rounds)]
        return tuple(
            self._step(f"answers {k}", size, 1, f"cohort {k}") for k, size in enumerate(sizes)
        )

    def _step(self, name: str, users: int, times: int, part: str | None) -> Step:
        asks = dict(self.asks_v)
        if self.settings.dimensions is not None:
            asks["projection"] = ArraySpec((2,), "int64", 0, _WORD - 1)
        places = self.height * self.task.rank - 1
        if not self.task.devices:
            replies = {
                "sum": ArraySpec((places + 1,), low=-(2.0**60), high=2.0**60),
                "count": ArraySpec((places + 1,), low=0.0, high=2.0**40),
            }
        elif isinstance(self.mechanism, Shuffled):
            replies = {"answers": ArraySpec((users, 2))}
        else:
            replies = {
                "answers": ArraySpec((users,)),
                "places": ArraySpec((users,), "int64", 0, places),
            }
        reach = 1.0 if part is None else "a person answers in one round only"
        return Step(
            name, self.mechanism, asks, replies, times, part=part, merge="stack", reach=reach
        )

    def draw_public(self, rng: np.random.Generator) -> _Drawn:
        """Draw the seed of the projection, and the cohorts."""
        settings = self.settings
        seed = 0 if settings.dimensions is None else int(rng.integers(2**63))
        cohorts = None
        if settings.participation == "once" and self.task.devices:
            cohorts = np.array_split(rng.permutation(self.task.people), settings.rounds)
        return _Drawn(seed, cohorts)

    def projection(self, seed: int) -> Projection | None:
        """Return Φ; None where there is none."""
        rows = self.settings.dimensions
        return None if rows is None else Projection(rows, self.task.items, seed)

    def gradient(
        self, number: int, v: Floats, drawn: _Drawn
    ) -> Generator[Ask, Collected, Averaged]:
        """Average the answers of a round, and project back."""
        projection = self.projection(drawn.seed)
        more: dict[str, Any] = {} if projection is None else {"projection": _words(drawn.seed)}
        name = "answers" if self.settings.participation == "every" else f"answers {number}"
        found = yield Ask(name, v=v, **more)
        if not self.task.devices:
            return self.summed(found.total["sum"], found.total["count"], projection)
        answers = found.total["answers"]
        if answers.ndim == 2:
            answers, places = answers.T
            places = places.astype(np.int64)
        else:
            places = found.total["places"]
        return self.averaged(answers, places, projection)

    def averaged(
        self, answers: Floats, places: Integers, projection: Projection | None
    ) -> Averaged:
        """Return the estimate of the average gradient from one answer of each user."""
        size = self.height * self.task.rank
        total = np.bincount(places, answers, size)
        return self.summed(total, np.bincount(places, minlength=size), projection)

    def summed(self, sums: Any, counts: Any, projection: Projection | None) -> Averaged:
        """Return it from the sum of answers about every coordinate, and their number.

        An answer about nothing has the variance v of its mechanism at zero, so that Σ s² over
        coordinates, s the sum of n answers, has the mean v·Σn and a variance of at most 2v²·Σn²
        where answers are no further spread than normal ones.
        """
        mechanism: Any = self.mechanism
        inner = getattr(mechanism, "inner", mechanism)
        each = float(np.max(inner.variance(np.zeros(1))))
        people, pairs = float(np.sum(counts)), float(np.square(counts, dtype=np.float64).sum())
        excess = float(np.square(sums).sum()) - each * people
        size = self.height * self.task.rank
        average = np.reshape(sums, (self.height, self.task.rank)) * (size / max(people, 1.0))
        gradient = average if projection is None else projection.back(average)
        signal = excess / max(each * people, 1e-300)
        return Averaged(gradient, excess / (each * math.sqrt(2.0 * max(pairs, 1.0))), signal)

    def without_noise(self, gradient: Floats, rng: np.random.Generator) -> Floats:
        """Return Φ⁺Φ∇: what projecting costs stays without noise."""
        rows = self.settings.dimensions
        if rows is None:
            return gradient
        plain = Projection(rows, self.task.items, int(rng.integers(2**63)))
        return plain.back(plain.forward(gradient))

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> AnsweringRaters:
        """Return all devices."""
        return AnsweringRaters(self, name, data, gate, seed)

    @classmethod
    def examples(cls) -> Iterator[OneAnswerAgreement]:
        """Every kind of answer, once and every time, projected, through a shuffler."""
        for trust, people, options in (
            ("local", 5, {}),
            ("local", 5, {"answer": "piecewise", "dimensions": 2}),
            ("local", 5, {"answer": "hybrid", "participation": "once"}),
            ("shuffler", 600, {}),
            ("shuffler", 600, {"dimensions": 2, "participation": "once"}),
        ):
            delta = 1e-5 if trust == "shuffler" else 0.0
            privacy = Privacy(4.0, delta, unit="user", neighbours=REPLACE, trust=trust)
            task = Task(people, 3, (1.0, 5.0), 2, privacy)
            yield LocalGradient(2, **options).agree(task)
        over_sites: tuple[dict[str, Any], ...] = ({"dimensions": 2}, {"participation": "once"})
        for more in over_sites:
            privacy = Privacy(4.0, unit="user", neighbours=REPLACE, trust="local")
            task = Task(None, 3, (1.0, 5.0), 2, privacy, sites=2, devices=False)
            yield LocalGradient(2, **more).agree(task)


class AnsweringRaters(LocalRaters):
    """All devices of private GD and GD-DR."""

    agreement: OneAnswerAgreement

    @cached_property
    def _cohorts(self) -> list[Integers]:
        """Who answers in which round; a site draws it for its own users."""
        if self.agreement.task.devices:
            cohorts: list[Integers] = self._drawn.cohorts
            return cohorts
        rounds = self.agreement.settings.rounds
        parts = np.array_split(self._rng.permutation(self.shards[0].members), rounds)
        return [parts[k] for k in self._rng.permutation(rounds)]  # a site may be one device

    def messages(self, step: Step, asked: Asked, cells: ByMember) -> Floats:
        """Return one coordinate of each user's gradient; beside it, for a shuffler, which."""
        if step.part is not None:  # a cohort pays for itself
            cells = cells.of(np.sort(self._cohorts[int(step.name.split()[1])]))
        task = self.agreement.task
        return self.coordinates(step, asked, cells, *user_errors(task, cells, asked.arrays["v"]))

    def coordinates(
        self, step: Step, asked: Asked, cells: ByMember, u: Floats, errors: Floats
    ) -> Floats:
        """Return one coordinate of every user's gradient, given its vector and errors."""
        public, task = self.agreement, self.agreement.task
        seed = asked.arrays.get("projection")
        projection = public.projection(0 if seed is None else _seed(seed))
        # drawn without looking at ratings
        rows = self._rng.integers(0, public.height, cells.members)
        columns = self._rng.integers(0, task.rank, cells.members)
        sizes = u[np.arange(cells.members), columns]
        if projection is None:
            answers = -2.0 * sizes * _errors_at(cells, errors, rows, task.items)
        else:
            apart = cells._replace(values=errors)
            answers = projected_gradients(apart, rows, sizes, projection)
        answers = np.clip(answers, -1.0, 1.0)
        self._places = rows * task.rank + columns
        if isinstance(step.mechanism, Shuffled):
            return np.column_stack([answers, self._places])
        return answers

    def sends(self, step: Step, asked: Asked, released: Any) -> Mapping[str, Any]:
        """Return the answers, and what each is about."""
        if "count" in step.leaving:  # of a site's users: sums of messages, each randomised
            (size,) = step.replies["sum"].fixed
            counts = np.bincount(self._places, minlength=size).astype(np.float64)
            total = np.bincount(self._places, released, size)
            return {"sum": total.astype(np.float64), "count": counts}
        if "places" not in step.leaving:
            return super().sends(step, asked, released)
        return {"answers": released, "places": self._places}


def _words(seed: int) -> Integers:
    return np.array(divmod(seed, _WORD), np.int64)


def _seed(words: Integers) -> int:
    return int(words[0]) * _WORD + int(words[1])


def _errors_at(cells: ByMember, errors: Floats, items: Integers, size: int) -> Floats:
    """Return each user's error at one item, 0 where the user has not rated it."""
    keys = cells.owners * size + cells.items
    wanted = np.arange(cells.members) * size + items
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, errors[place], 0.0)
