"""Local privacy at scale: private GD, GD-DR, their baseline and what improves on them.

Source: Shin et al. (2018). Synthetic ratings in the proportions of the paper's (138,493 users ×
26,744 items, 20 million): offsets and two tastes, 145 ratings a user. RMSE on one held-out rating
per user against k and ε for the published forms GD and GD-DR (everybody answers each round with
ε/k, and a device fits no offset), and for the certified ones, whose devices fit an offset and do
without V where it is noise: every round or one answer per user with all of ε, hybrid answers,
through a shuffler (another trust: δ = 1e-6); beside them the same descent without noise and the
trivial predictors. No certified form may lose to a user's own mean, which is free. The curves are
for 10,000 × 2,000, k = 1 for the paper's size too; TACIT_SCALE=paper runs all of them there
(hours). The baseline sends n·m·(d + 1) numbers a round, and is compared at 2,000 × 200. Then the
error of the server's first gradient, whose slopes the theorem states: −1 in ε, −½ in n, ½ in m·d,
and at most 1 in q while m grows with it. The paper's own table, on MovieLens 20M: 1.269 … 1.145
without privacy, 2.960 … 1.372 for GD-DR.

Beside them what can be learned: the overall mean and offsets of groups of items along a public
hierarchy, one answer a person (`tacit.recommender.LocalGroups`). In that simulation two levels,
of 20 and 400 groups, explain half of the items' variance, a quarter each.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

import tacit as tc
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.estimators.fit import Place, fit, reserve
from tacit.estimators.gate import Gate
from tacit.estimators.site import Site
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.mechanisms.noise import Noise
from tacit.recommender import LocalGroups
from tacit.recommender.device import score
from tacit.recommender.local.descent import LocalMethod, LocalRaters, whole_gradient
from tacit.recommender.local.every_item import ItemResponseGradient, ResponseGradient
from tacit.recommender.local.one_answer import LocalGradient
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import Message

ROUNDS = (1, 3, 5, 10, 20, 50)
EPSILONS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
PAPER = {"without noise": (1.269, 1.204, 1.187, 1.173, 1.161, 1.145),
         "GD-DR": (2.960, 1.697, 1.500, 1.409, 1.381, 1.372)}  # fmt: skip
BOUNDS = (0.5, 5.0)


DELTA = 1e-6  # of a shuffler


def request(epsilon: float, trust: str = "local", unit: str = "user") -> tc.Privacy:
    """Return the request: everything about a user, nobody trusted, or a shuffler."""
    delta = DELTA if trust == "shuffler" else 0.0
    return tc.Privacy(epsilon, delta, unit=unit, neighbours="replace-one", trust=trust)


class Scale(NamedTuple):
    """Sizes of one comparison: n, m, ratings a user, q and d."""

    users: int
    items: int
    each: int
    q: int
    rank: int


SCALES = {
    "paper": Scale(140_000, 27_000, 145, 2_700, 15),
    "reduced": Scale(10_000, 2_000, 100, 200, 10),
    "small": Scale(2_000, 200, 30, 20, 5),
    "quick": Scale(3_000, 300, 30, 30, 5),
}
ONCE = {"participation": "once"}
PRINTED = {"own_offset": False}
PUBLISHED = ("GD", "GD-DR")
# name → (trust, settings); GD-DR has q rows
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "GD": ("local", {"dimensions": None, **PRINTED}),
    "GD-DR": ("local", PRINTED),
    "GD-DR, own offset": ("local", {}),
    "GD-DR, once, hybrid": ("local", {**ONCE, "answer": "hybrid"}),
    "GD-DR, once, shuffler": ("shuffler", {**ONCE, "answer": "hybrid"}),
    "GD-DR, every, shuffler": ("shuffler", {"answer": "hybrid"}),
}


LEVELS = {"kind": 20, "subject": 400}  # groups of the public hierarchy


def hierarchy(items: int, seed: int) -> tuple[dict[str, Any], Any]:
    """Return the group of every item by level, and item offsets of which groups explain half."""
    rng = generator(seed, "hierarchy")
    groups = {name: rng.integers(0, size, items) for name, size in LEVELS.items()}
    parts = [np.sqrt(0.25) * rng.standard_normal(LEVELS[n])[g] for n, g in groups.items()]
    return groups, 0.5 * (sum(parts) + np.sqrt(0.5) * rng.standard_normal(items))


def synthetic(
    users: int, items: int, each: int, seed: int, liked: Any = None
) -> tuple[ByMember, Any, Any]:
    """Return ratings, and one held-out (item, value) per user."""
    rng = generator(seed, "synthetic")
    taste, trait = rng.standard_normal((users, 2)), rng.standard_normal((items, 2))
    own, drawn_liked = 0.4 * rng.standard_normal(users), 0.5 * rng.standard_normal(items)
    liked = drawn_liked if liked is None else liked
    kept, counts, held = [], np.empty(users, np.int64), np.empty(users, np.int32)
    for i in range(users):
        drawn = np.unique((items * rng.random(each + 1) ** 2).astype(np.int32))
        place = int(rng.integers(len(drawn)))
        held[i] = drawn[place]
        drawn = np.delete(drawn, place) if len(drawn) > 1 else drawn
        kept.append(drawn)
        counts[i] = len(drawn)
    starts = np.concatenate([[0], np.cumsum(counts)])
    picked = np.concatenate(kept)

    def rate(user: Any, item: Any) -> Any:
        mean = 3.4 + own[user] + liked[item] + 0.35 * (taste[user] * trait[item]).sum(axis=1)
        raw = mean + 0.8 * rng.standard_normal(len(item))
        return np.clip(np.round(2.0 * raw) / 2.0, *BOUNDS)

    values = rate(np.repeat(np.arange(users), counts), picked)
    return ByMember(starts, picked, values), held, rate(np.arange(users), held)


def task_of(
    cells: ByMember, items: int, rank: int, epsilon: float | None, trust: str = "local",
    unit: str = "user",
) -> Task:  # fmt: skip
    """Return the public facts."""
    privacy = None if epsilon is None else request(epsilon, trust, unit)
    return Task(cells.members, items, BOUNDS, rank, privacy)


class Data(NamedTuple):
    """Ratings, one held-out rating per user, and their sizes."""

    cells: ByMember
    held: Any
    values: Any
    scale: Scale

    @property
    def rate(self) -> float:
        """γ₁: one over the share of cells that are rated."""
        return min(self.scale.users * self.scale.items / len(self.cells.values), 1e4)


def squares(method: LocalMethod, data: Data, epsilon: float | None, trust: str = "local") -> Any:
    """Return the squared errors on the held-out ratings."""
    scale, rated = data.scale, Rated(data.cells, np.ones(data.cells.members))
    task = task_of(data.cells, scale.items, scale.rank, epsilon, trust, method.unit)
    place = Place("ldp scaling", seed=0)
    outcome = fit(method.agree(task), [Site("raters", None)], {"raters": rated}, place)
    raters = outcome.holders["raters"]
    assert isinstance(raters, LocalRaters)
    raters.finish(outcome.result)
    predicted = score(outcome.result, raters.devices.rows, data.held, BOUNDS)
    return np.square(predicted - data.values)


def root(found: Any) -> float:
    """Return the root of the mean."""
    return float(np.sqrt(np.mean(found)))


def rmse(*about: Any) -> float:
    """Return the root of the mean squared error."""
    return root(squares(*about))


def above(found: Any, free: Any) -> float:
    """Return by how many standard errors squared errors are larger than those of another."""
    gap = found - free
    return float(gap.mean() / max(gap.std() / np.sqrt(len(gap)), 1e-300))


def made(name: str, data: Data, rounds: int) -> tuple[LocalGradient, str]:
    """Return a form at k rounds, and its trust."""
    trust, settings = FORMS[name]
    given = {"dimensions": data.scale.q, **settings}
    return LocalGradient(rounds, step_size=data.rate, **given), trust


def gradient_error(users: int, items: int, rank: int, q: int | None, epsilon: float) -> float:
    """Return the largest error of the server's first gradient, the mean of three draws."""
    cells, _, _ = synthetic(users, items, 20, 1)
    task = task_of(cells, items, rank, epsilon)
    rng = generator(2, "slopes")
    v = rng.standard_normal((items, rank)) / np.sqrt(rank)
    public, noise, found = LocalGradient(1, q).agree(task), Noise("grid", seed=3), []
    projection, more = public.projection(5), {} if q is None else {"projection": np.array([0, 5])}
    for _ in range(3):
        gate = Gate(reserve(public, [Site("raters", None)], "ldp scaling")["raters"], noise)
        raters = public.holder("raters", Rated(cells, np.ones(users)), gate, 0)
        raters._rng = rng  # other coordinates each time
        reply = raters.respond(Message(0, {"v": v, **more}, "answers"))
        estimate = public.averaged(reply["answers"], reply["places"], projection).gradient
        truth = whole_gradient(task, raters.shards[0], v)
        found.append(np.abs(estimate - truth).max())
    return float(np.mean(found))


