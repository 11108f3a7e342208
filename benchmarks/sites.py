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
from tacit.estimators.coordinator import Asking
from tacit.estimators.gate import Gate
from tacit.factorization import Langevin
from tacit.factorization.langevin.agreement import LangevinAgreement
from tacit.factorization.langevin.numerics.clipped_gradients import entry_sums, owner_sums
from tacit.factorization.langevin.sides import LangevinSite
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.together.problem import state_problem
from tacit.mechanisms.noise import Noise
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.run import run as run_rounds

USERS, ITEMS, RANK, RATE = 6_000, 4_000, 10, 0.01


class BareSite(LangevinSite):
    """The same site without clipping, grid and noise."""

    def contribute(self, step: Any, asked: Any, kept: Any, shard: Any, picks: Any) -> Any:
        """Add up raw gradients."""
        theta = self.theta(asked, kept)
        if self.problem.unit == "user":
            rule = self.owner_rule()
            return owner_sums(picks, shard, theta, self.free, rule, math.inf, 0.0)
        return entry_sums(picks, shard, theta, self.free, self.counted, math.inf, 0.0)


class OpenGate(Gate):
    """Lets everything out as it is."""

    def release(self, step: Any, value: Any, position: int = 0, mechanism: Any = None) -> Any:
        """Draw nothing."""
        return value


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
    method = Langevin(rounds=round(1 / RATE), sampling_rate=RATE)
    agreement = method.agree(problem)
    open_request = Privacy(math.inf, unit=unit, trust="site")
    bare = method.agree(dataclasses.replace(problem, privacy=open_request))

    def private_pass() -> None:
        ledger = Ledger.memory(epsilon=2.0, delta=1e-5)
        paid = ledger.reserve(agreement.event, purpose="benchmark", delta=1e-6, asked=1.0)
        private.gate.reservation = paid
        one_pass(agreement, private, state)

    def bare_pass() -> None:
        one_pass(bare, naked, bare_state)

    held = {"data": relation}  # tables are built once: they are no part of a pass
    private = LangevinSite(agreement, "site", held, Gate(None, Noise()), generator(2))
    naked = BareSite(bare, "site", held, OpenGate(None, Noise()), generator(2))
    state, bare_state = dict(private.state()), dict(naked.state())
    return in_turns({"bare": bare_pass, "private": private_pass}, repeats)


def one_pass(agreement: LangevinAgreement, site: LangevinSite, state: Any) -> None:
    """Run all rounds between a coordinator and one site, from where the site began."""
    site.restore(state)
    run_rounds(Asking(agreement, 3), [site])
