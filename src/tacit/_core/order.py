"""Orders by counting: cells are sorted by whole numbers that are known to be small.

A comparison sort of twenty million cells takes many seconds; one pass of counting over each of
their indices takes a fraction of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.kernels import compiled
from tacit._core.threads import over_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["are_different", "by_group", "lexical_order"]

_FEW = 1 << 20  # below, a comparison sort takes less than a compiler
_PART = 1 << 20  # cells that are copied at a time
_RUN = 12  # cells of a row that are put in order one by one


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


def by_group(
    first: Any, second: Any, values: NDArray[np.float64], sizes: tuple[int, int]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return where each group begins, and the second keys and values, sorted by both keys.

    The groups are the numbers of the first key; the order is stable. Cells are written to their
    group's place once, and put in order there, so that no permutation of all of them is formed.

    Parameters
    ----------
    first, second
        Whole numbers of 32 bits, from 0 to below ``sizes``.
    values
        A number beside each pair.
    sizes
        One for each key.

    Examples
    --------
    >>> starts, second, values = by_group([1, 0, 1], [1, 0, 0], np.array([7.0, 8.0, 9.0]), (2, 2))
    >>> starts.tolist(), second.tolist(), values.tolist()
    ([0, 1, 3], [0, 0, 1], [8.0, 9.0, 7.0])
    """
    one, other = np.asarray(first, np.int32), np.asarray(second, np.int32)
    starts = np.zeros(sizes[0] + 1, np.int64)
    if len(one) < _FEW or max(sizes) > 4 * len(one):
        np.cumsum(np.bincount(one, minlength=sizes[0]), out=starts[1:])
        order = np.lexsort((other, one))
        return starts, other[order], np.asarray(values[order], np.float64)
    for start in range(0, len(one), _PART):  # NumPy counts in copies of 64 bits
        starts[1:] += np.bincount(one[start : start + _PART], minlength=sizes[0])
    np.cumsum(starts[1:], out=starts[1:])
    keys, found = np.empty(len(one), np.int32), np.empty(len(one))
    # of a table's columns each stride is another signature: parts are copied, not all of it
    ends = starts[:-1].copy()
    for start in range(0, len(one), _PART):
        part = slice(start, start + _PART)
        own = [np.ascontiguousarray(a[part]) for a in (one, other, values)]
        compiled(_deal)(*own, ends, keys, found)
    over_range(compiled(_sort_rows), sizes[0], starts, keys, found)
    return starts, keys, found


def _deal(groups: Any, keys: Any, values: Any, ends: Any, out: Any, found: Any) -> None:
    """Write cells behind those that their groups have already."""
    for k in range(groups.shape[0]):
        place = ends[groups[k]]
        out[place] = keys[k]
        found[place] = values[k]
        ends[groups[k]] = place + 1


def _sort_rows(first: int, last: int, starts: Any, keys: Any, values: Any) -> None:
    """Sort the cells of each group by their keys, in place: short runs first, then merged."""
    longest = 0
    for i in range(first, last):
        longest = max(longest, starts[i + 1] - starts[i])
    spare, beside = np.empty(longest, np.int32), np.empty(longest)
    for i in range(first, last):
        low, high = starts[i], starts[i + 1]
        for start in range(low, high, _RUN):
            for k in range(start + 1, min(start + _RUN, high)):
                key, value, at = keys[k], values[k], k
                while at > start and keys[at - 1] > key:
                    keys[at] = keys[at - 1]
                    values[at] = values[at - 1]
                    at -= 1
                keys[at] = key
                values[at] = value
        width = _RUN
        while width < high - low:
            for start in range(low, high - width, 2 * width):
                middle, end = start + width, min(start + 2 * width, high)
                if keys[middle - 1] <= keys[middle]:
                    continue
                for k in range(start, middle):  # the left part makes room
                    spare[k - start] = keys[k]
                    beside[k - start] = values[k]
                left, right, at = 0, middle, start
                while left < width:
                    if right < end and keys[right] < spare[left]:
                        keys[at] = keys[right]
                        values[at] = values[right]
                        right += 1
                    else:
                        keys[at] = spare[left]
                        values[at] = beside[left]
                        left += 1
                    at += 1
            width *= 2


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
