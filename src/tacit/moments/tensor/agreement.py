"""What a private decomposition releases: one symmetric tensor, with isotropic noise.

A tensor T is replaced by its symmetric part, of which the entries with a ≤ b ≤ c times
√(permutations) are coordinates along an orthonormal basis of the symmetric tensors. Symmetrising
is an orthogonal projection, so it lengthens no difference: one unit that moves T by at most Δ in
Frobenius norm, which the caller states, moves the coordinates by at most Δ in L2 norm. Noise of
the same law in all coordinates is isotropic among symmetric tensors: K-norm noise for δ = 0, which
is purely ε-private, and Gaussian noise otherwise. Nothing may be asked that changes what is
released.

**A second moment beside it.** Where T has to be whitened, M₂ is released first, in the same way: a
symmetric matrix that one unit moves by at most Δ₂, stated too. A share ρ of the budget is its
own: with δ the noise of both is one Gaussian, Δ₂·σ/√ρ and Δ₃·σ/√(1 − ρ), since the composition of
the two has the multiplier σ of (ε, δ); with δ = 0 they are ρ·ε- and (1 − ρ)·ε-private. Pure noise
is long: its expected length is d·Δ₂/(ρ·ε) with d = D(D + 1)/2, and where that exceeds the length
that M₂ can have at all, which is stated for that, nothing of M₂ would be seen and the fit is
refused before anybody pays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement, Ask, Asked, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.knorm import KNorm
from tacit.moments.numerics.power import symmetrise
from tacit.moments.numerics.sums import entry_weights, triples
from tacit.moments.numerics.whitening import noise_edge
from tacit.privacy.amounts import as_exact, float_above
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec

__all__ = ["ROOT", "TensorAgreement", "TensorHolder"]

# Numbers are clipped, which lengthens no difference: to what adds up without overflow, and to as
# many sensitivities as a reply may hold, which is what so many units add up to.
_FAR, _MOST = 2.0**1000, 2.0**39
ROOT = math.sqrt(2.0)  # of an entry off the diagonal, which stands in a matrix twice


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
    second_sensitivity
        The same of a second moment that is released beside it; None where there is none.
    share
        ρ, the second moment's share of the budget.
    largest
        The largest Frobenius norm that the second moment can have, for δ = 0; public.

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
    second_sensitivity: float | None = None
    share: float = 0.5
    largest: float | None = None

    def __post_init__(self) -> None:
        self._check_room()
        if self.sites != 1:
            raise ParameterError(
                "a tensor is decomposed in one place: pass one, not several sites"
            )

    @property
    def pure(self) -> bool:
        """Whether ε is asked for without a δ."""
        return self.privacy.delta == 0.0 and math.isfinite(self.privacy.epsilon)

    def _check_room(self) -> None:
        """Raise where pure noise would be longer than the second moment can be."""
        if self.second_sensitivity is None or not self.pure:
            return
        if self.largest is None:
            raise UnboundedData(
                "largest must be given for δ = 0: pass largest=…, the largest Frobenius norm that "
                "the second moment can have (for averages over documents 1)"
            )
        numbers = math.comb(self.size + 1, 2)
        one = self.second_sensitivity / (self.share * self.privacy.epsilon)
        if numbers * one <= self.largest:
            return
        most = int((math.sqrt(1.0 + 8.0 * self.largest / one) - 1.0) / 2.0)
        enough = float_above(as_exact(self.privacy.epsilon * numbers * one / self.largest))
        raise ParameterError(
            f"purely private noise on a second moment of {self.size} dimensions is about "
            f"{numbers * one:.3g} long, and the moment at most {self.largest:g}: nothing of it "
            f"would be seen. At most {most} dimensions would do (project to as many by what is "
            f"public), or ε of at least {enough:.3g}, or as much more data, or a δ above zero"
        )

    def _noise(self, part: float, bound: float, shape: tuple[int, ...]) -> Gaussian | KNorm:
        """Return the noise of what has a share of the budget."""
        privacy = self.privacy
        more: dict[str, Any] = {"neighbours": str(privacy.neighbours)}
        if self.pure:
            epsilon = privacy.epsilon * part * (1.0 if part == 1.0 else 1.0 - 2.0**-40)
            return KNorm.for_privacy(epsilon, bound, shape, **more)
        if math.isinf(privacy.epsilon):
            return Gaussian(0.0, bound, shape, **more)
        sigma = gaussian_sigma(privacy.epsilon, privacy.delta) / math.sqrt(part)
        return Gaussian.calibrated(sigma, bound, shape, **more)

    @cached_property
    def mechanism(self) -> Gaussian | KNorm:
        """K-norm noise for δ = 0, else Gaussian noise."""
        part = 1.0 if self.second_sensitivity is None else 1.0 - self.share
        return self._noise(part, self.sensitivity, (math.comb(self.size + 2, 3),))

    @cached_property
    def second(self) -> Gaussian | KNorm | None:
        """The noise of the second moment, where there is one."""
        if self.second_sensitivity is None:
            return None
        shape = (math.comb(self.size + 1, 2),)
        return self._noise(self.share, self.second_sensitivity, shape)

    def edge(self) -> float:
        """Return where the spectrum of the second moment's noise ends."""
        assert self.second is not None
        return noise_edge(math.sqrt(float(np.mean(self.second.variance()))), self.size)

    def _steps(self) -> tuple[Step, ...]:
        found = []
        for name, mechanism in (("second", self.second), ("tensor", self.mechanism)):
            if mechanism is not None:
                reply = ArraySpec(mechanism.shape, exponent=mechanism.grid.exponent)
                found.append(Step(name, mechanism, replies={"coordinates": reply}))
        return tuple(found)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The stated sensitivity."""
        unit = self.privacy.unit
        said: tuple[str, ...] = (f"one {unit} moves the tensor by at most {self.sensitivity:g}",)
        if self.second_sensitivity is not None:
            bound = self.second_sensitivity
            said += (f"one {unit} moves the second moment by at most {bound:g}",)
        if self.pure and self.largest is not None:
            said += (f"the second moment's norm is at most {self.largest:g}",)
        return said

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> TensorHolder:
        """Return the holder of a tensor."""
        return TensorHolder(self, name, [data], gate)

    def coordinate(self, start: Start) -> Coordinating:
        """Ask for the second moment, where there is one, and for the tensor."""
        second = None
        if self.second is not None:
            second = (yield Ask("second")).total["coordinates"]
        found = yield Ask("tensor")
        return second, found.total["coordinates"]

    def worst_case(self) -> Neighbours:
        """Tensors whose difference has the stated norm."""
        tensor = np.zeros((self.size,) * 3)
        for k in range(self.size):
            tensor[k, k, k] = (self.size - k) * self.sensitivity
        other = tensor.copy()
        other[0, 0, 0] -= self.sensitivity
        if self.second_sensitivity is None:
            return Neighbours(tensor, other)
        matrix = np.diag(np.arange(self.size, 0, -1.0)) * self.second_sensitivity
        lower = matrix.copy()
        lower[0, 0] -= self.second_sensitivity
        return Neighbours((tensor, matrix), (other, lower))

    @classmethod
    def examples(cls) -> Iterator[TensorAgreement]:
        """Either noise, both relations, two units."""
        for unit in ("row", "user"):
            for neighbours in (ADD_REMOVE, REPLACE):
                for delta in (0.0, 1e-6):
                    privacy = Privacy(1.0, delta, unit, neighbours)
                    yield cls(2, 0.5, privacy)
                    if unit == "row":
                        yield cls(2, 0.5, privacy, 1, 0.3, 0.4, 9.0)


class TensorHolder(Holder):
    """The one holder of a tensor."""

    agreement: TensorAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: Any, picks: Picks
    ) -> GridSum:
        """Return the coordinates of the symmetric part; what is not finite counts as zero."""
        size = self.agreement.size
        assert isinstance(step.mechanism, GridMechanism)
        grid = step.mechanism.grid
        tensor, matrix = shard if isinstance(shard, tuple) else (shard, None)
        if step.name == "second":
            square = _bounded(matrix)
            square = square / 2.0 + square.T / 2.0
            i, j = np.triu_indices(size)
            most = _MOST * float(self.agreement.second_sensitivity or 0.0)
            found = square[i, j] * np.where(i == j, 1.0, ROOT)
            return GridSum(grid.round(np.clip(found, -most, most)), grid)
        clean = symmetrise(_bounded(tensor))
        a, b, c = triples(size).T
        most = _MOST * self.agreement.sensitivity
        found = clean[a, b, c] * entry_weights(size)
        return GridSum(grid.round(np.clip(found, -most, most)), grid)

    def contributions(self, shard: Any) -> int:
        """Return 1: the mean of all units is given, whose norm the caller bounds."""
        return 1


def _bounded(entries: Any) -> Array:
    found = np.nan_to_num(np.asarray(entries, np.float64), posinf=0.0, neginf=0.0)
    return np.asarray(np.clip(found, -_FAR, _FAR))
