"""Shamir's secret sharing: any t of n shares give the secret, fewer say nothing about it.

The secret is f(0) of a polynomial f of degree t − 1 over the field of 2⁵²¹ − 1 elements, a
Mersenne prime that leaves room for 256-bit secrets; share number x is f(x) (Shamir 1979).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.errors import ParameterError

__all__ = ["PRIME", "SHARE_BYTES", "combine", "evaluate", "weights_at_zero"]

PRIME = (1 << 521) - 1
SHARE_BYTES = 66


def evaluate(coefficients: Sequence[int], points: Sequence[int]) -> list[int]:
    """Return the shares at some points; the first coefficient is the secret.

    Parameters
    ----------
    coefficients
        Of the polynomial, constant term first; all but the first uniform in the field.
    points
        Distinct and not 0.

    Examples
    --------
    >>> evaluate([1234, 166, 94], [1, 2, 3])
    [1494, 1942, 2578]
    """
    if 0 in points or len(set(points)) != len(points):
        raise ParameterError("shares need distinct points other than 0")
    shares = []
    for x in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * x + coefficient) % PRIME
        shares.append(value)
    return shares


def weights_at_zero(points: Sequence[int]) -> list[int]:
    """Return Lagrange's weights: f(0) = Σ weight·f(point), for any f of degree below their number.

    They depend on the points only, so that many secrets shared among the same holders cost one
    multiplication per share.
    """
    weights = []
    for x in points:
        above, below = 1, 1
        for other in points:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        weights.append(above * pow(below, -1, PRIME) % PRIME)
    return weights


def combine(shares: Mapping[int, int]) -> int:
    """Return the secret of shares given by their points; wrong or too few shares give nonsense.

    >>> combine({2: 1942, 4: 3402, 5: 4414})
    1234
    """
    points = list(shares)
    weights = weights_at_zero(points)
    return sum(w * shares[x] for w, x in zip(weights, points, strict=True)) % PRIME
