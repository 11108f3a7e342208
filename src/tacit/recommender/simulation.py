"""What a plan simulates: ratings of users who have a device each."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.data.split import members_of
from tacit.estimators.facts import Facts
from tacit.factorization.simulation import own_mean_error, planned_ratings, rms

__all__ = ["simulated_error"]


def simulated_error(kind: Any, facts: Facts, seed: int) -> float:
    """Return the held-out error of simulated ratings, relative to users' own means."""
    _, train, cells, values = planned_ratings(facts, seed)
    raters = np.unique(train.indices[:, 0])  # who lost all ratings has no device
    number = np.full(facts.rows, -1)
    number[raters] = np.arange(len(raters))
    kept = number[cells[:, 0]] >= 0
    cells, values = cells[kept].astype(np.int64), values[kept]
    cells[:, 0] = number[cells[:, 0]]
    train = members_of(train, "user", raters)
    model = kind(
        (1, 5),
        rank=facts.rank,
        random_state=seed,
        privacy=facts.request("entry", "aggregator"),
    )
    found = model.fit(train).predict(cells)
    return rms(found - values) / own_mean_error(train, cells, values)
