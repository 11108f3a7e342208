"""Isotropic Gaussian noise on a symmetric matrix that is never stored.

**The release** is the symmetric matrix A + E on a grid of step g. A is a sum of contributions,
exact on a finer lattice and rounded to the grid by integer shifts; E has independent entries on
and above the diagonal, N(0, τ²) on it and N(0, τ²/2) off it, rounded to whole steps. That is
Sym(G) of an i.i.d. N(0, τ²) matrix G: the Gaussian mechanism on symmetric matrices for a Frobenius
sensitivity. Rounding a sum moves each of the D² entries by half a step on either side, so the
sensitivity grows by at most g·D, which `noise_multiplier` counts.

**What is computed** are products (A + E)·V. A block of rows of A + E is put together as whole
numbers, and only then multiplied. So every product is a function of A + E and of nothing else, in
floating point too: post-processing. (A·V + E·V, computed apart, would not be: its rounding errors
know A and E one by one.) The noise of a block comes from a stream that begins at the block's
number, so each product sees the same E; a block is 512 rows, and D² numbers are never held.

With V in whole numbers products are whole numbers modulo 2⁶⁴. Those of several holders add up to
the product of the sum of their matrices, without any error: what a secure sum needs.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from tacit._core import exact
from tacit._core.rng import KeyedWords
from tacit.errors import ParameterError
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.noise import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BLOCK", "NoisyOperator", "OperatorGaussian", "SymmetricSum"]

BLOCK = 512  # rows of a block
# D·g against τ: 6e-4 for D = 10,000; every doubling doubles the draws that need exact arithmetic
_BITS = 24


class SymmetricSum(Protocol):
    """A sum of symmetric matrices, exact on a lattice."""

    exponent: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape."""

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return rows ``start:stop`` and columns ``start:`` in steps of 2^exponent."""


@dataclass(frozen=True)
class OperatorGaussian(GaussianShare):
    """Isotropic noise on a D × D symmetric matrix; the release is a `NoisyOperator`.

    ``scale`` is τ, the standard deviation on the diagonal; ``shape`` is (D, D). The value is a
    `SymmetricSum`, or an array whose symmetric part counts.

    >>> from tacit.privacy.ledger.ledger import Ledger
    >>> from tacit.mechanisms.base import privatize
    >>> mechanism = OperatorGaussian.for_privacy(1.0, 1e-6, 1.0, (3, 3))
    >>> ledger = Ledger.memory(epsilon=1.0, delta=1e-6)
    >>> noisy = privatize(mechanism, np.eye(3), ledger=ledger, rng=Noise(), delta=1e-6)
    >>> (noisy.apply(np.ones((3, 1))) == noisy.apply(np.ones((3, 1)))).all()
    np.True_
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.shape) != 2 or self.shape[0] != self.shape[1] or self.shape[0] < 1:
            raise ParameterError(f"shape must be (D, D), got {self.shape}")

    @property
    def bits(self) -> int:
        """Log2 of the scale in grid steps."""
        return _BITS

    @property
    def grid(self) -> Grid:
        """The grid; without noise it is 2⁻³⁰ of the sensitivity, with room for 2³² units."""
        if self.scale == 0.0:
            return Grid.for_scale(self.sensitivity, 30)
        return super().grid

    def check(self, value: Any) -> None:
        """Check the shape."""
        found = getattr(value, "shape", None)
        if found is None or tuple(found) != tuple(self.shape):
            raise ParameterError(f"value must have shape {self.shape}, got {found}")

    def draw(self, value: Any, noise: Noise) -> Any:
        """Return a `NoisyOperator`: a fresh key fixes the noise, produced where it is needed."""
        return self.again(value, noise.stream.bits(256).to_bytes(32, "little"))

    def again(self, value: Any, key: bytes) -> NoisyOperator:
        """Return the release whose noise a key fixes, the same whenever it is asked for."""
        return NoisyOperator(self._sum(value), self, key)

    def _sum(self, value: Any) -> SymmetricSum:
        return value if hasattr(value, "rows") else _Array(self.grid, value)

    def distance(self, value: Any, other: Any) -> float:
        """Return the Frobenius norm of the difference of two exact sums over the sensitivity."""
        ours, theirs, total = self._sum(value), self._sum(other), 0.0
        for start in range(0, self.shape[0], BLOCK):
            stop = min(start + BLOCK, self.shape[0])
            steps = ours.rows(start, stop) - theirs.rows(start, stop)  # of one lattice
            moved = np.ldexp(steps.astype(np.float64), ours.exponent)
            square = moved[:, : stop - start]  # the columns after it stand in two rows
            total += 2.0 * float(np.square(moved).sum()) - float(np.square(square).sum())
        return math.sqrt(total) / self.sensitivity


