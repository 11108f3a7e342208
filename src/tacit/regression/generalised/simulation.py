"""What a plan simulates: uniform features, and responses that depend on them about as usual."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.rng import generator
from tacit.estimators.facts import Facts
from tacit.estimators.site import Site

__all__ = ["simulated_error"]


def simulated_error(kind: Any, facts: Facts, seed: int, **stated: Any) -> float:
    """Return the error of mean responses of a class of estimators, relative to their spread.

    Parameters
    ----------
    kind
        The class.
    facts
        What is public about the task.
    seed
        Of data and noise.
    stated
        What is public about responses.
    """
    rng = generator(seed, "plan")
    x = rng.uniform(-1.0, 1.0, (facts.rows, facts.features))
    slope = rng.standard_normal(facts.features)
    eta = x @ slope * (1.5 * math.sqrt(3.0) / math.sqrt(float(slope @ slope)))
    if kind._link == "logistic":
        mean = 1.0 / (1.0 + np.exp(-eta))
        y = (rng.random(facts.rows) < mean).astype(int)
    else:
        mean = np.exp(np.minimum(0.5 * eta, 3.0))
        y = rng.poisson(mean)
    sites = [Site(f"site {k}", pair) for k, pair in enumerate(facts.split(x, y))]
    model = kind(
        bounds=[(-1, 1)] * facts.features,
        random_state=seed,
        rows=float(facts.rows),
        privacy=facts.request("row"),
        **stated,
    )
    found = model.fit(sites)._means(x)[0]
    return float(np.sqrt(np.mean(np.square(found - mean)))) / float(mean.std())
