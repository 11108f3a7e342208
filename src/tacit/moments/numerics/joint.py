"""From released words, pairs and triples to topics, and when there is but one.

**Whether there are topics.** Beside K topics the one word distribution of all documents is fitted
to the same released numbers. K topics have (K − 1)·D more free numbers, and are believed if they
lower the weighted squares by more than twice that (Akaike's rule); else all of them are the one
distribution. Both sides of the rule are released numbers. The factor is the least at which topics
never foretold new documents worse than the one distribution does, in 275 fits to simulated corpora
of three kinds (topics over all words, over few of many rare ones, mixed in documents; ε from 0.1
to 3): of those that lowered the squares by one to two times that number, most gained, and some
lost.

**Groups.** Where words are grouped, topics are found over groups, and a word has the share of its
group that it has in all documents: a_k(word) = A_k(group)·q(word)/Σ q of the group. Words without
a group have q.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit.moments.numerics.frequencies import word_probabilities
from tacit.moments.numerics.likelihood import (
    NoisyMoments,
    Topics,
    expected_moments,
    fit_topics,
    symmetric,
)
from tacit.moments.numerics.multisets import (
    Facts,
    first_factor,
    pair_scale,
    read_first,
    triple_scale,
)
from tacit.moments.numerics.whitening import noise_edge, spread

__all__ = [
    "JointNoise",
    "Learned",
    "in_words",
    "learn",
    "noise_of_moments",
    "with_sampling",
]

_PASSES = 2  # the sampling variance follows from the topics


class JointNoise(NamedTuple):
    """The noise of what was released, as multiples of what one document weighs: public."""

    first: float  # standard deviation of a word
    joint: float  # of a pair or triple, before their shares of the release
    share: float  # the pairs' share of the release
    norm: int
    seconds: float  # the largest weight of pairs
    thirds: float  # and of triples


@dataclass(frozen=True)
class Learned:
    """What was learned.

    Attributes
    ----------
    topics, weights
        Rows of word probabilities, the heaviest first.
    words
        The word probabilities of all documents.
    facts
        How many documents there are and how long they are.
    values, edge
        The leading eigenvalues of the second moment, and where its noise ends.
    known
        Whether there are topics, and not only one distribution.
    inner
        Topics over groups, and their weights.
    totals
        The sums of all entries of M₁, M₂ and M₃, as released.
    """

    topics: Array
    weights: Array
    words: Array
    facts: Facts
    values: Array
    edge: float
    known: bool
    inner: tuple[Array, Array]
    totals: tuple[float, float, float]

    def arrays(self, noise: JointNoise, mixing: float) -> dict[str, Array]:
        """Return what the errors of topics follow from, for a release."""
        return {
            "joint_noise": np.array([*noise, *self.facts, *self.totals, mixing]),
            "inner": np.array(self.inner[0]),
        }


def learn(
    first: Any,
    joint: Any,
    noise: JointNoise,
    places: Any,
    kinds: int,
    rank: int,
    rng: np.random.Generator,
    *,
    mixing: float = 0.0,
    like: Any = None,
    starts: int | None = None,
    steps: int = 300,
) -> Learned:
    """Return the topics of released sums.

    Parameters
    ----------
    first, joint
        As `tacit.moments.numerics.multisets` sums them, with noise.
    noise
        Its law.
    places, kinds
        Word → group or −1, and how many groups there are.
    rank
        How many topics.
    rng
        For the starts.
    mixing
        α₀ of documents that mix topics.
    like
        Public word probabilities of texts of the same kind.
    starts, steps
        As in `fit_topics`.
    """
    sums, factor, facts = read_first(first, noise.norm)
    words = word_probabilities(sums, noise.first * factor, like, laplace=noise.norm == 1)
    grouped = np.bincount(places[places >= 0], words[places >= 0], minlength=kinds)
    middle = np.maximum(grouped, 1e-9)
    middle = middle / middle.sum()
    seen = _seen(sums, joint, noise, places, kinds)
    edge = _edge(seen, noise, kinds)
    task = _Task(noise, facts, rng, middle, mixing, edge, starts, steps)
    found, counted = _fitted(seen, rank, task)
    known = rank == 1
    if not known:
        one = fit_topics(counted, 1, rng, middle=middle, mixing=mixing, edge=edge, starts=0)
        known = one.loss - found.loss > 2.0 * (rank - 1) * kinds
    inner = found.topics, found.weights
    if not known:
        inner = np.tile(middle, (rank, 1)), np.full(rank, 1.0 / rank)
    values: Array = np.linalg.eigvalsh(seen.second)[::-1][:rank].astype(np.float64)
    topics = in_words(inner[0], middle, words, places)
    totals = float(seen.first.sum()), float(seen.second.sum()), float(seen.third.sum())
    return Learned(topics, inner[1], words, facts, values, edge, known, inner, totals)


def in_words(inner: Array, middle: Array, words: Array, places: Any) -> Array:
    """Return topics over words, from topics over groups.

    >>> in_words(np.eye(2), np.array([0.6, 0.4]), np.array([0.2, 0.4, 0.4]), np.array([0, 0, 1]))
    array([[0.33333333, 0.66666667, 0.        ],
           [0.        , 0.        , 1.        ]])
    """
    inside = places >= 0
    covered = float(words[inside].sum())
    topics = np.tile(words, (len(inner), 1))
    ratios = inner / middle
    topics[:, inside] = words[inside] * ratios[:, places[inside]]
    sums = topics[:, inside].sum(axis=1, keepdims=True)
    topics[:, inside] *= covered / np.maximum(sums, 1e-300)
    return np.asarray(topics / topics.sum(axis=1, keepdims=True))


def _seen(sums: Array, joint: Any, noise: JointNoise, places: Any, kinds: int) -> NoisyMoments:
    """Return moments with the variance of their noise alone."""
    pairs = kinds * (kinds + 1) // 2
    inside = places >= 0
    many = np.bincount(places[inside], minlength=kinds).astype(np.float64)
    first = np.asarray(np.bincount(places[inside], sums[inside], minlength=kinds), np.float64)
    scales = _scales(noise, kinds)
    law = noise_of_moments(noise, many)
    second, third = joint[:pairs] / scales[0], joint[pairs:] / scales[1]
    return NoisyMoments(first, symmetric(second, kinds), spread(third, kinds), *law)


def _scales(noise: JointNoise, kinds: int) -> tuple[Array, Array]:
    """Return what the entries of M₂ and M₃ are multiplied with before they are released."""
    part = np.array([noise.share, 1.0 - noise.share])
    part = np.sqrt(part) if noise.norm == 2 else part
    return part[0] * pair_scale(kinds, noise.norm), part[1] * triple_scale(kinds)


def noise_of_moments(noise: JointNoise, many: Array) -> tuple[Array, Array, Array]:
    """Return the variances of the noise of M₁, M₂ and M₃ of groups of so many words."""
    kinds = len(many)
    second, third = (np.square(noise.joint / scale) for scale in _scales(noise, kinds))
    first = np.maximum(many, 1.0) * (noise.first * first_factor(noise.norm)) ** 2
    return first, symmetric(second, kinds), spread(third, kinds)


class _Task(NamedTuple):
    """What every fit to the same release shares."""

    noise: JointNoise
    facts: Facts
    rng: np.random.Generator
    middle: Array
    mixing: float
    edge: float
    starts: int | None
    steps: int


def _edge(seen: NoisyMoments, noise: JointNoise, kinds: int) -> float:
    """Return where the spectrum of the second moment's noise ends."""
    if kinds == 1 or noise.joint == 0.0:
        return 0.0
    off = math.sqrt(float(seen.second_variance[0, 1]))
    return noise_edge(math.sqrt(2.0) * off, kinds)


