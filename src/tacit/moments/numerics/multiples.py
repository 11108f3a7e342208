"""Word probabilities as multiples of public ones, from noisy sums.

With a public text of the same kind the sum of a word is q = N·b·r: b its public probability, N
what all words share, r how much more common it is here, near one for most. The sum y that is seen
is q plus noise of a known law.

**What is known of N** is y·b/‖b‖², with a standard deviation of sd/‖b‖. Where it does not stand
`CLEAR` of these above zero, the sums say nothing beyond b, which is the answer.

**What is known of r** is averaged over models, by how well each explains the sums: r is one for
all words (`SAME` of the prior), or has a lognormal law of mean m and width t, with (m, t) from a
ladder, m near one. Models are averaged for groups of words by how common they are in public: of
rare words a text of some size says less, so that their multiples are wider. Since all laws have a
mean near one, noise is never taken for words that stand far above what is public; what stands out
of the noise by itself is taken as it is.

The constants were chosen on simulated corpora (`tests/moments/numerics/test_multiples.py` has the
simulation): averages lose nothing to b alone at any noise, and gain where sums are clear.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from tacit._core.arrays import Array

__all__ = ["multiples_of"]

CLEAR = 3.0  # standard deviations of what all words share
SAME = 0.9  # the chance, beforehand, that all multiples of a group are one
_MEANS = np.geomspace(0.35, 1.0 / 0.35, 9)
_MEAN_WIDTH = 0.2  # of the logarithm of a mean, as a rule
_WIDTHS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0)  # of the logarithms of multiples
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-2, 1e2, 70)])
_FIRST, _GROWTH = 64, 8  # so many of the most common words are a group, then more and more
_FAR = 5.0  # standard deviations


def multiples_of(base: Any, sums: Any, sd: float, laplace: bool = False) -> Array:
    """Return the mean of q given the sums.

    Parameters
    ----------
    base
        b, positive; any scale.
    sums
        y, with noise.
    sd
        The standard deviation of the noise.
    laplace
        Whether it has Laplace's law instead of a Gaussian.

    Examples
    --------
    >>> multiples_of([3.0, 2.0, 1.0], [30.0, 20.0, 10.0], 1.0).round(1).tolist()
    [30.0, 20.0, 10.0]
    >>> multiples_of([3.0, 2.0, 1.0], [1.0, 5.0, -9.0], 10.0).tolist()
    [3.0, 2.0, 1.0]
    """
    b, y = np.asarray(base, np.float64), np.asarray(sums, np.float64)
    shared = float(y @ b) / float(b @ b)
    if shared * math.sqrt(float(b @ b)) < CLEAR * sd:
        return b
    found = np.empty(len(y))
    order, start, size = np.argsort(-b, kind="stable"), 0, _FIRST
    while start < len(y):
        some = order[start : start + size]
        found[some] = _averaged(shared * b[some], y[some], sd, laplace)
        start, size = start + size, _GROWTH * size
    return np.where(y > _FAR * sd, y, found)


def _averaged(likely: Array, y: Array, sd: float, laplace: bool) -> Array:
    """Return the mean of q of one group, over models; ``likely`` is q where multiples are one."""
    laws, chances = _models()
    far = (y[:, None] - likely[:, None] * _RATIOS) / sd
    loss = math.sqrt(2.0) * np.abs(far) if laplace else 0.5 * np.square(far)
    likelihood = np.exp(loss.min(axis=1, keepdims=True) - loss)
    explained = np.maximum(likelihood @ laws, 1e-300)
    score = chances + np.log(explained).sum(axis=0)
    weight = np.exp(score - score.max())
    means = (likelihood @ (laws * _RATIOS[:, None])) / explained
    return np.asarray(likely * (means @ (weight / weight.sum())))


@cache
def _models() -> tuple[Array, Array]:
    """Return the laws of a multiple, on the grid, as columns, and the logs of their chances."""
    laws, scores = [], []
    for mean in _MEANS:
        for width in _WIDTHS:
            laws.append(_law(math.log(mean), width))
            scores.append(-0.5 * (math.log(mean) / _MEAN_WIDTH) ** 2)
    rest = np.exp(scores)
    chances = np.append(np.log((1.0 - SAME) * rest / rest.sum()), math.log(SAME))
    return np.array([*laws, _law(0.0, 0.0)]).T, chances


def _law(log_mean: float, width: float) -> Array:
    """Return a lognormal law of some mean on the grid; of no width, the two points beside it."""
    logs, found = np.log(_RATIOS[1:]), np.zeros(len(_RATIOS))
    if width > 0.0:
        found[1:] = np.exp(-0.5 * np.square((logs - log_mean + width**2 / 2.0) / width))
        return np.asarray(found / found.sum())
    above = int(np.searchsorted(logs, log_mean))
    low, high = _RATIOS[above], _RATIOS[above + 1]
    part = (math.exp(log_mean) - low) / (high - low)  # so that the mean is that
    found[above], found[above + 1] = 1.0 - part, part
    return found
