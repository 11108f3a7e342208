"""Proposals for the S_j of `wishart.kernel`, of one site and of all at once."""

from __future__ import annotations

import math
from typing import Any

from tacit._core.linear import (
    bartlett,
    fill,
    inlined,
    log_diagonal,
    lower_product,
    squared_norm_of_inverse,
)

__all__ = ["common_shift", "logistic", "propose_shift", "propose_wishart", "reference"]


@inlined
def logistic(x: float) -> float:
    """Map a real number to (0, 1)."""
    return 1.0 / (1.0 + math.exp(-x))


@inlined
def reference(
    j: int,
    seen: Any,
    grams: Any,
    rows: Any,
    freedom: float,
    noise_var: float,
    mean: Any,
    variance: Any,
) -> None:
    """Entry by entry: what Ŝ_j and the other sites say about S_j, as a Gaussian."""
    count, d = grams.shape[0], grams.shape[1]
    others = 0.0
    fill(mean, 0.0)
    for k in range(count):
        if k != j:
            others += rows[k]
            for a in range(d):
                for b in range(a + 1):
                    mean[a, b] += grams[k, a, b]
    scale = rows[j] / others if count > 1 else 0.0
    for a in range(d - 1, -1, -1):  # diagonals last: off the diagonal their sums are needed
        for b in range(d):
            if b < a:
                noise = 0.5 * noise_var
                spread = mean[a, a] * mean[b, b] * scale * scale / freedom * (1.0 + scale)
                if count == 1:
                    spread = 1e30
                center = mean[a, b] * scale
                variance[a, b] = spread / (spread + noise) * noise
                mean[a, b] = center + spread / (spread + noise) * (seen[a, b] - center)
        center = mean[a, a] * scale
        spread = 2.0 * center * center / freedom * (1.0 + scale)
        if count == 1:
            spread = 1e30
        variance[a, a] = spread / (spread + noise_var) * noise_var
        mean[a, a] = center + spread / (spread + noise_var) * (seen[a, a] - center)


@inlined
def propose_wishart(
    rng: Any, factor: Any, alpha: float, triangle: Any, work: Any, out: Any
) -> Any:
    """Draw the factor of S' ~ W(S/α, α); return log q(S | S') − log q(S' | S)."""
    d = factor.shape[0]
    bartlett(rng, alpha, triangle)
    lower_product(factor, triangle, 1.0 / math.sqrt(alpha), out)
    norm = 0.0
    for i in range(d):
        for k in range(i + 1):
            norm += triangle[i, k] * triangle[i, k]
    growth = 2.0 * log_diagonal(triangle) - d * math.log(alpha)  # log|S'| − log|S|
    inverse = squared_norm_of_inverse(triangle, work)
    return -(alpha - 0.5 * (d + 1)) * growth + 0.5 * (norm - alpha * alpha * inverse)


@inlined
def propose_shift(rng: Any, gram: Any, mean: Any, variance: Any, rho: float, out: Any) -> float:
    """Draw S' reversibly for N(mean, variance); return log φ(S) − log φ(S')."""
    keep = math.sqrt(1.0 - rho * rho)
    ratio = 0.0
    for a in range(gram.shape[0]):
        for b in range(a + 1):
            sd = math.sqrt(variance[a, b])
            old = (gram[a, b] - mean[a, b]) / sd
            new = keep * old + rho * rng.standard_normal()
            ratio += 0.5 * (new * new - old * old)
            out[a, b] = mean[a, b] + sd * new
            out[b, a] = out[a, b]
    return ratio


@inlined
def common_shift(
    rng: Any, seen: Any, grams: Any, noise: Any, shares: Any, rho: float, out: Any
) -> None:
    """Draw Δ of S_j' = S_j + share_j·Δ, reversibly for Π_j p(Ŝ_j | S_j) along Δ."""
    keep = math.sqrt(1.0 - rho * rho)
    precision = 0.0
    for j in range(grams.shape[0]):
        if noise[j, 0] > 0.0:
            precision += shares[j] * shares[j] / noise[j, 0]
    for a in range(grams.shape[1]):
        for b in range(a + 1):
            twice = 2.0 if a == b else 1.0
            gap = 0.0
            for j in range(grams.shape[0]):
                if noise[j, 0] > 0.0:
                    gap += shares[j] / noise[j, 0] * (seen[j, a, b] - grams[j, a, b])
            sd = math.sqrt(0.5 * twice / precision)
            out[a, b] = (1.0 - keep) * gap / precision + rho * sd * rng.standard_normal()
            out[b, a] = out[a, b]
