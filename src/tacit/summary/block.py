"""`Block`: the noisy sums of one group's rows, and the statistics that they give.

Everything here is post-processing of released numbers and of the public law of their noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.noise_sums import reach
from tacit.summary.cells import cell_quantiles, cell_widths
from tacit.summary.layout import W0, W1, W3, Layout
from tacit.summary.ranks import Ranks

__all__ = ["Block", "Law", "consistent"]

_MANY = 12  # Laplace errors of one size, whose sum is as good as normal


@dataclass(frozen=True)
class Law:
    """The law of the noise on every number of a released vector; public.

    Attributes
    ----------
    sd
        Standard deviation of what all sites added to one number.
    sites
        How many added noise.
    laplace
        Whether it is Laplace noise; else it is normal.
    """

    sd: float
    sites: int = 1
    laplace: bool = False

    def variance(self, weights: Sequence[float]) -> float:
        """Return the variance of a sum of numbers with weights."""
        return self.sd**2 * float(np.sum(np.square(weights)))

    def reach(self, level: float, weights: Sequence[float], sampling: float = 0.0) -> float:
        """Return what such a sum, and a normal error beside it, stay within with a probability."""
        if not self.laplace or self.sites > _MANY:
            return reach(level, sampling + self.variance(weights))
        scale = self.sd / math.sqrt(2.0 * self.sites)
        return reach(level, sampling, np.repeat(scale * np.abs(weights), self.sites))


@dataclass(frozen=True)
class Block:
    """One group's part of a released vector.

    Attributes
    ----------
    layout
        Where its numbers stand.
    total
        The part itself.
    rows
        The number of rows where it is public; else None.
    law
        Of the noise.
    ranks
        Quantiles by column, where they were released on their own.
    """

    layout: Layout
    total: Array
    rows: float | None
    law: Law
    ranks: tuple[Ranks, ...] = ()

    @cached_property
    def count(self) -> float | None:
        """How many rows there are, as released: may be negative; None where it was not."""
        if self.rows is not None:
            return self.rows
        return float(self.total[0]) / W0 if self.layout.counting else None

    @property
    def count_weight(self) -> float:
        """The weight of the noise on the count."""
        return 1.0 / W0 if self.rows is None else 0.0

    @cached_property
    def _table(self) -> Array:
        columns = len(self.layout.columns)
        used = self.total[1 : 1 + columns * self.layout.width]
        return np.asarray(used.reshape(columns, self.layout.width))

    @property
    def size(self) -> float:
        """What sums are divided by: the number of rows, at least one."""
        return max(1.0, self.count or 0.0)

    def moment(self, c: int) -> float:
        """Return the sum of a column's scaled values."""
        return float(self._table[c, 0] / W1)

    def square(self, c: int) -> float:
        """Return the sum of their squares."""
        weight, taken = self.layout.squares
        return float(self._table[c, 1] / weight + taken * (self.count or 0.0))

    def mean(self, c: int) -> float:
        """Return the mean of scaled values."""
        return float(np.clip(self.moment(c) / self.size, -1.0, 1.0))

    def variance(self, c: int) -> float:
        """Return their variance."""
        square = np.clip(self.square(c) / self.size, 0.0, 1.0)
        return max(0.0, float(square) - self.mean(c) ** 2)

    def cells(self, c: int) -> Array:
        """Return the counts of a column's cells, as released."""
        return np.asarray(self._table[c, self.layout.moments :] / W3)

    def edges(self, c: int) -> Array:
        """Return the edges of a column's equal cells."""
        steps = np.linspace(-1.0, 1.0, self.layout.cells + 1)
        return np.asarray(self.layout.middle[c] + self.layout.half[c] * steps)

    def category(self, k: int) -> Array:
        """Return the counts of a category's values, as released."""
        sizes = [size for _, size in self.layout.categories]
        first = 1 + len(self.layout.columns) * self.layout.width + sum(sizes[:k])
        return np.asarray(self.total[first : first + sizes[k]] / W3)

    def ranks_of(self, c: int) -> Ranks:
        """Return a column's quantiles, read from cells where they have no release of their own."""
        if self.ranks:
            return self.ranks[c]
        cells, edges, sd = self.cells(c), self.edges(c), self.law.sd / W3
        levels = np.array(self.layout.ordered)
        values = cell_quantiles(np.maximum(cells, 0.0), edges, self.layout.ordered, sd)
        return Ranks(
            levels, values, cell_widths(edges, values), counts=cells, edges=edges, variance=sd**2
        )

    def shown(self, cells: Array) -> Array:
        """Return counts as they are published: none below 0, and adding up to the count."""
        whole = self.count if self.count is not None else float(cells.sum())
        return consistent(cells, max(0.0, whole))


def consistent(cells: Any, whole: float) -> Array:
    """Return the nearest numbers that are not negative and add up to a whole.

    All are lowered (or raised) by as much as makes those that stay above 0 add up.

    Examples
    --------
    >>> consistent([4.0, -1.0, 1.0], 4.0).tolist()
    [3.5, 0.0, 0.5]
    """
    cells = np.asarray(cells, np.float64)
    ordered = np.sort(cells)[::-1]
    surplus = np.cumsum(ordered) - whole
    kept = int(np.flatnonzero(ordered - surplus / np.arange(1, cells.size + 1) >= 0.0)[-1])
    return np.asarray(np.maximum(cells - surplus[kept] / (kept + 1), 0.0))
