"""Topics that explain noisy pairs and triples best, given how noisy each of them is.

The model says what M₁, M₂ and M₃ are expected to be, up to one factor each (documents weigh
differently in each of them). With topics a_k of weight w_k and m = Σ w_k a_k:

    one topic each       M₂ = Σ w_k a_k⊗a_k,  M₃ = Σ w_k a_k⊗a_k⊗a_k
    mixing α₀ (LDA)      M₂ = (Σ w_k a_k⊗a_k + α₀·m⊗m)/(1 + α₀)
                         M₃ = (2·Σ w_k a_k⊗a_k⊗a_k + α₀·(three placements of Σ w_k a_k⊗a_k⊗m)
                               + α₀²·m⊗m⊗m)/((1 + α₀)(2 + α₀))

(Anandkumar et al. 2014, section 3.5). Every entry has a known variance: that of the noise, and
that of sampling, as if documents were Poisson. The weighted squares of all entries are minimised
by L-BFGS over topics and weights on the simplex (as softmax), from several starts, with half a
word in each place of every topic as prior (Jeffreys'), spread as the words of all documents are:
a topic of which nothing is known is the one distribution of all words.

Whitening and the power method, in comparison, take the third moment through the inverse of a noisy
second one, and forget what of the third lies outside of its K leading directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit.moments.numerics.power import power_method
from tacit.moments.numerics.whitening import as_weights, onto_simplex, spread, whiten

__all__ = ["NoisyMoments", "Topics", "expected_moments", "fit_topics", "symmetric"]

_STARTS = 8  # beside that of the power method
_STEPS = 300
_TRIED = 25  # steps from each start, before the best one goes on
_PRIOR = 0.5  # of a word in each place of a topic


class Topics(NamedTuple):
    """Topics (rows), their weights, and how badly they explain what was seen."""

    topics: Array
    weights: Array
    loss: float  # weighted squares, without the prior


@dataclass(frozen=True)
class NoisyMoments:
    """What was seen of M₁, M₂ (a matrix) and M₃ (an array), and the variances of their entries."""

    first: Array
    second: Array
    third: Array
    first_variance: Array
    second_variance: Array
    third_variance: Array

    @property
    def size(self) -> int:
        """How many words there are."""
        return len(self.first)


def symmetric(entries: Any, size: int) -> Array:
    """Return the symmetric matrix with the given entries at i ≤ j."""
    matrix = np.zeros((size, size))
    upper = np.triu_indices(size)
    matrix[upper] = entries
    matrix.T[upper] = entries
    return matrix


def expected_moments(topics: Array, weights: Array, mixing: float) -> tuple[Array, Array, Array]:
    """Return M₁, M₂ and M₃ of topics (rows) with weights."""
    first = weights @ topics
    second = (topics.T * weights) @ topics
    squares = (topics[:, :, None] * topics[:, None, :]).reshape(len(topics), -1)
    third = ((topics.T * weights) @ squares).reshape((topics.shape[1],) * 3)
    if mixing:
        placed = second[:, :, None] * first
        placed = placed + placed.transpose(0, 2, 1) + placed.transpose(2, 0, 1)
        cube = first[:, None, None] * first[:, None] * first
        third = 2.0 * third + mixing * placed + mixing**2 * cube
        third = third / ((1.0 + mixing) * (2.0 + mixing))
        second = (second + mixing * np.outer(first, first)) / (1.0 + mixing)
    return first, second, third


def fit_topics(
    seen: NoisyMoments,
    rank: int,
    rng: np.random.Generator,
    *,
    middle: Array,
    mixing: float = 0.0,
    edge: float = 0.0,
    starts: int | None = None,
    steps: int = _STEPS,
    begin: tuple[Array, Array] | None = None,
    polish: bool = True,
) -> Topics:
    """Return the topics that explain noisy moments best.

    Parameters
    ----------
    seen
        What was released, with its noise.
    rank
        How many topics.
    rng
        For the starts.
    middle
        The word probabilities of all documents.
    mixing
        α₀: how much documents mix topics; 0 for one topic each.
    edge
        Where the spectrum of the second moment's noise ends.
    starts, steps
        Random starts beside that of the power method, and the most steps from the best of them
        after a few from each.
    begin
        Topics and weights to start from, alone.
    polish
        Whether the best is followed until nothing changes.

    Examples
    --------
    >>> topics = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    >>> exact = expected_moments(topics, np.array([0.6, 0.4]), 0.0)
    >>> seen = NoisyMoments(*exact, *(np.full(part.shape, 1e-8) for part in exact))
    >>> found = fit_topics(seen, 2, np.random.default_rng(0), middle=exact[0])
    >>> found.topics.round(2).tolist()
    [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]
    """
    from scipy.optimize import minimize

    problem = _Problem(seen, rank, middle, mixing)
    best: Any = None

    def descend(start: Array, most: int) -> Any:
        options = {"maxiter": most, "maxfun": 2 * most, "ftol": 1e-12, "gtol": 1e-7}
        return minimize(problem.value, start, jac=True, method="L-BFGS-B", options=options)

    begins = (
        [begin]
        if begin is not None
        else _begins(seen, rank, rng, middle, edge, _STARTS if starts is None else starts)
    )
    for topics, weights in begins:
        found = descend(problem.packed(topics, weights), min(steps, _TRIED))
        if best is None or found.fun < best.fun:
            best = found
    if polish:
        best = descend(best.x, steps)
    topics, weights = problem.unpacked(best.x)
    order = np.argsort(-weights, kind="stable")
    return Topics(topics[order], weights[order], problem.loss(topics, weights))


def _begins(
    seen: NoisyMoments,
    rank: int,
    rng: np.random.Generator,
    middle: Array,
    edge: float,
    starts: int,
) -> list[tuple[Array, Array]]:
    """Return what the power method finds, and topics drawn around the middle."""
    values, vectors = np.linalg.eigh(seen.second)
    scale = max(float(np.abs(values).max()), 1e-300)
    white = whiten(values[::-1][:rank], vectors[:, ::-1][:, :rank], max(edge, 1e-9 * scale))
    u = white.basis
    third = np.einsum("abc,ai,bj,ck->ijk", seen.third, u, u, u, optimize=True)
    found = power_method(white.tensor(third), rank, rng)
    topics, mass = white.heaviest_first(found.values, found.vectors)
    begins = [(0.9 * onto_simplex(topics) + 0.1 * middle, as_weights(mass, np.inf))]
    for _ in range(starts if rank > 1 else 0):
        drawn = rng.dirichlet(np.ones(seen.size), rank)
        begins.append((0.5 * drawn + 0.5 * middle, np.full(rank, 1.0 / rank)))
    return begins


class _Problem:
    """Weighted squares and prior as a function of logits, with its gradient."""

    def __init__(self, seen: NoisyMoments, rank: int, middle: Array, mixing: float) -> None:
        self.seen, self.rank, self.mixing = seen, rank, mixing
        self.size = seen.size
        self.prior = _PRIOR * self.size * middle
        # an entry off the diagonal stands in the arrays as often as it has permutations
        self.parts = (
            (seen.first, 1.0 / seen.first_variance),
            (seen.second, 1.0 / seen.second_variance / _often(2, self.size)),
            (seen.third, 1.0 / seen.third_variance / _often(3, self.size)),
        )

    def packed(self, topics: Array, weights: Array) -> Array:
        topics = np.maximum(topics, 1e-4)
        topics = topics / topics.sum(axis=1, keepdims=True)
        logits = np.log(topics).ravel(), np.log(np.maximum(weights, 1e-3))
        return np.concatenate(logits)

    def unpacked(self, x: Array) -> tuple[Array, Array]:
        cut = self.rank * self.size
        return _softmax(x[:cut].reshape(self.rank, self.size)), _softmax(x[cut:])

    def loss(self, topics: Array, weights: Array) -> float:
        """Return the weighted squares alone, with the best factor for each moment."""
        expected = expected_moments(topics, weights, self.mixing)
        pairs = zip(self.parts, expected, strict=True)
        return float(sum(_residual(*part, model)[1] for part, model in pairs))

    def value(self, x: Array) -> tuple[float, Array]:
        """Return the objective and its gradient."""
        topics, weights = self.unpacked(x)
        expected = expected_moments(topics, weights, self.mixing)
        total, slopes = 0.0, []
        for part, model in zip(self.parts, expected, strict=True):
            slope, squares = _residual(*part, model)
            total += 0.5 * squares
            slopes.append(slope)
        by_topic, by_weight = self._gradient(topics, weights, *slopes)
        total -= float((self.prior * np.log(np.maximum(topics, 1e-300))).sum())
        total -= float(np.log(np.maximum(weights, 1e-300)).sum())
        logits = topics * (by_topic - (by_topic * topics).sum(axis=1, keepdims=True))
        logits -= self.prior - self.prior.sum() * topics
        heavy = weights * (by_weight - float(by_weight @ weights)) - (1.0 - self.rank * weights)
        return total, np.concatenate([logits.ravel(), heavy])

    def _gradient(
        self, topics: Array, weights: Array, first: Array, second: Array, third: Array
    ) -> tuple[Array, Array]:
        """Return the slopes along topics and weights, from those along symmetric moments."""
        a0, size = self.mixing, self.size
        squares = (topics[:, :, None] * topics[:, None, :]).reshape(self.rank, -1)
        flat = third.reshape(size, -1)
        one, two = 1.0 / (1.0 + a0), 2.0 / ((1.0 + a0) * (2.0 + a0))
        along2, along3 = one * (topics @ second), two * (squares @ flat.T)
        by_topic = weights[:, None] * (first + 2.0 * along2 + 3.0 * along3)
        by_weight = topics @ first + ((along2 + along3) * topics).sum(axis=1)
        if a0:
            middle = weights @ topics
            across = flat.reshape(size, size, size) @ middle  # of the placements, along m
            pairs = (topics.T * weights) @ topics
            some, all_ = 0.5 * two * a0, 0.5 * two * a0**2
            by_topic += weights[:, None] * (6.0 * some * (topics @ across))
            by_weight += 3.0 * some * ((topics @ across) * topics).sum(axis=1)
            slope = 2.0 * one * a0 * (second @ middle)
            slope = slope + 3.0 * some * (flat @ pairs.ravel()) + 3.0 * all_ * (across @ middle)
            by_topic += weights[:, None] * slope
            by_weight += topics @ slope
        return by_topic, by_weight


def _residual(seen: Array, precision: Array, model: Array) -> tuple[Array, float]:
    """Return the slope along the model and the squares, at the factor that fits best."""
    heavy = (precision * model).ravel()
    squares = float(heavy @ model.ravel())
    factor = max(float(heavy @ seen.ravel()) / max(squares, 1e-300), 0.0)
    far = factor * model
    far -= seen
    weighted = precision * far
    lost = float(weighted.ravel() @ far.ravel())
    weighted *= factor
    return weighted, lost


def _often(order: int, size: int) -> Array:
    """Return how many permutations every entry of a symmetric array has."""
    if order == 2:
        return np.where(np.eye(size, dtype=bool), 1.0, 2.0)
    from tacit.moments.numerics.multisets import triple_scale

    return spread(triple_scale(size), size)


def _softmax(x: Array) -> Array:
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(x / x.sum(axis=-1, keepdims=True))
