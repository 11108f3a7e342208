"""What a private decomposition releases: one symmetric tensor, with isotropic noise.

A tensor T is replaced by its symmetric part, of which the entries with a ≤ b ≤ c times
√(permutations) are coordinates along an orthonormal basis of the symmetric tensors. Symmetrising
is an orthogonal projection, so it lengthens no difference: one unit that moves T by at most Δ in
Frobenius norm, which the caller states, moves the coordinates by at most Δ in L2 norm. Noise of
the same law in all coordinates is isotropic among symmetric tensors: K-norm noise for δ = 0, which
is purely ε-private, and Gaussian noise otherwise. Nothing may be asked that changes what is
released.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement, Ask, Asked, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.knorm import KNorm
from tacit.moments.numerics.power import symmetrise
from tacit.moments.numerics.sums import entry_weights, triples
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec

__all__ = ["TensorAgreement", "TensorHolder"]


@dataclass(frozen=True)
class TensorAgreement(Agreement):
    """One release of a symmetric tensor.

    Parameters
    ----------
    size
        D.
    sensitivity
        How far, in Frobenius norm, one unit can move the tensor; the caller's to state.
    privacy, sites
        As in `Agreement`; there is one holder.

    Examples
    --------
    >>> TensorAgreement(3, 1.0, Privacy(1.0)).mechanism.shape
    (10,)
    """

    family = "moments"
    cites = ("anandkumar2014", "imtiaz2017")

    size: int
    sensitivity: float
    privacy: Privacy
    sites: int = 1

    def __post_init__(self) -> None:
        if self.sites != 1:
            raise ParameterError(
                "a tensor is decomposed in one place: pass one, not several sites"
            )

    @cached_property
    def mechanism(self) -> Gaussian | KNorm:
        """K-norm noise for δ = 0, else Gaussian noise."""
        shape, privacy = (math.comb(self.size + 2, 3),), self.privacy
        more: dict[str, Any] = {"neighbours": str(privacy.neighbours)}
        if privacy.delta == 0.0 and math.isfinite(privacy.epsilon):
            return KNorm.for_privacy(privacy.epsilon, self.sensitivity, shape, **more)
        return Gaussian.for_privacy(
            privacy.epsilon, privacy.delta, self.sensitivity, shape, **more
        )

    def _steps(self) -> tuple[Step, ...]:
        mechanism = self.mechanism
        reply = ArraySpec(mechanism.shape, exponent=mechanism.grid.exponent)
        return (Step("tensor", mechanism, replies={"coordinates": reply}),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The stated sensitivity."""
        return (f"one {self.privacy.unit} moves the tensor by at most {self.sensitivity:g}",)

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> TensorHolder:
        """Return the holder of a tensor."""
        return TensorHolder(self, name, [data], gate)

    def coordinate(self, start: Start) -> Coordinating:
        """Ask once."""
        found = yield Ask("tensor")
        return found.total["coordinates"]

    def worst_case(self) -> Neighbours:
        """Tensors whose difference has the stated norm."""
        tensor = np.zeros((self.size,) * 3)
        for k in range(self.size):
            tensor[k, k, k] = (self.size - k) * self.sensitivity
        other = tensor.copy()
        other[0, 0, 0] -= self.sensitivity
        return Neighbours(tensor, other)

    @classmethod
    def examples(cls) -> Iterator[TensorAgreement]:
        """Either noise, both relations, two units."""
        for unit in ("row", "user"):
            for neighbours in (ADD_REMOVE, REPLACE):
                for delta in (0.0, 1e-6):
                    yield cls(2, 0.5, Privacy(1.0, delta, unit, neighbours))


class TensorHolder(Holder):
    """The one holder of a tensor."""

    agreement: TensorAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: Array, picks: Picks
    ) -> GridSum:
        """Return the coordinates of the symmetric part; what is not finite counts as zero."""
        size, grid = self.agreement.size, self.agreement.mechanism.grid
        clean = symmetrise(np.nan_to_num(shard, posinf=0.0, neginf=0.0))
        a, b, c = triples(size).T
        return GridSum(grid.round(clean[a, b, c] * entry_weights(size)), grid)

    def contributions(self, shard: Array) -> int:
        """Return 1: the mean of all units is given, whose norm the caller bounds."""
        return 1
