"""Private regressions that take no bounds, in simple forms of our own.

**TukeyEM** (Amin et al. 2023): least squares on m disjoint parts of the rows, and one point drawn
by the exponential mechanism among those that are deep among these m, by an approximate Tukey
depth: the i-th box lies between the i-th smallest and the i-th largest coefficient of every
dimension. It proposes that the boxes from depth m/4 on are stable, tests that with half of ε and
all of δ, and gives nothing where they are not.

**Boosted AdaSSP** (Tang et al. 2023): rows clipped to norm 1, once XᵀX and its least eigenvalue
with noise, and in each of T rounds the product of X with the residuals, clipped to [−1, 1], with
noise; every round adds a ridge solution. One Gaussian mechanism in all. Predictions are for
clipped rows, too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.privacy.calibration import gaussian_sigma

MODELS = 500  # m of TukeyEM, where there are rows for it
ROUNDS = 100  # T of boosting


def tukey_em(rng: np.random.Generator, x: Any, y: Any, epsilon: float, delta: float) -> Any:
    """Return the coefficients of TukeyEM; None where the test fails."""
    n, d = x.shape
    models = min(MODELS, n // (d + 1))
    parts = np.array_split(rng.permutation(n), models)
    found = np.array([np.linalg.lstsq(x[p], y[p], rcond=None)[0] for p in parts])
    ordered = np.sort(found, axis=0)
    half = models // 2
    low, high = ordered[:half], ordered[::-1][:half]  # of depth 1, 2, …
    volume = np.log(np.maximum(high - low, 1e-300)).sum(axis=1)
    start = models // 4
    stable = _stable_for(volume, start, epsilon / 2.0, delta)
    if stable + rng.laplace(0.0, 2.0 / epsilon) < 2.0 * math.log(1.0 / (2.0 * delta)) / epsilon:
        return None
    inner = np.append(volume[1:], -np.inf)
    shell = volume + np.log1p(-np.exp(np.minimum(inner - volume, -1e-12)))
    weight = (shell + epsilon / 4.0 * np.arange(1, half + 1))[start - 1 :]
    chances = np.exp(weight - weight.max())
    depth = start - 1 + rng.choice(len(chances), p=chances / chances.sum())
    for _ in range(10_000):
        point = rng.uniform(low[depth], high[depth])
        deeper = depth + 1 < half and np.all(
            (point >= low[depth + 1]) & (point <= high[depth + 1])
        )
        if not deeper:
            break
    return point


def _stable_for(volume: Any, start: int, epsilon: float, delta: float) -> int:
    """Return how many rows may change before the boxes are not stable; −1 for none."""
    reach = math.log(delta / (8.0 * math.exp(epsilon)))
    for k in range(start - 2, -1, -1):
        outer = volume[start - k - 2]
        gaps = np.arange(1, len(volume) - (start + k) - 1)
        if len(gaps) and np.any(outer - volume[start + k + gaps] - epsilon * gaps / 2.0 <= reach):
            return k
    return -1


def clipped(x: Any) -> Any:
    """Return rows of norm 1 at most."""
    return x / np.maximum(1.0, np.linalg.norm(x, axis=1))[:, None]


def boosted_adassp(rng: np.random.Generator, x: Any, y: Any, epsilon: float, delta: float) -> Any:
    """Return the coefficients of boosted AdaSSP."""
    d, failure = x.shape[1], 0.05
    rows = clipped(x)
    sd = math.sqrt(3.0) * gaussian_sigma(epsilon, delta, 1.0)
    gram = rows.T @ rows
    width = math.sqrt(2.0 * math.log(2.0 / failure))
    lowest = np.linalg.eigvalsh(gram)[0] + sd * (rng.standard_normal() - width)
    ridge = max(0.0, math.sqrt(d * math.log(2.0 * d * d / failure)) * sd - max(0.0, lowest))
    upper = np.triu(rng.standard_normal((d, d)))
    solving = gram + sd * (upper + np.triu(upper, 1).T) + ridge * np.eye(d)
    theta = np.zeros(d)
    for _ in range(ROUNDS):
        residual = np.clip(y - rows @ theta, -1.0, 1.0)
        noisy = rows.T @ residual + math.sqrt(ROUNDS) * sd * rng.standard_normal(d)
        theta = theta + np.linalg.solve(solving, noisy)
    return theta
