"""From moments to components: whitening, the floor that known noise sets, and the way back.

Let M₂ = Σ w_k a_k⊗a_k and M₃ = Σ w_k a_k⊗a_k⊗a_k, times the number N of documents. With the
leading eigenvectors U and eigenvalues ℓ of M₂ and s = ℓ^(−½), the tensor M₃(Us, Us, Us) is
orthogonal: its eigenvalues are λ_k = (N·w_k)^(−½) and its eigenvectors v_k give
a_k = λ_k·U(ℓ^½ ∘ v_k).

**Known noise.** Symmetric noise whose diagonal has standard deviation τ (off it τ/√2) has a
spectrum that ends at τ·√(2D), the *edge*. An eigenvalue of M₂ + noise above it, ℓ̂, belongs to an
eigenvector û along which M₂ itself has less: for D large, with ℓ the eigenvalue of M₂ and
v = Dτ²/2, ℓ̂ = ℓ + v/ℓ, the squared cosine of the angle is 1 − v/ℓ², and ûᵀM₂û = ℓ − v/ℓ =
√(ℓ̂² − edge²) (Benaych-Georges & Nadakuditi 2011). That is what whitens the third moment along û.
Below the edge nothing but noise may be there: eigenvalues are floored at the edge, so that a small
or negative one does not blow up the noise of the third moment.

**The way back** is a_k = λ_k·M₂·W·v_k with W = U·s, the whitening as it was done. For M₂ stands
its estimate without the floor, Σ √(ℓ̂² − edge²)·û⊗û. So a direction that may be nothing but noise
adds nothing to a component, and where all are hidden no component differs from the origin (topics:
from the uniform distribution): what is not known is not made up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array

__all__ = ["Whitening", "around", "as_weights", "noise_edge", "onto_simplex", "spread", "whiten"]


@dataclass(frozen=True)
class Whitening:
    """A subspace with the second moment in it."""

    basis: Array  # U, with orthonormal columns
    values: Array  # eigenvalues as found, largest first
    levels: Array  # ℓ: what whitens, after correction and floor
    edge: float  # where the spectrum of the noise ends

    @property
    def inside(self) -> Array:
        """What M₂ itself has along each vector of the basis: not floored, zero if hidden."""
        return _without_noise(self.values, self.edge)

    @property
    def hidden(self) -> int:
        """How many of the eigenvalues do not stand out of the noise."""
        return int((self.values <= self.edge).sum())

    def tensor(self, third: Array) -> Array:
        """Return the whitened tensor of M₃(U, U, U)."""
        s = self.levels**-0.5
        return np.asarray(third * s[:, None, None] * s[:, None] * s)

    def components(self, values: Array, vectors: Array) -> Array:
        """Return a_k as rows, from eigenvalues and eigenvectors (rows) of the tensor."""
        back = self.inside * self.levels**-0.5
        return np.asarray((values[:, None] * vectors * back) @ self.basis.T)

    def heaviest_first(self, values: Array, vectors: Array) -> tuple[Array, Array]:
        """Return a_k as rows and N·w_k, in the order of the latter."""
        mass = np.where(values > 0.0, np.maximum(values, 1e-150) ** -2.0, 0.0)
        order = np.argsort(-mass, kind="stable")
        return self.components(values, vectors)[order], mass[order]


def noise_edge(sd: float, size: int) -> float:
    """Return where the spectrum of isotropic symmetric noise ends: τ·√(2D)."""
    return sd * math.sqrt(2.0 * size)


def whiten(values: Any, basis: Any, edge: float) -> Whitening:
    """Return the whitening of leading eigenvalues and eigenvectors under known noise.

    >>> whiten([5.0, 1.0, -2.0], np.eye(3), 3.0).levels.tolist()
    [4.0, 3.0, 3.0]
    """
    found = np.asarray(values, np.float64)
    levels = np.maximum(_without_noise(found, edge), edge)
    return Whitening(np.asarray(basis, np.float64), found, levels, edge)


def _without_noise(values: Array, edge: float) -> Array:
    """Return √(ℓ̂² − edge²), and zero for what does not stand out."""
    squares = np.maximum(np.square(values) - edge**2, 0.0)
    return np.asarray(np.sqrt(squares) * (values > 0.0))


def as_weights(mass: Array, count: float) -> Array:
    """Return the weights of components of N·w: none has more units than there are.

    >>> as_weights(np.array([30.0, 10.0]), 10.0).tolist()
    [0.5, 0.5]
    """
    mass = np.minimum(mass, max(count, 1.0))
    total = float(mass.sum())
    return mass / total if total > 0.0 else np.full(len(mass), 1.0 / len(mass))


def spread(entries: Any, rank: int) -> Array:
    """Return the symmetric tensor with the given entries at a ≤ b ≤ c."""
    a, b, c = np.sort(np.indices((rank,) * 3).reshape(3, -1), axis=0)
    # place of (a, b, c) in order: all triples that begin lower, then all pairs that do
    first = [math.comb(rank + 2, 3) - math.comb(rank - k + 2, 3) for k in range(rank)]
    place = np.array(first)[a] + (b - a) * (rank - a) - (b - a) * (b - a - 1) // 2 + (c - b)
    return np.asarray(np.asarray(entries, np.float64)[place].reshape((rank,) * 3))


def onto_simplex(rows: Any) -> Array:
    """Return the nearest probability vector of every row.

    >>> onto_simplex([[0.5, 0.7, -1.0]]).round(6).tolist()
    [[0.4, 0.6, 0.0]]
    """
    rows = np.asarray(rows, np.float64)
    ordered = np.sort(rows, axis=1)[:, ::-1]
    excess = np.cumsum(ordered, axis=1) - 1.0
    size = (ordered * np.arange(1, rows.shape[1] + 1) > excess).sum(axis=1)
    shift = excess[np.arange(len(rows)), size - 1] / size
    return np.asarray(np.maximum(rows - shift[:, None], 0.0))


def around(components: Array, white: Whitening, words: Array) -> Array:
    """Return topics that are the words of all documents along what noise hides.

    A component is known along the eigenvectors that stand out of the noise only; the rest of it is
    taken to be that of all documents together, whose words were released by themselves.
    """
    seen = white.basis[:, white.values > white.edge]
    along = (components - words) @ seen
    return onto_simplex(words + along @ seen.T)
