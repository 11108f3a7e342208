"""What a predictive distribution says about its own errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["calibration_error", "entropy"]


def entropy(probabilities: Any) -> NDArray[np.float64]:
    """Return the entropy of each row of probabilities, in nats.

    >>> entropy([[1.0, 0.0], [0.5, 0.5]]).round(4).tolist()
    [0.0, 0.6931]
    """
    p = np.clip(np.asarray(probabilities, np.float64), 1e-300, 1.0)
    return np.asarray(-(p * np.log(p)).sum(axis=-1) + 0.0)


def calibration_error(correct: Any, confidence: Any, bins: int = 15) -> float:
    """Return the expected calibration error: |accuracy − confidence| over equal bins, weighted.

    Parameters
    ----------
    correct
        Whether each prediction is right.
    confidence
        The probability that was given to it.
    bins
        How many bins of confidence in [0, 1].

    Examples
    --------
    >>> calibration_error([True, True, False, False], [0.5, 0.5, 0.5, 0.5])
    0.0
    """
    check("bins", bins, Integer(1))
    right, sure = np.asarray(correct, np.float64), np.asarray(confidence, np.float64)
    if right.shape != sure.shape or right.ndim != 1 or not len(right):
        raise ParameterError("correct and confidence must be vectors of one length")
    place = np.minimum((sure * bins).astype(int), bins - 1)
    gaps = np.bincount(place, right - sure, minlength=bins)
    return float(np.abs(gaps).sum() / len(right))
