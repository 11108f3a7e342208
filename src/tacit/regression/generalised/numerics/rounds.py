"""What noisy gradients say about the coefficients, as a filter, and one release without rounds.

It is what ``method="one-shot"`` rests on, where the gradient at any place follows from the one sum
that was released. Where gradients are asked for, how rows spread is not taken as known
(`…numerics.hypotheses`, and `…numerics.wide` for many coefficients).

**State.** Let θ be the coefficients in the frame, with the prior N(b, Λ), and θ̂ the mode given the
rows: where G(θ) + Λ⁻¹(θ − b) = 0 for the gradient G of minus the log-likelihood. Given all rows θ
is about N(θ̂, (H + Λ⁻¹)⁻¹), H the slope of G (Laplace). Releases tell of θ̂ alone: with
H₁ = H + Λ⁻¹ a round at θ_t says

    g_t + Λ⁻¹(θ_t − b) = H₁·(θ_t − θ̂) + noise,

a linear observation of θ̂. Before any release θ̂ has the mean b and, by the law of total variance,
the covariance Λ − H₁⁻¹. So Kalman's filter gives N(m, P) for θ̂ given all rounds, each counted by
what it is worth, and the posterior of θ is about **N(m, P + H₁⁻¹)**: the first part is what
privacy leaves open, the second what sampling does.

**The slope** is that of white normal rows, n·E[μ′(η)·z·zᵀ], which needs no further release: along
S·θ it is an average over η alone (`tacit.regression.generalised.numerics.links`). Rows are not
normal, and H may be wrong by a share κ; that adds κ²·H₁(P + (θ_t − m)(θ_t − m)ᵀ)H₁ to the noise of
a round. Far from θ̂ it makes steps cautious, and near θ̂ it vanishes: then rounds are averaged.

**How large coefficients are** is not known before, nor whether what explains a response is rather
in directions in which rows differ much. The filter runs for a few scales and shapes of the prior
at once; rounds are asked at their weighted mean, and the weights are the evidence of what was
released, the same numbers for each of them, times a weak belief in log-odds of about two and
log-rates of about one. Where noise hides everything predictions shrink to the base rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from tacit._core.arrays import Array
from tacit.regression.generalised.numerics.frame import Frame
from tacit.regression.generalised.numerics.links import Link

__all__ = ["Believed", "Round", "Rounds"]

# standard deviations of η over rows that are compared, and how likely each is held to be
SCALES = {
    "logistic": ((0.5, 0.1), (1.0, 0.2), (2.0, 0.5), (4.0, 0.2)),
    "poisson": ((0.25, 0.1), (0.5, 0.2), (1.0, 0.5), (2.0, 0.2)),
}
# by what power of a direction's variance it counts: as much as any other, or as wide as it is
SHAPES = (0.0, 1.0)
_WIDE = 150  # coefficients from which directions are taken for independent
WRONG = 0.6  # κ, the share by which the slope may be wrong
_SOLVES = 12  # of the moments' equation, where there are no rounds


@dataclass
class Believed:
    """What is believed with one scale of the prior.

    Attributes
    ----------
    prior
        The variances Λ.
    mean, covariance
        Of the mode θ̂.
    evidence
        The log density of what was released.
    """

    prior: Array
    mean: Array
    covariance: Array
    evidence: float = 0.0


class Round(NamedTuple):
    """What a round said.

    Attributes
    ----------
    theta, direction
        Where it was asked, and the direction of slopes there: of length one, or zero.
    gradient, noise
        The gradient there, and the variance of noise on each of its numbers.
    length, length_sd
        Σ weight²·‖z‖², by all rounds so far, and how far it may be off.
    along, along_sd
        The part of it along the direction, by this round.
    """

    theta: Array
    direction: Array
    gradient: Array
    noise: float
    length: float
    length_sd: float
    along: float
    along_sd: float


class _Told(NamedTuple):
    """What a round said: the gradient at a place, and the covariance of its noise."""

    theta: Array
    gradient: Array
    noise: Array


@dataclass
class Rounds:
    """The filter.

    Parameters
    ----------
    link, frame
        The model.
    offset, offset_sd
        The prior of the intercept: of the predictor of a row in the middle.
    means
        What the mean response lies between, as an earlier release says: far from the mode a model
        of counts would have slopes that are much too large.

    Examples
    --------
    >>> rows = Frame(np.eye(2), np.ones(2), np.ones(2), 1000.0, clip=2.0, kept=1.0, kept_twice=1.0)
    >>> rounds = Rounds(Link("logistic", 1.0), rows, 0.0, 3.0)
    >>> truth = np.array([0.5, -1.0])
    >>> for _ in range(8):
    ...     gradient = rounds.gradient(rounds.place) - rounds.gradient(truth)
    ...     rounds.observe(rounds.place, gradient, 9.0)
    >>> rounds.place.round(1).tolist()
    [0.5, -1.0]
    """

    link: Link
    frame: Frame
    offset: float
    offset_sd: float
    means: tuple[float, float] = (0.0, math.inf)
    members: list[Believed] = field(init=False)
    dispersion: float = 1.0

    def __post_init__(self) -> None:
        start = np.zeros(self.frame.size)
        start[0] = self.offset
        self.members = self._believed(self.slope(start))

    @property
    def wide(self) -> bool:
        """Whether directions are taken for independent: covariances are then their variances.

        They are eigenvectors of what rows spread by, so that the slope is diagonal but for its
        part along θ, in which it is smaller: steps are the more cautious.
        """
        return self.frame.size > _WIDE

    def _believed(self, slope: Array) -> list[Believed]:
        """Return what is believed before any round, for every scale and shape of the prior."""
        found = []
        start = np.zeros(self.frame.size)
        start[0] = self.offset
        for (scale, likely), shape in product(SCALES[self.link.name], SHAPES):
            prior = self.frame.widths**shape
            prior *= scale**2 / max(float(prior[1:] @ self.frame.spread[1:]), 1e-300)
            # where there is one direction alone both shapes are one
            prior[0] = self.offset_sd**2
            if self.wide:
                covariance = prior - 1.0 / (slope + 1.0 / prior)
            else:
                covariance = np.diag(prior) - _inverse(slope + np.diag(1.0 / prior))
            found.append(Believed(prior, start, covariance, math.log(likely)))
        return found

    # -- the model -------------------------------------------------------------------------

    def _along(self, theta: Array) -> Array:
        """Return the covariance of rows with their predictor, the constant's part left out."""
        along = self.frame.spread * theta
        along[0] = 0.0
        return np.asarray(along)

    def _curvature(self) -> Array:
        """Return how rows spread, (p, p)."""
        return np.diag(self.frame.spread)

    def _curve(self, theta: Array) -> tuple[Array, float, float]:
        along = self._along(theta)
        spread = math.sqrt(max(float(along @ theta), 1e-12))
        return along / spread, spread, float(theta[0])

    def slope(self, theta: Array) -> Array:
        """Return H, the slope of the gradient, for white normal rows."""
        along, spread, offset = self._curve(theta)
        curve = self.link.curve(offset, spread)
        least, most = self.means
        known = min(max(curve.mean, least), most) / curve.mean
        scale = known * self.frame.rows * self.frame.kept
        if self.wide:
            return np.asarray(scale * curve.slope * self.frame.spread)
        found = curve.slope * self._curvature()
        found += (curve.slope_tt - curve.slope) * np.outer(along, along)
        found[0, 1:] = found[1:, 0] = curve.slope_t * along[1:]
        return np.asarray(scale * found)

    def gradient(self, theta: Array) -> Array:
        """Return the expected Σ z·mean for white normal rows (Stein's identity)."""
        along, spread, offset = self._curve(theta)
        curve = self.link.curve(offset, spread)
        found = curve.slope * spread * along
        found[0] = curve.mean
        return np.asarray(self.frame.rows * self.frame.kept * found)

    # -- learning --------------------------------------------------------------------------

    @property
    def weights(self) -> Array:
        """How likely every scale of the prior is."""
        evidence = np.array([one.evidence for one in self.members])
        likely = np.exp(evidence - evidence.max())
        return np.asarray(likely / likely.sum())

    @property
    def place(self) -> Array:
        """Where the next round is asked."""
        means = np.array([one.mean for one in self.members])
        return np.asarray(self.weights @ means)

    @property
    def laws(self) -> tuple[Array, Array]:
        """The means and covariances of the posterior given each scale."""
        covariances = [self.posterior(one) for one in self.members]
        return np.array([one.mean for one in self.members]), np.array(covariances)

    def observe(self, theta: Array, gradient: Array, noise: float) -> None:
        """Take in the gradient at a place, with noise of this variance on each of its numbers."""
        slope = self.slope(theta)
        each = np.full(len(theta), noise)
        told = _Told(theta, gradient, each if self.wide else np.diag(each))
        for one in self.members:
            self._update(one, told, slope, WRONG)

    def _update(self, one: Believed, told: _Told, slope: Array, wrong: float) -> None:
        """Kalman's update for one scale of the prior."""
        inverse, begin = 1.0 / one.prior, np.zeros(len(one.mean))
        begin[0] = self.offset
        pull = told.gradient + inverse * (told.theta - begin)
        if self.wide:
            each = slope + inverse
            far, share = each * (told.theta - one.mean), each * one.covariance
            one.evidence += _log_density(pull - far, share * each + told.noise)
            doubt = share * each + wrong**2 * (share * each + far**2) + told.noise
            one.mean = one.mean - share / doubt * (pull - far)
            one.covariance = one.covariance - share**2 / doubt
            return
        matrix = slope + np.diag(inverse)
        moved, gain = matrix @ (told.theta - one.mean), matrix @ one.covariance
        expected = gain @ matrix
        one.evidence += _log_density(pull - moved, expected + told.noise)
        total = expected + wrong**2 * (expected + np.outer(moved, moved)) + told.noise
        factor = cho_factor((total + total.T) / 2.0)
        one.mean = one.mean - gain.T @ cho_solve(factor, pull - moved)
        covariance = one.covariance - gain.T @ cho_solve(factor, gain)
        one.covariance = (covariance + covariance.T) / 2.0

    def solve(self, responses: Array, noise: Array) -> None:
        """Take in the noisy sum Σ z·response alone, by the equation that it and the mean solve.

        What rows of another law than the normal would say counts as κ = 0.2 of a slope.
        """
        for k, begin in enumerate(list(self.members)):
            place, found = begin.mean.copy(), begin
            for turn in range(_SOLVES):
                found = replace(begin)
                gradient = self.gradient(place) - responses
                told = _Told(place, gradient, np.diag(noise).copy() if self.wide else noise)
                self._update(found, told, self.slope(place), 0.2)
                place = place + (found.mean - place) * (1.0 if turn < 2 else 0.6)
            self.members[k] = found

    # -- what was learned ------------------------------------------------------------------

    def posterior(self, one: Believed) -> Array:
        """Return the covariance of θ with one scale: P, and what sampling leaves open.

        A slope that is wrong by a share κ in all rounds alike makes of their noise 1 ± κ times
        what it is thought to be, so that P counts 1 + κ² times.

        With weights w on rows and a dispersion φ the gradient at the truth has the covariance
        J = φ·n·E[w²·μ′·z·zᵀ], and its slope is n·E[w·μ′·z·zᵀ]: H₁⁻¹·(J + Λ⁻¹)·H₁⁻¹ instead of
        H₁⁻¹ (the sandwich, with what the prior says).
        """
        slope = self.slope(self.place)
        extra = self.dispersion * self.frame.kept_twice / self.frame.kept
        if self.wide:
            known = slope + 1.0 / one.prior
            left = (extra * slope + 1.0 / one.prior) / known**2
            return np.asarray((1.0 + WRONG**2) * one.covariance + left)
        inverse = _inverse(slope + np.diag(1.0 / one.prior))
        middle = extra * slope + np.diag(1.0 / one.prior)
        return np.asarray((1.0 + WRONG**2) * one.covariance + inverse @ middle @ inverse)


def _log_density(surprise: Array, covariance: Array) -> float:
    """Return the log density of N(0, covariance), or of variances, but for a constant."""
    if covariance.ndim == 1:
        return -0.5 * float(np.sum(np.square(surprise) / covariance + np.log(covariance)))
    factor = cho_factor((covariance + covariance.T) / 2.0)
    halves = float(np.log(np.diag(factor[0])).sum())
    return -0.5 * float(surprise @ cho_solve(factor, surprise)) - halves


def _inverse(matrix: Array) -> Array:
    """Return the inverse of a positive definite matrix."""
    return np.asarray(cho_solve(cho_factor((matrix + matrix.T) / 2.0), np.eye(len(matrix))))
