"""NumPy twins of `tacit.factorization.langevin.numerics.clipped_gradients`, cell by cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.factorization.langevin.numerics.clipped_gradients import CellTable, OwnerRule
from tacit.factorization.langevin.numerics.clipped_loops import FLOOR, slope_of_loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["entry_sums_reference", "owner_rows_reference", "owner_sums_reference"]


def _cell_reference(
    c: int, table: CellTable, theta: NDArray[np.float64], own: NDArray[np.float64]
) -> tuple[float, list[NDArray[np.float64]]]:
    """Return a cell's estimate and q_p for each of its factors."""
    v = int(table.kinds[c])
    used = slice(0, int(table.combinations[v]))
    loaded = []
    for p in range(int(table.factors[v])):
        columns = table.columns[v, p, used]
        source = own if p == table.own[v] and len(own) else theta[int(table.starts[c, p]) :]
        loaded.append(source[columns])
    q = []
    for p in range(len(loaded)):
        others = np.prod([part for m, part in enumerate(loaded) if m != p] or [np.ones(used.stop)],
                         axis=0)  # fmt: skip
        width = int(table.widths[v, p])
        q.append(np.asarray(np.bincount(table.columns[v, p, used], others, width), np.float64))
    return float(np.prod(loaded, axis=0).sum()), q


def _clipped_reference(
    contribution: NDArray[np.float64], clip: float, inverse_grid: float
) -> NDArray[Any]:
    """Return one contribution clipped and rounded."""
    length = float(np.sqrt(np.square(contribution).sum()))
    if not np.isfinite(length):
        return np.zeros(len(contribution), np.int64 if inverse_grid else np.float64)
    scaled = contribution * min(1.0, clip / length if length else 1.0)
    return np.floor(scaled * inverse_grid + 0.5).astype(np.int64) if inverse_grid else scaled


def entry_sums_reference(
    picks: NDArray[np.int64],
    table: CellTable,
    theta: NDArray[np.float64],
    free: NDArray[np.float64],
    counted: NDArray[np.bool_],
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """NumPy twin of `entry_sums`, up to roundings at the very edge of the grid."""
    total = np.zeros(len(theta), np.int64 if inverse_grid else np.float64)
    for c in picks:
        v = int(table.kinds[c])
        estimate, q = _cell_reference(c, table, theta, np.empty(0))
        slope = slope_of_loss(table.values[c], estimate, table.powers[v], table.weights[v])
        contribution = np.zeros(len(theta))
        for p, part in enumerate(q):
            if counted[v, p]:
                start = int(table.starts[c, p])
                contribution[start : start + len(part)] += slope * part
        total += _clipped_reference(contribution * free, clip, inverse_grid)
    return total


def owner_rows_reference(
    picks: NDArray[np.int64], table: CellTable, theta: NDArray[np.float64], rule: OwnerRule
) -> NDArray[np.float64]:
    """NumPy twin of `owner_rows`."""
    rows, free = [], rule.free != 0.0
    for member in picks:
        cells = range(int(table.owner_starts[member]), int(table.owner_starts[member + 1]))
        row = np.where(free, rule.start, rule.fixed)
        if table.powers[0] == 0.0:
            design = np.array(
                [_cell_reference(c, table, theta, row)[1][table.own[table.kinds[c]]]
                 for c in cells]
            ).reshape(-1, len(row))  # fmt: skip
            weights = table.weights[table.kinds[cells.start : cells.stop]]
            left = table.values[cells.start : cells.stop] - design[:, ~free] @ rule.fixed[~free]
            gram = (design[:, free].T * weights) @ design[:, free]
            gram += rule.precision * np.eye(int(free.sum()))
            row[free] = np.linalg.solve(gram, design[:, free].T @ (weights * left))
        else:
            for _ in range(rule.steps):
                up, down = np.zeros(len(row)), np.full(len(row), rule.rate)
                for c in cells:
                    estimate, q = _cell_reference(c, table, theta, row)
                    part = q[table.own[table.kinds[c]]] * table.weights[table.kinds[c]]
                    up += table.values[c] / max(estimate, FLOOR) * part
                    down += part
                row = np.where(free, (row * up + rule.shape - 1.0) / down, row)
        rows.append(row)
    return np.array(rows).reshape(len(picks), len(rule.free))


def owner_sums_reference(
    picks: NDArray[np.int64],
    table: CellTable,
    theta: NDArray[np.float64],
    free: NDArray[np.float64],
    rule: OwnerRule,
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """NumPy twin of `owner_sums`, up to roundings at the very edge of the grid."""
    total = np.zeros(len(theta), np.int64 if inverse_grid else np.float64)
    rows = owner_rows_reference(picks, table, theta, rule)
    for member, row in zip(picks, rows, strict=True):
        contribution = np.zeros(len(theta))
        for c in range(int(table.owner_starts[member]), int(table.owner_starts[member + 1])):
            v = int(table.kinds[c])
            estimate, q = _cell_reference(c, table, theta, row)
            slope = slope_of_loss(table.values[c], estimate, table.powers[v], table.weights[v])
            for p, part in enumerate(q):
                if p != table.own[v]:
                    start = int(table.starts[c, p])
                    contribution[start : start + len(part)] += slope * part
        total += _clipped_reference(contribution * free, clip, inverse_grid)
    return total
