"""What a row becomes, which sums of rows are released, and how far one row moves them.

**What a row becomes.** Public bounds map features and response to [−1, 1] (middle and half-range;
without an intercept by the largest absolute value, so that zero stays zero). The row is
a = s·(c, x, y) with the constant c = ½ in front and a factor s ≤ 1 for the whole row, so that it
stays on the regression plane: rows that are far out count with a smaller weight s² (weighted least
squares), which clipping x alone would not give. Sums of a·aᵀ are exact (`tacit.regression.outer`).

**The clip** is a rule that looks at no data: the root mean square norm of a row that is uniform
in its bounds, B² = c² + (d + 1)/3. Data are mostly nearer to the middle of their stated bounds
than that, and then few rows are scaled. A bound that no row can exceed, c² + d + 1, costs three
times the noise; a smaller one gives less noise, but the weights depend on y too, and where that
happens to many rows it bends the coefficients towards zero. So a row is scaled in two steps: first
(c, x) to c² + d/3, by a factor that knows nothing of y and keeps least squares unbiased, and then
the whole row to B, which only rows with a far response need. The bound is that of the last step.
The constant is ½ and not 1 because its square takes a share of B² as large as a feature's then;
noise on the intercept's row and column, whose sums are the largest of all, hurts least.

**Releases**, for rows with ‖a‖ ≤ B, or ‖x‖ ≤ R (the constant included) and |y| ≤ Y = 1:

``"moments"``
    Σ a·aᵀ: all of n, S, z and yᵀy in one symmetric matrix with isotropic noise (PRIVACY B3).
    One row more or less moves it by ‖a·aᵀ‖_F = ‖a‖² ≤ B². Another row instead: by the root of
    ‖a‖⁴ + ‖b‖⁴ − 2(aᵀb)² ≤ 2·B⁴, so Δ = √2·B².

``"Sz"``
    S = Σ x·xᵀ and w·z = w·Σ x·y, as in the thesis (w = 1 there). One row more or less moves them
    by Δ² = ‖x‖⁴ + w²‖x‖²y² ≤ R⁴ + w²R²Y². Another row instead: write V = w·Y. With opposite signs
    of the responses (the worse case), r = ‖x‖, r' = ‖x'‖ and the cosine c, Δ² ≤ r⁴ + r'⁴ −
    2r²r'²c² + V²(r² + r'² + 2rr'c). Over c: at c = V²/(2rr') where that is at most 1 it is r⁴ +
    r'⁴ + V²(r² + r'²) + V⁴/2, which grows with r and r'; else at c = 1 it is (r² − r'²)² + V²(r +
    r')², whose slope in r, 2(r + r')(2r² − 2rr' + V²), is positive because 2rr' < V² there. So r
    = r' = R: **Δ² = 2R⁴ + 2R²V² + V⁴/2 if V² ≤ 2R², else 4R²V²**. The weight w splits the budget
    between S and z; w = 1 and the w that is best under add-remove, w² = (R/Y)·√(2/(d + 1)), are
    compared, and the one with less total noise is taken.

``"Szu"``
    S, z and u = Σ y² with equal noise, as Bernstein & Sheldon need. More or less: Δ² = R⁴ + R²Y² +
    Y⁴. Instead: with |y'| = t·|y|, t ≤ 1, the largest change over the rest is a convex function of
    t² while t·Y² ≤ 2R², and beyond that first falls and then rises, with one slope where the two
    meet, so it is largest at t = 1 (the formula above, u does not move) or at t = 0
    (x ⊥ x': 2R⁴ + R²Y² + Y⁴): the larger of the two.

**People with several rows.** Whoever has at most k rows, all of which come or go together, moves
the sum by at most k times as far as one row does, by the triangle inequality; k equal rows do. So
Δ of a person is k·Δ of a row under add-remove. Under replace-one the number of rows would be
public although it changes with the person, so that is refused.

**n_j.** Under replace-one it is public, and says so. Under add-remove the constant's own entry,
Σ s², is its noisy stand-in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import InstanceOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.regression.numerics.moments import Moments
from tacit.regression.outer import ExactSum, OuterSum, RowMap, onto_grid

__all__ = ["CONSTANT", "STATISTICS", "Design"]

STATISTICS = ("moments", "Sz", "Szu")
CONSTANT = 0.5


@dataclass(frozen=True)
class Design:
    """What is public about the sums of rows: it stays with a release, to read it by.

    Parameters
    ----------
    middle, half
        Centre and half-range of each feature and, last, of the response.
    intercept
        Whether the constant is part of the model.
    neighbours
        The neighbour relation.
    statistics
        ``"moments"``, ``"Sz"`` or ``"Szu"``.
    clip
        The bound B (of ‖(c, x, y)‖ for moments) or R (of ‖(c, x)‖) on the mapped scale; the
        rule of this module's docstring unless given.
    rows_per_unit
        How many rows one person has at most.

    Examples
    --------
    >>> design = Design((0.0,) * 5, (1.0,) * 5)
    >>> round(design.sensitivity, 4), design.size
    (1.9167, 21)
    """

    # what sites must have in common, so that their moments add up
    common: ClassVar[tuple[str, ...]] = ("middle", "half", "intercept")

    middle: tuple[float, ...]
    half: tuple[float, ...]
    intercept: bool = True
    neighbours: str = ADD_REMOVE
    statistics: str = "moments"
    clip: float | None = None
    rows_per_unit: int = 1

    def __post_init__(self) -> None:
        check("rows_per_unit", self.rows_per_unit, Integer(1, 10**6))
        if self.rows_per_unit > 1 and self.neighbours == REPLACE:
            raise ParameterError(
                "people with several rows need add-remove-one: who replaces whom may have another "
                "number of rows, which is public under replace-one"
            )
        check("statistics", self.statistics, OneOf(*STATISTICS))
        check("neighbours", self.neighbours, OneOf(ADD_REMOVE, REPLACE))
        if self.clip is not None:
            check("clip", self.clip, Real(1e-6, 1e6))
        if len(self.middle) != len(self.half) or len(self.half) < 2:
            raise ParameterError("a design needs the middle and half-range of each column")
        for value in self.middle:
            check("middle", value, Real())
        for value in self.half:
            check("half", value, Real(0, open_low=True))
        check("intercept", self.intercept, InstanceOf(bool))
        _ = self.rows  # refuses a norm that the lattice of rows cannot keep

    @property
    def features(self) -> int:
        """How many features there are."""
        return len(self.half) - 1

    @property
    def coefficients(self) -> int:
        """How many coefficients the model has."""
        return self.features + self.intercept

    @property
    def knows_rows(self) -> bool:
        """Whether the number of rows is public."""
        return self.neighbours == REPLACE

    @property
    def rows_per_count(self) -> int:
        """How many rows one that counts stands for."""
        return 1

    @property
    def stretch(self) -> float:
        """By how much the model's features exceed the mapped ones."""
        return 1.0

    @cached_property
    def rows(self) -> RowMap:
        """How a row becomes the vector a."""
        # without an intercept the constant is there for the count only
        constant = CONSTANT if self.intercept or not self.knows_rows else 0.0
        joint = self.statistics == "moments"
        uniform = constant**2 + (self.features + joint) / 3.0
        norm = self.clip if self.clip is not None else math.sqrt(uniform)
        room = min(1.0 / 3.0, norm**2 / 2.0)  # for the response
        inner = math.sqrt(norm**2 - room) if joint else math.inf
        return RowMap(self.middle, self.half, constant, norm, joint, inner)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Which entries of Σ a·aᵀ are released."""
        size, last = self.rows.size, self.rows.size - 1
        first = size - 1 - self.coefficients  # 1 where the constant only counts
        pairs = [(i, j) for i in range(first, last) for j in range(i, last)]
        pairs += [(i, last) for i in range(first, last)]
        if self.statistics != "Sz":
            pairs.append((last, last))
        return [(0, 0), *pairs] if first else pairs

    @cached_property
    def weights(self) -> list[float]:
        """The squared factor of each released entry, which spreads the noise."""
        last = self.rows.size - 1

        def weight(i: int, j: int) -> float:
            if j < last:
                return 1.0 if i == j else self.off_diagonal
            return self.square_weight if i == j else self.cross_weight

        return [weight(i, j) for i, j in self.pairs]

    @property
    def off_diagonal(self) -> float:
        """The squared weight of a number that stands twice in a symmetric matrix."""
        return 2.0

    @cached_property
    def cross_weight(self) -> float:
        """The squared weight w² of z."""
        if self.statistics == "moments":
            return 2.0
        if self.statistics == "Szu":
            return 1.0
        d = self.coefficients
        best = self.rows.norm * math.sqrt(2.0 / (d + 1.0))  # Y = 1

        def noise(weight: float) -> float:
            return self._separate(weight) * (d * (d + 1) / 2.0 + d / weight)

        return best if noise(best) < noise(1.0) else 1.0

    @property
    def square_weight(self) -> float:
        """The squared weight of u."""
        return 1.0

    def _separate(self, weight: float) -> float:
        """Return Δ² of (S, w·z) and, where released, u, for the squared weight w²; Y = 1."""
        square = self.rows.norm**2
        if self.neighbours == ADD_REMOVE:
            squares = self.square_weight if self.statistics == "Szu" else 0.0
            return square**2 + weight * square + squares
        both = (
            2.0 * square**2 + 2.0 * square * weight + weight**2 / 2.0
            if weight <= 2.0 * square
            else 4.0 * square * weight
        )
        if self.statistics == "Szu":
            return max(both, 2.0 * square**2 + square + 1.0)
        return both

    @cached_property
    def sensitivity(self) -> float:
        """How far one unit moves the released vector, for the stated relation."""
        return self.rows_per_unit * self._of_one_row

    @property
    def _of_one_row(self) -> float:
        if self.statistics != "moments":
            return math.sqrt(self._separate(self.cross_weight))
        square = self.rows.norm**2
        return square if self.neighbours == ADD_REMOVE else square * math.sqrt(2.0)

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return len(self.pairs)

    def mechanism(self, privacy: Privacy | None, source: str = "exact") -> Gaussian:
        """Return the least noise for a request; none at all without one.

        Examples
        --------
        >>> design = Design((0.0,) * 5, (1.0,) * 5)
        >>> round(design.mechanism(Privacy(1.0, 1e-4)).noise_multiplier, 2)
        3.19
        """
        if privacy is not None and math.isfinite(privacy.epsilon) and privacy.delta <= 0.0:
            raise ParameterError(
                "privacy.delta must be positive for Gaussian noise: pass Privacy(…, delta=1e-6)"
            )
        epsilon, delta = (math.inf, 0.0) if privacy is None else (privacy.epsilon, privacy.delta)
        shape, how = (self.size,), {"neighbours": self.neighbours, "source": source}
        if math.isinf(epsilon):
            # no noise: the grid alone follows the sensitivity. 2^-30 of it is as fine as products
            # of rows, and leaves room for 2^30 of them where 2^-40 is full at some ten million
            return Gaussian(0.0, math.ldexp(self.sensitivity, 10), shape, **how)
        return Gaussian.for_privacy(epsilon, delta, self.sensitivity, shape, **how)

    def fixed_noise(self, multiplier: float, source: str = "exact") -> Gaussian:
        """Return noise of a stated multiple of the sensitivity, as a certificate states it."""
        return Gaussian.calibrated(
            multiplier, self.sensitivity, (self.size,), neighbours=self.neighbours, source=source
        )

    # -- what a site adds up ---------------------------------------------------------------

    def outer_sum(self) -> OuterSum:
        """Return an empty sum of rows."""
        return OuterSum(self.rows)

    def counted(self, rows: int) -> int:
        """Return how many rows count, of so many of a site."""
        return rows // self.rows_per_count

    def vector(self, total: ExactSum, mechanism: Gaussian) -> GridSum:
        """Return a site's exact sum on the mechanism's grid, ready for the gate."""
        return onto_grid(total, self.pairs, self.weights, mechanism.grid)

    def unpack(self, vector: Array, sd: float, rows: float | None) -> Moments:
        """Return the moments that a released vector holds, with the noise that is on them.

        Each of its numbers has noise of standard deviation ``sd``; ``rows`` is their number
        where it is public.
        """
        size = self.rows.size
        whole = np.zeros((size, size))
        entries = vector[: len(self.pairs)]
        for (i, j), weight, number in zip(self.pairs, self.weights, entries, strict=True):
            whole[i, j] = whole[j, i] = number / math.sqrt(weight)
        model = slice(size - 1 - self.coefficients, size - 1)
        square = None if self.statistics == "Sz" else float(whole[-1, -1])
        scale = self.stretch
        counted = rows is None
        if rows is None:
            rows = float(max(1.0, whole[0, 0] / CONSTANT**2))
        return Moments(
            gram=whole[model, model] * scale**2,
            cross=whole[model, -1] * scale,
            rows=rows,
            square=square,
            gram_sd=sd * scale**2,
            cross_sd=sd * scale / math.sqrt(self.cross_weight),
            square_sd=0.0 if square is None else sd / math.sqrt(self.square_weight),
            rows_sd=sd / CONSTANT**2 if counted else 0.0,
        )

    def assumptions(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return every public input, for certificates."""
        bounds = tuple(
            f"{name} lies in [{m - h:g}, {m + h:g}]"
            for name, m, h in zip(names, self.middle, self.half, strict=True)
        )
        bounds += (f"rows are scaled to norm {self.rows.norm:.6g} after mapping to [-1, 1]",)
        if self.knows_rows:
            bounds += ("the number of rows is public",)
        if self.rows_per_unit > 1:
            bounds += (f"at most {self.rows_per_unit} rows of one person count",)
        return bounds