def slope(sizes: Any, errors: Any) -> float:
    """Return the slope in logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def slopes(outcome: Outcome, quick: bool) -> None:
    """Fit the theorem's slopes."""
    n, m = (2_000, 160) if quick else (40_000, 1_000)
    lines = {
        "ε, GD": (EPSILONS, lambda x: gradient_error(n, m, 4, None, x), -1.0),
        "n, GD": ((n // 8, n // 4, n // 2, n),
                  lambda x: gradient_error(x, m, 4, None, 0.5), -0.5),
        "m·d, GD": ((m // 8, m // 4, m // 2, m),
                    lambda x: gradient_error(n, x, 4, None, 0.5), 0.5),
        "ε, GD-DR": (EPSILONS, lambda x: gradient_error(n, m, 4, m // 10, x), -1.0),
        "n, GD-DR": ((n // 8, n // 4, n // 2, n),
                     lambda x: gradient_error(x, m, 4, m // 10, 0.5), -0.5),
        "q, GD-DR, m = 10q": ((m // 80, m // 40, m // 20, m // 10),
                              lambda x: gradient_error(n, 10 * x, 4, x, 0.5), 1.0),
        # with m fixed, back-projected noise is (q/m)·√(qd): steeper, and still below the bound
        "q, GD-DR": ((m // 40, m // 20, m // 10, m // 5),
                     lambda x: gradient_error(n, m, 4, x, 0.5), 1.5),
    }  # fmt: skip
    for name, (sizes, error, expected) in lines.items():
        # the largest of many errors grows with the root of the logarithm of their number
        many = 4 * np.array(sizes) if name[0] in "mq" else np.full(len(sizes), 4 * m)
        found = slope(sizes, [error(x) for x in sizes] / np.sqrt(np.log(many)))
        outcome.add({"slope of the error in": name, "slope": found, "theorem": expected})
        upper = name[0] == "q"  # the theorem is an upper bound there
        ok = found <= expected + 0.15 if upper else abs(found - expected) <= 0.15
        bar = f"≤ {expected:g}" if upper else f"{expected:g} ± 0.15"
        outcome.check(f"slope in {name}", found, bar, ok)


def curves(outcome: Outcome, name: str, rounds: Any, epsilons: Any, forms: Any) -> None:
    """Compare forms on synthetic ratings of some size."""
    scale = SCALES[name]
    data = Data(*synthetic(scale.users, scale.items, scale.each, 0), scale)
    size = f"{scale.users:,} × {scale.items:,}"
    own = data.cells.sums(data.cells.values) / np.diff(data.cells.starts)
    free = np.square(data.values - own)
    outcome.add({"size": size, "ratings": len(data.cells.values), "method": "global mean",
                 "RMSE": float(data.values.std())})  # fmt: skip
    outcome.add({"size": size, "method": "own user mean", "RMSE": root(free)})
    for without, more in (("without noise", PRINTED), ("without noise, own offset", {})):
        row: dict[str, Any] = {"size": size, "method": without}
        for k in rounds:
            row[f"k = {k}"] = rmse(LocalGradient(k, step_size=data.rate, **more), data, None)
            if without in PAPER:
                row[f"paper k = {k}"] = PAPER[without][ROUNDS.index(k)]
        outcome.add(row)
    for form in forms:
        row, gaps = {"size": size, "method": form, "trust": FORMS[form][0], "ε": 0.1}, []
        for k in rounds:
            method, trust = made(form, data, k)
            found = squares(method, data, 0.1, trust)
            row[f"k = {k}"] = root(found)
            gaps.append(above(found, free))
            if form in PAPER:
                row[f"paper k = {k}"] = PAPER[form][ROUNDS.index(k)]
        outcome.add(row)
        row = {"size": size, "method": f"{form}, k = 5", "trust": FORMS[form][0]}
        for epsilon in epsilons:
            method, trust = made(form, data, 5)
            found = squares(method, data, epsilon, trust)
            row[f"ε = {epsilon:g}"] = root(found)
            gaps.append(above(found, free))
        if epsilons:
            outcome.add(row)
        if form not in PUBLISHED:
            outcome.check(
                f"{form}, {size}, every k and ε: MSE above the own mean's, in standard errors",
                max(gaps), "≤ 2", max(gaps) <= 2.0,
            )  # fmt: skip


def groups(outcome: Outcome, name: str, epsilons: Any, bar: bool) -> None:
    """Learn along the public hierarchy; compare with a person's own mean, which costs nothing."""
    scale = SCALES[name]
    levels, liked = hierarchy(scale.items, 0)
    cells, held, values = synthetic(scale.users, scale.items, scale.each, 0, liked)
    size, rated = f"{scale.users:,} × {scale.items:,}", Rated(cells, np.ones(cells.members))
    own = np.square(values - cells.sums(cells.values) / np.diff(cells.starts))
    free = root(own)
    outcome.add({"hierarchy": size, "method": "own user mean", "RMSE": free})
    for trust in ("local", "shuffler", "aggregator"):
        for epsilon in epsilons:
            delta = 0.0 if trust == "local" else DELTA
            asked = tc.Privacy(epsilon, delta, unit="user", neighbours="replace-one", trust=trust)
            public = LocalGroups(levels).agree(Task(cells.members, scale.items, BOUNDS, 1, asked))
            outcome_of = fit(public, [Site("raters", None)], {"raters": rated},
                             Place("ldp scaling", seed=0))  # fmt: skip
            raters: Any = outcome_of.holders["raters"]
            raters.finish(outcome_of.result)
            predicted = score(outcome_of.result, raters.devices.rows, held, BOUNDS)
            found = np.square(predicted - values)
            gap, error = above(found, own), root(found)
            outcome.add({"hierarchy": size, "method": "groups", "trust": trust, "ε": epsilon,
                         "RMSE": error, "of the own mean": error / free,
                         "levels asked": ", ".join(
                             level.name for _, level, _ in public.questions[1:]),
                         })  # fmt: skip
            what = f"groups, {size}, {trust}, ε = {epsilon:g}"
            if bar and trust == "local" and epsilon == 1.6:
                outcome.check(f"{what}: RMSE over that of the own mean", error / free,
                              "≤ 0.99", error <= 0.99 * free)  # fmt: skip
            outcome.check(
                f"{what}: MSE above the own mean's, in standard errors", gap, "≤ 2", gap <= 2.0
            )


def baseline(outcome: Outcome, name: str, epsilons: Any) -> None:
    """Compare with randomized response and Laplace noise, where its messages fit."""
    scale = SCALES[name]
    data = Data(*synthetic(scale.users, scale.items, scale.each, 0), scale)
    size = f"{scale.users:,} × {scale.items:,}"
    found: dict[str, Any] = {
        "RR + Laplace, per user": ResponseGradient(5, step_size=data.rate),
        "RR + Laplace, per item": ItemResponseGradient(5, step_size=data.rate),
    }
    for form in ("GD", "GD-DR", "GD-DR, once, hybrid", "GD-DR, once, shuffler"):
        found[form] = made(form, data, 5)[0]
    own = np.square(data.values - data.cells.sums(data.cells.values) / np.diff(data.cells.starts))
    outcome.add({"size": size, "method": "own user mean", "RMSE": root(own)})
    for form, method in found.items():
        trust = FORMS[form][0] if form in FORMS else "local"
        row = {"size": size, "method": f"{form}, k = 5", "trust": trust, "unit": method.unit}
        gaps = []
        for epsilon in epsilons:
            errors = squares(method, data, epsilon, trust)
            row[f"ε = {epsilon:g}"] = root(errors)
            gaps.append(above(errors, own))
        outcome.add(row)
        if form not in PUBLISHED:
            outcome.check(
                f"{form}, {size}, every ε: MSE above the own mean's, in standard errors",
                max(gaps), "≤ 2", max(gaps) <= 2.0,
            )  # fmt: skip


def spreads(outcome: Outcome) -> None:
    """What each improvement buys at n = 140,000, k = 5: the noise of a round's average."""
    for epsilon in (0.1, 1.0):
        published = None
        forms = {"GD-DR": ("local", {}), "GD-DR, hybrid": ("local", {"answer": "hybrid"}),
                 "GD-DR, once": ("local", ONCE)}  # fmt: skip
        for form, (trust, settings) in (forms | FORMS).items():
            if "offset" in form or form == "GD":
                continue
            method = LocalGradient(5, **{"dimensions": 2_700, **settings})
            asked = request(epsilon, trust)
            task = Task(140_000, 27_000, BOUNDS, 15, asked)
            mechanism: Any = method.agree(task).mechanism
            inner = getattr(mechanism, "inner", mechanism)
            people = 140_000 // (5 if method.participation == "once" else 1)
            size = float(np.sqrt(np.max(inner.variance(np.array([0.0, 1.0]))) / people))
            published = published or size
            outcome.add({"noise of a round's average": form, "trust": trust, "ε": epsilon,
                         "ε of a message": inner.epsilon, "deviation": size,
                         "of the published": size / published})  # fmt: skip


def run(quick: bool) -> Outcome:
    """Run the curves, the baseline and the slopes."""
    outcome = Outcome()
    if quick:
        curves(outcome, "quick", (1, 5), (0.4, 1.6), ("GD-DR", "GD-DR, own offset"))
    elif os.environ.get("TACIT_SCALE") == "paper":
        curves(outcome, "paper", ROUNDS, EPSILONS, FORMS)
    else:
        curves(outcome, "reduced", ROUNDS, EPSILONS, FORMS)
        curves(outcome, "paper", (1,), (), ("GD-DR", "GD-DR, once, shuffler"))
    groups(outcome, "quick" if quick else "paper", EPSILONS, bar=not quick)
    if not quick:
        groups(outcome, "reduced", EPSILONS, bar=False)
        baseline(outcome, "small", EPSILONS)
    spreads(outcome)
    slopes(outcome, quick)
    return outcome
