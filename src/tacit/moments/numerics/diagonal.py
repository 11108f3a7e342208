"""Gaussians whose variance differs by feature: factor analysis, then third moments without it.

**One diagonal for all.** With means a_k, weights w_k and variances v_i of the features, common to
all components, the covariance of x is Σ w_k (a_k − m)⊗(a_k − m) + diag v: K − 1 directions and a
diagonal, as in factor analysis. Off the diagonal only the means are left, and they determine the
diagonal of what they add wherever r = K − 1 directions leave enough of these entries:
(D − r)² ≥ D + r (Ledermann 1937), means in general position. v is found by unweighted least
squares over all entries off the diagonal (Harman & Jones 1966), as a function of v alone: with λ
and u the leading eigenvalues, if positive, and eigenvectors of C − diag v,

    f(v) = (‖C − diag v‖² − Σ λ²)/2,   ∂f/∂v_i = −((C − diag v)_ii − Σ λ·u_i²).

As many directions are taken as stand out of the noise. The third moment then is
E[x⊗x⊗x] = Σ w_k a_k⊗a_k⊗a_k + the three placements of E[x]⊗diag v, and v is known.

**A diagonal for each.** Features of a sample are independent given its component, so that entries
of E[x⊗x⊗x] with three different indices are those of Σ w_k a_k⊗a_k⊗a_k whatever the variances are.
What is missing from these follows from the components themselves: with y = Uᵀa,
Q = Uᵀ·diag(a²)·U and R = Σ a_i³ u_i⊗u_i⊗u_i, the entries of a⊗a⊗a in which indices repeat are
the placements of y⊗Q, minus 2R. So components in the span of U, which the second moment has shown,
are those whose entries of different indices, second moment and mean agree best with what was seen.
(Whitening and the power method need all entries, and to fill the missing ones in again and again
does not converge where features are few.) Variances then follow from the entries of twice the same
index, i ≠ j: E[x_i²·x_j] = Σ w_k (a_ki² + v_ki)·a_kj.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._core.arrays import Array

Variances = tuple[Array, Array, Array]

__all__ = [
    "common_diagonal",
    "different_indices",
    "enough",
    "fit_different",
    "own_diagonals",
    "placements",
]

_SEARCH = 200  # steps of the search for a diagonal
_STARTS = 12
_TRIED = 25  # steps from each start, before the best one goes on
_WHOLE = 256  # features from which leading eigenvectors alone are computed


def enough(size: int, directions: int) -> bool:
    """Whether so many directions and a diagonal follow from the entries off the diagonal.

    >>> [enough(size, 1) for size in (2, 3)], [enough(size, 3) for size in (5, 6)]
    ([False, True], [False, True])
    """
    return directions == 0 or (size - directions) ** 2 >= size + directions


def common_diagonal(
    covariance: Any, directions: int, edge: float = 0.0, start: Any = None
) -> Array:
    """Return v: the diagonal beside which a covariance has so many directions at most.

    Parameters
    ----------
    covariance
        C, with noise.
    directions
        r.
    edge
        Where the spectrum of its noise ends: directions below are not taken.
    start
        Where the search begins.

    Examples
    --------
    >>> across = np.array([1.0, 2.0, -1.0, 1.0])
    >>> common_diagonal(np.outer(across, across) + np.diag([1.0, 2.0, 3.0, 4.0]), 1).round(4)
    array([1., 2., 3., 4.])
    """
    from scipy.optimize import minimize

    c = np.asarray(covariance, np.float64)
    whole = np.maximum(np.diag(c), 0.0)
    apart = c - np.diag(np.diag(c))
    directions = min(directions, int((_leading(apart, directions)[0] > edge).sum()))
    if not directions:
        return whole
    scale = max(float(whole.max()), 1e-300)

    def value(v: Array) -> tuple[float, Array]:
        rest = (c - np.diag(v * scale)) / scale
        levels, vectors = _leading(rest, directions)
        levels = np.maximum(levels, 0.0)
        own = np.square(vectors) @ levels
        lost = 0.5 * (float(np.square(rest).sum()) - float(np.square(levels).sum()))
        return lost, own - np.diag(rest)

    begin = 0.5 * whole if start is None else np.clip(start, 0.0, whole)
    bounds = [(0.0, one) for one in whole / scale]
    options = {"maxiter": _SEARCH, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(
        value, begin / scale, jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return np.asarray(found.x * scale)


def _leading(matrix: Array, number: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues and their eigenvectors as columns."""
    if len(matrix) <= max(_WHOLE, 4 * number):
        values, vectors = np.linalg.eigh(matrix)
    else:
        from scipy.sparse.linalg import eigsh

        begin = np.ones(len(matrix))
        values, vectors = eigsh(matrix, number, which="LA", v0=begin)
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
    return values[::-1][:number], vectors[:, ::-1][:, :number]


