"""Ranges that nobody knows: found privately, as quantiles on a log scale.

A column without public bounds may hold anything. Its numbers are put on the scale

    t = sign(x)·log(1 + |x|/s)/log(1 + L/s),

where s is so small that what is smaller counts as zero, and L larger than anything that is meant:
both are public, and [−1, 1] then holds every number. Two quantiles of t are drawn by the
exponential mechanism (`tacit.mechanisms.quantiles`, where the sensitivity stands), which is off by
a number of ranks that grows with the logarithm of the scale alone: a factor of a million between
s and L costs as many ranks as one of a thousand twice over. Back on the column's own scale what
lies between the quartiles is widened around its middle, by a factor that holds a normal column up
to four standard deviations: quartiles have a quarter of the rows beyond them, and are found where
tails are lost in the noise, and too wide a range only costs noise. The scale is cut into 2²⁰
steps, less than a ten-thousandth of a number each, over which equal numbers are spread, so that a
draw finds a column of few different numbers, too. What lies outside counts as the end in the fit.
A prediction follows the line on to three half-ranges from the middle, and stays there. A column
that is mostly one number has a range of no width, in which every other number is at the end, and
there predictions stop.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.check import SIZE, Integer, Real, check
from tacit.errors import ParameterError

__all__ = ["LEVELS", "STEP", "FindBounds", "flat", "followed", "middles_and_halves"]

LEVELS = (0.25, 0.75)
STEP = 2.0**-19  # of the log scale
WIDER = 6.0  # than what lies between these: compared on simulated tables
FOLLOWED = 3.0  # half-ranges from the middle, in predictions
_NARROW = 1e-6  # of a column's size: a range is no narrower, however alike its numbers are


@dataclass(frozen=True)
class FindBounds:
    """Instead of bounds: find them privately, with a part of the budget.

    Parameters
    ----------
    features
        The names of the features in order, or how many there are: these are public.
    share
        The part of ε that finding takes; the columns share it evenly.
    smallest
        What is smaller counts as zero.
    largest
        What is larger counts as that.

    Examples
    --------
    >>> found = FindBounds(["age", "dose"])
    >>> found.names, round(float(found.to_log(1000.0)), 3)
    (('age', 'dose'), 0.6)
    >>> round(float(found.from_log(found.to_log(1000.0))), 6)
    1000.0
    """

    features: int | Sequence[str]
    share: float = 0.3
    smallest: float = 1e-6
    largest: float = 1e9

    def __post_init__(self) -> None:
        listed = isinstance(self.features, Sequence) and not isinstance(self.features, str)
        if not (listed or isinstance(self.features, int)):
            raise ParameterError(
                f"features must be names, or how many there are, got {self.features!r}"
            )
        if isinstance(self.features, int):
            check("features", self.features, Integer(1))
        else:
            object.__setattr__(self, "features", tuple(str(name) for name in self.features))
            if len(set(self.names)) != len(self.names) or not self.names:
                raise ParameterError("features must be different names, one at least")
        check("share", self.share, Real(0.01, 0.9))
        check("smallest", self.smallest, SIZE)
        check("largest", self.largest, SIZE)
        if self.largest < 10.0 * self.smallest or self.largest > 1e12:
            raise ParameterError(
                "largest must be at least ten times smallest and at most 1e12, got "
                f"{self.largest:g} and {self.smallest:g}"
            )

    @property
    def by_name(self) -> bool:
        """Whether features go by their names."""
        return not isinstance(self.features, int)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        if isinstance(self.features, int):
            return tuple(f"x{k}" for k in range(self.features))
        return tuple(self.features)

    @property
    def stated(self) -> dict[str, Any]:
        """What a proposal or a file says: ``bounds = {find = …}``."""
        own = self.features if isinstance(self.features, int) else list(self.features)
        return {
            "find": own,
            "share": self.share,
            "smallest": self.smallest,
            "largest": self.largest,
        }

    @classmethod
    def of(cls, bounds: Any) -> FindBounds | None:
        """Return what bounds ask to be found; None where they are bounds."""
        if isinstance(bounds, cls):
            return bounds
        if not isinstance(bounds, Mapping) or not _finds(bounds.get("find")):
            return None
        more = {name: value for name, value in bounds.items() if name != "find"}
        unknown = sorted(set(more) - {"share", "smallest", "largest"})
        if unknown:
            raise ParameterError(f"bounds = {{find = …}} has no {unknown[0]!r}")
        return cls(bounds["find"], **more)

    def to_log(self, values: Any) -> Array:
        """Return numbers on the scale of [−1, 1]; what is not finite is at its end, or zero."""
        kept = np.nan_to_num(np.asarray(values, float), posinf=self.largest, neginf=-self.largest)
        size = np.log1p(np.minimum(np.abs(kept), self.largest) / self.smallest)
        return np.asarray(np.sign(kept) * size / math.log1p(self.largest / self.smallest))

    def from_log(self, places: Any) -> Array:
        """Return the numbers that lie at these places."""
        t = np.clip(np.asarray(places, float), -1.0, 1.0)
        size = np.expm1(np.abs(t) * math.log1p(self.largest / self.smallest))
        return np.asarray(np.sign(t) * size * self.smallest)


def _finds(features: Any) -> bool:
    """Whether this names features, or says how many there are; a range of one does not."""
    named = isinstance(features, list | tuple) and all(isinstance(n, str) for n in features)
    return named or isinstance(features, int)


def followed(search: FindBounds, middle: Any, half: Any) -> tuple[Array, Array]:
    """Return the numbers to which predictions follow a line, of every feature."""
    centre, width = np.asarray(middle, float), np.asarray(half, float)
    reach = np.where(flat(search, centre, width), 1.0, FOLLOWED) * width
    return centre - reach, centre + reach


def flat(search: FindBounds, middle: Any, half: Any) -> NDArray[np.bool_]:
    """Return whether ranges have no width: columns that are mostly one number."""
    least = np.maximum(_NARROW * np.abs(np.asarray(middle, float)), search.smallest)
    return np.asarray(np.asarray(half, float) <= (1.0 + 1e-6) * least)


def middles_and_halves(
    search: FindBounds, ends: Array, centred: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return middle and half-range of every column, from quantiles that sites released.

    Parameters
    ----------
    search
        What was asked for.
    ends
        The quantiles on the log scale, (sites, columns, 2): of several sites the median counts, so
        that a few of them do not decide.
    centred
        Whether a range is about its middle; else zero stays zero (there is no intercept).
    """
    drawn = np.rint(np.asarray(ends) / STEP) * STEP
    low, high = np.median(search.from_log(drawn), axis=0).T
    middle = (low + high) / 2.0 if centred else np.zeros(len(low))
    half = WIDER * (high - low) / 2.0 if centred else WIDER * np.maximum(np.abs(low), np.abs(high))
    least = np.maximum(_NARROW * np.maximum(np.abs(low), np.abs(high)), search.smallest)
    return tuple(middle.tolist()), tuple(np.maximum(half, least).tolist())
