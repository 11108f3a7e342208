"""What a summary releases, and why that is private.

**What is released.** Map each column to t = (x − middle)/half-range ∈ [−1, 1]. A row contributes
the vector (w₀; per column w₁·t, w₂·(t² − ½), w₃·one-hot cell), and one release of the sum of
these vectors gives everything: counts, sums, means, variances, histograms, and quantiles by
post-processing of the histogram.

**Sensitivity** (tested by search over neighbouring tables). Adding or removing one row moves
the sum by the row's own vector. Its squared L2 norm is w₀² + Σ_columns [w₁²s + w₂²(s − ½)² + w₃²]
with s = t² ∈ [0, 1]; it is convex in s, so the largest is at s = 1 (s = 0 gives w₂²/4 only):
Δ² = w₀² + C·(w₁² + w₂²/4 + w₃²). Its L1 norm per column is w₁u + w₂|u² − ½| + w₃ with u = |t|:
at most w₁ + w₂/2 at u = 1, or w₂/2 + w₁²/(4w₂) inside.
Replacing a row moves (t, t²) by (a, ab), with a = t − t' and b = t + t', so |a| + |b| ≤ 2: the
largest w₁²a² + w₂²a²b² is 4w₁² at a = 2, or lies at a = (3 − √(1 − 2w₁²/w₂²))/2, b = 2 − a; the
cell moves by √2·w₃, and the count not at all: under replace-one it is public.

The weights give every statistic the same share of Δ².
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.lazy import late
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

__all__ = ["STATISTICS", "W0", "W1", "W2", "W3", "SummaryAgreement", "Totals"]

STATISTICS = ("count", "sum", "mean", "variance", "histogram", "quantiles")
# squared share of Δ² of each part of a row's vector, before normalisation
W0, W1, W2, W3 = 1.0, 1.0, 2.0, 1.0


@dataclass(frozen=True)
class Totals:
    """What was learned: the noisy sum of all rows' vectors, and how many rows where public."""

    sum: Any
    rows: int
    sites: int

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.sum + other.sum, self.rows + other.rows, self.sites + other.sites)


