"""Private GD and GD-DR as printed: gradient steps for users too, λ_u and λ_v, k + 1 rounds.

Source: Shin et al. (2018), Algorithms 1 and 2. In a round every user sends one randomised
coordinate of its gradient −2·y_ij·u_i·(r_ij − u_iᵀv_j), or of its projection by Φ, clipped to
[−1, 1]; the server steps V ← V − γ_t(∇* + 2λ_v·V), with Φ⁺∇* for GD-DR, and every user
u_i ← u_i − γ_t(∇_i + 2λ_u·u_i), with ∇_i = −2/n_i·Σ_j v_j·(r_ij − u_iᵀv_j) over its own n_i
ratings, the new V and γ_t = γ/t. Nothing keeps V in bounds: where noise makes it grow, it grows.
Predictions are u_iᵀv_j.

**What the claim leaves out** (PRIVACY B2). The printed loop, ``while iter ≤ k`` from 0, runs
k + 1 rounds with ε/k each: a user's messages have (k + 1)/k·ε together, which the certificate
shows and a ledger pays. What is printed as e^{ε/k+1} is e^{ε/k} + 1. The update of V inside the
loop over users happens on every device's copy, once.

**Without noise** (``privacy=None``, or ε = ∞) the projection stays: GD-DR then steps along Φ⁺Φ∇,
so that what projecting costs can be told from what noise costs.

**The baseline as printed** (`tacit.published.shin2018_responses`) has no finite ε unless messages
are bounded: its Laplace scale Δ·d·k/ε₂ takes a user's vector as fixed, and the gradient moves with
every rating of the user (`printed_baseline_reach`). `tacit.recommender.ResponseGradient` is its
certified form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.estimators.agreement import Ask, Asked, Coordinating, Start, Step
from tacit.estimators.gate import Gate
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember, residuals
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.one_bit import OneBitMean
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy, round_up
from tacit.recommender.devices import Devices, Rows
from tacit.recommender.local.one_answer import (
    AnsweringRaters,
    LocalGradient,
    OneAnswerAgreement,
)
from tacit.recommender.local.projection import Projection
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import ArraySpec

__all__ = [
    "FAR",
    "START",
    "PrintedAgreement",
    "PrintedGradient",
    "PrintedVectors",
    "printed_baseline_reach",
    "step_of_items",
    "within_reach",
]

FAR = 1e100  # beyond, V has left the range of what means anything
START = 0.1  # standard deviation of the vectors' first values, which are not printed


@dataclass(frozen=True)
class PrintedGradient(LocalGradient):
    """Algorithms 1 (``dimensions=None``) and 2.

    Parameters
    ----------
    rounds
        k.
    dimensions
        q.
    step_size
        γ, of γ_t = γ/t.
    user_ridge, item_ridge
        λ_u and λ_v.
    answer, participation, own_offset
        As published: ``"one-bit"``, ``"every"`` and False; nothing else is printed.
    """

    own_offset: bool = False
    user_ridge: float = 1e-8
    item_ridge: float = 1e-8

    trusts: ClassVar[tuple[str, ...]] = ("local",)
    told: ClassVar[tuple[str, ...]] = (*LocalGradient.told, "user_ridge", "item_ridge")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("user_ridge", self.user_ridge, Real(0))
        check("item_ridge", self.item_ridge, Real(0))
        if (self.answer, self.participation, self.own_offset) != ("one-bit", "every", False):
            raise ParameterError(
                "what is printed has one bit in every round: pass tacit.recommender.LocalGradient"
            )

    def agree(self, task: Task) -> PrintedAgreement:
        """Return what is public about a fit."""
        self.check(task)
        if not task.devices:
            raise ParameterError("the paper has no sites: pass the ratings of all users")
        return PrintedAgreement(self, task, task.privacy)


@dataclass(frozen=True)
class PrintedAgreement(OneAnswerAgreement):
    """k + 1 rounds in which everybody sends one bit about one coordinate."""

    trusts: ClassVar[tuple[str, ...]] = ("local",)

    settings: PrintedGradient

    @cached_property
    def mechanism(self) -> Mechanism | None:
        """One bit with ε/k."""
        if not self.task.noisy or self.task.privacy is None:
            return None
        return OneBitMean(self.task.privacy.epsilon / self.settings.rounds)

    @property
    def asks_v(self) -> dict[str, ArraySpec]:
        """V, which nothing keeps in bounds."""
        return {"v": ArraySpec((self.task.items, self.task.rank), low=-FAR, high=FAR)}

    def _messages(self) -> tuple[Step, ...]:
        return (self._step("answers", self.task.people, self.settings.rounds + 1, None),)

    def _steps(self) -> tuple[Step, ...]:
        (step,) = super()._steps()
        if self.task.noisy:
            return (step,)
        replies = {"gradient": self.asks_v["v"]}  # nor anything this in bounds
        return (
            Step(
                "whole",
                open=step.open,
                asks=step.asks,
                replies=replies,
                times=self.settings.rounds + 1,
            ),
        )

    @property
    def claim(self) -> tuple[float, str] | None:
        """The claimed ε and what it leaves out."""
        if self.privacy is None or not self.task.noisy:
            return None
        rounds = self.settings.rounds
        return self.privacy.epsilon, (
            f"the printed loop sends {rounds + 1} messages of ε/{rounds} each, and counts {rounds}"
        )

    @property
    def charged(self) -> Privacy | None:
        """What a ledger is charged: what it really costs."""
        if self.privacy is None or not self.task.noisy:
            return self.privacy
        rounds = self.settings.rounds
        real = float(self.privacy.epsilon) * (rounds + 1) / rounds
        return self.privacy.with_epsilon(round_up(real * (1.0 + 1e-12)))

    def coordinate(self, start: Start) -> Coordinating:
        """Descend for k + 1 rounds, as printed; return the table of items."""
        rng, v, drawn = self.first(start.seed)
        v, settings = v * START * np.sqrt(self.task.rank), self.settings
        plain = None
        if not self.task.noisy and settings.dimensions is not None:
            plain = Projection(settings.dimensions, self.task.items, int(rng.integers(2**63)))
        for number in range(settings.rounds + 1):
            if self.task.noisy:
                gradient, *_ = yield from self.gradient(number, v, drawn)
            else:
                gradient = (yield Ask("whole", v=v)).total["gradient"]
                if plain is not None:
                    gradient = plain.back(plain.forward(gradient))
            rate = settings.step_size / (number + 1)
            v = step_of_items(v, gradient, rate, settings.item_ridge)
        return {
            "base": np.zeros(self.task.items),
            "features": v,
            "penalties": np.full((1, self.task.rank), 1.0),
            "spread": np.ones(1),
        }

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> PrintedRaters:
        """Return all devices, each with its vector."""
        return PrintedRaters(self, name, data, gate, seed)

    @classmethod
    def examples(cls) -> Iterator[PrintedAgreement]:
        """Both algorithms."""
        privacy = Privacy(4.0, unit="user", neighbours=REPLACE, trust="local")
        task = Task(5, 3, (1.0, 5.0), 2, privacy)
        for q in (None, 2):
            yield PrintedGradient(2, q, step_size=0.1).agree(task)


class PrintedRaters(AnsweringRaters):
    """All devices; each keeps its vector, and takes a gradient step after every round."""

    agreement: PrintedAgreement

    def __init__(
        self, agreement: PrintedAgreement, name: str, data: Rated, gate: Gate, seed: int | None
    ) -> None:
        super().__init__(agreement, name, data, gate, seed)
        inside = np.clip(data.cells.values, *agreement.task.bounds)  # ratings as they are
        self.shards = (data.cells._replace(values=inside),)
        first = START * self._rng.standard_normal((data.cells.members, agreement.task.rank))
        settings = agreement.settings
        self._vectors = PrintedVectors(first, settings.step_size, settings.user_ridge)

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: ByMember, picks: Integers
    ) -> Any:
        """Return what users send before noise, with vectors stepped along the V just sent."""
        v = asked.arrays["v"]
        self._vectors.sees(shard, v)
        u = self._vectors.u
        errors = residuals(shard, v, u)
        if step.name == "whole":
            weighted = errors[:, None] * u[shard.owners]
            found = np.zeros(v.shape)
            with np.errstate(over="ignore", invalid="ignore"):
                np.add.at(found, shard.items, weighted)
            return within_reach(-2.0 / shard.members * found)
        return self.coordinates(step, asked, shard, u, errors)

    def finish(self, shared: Mapping[str, Any]) -> None:
        """Step once more along the last V; the vector is the user's row."""
        task = self.agreement.task
        self._vectors.sees(self.shards[0], shared["features"])
        weights = task.weights(self._rated.openness)
        cells = self._rated.cells
        self.devices = Devices(dict(shared), task.bounds, cells, Rows.of(self._vectors.u), weights)


