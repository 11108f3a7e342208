"""Rivals of `tacit` for regression, each calibrated to exactly the ε that it claims.

**AdaSSP** (Wang 2018): the least eigenvalue of XᵀX, XᵀX and Xᵀy, each with Gaussian noise of one
size relative to its sensitivity, √3 times that of one release: jointly one Gaussian mechanism.

**Iterative Hessian mixing** (Lev et al. 2026, arXiv 2601.07545): the noisy least eigenvalue λ̃ of
S = XᵀX decides how much γ·I is added to S; T = 3 times, k = max(6d, 6·log(4T/ϱ)) Gaussian
sketches of the rows of S + γI give a Hessian, and a noisy gradient of clipped residuals makes a
Newton step. A sketch's rows are N(0, S + γI). Of a neighbour the variance along one direction is
1 − u of that, u = 1/γ̄, so the privacy loss of all K = kT rows is u/(2(1 − u))·χ²_K +
K/2·log(1 − u), and the other way round −u/2·χ²_K − K/2·log(1 − u); with the Gaussians'
N(μ²/2, μ²) added to it, δ(ε) is a one-dimensional integral (`mixing_delta`). The paper charges
the two halves separately; here the ratio of their noises is the paper's and one factor on both
makes δ(ε) exact.

Rows have norm at most 1 (the constant included), responses |y| ≤ 1; add-remove-one.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2

from tacit.privacy.calibration import gaussian_sigma

ROUNDS = 3  # T
SKETCHES = 6.0  # k is so many times max(d, log(4T/ϱ))


def adassp(rng: np.random.Generator, x: Any, y: Any, epsilon: float, delta: float) -> Any:
    """Return the coefficients of AdaSSP."""
    d, failure = x.shape[1], 0.05  # ϱ as in the paper
    sd = math.sqrt(3.0) * gaussian_sigma(epsilon, delta, 1.0)
    gram = x.T @ x
    # below the truth but with probability ϱ/2, as the paper has it
    width = math.sqrt(2.0 * math.log(2.0 / failure))
    lowest = np.linalg.eigvalsh(gram)[0] + sd * (rng.standard_normal() - width)
    ridge = max(0.0, math.sqrt(d * math.log(2.0 * d * d / failure)) * sd - max(0.0, lowest))
    upper = np.triu(rng.standard_normal((d, d)))
    noise = upper + np.triu(upper, 1).T
    cross = x.T @ y + sd * rng.standard_normal(d)
    return np.linalg.solve(gram + sd * noise + ridge * np.eye(d), cross)


def mixing_delta(epsilon: float, rows: int, share: float, mu: float) -> float:
    """Return δ(ε) of ``rows`` rows whose variance changes by a ``share``, and a Gaussian of μ."""
    score = np.linspace(-8.5, 8.5, 2001)  # of χ²: Gaussian quantiles, for the tails' sake
    weights = np.exp(-0.5 * score**2)
    weights /= weights.sum()
    low, high = (
        chi2.ppf(ndtr(np.minimum(score, 0.0)), rows),
        chi2.isf(ndtr(-np.maximum(score, 0.0)), rows),
    )
    squares = np.where(score < 0.0, low, high)
    worst = 0.0
    for sign, slope in ((1.0, share / (2.0 * (1.0 - share))), (-1.0, -share / 2.0)):
        gap = epsilon - slope * squares - sign * 0.5 * rows * math.log1p(-share)
        beyond = np.exp(np.minimum(gap, 700.0)) * ndtr(-gap / mu - mu / 2.0)
        found = np.clip(ndtr(-gap / mu + mu / 2.0) - beyond, 0.0, 1.0)
        worst = max(worst, float(weights @ found))
    return worst


@functools.cache
def mixing_noise(epsilon: float, delta: float, d: int) -> tuple[int, float, float]:
    """Return k, γ̄ and the noise of a gradient."""
    failure = delta / 10.0
    k = max(int(SKETCHES * d), int(SKETCHES * math.log(4.0 * ROUNDS / failure)))
    rows = k * ROUNDS

    def alone(size: float) -> float:  # the sketches and the eigenvalue, for half of ε
        found = mixing_delta(epsilon / 2.0, rows, 1.0 / size, math.sqrt(k) / size)
        return math.log(found + 1e-300) - math.log(0.75 * delta)

    size = brentq(alone, 3.0 + 1.0 / epsilon, 1e6 / epsilon, rtol=1e-4)
    gradient = math.sqrt(ROUNDS) * gaussian_sigma(epsilon / 2.0, delta / 4.0, 1.0)

    def both(factor: float) -> float:
        mu = math.hypot(math.sqrt(k) / (factor * size), math.sqrt(ROUNDS) / (factor * gradient))
        found = mixing_delta(epsilon, rows, 1.0 / (factor * size), mu)
        return math.log(found + 1e-300) - math.log(delta - failure / 4.0)

    factor = brentq(both, 0.1, 3.0, rtol=1e-4)
    return k, factor * size, factor * gradient


def hessian_mixing(rng: np.random.Generator, x: Any, y: Any, epsilon: float, delta: float) -> Any:
    """Return the coefficients of iterative Hessian mixing."""
    d, failure = x.shape[1], delta / 10.0
    k, size, gradient = mixing_noise(epsilon, delta, d)
    gram = x.T @ x
    width = math.sqrt(2.0 * math.log(max(4.0 / delta, 4.0 / failure)))
    lowest = np.linalg.eigvalsh(gram)[0]
    known = max(0.0, lowest - size / math.sqrt(k) * (width - rng.standard_normal()))
    root = np.linalg.cholesky(gram + (max(0.0, size - known) + 1e-9) * np.eye(d))
    beta = np.zeros(d)
    for _ in range(ROUNDS):
        sketch = rng.standard_normal((k, d)) @ root.T
        step = x.T @ np.clip(y - x @ beta, -1.0, 1.0) + gradient * rng.standard_normal(d)
        beta = beta + np.linalg.solve(sketch.T @ sketch / k, step)
    return beta
