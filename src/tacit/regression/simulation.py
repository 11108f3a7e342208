"""What a plan simulates: uniform features, half of the variance explained."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.rng import generator
from tacit.estimators.facts import Facts
from tacit.estimators.site import Site

__all__ = ["simulated_error"]


def simulated_error(kind: Any, facts: Facts, seed: int) -> float:
    """Return the error of fitted values of a class of estimators, relative to their spread."""
    rng = generator(seed, "plan")
    x = rng.uniform(-1.0, 1.0, (facts.rows, facts.features))
    slope = rng.standard_normal(facts.features)
    slope /= math.sqrt(float(slope @ slope))
    fitted = x @ slope / math.sqrt(3.0)
    y = fitted + rng.normal(0.0, 1.0 / 3.0, facts.rows)  # half of the variance is explained
    sites = [Site(f"site {k}", pair) for k, pair in enumerate(facts.split(x, y))]
    model = kind(
        method="Bayes-fixedS-fast",
        bounds=[(-1, 1)] * facts.features,
        y_bounds=(-1, 1),
        noise="grid",
        random_state=seed,
        privacy=facts.request("row"),
    )
    wrong = model.fit(sites).predict(x) - fitted
    return float(np.sqrt(np.mean(wrong**2))) / float(fitted.std())
