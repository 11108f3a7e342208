"""Noisy cells of a histogram: quantiles and finer cells that are read from them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit._core.arrays import Array

__all__ = ["cell_quantiles", "cell_widths", "finer_edges"]


def cell_quantiles(cells: Array, edges: Array, levels: Sequence[float], sd: float) -> Array:
    """Return quantiles of a noisy histogram: small cells are noise, the rest is interpolated.

    Examples
    --------
    >>> cell_quantiles(np.array([0.0, 40.0, 40.0]), np.arange(4.0), (0.25, 0.5), 1.0).round(3)
    array([1.5, 2. ])
    """
    cumulative = _cumulative(cells, sd)
    return np.array([np.interp(level, cumulative, edges) for level in levels])


def cell_widths(edges: Array, values: Array) -> Array:
    """Return the width of the cell that each value lies in: what cannot be told apart there."""
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return np.asarray(np.diff(edges)[place])


def finer_edges(cells: Array, edges: Array, sd: float) -> Array:
    """Return as many cells where the values are: each holds about as much, of nine in ten parts.

    The tenth part is spread over the range, so that no cell is wider than ten old ones.
    """
    share = 0.9 * _cumulative(cells, sd) + 0.1 * (edges - edges[0]) / (edges[-1] - edges[0])
    return np.interp(np.linspace(0.0, 1.0, len(edges)), share, edges)


def _cumulative(cells: Array, sd: float) -> Array:
    """Return the shares up to every edge.

    What is kept may be one cell of noise where there are few rows: it is believed from about three
    standard deviations on, and what is doubted is spread evenly.
    """
    kept = np.where(cells > 2.0 * sd, cells, 0.0)
    if kept.sum() <= 0.0:
        kept = np.ones_like(cells)
    elif sd > 0.0:
        kept = kept + sd * (2.75 * sd / kept.sum()) ** 4 / len(kept)
    return np.asarray(np.concatenate([[0.0], np.cumsum(kept)]) / kept.sum())
