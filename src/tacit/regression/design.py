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
**Weights.** Coefficients rest on z = Σ x·y first of all: noise on z hurts as it is, noise on S as
far as β is large. So z is released with a weight w of its own, and what bounds its noise is not
the norm of the row but the product ‖x‖·|y| ≤ P, which a far response alone makes large: its noise
grows like √d, that of S like d. The constant c says how much of the budget goes to the intercept
and to the count, that is, to a private mean; `constant_for` gives it more where noise is large.

**Releases**, for rows with ‖a‖ ≤ B, or ‖x‖ ≤ R (the constant included) and |y| ≤ Y = 1:

``"weighted"``, the default
    S, √2·w·z (z stands twice in a symmetric matrix) and v·u with u = Σ y², for rows with r = ‖x‖
    ≤ R, t = |y| ≤ 1 and r·t ≤ P = R/√3, the root mean square of a uniform response times R. A
    row is scaled to R by a factor that knows nothing of y, and then to P. One row more or less
    moves them by Δ² = F(r, t; v²) with F(r, t; b) = r⁴ + 2w²·r²t² + b·t⁴. At a given r it grows
    with t, and along r·t = P it is 2w²P² + r⁴ + b·P⁴/r⁴, a convex function of r⁴ on P ≤ r ≤ R, so
    **Δ² = 2w²P² + max(R⁴ + v²·P⁴/R⁴, P⁴ + v²)**. Another row instead: with q = x·x',
    ‖f − f'‖² = F + F' − 2(q² + 2w²q·yy' + v²y²y'²), and the bracket is (q + w²yy')² +
    (v² − w⁴)·y²y'² ≥ −½·max(0, w⁴ − v²)·(t⁴ + t'⁴), so Δ² ≤ 2·max F with b = max(v², w⁴): the
    formula above, twice, with b in place of v². Nothing is lost by v² = w⁴ then. The weights are
    public rules: v² = min(R², R⁴), with which the first term is the larger one; w makes the noise
    Δ²·(1/w² + β²) of a normal equation least, at β = ½, a length of the coefficients on the mapped
    scale.

``"moments"``
    As in the first version, with c = ½ and w = v = 1.
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

__all__ = ["CONSTANT", "STATISTICS", "Design", "constant_for"]

STATISTICS = ("weighted", "moments", "Sz", "Szu")
CONSTANT = 0.5
RESPONSE = 1.0 / math.sqrt(3.0)
_LENGTH = 0.5  # of the coefficients on the mapped scale, where weights are best
_WEIGHTS: list[float] = [2.0 ** (k / 4.0) for k in range(-8, 33)]  # squared ones that are compared


