"""Second and third moments of documents, as exact sums on a lattice.

**Documents** (single-topic model; Anandkumar et al. 2014, section 3.1). A document with counts c
and length L ≥ 3 contributes the average over all its ordered pairs and triples of *different
positions*:

    M₂(d) = (c⊗c − diag c) / L(L − 1)
    M₃(d) = (c⊗c⊗c − Σ_i c_i [e_i⊗e_i⊗c + e_i⊗c⊗e_i + c⊗e_i⊗e_i] + 2·Σ_i c_i e_i⊗e_i⊗e_i)
            / L(L − 1)(L − 2)

Both are symmetric, have no negative entry and add up to one whatever L is, so every document has
total weight one. A document with fewer than three words has no triple and contributes nothing.
With topics a_k of weight w_k the expectations are Σ w_k a_k⊗a_k and Σ w_k a_k⊗a_k⊗a_k.

Samples are in `tacit.moments.numerics.samples`.

**Sums without error.** What one document or sample contributes is rounded to a lattice by itself,
in a way that depends on nothing else, and added as int64: the sums do not depend on the order of
documents, on pieces or on threads, and one document moves them by its own contribution and
nothing else. How rounding keeps the norms is said at each function.

**The third moment is never formed.** `third` takes a D × K matrix U with orthonormal columns and
sums M₃(d)(U, U, U), K-vectors from start to end. It returns the entries with a ≤ b ≤ c; times
`entry_weights` they are coordinates along an orthonormal basis of the symmetric tensors.
"""

from __future__ import annotations

import itertools
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.kernels import compiled
from tacit._core.threads import over_range, threads
from tacit.data.documents import Documents
from tacit.errors import ParameterError
from tacit.moments.numerics.bases import orthonormal

__all__ = [
    "CONSTANT",
    "FINE",
    "MOST_UNITS",
    "ROOM",
    "SHRINK",
    "DocumentMoments",
    "check_number",
    "checked_basis",
    "entry_weights",
    "triples",
]

CONSTANT = 0.5  # in front of a sample
FINE = 36  # third moments and documents: whole numbers of 2^-36; 2^26 of them fit into an int64
MOST_UNITS = 1 << 26
_CUBE = 28  # cubes of the basis: whole numbers of 2^-28
_CELLS = 1 << 21  # cubes of the basis that are held at a time
ROOM = 1.0 - 2.0**-40


# Third moments are scaled by this. What rounding and floating point do to one contribution, in
# Frobenius norm, is at most 2⁻¹⁷ for K ≤ 200: whole numbers of 2⁻³⁶ in K³ entries (K^1.5·2⁻³⁷ <
# 2⁻²⁵), the factors of a document's words to 2⁻³⁶ (2⁻²⁰ for 2¹⁷ words), cubes of the basis to 2⁻²⁸
# (K^1.5·2⁻²⁹ < 2⁻¹⁷·⁵, times factors that add up to one at most), errors of some 10⁻¹² from
# floating point, and 2⁻²⁹ from a basis that is as nearly orthonormal as `orthonormal` demands. So
# a bound 1, √2 or 2 on exact contributions or on their differences holds for computed ones too.
SHRINK = 1.0 - 2.0**-15


class Bags(NamedTuple):
    """Documents, as kernels take them."""

    starts: Any
    words: Any
    counts: Any


