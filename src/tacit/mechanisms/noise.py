"""Two sources of integer noise behind one interface (PRIVACY A5).

Both return whole numbers of a grid step. Values are whole numbers of the same step, so adding
is exact, and rounded noise added to a grid value is the rounding of the ideal sum: whatever
the ideal mechanism guarantees holds for the result by post-processing.

========  ======================================================================================
exact     OpenDP's discrete samplers, for one-shot releases of few numbers. Gaussian noise
          needs a scale of at least 2³¹ steps: there the discrete Gaussian is within 2⁻⁶⁶ of the
          rounded one (distance 0.0202/s²: the ratio of the two laws at k is
          1 + (k²/s⁴ − 1/s²)/24 + O(s⁻⁴), and E|Z² − 1| = 0.968)
grid      exact inverse-CDF draws from ChaCha20 words (`tacit._core.exact`), for the many draws
          of an iterative method: the law of the *rounded continuous* noise to 2⁻¹⁰⁰
========  ======================================================================================

The rounded Gaussian is preferred to a discrete one because the continuous accounting then holds
as it stands, sampled or not; a discrete Gaussian is only close to it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core import exact
from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit._core.discrete_gaussian import discrete_gaussian
from tacit._core.rng import WordStream
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RESOLUTION", "Noise"]

# log2 of the noise scale in grid steps: g = 2^(⌊log2 scale⌋ − bits)
RESOLUTION = {"grid": 20, "exact": 32}
_SMALLEST_EXACT_SCALE = 2.0**31


class Noise:
    """A source of integer noise.

    Parameters
    ----------
    kind
        ``"grid"`` (fast) or ``"exact"`` (OpenDP).
    seed
        For tests and for reproducing tables only: the noise is then predictable, and a
        certificate says so. Seeded noise always comes from the seeded ChaCha20 stream.

    Examples
    --------
    >>> Noise("grid", seed=1).gaussian(3, 2.0**20).shape
    (3,)
    """

    def __init__(self, kind: str = "grid", *, seed: int | None = None) -> None:
        check("kind", kind, OneOf(*RESOLUTION))
        check("seed", seed, AnyOf(Integer(0), None))
        self.kind = kind
        self.seeded = seed is not None
        self.stream = WordStream(seed)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a certificate has to say about this source."""
        if self.seeded:
            return ("seeded noise: not for release",)
        distance = "2^-100" if self.kind == "grid" else "2^-66"
        return (f"noise within {distance} per draw of its ideal law ({self.kind} source)",)

    def gaussian(self, count: int, scale: float) -> NDArray[np.int64]:
        """Return draws of N(0, scale²), rounded to whole numbers."""
        if self.kind == "exact" and not self.seeded:
            if scale < _SMALLEST_EXACT_SCALE:
                raise ParameterError("the exact Gaussian needs a scale of at least 2^31 steps")
            return _opendp("gaussian", count, scale)
        return exact.half_normal().integers(self.stream, count, scale, offset=0.5, signed=True)

    def laplace(self, count: int, scale: float) -> NDArray[np.int64]:
        """Return draws of Laplace noise on whole numbers.

        The exact source is the discrete Laplace law, the grid source the rounded continuous
        one; a shift by k changes either by a factor of at most exp(|k|/scale).
        """
        if self.kind == "exact" and not self.seeded:
            return _opendp("laplace", count, scale)
        return exact.exponential().integers(self.stream, count, scale, offset=0.5, signed=True)

    def geometric(self, count: int, scale: float) -> NDArray[np.int64]:
        """Return draws with P(k) ∝ exp(−|k|/scale), exactly.

        The floor of an exponential number is geometric, and the difference of two geometric
        numbers is two-sided geometric.
        """
        if self.kind == "exact" and not self.seeded:
            return _opendp("laplace", count, scale)
        pair = exact.exponential().integers(
            self.stream, 2 * count, scale, offset=0.0, signed=False
        )
        return np.asarray(pair[:count] - pair[count:])

    def discrete_gaussian(self, count: int, scale: float) -> NDArray[np.int64]:
        """Return draws with P(k) ∝ exp(−k²/(2·scale²)), exactly, from either source."""
        if self.kind == "exact" and not self.seeded:
            return _opendp("gaussian", count, scale)
        return discrete_gaussian(self.stream, count, scale)

    def subset(self, count: int, size: int) -> list[int]:
        """Return a set of positions, in order; every one of that size is equally likely.

        Floyd's algorithm.
        """
        chosen: set[int] = set()
        for last in range(count - size, count):
            place = self.stream.below(last + 1)
            chosen.add(last if place in chosen else place)
        return sorted(chosen)

    def sample(self, count: int, rate: float) -> NDArray[np.int64]:
        """Return a Poisson sample of 0 … count − 1: each number independently with ``rate``.

        The gaps between sampled numbers are geometric: floors of exponential numbers of scale
        −1/ln(1 − rate), so that a sample costs as much as it holds. The scale is rounded up, the
        rate that is really used is therefore never above the stated one.

        >>> Noise("grid", seed=1).sample(5, 1.0).tolist()
        [0, 1, 2, 3, 4]
        """
        check("count", count, Integer(0))
        check("rate", rate, Real(2.0**-40, 1))
        if rate == 1.0:
            return np.arange(count, dtype=np.int64)
        # two units in the last place cover log1p and the division
        scale = float(np.nextafter(np.nextafter(-1.0 / np.log1p(-rate), np.inf), np.inf))
        law, parts, last = exact.exponential(), [np.empty(0, np.int64)], -1
        while last < count - 1:
            left = rate * (count - 1 - last)
            gaps = law.integers(
                self.stream, int(left + 4.0 * left**0.5) + 8, scale, offset=0.0, signed=False
            )
            # no gap beyond the end matters, and cut gaps do not overflow
            found = last + np.cumsum(np.minimum(gaps, count) + 1)
            parts.append(found)
            last = int(found[-1])
        positions = np.concatenate(parts)
        return positions[: int(np.searchsorted(positions, count))]


@cache
def _opendp_library() -> Any:
    import opendp.prelude as opendp

    opendp.enable_features("contrib")
    return opendp


def _opendp(law: str, count: int, scale: float) -> NDArray[np.int64]:
    """Draw from OpenDP's exact discrete samplers."""
    return np.array(_measurement(law, scale)([0] * count), dtype=np.int64)


def _measurement(law: str, scale: float) -> Any:
    """Return OpenDP's sampler; made anew each time, since a scale may be private.

    (Smooth sensitivity.) Kept by scale, it would stay in memory, and how long a later draw takes
    would tell whether the same scale was there before.
    """
    opendp = _opendp_library()
    integers = opendp.vector_domain(opendp.atom_domain(T="i64"))
    if law == "gaussian":
        return opendp.m.make_gaussian(integers, opendp.l2_distance(T="f64"), scale=scale)
    return opendp.m.make_laplace(integers, opendp.l1_distance(T="i64"), scale=scale)
