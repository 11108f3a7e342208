"""Item features from which cells are observed, where that is public.

Who rated what says much about taste before any rating is seen. With P the 0/1 pattern, n_i and
m_j its row and column sums, the right singular vectors of N = n_i^(−½)·P·m_j^(−½) are features of
items. The first is known, √m_j with singular value 1 (popularity), and is projected out; the
others come from a subspace iteration on NᵀN, of which every site adds its own part: nothing of
the size of items² or members × items is ever formed.

**Chance.** Were it independent who rates and what is rated, given how much each rates and is
rated, the entries of N would have the variance 1/M about that first direction, for M cells: the
trace of NᵀN would be n·m/M for n members and m items, and no further eigenvalue would be larger
than (√n + √m)²/M (Marchenko & Pastur 1967). Features below that edge are made of chance. Members
are not counted: n follows from the trace, of which a random subspace of k of m dimensions has k/m.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from tacit._core.kernels import compiled
from tacit._core.threads import each, threads
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember

__all__ = [
    "FINE",
    "Pattern",
    "edge_of_chance",
    "pattern_basis",
    "pattern_features",
    "pattern_product",
    "pattern_sums",
    "standing_out",
    "trace_seen",
]

OVERSAMPLING = 8
FINE = 36  # members' rows are whole numbers of 2^-36
_MEMBERS = 1 << 24  # so many times 2^37 stays below 2^62; of cells members have one each at least
_FEW = 1 << 20  # cells, below which SciPy takes less than a compiler


class Pattern(NamedTuple):
    """Features of items from who rated what, and how many of them, the first, are not chance."""

    features: Floats
    known: int


def pattern_sums(cells: ByMember, counts: Floats, block: Floats) -> list[Integers]:
    """Return Pᵀ of what members make of a block, in steps of 2^-36, for some members at a time.

    ``counts`` are those of all sites. Every member's row is rounded by itself: sums are whole
    numbers, the same however members are parted. Rows hold at most 2 where a block does, so that
    64 bits hold sums over so many members.
    """
    scale = 1.0 / np.sqrt(np.maximum(counts, 1.0))
    scaled = np.ascontiguousarray(scale[:, None] * block)
    few = len(cells.items) < _FEW

    def part(members: tuple[int, int]) -> Integers:
        some = cells.between(*members)
        if few:
            return _in_numpy(some, scaled)
        width, out = block.shape[1], np.zeros(block.shape, np.int64)
        row, whole = np.empty(width), np.empty(width, np.int64)
        compiled(_add_rows)(some.starts, some.items, scaled, row, whole, out)
        return out

    size = _FEW if few else -(-len(cells.items) // threads()) + 1
    return list(each(part, cells.parts(min(size, _MEMBERS))))


def _in_numpy(cells: ByMember, scaled: Floats) -> Integers:
    shape = (cells.members, len(scaled))
    ones = csr_matrix((np.ones(len(cells.items)), cells.items, cells.starts), shape=shape)
    sizes = np.maximum(np.diff(cells.starts), 1)[:, None]
    rows = np.floor(np.ldexp((ones @ scaled) / sizes, FINE) + 0.5)
    return np.asarray(ones.astype(np.int64).T @ rows.astype(np.int64))


def _add_rows(starts: Any, items: Any, scaled: Any, row: Any, whole: Any, out: Any) -> None:
    """Add to each item the rows of its members: means over their items, as whole numbers."""
    width = out.shape[1]
    for i in range(starts.shape[0] - 1):
        low, high = starts[i], starts[i + 1]
        for b in range(width):
            row[b] = 0.0
        for k in range(low, high):
            item = np.uint64(items[k])  # no place is counted from the end
            for b in range(width):
                row[b] += scaled[item, b]
        for b in range(width):
            whole[b] = np.int64(np.floor(row[b] / max(high - low, 1) * 2.0**36 + 0.5))
        for k in range(low, high):
            item = np.uint64(items[k])
            for b in range(width):
                out[item, b] += whole[b]


def pattern_product(sums: NDArray[Any], counts: Floats) -> Floats:
    """Return a part of NᵀN·block from such sums, of all members of a site."""
    scale = 1.0 / np.sqrt(np.maximum(counts, 1.0))
    return np.asarray(scale[:, None] * (sums * 2.0**-FINE), np.float64)


def pattern_basis(counts: Floats, product: Floats) -> Floats:
    """Return an orthonormal basis of a product, without the direction of popularity."""
    popular = np.sqrt(counts) / max(float(np.sqrt(counts.sum())), 1e-300)
    rest = product - np.outer(popular, popular @ product)
    return np.asarray(np.linalg.qr(rest)[0])


def pattern_features(basis: Floats, product: Floats, rank: int) -> Floats:
    """Return ``rank`` features of every item from a basis and its product with NᵀN.

    Columns are singular vectors, scaled by their singular value relative to the first and by
    √items: a typical item of the first feature has size one.
    """
    values, vectors = np.linalg.eigh(basis.T @ product)
    order = np.argsort(-values)[:rank]
    sizes = np.sqrt(np.maximum(values[order], 0.0))
    scale = np.sqrt(len(basis)) * sizes / max(float(sizes[0]), 1e-300)
    return np.asarray(basis @ vectors[:, order] * scale)


def trace_seen(basis: Floats, product: Floats) -> float:
    """Return the trace of NᵀN as a random basis and its product with it show."""
    return float(len(basis) / basis.shape[1] * (basis * product).sum())


def standing_out(basis: Floats, product: Floats, edge: float) -> int:
    """Return how many eigenvalues of NᵀN are above an edge, of those that a basis shows."""
    return int((np.linalg.eigvalsh(basis.T @ product) > edge).sum())


def edge_of_chance(trace: float, counts: Floats) -> float:
    """Return the largest eigenvalue of NᵀN that chance alone makes; ``counts`` are of items.

    >>> round(edge_of_chance(2.0, np.full(50, 25.0)), 3)  # 1,250 cells of 50 members
    0.16
    """
    cells, items = max(float(counts.sum()), 1.0), int((counts > 0.0).sum())
    members = trace * cells / max(items, 1)
    return (math.sqrt(max(members, 0.0)) + math.sqrt(items)) ** 2 / cells
