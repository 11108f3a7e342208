"""What one document says of words, pairs and triples, as numbers that noise is added to.

A document with counts c of length L has L(L − 1)/2 pairs and L(L − 1)(L − 2)/6 triples of places.
Each falls on a *multiset* of words, {i, j} or {i, j, k}; the shares h₂ and h₃ of the multisets
are probability vectors: no number is negative and they add up to one. h₂ at {i, j} is 2·M₂[i, j]
and h₃ at {i, j, k} is 6·M₃[i, j, k] (3·, 1· where words are equal), M₂ and M₃ as in
`tacit.moments.numerics.sums`: so noise on multisets is a sixth on most entries of M₃ of what noise
of the same size on M₃ is. Pairs of different words count √2 times (`PAIR`), since documents of at
least three words leave that room nearly always; where not, the next rule takes it back.

**Weights.** A document that spreads over many multisets has a short h: its pairs count
min(most₂, 1/‖x₂‖) times, x₂ being h₂ with `PAIR`, and its triples min(most₃, 1/‖h₃‖) times. So
nobody's part is longer than one, whatever `most` is, and documents that are shorter than 1/most
count the same. For purely private noise parts are bounded by their sum instead: h₂ and h₃ add up
to one as they are.

**First moment.** p = c/‖c‖ of length one, and beside it, in a small part `ASIDE` of the square of
that length, one for the document, its log₂ L and the log₂ of its effective number of words
(Σc)²/Σc², both over `OCTAVES`: how many documents there are and how long they are.

Everything is rounded *down* to whole numbers of 2⁻³⁶, document by document, so no length and no
sum grows, and sums do not depend on any order. No number is negative, so ‖a − b‖² ≤ ‖a‖² + ‖b‖².
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.kernels import compiled
from tacit.data.documents import Documents
from tacit.moments.numerics.sums import FINE, triples

__all__ = [
    "ASIDE",
    "OCTAVES",
    "PAIR",
    "Facts",
    "first_beside",
    "first_factor",
    "first_sums",
    "joint_size",
    "joint_sums",
    "pair_scale",
    "read_first",
    "triple_scale",
]

ASIDE = 0.05  # of a document's squared length (or its sum) in the first moment, for three numbers
OCTAVES = 20.0  # log2 of lengths is counted up to here
PAIR = math.sqrt(2.0)
_ROOM = 1.0 - 2.0**-40


class Facts(NamedTuple):
    """What the first release says of a corpus, besides its words."""

    documents: float
    length: float  # a typical one
    words: float  # a typical effective number of different words


def joint_size(size: int) -> int:
    """Return how many pairs and triples of ``size`` words there are.

    >>> joint_size(2)
    7
    """
    return math.comb(size + 1, 2) + math.comb(size + 2, 3)


def pair_scale(size: int, norm: int = 2) -> Array:
    """Return x₂ over M₂ at i ≤ j: what a pair's entry is multiplied with."""
    i, j = np.triu_indices(size)
    return np.where(i == j, 1.0, 2.0 * (PAIR if norm == 2 else 1.0))


def triple_scale(size: int) -> Array:
    """Return h₃ over M₃ at a ≤ b ≤ c: the number of permutations."""
    a, b, c = triples(size).T
    return np.asarray(np.array([6.0, 3.0, 1.0])[(a == b).astype(int) + (b == c)])


def first_sums(documents: Documents, norm: int = 2) -> NDArray[np.int64]:
    """Return Σ p and three numbers, in steps of 2^-36.

    >>> total = first_sums(Documents.read([[0, 0, 0, 1]], vocabulary=2))
    >>> np.ldexp(total, -36).round(3).tolist()
    [0.925, 0.308, 0.129, 0.013, 0.004]
    """
    out = np.zeros(documents.vocabulary + 3, np.int64)
    compiled(_first)(documents.starts, documents.words, documents.counts, norm, *_parts(norm), out)
    return out


def _parts(norm: int) -> tuple[float, float]:
    """Return what multiplies the words, and each of the three numbers beside them."""
    if norm == 2:
        return math.sqrt(1.0 - ASIDE) * _ROOM, math.sqrt(ASIDE / 3.0) * _ROOM
    return (1.0 - ASIDE) * _ROOM, ASIDE / 3.0 * _ROOM


def first_factor(norm: int = 2) -> float:
    """Return what a released number is multiplied with to be a sum of p."""
    return 1.0 / _parts(norm)[0]


def first_beside(norm: int = 2) -> float:
    """Return what one document adds to the count of documents."""
    return _parts(norm)[1]


def read_first(total: Any, norm: int = 2) -> tuple[Array, float, Facts]:
    """Return Σ p, the factor that its noise was multiplied with, and facts of the corpus."""
    total = np.asarray(total, np.float64)
    words, beside = _parts(norm)
    count = float(total[-3]) / beside
    known = max(count, 1.0)
    octaves = np.clip(total[-2:] / beside / known, 0.0, 1.0) * OCTAVES
    length, different = np.exp2(octaves)
    facts = Facts(count, max(float(length), 3.0), max(float(min(different, length)), 1.0))
    return total[:-3] / words, 1.0 / words, facts


