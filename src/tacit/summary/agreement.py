"""What a summary releases, and why that is private.

One noisy vector holds every statistic (`tacit.summary.layout`); its sensitivity is derived there.

**Quantiles alone** (asked for without other statistics that are paid for) are not read from that
vector.

- *One holder* draws them by the exponential mechanism, split after split (`Quantiles`), or reads
  them from noisy cells, at the same price. Splits pay L = ⌈log₂(m + 1)⌉ times for any resolution,
  cells once for a coarse one: cells win while the fullest holds few rows, relative to the noise.
  One twentieth of ε buys its count (a maximum of counts moves by at most 1), which decides; for
  one quantile under replace-one the public number of rows does, and under add-remove splits are
  always used.
- *Over sites* only sums are possible: equal cells first, then cells that follow the released
  counts, three rounds in all. Whatever edges are asked for, a row lies in one cell: Δ is 1, or √2
  and 2 where a row is replaced.
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
from tacit.estimators.steps import Kind
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.quantiles import Quantiles
from tacit.privacy.calibration import gaussian_sigma, split_budget
from tacit.privacy.events import ADD_REMOVE, REPLACE, ApproximateDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant
from tacit.summary.cells import cell_quantiles, cell_widths, finer_edges
from tacit.summary.layout import GROUP, STATISTICS, W1, W2, Layout

__all__ = ["SummaryAgreement", "Totals"]

LOOK = 0.05  # the share of ε that decides between splits and cells
# Splits are better from (rows in the fullest cell)·ε/Δ on: where simulations cross, for two levels
# of splits, and for each level of more
_FEW, _MANY = 30.0, 50.0
_FEWEST = 12.0  # (rows)·ε, for one quantile under replace-one
ROUNDS = {"cells 0": 0.3, "cells 1": 0.3, "cells 2": 0.4}  # shares of the budget over sites


@dataclass(frozen=True)
class Totals:
    """What was learned: the noisy sum of all rows' vectors, and how many rows where public.

    Quantiles that were asked for alone, and what cannot be told apart there, stand by column.
    """

    sum: Any
    rows: int
    sites: int
    quantiles: tuple[Any, ...] = ()
    resolution: tuple[Any, ...] = ()

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.sum + other.sum, self.rows + other.rows, self.sites + other.sites)


@dataclass(frozen=True)
class SummaryAgreement(Layout, Agreement):
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
    levels
        Which quantiles.
    categories
        (column, number of values) of every category.
    groups
        How many groups there are statistics of, 1 where rows are not grouped.
    rows_per_unit
        How many rows one person has at most.
    notes
        What else is public about the rows, for certificates.

    Examples
    --------
    >>> agreement = SummaryAgreement((("age", 0.0, 110.0),), ("count",), 32, Privacy(1.0, 1e-6))
    >>> [step.name for step in agreement.steps], agreement.rounds
    (['rows'], 1)
    """

    family = "summary"
    cites = ("dwork2006",)

    @property
    def source(self) -> str:  # type: ignore[override]
        """The kind of noise source."""
        return self.noise

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def mechanism(self) -> Gaussian | Laplace:
        """The least noise: Gaussian where δ allows it, else Laplace."""
        shape, how = (self.size,), {"neighbours": self.neighbours, "source": self.noise}
        if self.counted and not self.width and not self.categories:  # the count alone: public
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
        rows = {"rows": ArraySpec((1,), "int64", low=0)} if self.counted else {}
        if self.ranked:
            first = (Step("rows", open="the number of rows", replies=rows),) if rows else ()
            return first + (self._quantile_steps() if self.sites == 1 else self._cell_steps())
        replies = {"sum": ArraySpec((self.size,), exponent=self.mechanism.grid.exponent), **rows}
        if self.counted and not self.width and not self.categories:
            return (Step("rows", open="the number of rows", replies=replies),)
        reach: float | str = 1.0
        if self.counted and self.mechanism.norm == 1 and self.moments:
            reach = "both rows' norms are added up, and (t, t²) of two rows are never opposite"
        return (Step("rows", self.mechanism, replies=replies, reach=reach),)

    # -- quantiles alone -------------------------------------------------------------------

    @property
    def looks(self) -> bool:
        """Whether the count of the fullest cell is bought, to choose between splits and cells."""
        return self.privacy is not None and len(self.ordered) > 1

    def _epsilons(self) -> dict[str, float]:
        """Return what the look and each column cost, in all no more than ε."""
        columns = {
            f"quantiles {c}": (1.0 - LOOK) / len(self.columns) for c in range(len(self.columns))
        }
        epsilon = math.inf if self.privacy is None else self.privacy.epsilon
        if math.isinf(epsilon):
            return dict.fromkeys(["fullest", *columns], math.inf)
        weights = {"fullest": LOOK, **columns} if self.looks else columns
        return split_budget(epsilon, weights)

    def _quantile_steps(self) -> tuple[Step, ...]:
        """One holder: the fullest cell of each column, then each column's quantiles."""
        cost, columns, how = self._epsilons(), len(self.columns), {"source": self.noise}
        steps = []
        if self.looks:
            counts = TwoSidedGeometric(cost["fullest"], columns, (columns,), **how)
            steps.append(
                Step("fullest", counts, replies={"counts": ArraySpec((columns,), "int64")})
            )
        for c, (_, low, high) in enumerate(self.bounds):
            epsilon = cost[f"quantiles {c}"]
            splits = Quantiles(epsilon, (low, high), self.ordered, self.neighbours)
            cells = Laplace.for_privacy(
                epsilon, 1.0 + self.counted, (self.bins,), neighbours=self.neighbours, **how
            )
            replies = {"values": ArraySpec((len(self.ordered),), low=low, high=high)}
            kinds = {"splits": Kind({}), "cells": Kind({}, mechanism=cells, merge="sum")}
            free = math.isinf(epsilon)
            steps.append(
                Step(
                    f"quantiles {c}",
                    splits,
                    replies=replies,
                    kinds=kinds,
                    merge="values",
                    cost=None if free else ApproximateDpEvent(epsilon),
                )
            )
        return tuple(steps)

    def _kind(self, rows: int, fullest: float) -> str:
        """Return how a column's quantiles are found, from what is public or was released."""
        epsilon = self._epsilons()["quantiles 0"]
        if math.isinf(epsilon):
            return "splits"
        if not self.looks:
            return "cells" if self.counted and rows * epsilon < _FEWEST else "splits"
        depth = len(self.ordered).bit_length()
        least = _FEW if depth == 2 else _MANY * depth
        return "splits" if fullest * epsilon / (1 + self.counted) > least else "cells"

    @cached_property
    def cell_noise(self) -> dict[str, Gaussian | Laplace]:
        """Over sites: the noise of each round of cells, together no more than was asked for."""
        columns = len(self.columns)
        shape, how = (columns, self.bins), {"neighbours": self.neighbours, "source": self.noise}
        l1 = columns * (2.0 if self.counted else 1.0)
        l2 = math.sqrt(l1)
        if self.privacy is None or math.isinf(self.privacy.epsilon):
            return {name: Gaussian(0.0, l2, shape, **how) for name in ROUNDS}
        epsilon, delta = self.privacy.epsilon, self.privacy.delta
        parts = split_budget(epsilon, ROUNDS)
        pure: dict[str, Gaussian | Laplace] = {
            name: Laplace.for_privacy(part, l1, shape, **how) for name, part in parts.items()
        }
        if delta == 0.0:
            return pure
        # Gaussian releases compose as one: 1/z² is what is shared
        whole = gaussian_sigma(epsilon, delta) * (1.0 + 1e-9)
        noisy: dict[str, Gaussian | Laplace] = {
            name: Gaussian.calibrated(whole / math.sqrt(part), l2, shape, **how)
            for name, part in ROUNDS.items()
        }
        last = next(reversed(ROUNDS))
        return min(pure, noisy, key=lambda found: found[last].variance())

    def _cell_steps(self) -> tuple[Step, ...]:
        """Over sites: counts of cells, whose edges each round may choose anew."""
        shape = len(self.columns), self.bins
        edges = {"edges": ArraySpec((shape[0], shape[1] - 1), low=-1.0, high=1.0)}
        return tuple(
            Step(
                name,
                noise,
                asks=edges,
                replies={"counts": ArraySpec(shape, exponent=noise.grid.exponent)},
            )
            for name, noise in self.cell_noise.items()
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Ranges, and what is public with them."""
        notes = [f"{name} lies in [{low:g}, {high:g}]" for name, low, high in self.bounds]
        notes += [note for note in self.notes if note not in notes]
        if self.counted:
            notes.append("the number of rows is public")
        if self.sites > 1:
            what = "rows" if self.privacy is None or self.privacy.unit == "row" else "people"
            notes.append(f"the sites hold different {what}")
        return tuple(notes)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its columns."""
        site: Participant = late(f"{__package__}.sides").Rows(self, name, [data], gate)
        return site

    def coordinate(self, start: Start) -> Coordinating:
        """Ask once, add up; quantiles alone take a few rounds."""
        if not self.ranked:
            found = yield Ask("rows")
            rows = int(found.total["rows"][0]) if self.counted else 0
            return Totals(found.total["sum"], rows, len(found.sites))
        rows = 0
        if self.counted:
            found = yield Ask("rows")
            rows = int(found.total["rows"][0])
        learn = self._learn_alone(rows) if self.sites == 1 else self._learn_together()
        quantiles, resolution, sites = yield from learn
        return Totals(np.zeros(1), rows, sites, quantiles, resolution)

    def _learn_alone(self, rows: int) -> Coordinating:
        """Return one holder's quantiles, by splits or from cells."""
        fullest = np.zeros(len(self.columns))
        if self.looks:
            found = yield Ask("fullest")
            fullest = found.total["counts"]
        values, widths, sites = [], [], 1
        for c, (_, low, high) in enumerate(self.bounds):
            kind = self._kind(rows, float(fullest[c]))
            found = yield Ask(f"quantiles {c}", kind)
            sites = len(found.sites)
            values.append(found.total["values"])
            width = 2.0**-30 if kind == "splits" else 1.0 / self.bins
            widths.append(np.full(len(self.ordered), (high - low) * width))
        return tuple(values), tuple(widths), sites

    def _learn_together(self) -> Coordinating:
        """Return quantiles over sites, from cells that follow the released counts."""
        columns = len(self.columns)
        edges = np.tile(np.linspace(-1.0, 1.0, self.bins + 1), (columns, 1))
        before, weight, sites = np.zeros((columns, self.bins)), 0.0, 1
        for name, noise in self.cell_noise.items():
            found = yield Ask(name, edges=edges[:, 1:-1])
            sites = len(found.sites)
            variance = noise.variance() * sites
            # the same cells once more: weighted by what each round tells about them
            share = 1.0 / variance if variance else 1.0
            counts = (before * weight + found.total["counts"] * share) / (weight + share)
            sd = 1.0 / math.sqrt(weight + share) if variance else 0.0
            last = edges, counts, sd
            before, weight = counts, weight + share
            # finer cells pay where a cell holds more than its noise and what interpolation loses
            if counts.max() > _MANY * max(sd, 1.0):
                edges = np.array([finer_edges(counts[c], edges[c], sd) for c in range(columns)])
                edges = np.clip(edges, -1.0, 1.0)
                before, weight = np.zeros_like(before), 0.0
        edges, counts, sd = last
        values, widths = [], []
        for c in range(columns):
            places = cell_quantiles(counts[c], edges[c], self.ordered, sd)
            values.append(self.middle[c] + self.half[c] * places)
            widths.append(self.half[c] * cell_widths(edges[c], places))
        return tuple(values), tuple(widths), sites

    def worst_case(self) -> Neighbours:
        """A row at the top of every range, more or instead of one that is as far as can be."""
        away = -1.0  # t of the other row
        if self.moments == 2 and self.mechanism.norm == 2:  # see the module's docstring
            away = 1.0 - (3.0 - math.sqrt(1.0 - 2.0 * W1**2 / W2**2)) / 2.0
        rows, other = {}, {}
        for name, low, high in self.bounds:
            middle, half = (low + high) / 2.0, (high - low) / 2.0
            rows[name] = np.array([high] * (2 + self.rows_per_unit))
            other[name] = np.array([high, high, *([middle + away * half] * self.counted)])
        for name, _ in self.categories:
            rows[name] = np.zeros(2 + self.rows_per_unit)
            other[name] = np.array([0.0, 0.0, *([1.0] * self.counted)])
        if self.groups > 1:
            rows[GROUP], other[GROUP] = np.zeros(2 + self.rows_per_unit), np.zeros(2)
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
                yield cls((age, dose), ("quantiles",), 4, privacy)
                yield cls((age,), ("quantiles",), 4, privacy, levels=(0.5,))
                yield cls((age, dose), ("quantiles",), 4, privacy, sites=2)
                yield cls((age,), ("mean",), 4, privacy, categories=(("sex", 3), ("ward", 2)))
        people = Privacy(1.0, 1e-6, unit="user")
        yield cls((age,), STATISTICS, 4, people, categories=(("sex", 3),), rows_per_unit=3)
        yield cls((age,), ("mean",), 4, people, groups=3, rows_per_unit=2)
