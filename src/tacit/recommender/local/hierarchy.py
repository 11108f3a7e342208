"""A public hierarchy of items, and how many people are asked about each level of it.

A level puts every item into one of G groups (a genre, a decade, a band of popularity), coarse
levels first; what group an item is in is public. Nobody answers about more than one level, so n
people are shared out: n_0 are asked about the overall mean, n_l about level l. An answer has a
variance s² (noise and people's own spread), so a group's offset is known up to s²·G_l/n_l. With
τ² the typical variance of a level's offsets, shrinking leaves of it

    τ²·a_l/(a_l + n_l),    a_l = s²·G_l/τ²,

and the sum over levels is least where n_l = √(a_l·τ²/ν) − a_l or zero, ν such that all people are
asked. Levels that would be left with more noise than `_HOPELESS` times τ² are not asked: the
coarser ones get their people. All of it follows from what is public: n, ε, δ, trust and G.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from tacit.data.columns import is_missing
from tacit.data.members import key
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats, Integers

__all__ = ["Level", "LevelNeed", "level_needs", "level_shares", "levels_of"]

TYPICAL = 0.05  # τ² as a rule, for values in [−2, 2]
_MEAN = 0.05  # of the people, for the overall mean
_HOPELESS = 3.0
_FEW, _MANY = 1, 1 << 40  # people that needs are searched between
_LEAST, _MOST = 1e-3, 20.0  # ε that needs are searched between


@dataclass(frozen=True)
class Level:
    """One level: its name and the group of every item, numbered from 0."""

    name: str
    groups: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many groups there are."""
        return max(self.groups) + 1

    @property
    def of_items(self) -> Integers:
        """The group of every item."""
        return np.array(self.groups, np.int64)


def levels_of(given: Any) -> tuple[Level, ...]:
    """Return levels from what a caller passed: name → a label per item, coarse levels first.

    >>> [(level.name, level.size) for level in levels_of({"genre": ["drama", "war", "drama"]})]
    [('genre', 2)]
    """
    try:
        pairs = list(given.items() if isinstance(given, Mapping) else given)
        stated = [(one.name, one.groups) if isinstance(one, Level) else one for one in pairs]
        named = [(name, labels) for name, labels in stated]
    except (TypeError, ValueError):
        raise ParameterError(
            "levels must be {name: a label for every item}, or a list of such pairs"
        ) from None
    found = []
    for name, labels in named:
        if not isinstance(name, str) or not name.strip():
            raise ParameterError(f"levels must have names, got {name!r}")
        places: dict[Any, int] = {}
        marks = _plain(labels, name)
        found.append(Level(name, tuple(places.setdefault(mark, len(places)) for mark in marks)))
    sizes = {len(level.groups) for level in found}
    if len(sizes) > 1:
        raise ParameterError(f"levels are of different numbers of items: {sorted(sizes)}")
    if len({level.name for level in found}) < len(found):
        raise ParameterError("levels must have distinct names")
    return tuple(found)


def _plain(labels: Any, name: str) -> list[str]:
    """Return the text that every label is compared by, as the names of items are."""
    what = f"level {name!r} must have one label for every item, in their order"
    if isinstance(labels, str | bytes | Mapping | Set) or not hasattr(labels, "__len__"):
        raise ParameterError(f"{what}: pass a list")
    found = list(labels.tolist() if hasattr(labels, "tolist") else labels)
    if not found:
        raise ParameterError(f"{what}: there is none")
    for place, label in enumerate(found):
        if is_missing(label) or not isinstance(label, str | Real | np.generic | date):
            raise ParameterError(
                f"{what}: number {place} is {label!r}. Pass a text or a number, and a label of "
                "its own for items of which nothing is known"
            )
    return [key(label) for label in found]


def level_shares(sizes: Sequence[int], people: float, answer: float) -> Floats:
    """Return the share of people asked about the mean and about every level; see the module.

    Parameters
    ----------
    sizes
        Groups of every level.
    people
        How many there are.
    answer
        s², the variance of one answer, for values in [−2, 2].

    Examples
    --------
    >>> level_shares([20, 400], 1_000, 40.0).round(2).tolist()
    [1.0, 0.0, 0.0]
    """
    shares = np.zeros(len(sizes) + 1)
    shares[0] = 1.0
    asked = list(range(len(sizes)))
    least = np.array([answer * size / TYPICAL for size in sizes])
    while asked:
        counts = _filled(least[asked], people * (1.0 - _MEAN))
        hopeless = least[asked] > _HOPELESS * counts
        if not hopeless.any():
            shares[0] = _MEAN
            shares[1:][asked] = counts / people
            break
        asked.remove(asked[int(np.argmax(np.where(hopeless, least[asked], 0.0)))])
    return shares


def _filled(least: Floats, people: float) -> Floats:
    """Return √(a/ν) − a or zero, ν such that they add up to all people."""
    order = np.sort(least)
    for count in range(len(order), 0, -1):  # those with the smallest a are asked
        root = (people + order[:count].sum()) / np.sqrt(order[:count]).sum()
        if root * math.sqrt(order[count - 1]) >= order[count - 1]:
            break
    return np.asarray(np.maximum(root * np.sqrt(least) - least, 0.0))


class LevelNeed(NamedTuple):
    """What one level of a hierarchy needs."""

    level: str
    groups: int
    people: int  # asked about it
    deviation: float  # of a group's offset before shrinking, as a share of the range
    least_people: int | None  # from which the level is asked, at this ε
    least_epsilon: float | None  # from which it is, with so many people

    def __str__(self) -> str:
        whom = f"{self.people} people are asked" if self.people else "nobody is asked"
        known = f", an offset is known within {100 * self.deviation:.2g} % of the range"
        needs = []
        if self.least_people is not None:
            needs.append(f"{self.least_people} people at this ε")
        if self.least_epsilon is not None:
            needs.append(f"ε = {self.least_epsilon:.2g} with so many people")
        need = " or ".join(needs) or "more than there can be"
        told = f"{whom}{known if self.people else ''}"
        return f"{self.level} ({self.groups} groups): {told}; it needs {need}"


def level_needs(
    names: Sequence[str], sizes: Sequence[int], people: int, epsilon: float, answer_of: Any
) -> list[LevelNeed]:
    """Return what every level needs, before any data is read.

    Parameters
    ----------
    names, sizes
        Of the levels, coarse ones first.
    people, epsilon
        What is planned.
    answer_of
        Returns s² of one answer, for an ε and a number of people.
    """

    def asked(level: int, count: float, privacy: float) -> bool:
        shares = level_shares(sizes, count, answer_of(privacy, int(count)))
        return bool(shares[level + 1] > 0.0)

    shares, found = level_shares(sizes, people, answer_of(epsilon, people)), []
    for k, (name, size) in enumerate(zip(names, sizes, strict=True)):
        count = shares[k + 1] * people
        found.append(
            LevelNeed(
                name,
                int(size),
                round(count),
                math.sqrt(answer_of(epsilon, people) * size / count) / 4.0 if count else math.inf,
                _whole(_least(lambda n, k=k: asked(k, round(n), epsilon), _FEW, _MANY)),
                _least(lambda e, k=k: asked(k, people, e), _LEAST, _MOST),
            )
        )
    return found


def _whole(value: float | None) -> int | None:
    return None if value is None else math.ceil(value)


def _least(enough: Any, low: float, high: float) -> float | None:
    """Return the least value that is enough, within one percent; None where none is."""
    if enough(low):
        return low
    if not enough(high):
        return None
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
