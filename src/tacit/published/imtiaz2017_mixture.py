"""Mixtures of spherical Gaussians by AGN, AVN and DP-TPM as published, for tables only.

Imtiaz & Sarwate (2017) name mixtures of Gaussians beside topics and print nothing more of them,
"due to page limits". So their algorithm 1 is given the moments of Anandkumar et al. (2014), which
they build on: with x̄ the mean and v the least eigenvalues of the covariance,

    M₂ = E[x⊗x] − v·I        M₃ = E[x⊗x⊗x] − v·(three placements of x̄⊗I)

Noise of the published kinds and calibrations (`tacit.published.imtiaz2017_noise`) goes to the sums
of (½, z)⊗(½, z) and of z⊗z⊗z over samples z that are scaled to within the unit ball; the number
of samples, x̄ and v follow from the former, after its noise, so that what is subtracted costs
nothing. One sample moves the sums by Δ₂ = 5/4 and Δ₃ = 1, or √2·5/4 and 2 where another takes its
place (`tacit.moments.samples.agreement`).

**A step of the noisy power method**: with ‖z‖ ≤ 1 a sample moves Wᵀ·M₃(I, Wu, Wu) by
‖Wᵀz‖·(z·Wu)² ≤ ‖W‖₂·‖Wu‖², and M₃(Wu, Wu, Wu) by |z·Wu|³ ≤ ‖Wu‖³; both are odd in z, so another
sample instead moves them by twice that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, Integer, OneOf
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID
from tacit.estimators.fit import Outcome
from tacit.moments.mixture import GaussianMixture
from tacit.moments.numerics.gaussians import gaussian_moments
from tacit.moments.numerics.samples import SampleMoments
from tacit.moments.numerics.sums import FINE, SHRINK
from tacit.moments.numerics.whitening import as_weights
from tacit.moments.samples.agreement import MixtureAgreement
from tacit.moments.signal import check_delta
from tacit.moments.tensor.agreement import ROOT
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.published.constructor import constructor
from tacit.published.imtiaz2017_noise import (
    METHODS,
    Decomposed,
    NoisyMomentsAgreement,
    Second,
    Sums,
)

__all__ = ["NoisyMixture", "NoisyMixtureAgreement"]


@dataclass(frozen=True)
class NoisyMixtureAgreement(NoisyMomentsAgreement):
    """Squares and cubes of samples with the noise of a method as published.

    Parameters
    ----------
    size, rank, privacy, method, sites, starts, iterations, units
        As in `NoisyMomentsAgreement`.
    ball
        What is certified of the same moments: where samples are scaled to, and who has how many.

    Examples
    --------
    >>> privacy = Privacy(0.5, 1e-5)
    >>> ball = MixtureAgreement(3, 2, privacy, radius=4.0)
    >>> NoisyMixtureAgreement(3, 2, privacy, ball=ball).reaches(np.eye(3)[:, :2], np.array([1, 0]))
    (1.0, 1.0)
    """

    what, along = "rows", "features"
    shrunk = SHRINK

    ball: MixtureAgreement | None = None

    @property
    def certified(self) -> MixtureAgreement:
        """What is certified of the same moments."""
        assert self.ball is not None
        return self.ball

    @property
    def reach(self) -> float:
        """Of (½, z)⊗(½, z) an entry that stands there twice is seen once: √(1/16 + ¼ + 1).

        From z to −z only z/2 changes.
        """
        whole = math.sqrt(1.3125) if self.certified.neighbours == ADD_REMOVE else 1.0 / ROOT
        return whole / 1.25

    def reaches(self, w: Array, u: Array) -> tuple[float, float]:
        """Return how far one unit moves M₃(W, Wu, Wu) and M₃(Wu, Wu, Wu); see the module."""
        rows, length = self.certified.rows_per_unit, float(np.linalg.norm(w @ u))
        return rows * float(np.linalg.norm(w, 2)) * length**2, rows * length**3

    def sums(self, shard: SampleMoments, name: str) -> Sums:
        """Return the unique entries of a moment of samples."""
        if name == "third":
            return Sums(shard.third(np.eye(self.size)), -FINE)
        return Sums(shard.rows(0, self.side)[np.triu_indices(self.side)], shard.exponent)

    def read(self, matrix: Array) -> Second:
        """Return the second moment without the variance, and what else follows from it."""
        found = gaussian_moments(matrix, self.rank)
        moment = matrix[1:, 1:] - found.count * found.variance * np.eye(self.size)
        return Second(moment, found.count, found.total, found.variance)

    @classmethod
    def examples(cls) -> Iterator[NoisyMixtureAgreement]:
        """Every method, both relations; people with several rows."""
        for neighbours in (ADD_REMOVE, REPLACE):
            privacy = Privacy(0.8, 1e-3, "row", neighbours)
            ball = MixtureAgreement(3, 2, privacy, radius=2.0, centre=(0.5,))
            for method in METHODS:
                yield cls(3, 2, privacy, method, starts=2, iterations=2, ball=ball)
            yield cls(3, 2, Privacy(40.0, 0.0, "row", neighbours), "avn", units=60, ball=ball)
            people = Privacy(0.8, 1e-3, "user", neighbours)
            own = MixtureAgreement(3, 2, people, radius=2.0, rows_per_unit=2)
            yield cls(3, 2, people, "dp-tpm", starts=1, iterations=1, ball=own)


class NoisyMixture(GaussianMixture):
    """Spherical Gaussians by AGN, AVN and DP-TPM as published; for tables only.

    Over several sites each adds the published noise to its own moments, and sums are decomposed.

    Parameters
    ----------
    components, columns, radius, centre, features, ledger, random_state
        As in `GaussianMixture`.
    method, restarts, iterations
        As in `tacit.published.NoisyTopics`.
    rows
        How many samples there are, where that is public; AVN with δ = 0 needs it.
    privacy
        What is claimed; the certificate says what the noise really gives.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> means = np.array([[3.0, 0, 1], [0, 3.0, -1]])
    >>> samples = means[rng.integers(0, 2, 20000)] + 0.5 * rng.standard_normal((20000, 3))
    >>> privacy = Privacy(0.9, 1e-5)
    >>> model = NoisyMixture(2, radius=6, privacy=privacy, random_state=0).fit(samples)
    >>> model.certificate_.claimed_epsilon, model.certificate_.epsilon < 0.9
    (0.9, True)
    >>> np.abs(model.means_[np.argsort(-model.means_[:, 0])] - means).max() < 0.5
    np.True_
    """

    _purpose = "a mixture as published"
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **{
            name: GaussianMixture._constraints[name]
            for name in ("components", "radius", "centre", "features")
        },
        "method": OneOf(*METHODS),
        "restarts": AnyOf(Integer(1), None),
        "iterations": AnyOf(Integer(1), None),
        "rows": AnyOf(Integer(1), None),
        **PAID,
    }

    __init__ = constructor(
        GaussianMixture,
        "share",
        "on_failure",
        "variances",
        "covariance",
        method="agn",
        restarts=None,
        iterations=None,
        rows=None,
    )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.privacy is None or math.isinf(self.privacy.epsilon):
            raise ParameterError("a published calibration needs privacy=Privacy(…)")

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        size = self._size([len(fact) if isinstance(fact, tuple) else fact for fact in facts])
        request = self._request(len(facts)) or self.privacy
        assert request is not None
        method, starts, steps = self.method, self.restarts, self.iterations
        stated = size, self.components, request, method, len(facts), starts, steps, self.rows
        described = replace(request, delta=request.delta or 1e-9)
        ball = self._within(facts, size, self.components, described, len(facts), 0.5, 1)
        return NoisyMixtureAgreement(*stated, ball)

    def _read(self, data: Any, agreement: Agreement) -> NDArray[Any]:
        assert isinstance(agreement, NoisyMixtureAgreement)
        return super()._read(data, agreement.certified)

    def _conclude(self, outcome: Outcome) -> None:
        found: Decomposed = outcome.result
        assert isinstance(outcome.agreement, NoisyMixtureAgreement)
        self._scaled_by(outcome.agreement.certified)
        second, white = found.second, found.white
        check_delta(self.privacy, second.count, self._default_unit)
        means, mass = white.heaviest_first(found.values, found.vectors)
        self.eigenvalues_ = white.values
        variances = np.full(len(means), second.variance)
        self._publish(means, as_weights(mass, np.inf), variances, second.count)

    _told = (*GaussianMixture._told, "method")

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "method": self.method}
