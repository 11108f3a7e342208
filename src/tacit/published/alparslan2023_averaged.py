"""Averaged rows (Alparslan 2023, 5.2.4.1): groups of rows count as one; at what it costs.

The thesis averages k consecutive rows, so that features are nearer to normal, and claims that the
sensitivity stays. It does not, and a row's contribution is no function of that row alone: this is
here for comparison, with noise for the sensitivity that it has.

**Sensitivity.** A group counts as one row (Σ a)/√k. Let v be the sum of the others, ‖v‖ ≤ L·B with
L = k − 1, and let m + e and m − e be the two rows, so that the group's outer product moves by
(2/k)·(A·eᵀ + e·Aᵀ) with A = v + m. In units of B, split v and m along e (v₁, μ) and across it (v₂,
ν): the squared norm is (8/k²)·f with f = ε²·(2A₁² + A₂²), A₁ ≤ v₁ + μ, A₂ ≤ v₂ + ν and ε ≤ ρ − μ,
ρ² = 1 − ν². If v₁ ≥ ρ, μ = 0 is the worst, and f ≤ ρ²(2L² − v₂² + 2v₂ν + ν²) ≤ 2(1 − ν²)(L² + ν²)
≤ 2L². If v₁ < ρ, (ρ − μ)(v₁ + μ) ≤ (ρ + v₁)²/4 gives f ≤ (1 − ν²)(1 + L² + 2Lν) ≤ 2L² for L ≥ 2;
L = 1 was maximised numerically. So the change is at most (√8/k)·√2·L·B² = **4(k − 1)B²/k**,
reached by −a instead of a along v. A row more or less would shift all groups behind it, so this
needs replace-one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import Constraint, Integer, check
from tacit.errors import ParameterError
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.published.constructor import constructor
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.design import Design
from tacit.regression.estimator import PrivateLinearRegression
from tacit.regression.outer import BITS, ExactSum, OuterSum, RowMap
from tacit.regression.summary import SiteSummary

__all__ = ["AveragedAgreement", "AveragedDesign", "AveragedRegression", "AveragedSummary"]


@dataclass(frozen=True)
class GroupMap(RowMap):
    """Rows whose sums over a group still have no more than 2^16 steps of the lattice."""

    group: int = 1

    @property
    def bits(self) -> int:
        """Fewer than of a row by itself."""
        return BITS - (self.group - 1).bit_length()


class GroupSum(OuterSum):
    """Adds up outer products of sums of consecutive rows."""

    rows: GroupMap

    def __init__(self, rows: GroupMap) -> None:
        self._group = rows.group
        super().__init__(rows)
        # rows of an unfinished group wait for the rest of it
        self._waiting: tuple[Any, Any] = (np.empty((0, rows.features)), np.empty(0))

    @property
    def _piece(self) -> int:
        return super()._piece // self._group * self._group

    def _vectors(self, rows: Array) -> Array:
        return np.asarray(rows.reshape(-1, self._group, rows.shape[1]).sum(axis=1))

    def add(self, x: Any, y: Any) -> None:
        """Add rows, those of an unfinished group later."""
        rows = self.count + len(y)
        x = np.concatenate([self._waiting[0], x])
        y = np.concatenate([self._waiting[1], y])
        whole = len(y) // self._group * self._group
        self._waiting = (x[whole:].copy(), y[whole:].copy())
        super().add(x[:whole], y[:whole])
        self.count = rows

    def result(self) -> ExactSum:
        """Return the exact total; rows of an unfinished group are left out."""
        return replace(super().result(), divisor=self._group)


@dataclass(frozen=True)
class AveragedDesign(Design):
    """Moments of averaged rows.

    Parameters
    ----------
    middle, half, intercept, neighbours, statistics, clip
        As in `Design`; moments under replace-one.
    rows_per_group
        How many consecutive rows are averaged.
    """

    common: ClassVar[tuple[str, ...]] = (*Design.common, "rows_per_group")

    statistics: str = "moments"
    rows_per_group: int = 2

    def __post_init__(self) -> None:
        check("rows_per_group", self.rows_per_group, Integer(2, 1 << 12))
        if self.neighbours != REPLACE or self.statistics != "moments":
            raise ParameterError(
                "averaged rows need neighbours='replace-one' and statistics='moments': a row more "
                "or less would shift every group behind it"
            )
        super().__post_init__()

    @property
    def rows_per_count(self) -> int:
        """How many rows one that counts stands for."""
        return self.rows_per_group

    @cached_property
    def rows(self) -> GroupMap:
        """How a row becomes the vector a."""
        one = Design.rows.func(self)  # type: ignore[attr-defined]
        return GroupMap(**vars(one), group=self.rows_per_group)

    @cached_property
    def sensitivity(self) -> float:
        """How far one row moves the released vector."""
        k = self.rows_per_group
        return self.rows.norm**2 * (4.0 * (k - 1) / k)

    def outer_sum(self) -> GroupSum:
        """Return an empty sum of groups."""
        return GroupSum(self.rows)


@dataclass(frozen=True)
class AveragedAgreement(RegressionAgreement):
    """One release of moments of averaged rows per site."""

    trusts: ClassVar[tuple[str, ...]] = ("central", "site")
    cites = ("alparslan2023",)

    design: AveragedDesign

    @property
    def _reach(self) -> float | str:
        if self.design.intercept:
            return "the constant in front has one sign: the opposite of a row is no row"
        return super()._reach

    def worst_rows(self) -> tuple[Array, Array]:
        """A group of equal rows at the edge, and the same with the opposite of one of them."""
        middle, half = np.array(self.design.middle), np.array(self.design.half)
        rows, _ = super().worst_rows()
        group = np.tile(middle + half, (self.design.rows_per_group, 1))
        other = np.vstack([group[:-1], middle - half])
        return np.vstack([group, rows]), np.vstack([other, rows])

    @classmethod
    def examples(cls) -> Iterator[AveragedAgreement]:
        """Groups of two and of three, with and without a constant."""
        privacy = Privacy(1.0, 1e-6, unit="row", neighbours=REPLACE)
        for group, intercept in ((2, True), (3, False)):
            design = AveragedDesign(
                (50.0, 0.0, 1.0), (50.0, 1.0, 2.0), intercept, REPLACE, rows_per_group=group
            )
            yield cls(design, ("age", "dose", "pressure"), privacy)


@dataclass(frozen=True)
class AveragedSummary(SiteSummary):
    """What one site released of averaged rows."""

    what: ClassVar[str] = "tacit regression summary of averaged rows"
    kind: ClassVar[type[Design]] = AveragedDesign


class AveragedRegression(PrivateLinearRegression):
    """Linear regression from averaged rows, with noise for the sensitivity that this has.

    Parameters
    ----------
    method, bounds, y_bounds, target, intercept, clip, prior, chains, draws, warmup
        As in `PrivateLinearRegression`.
    rows_per_group
        How many consecutive rows are averaged before they count.
    privacy, ledger, noise, on_failure, progress, random_state
        As in `PrivateLinearRegression`; under replace-one.
    """

    _agreements, _summaries = AveragedAgreement, AveragedSummary
    _takes_shards = False  # groups are of consecutive rows
    _stored = ("method", "bounds", "y_bounds", "target", "intercept", "clip", "rows_per_group")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **{n: c for n, c in PrivateLinearRegression._constraints.items() if n != "statistics"},
        "rows_per_group": Integer(2, 1 << 12),
    }
    columns, statistics = None, "moments"

    __init__ = constructor(PrivateLinearRegression, "columns", "statistics", rows_per_group=2)

    def _design(self, features: int | None) -> Design:
        one = super()._design(features)
        common = {field.name: getattr(one, field.name) for field in fields(Design)}
        return AveragedDesign(**common, rows_per_group=self.rows_per_group)
