"""A site's side of a summary: every row's vector, rounded to the grid and added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.arrays import Array
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.grid import Grid, GridSum, pieces, wide_sum
from tacit.mechanisms.laplace import Laplace
from tacit.summary.agreement import SummaryAgreement
from tacit.summary.cells import cell_quantiles
from tacit.summary.layout import GROUP, W0, W1, W3
from tacit.summary.naming import packed, unit_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Rows", "row_sums"]

_CHUNK = 1 << 14


def row_sums(public: SummaryAgreement, table: Mapping[str, Array], grid: Grid) -> GridSum:
    """Return the sum of all rows' vectors, each rounded to the grid first; groups side by side."""
    if public.groups == 1:
        return GridSum(_block(public, table, grid), grid)
    group = table[GROUP]
    blocks = [
        _block(public, {name: column[group == g] for name, column in table.items()}, grid)
        for g in range(public.groups)
    ]
    return GridSum(np.concatenate(blocks), grid)


def _block(public: SummaryAgreement, table: Mapping[str, Array], grid: Grid) -> NDArray[Any]:
    """Return the sum over the rows of one group."""
    rows = len(next(iter(table.values())))
    return wide_sum(
        _piece(public, {name: column[part] for name, column in table.items()}, grid)
        for part in pieces(rows)
    )


def _piece(public: SummaryAgreement, table: Mapping[str, Array], grid: Grid) -> NDArray[np.int64]:
    """Return the sum over rows that 64 bits have room for."""
    total = np.zeros(public.block, np.int64)
    rows = len(next(iter(table.values())))
    if public.counting:
        total[0] = rows * int(grid.round(W0))
    cell_weight = int(grid.round(W3))
    for start in range(0, rows, _CHUNK):
        for c, name in enumerate(public.columns):
            t = _scaled(public, c, table[name][start : start + _CHUNK])
            first = 1 + c * public.width
            if public.moments:
                weight, taken = public.squares
                parts = np.column_stack([W1 * t, weight * (t * t - taken)])
                part = grid.sum(parts).integers
                total[first : first + public.moments] += part
            if public.cells:
                counts = _equal_cells(t, public.cells)
                total[first + public.moments : first + public.width] += counts * cell_weight
    first = 1 + len(public.columns) * public.width
    for name, size in public.categories:
        places = np.clip(table[name], 0, size - 1).astype(np.int64)
        total[first : first + size] += np.bincount(places, minlength=size) * cell_weight
        first += size
    return total


def _scaled(public: SummaryAgreement, c: int, values: Array) -> Array:
    """Return a column's values in [−1, 1]."""
    _, low, high = public.bounds[c]
    t = (clip_values(values, low, high) - public.middle[c]) / public.half[c]
    return np.asarray(np.clip(t, -1.0, 1.0))


def _equal_cells(t: Array, cells: int) -> NDArray[np.int64]:
    """Return how many scaled values lie in each of equal cells."""
    cell = np.minimum(((t + 1.0) / 2.0 * cells).astype(int), cells - 1)
    return np.bincount(cell, minlength=cells).astype(np.int64)


def _number(step: Step) -> int:
    """Return which column a step is about."""
    return int(step.name.rpartition(" ")[2])


class Rows(Holder):
    """A site with its columns of numbers."""

    agreement: SummaryAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: Mapping[str, Array], picks: Picks
    ) -> Any:
        """Return the sum of all rows' vectors, or a column's values, keys or counts of cells."""
        public = self.agreement
        if step.open is not None:
            return None
        if step.name.startswith("keys "):
            name, _, length = public.keys[_number(step)]
            return unit_keys(shard, name, length)
        if step.name == "rows":
            return row_sums(public, shard, public.mechanism.grid)
        scaled = [_scaled(public, c, shard[name]) for c, name in enumerate(public.columns)]
        if step.name == "fullest":
            return np.array([_equal_cells(t, public.bins) for t in scaled])
        if "edges" in asked.arrays:
            return self._counts(step.name, asked.arrays["edges"], scaled)
        c = _number(step)
        if asked.kind == "cells":
            cells = step.mechanism_of("cells")
            assert isinstance(cells, Laplace)
            return GridSum(
                _equal_cells(scaled[c], public.bins) * int(cells.grid.round(1.0)), cells.grid
            )
        return shard[public.columns[c]]

    def completed(self, step: Step, asked: Asked, value: Any) -> Any:
        """Return the sums, and of all rows' cells how many the fullest of each column holds."""
        return value.max(axis=1) if step.name == "fullest" else value

    def _counts(self, step: str, edges: Array, scaled: Sequence[Array]) -> GridSum:
        """Return how many rows lie between edges; any edges put a row into one cell."""
        grid = self.agreement.cell_noise[step].grid
        found = [
            np.bincount(np.searchsorted(ends, t, side="right"), minlength=self.agreement.bins)
            for ends, t in zip(edges, scaled, strict=True)
        ]
        return GridSum(np.array(found, np.int64) * int(grid.round(1.0)), grid)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the release under its name, and the number of rows where it is public."""
        public = self.agreement
        if step.name.startswith("keys "):
            return packed(released, *public.keys[_number(step)][1:])
        if asked.kind:
            if asked.kind == "cells":
                return self._read(step, asked, released)
            return {"values": released, "counts": np.zeros(public.bins)}
        if step.name != "rows":
            (name,) = step.leaving
            return {name: released}
        rows = np.array([sum(units for units, _ in self.sizes)], np.int64)
        found = {"rows": rows} if public.counted else {}
        if public.bare:
            return found
        return {"sum": released.value() if isinstance(released, GridSum) else released} | found

    def _read(self, step: Step, asked: Asked, cells: Array) -> dict[str, Array]:
        """Return released counts of cells, with those of a histogram before, and quantiles."""
        public, mechanism = self.agreement, step.mechanism_of("cells")
        assert mechanism is not None
        _, low, high = public.bounds[_number(step)]
        edges = np.linspace(low, high, public.bins + 1)
        own, weight = 1.0 / mechanism.variance(None), public.weight_of(mechanism)
        if "before" in asked.arrays:
            cells = (own * cells + (weight - own) * asked.arrays["before"]) / weight
        found = cell_quantiles(np.maximum(cells, 0.0), edges, public.ordered, weight**-0.5)
        return {"values": np.clip(found, low, high), "counts": np.asarray(cells, np.float64)}

    def units(self, shard: Mapping[str, Any]) -> int:
        """Return the number of rows."""
        return len(next(iter(shard.values())))
