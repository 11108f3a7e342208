"""What a mixture releases of a table of samples: who moves its moments by how much.

What is released, and why one sample is protected, stands in `tacit.moments.agreement`.

**People with several samples.** Whoever has at most k of them, all of which come or go together,
moves each sum by at most k times as far, by the triangle inequality, and k equal samples do.
Whoever takes the place of somebody else, p ≤ k samples instead of q ≤ k, exchanges min(p, q) of
them and adds or takes away the rest: since no sample that comes or goes moves more than one that
is exchanged, that is at most k times the Δ of an exchange. Every sample is rounded by itself, and
`SHRINK` leaves room for each. No number of samples is public under either relation.

**Variances of their own** take K numbers more of the third moment, or D·K where features have
variances, and then of its other entries only those with different indices. All are parts of it
along directions that are orthonormal, or shorter (`tacit.moments.numerics.samples`): Δ₃ stays what
it is, for one sample more and for one instead of another.

**A public covariance** maps each sample before it is scaled to the ball, which is all that the
sensitivities rest on.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import Integer, check
from tacit.errors import ParameterError
from tacit.estimators.agreement import Neighbours
from tacit.moments.agreement import MomentAgreement
from tacit.moments.numerics.diagonal import enough
from tacit.moments.numerics.samples import ACROSS, CUBES, FEATURES, SampleMoments
from tacit.moments.numerics.sums import CONSTANT, SHRINK
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy

__all__ = ["MixtureAgreement"]

_NOT_ALONE = "a sample along one feature has no entries of different indices"


@dataclass(frozen=True)
class MixtureAgreement(MomentAgreement):
    """Squares and cubes of samples, which are scaled to within a ball.

    Parameters
    ----------
    radius, centre
        The public ball; the centre has a number for each feature.
    half
        How long one step along each feature is, where ranges map features to [−1, 1]; 1
        otherwise.
    names
        What the features are called; public.
    rows_per_unit
        How many samples one person has at most.
    notes
        What else is public about the table, in words.
    own_variances
        Whether every component has a variance of its own.
    diagonal
        Whether every feature has.
    turn
        L⁻¹ of a public covariance LLᵀ, row by row; none where it is the identity.

    Examples
    --------
    >>> privacy = Privacy(1.0, 1e-6, neighbours="replace-one")
    >>> MixtureAgreement(10, 5, privacy, radius=2.0).third_sensitivity
    2.0
    """

    unit = "row"

    radius: float = 1.0
    centre: tuple[float, ...] = (0.0,)
    half: tuple[float, ...] = (1.0,)
    names: tuple[str, ...] = ()
    rows_per_unit: int = 1
    notes: tuple[str, ...] = ()
    own_variances: bool = False
    diagonal: bool = False
    turn: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rows_per_unit", self.rows_per_unit, Integer(1, 10**6))
        if self.diagonal and not enough(self.size, self.rank - 1):
            most = max(k for k in range(1, self.size + 1) if enough(self.size, k - 1))
            raise ParameterError(
                f"covariance='diagonal' does not follow from the moments of {self.rank} components"
                f" and {self.size} features: pass at most {most} components, or more features"
            )
        if self.own_variances and not self.diagonal and self.rank >= self.size:
            raise ParameterError(
                f"variances='own' are seen in directions that no mean lies in: pass at most "
                f"{self.size - 1} components for {self.size} features, or variances='common'"
            )
        for name in ("centre", "half"):
            if len(getattr(self, name)) not in (1, self.size):
                raise ParameterError(
                    f"{name} has {len(getattr(self, name))} numbers, samples have {self.size}"
                )

    @property
    def matrix_size(self) -> int:
        """The side of the second moment: samples have a constant in front."""
        return self.size + 1

    @property
    def coordinates(self) -> int:
        """How many numbers the projected third moment has."""
        each = self.size if self.diagonal else 1
        return super().coordinates + self.rank * self.own_variances * each

    @property
    def parts(self) -> str:
        """Which of the third moment is summed."""
        if not self.own_variances:
            return CUBES
        return FEATURES if self.diagonal else ACROSS

    @property
    def by_feature(self) -> bool:
        """Whether variances differ by feature."""
        return self.diagonal

    def beside(self, numbers: Array) -> Array:
        """Return Σ (Uᵀz)·zᵀPz/r, or Σ z_i²·Σ_{j≠i} z_j·u_j by feature, of what is released."""
        if self.parts == FEATURES:
            return numbers.reshape(self.size, self.rank) / (SHRINK * math.sqrt(3.0))
        return numbers / (SHRINK * math.sqrt(3.0 * max(self.size - self.rank, 1)))

    @property
    def dense(self) -> bool:
        """Always: the variance needs all eigenvalues."""
        return True

    @property
    def second_sensitivity(self) -> float:
        """Δ₂ = 5/4, or √2 times that where one takes the place of another; a person's k times."""
        one = self.rows_per_unit * (1.0 + CONSTANT**2)
        return one if self.neighbours == ADD_REMOVE else math.sqrt(2.0) * one

    @property
    def third_sensitivity(self) -> float:
        """Δ₃ = 1, or 2 where one takes the place of another; a person's k times that."""
        return self.rows_per_unit * (1.0 if self.neighbours == ADD_REMOVE else 2.0)

    @property
    def _public(self) -> tuple[str, ...]:
        scaled = " after mapping to [-1, 1]" if set(self.half) != {1.0} else ""
        if self.turn:
            digest = hashlib.sha256(np.array(self.turn).tobytes()).hexdigest()[:16]
            scaled = f", as a public covariance measures it (sha256 of its inverse root {digest})"
        return (
            f"the {self.size} features are public",
            f"samples are scaled to within {self.radius:g} of a public centre{scaled}",
            *self.notes,
        )

    @property
    def _reach(self) -> tuple[float | str, float | str]:
        second = 1.0 if self.neighbours == ADD_REMOVE else 0.8
        return second, _NOT_ALONE if self.parts == FEATURES else 1.0

    def moments(self, data: Any) -> Any:
        """Return the sums of samples."""
        ball = self.radius * np.asarray(self.half), np.asarray(self.centre)
        turn = np.array(self.turn) if self.turn else None
        return SampleMoments(data, *ball, self.parts, turn)

    def worst_case(self) -> Neighbours:
        """A sample at the edge of the ball; instead of it, the opposite one.

        Where the basis does not hold all directions, so many others lie along that of the sample
        that the leading eigenvectors do.
        """
        centre = np.broadcast_to(np.asarray(self.centre), (self.size,))
        edges = self.radius * np.eye(self.size) * np.asarray(self.half)
        if self.turn:
            edges = self.radius * np.linalg.inv(np.array(self.turn)).T
        rows = centre + np.vstack([0.6 * edges, -0.6 * edges, 0.3 * edges])
        along = np.repeat(centre + np.vstack([edges[:1], -edges[:1]]), self._outweighing, axis=0)
        rows = np.vstack([rows, along])
        own = np.repeat(edges[:1], self.rows_per_unit, axis=0)  # of one person
        far = np.vstack([rows, centre + own])
        return Neighbours(
            far, np.vstack([rows, centre - own]) if self.neighbours == REPLACE else rows
        )

    @classmethod
    def examples(cls) -> Iterator[MixtureAgreement]:
        """All features or some in the basis, both relations, every trust."""
        for neighbours in (ADD_REMOVE, REPLACE):
            for trust, shares in (("central", 1), ("site", 1), ("aggregator", 3)):
                privacy = Privacy(2.0, 1e-5, "row", neighbours, trust)
                rank = 3 if trust == "site" else 2
                yield cls(3, rank, privacy, shares, 0.5, shares, 2.0, (0.5,))
                if trust != "site":
                    more: dict[str, Any] = {"radius": 2.0, "centre": (0.5,)}
                    fixed = privacy, shares, 0.5, shares
                    yield cls(3, 2, *fixed, **more, own_variances=True)
                    yield cls(3, 2, *fixed, **more, own_variances=True, diagonal=True)
                    turn = (1.0, 0.0, 0.0), (-0.5, 2.0, 0.0), (0.25, 0.5, 0.5)
                    yield cls(3, 2, *fixed, **more, turn=turn)
            people = Privacy(2.0, 1e-5, "user", neighbours)
            yield cls(2, 2, people, 1, 0.5, 1, 1.5, (1.0, 40.0), (0.5, 20.0), ("a", "b"), 3)
