"""Counts perturbed locally: the synthetic set-ups of Ermiş (2020), 7.1.1, and ratings by site.

Two sites of 150 × 50 and 100 × 50 counts, or ten of 100 × 50, are drawn from the Poisson–gamma
model of rank 5; a fifth of the cells is observed ("data sparsity = 0.2" read that way). The
predictive log-likelihood of X⁽¹⁾ is the mean of log E[Poisson(x; λ)] over its *unobserved* cells,
λ by the posterior. The thesis does not say which cells it adds up, and the exponents of its Table
7.1 are garbled ("−5.40 × 10⁻⁴" beside "−2.30 × 10⁻⁶"): only orders can be compared.

ε is per cell. The thesis adds noise for a change of one count by one (Δ = 1). Here bounds (0, 60)
are stated, whose certified ε is 60 times that: the tables show the thesis's ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.estimators.coordinator import Asking
from tacit.estimators.gate import Gate
from tacit.estimators.site import Site
from tacit.factorization import LocalCounts, PrivateFactorization
from tacit.factorization.counts.sides import CountingSite
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.together.problem import state_problem
from tacit.mechanisms.base import Mechanism, watched
from tacit.mechanisms.noise import Noise
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.aggregate import PlainAggregator

RANK, ITEMS, OBSERVED, HIGH = 5, 50, 0.2, 60
EPSILONS = (0.05, 0.1, 1.0)
# Table 7.1, LDP1: (α, β) → ε = 0.05, 0.1, non-private; mantissas as printed
TABLE_71 = {
    (0.1, 0.01): ("-2.30", "-1.33", "-5.40"),
    (10.0, 0.01): ("-2.37", "-1.38", "-5.45"),
    (0.1, 10.0): ("-2.39", "-1.40", "-5.48"),
    (10.0, 10.0): ("-2.35", "-1.36", "-5.41"),
}
WAYS = ("LDP1", "LDP1 naive", "LDP2", "LDP2 naive")


def synthetic(seed: int, users: Sequence[int]) -> tuple[list[Any], list[Any]]:
    """Return all counts of each site, and which of them are observed."""
    rng = generator(seed, "local counts")
    item = rng.gamma(1.0, 1.0, (ITEMS, RANK))
    counts = [
        np.minimum(rng.poisson(rng.gamma(1.0, 1.0, (n, RANK)) @ item.T), HIGH) for n in users
    ]
    return counts, [rng.random(x.shape) < OBSERVED for x in counts]


def log_likelihood(
    way: LocalCounts, counts: Sequence[Any], observed: Sequence[Any], epsilon: float, seed: int
) -> float:
    """Return the predictive log-likelihood of an unobserved cell of the first site.

    ``epsilon`` is that of a change of one count by one; infinity adds no noise.
    """
    relations = [
        {"data": Relation.from_dense(("user", "item"), np.where(mask, x, np.nan))}
        for x, mask in zip(counts, observed, strict=True)
    ]
    asked = Privacy(epsilon * HIGH, unit="entry", trust="site")
    problem = state_problem(
        CoupledModel("user:k item:k", RANK), relations, bounds=(0, HIGH), privacy=asked
    )
    agreement = way.agree(problem)
    coordinator = Asking(agreement, seed)
    parts = {}
    for k, held in enumerate(relations):
        ledger = (
            Ledger.memory(unit=asked.unit, neighbours=asked.neighbours, epsilon=asked.epsilon)
            if np.isfinite(epsilon)
            else None
        )
        reservation = (
            None if ledger is None else ledger.reserve(agreement.event, purpose="X", delta=0.0)
        )
        gate = Gate(reservation, Noise("grid", seed=1000 * seed + k))
        parts[f"site {k:02d}"] = CountingSite(
            agreement, f"site {k:02d}", held, gate, generator(seed, f"site {k}")
        )
    views = coordinator.request(0)
    assert views is not None
    coordinator.absorb(
        0, PlainAggregator().collect({n: p.respond(views) for n, p in parts.items()})
    )
    results = coordinator.request(1)
    assert results is not None
    first = parts["site 00"]
    first.respond(results)  # of the sites only the first one is scored, and learns
    hidden = np.argwhere(~observed[0])
    x = counts[0][tuple(hidden.T)]
    logs = []
    for user, item in zip(first.kept["draws/user"], first.kept["draws/item"], strict=True):
        rate = np.maximum((user[hidden[:, 0]] * item[hidden[:, 1]]).sum(axis=1), 1e-12)
        logs.append(x * np.log(rate) - rate - special.gammaln(x + 1.0))
    return float((special.logsumexp(logs, axis=0) - np.log(len(logs))).mean())


def way_of(name: str, quick: bool, **settings: Any) -> LocalCounts:
    """Return LDP1 or LDP2, exact or naive; short chains in the quick form."""
    views, _, naive = name.partition(" ")
    steps = {"burn_in": 40, "draws": 30, "thin": 2} if quick else {}
    return LocalCounts(
        "own" if views == "LDP2" else "perturbed", naive or "exact", **{**steps, **settings}
    )


# --- ratings -----------------------------------------------------------------------------------


def rating_scores(
    train: Relation, test: Relation, epsilon: float, seed: int, *, views: str = "perturbed",
    sites: int = 1, rank: int = 5, bounds: tuple[float, float] = (1, 5), **settings: Any,
) -> dict[str, float]:  # fmt: skip
    """Return the RMSE of LDP1 or LDP2 on ratings, overall and at the first site.

    Users are dealt out to the sites in turn. Beside it the trivial predictors from the very
    numbers that were sent: their mean, and the means of items (PRIVACY A9).
    """
    held, wanted = _dealt(train, sites), _dealt(test, sites)
    released: list[Any] = []

    def recorded(mechanism: Mechanism, value: Any, noise: Noise) -> Any:
        released.append(mechanism.draw(value, noise))
        return released[-1]

    with watched(recorded):
        fitted = PrivateFactorization(
            "user:k item:k", rank=rank, divergence="kl", bounds=bounds, random_state=seed,
            method=LocalCounts(views, own_effects=False, **settings),  # means over draws
            privacy=Privacy(epsilon, unit="entry", trust="local"),
        ).fit([Site(f"site {k:02d}", part) for k, part in enumerate(held)])  # fmt: skip
    low, high = bounds
    seen = np.concatenate(released) + low
    items = np.concatenate([part.indices[np.lexsort(part.indices.T[::-1]), 1] for part in held])
    mean = float(np.clip(seen.mean(), low, high))
    number = np.bincount(items, minlength=train.shape[1])
    sums = np.bincount(items, seen, train.shape[1])
    item_means = np.clip(np.where(number > 0, sums / np.maximum(number, 1), mean), low, high)
    errors: dict[str, list[Any]] = {"rmse": [], "global mean": [], "item means": []}
    for k, part in enumerate(wanted):
        found = fitted.predict(f"site {k:02d}", part.indices)
        for name, guess in (("rmse", found), ("global mean", mean),
                            ("item means", item_means[part.indices[:, 1]])):  # fmt: skip
            errors[name].append(guess - part.values)
    scores = {n: float(np.sqrt(np.mean(np.concatenate(e) ** 2))) for n, e in errors.items()}
    scores["rmse of site 1"] = float(np.sqrt(np.mean(errors["rmse"][0] ** 2)))
    return scores


def _dealt(relation: Relation, sites: int) -> list[Relation]:
    """Return each site's part: user u goes to site u mod sites, as its user u // sites."""
    users, items = relation.shape
    found = []
    for k in range(sites):
        part = relation.subset(np.flatnonzero(relation.indices[:, 0] % sites == k))
        cells = part.indices.copy()
        cells[:, 0] //= sites
        found.append(
            Relation(relation.entities, (-(-(users - k) // sites), items), cells, part.values)
        )
    return found
