"""`OwnModel`: predictions for one holder's members, from its own cells and what is released.

It puts the cells of all relations that name the members together for `fit_own_effects` (values)
or `fit_own_rates` (counts), and looks effects up again for other cells: one whose group has no
cell yet has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.own_effects import (
    Effect,
    OwnCells,
    fit_own_effects,
    mode_subsets,
)
from tacit.factorization.offsets.numerics.own_rates import RateCells, RateEffect, fit_own_rates

__all__ = ["OwnModel", "OwnRatesModel", "Seen", "leverage_of"]

_MOST = 0.5  # of a cell that may be in the released numbers about it


class Seen(NamedTuple):
    """The cells of one relation that names the members, on a scale of about one."""

    indices: NDArray[np.int32]  # (cells, modes)
    sizes: Sequence[int]  # of its modes
    owner: int  # which mode is that of the members
    values: Floats
    base: Floats  # what released numbers say of a cell, whoever it belongs to
    features: Floats  # (cells, features); a member has one row for all relations
    weight: float = 1.0  # precision of a value, relative to other relations
    leverage: Floats | None = None  # `leverage_of`; None: what was released knows nothing of them


def leverage_of(
    indices: NDArray[np.int32], rows: Mapping[int, float], whole: float = 0.0
) -> Floats:
    """Return how much of every cell is in released factors that were learned from it, too.

    A row of K free numbers that is solved from n cells takes K/n of each, on average; from n cells
    here and as many at every other site, K/(n·sites). Noise and priors make it less.

    Parameters
    ----------
    indices
        The cells, (cells, modes).
    rows
        Mode → K/sites, for the modes whose factors were released.
    whole
        The same of numbers that all cells have in common: those of cores.
    """
    found = np.full(len(indices), whole / max(1, len(indices)))
    for mode, numbers in rows.items():
        found += numbers / np.bincount(indices[:, mode])[indices[:, mode]]
    return np.asarray(np.minimum(found, _MOST))


class _Keyed(NamedTuple):
    """The effects of one subset of a relation's modes, found by their keys."""

    modes: tuple[int, ...]  # that a key is made of
    sizes: tuple[int, ...]
    keys: Integers

    def places(self, indices: NDArray[np.int32]) -> tuple[Integers, Integers]:
        """Return the cells whose group is known, and the place of its key."""
        key = self.key_of(indices)
        if not len(self.keys):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        at = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        known = np.flatnonzero(self.keys[at] == key)
        return known, at[known]

    def key_of(self, indices: NDArray[np.int32]) -> Integers:
        """Return one number for every row of indices."""
        found = np.zeros(len(indices), np.int64)
        for mode, size in zip(self.modes, self.sizes, strict=True):
            found = found * size + indices[:, mode]
        return found


