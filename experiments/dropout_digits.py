"""Private dropout on scikit-learn's digits: thesis Table 8.1 at a certified ε.

Source: Ermiş (2020), section 8.1: 1,439 images for training and 360 for testing, one layer of 500
hidden units, ε ∈ {0.5, 1, 10}, δ = 1e-4 as published and 1e-5 as it should be; 10 seeds, each with
a split of its own (3 for other accountants and at δ = 1e-4). Settings are the defaults of
`tacit.nn.rules`, which were chosen on MNIST's training images. "linear" has no hidden layer,
"scattering" fixed filters before a linear layer.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from experiments._dropout import (
    EPSILONS,
    METHODS,
    bars,
    compare,
    noise_against_epsilon,
    quarter,
    uncertainty_bars,
)
from experiments.runner import Outcome
from tacit.nn import Scattering, Training
from tacit.privacy.guarantee import Privacy

TABLE = {0.5: 0.913, 1.0: 0.937, 10.0: 0.952}
ROWS = 1439


@cache
def digits() -> tuple[Any, Any]:
    """Return the images, (rows, 64) in 0 … 16, and labels."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def split(seed: int) -> Any:
    """Return (train, test) of one seed."""
    images, labels = digits()
    order = np.random.default_rng(seed).permutation(len(images))
    first, last = order[:ROWS], order[ROWS : ROWS + 360]
    return (images[first], labels[first]), (images[last], labels[last])


def fixed_filters() -> Any:
    """Return the images three times as large, through `Scattering`."""
    from torch import nn

    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Upsample(scale_factor=3, mode="bilinear"), Scattering()
    )


ARCHITECTURES = {
    "500 hidden units": {"hidden": (500,), "normalize": "row"},
    "linear": {"hidden": (), "normalize": "row"},
    "scattering": {"hidden": (), "features": fixed_filters()},
}


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    noise_against_epsilon(outcome, "digits", Training(steps=2000, rate=0.05), 1e-4)
    seeds = 1 if quick else 10
    rows = []
    for epsilon in (1.0,) if quick else EPSILONS:
        for delta in (1e-5,) if quick else (1e-5, 1e-4):
            privacy = Privacy(epsilon, delta)
            more = {"steps": quarter(ROWS, privacy)} if quick else {}
            count = seeds if delta == 1e-5 else 3
            for method in METHODS:
                rows.append(
                    compare(outcome, {"network": "500 hidden units"}, split, count, privacy,
                            method, bounds=(0, 16), **ARCHITECTURES["500 hidden units"], **more)
                )  # fmt: skip
            for name in ("linear", "scattering"):
                rows.append(
                    compare(outcome, {"network": name}, split, count, privacy, "DPD, pld",
                            bounds=(0, 16), **ARCHITECTURES[name], **more)
                )  # fmt: skip
    for name, settings in ARCHITECTURES.items():
        compare(outcome, {"network": name}, split, min(seeds, 3), None, "DPD, pld",
                bounds=(0, 16), **settings,
                **({"steps": 40} if quick else {}))  # fmt: skip
    strict = [row for row in rows if row["δ"] == 1e-5]
    if not quick:
        hidden = [row for row in strict if row["network"] == "500 hidden units"]
        bars(outcome, "digits, 500 hidden units", hidden, TABLE)
        bars(outcome, "digits, best network", strict, TABLE)
        uncertainty_bars(outcome, hidden)
    else:
        outcome.check("the quick form learns", strict[0]["accuracy"], "above 0.3",
                      strict[0]["accuracy"] > 0.3)  # fmt: skip
    return outcome
