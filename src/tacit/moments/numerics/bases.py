"""What a coordinator may send: bases with orthonormal columns, and vectors that are not too long.

Each function returns what is wrong with an array, in words that do not depend on its values, or
None.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array

__all__ = ["LONGEST", "STRAIGHT", "UNIT", "orthonormal", "short", "short_in_steps"]

STRAIGHT = 2.0**-30  # ‖UᵀU − I‖ of a basis, in Frobenius norm
LONGEST = 1.25  # of vectors that have length one, up to rounding
UNIT = 16  # vectors are whole numbers of 2^-16 under a secure sum


def orthonormal(basis: Array) -> str | None:
    """Refuse a basis that might lengthen a vector.

    >>> orthonormal(np.eye(3)[:, :2]), orthonormal(2.0 * np.eye(3))
    (None, 'is no basis with orthonormal columns')
    """
    gap = np.linalg.norm(basis.T @ basis - np.eye(basis.shape[1]))
    return None if gap <= STRAIGHT else "is no basis with orthonormal columns"


def short(vectors: NDArray[Any]) -> str | None:
    """Refuse columns that are longer than one, but for rounding.

    >>> short(np.eye(2)), short(2 * np.eye(2, dtype=int))
    (None, 'has columns that are too long')
    """
    return _short(vectors, LONGEST)


def short_in_steps(vectors: NDArray[np.int64]) -> str | None:
    """Refuse columns of whole numbers of 2^-16 that are longer than one, but for rounding."""
    return _short(vectors, math.ldexp(LONGEST, UNIT))


def _short(vectors: NDArray[Any], longest: float) -> str | None:
    squares = np.square(vectors.astype(np.float64)).sum(axis=0)
    return "has columns that are too long" if (squares > longest**2).any() else None
