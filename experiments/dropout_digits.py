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


# network → (data, settings)
NETWORKS: dict[str, Any] = {
    "500 hidden units": (split, {"hidden": (500,), "normalize": "row", "bounds": (0, 16)}),
    "linear": (split, {"hidden": (), "normalize": "row", "bounds": (0, 16)}),
    "scattering": (split_filtered, {"hidden": (), "normalize": "none", "bounds": (-1, 1)}),
}


def _row(
    outcome: Outcome, network: str, seeds: int, privacy: Any, method: str, more: Any
) -> dict[str, Any]:
    data, settings = NETWORKS[network]
    label = {"network": network}
    return compare(outcome, label, data, seeds, privacy, method, **settings, **more)


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    noise_against_epsilon(outcome, "digits", Training(steps=2000, rate=0.05), 1e-4)
    seeds, few = (1, 1) if quick else (10, 3)
    rows = []
    for epsilon in (1.0,) if quick else EPSILONS:
        privacy = Privacy(epsilon, 1e-5)
        more = {"steps": quarter(ROWS, privacy)} if quick else {}
        for network in NETWORKS:
            rows.append(_row(outcome, network, seeds, privacy, "DPD, pld", more))
        for method in ("SGLD", "DP-SGD"):
            rows.append(_row(outcome, "500 hidden units", seeds, privacy, method, more))
        for method in ("DPD, zCDP", "DPD, advanced"):
            rows.append(_row(outcome, "500 hidden units", few, privacy, method, more))
        for network in () if quick else NETWORKS:
            _row(outcome, network, few, Privacy(epsilon, 1e-4), "DPD, pld", more)
    for network in NETWORKS:
        _row(outcome, network, few, None, "DP-SGD", {"steps": 40} if quick else {})
    if not quick:
        hidden = [row for row in rows if row["network"] == "500 hidden units"]
        bars(outcome, "digits, 500 hidden units", hidden, TABLE)
        bars(outcome, "digits, best network", rows, TABLE)
        uncertainty_bars(outcome, hidden)
    else:
        outcome.check("the quick form learns", rows[0]["accuracy"], "above 0.3",
                      rows[0]["accuracy"] > 0.3)  # fmt: skip
    return outcome