class OwnModel:
    """Own effects of all members of one holder, over its relations.

    Examples
    --------
    >>> index = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    >>> values = np.array([0.9, 0.8, -0.9, -0.8, 0.7, 0.8])
    >>> seen = Seen(index, (2, 2, 2), 0, values, np.zeros(6), np.zeros((6, 0)))
    >>> model = OwnModel({"visits": seen})
    >>> found = model.predict("visits", np.array([[0, 1, 1], [1, 0, 1]]), np.zeros(2))
    >>> found.shape
    (2,)
    """

    def __init__(self, seen: Mapping[str, Seen]) -> None:
        self._order = list(seen)
        members = max(found.sizes[found.owner] for found in seen.values())
        owners = np.concatenate([s.indices[:, s.owner] for s in seen.values()])
        order = np.argsort(owners, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        heaviest = max(found.weight for found in seen.values())
        weights = np.concatenate(
            [np.full(len(s.values), math.sqrt(s.weight / heaviest)) for s in seen.values()]
        )
        common = np.zeros((len(order), 1 + len(seen)))
        common[:, 0] = np.concatenate([s.base for s in seen.values()])
        self._keyed: dict[str, list[tuple[int, _Keyed]]] = {}
        effects: list[Effect] = []
        first = 0
        for k, (name, found) in enumerate(seen.items()):
            here = np.arange(first, first + len(found.values))
            common[here, 1 + k] = 1.0
            first += len(here)
            self._keyed[name] = []
            for keyed, groups in _effects_of(found):
                kind = "offset" if len(keyed.modes) == 1 else "nested"
                self._keyed[name].append((len(effects), keyed))
                effects.append(Effect(kind, place[here], groups, len(keyed.keys)))
        self._found = fit_own_effects(
            OwnCells(
                np.searchsorted(owners[order], np.arange(members + 1)),
                (weights * np.concatenate([s.values for s in seen.values()]))[order],
                (weights[:, None] * common)[order],
                (weights[:, None] * np.concatenate([s.features for s in seen.values()]))[order],
                weights[order],
                effects,
            )
        )
        self._owner = {name: found.owner for name, found in seen.items()}

    def tells(self, relation: str) -> bool:
        """Whether a relation names the members."""
        return relation in self._owner

    def predict(
        self,
        relation: str,
        indices: NDArray[np.int32],
        base: Floats,
        features: Floats | None = None,
    ) -> Floats:
        """Return what is expected of cells, given what released numbers say of them."""
        share, *centres = self._found.common
        expected = centres[self._order.index(relation)] + share * base
        if features is not None:
            rows = self._found.rows[indices[:, self._owner[relation]]]
            expected = expected + (rows * features).sum(axis=1)
        for number, keyed in self._keyed[relation]:
            known, at = keyed.places(indices)
            expected[known] += self._found.effects[number][at]
        return np.asarray(expected)


class OwnRatesModel:
    """Own rates of all members of one holder: effects of members, and of items, that multiply.

    Examples
    --------
    >>> index = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]])
    >>> values = np.array([4.0, 8.0, 1.0, 2.0, 5.0, 9.0])
    >>> seen = Seen(index, (3, 2), 0, values, np.zeros(6), np.zeros((6, 0)))
    >>> found = OwnRatesModel({"plays": seen}).predict("plays", index, np.zeros((6, 0)))
    >>> bool(found[1] > found[3])
    True
    """

    def __init__(self, seen: Mapping[str, Seen]) -> None:
        self._owner = {name: found.owner for name, found in seen.items()}
        self._members = max(found.sizes[found.owner] for found in seen.values())
        self._keyed: dict[str, list[_Keyed]] = {}
        parts = {}
        effects: list[RateEffect] = []
        first = 0
        for name, found in seen.items():
            here = np.arange(first, first + len(found.values))
            keyed = _effects_of(found, pooled=True)
            self._keyed[name] = [one for one, _ in keyed]
            parts[name] = len(effects)
            effects += [
                RateEffect(here, groups, len(one.keys), len(one.modes) == 1)
                for one, groups in keyed
            ]
            first += len(here)
        self._order, self._kinds = parts, effects
        told = [
            np.zeros(len(s.values)) if s.leverage is None else s.leverage for s in seen.values()
        ]
        self._found = fit_own_rates(
            RateCells(
                np.concatenate([s.indices[:, s.owner] for s in seen.values()]),
                self._members,
                np.concatenate([s.values for s in seen.values()]),
                np.repeat(np.arange(len(seen)), [len(s.values) for s in seen.values()]),
                np.concatenate([np.full(len(s.values), s.weight) for s in seen.values()]),
                np.concatenate([s.features for s in seen.values()]),
                np.concatenate(told),
                effects,
            ),
            len(seen),
        )

    def tells(self, relation: str) -> bool:
        """Whether a relation names the members."""
        return relation in self._owner

    @property
    def believes(self) -> bool:
        """Whether predictions rest on what was released at all."""
        return self._found.share > 0.0

    def predict(self, relation: str, indices: NDArray[np.int32], features: Floats) -> Floats:
        """Return the rate of cells, given what released numbers say of them."""
        nothing, count = np.zeros(0, np.int64), len(indices)
        effects = [e._replace(cells=nothing, groups=nothing) for e in self._kinds]
        for k, keyed in enumerate(self._keyed[relation], self._order[relation]):
            known, at = keyed.places(indices)
            effects[k] = effects[k]._replace(cells=known, groups=at)
        which = np.full(count, list(self._order).index(relation))
        owners = indices[:, self._owner[relation]].astype(np.int64)
        empty = np.zeros(count)
        return self._found.at(
            RateCells(owners, self._members, empty, which, empty, features, empty, effects)
        )


def _effects_of(seen: Seen, pooled: bool = False) -> list[tuple[_Keyed, Integers]]:
    """Return the subsets of a relation's modes that have effects, and the group of every cell.

    Those that name the members; where they are ``pooled`` also what all members have in common.
    """
    others = [mode for mode in range(len(seen.sizes)) if mode != seen.owner]
    subsets = [(seen.owner, *(others[k] for k in subset)) for subset in mode_subsets(len(others))]
    if pooled:
        subsets += [*(subset[1:] for subset in subsets if len(subset) > 1), tuple(others)]
    found = []
    for modes in dict.fromkeys(subsets):
        sizes = tuple(int(seen.sizes[mode]) for mode in modes)
        if math.prod(sizes) < 2**62:  # keys are whole numbers of 64 bits
            keyed = _Keyed(modes, sizes, np.zeros(0, np.int64))
            keys, groups = np.unique(keyed.key_of(seen.indices), return_inverse=True)
            found.append((keyed._replace(keys=keys), groups.ravel()))
    return found
