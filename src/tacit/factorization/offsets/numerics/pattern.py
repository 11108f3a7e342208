"""Item features from which cells are observed, where that is public.

Who rated what says much about taste before any rating is seen. With P the 0/1 pattern, n_i and
m_j its row and column sums, the right singular vectors of N = n_i^(−½)·P·m_j^(−½) are features of
items. The first is known, √m_j with singular value 1 (popularity), and is projected out; the
others come from a subspace iteration on NᵀN, of which every site adds its own part: nothing of
the size of items² or members × items is ever formed.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix

from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.numerics.ridge import ByMember

__all__ = ["pattern_basis", "pattern_counts", "pattern_features", "pattern_product"]

OVERSAMPLING = 8


def pattern_counts(cells: ByMember, items: int) -> Floats:
    """Return how many cells each item has."""
    return np.bincount(cells.items, minlength=items).astype(np.float64)


def pattern_product(cells: ByMember, counts: Floats, block: Floats) -> Floats:
    """Return this site's part of NᵀN·block; ``counts`` are those of all sites."""
    scale = 1.0 / np.sqrt(np.maximum(counts, 1.0))
    shape = (cells.members, len(counts))
    ones = csr_matrix((np.ones(len(cells.items)), cells.items, cells.starts), shape=shape)
    sizes = np.maximum(np.diff(cells.starts), 1)[:, None]
    return np.asarray(scale[:, None] * (ones.T @ ((ones @ (scale[:, None] * block)) / sizes)))


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