class PrintedVectors:
    """Every user's vector, which takes a gradient step with each V but the first."""

    def __init__(self, first: Floats, step_size: float, ridge: float) -> None:
        self.u, self._step_size, self._ridge, self._seen = first, step_size, ridge, 0

    def sees(self, cells: ByMember, v: Floats) -> None:
        """u_i ← u_i − γ_t(∇_i + 2λ_u·u_i)."""
        if self._seen:
            errors = residuals(cells, v, self.u)
            with np.errstate(over="ignore", invalid="ignore"):
                pulls = errors[:, None] * v[cells.items]
                sums = np.column_stack([cells.sums(column) for column in pulls.T])
                slope = -2.0 * sums / np.maximum(np.diff(cells.starts), 1)[:, None]
                moved = self._step_size / self._seen * (slope + 2.0 * self._ridge * self.u)
                self.u = within_reach(self.u - moved)
        self._seen += 1


def step_of_items(v: Floats, gradient: Floats, rate: float, ridge: float) -> Floats:
    """V ← V − γ_t(∇* + 2λ_v·V), short of what is no number."""
    with np.errstate(over="ignore", invalid="ignore"):
        v = v - rate * (gradient + 2.0 * ridge * v)
    return within_reach(v)


def within_reach(values: Floats) -> Floats:
    """Return numbers that a message can hold, whatever became of them."""
    return np.asarray(np.clip(np.nan_to_num(values, posinf=FAR, neginf=-FAR), -FAR, FAR))


def printed_baseline_reach(rank: int, values: Floats, items: Floats) -> float:
    """Return how far one rating moves a message of the printed baseline, over the printed Δ·d.

    Parameters
    ----------
    rank
        d.
    values
        A user's ratings; the first goes from one end of the range to the other.
    items
        V of the items that were rated, whose least-squares row the user's vector is.

    Examples
    --------
    >>> printed_baseline_reach(1, np.array([5.0, 5.0]), np.array([[0.1], [1.0]])) > 1.0
    True
    """
    found = []
    for first in (1.0, 5.0):
        own = values.copy()
        own[0] = first
        u = np.linalg.lstsq(items, own, rcond=None)[0]
        found.append(-2.0 * (own - items @ u)[:, None] * u)
    return float(np.abs(found[0] - found[1]).sum() / (4.0 * rank))
