"""Counts of keys that are not public: a histogram whose keys come from the data.

Source: Korolova, Kenthapadi, Mishra & Ntoulas (2009); Bun, Nissim & Stemmer (2016). Every key that
somebody has gets two-sided geometric noise, and leaves, with its noisy count, if that reaches a
threshold T. A key that nobody has never leaves; one that a single unit has leaves with a
probability that δ pays for.

**What it costs.** A unit counts once for each of at most m keys. Keys are independent given the
data, so a neighbour's effect splits into two parts:

* *Keys that both data sets have.* Their counts move by 1 each, by at most Δ in all: Δ = m where a
  unit is added or removed, 2m where one is replaced. Noise of scale Δ/ε makes this part
  (ε, 0)-private, and comparing with T is post-processing.
* *Keys that one of them has.* They have a count of 1 and leave with p = P(1 + noise ≥ T). Added or
  removed, at most m keys come: none of them leaves with probability (1 − p)^m at least, and surely
  without the unit. Replaced, at most m come and m go: "none leaves" has probability (1 − p)^m at
  least in either data set. The two laws share that much, so this part is (0, δ)-private with
  δ = 1 − (1 − p)^m ≤ m·p, also where a unit is replaced.

An independent (ε, 0)-private and a (0, δ)-private part are (ε, δ)-private together. With
α = e^(−ε/Δ), P(noise ≥ T − 1) = α^(T − 1)/(1 + α), and T is the least whole number at which
m·p ≤ δ. Counts, noise and threshold are whole numbers: nothing is rounded.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import RESOLUTION, Noise
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    ApproximateDpEvent,
    DpEvent,
    NonPrivateDpEvent,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LEAST", "MOST", "Key", "StableHistogram"]

Key = str | int

LEAST, MOST = 1e-6, 100.0  # ε of a release
_ROOM = 1.0 + 2.0**-40  # covers the rounding of the scale
_KEPT = 1.0 - 2.0**-30  # of δ: the rest pays for the source of noise and for rounding
_REACH = 60.0  # scales within which laws are summed


@dataclass(frozen=True)
class StableHistogram(Mechanism):
    """Release the keys that many units have, with noisy counts; (ε, δ)-private.

    The value is a list with one entry per unit: a key (text or a whole number), or a list, tuple
    or set of keys. A unit counts once for a key, and for its first ``most`` keys only (of a set:
    the first in order); anything else in it counts as nothing. What is released is a dictionary
    in the order of its keys, whole numbers first.

    Parameters
    ----------
    epsilon, delta
        Of the whole release; δ must be positive, since it pays for keys that become known.
        Infinity, with any δ, names every key with its count.
    most
        For how many keys one unit counts at most.
    neighbours
        The relation: where a unit is replaced, the noise is twice as large.
    source
        The kind of noise source.

    Examples
    --------
    >>> units = ["tea"] * 200 + [["coffee", "tea"]] * 100 + ["my own blend"]
    >>> histogram = StableHistogram(1.0, 1e-6, most=2)
    >>> histogram.threshold
    30
    >>> histogram.draw(units, Noise(seed=1))
    {'coffee': 100, 'tea': 302}
    """

    epsilon: float
    delta: float
    most: int = 1
    neighbours: str = ADD_REMOVE
    source: str = "grid"

    def __post_init__(self) -> None:
        if math.isinf(self.epsilon):
            check("delta", self.delta, Real(0.0, 0.5))
        else:
            check("epsilon", self.epsilon, Real(LEAST, MOST))
            check("delta", self.delta, Real(1e-280, 0.5))
        check("most", self.most, Integer(1, 10**6))
        check("neighbours", self.neighbours, OneOf(ADD_REMOVE, REPLACE))
        check("source", self.source, OneOf(*RESOLUTION))

    @property
    def sensitivity(self) -> int:
        """How far one neighbour moves all counts together."""
        return self.most * (2 if self.neighbours == REPLACE else 1)

    @property
    def scale(self) -> float:
        """Of the noise: P(k) ∝ exp(−|k|/scale)."""
        return self.sensitivity / self.epsilon * _ROOM

    @property
    def threshold(self) -> int:
        """The least noisy count that leaves; at least 2, and 1 without noise."""
        if math.isinf(self.epsilon):
            return 1
        tail = math.log(self.most) - math.log(self.delta * _KEPT)
        tail -= math.log1p(math.exp(-1.0 / self.scale))
        # a share of 1e-12 covers the rounding of logarithms and product
        return 1 + max(1, math.ceil(self.scale * tail * (1.0 + 1e-12)))

    @property
    def noise_variance(self) -> float:
        """Of the noise on each count."""
        if math.isinf(self.epsilon):
            return 0.0
        ratio = math.exp(-1.0 / self.scale)
        return 2.0 * ratio / math.expm1(-1.0 / self.scale) ** 2

    @property
    def event(self) -> DpEvent:
        """What one release costs."""
        if math.isinf(self.epsilon):
            return NonPrivateDpEvent()
        return ApproximateDpEvent(self.epsilon, self.delta)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """How contributions are bounded, and what shows which keys exist."""
        return (
            f"a unit counts for at most {self.most} keys, once each",
            f"keys with a noisy count of at least {self.threshold} are named",
        )

    def check(self, value: Any) -> None:
        """Check that there is a list of units; what they hold is private."""
        if not isinstance(value, list | tuple):
            raise ParameterError("value must be a list with the keys of each unit")

    def counts(self, value: Any) -> dict[Key, int]:
        """Return the number of units that count for each key, in the order of release; private."""
        found: Counter[Key] = Counter(unit for unit in value if type(unit) is str)
        for unit in value:
            if type(unit) is not str:
                found.update(_keys_of(unit, self.most))
        return {key: found[key] for key in sorted(found, key=_order)}

    def distance(self, value: Any, other: Any) -> float:
        """Return how far all counts move together, over the sensitivity."""
        ours, theirs = self.counts(value), self.counts(other)
        moved = sum(abs(ours.get(key, 0) - theirs.get(key, 0)) for key in ours | theirs)
        return moved / self.sensitivity

    def draw(self, value: Any, noise: Noise) -> dict[Key, int]:
        """Return the keys whose noisy count reaches the threshold."""
        counts = self.counts(value)
        if math.isinf(self.epsilon):
            return counts
        noisy = np.fromiter(counts.values(), np.int64, len(counts))
        noisy = noisy + noise.geometric(len(counts), self.scale)
        return {
            key: int(count)
            for key, count in zip(counts, noisy, strict=True)
            if count >= self.threshold
        }

    def log_density(
        self, value: Any, released: Iterable[Mapping[Key, int]]
    ) -> NDArray[np.float64]:
        """Return the log probability of releases; −∞ where a key left that nobody has."""
        return np.array([self._log_chance(self.counts(value), one) for one in released])

    def _log_chance(self, counts: Mapping[Key, int], released: Mapping[Key, int]) -> float:
        if not set(released) <= set(counts):
            return -math.inf
        step = 1.0 / self.scale
        total = 0.0
        for key, count in counts.items():
            if key in released:
                total += math.log(math.tanh(step / 2.0)) - step * abs(released[key] - count)
                continue
            below = self.threshold - count  # the noise that would have let it out
            out = math.exp(-step * abs(below)) / (1.0 + math.exp(-step))
            kept = 1.0 - out if below > 0 else out * math.exp(-step)
            total += math.log(kept)
        return total

    def _moments(self, value: Any) -> NDArray[np.float64]:
        """Return mean and second moment of what leaves of each key, 0 where it does not."""
        if math.isinf(self.epsilon):
            exact = np.array([*self.counts(value).values()], float)
            return np.column_stack([exact, np.square(exact)])
        ratio = math.exp(-1.0 / self.scale)
        reach = math.ceil(_REACH * self.scale)
        moves = np.arange(-reach, reach + 1)
        chances = ratio ** np.abs(moves) * (1.0 - ratio) / (1.0 + ratio)
        found = []
        for count in self.counts(value).values():
            left = np.where(count + moves >= self.threshold, count + moves, 0)
            found.append((chances @ left, chances @ np.square(left)))
        return np.array(found).reshape(-1, 2)

    def bias(self, value: Any) -> NDArray[np.float64]:
        """Return the expected error of each key's count; one that does not leave counts as 0."""
        truth = np.array(list(self.counts(value).values()))
        return np.asarray(self._moments(value)[:, 0] - truth)

    def variance(self, value: Any) -> NDArray[np.float64]:
        """Return the variance of each key's count; one that does not leave counts as 0."""
        moments = self._moments(value)
        return np.asarray(moments[:, 1] - np.square(moments[:, 0]))


def _order(key: Key) -> tuple[bool, Key]:
    return isinstance(key, str), key


def _as_key(key: object) -> Key | None:
    """Return a key as plain text or number, None for anything else."""
    if isinstance(key, str):
        return str(key)
    if isinstance(key, numbers.Integral) and not isinstance(key, bool):
        return int(key)
    return None


def _keys_of(unit: object, most: int) -> list[Key]:
    """Return the keys that a unit counts for; nothing but the unit itself decides."""
    parts: Iterable[object] = unit if isinstance(unit, list | tuple | set | frozenset) else [unit]
    keys = (found for part in parts if (found := _as_key(part)) is not None)
    distinct: Iterable[Key] = dict.fromkeys(keys)
    if isinstance(unit, set | frozenset):
        distinct = sorted(distinct, key=_order)
    return list(distinct)[:most]
