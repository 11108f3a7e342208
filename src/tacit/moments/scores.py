"""How well topics explain documents: a holder's own figures, unless documents are public (A9).

A document of one topic has an exact probability. Where documents mix topics its shares are those
that explain it best, given Dirichlet(α₀·w); to score it they are found from every other place of
its words, and the other half is scored: a document is not told what it is asked.

**Coherence** (Bouma 2009; Lau et al. 2014) is how often the top words of a topic stand in one
document, more often than they would by chance: the mean of the normalised pointwise mutual
information of their pairs, from −1 (never together) to 1 (always).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.data.documents import Documents
from tacit.errors import ParameterError

__all__ = ["coherence", "mean_log_probability", "shares_of", "table_of"]

_STEPS = 60
_SETTLED = 1e-6


def table_of(bags: Documents) -> Any:
    """Return documents as a sparse table of counts."""
    from scipy.sparse import csr_array

    shape = len(bags), bags.vocabulary
    return csr_array((bags.counts.astype(np.float64), bags.words, bags.starts), shape=shape)


def shares_of(bags: Documents, topics: Array, weights: Array, mixing: float) -> Array:
    """Return every document's share in every topic.

    >>> bags = Documents.read([[0, 0, 1], [2, 2, 2]], vocabulary=3)
    >>> shares_of(bags, np.array([[0.5, 0.4, 0.1], [0.1, 0.1, 0.8]]), np.array([0.5, 0.5]), 1.0
    ... ).argmax(axis=1).tolist()
    [0, 1]
    """
    owner = np.repeat(np.arange(len(bags)), np.diff(bags.starts))
    prior = mixing * weights + 1e-9
    shares = np.tile(prior / prior.sum(), (len(bags), 1))
    likely, counts = topics[:, bags.words].T, bags.counts.astype(np.float64)
    for _ in range(_STEPS):
        parts = shares[owner] * likely
        parts *= (counts / np.maximum(parts.sum(axis=1), 1e-300))[:, None]
        found = np.zeros_like(shares)
        np.add.at(found, owner, parts)
        found += prior
        found /= found.sum(axis=1, keepdims=True)
        change = float(np.abs(found - shares).max(initial=0.0))
        shares = found
        if change < _SETTLED:
            break
    return shares


def halves(bags: Documents) -> tuple[Documents, Documents]:
    """Return every other place of the documents' words, and the places between."""
    ends = np.cumsum(bags.counts, dtype=np.int64)
    before = ends - bags.counts
    first = (ends + 1) // 2 - (before + 1) // 2  # places 0, 2, … of all
    parts = []
    for counts in (first, bags.counts - first):
        kept = counts > 0
        starts = np.concatenate([[0], np.cumsum(kept)])[bags.starts]
        parts.append(
            Documents(starts, bags.words[kept], counts[kept].astype(np.int32), bags.vocabulary)
        )
    return parts[0], parts[1]


def mean_log_probability(bags: Documents, topics: Array, weights: Array, mixing: float) -> float:
    """Return the mean log probability of a word."""
    from scipy.special import logsumexp

    if not bags.counts.size:
        raise ParameterError("the documents have no words: there is nothing to score")
    if mixing == 0.0:
        with np.errstate(divide="ignore"):
            joint = table_of(bags) @ np.log(topics).T + np.log(weights)
        return float(logsumexp(joint, axis=1).sum() / bags.counts.sum())
    seen, asked = halves(bags)
    if not asked.counts.size:
        raise ParameterError("documents that mix topics are scored by half: pass longer ones")
    shares = shares_of(seen, topics, weights, mixing)
    owner = np.repeat(np.arange(len(bags)), np.diff(asked.starts))
    likely = (shares[owner] * topics[:, asked.words].T).sum(axis=1)
    return float((asked.counts * np.log(likely)).sum() / asked.counts.sum())


def coherence(bags: Documents, top: list[list[int]]) -> Array:
    """Return the mean normalised mutual information of the top words of every topic.

    >>> bags = Documents.read([[0, 1], [0, 1], [2]], vocabulary=3)
    >>> coherence(bags, [[0, 1], [0, 2]]).tolist()
    [1.0, -1.0]
    """
    table = table_of(bags)
    table.data[:] = 1.0
    number, found = float(len(bags)), []
    for words in top:
        if len(words) < 2:
            found.append(np.nan)
            continue
        part = table[:, words]
        both = np.asarray((part.T @ part).todense()) / number
        often = np.diag(both)
        i, j = np.triu_indices(len(words), 1)
        pair, apart = both[i, j], often[i] * often[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            each = np.log(often)  # by logarithms: exactly 1 of words that always stand together
            value = (each[i] + each[j]) / np.log(pair) - 1.0
        value = np.where(pair >= 1.0, 1.0, np.where(pair > 0.0, value, -1.0))
        found.append(float(np.mean(value[apart > 0.0])) if (apart > 0.0).any() else np.nan)
    return np.array(found)
