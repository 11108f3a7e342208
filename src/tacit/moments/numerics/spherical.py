"""Second and third moments of a mixture of spherical Gaussians (Hsu & Kakade 2013).

With means a_k, weights w_k and a common variance v per coordinate, E[x⊗x] = Σ w_k a_k⊗a_k + v·I,
and E[x⊗x⊗x] = Σ w_k a_k⊗a_k⊗a_k + v·(three placements of E[x]⊗I). The covariance of x has v as its
eigenvalue in the D − K + 1 directions in which the means do not differ.

**A variance for each** (theorem 1 there). With variances v_k of their own, v is their mean
Σ w_k v_k, and b = Σ w_k v_k a_k takes the place of v·E[x] in the third moment. Along the r
directions of P, in which no mean lies, b = E[x·xᵀPx]/r. Once weights and means are known,
b = Σ w_k v_k a_k gives v_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.moments.numerics.sums import CONSTANT

__all__ = ["SphericalMoments", "spherical_moments", "turned_within"]


@dataclass(frozen=True)
class SphericalMoments:
    """What the summed second moment of (½, z) says about a mixture."""

    count: float
    total: Array
    variance: float  # of a coordinate
    values: Array  # leading eigenvalues of Σ z⊗z − count·variance·I
    basis: Array  # its eigenvectors

    def corrected(self, third: Array, pulled: Array | None = None) -> Array:
        """Return the third moment in the basis without the Gaussians' own part.

        ``pulled`` is N·b in the basis, where every component has a variance of its own.
        """
        mean = self.variance * (self.basis.T @ self.total) if pulled is None else pulled
        placed = mean[:, None, None] * np.eye(len(mean))
        whole = placed + placed.transpose(1, 0, 2) + placed.transpose(1, 2, 0)
        return np.asarray(third - whole)

    def own_variances(self, means: Array, mass: Array, pulled: Array, sd: float) -> Array:
        """Return v_k of every component, none below zero.

        Parameters
        ----------
        means, mass
            a_k as rows, and N·w_k.
        pulled
            N·b in the basis.
        sd
            The standard deviation of its noise.

        Notes
        -----
        N·b − v·Σ N·w_k a_k = Σ N·w_k a_k (v_k − v), solved with a normal prior on v_k − v of
        standard deviation v: what noise and sampling hide of a variance is taken to be the mean of
        all. Of one sample (u·x)·xᵀPx/r has a variance of at most v²(1 + 2/r)·E[(u·x)²].
        """
        rest = len(self.total) - len(pulled)
        inside = (means @ self.basis * mass[:, None]).T
        seen = np.maximum(self.values + self.count * self.variance, 0.0)
        precision = 1.0 / (sd**2 + self.variance**2 * (1.0 + 2.0 / rest) * seen + 1e-300)
        gap = pulled - self.variance * inside.sum(axis=1)
        normal = (inside.T * precision) @ inside + np.eye(len(mass)) / (self.variance**2 + 1e-300)
        apart = np.linalg.solve(normal, (inside.T * precision) @ gap)
        return np.asarray(np.maximum(self.variance + apart, 0.0))


def spherical_moments(matrix: Any, rank: int, basis: Any = None) -> SphericalMoments:
    """Read the moments of K = ``rank`` spherical Gaussians off a (noisy) sum of (½, z)⊗(½, z).

    The variance is the mean of the D − K + 1 smallest eigenvalues of the covariance: noise on a
    single one would be far larger. Eigenvectors are sought in the span of a basis, where one is
    given.
    """
    matrix = np.asarray(matrix, np.float64)
    count = max(float(matrix[0, 0]) / CONSTANT**2, 1.0)
    total, square = matrix[0, 1:] / CONSTANT, matrix[1:, 1:]
    covariance = square / count - np.outer(total, total) / count**2
    small = np.linalg.eigvalsh(covariance)[: len(total) - rank + 1]
    variance = max(float(small.mean()), 0.0)
    u = np.eye(len(total)) if basis is None else np.asarray(basis, np.float64)
    vectors, values = turned_within(u.T @ square @ u - count * variance * np.eye(u.shape[1]), u)
    return SphericalMoments(
        count, total, variance, values[:rank], np.ascontiguousarray(vectors[:, :rank])
    )


def turned_within(inside: Any, basis: Any) -> tuple[Array, Array]:
    """Return the basis, turned so that a matrix given in it is diagonal, and its eigenvalues.

    >>> turned_within(np.diag([1.0, 3.0]), np.eye(2))[1].tolist()
    [3.0, 1.0]
    """
    inside = np.asarray(inside, np.float64)
    values, turn = np.linalg.eigh((inside + inside.T) / 2.0)
    return np.asarray(basis @ turn[:, ::-1]), values[::-1]
