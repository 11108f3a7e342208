"""Groups of words from what is public: word vectors, or texts of the same kind.

A word's vector from a public text is its row of the leading part of the positive pointwise mutual
information of words in one document (Levy & Goldberg 2014). Groups are the clusters of vectors of
length one. Everything here is a function of public data, and is the same every time.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.rng import generator
from tacit.data.documents import Documents
from tacit.data.matrices import real_array
from tacit.errors import ParameterError

__all__ = ["public_probabilities", "public_vectors", "word_groups"]

_LENGTH = 50  # of a vector from a public text
_COUNTED = 0.5  # α, where there is one public document only
_ROUNDING = 1e-9  # of the largest singular value
_DIGITS = 9  # of word vectors, so that the last bits of different machines make no other groups
_MOST = 1 << 20  # words that are put in groups
_ADDED = np.geomspace(0.01, 100.0, 41)  # what α is chosen from


def public_probabilities(public: Documents) -> Array:
    """Return how common every word is in public texts; none is impossible.

    Every word counts α times more than it occurs, with the α by which each document is most
    probable given all the others.

    >>> public_probabilities(Documents.read([[0, 0, 1]], vocabulary=2)).round(3).tolist()
    [0.625, 0.375]
    """
    found = np.bincount(public.words, public.counts, minlength=public.vocabulary)
    counts = np.asarray(found, np.float64)
    counts = counts + _added(public, counts)
    return np.asarray(counts / counts.sum())


def _added(public: Documents, counts: Array) -> float:
    """Return α: a word comes in bursts, so that one document says little of the next."""
    lengths = public.lengths.astype(np.float64)
    if (lengths > 0.0).sum() < 2:
        return _COUNTED
    owner = np.repeat(np.arange(len(public)), np.diff(public.starts))
    others, rest = counts[public.words] - public.counts, counts.sum() - lengths

    def score(alpha: float) -> float:
        whole = np.log(rest + alpha * public.vocabulary)
        return float(public.counts @ (np.log(others + alpha) - whole[owner]))

    return float(_ADDED[np.argmax([score(alpha) for alpha in _ADDED])])


def _check_size(size: int) -> None:
    if size > _MOST:
        raise ParameterError(f"at most {_MOST:,} words can be put in groups, got {size:,}")


def public_vectors(public: Documents) -> Array:
    """Return a vector for every word, from the documents it stands in."""
    from scipy.sparse import csr_array, diags_array
    from scipy.sparse.linalg import svds

    size = public.vocabulary
    _check_size(size)
    table = csr_array(
        (np.ones(len(public.words)), public.words, public.starts), shape=(len(public), size)
    )
    weight = 1.0 / np.maximum(np.diff(public.starts), 1.0)
    together = (table.T @ (diags_array(weight) @ table)).tocoo()
    often = np.asarray(table.T @ weight) + 1e-12
    information = np.log(together.data * often.sum() / (often[together.row] * often[together.col]))
    kept = information > 0.0
    if not kept.any():
        raise ParameterError(
            "public texts do not say which words stand together: pass longer texts of words of "
            "the vocabulary, or embeddings"
        )
    pairs = csr_array(
        (information[kept], (together.row[kept], together.col[kept])), shape=(size, size)
    )
    length = min(_LENGTH, size - 1)
    rng = generator(0, "public vectors")
    left, values, _ = svds(
        pairs, k=length, v0=np.ones(size), return_singular_vectors="u", random_state=rng
    )
    # of what is zero but for rounding the vectors are any: two parties would find different ones
    values = np.where(values > _ROUNDING * values.max(), values, 0.0)
    return np.asarray(left * np.sqrt(values))


def word_groups(vectors: Any, size: int, groups: int) -> NDArray[np.int64]:
    """Return the group of every word: the most alike vectors together, −1 for zero vectors.

    >>> word_groups([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0], [0.0, 0.0]], 4, 2).tolist()
    [0, 1, 1, -1]
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    _check_size(size)
    found = real_array(vectors, "embeddings")
    if found.ndim != 2 or len(found) != size or not np.isfinite(found).all():
        raise ParameterError(
            f"embeddings must have a finite vector for each of the {size} words, got shape "
            f"{found.shape}"
        )
    largest = np.abs(found).max(axis=1, initial=0.0)  # first, so that no square overflows
    known = largest > _ROUNDING * largest.max(initial=0.0)
    found = found[known] / largest[known][:, None]
    if known.sum() < groups:
        raise ParameterError(f"{groups} groups cannot be made of {int(known.sum())} word vectors")
    places = np.full(size, -1, np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer different words than groups
        unit = found / np.linalg.norm(found, axis=1)[:, None]
        means = KMeans(groups, n_init=4, random_state=0).fit(np.round(unit, _DIGITS))
    order = np.unique(means.labels_, return_index=True)[1].argsort().argsort()  # by first word
    places[known] = order[means.labels_]
    return places
