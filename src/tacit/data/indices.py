"""Indices of cells, (cells, modes): checked once, where a relation is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_apart", "check_range", "index_table", "numbered"]

_LARGEST = 2**31 - 1


def numbered(names: Sequence[str]) -> list[str]:
    """Return names, those that come again with the number of the time.

    >>> numbered(["user", "time", "user", "user"])
    ['user', 'time', 'user_2', 'user_3']
    """
    found = []
    for k, name in enumerate(names):
        time = names[: k + 1].count(name)
        found.append(name if time == 1 else f"{name}_{time}")
    return found


def index_table(name: str, indices: Any, modes: int) -> NDArray[np.integer[Any]]:
    """Return indices as a (cells, modes) table of whole numbers, of 32 bits where they were."""
    if isinstance(indices, tuple):  # one array per mode
        parts = [np.asarray(part) for part in indices]
        if any(part.shape != parts[0].shape or part.ndim != 1 for part in parts):
            raise ParameterError(f"{name} must hold arrays of one length, one per entity")
        table = np.column_stack(parts) if parts else np.empty((0, 0), int)
    else:
        table = np.asarray(indices)
    if table.ndim != 2 or table.shape[1] != modes:
        raise ParameterError(
            f"{name} must have shape (cells, {modes}), one column per entity, got {table.shape}"
        )
    whole = np.issubdtype(table.dtype, np.integer) or (
        np.issubdtype(table.dtype, np.floating)
        and bool((np.isfinite(table) & (table == np.floor(table))).all())
    )
    if table.size and not whole:
        raise ParameterError(f"{name} must hold whole numbers, got {table.dtype}")
    return table if table.dtype == np.int32 else table.astype(np.int64)


def check_range(
    name: str, table: NDArray[np.integer[Any]], shape: tuple[int, ...], entities: tuple[str, ...]
) -> None:
    """Refuse indices beyond the number of an entity's members."""
    for mode, (size, entity) in enumerate(zip(shape, entities, strict=True)):
        if not 0 < size <= _LARGEST:
            raise ParameterError(f"shape must be positive, got {size} for {entity!r}")
        column = table[:, mode]
        bad = np.flatnonzero((column < 0) | (column >= size))
        if bad.size:
            raise ParameterError(
                f"{name}: {entity} {int(column[bad[0]])} is unknown, there are {size} "
                f"(0 … {size - 1})"
            )


def check_apart(table: NDArray[np.integer[Any]], apart: NDArray[np.integer[Any]]) -> None:
    """Refuse cells that are held out twice, or held out and listed."""
    if not len(apart):
        return
    both = np.concatenate([table, apart])
    _, place = np.unique(both, axis=0, return_inverse=True)
    place = place.reshape(-1)
    order = np.argsort(place, kind="stable")
    twice = order[1:][place[order][1:] == place[order][:-1]]
    if twice.size:
        raise ParameterError(
            f"cell {both[int(twice[0])].tolist()} is both listed and held out, or held out twice"
        )
