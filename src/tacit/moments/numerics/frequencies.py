"""Word probabilities from noisy sums: what is not known of a word is taken from all the others.

Every word's sum y is q plus noise of a known law, with q ≥ 0. Projecting y to the simplex keeps
noise as if it were words. Instead the law of q over the vocabulary is estimated from all y (the
nonparametric maximum-likelihood prior of Kiefer & Wolfowitz, on a grid of values, by EM), and q
is replaced by its mean given y. Where that explains the sums no better than one value for all
words does, by more than half the logarithm of their number, it is one value: the uniform
distribution, which is what knowing nothing says. Without noise q is y. Everything is a function
of released numbers and public facts.

With a public text of the same kind q is a multiple of its public probability instead
(`tacit.moments.numerics.multiples`), and knowing nothing is what is public.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.moments.numerics.multiples import multiples_of

__all__ = ["word_probabilities"]

_VALUES = 60  # of the prior's grid
_STEPS = 200  # of EM
_FAR = 5.0  # standard deviations
_FLOOR = 1e-4  # of a word's probability that is uniform: a word may occur though none was seen


def word_probabilities(sums: Any, sd: float, like: Any = None, laplace: bool = False) -> Array:
    """Return the probability of every word.

    Parameters
    ----------
    sums
        The noisy sums.
    sd
        The standard deviation of their noise.
    like
        Public probabilities of the same words, where a public text gives some.
    laplace
        Whether noise has the law of Laplace instead of a Gaussian.

    Examples
    --------
    >>> word_probabilities([3.0, 1.0, 0.0], 0.0).round(3).tolist()
    [0.75, 0.25, 0.0]
    >>> word_probabilities([3.0, 1.0, 0.0], 1e6).round(3).tolist()
    [0.333, 0.333, 0.333]
    """
    y = np.asarray(sums, np.float64)
    base = np.ones(len(y))
    if like is not None:
        base = np.maximum(np.asarray(like, np.float64), 0.0)
        base = np.maximum(base / max(float(base.mean()), 1e-300), 1e-3)
    if sd <= 0.0:
        found = np.maximum(y, 0.0)
    elif like is not None:
        found = multiples_of(base, y, sd, laplace)
    else:
        found = _expected(y, sd, laplace)
    total = float(found.sum())
    if total <= 0.0:
        found, total = base, float(base.sum())
    return np.asarray((1.0 - _FLOOR) * found / total + _FLOOR / len(y))


def _expected(y: Array, sd: float, laplace: bool) -> Array:
    """Return the mean of q given y, with a prior of q that all words share."""
    same = max(float(y.mean()), 0.0)  # if all words had one value
    top = max(float(y.max()), 2.0 * same, 1e-9 * sd) * 1.05
    least = max(min(same, sd / math.sqrt(len(y))), top * 1e-6) * 0.1
    values = np.concatenate([[0.0, same], np.geomspace(min(least, top / 2.0), top, _VALUES)])
    far = (y[:, None] - values) / sd
    loss = math.sqrt(2.0) * np.abs(far) if laplace else 0.5 * np.square(far)
    likelihood = np.exp(loss.min(axis=1, keepdims=True) - loss)
    prior = np.full(len(values), 1.0 / len(values))
    for _ in range(_STEPS):
        inverse = 1.0 / (likelihood @ prior)
        prior = prior * (inverse @ likelihood) / len(y)
    explained = likelihood @ prior
    gain = float((np.log(explained) - loss.min(axis=1)).sum() + loss[:, 1].sum())
    if gain <= 0.5 * math.log(len(y)):  # noise alone gains less, nearly always
        return np.full(len(y), same)
    shrunk = (likelihood @ (prior * values)) / explained
    # the grid is coarser than the noise of what stands far out of it, and no prior matters there
    return np.where(y > _FAR * sd, y, shrunk)
