"""A site's side of a summary: every row's vector, rounded to the grid and added up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.grid import Grid, GridSum
from tacit.summary.agreement import W0, W1, W2, W3, SummaryAgreement

__all__ = ["Rows", "row_sums"]

_CHUNK = 1 << 14


def row_sums(public: SummaryAgreement, table: Mapping[str, Array], grid: Grid) -> GridSum:
    """Return the sum of all rows' vectors, each rounded to the grid first."""
    total = np.zeros(public.size, np.int64)
    rows = len(next(iter(table.values())))
    if not public.counted:
        total[0] = rows * int(grid.round(W0))
    cell_weight = int(grid.round(W3))
    for start in range(0, rows, _CHUNK):
        for c, (name, low, high) in enumerate(public.bounds):
            values = clip_values(table[name][start : start + _CHUNK], low, high)
            t = np.clip((values - public.middle[c]) / public.half[c], -1.0, 1.0)
            first = 1 + c * public.width
            if public.moments:
                parts = [W1 * t, W2 * (t * t - 0.5)][: public.moments]
                part = grid.sum(np.column_stack(parts)).integers
                total[first : first + public.moments] += part
            if public.cells:
                place = ((t + 1.0) / 2.0 * public.cells).astype(int)
                cell = np.minimum(place, public.cells - 1)
                counts = np.bincount(cell, minlength=public.cells)
                total[first + public.moments : first + public.width] += counts * cell_weight
    return GridSum(total, grid)


class Rows(Holder):
    """A site with its columns of numbers."""

    agreement: SummaryAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: Mapping[str, Array], picks: Picks
    ) -> GridSum:
        """Return the sum of all rows' vectors."""
        return row_sums(self.agreement, shard, self.agreement.mechanism.grid)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the sum, and the number of rows where it is public."""
        value = released.value() if isinstance(released, GridSum) else released
        rows = np.array([sum(self.units(shard) for shard in self.shards)], np.int64)
        return {"sum": value} | ({"rows": rows} if self.agreement.counted else {})

    def units(self, shard: Mapping[str, Any]) -> int:
        """Return the number of rows."""
        return len(next(iter(shard.values())))
