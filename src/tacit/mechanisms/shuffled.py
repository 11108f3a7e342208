"""Messages through a shuffler: each is randomised on its device, and all come in random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import InstanceOf, Integer, check
from tacit.errors import NotCertified, ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy.amounts import float_above
from tacit.privacy.events import DpEvent, ShuffledDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Shuffled"]


@dataclass(frozen=True)
class Shuffled(Mechanism):
    """A local mechanism for one number per person, with labels, in random order.

    A value has two columns: the number, and a label that was drawn without looking at the person's
    data (which coordinate the number is about). The label goes through as it is. What each
    message says is protected by the local mechanism alone; the smaller ε of the event holds for
    whoever sees the messages without knowing who sent which (`tacit.privacy.accounting.shuffled`).

    Parameters
    ----------
    inner
        The local mechanism, purely ε₀-private.
    people
        How many messages are shuffled, at least. Under replace-one neighbours that is public.

    Examples
    --------
    >>> from tacit.mechanisms.one_bit import OneBitMean
    >>> from tacit.privacy.accounting.accountants import epsilon_of
    >>> epsilon_of(Shuffled(OneBitMean(1.0), 10_000).event, 1e-6) < 0.06
    True
    """

    inner: Mechanism
    people: int

    def __post_init__(self) -> None:
        check("inner", self.inner, InstanceOf(Mechanism))
        check("people", self.people, Integer(1))
        if not self.inner.local:
            raise NotCertified(
                f"a shuffler amplifies answers that each person draws apart, which "
                f"{type(self.inner).__name__} does not"
            )
        if self.inner.pure_epsilon is None:
            raise NotCertified("a shuffler amplifies purely ε-private messages only")

    @property
    def event(self) -> DpEvent:
        """What each person pays, given the shuffler."""
        local = self.inner.pure_epsilon
        assert local is not None
        return ShuffledDpEvent(float_above(local), self.people)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Name the trust, and what holds without it."""
        event = self.event
        assert isinstance(event, ShuffledDpEvent)
        return (
            f"a shuffler hides who of {self.people} persons sent which message; without it each "
            f"message is {event.local_epsilon:g}-private by itself",
        )

    def check(self, value: Any) -> None:
        """Check the shape."""
        if np.ndim(value) != 2 or np.shape(value)[1] != 2:
            raise ParameterError("value must hold two columns, a number and a label per person")
        if len(value) < self.people:
            raise ParameterError(f"value must hold at least {self.people} messages")

    def distance(self, value: Any, other: Any) -> float:
        """Return how many people's messages differ, labels included."""
        ours, theirs = np.asarray(value), np.asarray(other)
        far = self.inner.distance(ours[:, 0], theirs[:, 0])
        return far + float(np.count_nonzero(ours[:, 1] != theirs[:, 1]))

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Randomise every number, then forget the order."""
        table = np.array(value, np.float64)
        table[:, 0] = self.inner.draw(table[:, 0], noise)
        # sorted by random words: every order is as likely, but for ties of two in 2⁶⁴
        return np.asarray(table[np.argsort(noise.stream.words(len(table)))])

    def bias(self, value: Any) -> Any:
        """Return the bias of the mean number: that of the local mechanism."""
        return np.mean(self.inner.bias(np.asarray(value)[:, 0]))

    def variance(self, value: Any) -> Any:
        """Return the variance of the mean number; order does not matter to it."""
        return np.mean(self.inner.variance(np.asarray(value)[:, 0])) / len(value)
