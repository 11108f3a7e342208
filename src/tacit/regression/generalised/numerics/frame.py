"""The frame in which gradients are asked for: rows centred and whitened by noisy moments.

**Why.** A gradient of p numbers with isotropic noise of σ·C, where C is the length of a row, moves
a prediction by about σ·C·√tr(S⁻¹)/n if rows have second moments S, and C² is about tr S. By Cauchy
and Schwarz tr(S)·tr(S⁻¹) is least where S is a multiple of the identity: the best frame is the
one in which rows are white. It also makes one Newton step of every gradient.

**From noisy moments.** With M = Σ a·aᵀ + noise for a = (c, x) the count is n = M₀₀/c², the mean
m = M₀ₓ/(c·n), and the covariance K = Mₓₓ/n − m·mᵀ. Noise of standard deviation s on a symmetric
matrix of order p has eigenvalues up to s·√(2p): directions of K below that level are not known
from nothing, and are scaled as if they were at the level. What a row has there is shorter than
one, never longer, so steps there are too small and never too large. Where even a level of ⅓, the
variance of a feature that is uniform in its range, is below the noise, that is what counts.

**The clip.** A row z = (1, W(x − m)) counts with the weight min(1, C/‖z‖), which depends on its
features only (Mallows): the expectation of weight·z·(mean − response) is zero at the truth
whatever the weight, so a small C costs information but no bias. It is a multiple of the root mean
square length of a row, large where noise is small and half of it where noise dominates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from tacit._core.arrays import Array
from tacit._core.rng import generator

__all__ = ["LEAST_ROWS", "STATED_ERROR", "Frame", "Noisy", "weighed"]

_FLAT = 1e-6  # least variance of a direction, of features in [−1, 1]
LEAST_ROWS = 5.0
_USUAL = 1.0 / 3.0  # variance of a feature that is uniform
_GUESS = 0.5  # of that, what features have of which nothing is known
STATED_ERROR = 0.25  # of a stated number of rows, which is about right
_CLIPS = (0.5, 1.5)  # in root mean square lengths: where noise dominates, and without any
_FALL = 8.0  # how fast the clip falls with noise
_LEAST_LEFT = 0.05  # of all that rows spread by, for hidden directions together
_DRAWN = 4000  # white rows from which weights are averaged


@dataclass(frozen=True)
class Noisy:
    """Noisy sums Σ a·aᵀ of rows a = (c, x), and how much noise is on them.

    Attributes
    ----------
    gram
        The sums.
    sd
        The standard deviation of noise on the diagonal; √½ of it elsewhere.
    constant
        The c in front of a row.
    """

    gram: Array
    sd: float
    constant: float


@dataclass(frozen=True)
class Frame:
    """An affine map of rows x to z = (1, W(x − m)), and what lengths they have.

    Attributes
    ----------
    matrix
        The map, of (1, x).
    spread
        The second moment of every coordinate of z: 1 for the constant and for known directions.
    widths
        The variance by which every direction of x was divided; 1 for the constant.
    rows
        How many there are, about.
    clip
        The length C to which z is weighted.
    kept, kept_twice
        The average of weight·z² and of weight²·z², relative to that of z².
    """

    matrix: Array
    spread: Array
    widths: Array
    rows: float
    clip: float
    kept: float
    kept_twice: float

    @property
    def size(self) -> int:
        """How many coordinates there are, the constant among them."""
        return len(self.spread)

    @classmethod
    def of(cls, noisy: Noisy, noise: float, stated_rows: float | None = None) -> Self:
        """Return the frame that noisy moments give.

        Parameters
        ----------
        noisy
            The moments.
        noise
            The standard deviation of noise on a sum of units of length one, over all rounds.
        stated_rows
            About how many rows there are, where that is public.
        """
        size = len(noisy.gram)
        known = _Known.of(noisy, stated_rows)
        rows, middle, level = known.rows, known.middle, known.level
        values, vectors = np.clip(known.values, 0.0, None), known.vectors
        # where noise exceeds what features within [−1, 1] vary by, they count as uniform there
        usual = min(level, _USUAL)
        scaled = np.where(values > level, values, usual)
        matrix = np.eye(size)
        matrix[1:, 1:] = (vectors / np.sqrt(scaled)).T
        matrix[1:, 0] = -matrix[1:, 1:] @ middle
        parts = values / scaled if level <= _USUAL else np.where(values > level, 1.0, _GUESS)
        spread = np.concatenate([[1.0], parts])
        # a direction below the level may be as wide as that
        length = math.sqrt(1.0 + max(float(spread[1:].sum()), 0.3 * (size - 1)))
        hard = size * noise / rows
        clip = length * max(_CLIPS[0], _CLIPS[1] / (1.0 + _FALL * hard))
        spread = np.maximum(spread, 0.2)
        widths = np.concatenate([[1.0], scaled])
        return cls(matrix, spread, widths, rows, clip, *_kept(spread, clip))

    @classmethod
    def of_many(cls, noisy: Noisy, stated_rows: float | None = None) -> Self:
        """Return the frame of many features, in which no direction is longer than white.

        Hidden directions are scaled by the level of the noise, even where that exceeds what
        features can spread by: steps that are right for the widest of them are right for all.
        What they spread by together, the trace says; it falls from one to the next like 1/rank.
        """
        rows, middle, values, vectors, level = _Known.of(noisy, stated_rows)
        size, hidden = len(noisy.gram), values <= level
        scaled = np.maximum(values, level)
        matrix = np.eye(size)
        matrix[1:, 1:] = (vectors / np.sqrt(scaled)).T
        matrix[1:, 0] = -matrix[1:, 1:] @ middle
        parts, count = np.ones(size - 1), int(hidden.sum())
        if count:
            left = float(values[hidden].sum())
            left = max(left, _LEAST_LEFT * (left + float(values[~hidden].sum())), _FLAT * count)
            shares = 1.0 / np.arange(count, 0, -1)  # eigenvalues ascend
            parts[hidden] = np.minimum(shares / shares.sum() * left / level, 1.0)
        spread = np.concatenate([[1.0], parts])
        clip = math.sqrt(float(spread.sum()))
        widths = np.concatenate([[1.0], scaled])
        return cls(matrix, spread, widths, rows, clip, *_kept(spread, clip))


class _Known(NamedTuple):
    """What noisy moments say: how many rows, their mean, and how they spread along directions."""

    rows: float
    middle: Array
    values: Array
    vectors: Array
    level: float

    @classmethod
    def of(cls, noisy: Noisy, stated: float | None) -> Self:
        rows = _count(noisy, stated)
        middle = np.clip(noisy.gram[0, 1:] / (noisy.constant * rows), -1.0, 1.0)
        covariance = noisy.gram[1:, 1:] / rows - np.outer(middle, middle)
        level = max(noisy.sd * math.sqrt(2.0 * len(noisy.gram)) / rows, _FLAT)
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2.0)
        return cls(rows, middle, values, vectors, level)


def _count(noisy: Noisy, stated: float | None) -> float:
    """Return the number of rows: the released one, and the stated one by how sure each is."""
    square = noisy.constant**2
    found = weighed(float(noisy.gram[0, 0]) / square, noisy.sd / square, stated)
    return max(found, LEAST_ROWS)


def weighed(found: float, sd: float, stated: float | None) -> float:
    """Return a noisy number, and a stated one that is about right, by how sure each is.

    >>> weighed(90.0, 0.0, 120.0), weighed(90.0, 30.0, 120.0), weighed(90.0, 30.0, None)
    (90.0, 105.0, 90.0)
    """
    if stated is None:
        return found
    own = STATED_ERROR * stated
    return (found * own**2 + stated * sd**2) / (own**2 + sd**2)


def _kept(spread: Array, clip: float) -> tuple[float, float]:
    """Return how much of white rows their weights keep."""
    drawn = generator(0, "frame").standard_normal((max(200, _DRAWN // len(spread)), len(spread)))
    drawn *= np.sqrt(spread)
    drawn[:, 0] = 1.0
    squares = np.square(drawn).sum(axis=1)
    weights = np.minimum(1.0, clip / np.sqrt(squares))
    whole = squares.sum()
    return float(weights @ squares / whole), float(np.square(weights) @ squares / whole)
