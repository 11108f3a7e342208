"""Private Langevin dynamics over sites: one pass over a million ratings, with and without noise.

6,000 users × 4,000 items, a million ratings, rank 10, samples of one in a hundred, so that a
hundred rounds are one pass. The private pass (samples, clipped sums on the grid, the gate, the
walk, the messages) takes turns with the same pass without clipping, grid and noise, medians of
five. Bars: a private pass takes less than a second, and at most twice as long as the bare one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from benchmarks.regression import in_turns
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.estimators.joint import Problem, state_problem
from tacit.estimators.joint_langevin import Langevin
from tacit.estimators.joint_sides import LangevinPart
from tacit.inference.clipped import entry_sums, owner_sums
from tacit.mechanisms.noise import Noise
from tacit.models.structure import CoupledModel
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger
from tacit.rounds.inprocess import run as run_rounds

USERS, ITEMS, RANK, RATE = 6_000, 4_000, 10, 0.01


class BarePart(LangevinPart):
    """The same part without clipping, grid and noise."""

    def _release(self, mechanism: Any, picks: Any, theta: Any) -> Any:
        if self.problem.unit == "user":
            rule = self.owner_rule()
            return owner_sums(picks, self.table, theta, self.free, rule, math.inf, 0.0)
        return entry_sums(picks, self.table, theta, self.free, self.counted, math.inf, 0.0)


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    ratings = 100_000 if quick else 1_000_000
    cells = generator(0).choice(USERS * ITEMS, ratings, replace=False)
    values = generator(1).integers(1, 6, ratings).astype(float)
    relation = Relation.from_cells(
        ("user", "item"), np.column_stack(np.divmod(np.sort(cells), ITEMS)), values,
        shape=(USERS, ITEMS),
    )  # fmt: skip
    for unit in ("user", "entry"):
        seconds = measure(relation, unit, 3 if quick else 5)
        for name, what in (("bare", "without noise and clipping"), ("private", "private")):
            outcome.rows.append({
                "what": f"one pass over {ratings:,} ratings, unit={unit}: {what}",
                "ms": seconds[name] * 1e3, "ratings/s": ratings / seconds[name],
            })  # fmt: skip
        private, ratio = seconds["private"], seconds["private"] / seconds["bare"]
        outcome.check(f"seconds of a private pass, unit={unit}", private, "< 1", private < 1.0)
        outcome.check(f"private over bare pass, unit={unit}", ratio, "≤ 2", ratio <= 2.0)
    return outcome


def measure(relation: Relation, unit: str, repeats: int) -> dict[str, float]:
    """Return the seconds of a private and of a bare pass."""
    model = CoupledModel("user:k item:k", RANK, "euclidean")
    privacy = Privacy(1.0, 1e-6, unit=unit, trust="site")
    problem = state_problem(model, [{"data": relation}], bounds=(1, 5), privacy=privacy)
    method = Langevin(rounds=round(1 / RATE), rate=RATE)
    method.multiplier(problem, 0)  # calibrate once
    bare = dataclasses.replace(problem, privacy=Privacy(math.inf, unit=unit, trust="site"))

    def private_pass() -> None:
        ledger = Ledger.memory(epsilon=2.0, delta=1e-5)
        paid = ledger.reserve(method.schedule(problem), purpose="benchmark", delta=1e-6, asked=1.0)
        one_pass(method, problem, private.reset(paid))

    def bare_pass() -> None:
        one_pass(method, bare, naked.reset(None))

    private = Holder(LangevinPart, method, problem, relation)
    naked = Holder(BarePart, method, bare, relation)
    return in_turns({"bare": bare_pass, "private": private_pass}, repeats)


class Holder:
    """A site's part that is built once: tables are no part of a pass."""

    def __init__(self, kind: Any, method: Langevin, problem: Problem, relation: Relation) -> None:
        self.part = kind(
            method, problem, "site", {"data": relation}, None, Noise(), generator(2)
        )  # fmt: skip
        self.state = {name: value.copy() for name, value in self.part.state().items()}

    def reset(self, reservation: Any) -> LangevinPart:
        """Return the part as it was before its first round."""
        self.part.reservation = reservation
        self.part.restore(self.state)
        return self.part


def one_pass(method: Langevin, problem: Problem, part: LangevinPart) -> None:
    """Run all rounds between a coordinator and one site."""
    run_rounds(method.coordinator(problem, {}, generator(3)), [part])