class DocumentMoments:
    """The exact moment sums of a holder's documents.

    >>> moments = DocumentMoments(Documents.read([[0, 0, 1]], vocabulary=2))
    >>> np.ldexp(moments.rows(0, 2), moments.exponent).round(6).tolist()
    [[0.333333, 0.333333], [0.333333, 0.0]]
    """

    exponent = -FINE
    third_exponent = -FINE - _CUBE

    def __init__(self, documents: Documents) -> None:
        check_number(len(documents), "documents")
        self.documents = documents
        self._bags = Bags(documents.starts, documents.words, documents.counts)
        self.units = len(documents)
        self.size = documents.vocabulary
        lengths = documents.lengths.astype(np.float64)
        usable = lengths >= 3.0
        pairs = np.where(usable, lengths * (lengths - 1.0), 1.0)
        # room for the rounding of a quotient and a product, so that floor never exceeds
        self._pair = np.where(usable, 2.0**FINE * ROOM / pairs, 0.0)
        self._triple = np.where(usable, 1.0 / (pairs * np.maximum(lengths - 2.0, 1.0)), 0.0)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the second moment."""
        return self.size, self.size

    @cached_property
    def _by_word(self) -> tuple[Any, Any, Any]:
        """The transposed table: for each word its documents and counts."""
        from scipy.sparse import csr_array

        bags = self._bags
        table = csr_array((bags.counts, bags.words, bags.starts), shape=(self.units, self.size))
        turned = table.tocsc()
        return turned.indptr, turned.indices, turned.data

    def rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return rows ``start:stop`` and columns ``start:`` of Σ M₂(d), in steps of 2^exponent.

        Entries are rounded *down*. They are not negative, so no norm grows, and neither does the
        norm of a difference beyond √2: ‖A − B‖² ≤ ‖A‖² + ‖B‖² where no entry is negative.
        """
        out = np.zeros((stop - start, self.size - start), np.int64)
        facts = start, self._by_word, self._bags, self._pair
        over_range(compiled(_pair_rows), stop - start, *facts, out)
        return out

    def third(self, basis: Any) -> NDArray[Any]:
        """Return `third_sum` as whole numbers of 2^exponent: rounded once, of the sum."""
        return _round_shift(self.third_sum(basis), _CUBE)

    def third_sum(self, basis: Any) -> NDArray[Any]:
        """Return Σ M₃(d)(U, U, U) for a ≤ b ≤ c times `SHRINK`, in steps of 2^third_exponent.

        U is words × K with orthonormal columns. With y = Uᵀc and P = Σ c_i u_i⊗u_i the tensor of a
        document is y⊗y⊗y minus the three placements of P⊗y, which is summed document by document,
        plus 2·Σ c_i u_i⊗u_i⊗u_i. For the last part the factor of every word is rounded document by
        document, and so is the cube of every word's row of U; their products then add up exactly,
        word by word.
        """
        basis = checked_basis(basis, self.size)
        rank = basis.shape[1]
        pieces = 2 * threads()
        edges = np.linspace(0, self.units, pieces + 1).astype(np.int64)
        sums = np.zeros((pieces, rank * (rank + 1) // 2, rank), np.int64)
        facts = edges, self._bags, self._triple, basis, 2.0**FINE * SHRINK
        over_range(compiled(_triple_sums), pieces, *facts, sums)
        factors = np.zeros(self.size, np.int64)
        compiled(_word_factors)(self._bags, self._triple * (2.0 * 2.0**FINE), factors)
        a, b, c = triples(rank).T
        pair = a * rank - a * (a - 1) // 2 + b - a
        total = np.zeros(len(a), object)
        piece = max(1, min(1 << 16, _CELLS // len(a)))
        for start in range(0, self.size, piece):
            part = basis[start : start + piece]
            cubes = part[:, a] * part[:, b] * part[:, c] * SHRINK
            steps = np.floor(cubes * 2.0**_CUBE + 0.5).astype(np.int64)
            total = total + _exact_dot(factors[start : start + piece], steps)
        return np.asarray(total + (sums.sum(axis=0)[pair, c].astype(object) << _CUBE))

    def whole_third(self) -> NDArray[np.int64]:
        """Return Σ M₃(d) itself for a ≤ b ≤ c, for small vocabularies: D³/6 numbers.

        Entries are rounded down, as in `rows`, so that no norm grows.
        """
        out = np.zeros((self.size,) * 3, np.int64)
        compiled(_whole_triples)(self._bags, self._triple * (2.0**FINE * ROOM), out)
        a, b, c = triples(self.size).T
        return np.asarray(out[a, b, c])


@cache
def triples(size: int) -> NDArray[np.intp]:
    """Return all a ≤ b ≤ c in order."""
    return np.array(list(itertools.combinations_with_replacement(range(size), 3)), np.intp)


def entry_weights(size: int) -> Array:
    """Return √(number of permutations) of every a ≤ b ≤ c."""
    a, b, c = triples(size).T
    same = (a == b).astype(int) + (b == c)
    return np.asarray(np.sqrt(np.array([6.0, 3.0, 1.0])[same]))


def _exact_dot(factors: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[Any]:
    """Return factors · steps as Python integers: 2^16 factors below 2^62, steps below 2^29."""
    bits = 17  # 2^17 · 2^29 · 2^16 words stay below 2^62
    total = np.zeros(steps.shape[1], object)
    for limb in range(4):
        part = (factors >> (bits * limb)) & ((1 << bits) - 1)
        total = total + ((part @ steps).astype(object) << (bits * limb))
    return total


def _round_shift(numbers: NDArray[Any], bits: int) -> NDArray[Any]:
    """Return numbers / 2^bits, rounded to the nearest: of a sum, so it moves by a step at most."""
    return np.asarray((numbers + (1 << (bits - 1))) >> bits)


def check_number(units: int, what: str) -> None:
    """Raise where more units are summed than 64 bits hold."""
    if units > MOST_UNITS:
        raise ParameterError(f"more than {MOST_UNITS:,} {what}: make several sites of them")


def checked_basis(given: Any, size: int) -> Array:
    """Return a basis that lengthens no vector; whoever sends another is refused."""
    basis: Array = np.ascontiguousarray(given, np.float64)
    if basis.ndim != 2 or basis.shape[0] != size or orthonormal(basis):
        raise ParameterError(f"a basis must have {size} rows and orthonormal columns")
    return basis


# --- kernels -----------------------------------------------------------------------------------


def _pair_rows(
    first: int, last: int, start: int, by_word: Any, bags: Any, factor: Any, out: Any
) -> None:
    """Add up rows of Σ M₂(d) word by word, so that no two threads write one row."""
    word_starts, word_documents, word_counts = by_word
    starts, words, counts = bags
    for i in range(first, last):
        word = start + i
        for place in range(word_starts[word], word_starts[word + 1]):
            d = word_documents[place]
            count = float(word_counts[place])
            for other in range(starts[d], starts[d + 1]):
                column = words[other] - start
                if column >= 0:
                    times = float(counts[other])
                    if column == i:
                        times -= 1.0
                    out[i, column] += np.int64(np.floor(count * times * factor[d]))


def _triple_sums(
    first: int, last: int, edges: Any, bags: Any, factor: Any, basis: Any, unit: float, out: Any
) -> None:
    """Add up y⊗y⊗y minus the placements of P⊗y, each document rounded by itself.

    Sums of a few documents are whole numbers below 2^53, which float64 adds without error.
    """
    starts, words, counts = bags
    rank = basis.shape[1]
    for piece in range(first, last):
        y = np.empty(rank)
        square = np.empty((rank, rank))
        total = np.zeros((out.shape[1], rank))
        recent = 0
        for d in range(edges[piece], edges[piece + 1]):
            if factor[d] == 0.0:
                continue
            y[:] = 0.0
            square[:] = 0.0
            for place in range(starts[d], starts[d + 1]):
                count = float(counts[place])
                u = basis[words[place]]
                for a in range(rank):
                    y[a] += count * u[a]
                    part = count * u[a]
                    for b in range(rank):
                        square[a, b] += part * u[b]
            scale = factor[d] * unit
            pair = 0
            for a in range(rank):
                for b in range(a, rank):
                    both = (y[a] * y[b] - square[a, b]) * scale
                    first, second = y[a] * scale, y[b] * scale
                    for c in range(rank):
                        value = both * y[c] - second * square[a, c] - first * square[b, c]
                        total[pair, c] += np.floor(value + 0.5)
                    pair += 1
            recent += 1
            if recent == 4096:  # values are below 2^40
                for pair in range(total.shape[0]):
                    for c in range(rank):
                        out[piece, pair, c] += np.int64(total[pair, c])
                        total[pair, c] = 0.0
                recent = 0
        for pair in range(total.shape[0]):
            for c in range(rank):
                out[piece, pair, c] += np.int64(total[pair, c])


def _word_factors(bags: Any, factor: Any, out: Any) -> None:
    """Add up the factor of every word over documents, each rounded by itself."""
    starts, words, counts = bags
    for d in range(starts.shape[0] - 1):
        for place in range(starts[d], starts[d + 1]):
            out[words[place]] += np.int64(np.floor(counts[place] * factor[d] + 0.5))


def _whole_triples(bags: Any, factor: Any, out: Any) -> None:
    """Add up M₃(d) at a ≤ b ≤ c, rounded down."""
    starts, words, counts = bags
    for d in range(starts.shape[0] - 1):
        for i in range(starts[d], starts[d + 1]):
            for j in range(i, starts[d + 1]):
                for k in range(j, starts[d + 1]):
                    first = float(counts[i])
                    second = float(counts[j]) - (i == j)
                    third = float(counts[k]) - (k == j) - (k == i)
                    value = first * second * third * factor[d]
                    if value > 0.0:
                        out[words[i], words[j], words[k]] += np.int64(np.floor(value))
