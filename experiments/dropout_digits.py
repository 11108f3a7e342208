"""Private dropout on scikit-learn's digits: thesis Table 8.1 at a certified ε.

Source: Ermiş (2020), section 8.1: 1,439 images for training and 360 for testing, one layer of 500
hidden units, ε ∈ {0.5, 1, 10}, δ = 1e-4 as published and 1e-5 as it should be; 10 seeds, each with
a split of its own (3 for other accountants, and for the thesis's own noise). Settings are the
defaults of `tacit.networks.training`, which were chosen on MNIST's training images. "linear" has
no hidden layer, "scattering" fixed filters before a linear layer. "published" takes the thesis's
noise and schedule (samples of 5 %, 100 passes), in both readings of Algorithm 3 and for all four
methods of Table 8.1; its certified ε is what that noise really gives.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from experiments._dropout import (
    EPSILONS,
    PUBLISHED,
    Network,
    bars,
    compare,
    dropout_against_epsilon,
    noise_against_epsilon,
    quarter,
    uncertainty_bars,
)
from experiments.runner import Outcome
from tacit.networks import Scattering, Training
from tacit.privacy.guarantee import Privacy

TABLE = {0.5: 0.913, 1.0: 0.937, 10.0: 0.952}
ASKED = {0.5: 0.915, 1.0: 0.952, 10.0: 0.983}
ROWS = 1439
THESIS = {"steps": 2000, "sampling_rate": 0.05}
QUICK_STEPS = 20


@cache
def digits() -> tuple[Any, Any]:
    """Return the images, (rows, 64) in 0 … 16, and labels."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def split(seed: int, images: Any = None) -> Any:
    """Return (train, test) of one seed."""
    pixels, labels = digits()
    images = pixels if images is None else images
    order = np.random.default_rng(seed).permutation(len(images))
    first, last = order[:ROWS], order[ROWS : ROWS + 360]
    return (images[first], labels[first]), (images[last], labels[last])


@cache
def filtered() -> Any:
    """Return the images three times as large behind `Scattering`: of norm one, row by row."""
    import torch
    from torch.nn import functional

    images = torch.from_numpy(digits()[0].reshape(-1, 1, 8, 8).astype(np.float32) / 16.0)
    large = functional.interpolate(images, scale_factor=3, mode="bilinear")
    with torch.no_grad():
        return Scattering()(large).numpy()


def split_filtered(seed: int) -> Any:
    """Return (train, test) of one seed behind the fixed filters."""
    return split(seed, filtered())


PIXELS = {"normalize": "row", "bounds": (0, 16)}
HIDDEN = Network("500 hidden units", split, {"hidden": (500,), **PIXELS})
LINEAR = Network("linear", split, {"hidden": (), **PIXELS})
FILTERS = Network(
    "scattering", split_filtered, {"hidden": (), "normalize": "none", "bounds": (-1, 1)}
)
NETWORKS = (HIDDEN, LINEAR, FILTERS)


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    noise_against_epsilon(outcome, "digits", Training(**THESIS), 1e-4)
    seeds, few = (1, 1) if quick else (10, 3)
    rows = []
    for epsilon in (1.0,) if quick else EPSILONS:
        privacy, wide = Privacy(epsilon, 1e-5), Privacy(epsilon, 1e-4)
        # of the quick form the first row is judged; the others only have to run
        more = {"steps": quarter(ROWS, privacy)} if quick else {}
        for network in NETWORKS:
            rows.append(compare(outcome, network, seeds, privacy, "DPD, pld", **more))
            more = {"steps": QUICK_STEPS} if quick else {}
        for method in ("SGLD", "DP-SGD"):
            rows.append(compare(outcome, HIDDEN, seeds, privacy, method, **more))
        rows.append(compare(outcome, FILTERS, seeds, privacy, "DP-SGD", **more))
        for method in ("DPD, zCDP", "DPD, advanced"):
            rows.append(compare(outcome, HIDDEN, few, privacy, method, **more))
        for method in PUBLISHED:
            compare(outcome, HIDDEN, few, wide, method, **{**THESIS, **more})
        for network in () if quick else NETWORKS:
            compare(outcome, network, seeds, wide, "DPD, pld")
    for network in NETWORKS:
        compare(outcome, network, few, None, "DP-SGD", **({"steps": QUICK_STEPS} if quick else {}))
    if quick:
        outcome.check("the quick form learns", rows[0]["accuracy"], "above 0.5",
                      rows[0]["accuracy"] > 0.5)  # fmt: skip
        return outcome
    dropout_against_epsilon(outcome, HIDDEN)
    bars(outcome, "digits, 500 hidden units", [r for r in rows if r["network"] == HIDDEN.name],
         TABLE)  # fmt: skip
    bars(outcome, "digits, best network", rows, TABLE)
    bars(outcome, "digits, best network, as asked here", rows, ASKED)
    uncertainty_bars(outcome, rows, 0.08)
    return outcome
