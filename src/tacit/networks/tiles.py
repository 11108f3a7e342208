"""Tiles: batches of one size, in which a row's numbers do not depend on its place.

Torch adds up in an order that may differ with the size of a batch and with a row's place in it,
so that one row more would move the last bits of other rows' gradients, which no sensitivity
counts. So every batch is a tile of one fixed size, filled up with zeros, and only those of its
*slots* are used that compute alike: made-up rows, and made-up weights, must give the same bits in
each of them, whatever lies in the other slots. The order of operations in a slot does not depend
on the numbers, so two orders that differ show in the last bits of the many that are compared; the
largest set of slots that agree in all of them is used. Where that is a small one, or where rows
beside each other still differ in their last bits, a tile is of one row instead.

The same rows in another order, doubled and left out are a second net for modules that see more of
a batch than they should, or keep something of it: their rows are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.networks.backend import torch

__all__ = ["Tiles", "UnlikeSlots"]

_ENOUGH = 0.1  # the share of slots that must compute alike
_ROUNDING = 1e-4  # of the largest number: sums in another order do not differ by so much
# two orders of one sum end in the same bits more often than not: so many numbers are compared
_NUMBERS, _LEAST, _MOST = 4096, 4, 256


class UnlikeSlots(ParameterError):
    """Rows of a tile depend on their place, or on each other."""


class Tiles:
    """Batches of one size, and the slots of it that are used.

    Parameters
    ----------
    size
        How many rows a tile has.
    slots
        Which of them hold rows; all unless given.

    Examples
    --------
    >>> tiles = Tiles(4, [0, 1, 3])
    >>> [tile.tolist() for tile, used in tiles.of(torch.tensor([[5], [6], [7], [8]]))]
    [[[5], [6], [0], [7]], [[8], [0], [0], [0]]]
    """

    def __init__(self, size: int, slots: Sequence[int] | None = None) -> None:
        self.size = size
        self.slots = np.arange(size) if slots is None else np.asarray(slots, np.int64)

    def of(self, *arrays: Any) -> Iterator[tuple[Any, ...]]:
        """Yield tiles of some arrays, and last which of its rows are taken, as a mask."""
        total, each = len(arrays[0]), len(self.slots)
        for start in range(0, total, each):
            count = min(each, total - start)
            used = np.zeros(self.size, bool)
            used[self.slots[:count]] = True
            yield *(self._filled(a[start : start + count], used) for a in arrays), used

    def _filled(self, rows: Any, used: Any) -> Any:
        if len(rows) == self.size:
            return rows
        tile = rows.new_zeros((self.size, *rows.shape[1:]))
        tile[torch.from_numpy(used).to(rows.device)] = rows
        return tile

    @classmethod
    def probed(
        cls,
        compute: Callable[..., Sequence[Any]],
        made_up: Callable[[int, int], Sequence[Any]],
        size: int,
    ) -> Tiles:
        """Return tiles of at most a size whose slots compute alike.

        Parameters
        ----------
        compute
            Arrays of rows → arrays with one row for each of them.
        made_up
            (count, number) → arrays of so many rows that are no secret, of one of several draws.
        size
            The size wanted.
        """
        for number in (size, 1):
            slots = _alike(compute, made_up, number)
            if number > 1 and len(slots) <= max(1.0, _ENOUGH * number):
                continue
            tiles = cls(number, slots)
            if _rows_alone(tiles, compute, made_up):
                return tiles
        raise UnlikeSlots("a row's numbers change from one call to the next")


def _run(compute: Callable[..., Sequence[Any]], rows: Sequence[Any]) -> list[Any]:
    found = compute(*rows)
    return [torch.as_tensor(part).reshape(len(rows[0]), -1) for part in found]


def _alike(compute: Any, made_up: Any, size: int) -> Any:
    """Return the largest set of slots that give the same."""
    kinds = np.zeros(size, np.int64)
    number, looks = 0, 1
    while number < looks:
        one = made_up(1, number)
        parts = _run(compute, [a.repeat(size, *[1] * (a.dim() - 1)) for a in one])
        numbers = max(1, sum(part.shape[1] for part in parts))
        number, looks = number + 1, min(max(_NUMBERS // numbers, _LEAST), _MOST)
        rows = _bits(parts)
        seen = [(int(kind), *(part[k].tobytes() for part in rows)) for k, kind in enumerate(kinds)]
        names = {row: k for k, row in enumerate(dict.fromkeys(seen))}
        kinds = np.array([names[row] for row in seen])
    return np.flatnonzero(kinds == np.bincount(kinds).argmax())


def _bits(parts: Sequence[Any]) -> list[Any]:
    """Return rows in such a form that equal numbers have equal bytes."""
    found = [part.detach().cpu().to(torch.float64).numpy() for part in parts]
    return [np.nan_to_num(part, nan=1e300) + 0.0 for part in found]  # the sign of a zero goes


def _rows_alone(tiles: Tiles, compute: Any, made_up: Any) -> bool:
    """Whether rows give the same bits in another order, doubled, and without others.

    Raise where they differ by more than the order of a sum explains, or where nobody is beside.
    """
    count = len(tiles.slots) if tiles.size > 1 else 3
    rows = made_up(count, 2)

    def run(order: Any) -> list[Any]:
        picked = [a[torch.from_numpy(order)] for a in rows]
        found = []
        for *tile, used in tiles.of(*picked):
            found.append([part[used] for part in _bits(_run(compute, tile))])
        return [np.concatenate(part) for part in zip(*found, strict=True)]

    whole = run(np.arange(count))
    turned = np.arange(count)[::-1].copy()
    good = True
    for order in (turned, np.zeros(count, np.int64), np.arange(0, count, 2), np.arange(count)):
        for part, other in zip(whole, run(order), strict=True):
            apart = np.abs(part[order] - other).max(initial=0.0)
            if apart > _ROUNDING * np.abs(part).max(initial=0.0) or (apart and tiles.size == 1):
                raise UnlikeSlots(
                    "the gradient of one example depends on the other examples of its batch, or "
                    "on those before: there is no per-example gradient. Remove what looks across "
                    "the batch, such as BatchNorm, and what a module keeps between calls"
                )
            good = good and apart == 0.0
    return good
