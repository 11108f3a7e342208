"""Aggregators: what the coordinator sees of the replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.errors import SiteFailure
from tacit.rounds.messages import Message
from tacit.rounds.sides import Collected

__all__ = ["Aggregator", "PlainAggregator", "SumAggregator"]


def _total(replies: Mapping[str, Message]) -> dict[str, Any]:
    """Add up the arrays of all replies in the order of the sites' names.

    Arrays whose shapes differ between sites have no sum.
    """
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for message in replies.values():
        for name, array in message.arrays.items():
            shapes.setdefault(name, set()).add(array.shape)
    totals: dict[str, Any] = {}
    for site in sorted(replies):
        for name, array in replies[site].arrays.items():
            if len(shapes[name]) > 1:
                continue
            # int64 wraps around silently in NumPy, as sums modulo 2^64 should
            totals[name] = array.copy() if name not in totals else totals[name] + array
    return totals


class Aggregator(ABC):
    """Turns the replies of one round into what the coordinator may see."""

    @abstractmethod
    def collect(self, replies: Mapping[str, Message]) -> Collected:
        """Combine the replies."""


class PlainAggregator(Aggregator):
    """The coordinator sees every site's reply."""

    def collect(self, replies: Mapping[str, Message]) -> Collected:
        """Pass everything on."""
        return Collected(tuple(sorted(replies)), _total(replies), dict(replies))


class SumAggregator(Aggregator):
    """The coordinator sees only the sum.

    In one process this hides the parts from the coordinator's code; between institutions the
    secure aggregation of `tacit.federation` takes its place.

    ``minimum`` is the smallest group whose sum is revealed.
    """

    def __init__(self, minimum: int = 2) -> None:
        check("minimum", minimum, Integer(1))
        self.minimum = minimum

    def collect(self, replies: Mapping[str, Message]) -> Collected:
        """Reveal the sum of at least ``minimum`` replies, or nothing."""
        if len(replies) < self.minimum:
            raise SiteFailure(
                f"only {len(replies)} sites answered, and a sum is revealed from {self.minimum} on"
            )
        for message in replies.values():
            for name, array in message.arrays.items():
                if not np.issubdtype(array.dtype, np.number):
                    raise SiteFailure(f"array {name!r} cannot be summed")
        total = _total(replies)
        for message in replies.values():
            for name in message.arrays:
                if name not in total:
                    raise SiteFailure(f"array {name!r} has another shape at another site")
        return Collected(tuple(sorted(replies)), total, None)
