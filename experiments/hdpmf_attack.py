"""A recommender that looks at what it receives: ratings from HDPMF's messages, and from sums.

The published protocol sends every rater's message by itself, with a share of the noise whose
variance the recommender knows (it drew h_j), in each of 100 epochs. Hu & Fang call u_i
post-processing of the public V: the attacker takes them at their word and knows it, as the proof
does. It reads ratings by maximum likelihood, and tells 1 from 5 stars; error rates give a lower
bound on ε with 95 % confidence (Clopper–Pearson). The same attacker sees the certified method's
sums, and knows all other ratings.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

import tacit as tc
from experiments.data import data_folder
from experiments.datasets import movielens
from experiments.hdpmf_table3 import DELTA, request, trial
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.audit.bounds import ErrorRates
from tacit.estimators.fit import reserve
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.numerics.ridge import by_member
from tacit.mechanisms.noise import Noise
from tacit.published.attacks import Messages, read_ratings
from tacit.published.hua2015_hu2023 import GradientRecommender
from tacit.recommender.agreement import HeterogeneousOffsets, WeightedOffsetsAgreement
from tacit.recommender.method import Rated, Task
from tacit.rounds.messages import Message

EPOCHS = 100
STARS = np.arange(1.0, 6.0)


def published(trials: int, least: float, epsilon: float = 1.0) -> dict[str, Any]:
    """Attack single messages of HDPMF about real ratings of at least some weight."""
    given = trial("movielens", movielens(data_folder("ml-100k")), 0)
    model = GradientRecommender((1, 5), privacy=request(epsilon), random_state=0)
    model.fit(given.train, weights=given.weights)
    rng = generator(0, "attack")
    heavy = np.flatnonzero(given.weights.of(*given.train.indices.T) >= least)
    picked = rng.choice(heavy, trials)
    users, items = given.train.indices[picked].T
    weights, counts = given.weights.of(users, items), np.bincount(given.train.indices[:, 1])[items]
    assert model._devices is not None
    u, v = model._devices.rows[users], model.shared_["features"][items]
    known = Messages(u, v, weights, counts, 2.0 * 4.0 / epsilon, EPOCHS)
    truth = given.train.values[picked]
    guess = read_ratings(known, truth, rng)
    nearest = STARS[np.abs(guess[:, None] - STARS).argmin(axis=1)]
    ones, fives = (read_ratings(known, np.full(trials, star), rng) for star in (1.0, 5.0))
    return {
        "attack on": f"HDPMF, single messages, weight ≥ {least:g}", "claimed ε": epsilon,
        "ratings": trials,
        "recovered": float(np.mean(nearest == truth)),
        "ε at least": ErrorRates(
            int((ones > 3.0).sum()), trials, int((fives < 3.0).sum()), trials
        ).epsilon(DELTA),
    }  # fmt: skip


def certified(trials: int, epsilon: float = 1.0) -> dict[str, Any]:
    """Attack sums of the certified method, all other ratings known, through the real code."""
    rng = generator(1, "attack")
    users, items = 12, 6
    table = rng.integers(1, 6, (users, items)).astype(float)
    task = Task(users, items, (1.0, 5.0), 2, request(epsilon))
    noisy = HeterogeneousOffsets().agree(task)
    quiet = HeterogeneousOffsets().agree(replace(task, privacy=request(math.inf)))
    scales = [m.scale for m in noisy.mechanisms.values()]

    def sums(star: float, public: WeightedOffsetsAgreement, seed: int) -> Any:
        own = table.copy()
        own[0, 0] = star
        cells = by_member(tc.Relation.from_dense(("user", "item"), own), "user")
        payer = reserve(public, [tc.Site("raters", None)], "attack")["raters"]
        gate = Gate(payer, Noise("exact", seed=seed))
        raters = public.holder("raters", Rated(cells, np.ones(users)), gate, 0)
        sent = [raters.respond(asked)["sum"] for asked in _questions(items)][2:]
        return np.concatenate([s / scale for s, scale in zip(sent, scales, strict=True)])

    centres = np.array([sums(star, quiet, 0) for star in STARS])
    recovered, errors = 0, {1.0: 0, 5.0: 0}
    for k in range(trials):
        star = float(rng.choice([1.0, 2.0, 3.0, 4.0, 5.0]))
        seen = sums(star, noisy, 3 * k)
        recovered += STARS[((seen - centres) ** 2).sum(axis=1).argmin()] == star
        for number, end in enumerate((1.0, 5.0)):
            seen = sums(end, noisy, 3 * k + 1 + number)
            far = ((seen - centres[[0, 4]]) ** 2).sum(axis=1)
            errors[end] += STARS[[0, 4]][far.argmin()] != end
    return {
        "attack on": "certified, sums only", "claimed ε": epsilon, "ratings": trials,
        "recovered": float(recovered / trials),
        "ε at least": ErrorRates(
            int(errors[1.0]), trials, int(errors[5.0]), trials
        ).epsilon(DELTA),
    }  # fmt: skip


def _questions(items: int) -> list[Message]:
    """Return what the attacker asks: offsets, and offsets again."""
    mean, pattern = {"mean": np.zeros(1)}, {"counts": np.ones(items), "block": np.eye(items)}
    asked = [("counts", {}), ("pattern", pattern), ("mean", {}), ("offsets", mean),
             ("later", {**mean, "kind": np.zeros(1, np.int64)})]  # fmt: skip
    return [Message(k, arrays, step) for k, (step, arrays) in enumerate(asked)]


def run(quick: bool) -> Outcome:
    """Attack both."""
    outcome = Outcome()
    tries = 2_000 if quick else 20_000
    rows = [published(tries, 0.9), certified(200 if quick else 1_000), published(tries, 0.0)]
    for row in rows:
        outcome.rows.append(row)
        print(row, file=sys.stderr, flush=True)
    outcome.check("HDPMF: ε at least", rows[0]["ε at least"], "> 1, its claim",
                  rows[0]["ε at least"] > 1.0)  # fmt: skip
    outcome.check(
        "certified: ε at least", rows[1]["ε at least"], "≤ 1", rows[1]["ε at least"] <= 1
    )
    outcome.check("certified: ratings recovered (chance 0.2)", rows[1]["recovered"], "< 0.35",
                  rows[1]["recovered"] < 0.35)  # fmt: skip
    return outcome
