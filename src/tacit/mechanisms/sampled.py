"""A mechanism on a Poisson sample of the units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    DpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
)

__all__ = ["PoissonSampled"]


@dataclass(frozen=True)
class PoissonSampled(Mechanism):
    """A mechanism applied to a Poisson sample of the units, drawn afresh for each release.

    The caller draws the sample: every unit independently with probability ``rate``. The inner
    mechanism states its sensitivity for adding or removing one unit (the clip norm), also under
    replace-one, where the accountant takes care of the rest.
    """

    mechanism: GridMechanism
    rate: float
    neighbours: str = ADD_REMOVE

    def __post_init__(self) -> None:
        check("rate", self.rate, Real(0, 1, open_low=True))
        if not self.mechanism.additive:
            raise ParameterError(
                "a sampled mechanism adds noise to a sum over the sample, which "
                f"{type(self.mechanism).__name__} does not"
            )
        if self.mechanism.neighbours != ADD_REMOVE:
            raise ParameterError(
                "a sampled mechanism states its sensitivity for adding or removing one unit: "
                "pass neighbours='add-remove-one' to the inner mechanism"
            )

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
        return PoissonSampledDpEvent(self.rate, inner, self.neighbours)

    def check(self, value: Any) -> None:
        """Check as the inner mechanism does."""
        self.mechanism.check(value)

    def distance(self, value: Any, other: Any) -> float:
        """Return the distance of two sums over samples that differ by one unit at most.

        The sensitivity is that of one unit added or removed; a unit that is replaced is both.
        """
        far = self.mechanism.distance(value, other)
        return far / 2.0 if self.neighbours == REPLACE else far

    def draw(self, value: Any, noise: Noise) -> Any:
        """Draw as the inner mechanism does."""
        return self.mechanism.draw(value, noise)

    def bias(self, value: Any) -> float:
        """Centred given the sample."""
        return self.mechanism.bias(value)

    def variance(self, value: Any = None) -> Any:
        """Return the variance given the sample."""
        return self.mechanism.variance(value)
