"""`OwnModel`: predictions for one holder's members, from their own cells and what is released.

It puts the cells of all relations that name the members together for `fit_own_effects`, and looks
effects up again for other cells: one whose group has no cell yet has none.
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

__all__ = ["OwnModel", "Seen"]


class Seen(NamedTuple):
    """The cells of one relation that names the members, on a scale of about one."""

    indices: NDArray[np.int32]  # (cells, modes)
    sizes: Sequence[int]  # of its modes
    owner: int  # which mode is that of the members
    values: Floats
    base: Floats  # what released numbers say of a cell, whoever it belongs to
    features: Floats  # (cells, features); a member has one row for all relations
    weight: float = 1.0  # precision of a value, relative to other relations


class _Keyed(NamedTuple):
    """The effects of one subset of a relation's modes, found by their keys."""

    modes: tuple[int, ...]  # that a key is made of, the owner's first
    sizes: tuple[int, ...]
    keys: Integers

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
            for keyed in _effects_of(found):
                keys, groups = np.unique(keyed.key_of(found.indices), return_inverse=True)
                kind = "offset" if len(keyed.modes) == 1 else "nested"
                self._keyed[name].append((len(effects), keyed._replace(keys=keys)))
                effects.append(Effect(kind, place[here], groups.ravel(), len(keys)))
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
            key = keyed.key_of(indices)
            at = np.minimum(np.searchsorted(keyed.keys, key), max(len(keyed.keys) - 1, 0))
            if len(keyed.keys):
                known = keyed.keys[at] == key
                expected = expected + np.where(known, self._found.effects[number][at], 0.0)
        return np.asarray(expected)


def _effects_of(seen: Seen) -> list[_Keyed]:
    """Return the subsets of a relation's other modes that have effects, without keys yet."""
    others = [mode for mode in range(len(seen.sizes)) if mode != seen.owner]
    found = []
    for subset in mode_subsets(len(others)):
        modes = (seen.owner, *(others[k] for k in subset))
        sizes = tuple(int(seen.sizes[mode]) for mode in modes)
        if math.prod(sizes) < 2**62:  # keys are whole numbers of 64 bits
            found.append(_Keyed(modes, sizes, np.zeros(0, np.int64)))
    return found
