"""Whether a private round on factors pays: simulated ratings, with and without it, and the rule.

The certified recommender spends its later round on factors where what is public says that they
stand out from the noise, else on the offsets again (`tacit.factorization.offsets.factors`). Mean
squared error on three held-out ratings per user, δ = 1e-5, three seeds; "little" means that what
users rate says nothing about their taste.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import tacit as tc
from experiments.hdpmf_table3 import request
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.data.split import hold_out_per_member
from tacit.data.synthetic import simulated_ratings
from tacit.recommender.agreement import HeterogeneousOffsets


class Case(NamedTuple):
    """Sizes, whether weights are those of Table II, what the pattern says, and ε."""

    users: int
    items: int
    each: int
    weighted: bool
    chosen: float = 0.5
    epsilon: float = 1.0


CASES = (
    Case(3_000, 400, 60, False),
    Case(3_000, 400, 60, False, chosen=0.0),
    Case(6_000, 400, 60, True),
    Case(5_000, 2_000, 60, True),
    Case(900, 1_500, 60, True),
    Case(3_000, 400, 60, False, epsilon=0.1),
)
FORMS: dict[str, bool | str] = {"offsets only": False, "factors": True, "the rule": "auto"}


def error(case: Case, factors: bool | str, seed: int) -> float:
    """Return the mean squared error on held-out ratings."""
    ratings = simulated_ratings(
        case.users, case.items, per_user=case.each, chosen=case.chosen, seed=seed
    )
    train, cells, values = hold_out_per_member(ratings, "user", 3, generator(seed, "split"))
    weights = None
    if case.weighted:
        weights = tc.PrivacyWeights.drawn(case.users, case.items, generator(seed, "weights"))
    model = tc.PrivateRecommender(
        (1, 5), method=HeterogeneousOffsets(factors=factors), privacy=request(case.epsilon),
        random_state=seed,
    )  # fmt: skip
    return float(np.mean((model.fit(train, weights=weights).predict(cells) - values) ** 2))


def run(quick: bool) -> Outcome:
    """Compare all forms in all cases."""
    outcome = Outcome()
    cases = (Case(400, 60, 20, False), Case(400, 60, 20, True)) if quick else CASES
    for case in cases:
        found = {
            form: [error(case, factors, seed) for seed in range(1 if quick else 3)]
            for form, factors in FORMS.items()
        }
        means = {form: float(np.mean(each)) for form, each in found.items()}
        size = f"{case.users:,} × {case.items:,}"
        row: dict[str, Any] = {
            "users × items": size, "weights": "Table II" if case.weighted else "equal",
            "pattern says": "much" if case.chosen else "little", "ε": case.epsilon,
        }  # fmt: skip
        outcome.add(row | means)
        best = min(means["offsets only"], means["factors"])
        name = ", ".join(str(value) for value in row.values())
        outcome.check(f"the rule over the better one: {name}", means["the rule"] / best,
                      "≤ 1.01", means["the rule"] <= 1.01 * best)  # fmt: skip
    return outcome