def placements(vector: Array, matrix: Array) -> Array:
    """Return the sum of the three placements of a vector beside a symmetric matrix."""
    placed = vector[:, None, None] * matrix
    return np.asarray(placed + placed.transpose(1, 0, 2) + placed.transpose(1, 2, 0))


def repeated(components: Array, mass: Array, basis: Array) -> Array:
    """Return, along a basis, the entries of Σ mass_k a_k⊗a_k⊗a_k in which indices repeat."""
    inside, rank = components @ basis, basis.shape[1]
    squares = (basis[:, :, None] * basis[:, None, :]).reshape(len(basis), -1)
    beside = (mass[:, None] * inside).T @ (np.square(components) @ squares)
    placed = beside.reshape((rank,) * 3)
    cubes = ((basis.T * (mass @ components**3)) @ squares).reshape((rank,) * 3)
    whole = placed + placed.transpose(1, 0, 2) + placed.transpose(1, 2, 0)
    return np.asarray(whole - 2.0 * cubes)


class _Problem:
    """Weighted squares of what moments of different indices say about means in a subspace.

    Means are a_k = U·y_k. Of a residual E, symmetric, the slope of ⟨E, Σ a_i·a_j·a_l u_i⊗u_j⊗u_l⟩
    over different i, j, l along a_i is
    3·(E(u_i, y, y) − ⟨E(u_i), Q⟩ − 2a_i·E(u_i, u_i, y) + 2a_i²·E(u_i, u_i, u_i)). Beforehand y_k
    is normal around E[x] with twice the variance that the second moment shows along every
    direction, and weights are Dirichlet(2): what noise hides is not made up.
    """

    def __init__(
        self, different: Array, inside: Array, mean: Array, basis: Array, variances: Variances
    ) -> None:
        self.rank, self.basis = len(inside), basis
        self.seen = mean, np.diag(inside), different
        self.sure = [1.0 / one for one in variances]
        self.wide = 2.0 * np.maximum(inside, 0.0) + 1e-9  # where nothing stands out, E[x]

    def unpacked(self, x: Array) -> tuple[Array, Array]:
        """Return y_k as rows, and weights."""
        heavy = np.exp(x[-self.rank :] - x[-self.rank :].max())
        return x[: -self.rank].reshape(self.rank, self.rank), heavy / heavy.sum()

    def value(self, x: Array) -> tuple[float, Array]:
        """Return the objective and its gradient."""
        y, w = self.unpacked(x)
        a, u = y @ self.basis.T, self.basis
        models = w @ y, (y.T * w) @ y, different_indices(a, w, u)
        slopes, total = [], 0.0
        for seen, sure, model in zip(self.seen, self.sure, models, strict=True):
            far = model - seen
            slopes.append(sure * far)
            total += 0.5 * float((sure * far * far).sum())
        first, second, third = slopes
        along = np.einsum("ia,abc->ibc", u, third, optimize=True)  # E(u_i)
        twice = np.einsum("ib,ibc->ic", u, along, optimize=True)  # E(u_i, u_i)
        thrice = (u * twice).sum(axis=1)
        by_y, by_w = np.empty_like(y), np.empty(self.rank)
        for k, (own, inner) in enumerate(zip(a, y, strict=True)):
            inner_square = np.outer(inner, inner) - (u.T * np.square(own)) @ u
            slope = np.einsum("ibc,bc->i", along, inner_square, optimize=True)
            slope -= 2.0 * own * (twice @ inner) - 2.0 * np.square(own) * thrice
            by_w[k] = first @ inner + inner @ second @ inner + float(own @ slope)
            by_y[k] = w[k] * (first + 2.0 * second @ inner + 3.0 * (slope @ u))
        off = y - self.seen[0]
        total += 0.5 * float((off * off / self.wide).sum()) - float(np.log(w + 1e-300).sum())
        by_x = w * (by_w - float(w @ by_w)) - (1.0 - self.rank * w)
        return total, np.concatenate([(by_y + off / self.wide).ravel(), by_x])