def joint_sums(
    documents: Documents,
    groups: NDArray[np.int64],
    size: int,
    most: Any,
    share: float,
    norm: int = 2,
) -> NDArray[np.int64]:
    """Return weighted sums over documents of pairs and triples, in steps of 2^-36.

    Parameters
    ----------
    documents
        A holder's.
    groups
        Word → which of ``size`` groups counts it; −1 leaves it out.
    size
        How many groups there are.
    most
        The largest weight of a document's pairs, and of its triples.
    share
        The pairs' share of the squared length (of the sum, for ``norm`` 1).
    norm
        2, or 1 for what is bounded by its sum.
    """
    out = np.zeros(joint_size(size), np.int64)
    pair, triple = (
        (math.sqrt(share), math.sqrt(1.0 - share)) if norm == 2 else (share, 1.0 - share)
    )
    at = np.array([math.comb(size + 2, 3) - math.comb(size - k + 2, 3) for k in range(size)])
    compiled(_joint)(
        documents.starts,
        documents.words,
        documents.counts,
        np.ascontiguousarray(groups, np.int64),
        size,
        (float(most[0]), float(most[1])),
        (pair * _ROOM, triple * _ROOM),
        PAIR if norm == 2 else 1.0,
        norm,
        at.astype(np.int64),
        out,
    )
    return out


# --- kernels -----------------------------------------------------------------------------------


def _first(
    starts: Any, words: Any, counts: Any, norm: int, scale: float, beside: float, out: Any
) -> None:
    """Add up p of every document, and three numbers about it."""
    size = out.shape[0] - 3
    for d in range(starts.shape[0] - 1):
        length, squares = 0.0, 0.0
        for place in range(starts[d], starts[d + 1]):
            count = float(counts[place])
            length += count
            squares += count * count
        if length == 0.0:
            continue
        factor = scale / (np.sqrt(squares) if norm == 2 else length) * 2.0**36
        for place in range(starts[d], starts[d + 1]):
            out[words[place]] += np.int64(np.floor(float(counts[place]) * factor))
        different = length * length / squares
        unit = beside * 2.0**36
        out[size] += np.int64(np.floor(unit))
        out[size + 1] += np.int64(np.floor(unit * min(np.log2(length) / 20.0, 1.0)))
        out[size + 2] += np.int64(np.floor(unit * min(np.log2(different) / 20.0, 1.0)))


def _joint(
    starts: Any,
    words: Any,
    counts: Any,
    groups: Any,
    size: int,
    most: Any,
    scales: Any,
    pair: float,
    norm: int,
    at: Any,
    out: Any,
) -> None:
    """Add up pairs and triples of every document, each within its bound."""
    bag = np.zeros(size)
    used = np.empty(size, np.int64)
    pairs = size * (size + 1) // 2
    for d in range(starts.shape[0] - 1):
        bag[:] = 0.0
        length = 0.0
        for place in range(starts[d], starts[d + 1]):
            group = groups[words[place]]
            if group >= 0:
                bag[group] += float(counts[place])
                length += float(counts[place])
        if length < 3.0:
            continue
        kinds = 0
        for g in range(size):
            if bag[g] > 0.0:
                used[kinds] = g
                kinds += 1
        two = length * (length - 1.0)
        three = two * (length - 2.0)
        weights = (1.0, 1.0)
        for turn in range(2):
            if turn == 0 and norm == 1:
                continue
            second, third = 0.0, 0.0
            for x in range(kinds):
                i = used[x]
                first = bag[i]
                for y in range(x, kinds):
                    j = used[y]
                    both = first * (bag[j] - (x == y)) / two
                    if x != y:
                        both *= 2.0 * pair
                    if both > 0.0:
                        if turn == 0:
                            second += both * both
                        else:
                            place = i * size - i * (i - 1) // 2 + j - i
                            value = both * weights[0] * scales[0]
                            out[place] += np.int64(np.floor(value * 2.0**36))
                    some = first * (bag[j] - (x == y)) / three
                    if some <= 0.0:
                        continue
                    for z in range(y, kinds):
                        k = used[z]
                        value = some * (bag[k] - (z == y) - (z == x))
                        same = (x == y) + (y == z)
                        value *= 6.0 if same == 0 else (3.0 if same == 1 else 1.0)
                        if value <= 0.0:
                            continue
                        if turn == 0:
                            third += value * value
                        else:
                            place = at[i] + (j - i) * (size - i) - (j - i) * (j - i - 1) // 2
                            value *= weights[1] * scales[1]
                            out[pairs + place + k - j] += np.int64(np.floor(value * 2.0**36))
            if turn == 0:
                weights = (
                    min(most[0], 1.0 / np.sqrt(second)) if second > 0.0 else 0.0,
                    min(most[1], 1.0 / np.sqrt(third)) if third > 0.0 else 0.0,
                )


assert FINE == 36  # what the kernels count in
