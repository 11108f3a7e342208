"""Private Langevin dynamics over sites: one pass over a million ratings, with and without noise.

6,000 users × 4,000 items, a million ratings, rank 10, samples of one in a hundred, so that a
hundred rounds are one pass. The private pass (samples, clipped sums on the grid, the gate, the
walk, the messages) takes turns with the same pass without clipping, grid and noise, medians of
five. Bars: a private pass takes less than a second, and at most twice as long as the bare one.

Links: 150,000 of them among 9,583 people and 44,005 things, every other cell an observed zero. A
private fit at ε = 1 over two sites, predictions at the sites included, has 60 seconds and 3 GB, in
a process of its own. The area under the curve on held-out links and other cells must be above that
of how active people are, which is free, and stands beside that of how popular things are, which is
not private.
"""

from __future__ import annotations

import dataclasses
import json
import math
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

import tacit as tc
from benchmarks.regression import in_turns
from experiments.metrics import auc
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
    links(outcome, quick)
    return outcome


def links(outcome: Outcome, quick: bool) -> None:
    """Fit simulated links over two sites, in a process of its own."""
    size = (2_000, 2_000, 20_000) if quick else (9_583, 44_005, 150_000)
    code = f"from benchmarks.sites import fit_links; fit_links({size})"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout.splitlines()[-1])
    people, things, count = size
    what = f"{count:,} links, {people:,} × {things:,}"
    for row in found["rows"]:
        outcome.rows.append({"what": what, **row})
        seconds, name = row["seconds"], f"{what}, unit={row['unit']}"
        outcome.check(f"seconds of a private fit, {name}", seconds, "≤ 60", seconds <= 60.0)
        ours, free = row["auc"], row["auc of own activity"]
        outcome.check(f"AUC, {name}", ours, f"> {free:.3f}, own activity, free", ours > free)
    outcome.check(f"GB of memory, {what}", found["GB"], "≤ 3", found["GB"] <= 3.0)


def simulated_links(people: int, things: int, count: int) -> Any:
    """Return links of people and things in ten circles, of unequal activity and popularity."""
    rng = generator(0, "links")
    circle, kind = rng.integers(0, 10, people), rng.integers(0, 10, things)
    busy, liked = rng.pareto(1.5, people) + 0.3, rng.pareto(1.2, things) + 0.2
    who = rng.choice(people, 5 * count, p=busy / busy.sum())
    what = rng.choice(things, 5 * count, p=liked / liked.sum())
    near = (circle[who] == kind[what]) | (rng.random(5 * count) < 0.15)
    codes = np.unique(who[near].astype(np.int64) * things + what[near])
    return np.column_stack(np.divmod(rng.permutation(codes)[:count], things))


def fit_links(size: tuple[int, int, int]) -> None:
    """Print seconds, memory and area under the curve as JSON."""
    people, things, _ = size
    cells, rng = simulated_links(*size), generator(0, "held out")
    test = rng.random(len(cells)) < 0.1
    other = np.column_stack([rng.integers(0, people, test.sum()),
                             rng.integers(0, things, test.sum())])  # fmt: skip
    code = {int(u) * things + int(j) for u, j in cells}
    other = other[[int(u) * things + int(j) not in code for u, j in other]]
    asked = np.concatenate([cells[test], other])
    truth = np.arange(len(asked)) < test.sum()
    popular = np.bincount(cells[~test][:, 1], minlength=things)
    busy = np.bincount(cells[~test][:, 0], minlength=people)
    half, rows = people // 2, []
    for unit in ("user", "entry"):
        began = time.perf_counter()
        sites = []
        for name, first, last in (("North", 0, half), ("South", half, people)):

            def mine(some: Any, first: int = first, last: int = last) -> Any:
                kept = some[(some[:, 0] >= first) & (some[:, 0] < last)]
                return kept - np.array([first, 0])

            sites.append(tc.Site(name, tc.Relation.from_cells(
                ("user", "item"), mine(cells[~test]), shape=(last - first, things),
                zeros="observed", held_out=np.unique(mine(asked), axis=0),
            )))  # fmt: skip
        model = tc.PrivateFactorization(
            "user:k item:k", rank=10, bounds=(0, 1), random_state=0,
            privacy=Privacy(1.0, 1e-6, unit=unit, trust="site"),
        ).fit(sites)  # fmt: skip
        north = asked[:, 0] < half
        scores = np.empty(len(asked))
        scores[north] = model.predict("North", asked[north])
        scores[~north] = model.predict("South", asked[~north] - np.array([half, 0]))
        rows.append({"unit": unit, "epsilon": model.certificate_.epsilon,
                     "seconds": time.perf_counter() - began, "auc": auc(truth, scores),
                     "auc of own activity": auc(truth, busy[asked[:, 0]] * 1.0),
                     "auc of raw popularity": auc(truth, popular[asked[:, 1]] * 1.0)})  # fmt: skip
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(json.dumps({"rows": rows, "GB": memory}))


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
