"""How far components would be elsewhere: new samples and new noise, again and again.

From the components that were found follow moments; around these new ones are drawn, with the
sampling of as many units and with the noise of the public law, and the components are found in
them as they were found before. The spread of these replicates is the standard error: it counts
both. Everything here is a function of released numbers and public facts, and the generator is
fixed, so that it is the same every time.

**Sampling** is that of sums over N units. A thousand units are drawn and the deviation of
their sum from what is expected is scaled to N, by the central limit theorem. Documents are taken
to have three words, the fewest that count: longer ones say more, so errors are not too small.

**Close by.** A replicate starts from the components that were found, so that they are not mixed
up; errors hold where components stand out of the noise, which `tacit.moments.signal` looks at.
The second moment's basis is followed to first order: with E the deviation, U the basis and ℓ the
eigenvalues, the part of a new basis outside of U is E·U/ℓ. Sym(G)·U has the law of
U·Sym(G_K) + (I − U·Uᵀ)·H with entries of H of half the variance: no D × D array is formed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.rng import generator
from tacit.moments.numerics.diagonal import different_indices, placements
from tacit.moments.numerics.gaussians import gaussian_moments
from tacit.moments.numerics.joint import JointNoise, noise_of_moments, with_sampling
from tacit.moments.numerics.likelihood import (
    NoisyMoments,
    expected_moments,
    fit_topics,
    symmetric,
)
from tacit.moments.numerics.multisets import Facts, first_beside, first_factor
from tacit.moments.numerics.sums import CONSTANT, entry_weights
from tacit.moments.numerics.whitening import (
    Whitening,
    as_weights,
    noise_edge,
    onto_simplex,
    spread,
    whiten,
)

__all__ = [
    "JOINT",
    "Errors",
    "MomentNoise",
    "joint_errors",
    "mixture_errors",
    "topic_errors",
]

Integers = NDArray[np.int64]

JOINT = "joint_noise"  # of a release
_REPLICATES = 40
_FEWER = 16  # of a fit by search, and its steps from the topics that were found
_AGAIN = 25
_UNITS = 1000  # that are drawn for each
_STEPS = 12  # of power iteration from the components that were found


class MomentNoise(NamedTuple):
    """The noise of released moments: public."""

    second: float  # standard deviation on the diagonal of the second moment
    third: float  # and along an orthonormal basis of the third


class Errors(NamedTuple):
    """Standard errors, in the shape of what they are about."""

    components: Array
    weights: Array
    variance: Any = 0.0  # of all components, or one each
    number: float = 0.0  # of units


def topic_errors(topics: Array, weights: Array, count: float, noise: MomentNoise) -> Errors:
    """Return the standard errors of topics (rows) and weights of ``count`` documents.

    >>> topics = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> quiet = topic_errors(topics, np.array([0.5, 0.5]), 1e6, MomentNoise(0.0, 0.0))
    >>> noisy = topic_errors(topics, np.array([0.5, 0.5]), 1e6, MomentNoise(1e4, 1e4))
    >>> bool((noisy.components > 2 * quiet.components).all())
    True
    """
    rng, rank, size = generator(0, "spread of topics"), len(weights), topics.shape[1]
    mass = np.maximum(weights, 0.0) * max(count, 1.0)
    basis, levels = _leading(topics, mass)
    edge = noise_edge(noise.second, size)
    floored = np.maximum(levels, max(edge, 1e-9 * float(levels[0])))

    def replicate() -> tuple[Array, Array, float, float]:
        words = _drawn_words(rng, topics, weights, min(_UNITS, max(int(count), 1)))
        growth = max(count, 1.0) / len(words)
        moved = _second_times(words, basis) - len(words) / max(count, 1.0) * (
            topics.T * mass @ (topics @ basis)
        )
        moved = moved * np.sqrt(growth) + _operator_noise(rng, basis, noise.second)
        inner = basis.T @ moved
        values, turn = np.linalg.eigh(np.diag(levels) + (inner + inner.T) / 2.0)
        values, turn = values[::-1], turn[:, ::-1]
        outside = (moved - basis @ inner) @ turn / np.maximum(values, floored.min())
        # of a vector with a part outside, the second moment has less inside
        shrunk = np.maximum(values, 0.0) / (1.0 + np.square(outside).sum(axis=0))
        white = whiten(np.hypot(shrunk, edge), np.linalg.qr(basis @ turn + outside)[0], edge)
        u = white.basis
        third = np.einsum("k,ka,kb,kc->abc", mass, *[topics @ u] * 3, optimize=True)
        seen = u[words]
        drawn = _symmetric(seen) - third * (len(words) / max(count, 1.0))
        third = third + drawn * np.sqrt(growth) + _tensor_noise(rng, rank, noise.third)
        found, own = _components(white, third, topics @ u, mass)
        return onto_simplex(found), as_weights(own, count), 0.0, count

    return _spread_of(replicate)


def joint_errors(shared: Mapping[str, Any]) -> Errors:
    """Return the standard errors of topics that were fitted to all pairs and triples.

    Sums are drawn again from what the topics expect, with the noise of the release and with the
    sampling of documents as long as is typical, and topics are fitted from those that were found.
    """
    rng, inner, weights = generator(0, "spread of words"), shared["inner"], shared["weights"]
    numbers, words, places = shared[JOINT].tolist(), shared["words"], shared["places"]
    noise, facts, totals = JointNoise(*numbers[:6]), Facts(*numbers[6:9]), numbers[9:12]
    mixing, inside, kinds = numbers[12], places >= 0, inner.shape[1]
    middle = np.maximum(np.bincount(places[inside], words[inside], minlength=kinds), 1e-9)
    middle = middle / middle.sum()
    many = np.bincount(places[inside], minlength=kinds).astype(np.float64)
    expected = expected_moments(inner, weights, mixing)
    law = noise_of_moments(noise, many)
    blank = NoisyMoments(*expected, *law)
    means = [max(total, 1.0) * part for total, part in zip(totals, expected, strict=True)]
    counted = with_sampling(
        replace(blank, first=means[0], second=means[1], third=means[2]), expected, noise, facts
    )

    def replicate() -> tuple[Array, Array, float, float]:
        drawn = [
            mean + _symmetric_normal(rng, mean.shape) * np.sqrt(variance)
            for mean, variance in zip(
                means,
                (counted.first_variance, counted.second_variance, counted.third_variance),
                strict=True,
            )
        ]
        seen = replace(counted, first=drawn[0], second=drawn[1], third=drawn[2])
        again = fit_topics(
            seen,
            len(weights),
            rng,
            middle=middle,
            mixing=mixing,
            steps=_AGAIN,
            begin=(inner, weights),
            polish=False,
        )
        order = nearest_rows(inner, again.topics)
        return again.topics[order], again.weights[order], 0.0, facts.documents

    found = _spread_of(replicate, _FEWER)
    factor = first_factor(noise.norm)
    own = words / max(float(words.sum()), 1e-300)
    unsure = noise.first * factor / max(totals[0], 1.0)  # of a word's probability
    share = np.where(inside, own / middle[places] / own[inside].sum(), 0.0)
    topics = np.hypot(
        found.components[:, places] * np.minimum(share, 1.0) * own[inside].sum(),
        np.minimum(unsure, own) * (kinds < len(own)),
    )
    return Errors(topics, found.weights, 0.0, noise.first / first_beside(noise.norm))


def nearest_rows(rows: Array, others: Array) -> NDArray[np.intp]:
    """Return which of the other rows belongs to each row, one to one."""
    from scipy.optimize import linear_sum_assignment

    gaps = np.square(rows[:, None] - others).sum(axis=2)
    return np.asarray(linear_sum_assignment(gaps)[1])


def _symmetric_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return standard normal numbers, the same wherever indices are permuted."""
    size = shape[0]
    if len(shape) == 1:
        return rng.standard_normal(size)
    if len(shape) == 2:
        return symmetric(rng.standard_normal(size * (size + 1) // 2), size)
    return spread(rng.standard_normal(len(entry_weights(size))), size)


def mixture_errors(
    means: Array, weights: Array, variances: Array, count: float, noise: MomentNoise, own: bool
) -> Errors:
    """Return the standard errors of Gaussians in the unit ball, and of their number.

    Parameters
    ----------
    means, weights
        Rows of the unit ball, and their weights.
    variances
        Of components, or of components and features.
    count, noise
        How many samples there are, and the noise of their moments.
    own
        Whether every component has variances of its own, and was found so.
    """
    rng, rank, size = generator(0, "spread of Gaussians"), len(weights), means.shape[1]
    edge, units = noise_edge(noise.second, size + 1), min(_UNITS, max(int(count), 1))
    share = np.maximum(weights, 0.0) / max(float(np.sum(np.maximum(weights, 0.0))), 1e-300)
    by_feature, count = variances.ndim == 2, max(count, 1.0)
    along = np.broadcast_to(variances if by_feature else variances[:, None], means.shape)
    sd = np.sqrt(np.maximum(along, 0.0))
    whole = np.column_stack([np.full(rank, CONSTANT), means])
    expected = (whole.T * share) @ whole
    expected[1:, 1:] += np.diag(share @ along)
    growth = np.sqrt(count / units)

    def replicate() -> tuple[Array, Array, Any, float]:
        which = rng.choice(rank, units, p=share)
        drawn = means[which] + sd[which] * rng.standard_normal((units, size))
        rows = np.column_stack([np.full(units, CONSTANT), drawn])
        matrix = count * expected + (rows.T @ rows - units * expected) * growth
        g = rng.standard_normal(matrix.shape)
        matrix = matrix + noise.second * (g + g.T) / 2.0
        limit = edge if by_feature else None
        found = gaussian_moments(matrix, rank, edge=limit, start=share @ along)
        white = whiten(found.values, found.basis, edge)
        u, sample = white.basis, _Sample(drawn, white.basis)

        def scaled(total: Array, exact: Array) -> Array:
            """Return a sum over all samples, from one over those that were drawn."""
            return np.asarray(count * exact + growth * (total - units * exact))

        if own and by_feature:
            third = scaled(sample.different(), different_indices(means, share, u))
            third = third + _tensor_noise(rng, rank, noise.third)
            beside = scaled(sample.beside(), _beside(means, share, along, u))
            beside = beside + noise.third / np.sqrt(3.0) * rng.standard_normal(beside.shape)
            law, begin = (noise.second, noise.third), (means, share)
            fit = found.by_feature(third, beside, white.inside, law, rng, begin)
            order = nearest_rows(means, fit[0])
            shares = as_weights(fit[1][order], found.count)
            return fit[0][order], shares, fit[2][order], found.count
        third = scaled(sample.cubes(), _third(means, share, along, u))
        third = third + _tensor_noise(rng, rank, noise.third)
        mass, pulled, rest = share * count, None, size - rank
        if own:
            across = np.square(means).sum(axis=1) - np.square(means @ u).sum(axis=1)
            mean = (share * (across / rest + variances)) @ (means @ u)
            pulled = scaled(sample.across() / rest, mean)
            pulled = pulled + noise.third / np.sqrt(3.0 * rest) * rng.standard_normal(rank)
        components, heavy = _components(white, found.corrected(third, pulled), means @ u, mass)
        shares = as_weights(heavy, found.count)
        spreads: Any = np.broadcast_to(found.along, means.shape) if by_feature else found.variance
        if pulled is not None:
            sure = noise.third / np.sqrt(3.0 * rest)
            spreads = found.own_variances(components, shares * found.count, pulled, sure)
        return components, shares, spreads, found.count

    return _spread_of(replicate, _FEWER if own and by_feature else _REPLICATES)


class _Sample(NamedTuple):
    """Samples that were drawn, and sums of them along a basis."""

    rows: Array
    basis: Array

    @property
    def inside(self) -> Array:
        return np.asarray(self.rows @ self.basis)

    def cubes(self) -> Array:
        return _symmetric(np.repeat(self.inside[:, None], 3, axis=1))

    def across(self) -> Array:
        beside = np.square(self.rows).sum(axis=1) - np.square(self.inside).sum(axis=1)
        return np.asarray(beside @ self.inside)

    def different(self) -> Array:
        """Return what has three different indices: every sample is a component of its own."""
        return different_indices(self.rows, np.ones(len(self.rows)), self.basis)

    def beside(self) -> Array:
        """Return Σ z_i²·Σ_{j≠i} z_j·u_j."""
        cubes = (self.rows**3).sum(axis=0)
        return np.asarray(np.square(self.rows).T @ self.inside - cubes[:, None] * self.basis)


def _beside(means: Array, share: Array, along: Array, basis: Array) -> Array:
    """Return E[z_i²·Σ_{j≠i} z_j·u_j]."""
    squares = share[:, None] * (np.square(means) + along)
    own = (squares * means).sum(axis=0)
    return np.asarray(squares.T @ (means @ basis) - own[:, None] * basis)


def _spread_of(
    replicate: Callable[[], tuple[Array, Array, Any, float]], times: int = _REPLICATES
) -> Errors:
    """Return the standard deviations of replicates."""
    found = [replicate() for _ in range(times)]
    parts, weights, variances, counts = (np.array(part) for part in zip(*found, strict=True))
    return Errors(
        parts.std(axis=0, ddof=1),
        weights.std(axis=0, ddof=1),
        variances.std(axis=0, ddof=1),
        float(counts.std(ddof=1)),
    )


def _leading(rows: Array, mass: Array) -> tuple[Array, Array]:
    """Return eigenvectors and eigenvalues of Σ mass_k a_k⊗a_k, the largest first."""
    left, lengths, _ = np.linalg.svd((rows * np.sqrt(mass)[:, None]).T, full_matrices=False)
    return np.asarray(left), np.asarray(np.square(lengths))


def _drawn_words(rng: np.random.Generator, topics: Array, weights: Array, units: int) -> Integers:
    """Return three words of each of some documents."""
    share = np.maximum(weights, 0.0)
    own = np.sort(rng.choice(len(share), units, p=share / share.sum()))
    sums = np.cumsum(np.maximum(topics, 0.0), axis=1)
    sums /= sums[:, -1:]
    drawn = np.empty((units, 3), np.int64)
    for k in np.unique(own):
        here = own == k
        drawn[here] = np.searchsorted(sums[k], rng.random((int(here.sum()), 3)), side="right")
    return np.asarray(np.minimum(drawn, topics.shape[1] - 1))


def _second_times(words: Integers, basis: Array) -> Array:
    """Return Σ M₂(d)·U over documents of three words each."""
    total = np.zeros_like(basis)
    rows = basis[words]
    others = rows.sum(axis=1, keepdims=True) - rows
    np.add.at(total, words, others / 6.0)
    return total


def _symmetric(rows: Array) -> Array:
    """Return Σ over units of the symmetric product of their three vectors, (units, 3, K)."""
    first, second, third = rows[:, 0], rows[:, 1], rows[:, 2]
    total = np.einsum("na,nb,nc->abc", first, second, third, optimize=True)
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    return np.asarray(sum(total.transpose(order) for order in orders) / 6.0)


def _third(means: Array, share: Array, along: Array, basis: Array) -> Array:
    """Return E[z⊗z⊗z] of a mixture of Gaussians, along a basis."""
    inside = means @ basis
    third = np.einsum("k,ka,kb,kc->abc", share, inside, inside, inside, optimize=True)
    for y, own, heavy in zip(inside, along, share, strict=True):
        third = third + heavy * placements(y, (basis.T * own) @ basis)
    return np.asarray(third)


def _operator_noise(rng: np.random.Generator, basis: Array, sd: float) -> Array:
    """Return noise of the law of Sym(G)·U."""
    rank = basis.shape[1]
    outside = rng.standard_normal(basis.shape) / np.sqrt(2.0)
    inside = rng.standard_normal((rank, rank))
    return np.asarray(
        sd * (outside - basis @ (basis.T @ outside) + basis @ (inside + inside.T) / 2.0)
    )


def _tensor_noise(rng: np.random.Generator, rank: int, sd: float) -> Array:
    weights = entry_weights(rank)
    return spread(sd * rng.standard_normal(len(weights)) / weights, rank)


def _components(white: Whitening, third: Array, inside: Array, mass: Array) -> tuple[Array, Array]:
    """Return components and masses of a third moment, by power iteration from known ones."""
    tensor = white.tensor(third)
    vectors = inside * white.levels**-0.5 * np.sqrt(np.maximum(mass, 1e-300))[:, None]
    for _ in range(_STEPS):
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
        image = np.einsum("abc,kb,kc->ka", tensor, vectors, vectors, optimize=True)
        values = (image * vectors).sum(axis=1)
        vectors = image
    vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300)
    found = np.where(values > 0.0, np.maximum(values, 1e-150) ** -2.0, 0.0)
    return white.components(values, vectors), found
