"""What spectral learning releases, why it is private, and how much noise that takes.

**The release** has two parts, for documents d (or samples) with contributions as in
`tacit.models.moments`:

1. Σ M₂(d) + τ₂·Sym(G), D × D. It is never stored (`tacit.mechanisms.operator`); products with it
   give the basis U of its K leading eigenvectors, which is post-processing.
2. Σ M₃(d)(U, U, U) + τ₃·Sym(G'), K × K × K, for that U, drawn after it.

**Sensitivity.** M₂(d) and M₃(d) of a document have no negative entry and add up to one, so their
Frobenius norms are at most one: one document more or less moves either by at most **Δ = 1** (a
document of one word repeated reaches it). Where no entry is negative, ‖A − B‖² ≤ ‖A‖² + ‖B‖², so
another document instead moves either by at most **Δ = √2**. They are symmetric as they stand, so
nothing is left outside of the subspace that the noise covers. U has orthonormal columns, so
‖(A − B)(U, U, U)‖ ≤ ‖A − B‖: part 2 has the sensitivity of M₃ itself. A sample has
‖(½, z)‖² ≤ 5/4 and ‖z‖ ≤ 1: **Δ₂ = 5/4, Δ₃ = 1** for one more or less. Another instead:
‖aaᵀ − bbᵀ‖² = ‖a‖⁴ + ‖b‖⁴ − 2(aᵀb)², **Δ₂ = √2·5/4**, and ‖z⊗³ − z'⊗³‖² = ‖z‖⁶ + ‖z'‖⁶ − 2(zᵀz')³
≤ 4 (opposite samples reach it), **Δ₃ = 2**. What rounding adds is counted where it is made.

**One Gaussian.** For a U that does not depend on G', Sym(G')(U, U, U) of a D × D × D array G' has
the law of Sym of a K × K × K one, because U's columns are orthonormal. So releasing 1, choosing U
from it and then releasing 2 has the law of a function of the pair (M₂ + τ₂·Sym(G),
M₃ + τ₃·Sym(G')), one Gaussian release with sensitivity √(Δ₂²/τ₂² + Δ₃²/τ₃²) = 1/σ, where σ is the
analytic noise multiplier of (ε, δ). (The composition of two Gaussians, the second chosen after
seeing the first, gives the same.) The order matters: U is fixed before G' is drawn, and part 2 is
drawn once.

**The share rule.** A share ρ of 1/σ² goes to part 1: τ₂ = σ·Δ₂/√ρ, τ₃ = σ·Δ₃/√(1 − ρ). With κ the
K-th eigenvalue of M₂ per document, the relative errors they cause are about τ₂·√D/(N·κ) and
τ₃/(N·κ^(3/2)) (the whitened noise over the whitened signal). They balance for κ ≈ 1/D, topics that
are spread over the vocabulary, part 1 matters more for larger κ. κ is private. With errors a²/ρ +
b²/(1 − ρ) the choice **ρ = ½** has at most twice the least variance whatever a and b are, and no
other choice has that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError
from tacit.mechanisms.grid import Grid, GridSum
from tacit.mechanisms.operator import GaussianShare, OperatorGaussian
from tacit.models.moments import CONSTANT, entry_weights
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import ADD_REMOVE, DpEvent, NonPrivateDpEvent, compose
from tacit.privacy.guarantee import Privacy

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FINE", "Plan", "weighted_sum"]

FINE = -36  # exponent of the lattice of third moments


@dataclass(frozen=True)
class Plan:
    """Everything public about a release.

    Parameters
    ----------
    size
        D: how many words or features there are.
    rank
        K: how many components.
    samples
        Whether samples contribute, instead of documents.
    neighbours
        The neighbour relation.
    share
        ρ, the second moment's share.
    sites
        How many sites share the noise under a secure sum; 1 otherwise.

    Examples
    --------
    >>> plan = Plan(10, 5)
    >>> plan.second_sensitivity, plan.third_sensitivity
    (1.0, 1.0)
    >>> Plan(10, 5, samples=True, neighbours="replace-one").third_sensitivity
    2.0
    """

    size: int
    rank: int
    samples: bool = False
    neighbours: str = ADD_REMOVE
    share: float = 0.5
    sites: int = 1

    @property
    def matrix_size(self) -> int:
        """The side of the second moment: samples have a constant in front."""
        return self.size + self.samples

    @property
    def coordinates(self) -> int:
        """How many numbers the projected third moment has."""
        return math.comb(self.rank + 2, 3)

    @property
    def second_sensitivity(self) -> float:
        """Δ₂ for the stated relation."""
        one = 1.0 + CONSTANT**2 if self.samples else 1.0
        return one if self.neighbours == ADD_REMOVE else math.sqrt(2.0) * one

    @property
    def third_sensitivity(self) -> float:
        """Δ₃ for the stated relation."""
        if self.neighbours == ADD_REMOVE:
            return 1.0
        return 2.0 if self.samples else math.sqrt(2.0)

    def mechanisms(self, privacy: Privacy | None) -> tuple[OperatorGaussian, GaussianShare]:
        """Return the noise of both parts for a request; none at all without one."""
        shapes = (self.matrix_size,) * 2, (self.coordinates,)
        more: dict[str, Any] = {"neighbours": self.neighbours}
        if privacy is None or math.isinf(privacy.epsilon):
            return (
                OperatorGaussian(0.0, self.second_sensitivity, shapes[0], **more),
                GaussianShare(0.0, math.ldexp(self.third_sensitivity, 8), shapes[1], **more),
            )
        if privacy.delta <= 0.0:
            raise ParameterError(
                "privacy.delta must be positive, because whitening needs Gaussian noise: pass "
                "Privacy(…, delta=1e-6)"
            )
        sigma = gaussian_sigma(privacy.epsilon, privacy.delta)
        more["shares"] = self.sites
        return (
            OperatorGaussian.calibrated(
                sigma / math.sqrt(self.share), self.second_sensitivity, shapes[0], **more
            ),
            GaussianShare.calibrated(
                sigma / math.sqrt(1.0 - self.share), self.third_sensitivity, shapes[1], **more
            ),
        )

    def event(self, privacy: Privacy | None) -> DpEvent:
        """Return what both parts cost together."""
        second, third = self.mechanisms(privacy)
        if second.scale == 0.0:
            return NonPrivateDpEvent()
        return compose([second.event, third.event])

    def assumptions(self) -> tuple[str, ...]:
        """Return every public input, for certificates."""
        what = "features" if self.samples else "words of the vocabulary"
        notes: tuple[str, ...] = (f"the {self.size} {what} are public",)
        if not self.samples:
            notes += ("every document has total weight one over all its pairs and triples",)
        return notes


def weighted_sum(entries: NDArray[Any], rank: int, grid: Grid) -> GridSum:
    """Return the entries at a ≤ b ≤ c of a summed third moment as coordinates on a grid.

    Times √(permutations) they are coordinates along an orthonormal basis. Rounding the sum moves
    each by half a step, which the mechanism counts; the error of the product, some 2⁻⁵³ of a sum
    of at most 2²⁶, is far below what `tacit.models.moments.SHRINK` leaves.
    """
    values = np.ldexp(entries.astype(np.float64), FINE) * entry_weights(rank)
    return GridSum(grid.round(values), grid)
