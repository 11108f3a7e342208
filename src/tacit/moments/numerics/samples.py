"""Second and third moments of samples, as exact sums on a lattice.

A sample becomes z = (x − centre)/radius, scaled down to norm one, and contributes (½, z)⊗(½, z)
and z⊗z⊗z; the constant carries the count and the sum. Where a public covariance S = LLᵀ is given,
z = L⁻¹(x − centre)/radius: a map of one sample that is public.

**Along a basis** U the latter has the coordinates (Uᵀz)⊗³ (`CUBES`). Two more of its parts serve
Gaussians with variances of their own; neither makes a contribution longer than z⊗z⊗z:

- `ACROSS`: beside these, along the symmetric tensors Sym(u_a⊗P) with P = I − UUᵀ of rank r,
  (u_a·z)·zᵀPz: a variance across U. ‖Sym(u⊗P)‖² is r/3, and these directions are orthogonal to one
  another and to those within U, since PU = 0; so all coordinates together, the latter over √(r/3),
  are no longer than z⊗z⊗z.
- `FEATURES`: of z⊗z⊗z the entries T° with three different indices, along the basis: T°(U, U, U);
  and, over the entries with exactly two equal ones, √3·z_i²·Σ_{j≠i} z_j·u_ja for every feature i
  and direction a. T° and the others are parts of one array; of the others each z_i²·z_j stands
  there three times, which the √3 counts, and U, whose columns are orthonormal, lengthens neither.
  So for a difference of two samples as well, all numbers together are no longer than it.

**Sums without error.** Every sample is rounded to a lattice by itself, and whole numbers are added
(`tacit.moments.numerics.sums`). Rounding D·K ≤ 2^20 numbers more to 2⁻³⁶ moves a contribution by
2⁻²⁷ at most, which `SHRINK` covers.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.kernels import compiled
from tacit.moments.numerics.sums import (
    CONSTANT,
    FINE,
    ROOM,
    SHRINK,
    check_number,
    checked_basis,
    triples,
)

__all__ = ["ACROSS", "CUBES", "FEATURES", "SampleMoments"]

CUBES, ACROSS, FEATURES = "cubes", "across", "features"
_COARSE = 15  # samples: coordinates are whole numbers of 2^-15, so BLAS adds products exactly
_PIECE = 1 << 13


class SampleMoments:
    """The exact moment sums of a holder's samples, samples × features.

    What is not finite counts as the public centre; what is farther from it than the public radius,
    which may be one for each feature, is scaled down to that. ``parts`` says which of the third
    moment is summed, ``turn`` is L⁻¹.
    """

    exponent = -2 * _COARSE
    third_exponent = -FINE

    def __init__(
        self, samples: Any, radius: Any, centre: Any = 0.0, parts: str = CUBES, turn: Any = None
    ) -> None:
        self.samples = np.asarray(samples)
        self.units, self.features = self.samples.shape
        check_number(self.units, "samples")
        self.size = self.features + 1
        self._radius, self._parts, self._turn = radius, parts, turn
        self._centre = np.broadcast_to(np.asarray(centre, np.float64), (self.features,))

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the second moment, the constant's row and column first."""
        return self.size, self.size

    def _pieces(self) -> Any:
        """Yield samples on the lattice: whole numbers of 2^-15 with norm at most one."""
        limit = ROOM - 2.0**-_COARSE * math.sqrt(self.features) / 2.0
        for start in range(0, len(self.samples), _PIECE):
            piece = np.array(self.samples[start : start + _PIECE], np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                piece = piece - self._centre
                if self._turn is not None:
                    compiled(_turned)(piece, self._turn)
                piece /= self._radius
            piece[~np.isfinite(piece).all(axis=1)] = 0.0
            compiled(_onto_ball)(piece, limit, 2.0**_COARSE)
            yield piece

    @cached_property
    def _second(self) -> NDArray[np.int64]:
        total = np.zeros(self.shape, np.int64)
        for piece in self._pieces():
            whole = np.column_stack([np.full(len(piece), CONSTANT * 2.0**_COARSE), piece])
            total += (whole.T @ whole).astype(np.int64)  # sums of whole numbers below 2^44
        return total

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return rows ``start:stop`` and columns ``start:`` of Σ (½, z)⊗(½, z)."""
        return self._second[start:stop, start:]

    def third(self, basis: Any) -> NDArray[Any]:
        """Return `third_sum`: every sample was rounded by itself."""
        return self.third_sum(basis)

    def third_sum(self, basis: Any) -> NDArray[Any]:
        """Return the third moment along a basis as whole numbers of 2^-36, times `SHRINK`.

        Entries at a ≤ b ≤ c come first; Σ (Uᵀz)·zᵀPz/√(r/3), or Σ √3·z_i²·Σ_{j≠i} z_j·u_j for one
        feature after the other, follows where it is asked for.
        """
        basis = checked_basis(basis, self.features)
        rank, unit = basis.shape[1], 2.0**FINE * SHRINK
        sums = np.zeros((rank * (rank + 1) // 2, rank), np.int64)
        sizes = {ACROSS: (rank,), FEATURES: (self.features, rank)}
        more = np.zeros(sizes.get(self._parts, (0,)), np.int64)
        for piece in self._pieces():
            if self._parts == FEATURES:
                piece *= 2.0**-_COARSE
                compiled(_different_sums)(piece, basis, unit, sums)
                compiled(_feature_sums)(piece, basis, math.sqrt(3.0) * unit, more)
                continue
            compiled(_cube_sums)(piece, basis * 2.0**-_COARSE, unit, sums)
            if self._parts == ACROSS:
                part = unit / math.sqrt((self.features - rank) / 3.0)
                compiled(_across_sums)(piece * 2.0**-_COARSE, basis, part, more)
        a, b, c = triples(rank).T
        return np.append(sums[a * rank - a * (a - 1) // 2 + b - a, c], more.ravel())


# --- kernels -----------------------------------------------------------------------------------


def _turned(rows: Any, turn: Any) -> None:
    """Multiply rows with a lower triangular matrix, in place: a row by itself, in one order."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1] - 1, -1, -1):
            total = 0.0
            for k in range(j + 1):
                total += turn[j, k] * rows[i, k]
            rows[i, j] = total


def _onto_ball(rows: Any, limit: float, unit: float) -> None:
    """Scale rows to norm ``limit`` at most and round them to whole numbers, in place."""
    for i in range(rows.shape[0]):
        largest = 0.0
        for j in range(rows.shape[1]):
            largest = max(largest, abs(rows[i, j]))
        squares = 0.0
        for j in range(rows.shape[1]):
            part = rows[i, j] / largest if largest > 1.0 else rows[i, j]
            squares += part * part
        norm = np.sqrt(squares) * max(largest, 1.0)
        scale = unit if norm <= limit else unit * limit / norm
        for j in range(rows.shape[1]):
            rows[i, j] = np.floor(rows[i, j] * scale + 0.5)


def _cube_sums(rows: Any, basis: Any, unit: float, out: Any) -> None:
    """Add up (Uᵀz)⊗³, each sample rounded by itself; no call has more than 2^13 samples."""
    rank = basis.shape[1]
    y = np.empty(rank)
    total = np.zeros(out.shape)
    for i in range(rows.shape[0]):
        y[:] = 0.0
        for j in range(rows.shape[1]):
            for a in range(rank):
                y[a] += rows[i, j] * basis[j, a]
        pair = 0
        for a in range(rank):
            for b in range(a, rank):
                both = y[a] * y[b] * unit
                for c in range(rank):
                    total[pair, c] += np.floor(both * y[c] + 0.5)
                pair += 1
    for pair in range(out.shape[0]):
        for c in range(rank):
            out[pair, c] += np.int64(total[pair, c])


def _across_sums(rows: Any, basis: Any, unit: float, out: Any) -> None:
    """Add up (Uᵀz)·(‖z‖² − ‖Uᵀz‖²), each sample rounded by itself."""
    rank = basis.shape[1]
    y = np.empty(rank)
    for i in range(rows.shape[0]):
        y[:] = 0.0
        rest = 0.0
        for j in range(rows.shape[1]):
            rest += rows[i, j] * rows[i, j]
            for a in range(rank):
                y[a] += rows[i, j] * basis[j, a]
        for a in range(rank):
            rest -= y[a] * y[a]
        rest = max(rest, 0.0) * unit
        for a in range(rank):
            out[a] += np.int64(np.floor(y[a] * rest + 0.5))


def _different_sums(rows: Any, basis: Any, unit: float, out: Any) -> None:
    """Add up Σ z_i·z_j·z_l u_i⊗u_j⊗u_l over different i, j, l, each sample rounded by itself.

    That is y⊗y⊗y less the placements of y⊗Q, and 2·Σ z_i³ u_i⊗u_i⊗u_i more.
    """
    rank = basis.shape[1]
    y = np.empty(rank)
    square = np.empty((rank, rank))
    cube = np.empty(out.shape)
    total = np.zeros(out.shape)
    for n in range(rows.shape[0]):
        y[:] = 0.0
        square[:] = 0.0
        cube[:] = 0.0
        for i in range(rows.shape[1]):
            z = rows[n, i]
            pair = 0
            for a in range(rank):
                one = z * basis[i, a]
                y[a] += one
                for b in range(a, rank):
                    two = one * z * basis[i, b]
                    square[a, b] += two
                    for c in range(b, rank):
                        cube[pair, c] += two * z * basis[i, c]
                    pair += 1
        pair = 0
        for a in range(rank):
            for b in range(a, rank):
                both = y[a] * y[b] - square[a, b]
                for c in range(b, rank):
                    value = both * y[c] - y[b] * square[a, c] - y[a] * square[b, c]
                    value += 2.0 * cube[pair, c]
                    total[pair, c] += np.floor(value * unit + 0.5)
                pair += 1
    for pair in range(out.shape[0]):
        for c in range(rank):
            out[pair, c] += np.int64(total[pair, c])


def _feature_sums(rows: Any, basis: Any, unit: float, out: Any) -> None:
    """Add up z_i²·Σ_{j≠i} z_j·u_j, each sample rounded by itself."""
    rank = basis.shape[1]
    y = np.empty(rank)
    for n in range(rows.shape[0]):
        y[:] = 0.0
        for i in range(rows.shape[1]):
            for a in range(rank):
                y[a] += rows[n, i] * basis[i, a]
        for i in range(rows.shape[1]):
            z = rows[n, i]
            square = z * z * unit
            for a in range(rank):
                out[i, a] += np.int64(np.floor(square * (y[a] - z * basis[i, a]) + 0.5))
