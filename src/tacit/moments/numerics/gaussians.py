"""Second and third moments of a mixture of Gaussians (Hsu & Kakade 2013).

Spherical ones first.

With means a_k, weights w_k and a common variance v per coordinate, E[x⊗x] = Σ w_k a_k⊗a_k + v·I,
and E[x⊗x⊗x] = Σ w_k a_k⊗a_k⊗a_k + v·(three placements of E[x]⊗I). The covariance of x has v as its
eigenvalue in the D − K + 1 directions in which the means do not differ.

**A variance for each** (theorem 1 there). With variances v_k of their own, v is their mean
Σ w_k v_k, and b = Σ w_k v_k a_k takes the place of v·E[x] in the third moment. Along the r
directions of P, in which no mean lies, b = E[x·xᵀPx]/r. Once weights and means are known,
b = Σ w_k v_k a_k gives v_k.

**A variance for each feature**: diag v in the place of v·I (`tacit.moments.numerics.diagonal`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.moments.numerics.diagonal import (
    common_diagonal,
    fit_different,
    own_diagonals,
    placements,
)
from tacit.moments.numerics.sums import CONSTANT

__all__ = ["GaussianMoments", "gaussian_moments", "turned_within"]


@dataclass(frozen=True)
class GaussianMoments:
    """What the summed second moment of (½, z) says about a mixture."""

    count: float
    total: Array
    along: Array  # the variance of every coordinate
    values: Array  # leading eigenvalues of Σ z⊗z − count·diag(along)
    basis: Array  # its eigenvectors

    @property
    def variance(self) -> float:
        """That of a coordinate, on average."""
        return float(self.along.mean())

    @property
    def inner(self) -> Array:
        """diag(along) in the basis."""
        return np.asarray((self.basis.T * self.along) @ self.basis)

    def corrected(self, third: Array, pulled: Array | None = None) -> Array:
        """Return the third moment in the basis without the Gaussians' own part.

        ``pulled`` is N·b in the basis, where every component has a variance of its own.
        """
        if pulled is not None:
            return np.asarray(third - placements(pulled, np.eye(len(pulled))))
        return np.asarray(third - placements(self.basis.T @ self.total, self.inner))

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

    def by_feature(
        self,
        different: Array,
        beside: Array,
        inside: Array,
        noise: tuple[float, float],
        rng: np.random.Generator,
        begin: tuple[Array, Array] | None = None,
    ) -> tuple[Array, Array, Array]:
        """Return means, N·w_k and variances of components that have a variance for each feature.

        Parameters
        ----------
        different, beside
            Of the third moment: what has three different indices, in the basis, and what has two
            equal ones, features × K.
        inside
            Eigenvalues without the noise.
        noise
            Its standard deviations: on the diagonal of the second moment, and along a direction of
            the third.
        rng
            For the starts.
        begin
            Means and weights to start from, alone.

        Notes
        -----
        Sampling is taken to move an entry by √N times the typical length of a sample along each of
        its indices.
        """
        mean, count = self.basis.T @ self.total / self.count, self.count
        along = np.maximum(inside / count + np.diag(self.inner), 1e-12)
        pairs, squares = np.outer(along, along), count**2
        variances = (
            (2.0 * noise[0] ** 2 + count * along) / squares,
            (noise[0] ** 2 + count * pairs) / squares,
            (noise[1] ** 2 + count * np.multiply.outer(pairs, along)) / squares,
        )
        moments = different / count, inside / count, mean
        means, weights = fit_different(*moments, self.basis, variances, rng, begin)
        mass, sd = weights * count, noise[1] / np.sqrt(3.0)
        spreads = own_diagonals(means, mass, self.along, beside, self.basis, sd)
        return means, mass, spreads


def gaussian_moments(
    matrix: Any, rank: int, basis: Any = None, *, edge: float | None = None, start: Any = None
) -> GaussianMoments:
    """Read the moments of K = ``rank`` Gaussians off a (noisy) sum of (½, z)⊗(½, z).

    Parameters
    ----------
    matrix, rank
        That sum, and K.
    basis
        In whose span eigenvectors are sought, where one is given.
    edge
        None for spherical Gaussians: the variance is the mean of the D − K + 1 smallest
        eigenvalues of the covariance, since noise on a single one would be far larger. Else every
        feature has a variance, and this is where the spectrum of the matrix's noise ends.
    start
        Where the search for these variances begins.
    """
    matrix = np.asarray(matrix, np.float64)
    count = max(float(matrix[0, 0]) / CONSTANT**2, 1.0)
    total, square = matrix[0, 1:] / CONSTANT, matrix[1:, 1:]
    covariance = square / count - np.outer(total, total) / count**2
    if edge is None:
        small = np.linalg.eigvalsh(covariance)[: len(total) - rank + 1]
        along = np.full(len(total), max(float(small.mean()), 0.0))
    else:
        along = common_diagonal(covariance, rank - 1, edge / count, start)
    rest = square - count * np.diag(along)
    u = np.eye(len(total)) if basis is None else np.asarray(basis, np.float64)
    vectors, values = turned_within(u.T @ rest @ u, u)
    leading = np.ascontiguousarray(vectors[:, :rank])
    return GaussianMoments(count, total, along, values[:rank], leading)


def turned_within(inside: Any, basis: Any) -> tuple[Array, Array]:
    """Return the basis, turned so that a matrix given in it is diagonal, and its eigenvalues.

    >>> turned_within(np.diag([1.0, 3.0]), np.eye(2))[1].tolist()
    [3.0, 1.0]
    """
    inside = np.asarray(inside, np.float64)
    values, turn = np.linalg.eigh((inside + inside.T) / 2.0)
    return np.asarray(basis @ turn[:, ::-1]), values[::-1]
