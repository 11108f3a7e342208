"""A Gaussian projection Φ (q × m) that is never stored: every entry follows from a public seed.

Entry (s, j) is a normal number of variance 1/q made from a 64-bit mix of seed, s and j, so that a
server and any device agree on it, whichever part they need. The pseudo-inverse
Φ⁺ = Φᵀ(ΦΦᵀ)⁻¹ needs the q × q matrix ΦΦᵀ once, summed over blocks of columns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tacit._core.check import Integer, check
from tacit._core.kernels import compiled
from tacit._core.threads import over_range
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember

__all__ = ["Projection", "projected_gradients"]

_BLOCK = 1024  # columns at a time


def _entry(seed: Any, row: Any, column: Any) -> float:
    """Return a standard normal number for one entry (SplitMix64, then Box–Muller)."""
    z = seed + np.uint64(row) * np.uint64(0x9E3779B97F4A7C15)
    for _ in range(2):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = (z ^ (z >> np.uint64(31))) + np.uint64(column) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = z ^ (z >> np.uint64(31))
    first = (np.float64(z >> np.uint64(32)) + 0.5) / 4294967296.0
    second = np.float64(z & np.uint64(0xFFFFFFFF)) / 4294967296.0
    return float(math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second))


def _fill(first: int, last: int, seed: Any, column: int, scale: float, out: Any) -> None:
    for s in range(first, last):
        for k in range(out.shape[1]):
            out[s, k] = scale * _entry_compiled(seed, s, column + k)


def _gradients(
    first: int, last: int, errors: Any, rows: Any, sizes: Any, seed: Any, scale: float, out: Any
) -> None:
    starts, items, values = errors.starts, errors.items, errors.values
    for i in range(first, last):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += _entry_compiled(seed, rows[i], items[k]) * values[k]
        out[i] = -2.0 * scale * sizes[i] * total


_entry_compiled = compiled(_entry)


class Projection:
    """Φ with q rows and m ≥ q columns, entries of variance 1/q.

    The seed is public, and shared by the server and all devices.
    """

    def __init__(self, rows: int, columns: int, seed: int) -> None:
        check("columns", columns, Integer(1))
        check("rows", rows, Integer(1, columns))
        self.rows, self.columns = rows, columns
        self.seed = np.uint64(seed % 2**64)
        self.scale = 1.0 / math.sqrt(rows)
        self._factor: Any = None

    def block(self, first: int, last: int) -> Floats:
        """Return columns first … last − 1."""
        out = np.empty((self.rows, last - first))
        over_range(compiled(_fill), self.rows, self.seed, first, self.scale, out)
        return out

    def blocks(self) -> Any:
        """Yield (first, last, columns) one block after the other."""
        for first in range(0, self.columns, _BLOCK):
            last = min(first + _BLOCK, self.columns)
            yield first, last, self.block(first, last)

    def forward(self, whole: Floats) -> Floats:
        """Return Φ·whole, (q, width)."""
        out = np.zeros((self.rows, whole.shape[1]))
        for first, last, part in self.blocks():
            out += part @ whole[first:last]
        return out

    def back(self, projected: Floats) -> Floats:
        """Return Φ⁺·projected, (m, width)."""
        if self._factor is None:
            gram = np.zeros((self.rows, self.rows))
            for _, _, part in self.blocks():
                gram += part @ part.T
            self._factor = cho_factor(gram, overwrite_a=True)
        solved = cho_solve(self._factor, projected)
        out = np.empty((self.columns, projected.shape[1]))
        for first, last, part in self.blocks():
            out[first:last] = part.T @ solved
        return out


def projected_gradients(
    errors: ByMember, rows: Integers, sizes: Floats, projection: Projection
) -> Floats:
    """Return one coordinate of every user's projected gradient, −2·Σ_j φ_sj·e_ij·u_il.

    Errors e stand by user; ``rows`` are the s that users drew, ``sizes`` their u_il.
    """
    out = np.empty(len(rows))
    seed, scale = projection.seed, projection.scale
    over_range(compiled(_gradients), len(rows), errors, rows, sizes, seed, scale, out)
    return out
