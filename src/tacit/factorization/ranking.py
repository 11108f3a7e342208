"""Which members of an entity have the highest expected values, alone and at a site."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.data.members import Members
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats, Integers

__all__ = ["best_unseen", "top_members"]

_AT_ONCE = 1 << 20  # cells that are predicted at once


def top_members(
    values: Callable[[Integers], Floats],
    modes: Sequence[Members],
    entity: str,
    given: Mapping[str, Any],
    n: int,
    skip: Any = (),
    positions: bool = False,
) -> list[tuple[Any, float]]:
    """Return the n members of an entity with the highest expected values.

    Parameters
    ----------
    values
        The expected values of cells, by position.
    modes
        The members of every mode of the relation, in the order of cells.
    entity
        Whose members are looked for.
    given
        The member of every other mode.
    n, skip
        How many, and whom to leave out.
    positions
        Whether members are positions, going in and coming out.
    """
    check("n", n, Integer(1))
    names = [one.entity for one in modes]
    if set(given) != set(names) - {entity} or entity not in names:
        raise ParameterError(
            f"given must hold one member for each of {sorted(set(names) - {entity})}"
        )
    members = modes[names.index(entity)]
    left_out = members.find(list(skip), positions=positions)
    candidates = np.setdiff1d(np.arange(members.size), left_out)
    columns = {}
    for one in modes:
        if one.entity != entity:
            (place,) = one.find([given[one.entity]], positions=positions)
            columns[one.entity] = np.full(len(candidates), place)
    scores = values(np.column_stack([columns.get(name, candidates) for name in names]))
    order = np.argsort(-scores, kind="stable")[:n]
    named = int if positions else members.name
    return [(named(candidates[k]), float(scores[k])) for k in order]


def best_unseen(
    values: Callable[[Integers], Floats],
    modes: Sequence[Members],
    whose: tuple[str, Integers],
    entity: str,
    fixed: Mapping[str, int],
    n: int,
    seen: Integers,
) -> list[tuple[Integers, Floats]]:
    """Return for each of some members the n best of another entity, by position.

    Parameters
    ----------
    values, modes
        As in `top_members`.
    whose
        The entity that is recommended to, and which of its members, each once.
    entity
        What is recommended.
    fixed
        The member of every other mode, by position.
    n
        How many.
    seen
        Cells to leave out, in the order of the modes.
    """
    names = [one.entity for one in modes]
    owner, members = whose
    at, of = names.index(owner), names.index(entity)
    size = modes[of].size
    for name, place in fixed.items():
        seen = seen[seen[:, names.index(name)] == place]
    seen = seen[np.argsort(seen[:, at], kind="stable")]
    step, found = max(1, _AT_ONCE // max(size, 1)), []
    for start in range(0, len(members), step):
        some = members[start : start + step]
        columns = {owner: np.repeat(some, size), entity: np.tile(np.arange(size), len(some))}
        columns |= {name: np.full(len(some) * size, place) for name, place in fixed.items()}
        scores = values(np.column_stack([columns[name] for name in names]))
        scores = scores.reshape(len(some), size)
        for row, member in zip(scores, some.tolist(), strict=True):
            low, high = np.searchsorted(seen[:, at], [member, member + 1])
            known = np.unique(seen[low:high, of])
            row[known] = -np.inf
            order = np.argsort(-row, kind="stable")[: min(n, size - len(known))]
            found.append((order, row[order]))
    return found
