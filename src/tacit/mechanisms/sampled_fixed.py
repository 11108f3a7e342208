"""A mechanism on a sample of fixed size, drawn without replacement.

**What it costs.** Let q = m/n be the share of the n units that the sample of m holds, and δ(ε) the
curve of the inner mechanism where a unit is replaced. The sample holds the unit with probability
q, and without it the two laws are the same, so that (Balle, Barthe & Gaboardi 2018, Theorem 9)

    δ'(ln(1 + q·(e^ε − 1))) ≤ q·δ(ε)    for ε ≥ 0.

The relation is to replace one unit, which has no direction: the same curve bounds both orders of
two neighbours, and a pair of laws that has it dominates every step of a composition (Zhu, Dong &
Wang 2022). That is `SampledWithoutReplacementDpEvent`. Where a unit is added or removed the number
n differs between neighbours, and with it the law of the whole sample: that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit._core.check import Integer, check
from tacit.errors import ParameterError
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import (
    REPLACE,
    DpEvent,
    NonPrivateDpEvent,
    SampledWithoutReplacementDpEvent,
)

__all__ = ["SampledWithoutReplacement"]


@dataclass(frozen=True)
class SampledWithoutReplacement(Mechanism):
    """A mechanism applied to a uniform sample of fixed size, drawn afresh for each release.

    The caller draws the sample (`pick`), of units as the certificate states them.

    Parameters
    ----------
    mechanism
        Gaussian or Laplace noise, whose sensitivity is for replacing one unit of the sample.
    units, size
        The public numbers of units and of those in a sample.

    Examples
    --------
    >>> from tacit.mechanisms.gaussian import Gaussian
    >>> inner = Gaussian.calibrated(2.0, 2.0, (3,), neighbours=REPLACE)
    >>> batch = SampledWithoutReplacement(inner, units=1000, size=10)
    >>> from tacit.privacy.accounting.accountants import epsilon_of
    >>> round(epsilon_of(inner.event, 1e-6), 2), round(epsilon_of(batch.event, 1e-6), 2)
    (2.25, 0.04)
    >>> len(set(batch.pick(Noise(seed=1))))
    10
    """

    mechanism: GridMechanism
    units: int
    size: int

    def __post_init__(self) -> None:
        check("units", self.units, Integer(1))
        check("size", self.size, Integer(1, self.units))
        if not self.mechanism.additive:
            raise ParameterError(
                "a sampled mechanism adds noise to a sum over the sample, which "
                f"{type(self.mechanism).__name__} does not"
            )
        if self.mechanism.neighbours != REPLACE:
            raise ParameterError(
                "sampling without replacement is accounted for where one unit is replaced: pass "
                "neighbours='replace-one' to the inner mechanism, with the sensitivity for that"
            )

    @property
    def neighbours(self) -> str:
        """The only relation for which it holds."""
        return REPLACE

    @property
    def source(self) -> str:
        """The kind of noise source of the inner mechanism."""
        return self.mechanism.source

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        inner = self.mechanism.event
        if isinstance(inner, NonPrivateDpEvent):
            return inner
        return SampledWithoutReplacementDpEvent(self.units, self.size, inner)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """That the number of units is public."""
        return (f"the number of units, {self.units}, is public", *self.mechanism.assumptions)

    def pick(self, noise: Noise) -> list[int]:
        """Return the numbers of the units in one sample, in order, from the secret stream."""
        return noise.subset(self.units, self.size)

    def check(self, value: Any) -> None:
        """Check as the inner mechanism does."""
        self.mechanism.check(value)

    def distance(self, value: Any, other: Any) -> float:
        """Return the distance of two sums over samples in which one unit was replaced."""
        return self.mechanism.distance(value, other)

    def draw(self, value: Any, noise: Noise) -> Any:
        """Draw as the inner mechanism does."""
        return self.mechanism.draw(value, noise)

    def bias(self, value: Any) -> float:
        """Centred given the sample."""
        return self.mechanism.bias(value)

    def variance(self, value: Any = None) -> Any:
        """Return the variance given the sample."""
        return self.mechanism.variance(value)
