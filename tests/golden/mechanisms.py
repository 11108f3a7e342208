"""Draws of every mechanism from a seeded source, with what it costs."""

from __future__ import annotations

import numpy as np

from tacit.mechanisms.noise import Noise
from tests.contracts.examples import EXAMPLES

from .cases import Results, cases


@cases("mechanism", {example.name: {"example": example} for example in EXAMPLES})
def mechanism(example) -> Results:
    source = Noise(getattr(example.mechanism, "source", "grid"), seed=5)
    return {
        "drawn": np.asarray(example.sample(example.mechanism, example.value, 50, source)),
        "event": str(example.mechanism.event),
        "assumptions": list(example.mechanism.assumptions),
        "bias": np.asarray(example.mechanism.bias(example.value)),
        "variance": np.asarray(example.mechanism.variance(example.value)),
    }


@cases("noise", {"grid": {"kind": "grid"}, "exact": {"kind": "exact"}})
def noise(kind) -> Results:
    source = Noise(kind, seed=5)
    scale = 2.0**33
    return {
        "gaussian": source.gaussian(200, scale),
        "laplace": source.laplace(200, scale),
        "geometric": source.geometric(200, 3.0),
        "sample": source.sample(1000, 0.1),
    }
