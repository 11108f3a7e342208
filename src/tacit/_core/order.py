"""Orders by counting: cells are sorted by whole numbers that are known to be small.

A comparison sort of twenty million cells takes many seconds; one pass of counting over each of
their indices takes a fraction of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.kernels import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["are_different", "lexical_order"]

_FEW = 1 << 20  # below, a comparison sort takes less than a compiler


def lexical_order(keys: Sequence[Any], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return the stable order by several keys, the last of which comes first: `numpy.lexsort`.

    Parameters
    ----------
    keys
        Whole numbers, key k from 0 to below ``sizes[k]``.
    sizes
        One for each key.

    Examples
    --------
    >>> lexical_order([[1, 0, 0], [0, 1, 0]], [2, 2]).tolist()
    [2, 0, 1]
    """
    count = len(keys[0])
    if count < _FEW or max(sizes) > 4 * count:
        return np.lexsort([np.asarray(key) for key in keys]).astype(np.int64)
    order = np.arange(count, dtype=np.int64)
    for key, size in zip(keys, sizes, strict=True):
        column = np.ascontiguousarray(key, np.int32)
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(column, minlength=size), out=starts[1:])
        found = np.empty(count, np.int64)
        compiled(_place)(column, order, starts, found)
        order = found
    return order


def _place(column: Any, order: Any, starts: Any, out: Any) -> None:
    """Write an order by one key, stable with regard to the order so far."""
    for k in range(order.shape[0]):
        row = order[k]
        place = starts[column[row]]
        out[place] = row
        starts[column[row]] = place + 1


def are_different(first: Any, second: Any, sizes: tuple[int, int]) -> bool:
    """Whether no pair of whole numbers comes twice, where that is known in two passes.

    False says nothing: few pairs are better sorted, and so are those of very many different
    numbers.

    Examples
    --------
    >>> many = np.arange(1 << 20)
    >>> are_different(many, many % 3, (1 << 20, 3)), are_different(many % 5, many % 3, (5, 3))
    (True, False)
    """
    count = len(first)
    if count < _FEW or max(sizes) > 4 * count:
        return False
    starts = np.zeros(sizes[0] + 1, np.int64)
    np.cumsum(np.bincount(first, minlength=sizes[0]), out=starts[1:])
    grouped, seen = np.empty(count, np.int32), np.full(sizes[1], -1, np.int32)
    one, other = (np.ascontiguousarray(part, np.int32) for part in (first, second))
    compiled(_group)(one, other, starts[:-1].copy(), grouped)
    return bool(compiled(_differ)(starts, grouped, seen))


def _group(first: Any, second: Any, starts: Any, out: Any) -> None:
    """Write the second numbers in the order of the first ones."""
    for k in range(first.shape[0]):
        place = starts[first[k]]
        out[place] = second[k]
        starts[first[k]] = place + 1


def _differ(starts: Any, grouped: Any, seen: Any) -> int:
    """Return 1 where no group holds a number twice; ``seen`` is the last group with each."""
    for group in range(starts.shape[0] - 1):
        for k in range(starts[group], starts[group + 1]):
            if seen[grouped[k]] == group:
                return 0
            seen[grouped[k]] = group
    return 1