def different_indices(components: Array, mass: Array, basis: Array) -> Array:
    """Return, along a basis, the entries of Σ mass_k a_k⊗a_k⊗a_k with three different indices."""
    inside = components @ basis
    total = np.einsum("k,ka,kb,kc->abc", mass, inside, inside, inside, optimize=True)
    return np.asarray(total - repeated(components, mass, basis))


def fit_different(
    different: Array,
    inside: Array,
    mean: Array,
    basis: Array,
    variances: Variances,
    rng: np.random.Generator,
    begin: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return the components (rows) and weights that agree best with moments, the heaviest first.

    Parameters
    ----------
    different, inside, mean
        Per sample: entries of the third moment with three different indices along the basis, the
        eigenvalues of Σ w_k a_k⊗a_k, and E[x] along it.
    basis
        U.
    variances
        Those of the entries of E[x] and of the second and the third moment.
    rng
        For the starts.
    begin
        Components and weights to start from, alone.
    """
    from scipy.optimize import minimize

    problem = _Problem(different, inside, mean, basis, variances)
    best: Any = None

    def descend(start: Array, most: int) -> Any:
        options = {"maxiter": most, "maxfun": 2 * most}
        return minimize(problem.value, start, jac=True, method="L-BFGS-B", options=options)

    begins = _begins(inside, rng) if begin is None else [(begin[0] @ basis, begin[1])]
    for y, w in begins:
        found = descend(np.concatenate([y.ravel(), np.log(np.maximum(w, 1e-3))]), _TRIED)
        if best is None or found.fun < best.fun:
            best = found
    y, w = problem.unpacked(descend(best.x, _SEARCH).x)
    order = np.argsort(-w, kind="stable")
    return (y @ basis.T)[order], w[order]


def _begins(inside: Array, rng: np.random.Generator) -> list[tuple[Array, Array]]:
    """Return random components, along the basis, that have the second moment that was seen."""
    rank, begins = len(inside), []
    for _ in range(_STARTS if rank > 1 else 1):
        turn = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
        w = rng.dirichlet(np.full(rank, 5.0))
        begins.append((np.sqrt(np.maximum(inside, 0.0)) * turn / np.sqrt(w)[:, None], w))
    return begins


def own_diagonals(
    components: Array,
    mass: Array,
    common: Array,
    beside: Array,
    basis: Array,
    sd: float,
) -> Array:
    """Return v_ki of every component and feature, none below zero.

    Parameters
    ----------
    components, mass
        a_k as rows, and N·w_k.
    common
        Σ w_k v_ki: what the covariance says of a feature.
    beside
        N·Σ w_k (a_ki² + v_ki)·a_kj over j ≠ i, along the basis: features × K.
    basis
        U.
    sd
        The standard deviation of the noise of one of its numbers.

    Notes
    -----
    For every feature K equations, and Σ w_k v_ki = v_i; with a normal prior of standard deviation
    v_i around v_i, so that what noise hides of a variance is that of all.
    """
    rank, inside = len(mass), components @ basis
    count = max(float(mass.sum()), 1.0)
    share = mass / count
    found = np.empty_like(components)
    for i, own in enumerate(components.T):
        along = (mass[:, None] * (inside - own[:, None] * basis[i])).T  # K numbers × component
        gap = beside[i] - along @ (np.square(own) + common[i])
        prior = max(float(common[i]), 1e-12)
        # x_i²·(u·x) of one sample has about this variance
        each = 3.0 * (prior + float(share @ np.square(own))) ** 2
        seen = np.square(inside).T @ mass + count * float(common.mean())
        precision = 1.0 / (sd**2 + each * seen + 1e-300)
        sure = count / (2.0 * prior**2)
        normal = (along.T * precision) @ along + np.eye(rank) / prior**2
        normal = normal + sure * np.outer(share, share)
        found[:, i] = common[i] + np.linalg.solve(normal, (along.T * precision) @ gap)
    return np.maximum(found, 0.0)
