"""Which numbers a summary releases of a row, and how far one unit moves their sum.

**What is released.** Map each column to t = (x − middle)/half-range ∈ [−1, 1]. A row contributes
the vector (w₀; per column w₁·t, w₂·(t² − ½), w₃·one-hot cell), and one release of the sum of
these vectors gives everything but quantiles: counts, sums, means, variances and histograms.
Quantiles have a release of their own (`tacit.summary.ranking`); of groups they are read from
cells.

**Sensitivity** (tested by search over neighbouring tables). Adding or removing one row moves
the sum by the row's own vector. Its squared L2 norm is w₀² + Σ_columns [w₁²s + w₂²(s − ½)² + w₃²]
with s = t² ∈ [0, 1]; it is convex in s, so the largest is at s = 1 (s = 0 gives w₂²/4 only):
Δ² = w₀² + C·(w₁² + w₂²/4 + w₃²). Its L1 norm per column is w₁u + w₂|u² − ½| + w₃ with u = |t|:
at most w₁ + w₂/2 at u = 1, or w₂/2 + w₁²/(4w₂) inside.
Replacing a row moves (t, t²) by (a, ab), with a = t − t' and b = t + t', so |a| + |b| ≤ 2: the
largest w₁²a² + w₂²a²b² is 4w₁² at a = 2, or lies at a = (3 − √(1 − 2w₁²/w₂²))/2, b = 2 − a; the
cell moves by √2·w₃, and the count not at all: under replace-one it is public.

**Categories** have cells only, one for each value, of the same weight w₃; **truth values** are
numbers in [0, 1]. **People** with at most k rows move the sum by at most k times as far as one
row, and k equal rows do; under replace-one they are refused, because the number of rows is public
there and changes with the person. **Groups** have a vector each, side by side. A row lies in one
of them, so that Δ stays what it is under add-remove; under replace-one a row may leave one group
for another, and groups are refused. **Keys** whose list is not public are no part of the vector
(`tacit.summary.naming`).

**Squares that nobody asked for** are free, and say how far means may be off by sampling: where no
variance is asked for, a column contributes (w₁·t, w₁/2·(t² − 1)). With s = t² its squared L2 norm
w₁²(s + (1 − s)²/4) is convex in s and largest at s = 1, where it is w₁²; its L1 norm
w₁(u + (1 − u²)/2) grows on [0, 1] up to w₁: squares vanish where t is largest. Under replace-one
a²(w₁² + w₁²b²/4) is largest at a = 2, as w₂² = w₁²/4 is less than 2w₁².

The weights give every statistic the same share of Δ². What nobody asked for has no weight: under
add-remove the count is there for the statistics that need it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.mechanisms.quantiles import LEAST
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy

__all__ = ["GROUP", "PERSON", "STATISTICS", "W0", "W1", "W2", "W3", "Layout"]

GROUP, PERSON = "the group of a row", "the person of a row"  # beside a site's columns
STATISTICS = ("count", "sum", "mean", "variance", "histogram", "quantiles")
# squared share of Δ² of each part of a row's vector, before normalisation
W0, W1, W2, W3 = 1.0, 1.0, 2.0, 1.0


@dataclass(frozen=True)
class Layout:
    """Which numbers a release holds, and their sensitivity; see `SummaryAgreement`."""

    bounds: tuple[tuple[str, float, float], ...]
    statistics: tuple[str, ...]
    bins: int
    privacy: Privacy | None
    sites: int = 1
    noise: str = "exact"
    levels: tuple[float, ...] = (0.25, 0.5, 0.75)
    categories: tuple[tuple[str, int], ...] = ()
    groups: int = 1
    rows_per_unit: int = 1
    notes: tuple[str, ...] = ()
    refined: bool = True
    keys: tuple[tuple[str, int, int], ...] = ()
    grids: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        asked = self.privacy
        if self.keys and asked is not None and not asked.delta and math.isfinite(asked.epsilon):
            raise ParameterError(
                f"column {self.keys[0][0]!r} has keys that are not public, and δ pays for those "
                "that become known: pass Privacy(ε, 1e-6), or list its values with tc.category(…)"
            )
        if (self.groups > 1 or self.rows_per_unit > 1) and self.counted:
            raise ParameterError(
                "groups, and people with several rows, need add-remove-one: under replace-one the "
                "number of rows is public"
            )

    # -- which numbers ---------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in order."""
        return tuple(name for name, _, _ in self.bounds)

    def grid_of(self, c: int) -> float:
        """Return how far apart a column's values are; 0 where that is not known."""
        return self.grids[c] if self.grids else 0.0

    @cached_property
    def middle(self) -> Any:
        """The middle of each column's range."""
        return np.array([(low + high) / 2.0 for _, low, high in self.bounds])

    @cached_property
    def half(self) -> Any:
        """Half of each column's range."""
        return np.array([(high - low) / 2.0 for _, low, high in self.bounds])

    @property
    def neighbours(self) -> str:
        """The neighbour relation."""
        return ADD_REMOVE if self.privacy is None else str(self.privacy.neighbours)

    @property
    def moments(self) -> int:
        """How many moments of a column are released."""
        return 2 * bool({"sum", "mean", "variance"} & set(self.statistics))

    @property
    def squared(self) -> bool:
        """Whether squares have a share of Δ; those that nobody asked for are free."""
        return "variance" in self.statistics

    @property
    def squares(self) -> tuple[float, float]:
        """The weight w₂ of squares, and what is taken from each."""
        return (W2, 0.5) if self.squared else (W1 / 2.0, 1.0)

    @property
    def cells(self) -> int:
        """How many cells of a histogram are released for each column."""
        read = {"histogram"} if self.ranked else {"histogram", "quantiles"}  # read from cells
        return self.bins if read & set(self.statistics) else 0

    @property
    def width(self) -> int:
        """Numbers per column."""
        return self.moments + self.cells

    @property
    def block(self) -> int:
        """Numbers of one group."""
        return 1 + len(self.columns) * self.width + sum(size for _, size in self.categories)

    @property
    def size(self) -> int:
        """Numbers in all."""
        return self.groups * self.block

    @property
    def counted(self) -> bool:
        """Whether the number of rows is public, as replace-one has it."""
        return self.neighbours == REPLACE

    @property
    def counting(self) -> bool:
        """Whether the count is released: to who asked for it, and to what is divided by it."""
        needs = {"count", "sum", "mean", "variance"} if self.columns else {"count"}
        return not self.counted and bool(needs & set(self.statistics))

    @property
    def ranked(self) -> bool:
        """Whether quantiles have a release of their own; else they are read from cells."""
        if "quantiles" not in self.statistics or not self.columns or not self.refined:
            return False
        if self.groups > 1:
            return False
        epsilon = math.inf if self.privacy is None else self.privacy.epsilon
        # no column's share is less, whatever else is asked for
        lists = len(self.categories) + len(self.keys)
        shares = self.rows_per_unit * len(self.columns) * (16 + 3 * lists)
        return self.sites > 1 or epsilon / shares >= LEAST

    @property
    def alone(self) -> bool:
        """Whether quantiles are all that is paid for."""
        return self.ranked and self.bare

    @property
    def bare(self) -> bool:
        """Whether the vector holds nothing that is paid for."""
        return not (self.counting or self.categories or (self.columns and self.width))

    @property
    def ordered(self) -> tuple[float, ...]:
        """The different levels in ascending order."""
        return tuple(sorted(set(self.levels)))

    def sensitivity(self, norm: int, more: int = 0, further: int = 0) -> float:
        """Return Δ for the stated relation.

        With ``more`` cells per column than there are, and so many ``further`` categories.
        """
        return self.rows_per_unit * self._of_one_row(norm, more, further)

    def _of_one_row(self, norm: int, more: int, further: int) -> float:
        w0 = W0 if self.counting else 0.0
        w1 = W1 if self.moments else 0.0
        w2 = W2 if self.squared else 0.0
        w3 = W3 if self.cells else 0.0
        replace = self.counted
        columns, lists = len(self.columns), len(self.categories) + further
        if norm == 1:
            inside = w2 / 2.0 + (w1 * w1 / (4.0 * w2) if w2 else 0.0)
            row = columns * (max(w1 + w2 / 2.0, inside) + w3 + more * W3) + lists * W3
            return row * 2.0 if replace else w0 + row
        if not replace:
            each = columns * (w1**2 + w2**2 / 4.0 + w3**2 + more * W3 * W3)
            return math.sqrt(w0**2 + each + lists * W3**2)
        largest = 4.0 * w1**2
        if w2 and 2.0 * w1**2 <= w2**2:
            a = (3.0 - math.sqrt(1.0 - 2.0 * w1**2 / w2**2)) / 2.0
            largest = max(largest, a * a * (w1**2 + w2**2 * (2.0 - a) ** 2))
        each = columns * (largest + 2.0 * w3**2 + 2.0 * more * W3 * W3)
        return math.sqrt(each + lists * 2.0 * W3**2)