def with_sampling(
    seen: NoisyMoments, expected: tuple[Array, Array, Array], noise: JointNoise, facts: Facts
) -> NoisyMoments:
    """Return moments whose variances count sampling, for documents as heavy as is typical.

    A document that weighs w has about w² kinds of pairs, and adds 1/w to each of them: its square,
    which the variance counts, is 1/w of that.
    """
    size = seen.size
    heavy = math.sqrt(facts.words), max(noise.seconds, 1.0), max(noise.thirds, 1.0)
    scales = (
        np.ones(size),
        symmetric(pair_scale(size, noise.norm), size),
        spread(triple_scale(size), size),
    )
    parts = seen.first, seen.second, seen.third
    known = seen.first_variance, seen.second_variance, seen.third_variance
    made = []
    for part, variance, model, scale, weight in zip(
        parts, known, expected, scales, heavy, strict=True
    ):
        total = max(float(part.sum()), 0.0) / max(float(model.sum()), 1e-300)
        made.append(variance + np.maximum(total * model / scale / weight, 1e-6))
    return NoisyMoments(*parts, *made)


def _fitted(seen: NoisyMoments, rank: int, task: _Task) -> tuple[Topics, NoisyMoments]:
    """Fit, and fit again with the sampling variance that follows; return it as well."""
    expected = expected_moments(task.middle[None], np.ones(1), 0.0)
    begin = None
    for _ in range(_PASSES):
        counted = with_sampling(seen, expected, task.noise, task.facts)
        found = fit_topics(
            counted,
            rank,
            task.rng,
            middle=task.middle,
            mixing=task.mixing,
            edge=task.edge,
            starts=task.starts,
            steps=task.steps,
            begin=begin,
        )
        begin = found.topics, found.weights
        expected = expected_moments(found.topics, found.weights, task.mixing)
    return found, counted
