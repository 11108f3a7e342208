"""Private dropout on MNIST: thesis Table 8.1 at a certified ε, and beyond it.

Source: Ermiş (2020), section 8.1: 60,000 images for training and 10,000 for testing, one layer of
1,000 hidden units, ε ∈ {0.5, 1, 10}, δ = 1e-4 as published and 1e-5 as it should be; 3 seeds.
"scattering" is a convolutional network whose two layers of filters are fixed before a linear layer
that learns (`tacit.nn.Scattering`). Settings are the defaults of `tacit.nn.rules`, chosen on ten
thousand training images that took no part in training; the test images chose nothing. Methods
beside private dropout by PLD, and δ = 1e-4, are run with one seed. The sweeps of Figures 8.4 and
8.5 are short runs at ε = 1.
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
    mnist,
    noise_against_epsilon,
    quarter,
    uncertainty_bars,
)
from experiments.runner import Outcome
from tacit.nn import Scattering, Training
from tacit.privacy.guarantee import Privacy

TABLE = {0.5: 0.921, 1.0: 0.947, 10.0: 0.972}
ROWS = 60_000
PERCEPTRON = {"hidden": (1000,), "normalize": "row", "bounds": (0, 255)}
# features have norm one: their numbers lie within [−1, 1]
LINEAR = {"hidden": (), "normalize": "none", "bounds": (-1, 1)}


@cache
def images() -> Any:
    """Return (train, test) of raw images."""
    return mnist("train"), mnist("t10k")


@cache
def filtered() -> Any:
    """Return (train, test) behind the fixed filters, computed once for all runs."""
    import torch

    filters = Scattering()

    def mapped(raw: Any) -> Any:
        with torch.no_grad():
            return np.concatenate([
                filters(torch.from_numpy(raw[k : k + 500].astype(np.float32) / 255)).numpy()
                for k in range(0, len(raw), 500)
            ])  # fmt: skip

    return tuple((mapped(raw), labels) for raw, labels in images())


def _network_rows(outcome: Outcome, name: str, data: Any, quick: bool, settings: Any) -> list[Any]:
    """Compare all methods with one network."""
    rows = []
    label = {"network": name}
    for epsilon in (1.0,) if quick else EPSILONS:
        privacy = Privacy(epsilon, 1e-5)
        more = {"steps": quarter(ROWS, privacy)} if quick else {}
        rows.append(
            compare(outcome, label, lambda seed: data(), 1 if quick else 3, privacy, "DPD, pld",
                    **settings, **more)
        )  # fmt: skip
    for epsilon in () if quick else EPSILONS:
        for method in METHODS:
            delta = 1e-4 if method == "DPD, pld" else 1e-5
            rows.append(
                compare(outcome, label, lambda seed: data(), 1, Privacy(epsilon, delta), method,
                        **settings)
            )  # fmt: skip
    return rows


def _sweeps(outcome: Outcome, quick: bool) -> None:
    """Figures 8.4 and 8.5 around 250 hidden units on a tenth of the images."""
    (inputs, labels), test = images()
    part = (inputs[:6000], labels[:6000])
    small, rows = {"hidden": (250,), "steps": 40 if quick else 80, "rate": 0.2}, 6000
    sweeps = {
        "8.4 width": [{"hidden": (width,)} for width in (100, 500, 1000)],
        "8.4 steps": [{"steps": steps} for steps in (20, 80, 160)],
        "8.4 clip": [{"clip": clip} for clip in (0.1, 0.5, 2.0)],
        "8.4 batch": [{"rate": rate} for rate in (0.02, 0.1, 0.5)],
        "8.5 depth": [{"hidden": (250,) * depth} for depth in (1, 2, 3)],
    }
    for figure, variants in sweeps.items():
        for variant in variants[:2] if quick else variants:
            setting = ", ".join(f"{key} {value}" for key, value in variant.items())
            compare(outcome, {"figure": figure, "setting": setting, "rows": rows},
                    lambda seed: (part, test), 1, Privacy(1.0, 1e-5), "DPD, pld",
                    **{**PERCEPTRON, **small, **variant})  # fmt: skip


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    noise_against_epsilon(outcome, "MNIST", Training(steps=20_000, rate=0.01), 1e-4)
    if quick:
        (inputs, labels), test = images()
        part = (inputs[:6000], labels[:6000])
        perceptron = _network_rows(outcome, "1,000 hidden units, 6,000 images",
                                   lambda: (part, test), True, PERCEPTRON)  # fmt: skip
        outcome.check("the quick form learns", perceptron[0]["accuracy"], "above 0.5",
                      perceptron[0]["accuracy"] > 0.5)  # fmt: skip
        return outcome
    best = _network_rows(outcome, "scattering", filtered, False, LINEAR)
    bars(outcome, "MNIST, scattering", [row for row in best if row["δ"] == 1e-5], TABLE)
    uncertainty_bars(outcome, [row for row in best if row["δ"] == 1e-5])
    _sweeps(outcome, quick)
    perceptron = _network_rows(outcome, "1,000 hidden units", images, False, PERCEPTRON)
    bars(outcome, "MNIST, 1,000 hidden units",
         [row for row in perceptron if row["δ"] == 1e-5], TABLE)  # fmt: skip
    for name, data, settings in (
        ("scattering", filtered, LINEAR), ("1,000 hidden units", images, PERCEPTRON)
    ):  # fmt: skip
        compare(outcome, {"network": name}, lambda seed, data=data: data(), 1, None, "DPD, pld",
                **settings)  # fmt: skip
    return outcome
