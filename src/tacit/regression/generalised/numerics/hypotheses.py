"""What noisy gradients say about the coefficients where it is not known how rows spread.

**Why hypotheses.** A released gradient g_t at coefficients θ_t is G(θ_t) − T + noise with
T = Σ w·z·y, which is the same in all rounds, and G(θ) = Σ w·z·μ(θ·z). Given the true θ, T is about
N(G(θ), J) with J = φ·Σ w²·μ′·z·zᵀ. So rounds tell of θ as far as G is known, and G is known as far
as the sums A = Σ z·zᵀ are: where noise hides how far rows spread in a direction, the same gradient
may mean a small coefficient or a large one. One estimate of A, as good as it may be, gives
intervals that are much too short there. So a few dozen hypotheses stand side by side, each with a
draw of A given what was released (`…numerics.spreads`), a scale of the coefficients and a shape of
their prior; each is weighted by the evidence of what was released.

**Given a hypothesis** rows are taken for normal with its mean and covariance, which gives G by
Stein's identity and an average over η alone (`…numerics.links`). Rows are not normal, so every
coordinate of G(θ_t) − G(θ) is multiplied by an a_j ~ N(1, κ²), and each round has an error of its
own that grows with how far θ_t is from θ. With weights W = 1/variance of a round, its means over
rounds ḡ, Ḡ and differences from them:

- the differences do not hold θ, and give a_j, by a regression of one coefficient;
- the means say ḡ − a·(Ḡ − G(θ)) ~ N(0, J + 1/ΣW + var(a)·(Ḡ − G(θ))²), and with the prior θ's mode
  by Gauss and Newton, its covariance and the evidence by Laplace.

How long rows are, and how much of that is along θ_t, every round releases too; it is evidence
between hypotheses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.rng import generator
from tacit.regression.generalised.numerics.frame import LEAST_ROWS, STATED_ERROR, Frame
from tacit.regression.generalised.numerics.links import Link
from tacit.regression.generalised.numerics.rounds import SCALES, SHAPES, Round

__all__ = ["SOME", "Hypotheses", "count_for"]

SOME = 20  # coefficients up to which draws of how rows spread say enough

WRONG = 0.3  # κ, the share by which differences of gradients may be wrong, in all rounds alike
_OWN = 0.2  # by which each round's may be wrong, of how far it is
_LENGTHS = 0.1  # by which lengths of rows may be wrong, which are not those of normal ones
_EFFECTIVE = 16.0  # hypotheses that count at least
_ALIKE = 10.0  # rounds
_STRETCHES = 0.3, 3.0  # of a
_TURNS = 6  # of Gauss and Newton
_DRAWN = 200  # normal rows from which weights are averaged
_LEAST = 0.02  # of a row's spread, for the scale of a prior
_MOST, _LEAST_COUNT, _FULL = 96, 16, 20  # hypotheses, and coefficients up to which there are most


def count_for(size: int) -> int:
    """Return how many hypotheses are compared, for so many coefficients.

    >>> count_for(5), count_for(60)
    (96, 16)
    """
    found = int(_MOST * min(1.0, _FULL / size) ** 2)
    return max(_LEAST_COUNT, found // 8 * 8)


class _Fit(NamedTuple):
    """What rounds say of θ, given every hypothesis, around one θ of each.

    Attributes
    ----------
    pull, curvature
        The slope of minus the log posterior, and that of it.
    slope
        Of G.
    evidence
        The log density of what was released given a prior, but for constants (Laplace).
    """

    pull: Array
    curvature: Array
    slope: Array
    evidence: Array


@dataclass
class Hypotheses:
    """Posteriors of the coefficients, one given each hypothesis.

    Parameters
    ----------
    link, frame
        The model.
    grams
        Draws of Σ z·zᵀ in the frame, (hypotheses, p, p), the constant first.
    offset, offset_sd
        The prior of the intercept: of the predictor of a row in the middle.
    stated
        About how many rows there are, where that is public.
    """

    link: Link
    frame: Frame
    grams: Array
    offset: float
    offset_sd: float
    stated: float | None = None
    dispersion: float = 1.0
    means: Array = field(init=False)
    covariances: Array = field(init=False)
    _seen: list[Round] = field(default_factory=list, init=False, repr=False)
    _evidence: Array = field(init=False, repr=False)
    _likely: Array = field(init=False, repr=False)
    _long: Array = field(init=False, repr=False)
    _along: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        grams = self.grams
        count, size, _ = grams.shape
        self._rows = np.maximum(grams[:, 0, 0], LEAST_ROWS)
        self._middle = np.clip(grams[:, 0, 1:] / self._rows[:, None], -2.0, 2.0)
        outer = self._middle[:, :, None] * self._middle[:, None, :]
        self._spread = grams[:, 1:, 1:] / self._rows[:, None, None] - outer
        self._weigh()
        diagonal = np.maximum(np.diagonal(self._spread, axis1=1, axis2=2), 0.0)
        beliefs = list(product(SCALES[self.link.name], SHAPES))
        self._prior = np.empty((count, size))
        self._likely = np.zeros(count)
        for k in range(count):
            (scale, likely), shape = beliefs[k % len(beliefs)]
            wide = self.frame.widths[1:] ** shape
            spread = np.maximum(diagonal[k], _LEAST * diagonal[k].max(initial=1e-12))
            self._prior[k, 1:] = wide * scale**2 / max(float(wide @ spread), 1e-300)
            self._likely[k] = math.log(likely)
        self._prior[:, 0] = self.offset_sd**2
        if self.stated is not None:
            self._likely -= 0.5 * ((self._rows / self.stated - 1.0) / STATED_ERROR) ** 2
        self.means = np.zeros((count, size))
        self.means[:, 0] = self.offset
        self.covariances = self._prior[:, :, None] * np.eye(size)
        self._evidence = np.zeros(count)
        self._long, self._along = np.zeros(count), np.zeros(count)

    def _weigh(self) -> None:
        """Average the weights of normal rows: of the constant, of squares, and twice of both."""
        count, size, _ = self.grams.shape
        drawn = generator(0, "hypotheses").standard_normal((_DRAWN, size - 1))
        values, vectors = np.linalg.eigh(self._spread)
        root = vectors * np.sqrt(np.clip(values, 0.0, None))[:, None, :]
        slopes = drawn @ root.transpose(0, 2, 1) + self._middle[:, None, :]
        squares = np.sum(np.square(slopes), axis=2)
        weights = np.minimum(1.0, self.frame.clip / np.sqrt(1.0 + squares))
        whole = np.maximum(squares.sum(axis=1), 1e-300)
        self._kept = np.ones((count, size))
        self._kept[:, 0] = weights.mean(axis=1)
        self._kept[:, 1:] = (np.sum(weights * squares, axis=1) / whole)[:, None]
        total = np.sum(weights * (1.0 + squares), axis=1)
        twice = np.sum(np.square(weights) * (1.0 + squares), axis=1)
        self._twice = twice / total
        self._lengths = self._rows * np.mean(np.square(weights) * (1.0 + squares), axis=1)
        self._squared = np.sum(np.square(weights) * squares, axis=1) / whole

    # -- the model -------------------------------------------------------------------------

    def _curves(self, theta: Array) -> tuple[Array, ...]:
        """Return averages over η: mean, slope, slope·t, slope·t²; and the covariance with t."""
        along = np.einsum("kij,kj->ki", self._spread, theta[:, 1:])
        spread = np.sqrt(np.maximum(np.sum(along * theta[:, 1:], axis=1), 1e-12))
        offset = theta[:, 0] + np.sum(self._middle * theta[:, 1:], axis=1)
        found = self.link.averages(offset, spread)
        return (*found, along / spread[:, None], spread)

    def gradient(self, theta: Array) -> Array:
        """Return G(θ) of every hypothesis, at one θ of each, (hypotheses, p)."""
        mean, slope, _, _, along, spread = self._curves(theta)
        found = np.empty_like(theta)
        found[:, 0] = mean
        found[:, 1:] = self._middle * mean[:, None] + (slope * spread)[:, None] * along
        return np.asarray(self._rows[:, None] * self._kept * found)

    def slope(self, theta: Array) -> Array:
        """Return the slope of G, (hypotheses, p, p)."""
        _, slope, slope_t, slope_tt, along, _ = self._curves(theta)
        middle, cross = self._middle, slope_t[:, None] * along
        found = np.empty(self.grams.shape)
        found[:, 0, 0] = slope
        found[:, 0, 1:] = found[:, 1:, 0] = slope[:, None] * middle + cross
        both = middle[:, :, None] * cross[:, None, :]
        outer = along[:, :, None] * along[:, None, :]
        found[:, 1:, 1:] = (
            slope[:, None, None] * (self._spread + middle[:, :, None] * middle[:, None, :])
            + both
            + both.transpose(0, 2, 1)
            + (slope_tt - slope)[:, None, None] * outer
        )
        kept = np.sqrt(self._kept)
        return np.asarray(self._rows[:, None, None] * found * kept[:, :, None] * kept[:, None, :])

    # -- learning --------------------------------------------------------------------------

    @property
    def weights(self) -> Array:
        """How likely every hypothesis is.

        Where so few are left that they would be too sure of themselves, evidence counts less.
        """
        logs = self._likely + self._long + self._along + self._evidence
        least, most = 0.0, 1.0
        found = _shares(logs)
        if 1.0 / float(found @ found) >= min(_EFFECTIVE, len(logs) / 4.0):
            return found
        for _ in range(20):
            middle = (least + most) / 2.0
            found = _shares(middle * logs)
            enough = 1.0 / float(found @ found) >= min(_EFFECTIVE, len(logs) / 4.0)
            least, most = (middle, most) if enough else (least, middle)
        return _shares(least * logs)

    @property
    def place(self) -> Array:
        """Where the next round is asked: the coefficients whose predictors err least.

        That is the least of Σ weight·(θ − mean)ᵀ·A·(θ − mean) over hypotheses: what one of them
        takes for a direction in which rows hardly differ has large coefficients of little worth.
        """
        weighted = (self.weights / self._rows)[:, None, None] * self.grams
        ridge = np.diag(np.maximum(np.diag(weighted.sum(axis=0)), 1e-12)) * 1e-9
        right = np.einsum("kij,kj->i", weighted, self.means)
        return np.asarray(np.linalg.solve(weighted.sum(axis=0) + ridge, right))

    @property
    def laws(self) -> tuple[Array, Array]:
        """The means and covariances of the posterior given each hypothesis."""
        return self.means, self.covariances

    @property
    def rows(self) -> float:
        """About how many rows there are."""
        return float(self.weights @ self._rows)

    def total_mean(self, theta: Array) -> float:
        """Return the expected Σ of mean responses."""
        mean = self._curves(np.broadcast_to(theta, self.means.shape))[0]
        return float(self.weights @ (self._rows * mean))

    def take(self, told: Round) -> None:
        """Take in everything that a round said."""
        self._seen.append(told)
        # how long rows are is known from all rounds: in place of what was known before
        error = np.hypot(told.length_sd, _LENGTHS * self._lengths)
        self._long = -0.5 * ((told.length - self._lengths) / error) ** 2 - np.log(error)
        if np.any(told.direction):
            d = told.direction[1:]
            own = np.einsum("kij,i,j->k", self._spread, d, d) + np.square(self._middle @ d)
            own *= self._rows * self._squared
            # rounds near each other are wrong alike: together they say no more than one
            error = np.hypot(told.along_sd, _LENGTHS * math.sqrt(_ALIKE) * np.maximum(own, 1e-9))
            self._along -= 0.5 * ((told.along - own) / error) ** 2 + np.log(error)
        self._solve()

    def settle(self, dispersion: float) -> None:
        """Take in by how much the variance of responses exceeds that of the link."""
        self.dispersion = dispersion
        self._solve()

    def _solve(self) -> None:
        """Find the mode, its covariance and the evidence, given every hypothesis."""
        count, size = self.means.shape
        theirs = [np.broadcast_to(told.theta, (count, size)) for told in self._seen]
        there = np.stack([self.gradient(theta) for theta in theirs], axis=1)
        theta = self.means
        for _ in range(_TURNS):
            fit = self._fit(theta, there)
            step = np.linalg.solve(fit.curvature, fit.pull[:, :, None])[:, :, 0]
            # a step that moves rows by more than one of log-odds leaves where slopes hold
            reach = np.einsum("ki,kij,kj->k", step, fit.slope, step)
            most = np.trace(fit.slope, axis1=1, axis2=2)
            shorter = np.sqrt(most / np.maximum(reach, 1e-300))
            theta = theta - step * np.minimum(1.0, shorter)[:, None]
        fit = self._fit(theta, there)
        found = np.linalg.inv(fit.curvature)
        self.means, self.covariances = theta, (found + found.transpose(0, 2, 1)) / 2.0
        self._evidence = fit.evidence

    def _fit(self, theta: Array, there: Array) -> _Fit:
        """Return what rounds say around θ, where G is known at the places of rounds."""
        size = theta.shape[1]
        gradients = np.array([told.gradient for told in self._seen])
        places = np.array([told.theta for told in self._seen])
        noise = np.array([told.noise for told in self._seen])[None, :, None]
        slope, here = self.slope(theta), self.gradient(theta)
        diagonal = np.diagonal(slope, axis1=1, axis2=2)
        moved = there - here[:, None, :]
        far = np.maximum(np.sum((places - theta[:, None, :]) * moved, axis=2), 0.0)
        sampled = (self.dispersion * self._twice)[:, None, None] * slope
        own = _OWN**2 * far[:, :, None] * diagonal[:, None, :] / size
        # exact gradients too leave what rounding does
        weight = 1.0 / (noise + own + 1e-9 * (1.0 + self._rows[:, None, None]))
        total = weight.sum(axis=1)
        known = np.sum(weight * there, axis=1) / total
        seen = np.sum(weight * gradients, axis=1) / total
        # differences between rounds tell how far G is wrong
        apart, told = there - known[:, None, :], gradients - seen[:, None, :]
        precision = 1.0 / WRONG**2 + np.sum(weight * apart**2, axis=1)
        surprise = np.sum(weight * apart * (told - apart), axis=1)
        stretch = np.clip(1.0 + surprise / precision, *_STRETCHES)
        # their mean tells of θ
        distance = known - here
        rest = seen - stretch * distance
        noisy = (1.0 + 3.0 * WRONG**2) / total + distance**2 / precision
        spread = (1.0 + WRONG**2) * sampled + noisy[:, :, None] * np.eye(size)
        moving = stretch[:, :, None] * slope
        solved = np.linalg.solve(spread, np.concatenate([moving, rest[:, :, None]], axis=2))
        inner = moving.transpose(0, 2, 1) @ solved
        begin = np.zeros(size)
        begin[0] = self.offset
        curvature = inner[:, :, :size] + np.eye(size) / self._prior[:, :, None]
        curvature = (curvature + curvature.transpose(0, 2, 1)) / 2.0
        pull = (theta - begin) / self._prior + inner[:, :, size]
        whole = np.einsum("ki,ki->k", rest, solved[:, :, size])
        whole += np.linalg.slogdet(spread)[1] + np.linalg.slogdet(curvature)[1]
        whole += np.sum(np.square(theta - begin) / self._prior + np.log(self._prior), axis=1)
        left = np.sum(weight * (told - apart) ** 2, axis=1) - surprise**2 / precision
        left += np.log(precision) + np.log(total) - np.sum(np.log(weight), axis=1)
        return _Fit(pull, curvature, slope, -0.5 * (whole + left.sum(axis=1)))


def _shares(logs: Array) -> Array:
    likely = np.exp(logs - logs.max())
    return np.asarray(likely / likely.sum())