def constant_for(square: float, noise_multiplier: float) -> float:
    """Return the constant in front of rows whose features have this mean square norm.

    Its square is between 0.3 and 1 times theirs, by the noise: where that hides all but a mean,
    the mean is what the budget is for. In steps of 1/16, which the lattice of rows holds.

    >>> constant_for(3.0, 4.0), constant_for(3.0, 35.0)
    (0.9375, 1.75)
    """
    share = min(1.0, max(0.3, noise_multiplier / 35.0))
    return max(CONSTANT, math.ceil(16.0 * math.sqrt(share * square) - 0.5) / 16.0)


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
        ``"weighted"``, ``"moments"``, ``"Sz"`` or ``"Szu"``.
    clip
        The bound B (of ‖(c, x, y)‖ for moments) or R (of ‖(c, x)‖) on the mapped scale; the
        rule of this module's docstring unless given.
    rows_per_unit
        How many rows one person has at most.
    constant
        The constant c in front of a row.
    response
        P/R: 1 never scales a row for its response. Of ``"weighted"`` only.
    weighted
        Public weights of the features, at most 1; all 1 unless given. A feature of weight w lies
        in [−w, w] after the map: it takes less of a row's norm, and its coefficient is believed to
        be smaller.

    Examples
    --------
    >>> design = Design((0.0,) * 5, (1.0,) * 5)
    >>> round(design.sensitivity, 4), design.size
    (2.4967, 21)
    """

    # what sites must have in common, so that their moments add up
    common: ClassVar[tuple[str, ...]] = ("middle", "half", "intercept", "constant", "weighted")

    middle: tuple[float, ...]
    half: tuple[float, ...]
    intercept: bool = True
    neighbours: str = ADD_REMOVE
    statistics: str = "weighted"
    clip: float | None = None
    rows_per_unit: int = 1
    constant: float = CONSTANT
    response: float = RESPONSE
    weighted: tuple[float, ...] = ()

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
        check("constant", self.constant, Real(1e-3, 1e3))
        check("response", self.response, Real(1e-3, 1.0))
        if self.weighted and len(self.weighted) != self.features:
            raise ParameterError(f"there are {self.features} features, not {len(self.weighted)}")
        for value in self.weighted:
            check("weighted", value, Real(1e-3, 1.0))
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
        constant = self.constant if self.intercept or not self.knows_rows else 0.0
        joint = self.statistics == "moments"
        features = sum(one * one for one in self.weighted) if self.weighted else self.features
        uniform = constant**2 + (features + joint) / 3.0
        norm = self.clip if self.clip is not None else math.sqrt(uniform)
        room = min(1.0 / 3.0, norm**2 / 2.0)  # for the response
        inner = math.sqrt(norm**2 - room) if joint else math.inf
        product = self.response * norm if self.statistics == "weighted" else math.inf
        scaled = (norm, joint, inner, product, self.weighted)
        return RowMap(self.middle, self.half, constant, *scaled)

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
        """The squared weight of z: w², or 2w² where it stands twice in a symmetric matrix."""
        if self.statistics == "moments":
            return 2.0
        if self.statistics == "Szu":
            return 1.0
        if self.statistics == "weighted":
            best = min(_WEIGHTS, key=lambda w: self._weighted(w) * (1.0 / w + _LENGTH**2))
            return 2.0 * best
        d = self.coefficients
        best = self.rows.norm * math.sqrt(2.0 / (d + 1.0))  # Y = 1

        def noise(weight: float) -> float:
            return self._separate(weight) * (d * (d + 1) / 2.0 + d / weight)

        return best if noise(best) < noise(1.0) else 1.0

    @property
    def square_weight(self) -> float:
        """The squared weight v² of u."""
        return self._square(self.cross_weight / 2.0) if self.statistics == "weighted" else 1.0

    def _square(self, weight: float) -> float:
        """Return v² for w²; under replace-one w⁴ counts anyway."""
        own = min(self.rows.norm**2, self.rows.norm**4)
        return own if self.neighbours == ADD_REMOVE else max(own, weight**2)

    def _weighted(self, weight: float) -> float:
        """Return Δ² of (S, √2·w·z, v·u) for the squared weight w²."""
        square, product, last = self.rows.norm**2, self.rows.product, self._square(weight)
        edge = max(square**2 + last * (product**2 / square) ** 2, product**4 + last)
        return (1.0 if self.neighbours == ADD_REMOVE else 2.0) * (2.0 * weight * product**2 + edge)

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
        if self.statistics == "weighted":
            return math.sqrt(self._weighted(self.cross_weight / 2.0))
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
            rows = float(max(1.0, whole[0, 0] / self.constant**2))
        return Moments(
            gram=whole[model, model] * scale**2,
            cross=whole[model, -1] * scale,
            rows=rows,
            square=square,
            gram_sd=sd * scale**2,
            cross_sd=sd * scale / math.sqrt(self.cross_weight),
            square_sd=0.0 if square is None else sd / math.sqrt(self.square_weight),
            rows_sd=sd / self.constant**2 if counted else 0.0,
        )

    def assumptions(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return every public input, for certificates."""
        bounds = tuple(
            f"{name} lies in [{m - h:g}, {m + h:g}]"
            for name, m, h in zip(names, self.middle, self.half, strict=True)
        )
        bounds += (f"rows are scaled to norm {self.rows.norm:.6g} after mapping to [-1, 1]",)
        if self.statistics == "weighted":
            bounds += (f"norm times response is scaled to {self.rows.product:.6g}",)
        if self.weighted:
            shown = ", ".join(f"{w:g}" for w in self.weighted)
            bounds += (f"features are multiplied by {shown} after mapping",)
        if self.knows_rows:
            bounds += ("the number of rows is public",)
        if self.rows_per_unit > 1:
            bounds += (f"at most {self.rows_per_unit} rows of one person count",)
        return bounds
