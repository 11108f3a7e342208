"""Draws of a covariance's triangular root."""

from __future__ import annotations

import math
from typing import Any

from tacit._core.linear import inlined

__all__ = ["draw_frame"]


@inlined
def draw_frame(rng: Any, factor: Any, freedom: float, work: Any, out: Any) -> None:
    """Draw C with CCᵀ ~ IW(RRᵀ, F) given R: C·H = R where HᵀH ~ Wishart(I, F)."""
    d = factor.shape[0]
    for i in range(d):
        for k in range(i):
            work[i, k] = rng.standard_normal()
        work[i, i] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (freedom - d + 1 + i)))
    for i in range(d):
        for k in range(d - 1, -1, -1):
            if k > i:
                out[i, k] = 0.0
            else:
                total = factor[i, k]
                for m in range(k + 1, i + 1):
                    total -= out[i, m] * work[m, k]
                out[i, k] = total / work[k, k]
