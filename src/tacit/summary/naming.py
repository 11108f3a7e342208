"""Counts of keys whose list is not public: how they are released, sent and put together.

Each such column has a release of its own, by a stable histogram (`StableHistogram`, with its
derivation): a key leaves with its noisy count where that reaches a threshold, which δ pays for. A
unit counts once for each of its keys, a person with at most k rows for at most k of them; with
groups, for pairs of a group and a key, of which a row has one.

**Beside other statistics** each column costs the share of ε that one more category in the vector
would (`tacit.summary.layout`), and all of them together half of δ; all of it where nothing else
uses δ. The parts add up by basic composition, and the accountant does no worse.

**Over sites** every site names the keys that are frequent *there*, under its own guarantee, and
the coordinator adds up what was named: post-processing. A key that is rare at every site is not
named, however many sites have it, and a count lacks the sites where it is rare.

**What a reply looks like** follows from the agreement: there is room for so many keys of so many
bytes, and what is not used is zero. Of more keys than there is room for, those with the largest
noisy counts are sent, which is post-processing too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.errors import ParameterError
from tacit.estimators.agreement import Ask, Coordinating, Step
from tacit.mechanisms.stable_histogram import LEAST, MOST, StableHistogram
from tacit.privacy.calibration import split_budget
from tacit.rounds.messages import ArraySpec
from tacit.summary.layout import GROUP, PERSON
from tacit.summary.ranking import Ranking

__all__ = ["Named", "Naming", "added_up", "by_key", "packed", "unit_keys", "unpacked"]

_ROOM = 1.0 - 2.0**-40  # of ε: a ledger rounds what is not purely private up

Named = Mapping[tuple[int, str], int]  # (group, key) → its noisy count


@dataclass(frozen=True)
class Naming(Ranking):
    """Which steps keys take, and their part of the budget; see `SummaryAgreement`."""

    @cached_property
    def key_mechanisms(self) -> tuple[StableHistogram, ...]:
        """What the keys of each column are counted with."""
        if not self.keys:
            return ()
        how: dict[str, Any] = {"neighbours": self.neighbours, "source": self.noise}
        if math.isinf(self._epsilon):
            return (StableHistogram(math.inf, 0.0, self.rows_per_unit, **how),) * len(self.keys)
        assert self.privacy is not None
        norm = next((noise.norm for noise in self._noises.values()), 1)
        even = {name: 1.0 for name, _, _ in self.keys}
        epsilons = split_budget(self._shares(norm)["keys"] * _ROOM, even)
        if min(epsilons.values()) < LEAST:
            raise ParameterError(
                f"the share of ε that is left for {self.keys[0][0]!r} is too small to name "
                "anything: ask for fewer statistics, or for a larger ε"
            )
        deltas = split_budget(self.privacy.delta * (0.5 if self._noises else 1.0), even)
        return tuple(
            StableHistogram(min(epsilons[name], MOST), deltas[name], self.rows_per_unit, **how)
            for name in even
        )

    def _key_steps(self) -> tuple[Step, ...]:
        found = []
        for c, (_, at_most, length) in enumerate(self.keys):
            replies = {
                "counts": ArraySpec((at_most,), "int64", low=0),
                "groups": ArraySpec((at_most,), "int64", low=0, high=self.groups - 1),
                "lengths": ArraySpec((at_most,), "int64", low=0, high=length),
                "texts": ArraySpec((at_most, length), "uint8"),
            }
            mechanism = self.key_mechanisms[c]
            found.append(Step(f"keys {c}", mechanism, replies=replies, merge="stack"))
        return tuple(found)

    def _learn_keys(self) -> Coordinating:
        """Return the keys of each column that were named at any site, with their counts."""
        found = []
        for c in range(len(self.keys)):
            heard = yield Ask(f"keys {c}")
            assert heard.by_site is not None  # no sum is asked for: see `SummaryAgreement.apart`
            found.append(added_up(unpacked(one.arrays) for one in heard.by_site.values()))
        return tuple(found)


def unit_keys(shard: Mapping[str, Array], name: str, length: int) -> list[Any]:
    """Return the keys of each unit: a text for a row, a list of them for a person.

    A key that is too long for a reply counts as nothing.
    """
    groups = shard[GROUP] if GROUP in shard else np.zeros(len(shard[name]))
    each = [
        f"{group:.0f} {text}" if len(text.encode()) <= length else None
        for group, text in zip(groups.tolist(), shard[name].tolist(), strict=True)
    ]
    if PERSON not in shard:
        return each
    people: dict[int, list[str | None]] = {}
    for person, key in zip(shard[PERSON].tolist(), each, strict=True):
        people.setdefault(person, []).append(key)
    return list(people.values())


def packed(released: Mapping[Any, int], at_most: int, length: int) -> dict[str, Any]:
    """Return released counts of keys as arrays of the lengths that were agreed on.

    Examples
    --------
    >>> unpacked(packed({"0 tea": 40, "0 my tea": 31, "1 tea": 7}, at_most=2, length=8))
    {(0, 'my tea'): 31, (0, 'tea'): 40}
    """
    largest = sorted(released, key=lambda key: -released[key])[:at_most]
    arrays: dict[str, Any] = {
        "counts": np.zeros(at_most, np.int64),
        "groups": np.zeros(at_most, np.int64),
        "lengths": np.zeros(at_most, np.int64),
        "texts": np.zeros((at_most, length), np.uint8),
    }
    for row, key in enumerate(sorted(largest)):
        group, _, text = key.partition(" ")
        letters = np.frombuffer(text.encode(), np.uint8)
        arrays["counts"][row], arrays["groups"][row] = released[key], int(group)
        arrays["lengths"][row] = len(letters)
        arrays["texts"][row, : len(letters)] = letters
    return arrays


def unpacked(arrays: Mapping[str, Any]) -> dict[tuple[int, str], int]:
    """Return the keys of a reply; a site may have sent any bytes of that shape."""
    found: dict[tuple[int, str], int] = {}
    rows = zip(*(arrays[name] for name in ("counts", "groups", "lengths", "texts")), strict=True)
    for count, group, length, letters in rows:
        if count > 0:
            text = letters[: int(length)].tobytes().decode(errors="replace")
            found[int(group), text] = found.get((int(group), text), 0) + int(count)
    return found


def added_up(named: Iterable[Named]) -> dict[tuple[int, str], int]:
    """Return counts of keys over several releases, the largest first."""
    found: dict[tuple[int, str], int] = {}
    for one in named:
        for key, count in one.items():
            found[key] = found.get(key, 0) + count
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def by_key(named: Named, groups: Sequence[str]) -> dict[str, Any]:
    """Return counts by key, and by group within a key where there are groups."""
    if not groups:
        return {text: float(count) for (_, text), count in named.items()}
    found: dict[str, Any] = {}
    for (group, text), count in named.items():
        found.setdefault(text, {})[groups[group]] = float(count)
    return found