@dataclass(frozen=True)
class SummaryAgreement(Agreement):
    """Which numbers a release holds, their weights, their sensitivity and their noise.

    Parameters
    ----------
    bounds
        (column, low, high) of every column, in order.
    statistics, bins
        What is asked for, and the cells of each histogram.
    privacy, sites
        As in `Agreement`.
    noise
        The kind of noise source.

    Examples
    --------
    >>> agreement = SummaryAgreement((("age", 0.0, 110.0),), ("count",), 32, Privacy(1.0, 1e-6))
    >>> [step.name for step in agreement.steps], agreement.rounds
    (['rows'], 1)
    """

    family = "summary"
    cites = ("dwork2006",)

    bounds: tuple[tuple[str, float, float], ...]
    statistics: tuple[str, ...]
    bins: int
    privacy: Privacy | None
    sites: int = 1
    noise: str = "exact"

    # -- which numbers ---------------------------------------------------------------------

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns in order."""
        return tuple(name for name, _, _ in self.bounds)

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
        if "variance" in self.statistics:
            return 2
        return int(bool({"sum", "mean"} & set(self.statistics)))

    @property
    def cells(self) -> int:
        """How many cells of a histogram are released for each column."""
        return self.bins if {"histogram", "quantiles"} & set(self.statistics) else 0

    @property
    def width(self) -> int:
        """Numbers per column."""
        return self.moments + self.cells

    @property
    def size(self) -> int:
        """Numbers in all."""
        return 1 + len(self.columns) * self.width

    @property
    def counted(self) -> bool:
        """Whether the number of rows is public, as replace-one has it."""
        return self.neighbours == REPLACE

    def sensitivity(self, norm: int) -> float:
        """Return Δ for the stated relation; see the module's docstring."""
        w1 = W1 if self.moments else 0.0
        w2 = W2 if self.moments == 2 else 0.0
        w3 = W3 if self.cells else 0.0
        replace = self.counted
        columns = len(self.columns)
        if norm == 1:
            inside = w2 / 2.0 + (w1 * w1 / (4.0 * w2) if w2 else 0.0)
            row = max(w1 + w2 / 2.0, inside) + w3
            return columns * row * 2.0 if replace else W0 + columns * row
        if not replace:
            return math.sqrt(W0**2 + columns * (w1**2 + w2**2 / 4.0 + w3**2))
        largest = 4.0 * w1**2
        if w2 and 2.0 * w1**2 <= w2**2:
            a = (3.0 - math.sqrt(1.0 - 2.0 * w1**2 / w2**2)) / 2.0
            largest = max(largest, a * a * (w1**2 + w2**2 * (2.0 - a) ** 2))
        return math.sqrt(columns * (largest + 2.0 * w3**2))

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def mechanism(self) -> Gaussian | Laplace:
        """The least noise: Gaussian where δ allows it, else Laplace."""
        shape, how = (self.size,), {"neighbours": self.neighbours, "source": self.noise}
        if self.counted and not self.width:  # the count alone, which is public
            return Gaussian(0.0, 1.0, shape, **how)
        if self.privacy is None:
            return Gaussian(0.0, self.sensitivity(2), shape, **how)
        epsilon, delta = self.privacy.epsilon, self.privacy.delta
        options: list[Gaussian | Laplace] = [
            Laplace.for_privacy(epsilon, self.sensitivity(1), shape, **how)
        ]
        if delta > 0.0:
            options.append(Gaussian.for_privacy(epsilon, delta, self.sensitivity(2), shape, **how))
        return min(options, key=lambda mechanism: mechanism.variance())

    def _steps(self) -> tuple[Step, ...]:
        replies = {"sum": ArraySpec((self.size,), exponent=self.mechanism.grid.exponent)}
        if self.counted:
            replies["rows"] = ArraySpec((1,), "int64", low=0)
        if self.counted and not self.width:
            return (Step("rows", open="the number of rows", replies=replies),)
        reach: float | str = 1.0
        if self.counted and self.mechanism.norm == 1 and self.moments:
            reach = "both rows' norms are added up, and (t, t²) of two rows are never opposite"
        return (Step("rows", self.mechanism, replies=replies, reach=reach),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Ranges, and what is public with them."""
        notes = [f"{name} lies in [{low:g}, {high:g}]" for name, low, high in self.bounds]
        if self.counted:
            notes.append("the number of rows is public")
        if self.sites > 1:
            notes.append("the sites hold different rows")
        return tuple(notes)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its columns."""
        site: Participant = late(f"{__package__}.sides").Rows(self, name, [data], gate)
        return site

    def coordinate(self, start: Start) -> Coordinating:
        """Ask once, add up."""
        found = yield Ask("rows")
        rows = int(found.total["rows"][0]) if self.counted else 0
        return Totals(found.total["sum"], rows, len(found.sites))

    def worst_case(self) -> Neighbours:
        """A row at the top of every range, more or instead of one that is as far as can be."""
        away = -1.0  # t of the other row
        if self.moments == 2 and self.mechanism.norm == 2:  # see the module's docstring
            away = 1.0 - (3.0 - math.sqrt(1.0 - 2.0 * W1**2 / W2**2)) / 2.0
        rows, other = {}, {}
        for name, low, high in self.bounds:
            middle, half = (low + high) / 2.0, (high - low) / 2.0
            rows[name] = np.array([middle, middle, high])
            other[name] = np.array([middle, middle, *([middle + away * half] * self.counted)])
        return Neighbours(rows, other)

    @classmethod
    def examples(cls) -> Iterator[SummaryAgreement]:
        """One or two columns, both relations, either noise, each statistic."""
        age, dose = ("age", 0.0, 100.0), ("dose", -1.0, 1.0)
        for neighbours in (ADD_REMOVE, REPLACE):
            for delta in (0.0, 1e-6):
                privacy = Privacy(1.0, delta, unit="row", neighbours=neighbours)
                yield cls((age, dose), STATISTICS, 4, privacy)
                yield cls((age,), ("mean",), 4, privacy)
