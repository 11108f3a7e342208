"""Quantiles of a summary: how they are released, and which part of the budget that is.

- *One holder* draws them by the exponential mechanism, split after split (`Quantiles`), or reads
  them from noisy cells, at the same price. Splits pay L = ⌈log₂(m + 1)⌉ times for any resolution,
  cells once for a coarse one: cells win while the fullest holds few rows, relative to the noise.
  A histogram that was asked for tells that. Without one, a twentieth of what quantiles cost buys
  the count of the fullest cell (a maximum of counts moves by at most 1); for one quantile under
  replace-one the public number of rows decides, and under add-remove splits are always used.
- *Over sites* only sums are possible: equal cells first (those of the histogram, where there is
  one), then cells that follow the released counts. Whatever edges are asked for, a row lies in one
  cell: Δ is 1, or √2 and 2 where a row is replaced, k times that for people with k rows.

**Beside other statistics** quantiles cost what one more histogram in the vector would: Δ grows
to Δ′ with it. A vector with Laplace noise of its share Δ₁/Δ₁′ of ε, or with Gaussian noise of
Δ₂/Δ₂′ of ε and all of δ, has (about) the noise that it has with the cells in it; the rest is for
quantiles, which are purely private for one holder. Over sites all noise is of one kind: of
Gaussian noise, which composes by 1/z², the vector has Δ₂²/Δ₂′², exactly what it had.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.estimators.agreement import Ask, Coordinating, Step
from tacit.estimators.steps import Kind
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.quantiles import Quantiles
from tacit.privacy.calibration import gaussian_sigma, split_budget
from tacit.privacy.events import ApproximateDpEvent
from tacit.rounds.messages import ArraySpec
from tacit.summary.cells import cell_quantiles, cell_widths, finer_edges
from tacit.summary.layout import W3, Layout
from tacit.summary.ranks import Ranks

__all__ = ["Ranking"]

LOOK = 0.05  # the share of ε that decides between splits and cells
# Splits are better from (rows in the fullest cell)·ε/Δ on: where simulations cross, for two levels
# of splits, and for each level of more (from 28 where one cell holds most, to 140 for a bell)
_FEW, _MANY = 30.0, 40.0
_FULL = 50.0  # standard deviations: of a cell that is worth finer ones
_FEWEST = 12.0  # (rows)·ε, for one quantile under replace-one
ROUNDS = {"cells 0": 0.3, "cells 1": 0.3, "cells 2": 0.4}  # shares of the budget over sites
_ROOM = 1.0 + 1e-9  # for the rounding of z

Noises = Mapping[str, Gaussian | Laplace]


@dataclass(frozen=True)
class Ranking(Layout):
    """How the budget is split, and which steps quantiles take; see `SummaryAgreement`."""

    @property
    def mechanism(self) -> Gaussian | Laplace:
        """The least noise on the vector: Gaussian where δ allows it, else Laplace."""
        return self._noises["rows"]

    @property
    def cell_noise(self) -> Noises:
        """Over sites: the noise of each round of cells."""
        return {name: noise for name, noise in self._noises.items() if name != "rows"}

    @property
    def _how(self) -> dict[str, str]:
        return {"neighbours": self.neighbours, "source": self.noise}

    @property
    def _epsilon(self) -> float:
        return math.inf if self.privacy is None else self.privacy.epsilon

    @cached_property
    def _noises(self) -> Noises:
        """The noise of the vector, and over sites of the cells, together what was asked for."""
        names = [] if self.bare else ["rows"]
        if self.ranked and self.sites > 1:  # the histogram is the first round
            names += [name for name in ROUNDS if not (name == "cells 0" and self.cells)]
        if not names:
            return {}
        if math.isinf(self._epsilon):
            return {
                name: Gaussian(0.0, self._moved(name, 2), self._shape(name), **self._how)
                for name in names
            }
        assert self.privacy is not None
        options = [self._pure(names)]
        if self.privacy.delta > 0.0:
            options.append(self._gaussian(names))
        told = names[0] if names[0] == "rows" else names[-1]
        return min(options, key=lambda noises: noises[told].variance())

    def _pure(self, names: list[str]) -> Noises:
        parts = self._parts(1)
        rounds = {name: ROUNDS[name] for name in names if name != "rows"}
        if rounds:
            parts |= split_budget(parts["quantiles"], rounds)
        return {
            name: Laplace.for_privacy(
                parts[name], self._moved(name, 1), self._shape(name), **self._how
            )
            for name in names
        }

    def _gaussian(self, names: list[str]) -> Noises:
        assert self.privacy is not None
        shape, delta = self._shape("rows"), self.privacy.delta * (0.5 if self.keys else 1.0)
        if names == ["rows"]:
            epsilon = self._parts(2)["rows"]
            return {
                "rows": Gaussian.for_privacy(
                    epsilon, delta, self._moved("rows", 2), shape, **self._how
                )
            }
        z = gaussian_sigma(self._shares(2)["rest"], delta) * _ROOM
        share = {"rows": (self.sensitivity(2) / self.sensitivity(2, 1)) ** 2}
        rounds = {name: ROUNDS[name] for name in names if name != "rows"}
        for name, part in rounds.items():
            share[name] = (1.0 - share["rows"]) * part / sum(rounds.values())
        return {
            name: Gaussian.calibrated(
                z / math.sqrt(share[name]), self._moved(name, 2), self._shape(name), **self._how
            )
            for name in names
        }

    def _shares(self, norm: int) -> dict[str, float]:
        """Return ε of keys, which is what further categories would cost, and of all the rest."""
        if not self.keys or math.isinf(self._epsilon):
            return {"rest": self._epsilon, "keys": self._epsilon}
        rest = self.sensitivity(norm, int(self.ranked))
        whole = self.sensitivity(norm, int(self.ranked), len(self.keys))
        return split_budget(self._epsilon, {"rest": rest, "keys": whole - rest})

    def _parts(self, norm: int) -> dict[str, float]:
        """Return ε of the vector and of quantiles, where the vector's noise has this norm."""
        if math.isinf(self._epsilon):
            return {"rows": math.inf, "quantiles": math.inf}
        vector, all_of_it = self.sensitivity(norm), self.sensitivity(norm, int(self.ranked))
        rest = self._shares(norm)["rest"]
        return split_budget(rest, {"rows": vector, "quantiles": all_of_it - vector})

    def _moved(self, name: str, norm: int) -> float:
        """Return how far one unit moves the vector, or a round's counts."""
        if name == "rows":
            return self.sensitivity(norm)
        cells = len(self.columns) * (2.0 if self.counted else 1.0)
        return self.rows_per_unit * (cells if norm == 1 else math.sqrt(cells))

    def _shape(self, name: str) -> tuple[int, ...]:
        return (self.size,) if name == "rows" else (len(self.columns), self.bins)

    # -- steps -----------------------------------------------------------------------------

    @property
    def looks(self) -> bool:
        """Whether the count of the fullest cell is bought, to choose between splits and cells."""
        return self.privacy is not None and len(self.ordered) > 1 and not self.cells

    def _epsilons(self) -> dict[str, float]:
        """Return what the look and each column cost, in all no more than quantiles may."""
        columns = {
            f"quantiles {c}": (1.0 - LOOK) / len(self.columns) for c in range(len(self.columns))
        }
        epsilon = self._parts(1 if self.alone else self.mechanism.norm)["quantiles"]
        if math.isinf(epsilon):
            return dict.fromkeys(["fullest", *columns], math.inf)
        weights = {"fullest": LOOK, **columns} if self.looks else columns
        return split_budget(epsilon, weights)

    def _quantile_steps(self) -> tuple[Step, ...]:
        """One holder: the fullest cell of each column, then each column's quantiles."""
        cost, columns, how = self._epsilons(), len(self.columns), {"source": self.noise}
        most, steps = self.rows_per_unit, []
        if self.looks:
            counts = TwoSidedGeometric(cost["fullest"], columns * most, (columns,), **how)
            steps.append(
                Step("fullest", counts, replies={"counts": ArraySpec((columns,), "int64")})
            )
        before = {"before": ArraySpec((self.bins,))} if self.cells else {}
        for c, (_, low, high) in enumerate(self.bounds):
            epsilon = cost[f"quantiles {c}"]
            levels, step = self.ordered, self.grid_of(c)
            splits = Quantiles(epsilon, (low, high), levels, self.neighbours, most, step)
            least, largest = splits.reach
            cells = Laplace.for_privacy(
                epsilon, most * (1.0 + self.counted), (self.bins,), **self._how
            )
            # counts of cells were released where quantiles are read from them, and are zero else
            replies = {
                "values": ArraySpec((len(levels),), low=least, high=largest),
                "counts": ArraySpec((self.bins,)),
            }
            kinds = {"splits": Kind({}), "cells": Kind(before, mechanism=cells, merge="sum")}
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

    def _kind(self, rows: int | None, fullest: float) -> str:
        """Return how a column's quantiles are found, from what is public or was released."""
        epsilon = self._epsilons()["quantiles 0"] / self.rows_per_unit
        if math.isinf(epsilon):
            return "splits"
        if len(self.ordered) == 1:
            return "splits" if rows is None or rows * epsilon >= _FEWEST else "cells"
        depth = len(self.ordered).bit_length()
        least = _FEW if depth == 2 else _MANY * depth
        return "splits" if fullest * epsilon / (1 + self.counted) > least else "cells"

    def _cell_steps(self) -> tuple[Step, ...]:
        """Over sites: counts of cells, whose edges each round may choose anew."""
        shape = self._shape("cells")
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

    # -- learning --------------------------------------------------------------------------

    def histogram(self, total: Array) -> Array:
        """Return the counts of cells, by column, that a vector without groups holds."""
        table = total[1 : 1 + len(self.columns) * self.width].reshape(len(self.columns), -1)
        return np.asarray(table[:, self.moments :] / W3)

    def _learn_alone(self, rows: int | None, total: Array) -> Coordinating:
        """Return one holder's quantiles, by splits or from cells."""
        fullest, before = np.zeros(len(self.columns)), None
        if self.cells:
            before = self.histogram(total)
            fullest = before.max(axis=1)
        elif self.looks:
            found = yield Ask("fullest")
            fullest = found.total["counts"]
        steps = {step.name: step for step in self._quantile_steps()}
        levels, ranks = np.array(self.ordered), []
        for c, (_, low, high) in enumerate(self.bounds):
            kind, step = self._kind(rows, float(fullest[c])), steps[f"quantiles {c}"]
            told = {"before": before[c]} if kind == "cells" and before is not None else {}
            found = yield Ask(step.name, kind, **told)
            values, splits = found.total["values"], step.mechanism
            if kind == "splits":
                assert isinstance(splits, Quantiles)
                width = np.full(len(values), (high - low) * 2.0**-30)
                ranks.append(Ranks(levels, values, width, splits.rank_scales))
                continue
            edges, cells = np.linspace(low, high, self.bins + 1), step.mechanism_of(kind)
            assert cells is not None
            width, variance = cell_widths(edges, values), 1.0 / self.weight_of(cells)
            ranks.append(
                Ranks(
                    levels,
                    values,
                    width,
                    counts=found.total["counts"],
                    edges=edges,
                    variance=variance,
                )
            )
        return tuple(ranks)

    def weight_of(self, cells: Mechanism) -> float:
        """Return one over the variance of a cell's count, with what a histogram said before."""
        earlier = W3**2 / self.mechanism.variance() if self.cells else 0.0
        return float(1.0 / cells.variance(None) + earlier)

    def _learn_together(self, total: Array, sites: int) -> Coordinating:
        """Return quantiles over sites, from cells that follow the released counts."""
        columns = len(self.columns)
        edges = np.tile(np.linspace(-1.0, 1.0, self.bins + 1), (columns, 1))
        cells = _Cells(edges, np.zeros((columns, self.bins)), 0.0)
        if self.cells:
            variance = self.mechanism.variance() * sites / W3**2
            cells = cells.with_counts(self.histogram(total), variance)
        for name, noise in self.cell_noise.items():
            if cells.weight:
                cells = cells.finer()
            found = yield Ask(name, edges=cells.edges[:, 1:-1])
            cells = cells.with_counts(found.total["counts"], noise.variance() * len(found.sites))
        levels, ranks = np.array(self.ordered), []
        for c, (middle, half) in enumerate(zip(self.middle, self.half, strict=True)):
            places = cell_quantiles(cells.counts[c], cells.edges[c], self.ordered, cells.sd)
            ranks.append(
                Ranks(
                    levels,
                    middle + half * places,
                    half * cell_widths(cells.edges[c], places),
                    counts=cells.counts[c],
                    edges=middle + half * cells.edges[c],
                    variance=cells.sd**2,
                )
            )
        return tuple(ranks)


@dataclass(frozen=True)
class _Cells:
    """Cells of every column, and what was released of their counts so far."""

    edges: Array
    counts: Array
    weight: float  # one over the variance of a count; infinite where it is exact

    @property
    def sd(self) -> float:
        return 1.0 / math.sqrt(self.weight) if self.weight else math.inf

    def with_counts(self, counts: Any, variance: float) -> _Cells:
        """Take in another release of them, weighted by what it tells."""
        if not variance or math.isinf(self.weight):
            return _Cells(self.edges, np.asarray(counts), math.inf)
        weight = self.weight + 1.0 / variance
        mean = (self.counts * self.weight + counts / variance) / weight
        return _Cells(self.edges, mean, weight)

    def finer(self) -> _Cells:
        """Return as many cells where the values are, where that pays; else the same.

        It pays where a cell holds more than its noise and what interpolation loses.
        """
        if self.counts.max() <= _FULL * max(self.sd, 1.0):
            return self
        each = [finer_edges(n, e, self.sd) for n, e in zip(self.counts, self.edges, strict=True)]
        return _Cells(np.clip(np.array(each), -1.0, 1.0), np.zeros_like(self.counts), 0.0)