class _Array:
    """An array as a sum: its symmetric part, rounded to the grid."""

    def __init__(self, grid: Grid, value: Any) -> None:
        array = np.nan_to_num(np.asarray(value, np.float64), posinf=0.0, neginf=0.0)
        self._integers = grid.round(array / 2.0 + array.T / 2.0)
        self.exponent = grid.exponent
        self.shape: tuple[int, int] = self._integers.shape

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        return self._integers[start:stop, start:]


class NoisyOperator:
    """A released symmetric matrix, of which products are computed and no entry is kept.

    It holds the exact sum and the key of the noise, so it stays with the holder: only what
    `apply` returns may leave. It cannot be pickled.
    """

    def __init__(self, source: SymmetricSum, mechanism: OperatorGaussian, key: bytes) -> None:
        self._source, self._mechanism, self.key = source, mechanism, key
        self._keys = KeyedWords(int.from_bytes(key, "little"))
        self.shape = mechanism.shape

    def fingerprint(self) -> bytes:
        """Return a digest of the exact sum: the holder's own, as secret as the sum itself."""
        digest, size = hashlib.sha256(), self.shape[0]
        for start in range(0, size, BLOCK):
            rows = self._source.rows(start, min(start + BLOCK, size))
            digest.update(np.ascontiguousarray(rows).tobytes())
        return digest.digest()

    @property
    def step(self) -> float:
        """The grid step."""
        return self._mechanism.grid.step

    def apply(self, vectors: Any) -> NDArray[Any]:
        """Return (A + E)·V.

        V has D rows. Floats give floats; int64 gives whole numbers of the grid step times V's
        unit, modulo 2^64.
        """
        vectors = np.ascontiguousarray(vectors)
        whole = vectors.dtype == np.int64
        if vectors.ndim != 2 or vectors.shape[0] != self.shape[0]:
            raise ParameterError(f"vectors must have {self.shape[0]} rows, got {vectors.shape}")
        out = np.zeros(vectors.shape, np.int64 if whole else np.float64)
        for start, stop, integers in self._blocks():
            # whole numbers below 2^53: the conversion is exact
            block = integers if whole else integers.astype(np.float64)
            out[start:stop] += block @ vectors[start:]
            out[stop:] += block[:, stop - start :].T @ vectors[start:stop]
        return out if whole else out * self.step

    def _blocks(self) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield blocks of rows of A + E on the grid, columns from the diagonal on."""
        size = self.shape[0]
        shift = self._source.exponent - self._mechanism.grid.exponent
        edges = [(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
        if len(edges) == 1:  # nothing to do beside it: threads would take longer than the block
            yield 0, size, self._noise(0, size) + _shifted(self._source.rows(0, size), shift)
            return
        with ThreadPoolExecutor(2) as pool:
            # two blocks of noise are on their way while a third is multiplied
            waiting: deque[Future[Any]] = deque(pool.submit(self._noise, *e) for e in edges[:2])
            for number, (start, stop) in enumerate(edges):
                total = _shifted(self._source.rows(start, stop), shift)
                noise = waiting.popleft().result()
                if number + 2 < len(edges):
                    waiting.append(pool.submit(self._noise, *edges[number + 2]))
                noise += total  # a block is 40 MB for D = 10,000: no more of them than needed
                del total
                yield start, stop, noise

    def _noise(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the noise of a block: the same whenever it is asked for."""
        rows, columns = stop - start, self.shape[0] - start
        mechanism = self._mechanism
        if mechanism.scale == 0.0:
            return np.zeros((rows, columns), np.int64)
        stream, law = self._keys.block(start // BLOCK), exact.half_normal()
        scale = math.ldexp(mechanism.scale, -mechanism.grid.exponent)
        scale /= math.sqrt(mechanism.shares)
        diagonal = law.integers(stream, rows, scale, offset=0.5, signed=True)
        whole = law.integers(
            stream, rows * columns, scale * math.sqrt(0.5), offset=0.5, signed=True
        ).reshape(rows, columns)
        square = np.triu(whole[:, :rows], 1)
        whole[:, :rows] = square + square.T
        np.fill_diagonal(whole, diagonal)
        return whole

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole matrix, for small ones."""
        return np.asarray(self.apply(np.eye(self.shape[0])), dtype)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a noisy operator cannot be pickled: it holds what its noise hides")


def _shifted(integers: NDArray[np.int64], shift: int) -> NDArray[np.int64]:
    """Return integers·2^shift, rounded to the nearest whole number."""
    if shift >= 0:
        return integers << shift
    moved = integers + (1 << (-shift - 1))
    moved >>= -shift
    return moved
