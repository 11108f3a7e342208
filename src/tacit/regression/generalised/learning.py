"""The coordinator: from noisy products of rows to a frame, and from rounds to a posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.rng import generator
from tacit.estimators.agreement import Ask, Coordinating
from tacit.regression.generalised.agreement import LARGEST, GeneralisedAgreement
from tacit.regression.generalised.gradients import DISPERSION, LENGTH, direction, unit
from tacit.regression.generalised.numerics.filtered import Filtered
from tacit.regression.generalised.numerics.frame import Frame, Noisy
from tacit.regression.generalised.numerics.hypotheses import SOME, Hypotheses, count_for
from tacit.regression.generalised.numerics.links import Link
from tacit.regression.generalised.numerics.rounds import SCALES, SHAPES, Round, Rounds
from tacit.regression.generalised.numerics.spreads import drawn_grams
from tacit.regression.generalised.numerics.wide import Wide
from tacit.regression.numerics.moments import Moments

__all__ = ["Learned", "learn"]

_OFFSET_SD = 1.5  # of log-odds and log-rates in the middle of the rows
_RESIDUALS = 3.0  # standard deviations of responses to which residuals of counts are clipped
_LEAST_SPREAD = 0.5  # least variance of log(1 + y): a bound that is too wide costs noise alone
_SURE = 0.05  # noise of a mean square residual up to which the bound of residuals follows it
_LOG_SPREAD = 1.0  # largest variance of log(1 + y) that is believed
_DOUBT = 0.4  # of the logarithm of a mean that rests on a log-normal law
_LEAST = 1e-4  # of the largest response, for a mean that noise hides


@dataclass(frozen=True)
class Learned:
    """What is known of the coefficients of features mapped to [−1, 1]: a mixture of normal laws.

    Attributes
    ----------
    place
        The coefficients whose predictions err least, in the frame.
    weights, means, covariances
        Of the laws, in the frame; covariances are matrices, or variances where directions are
        independent.
    back
        The matrix from the frame to coefficients of (1, x).
    dispersion
        By how much the variance of counts exceeds their mean.
    """

    place: Array
    weights: Array
    means: Array
    covariances: Array
    back: Array
    dispersion: float

    @property
    def mean(self) -> Array:
        """The coefficients whose predictions err least."""
        return np.asarray(self.back @ self.place)

    def draws(self, count: int, seed: int | None) -> Array:
        """Return draws of the posterior, from each law as many as its weight says."""
        rng = generator(seed, "generalised")
        edges = np.rint(np.cumsum(self.weights) * count).astype(int)
        found, done = [], 0
        for end, mean, covariance in zip(edges, self.means, self.covariances, strict=True):
            if end > done:
                normal = rng.standard_normal((end - done, len(mean)))
                if covariance.ndim == 1:
                    normal *= np.sqrt(covariance)
                else:
                    normal = normal @ np.linalg.cholesky(covariance).T
                found.append(mean + normal)
                done = end
        return np.asarray(rng.permutation(np.concatenate(found)) @ self.back.T)


class _Start(NamedTuple):
    """What the first release says: a frame, and where rounds begin."""

    frame: Frame
    offset: float
    residual: float
    means: tuple[float, float] = (0.0, math.inf)


@dataclass
class _Mean:
    """The mean of noisy numbers, each by how sure it is."""

    whole: float = 0.0
    weight: float = 0.0

    def add(self, number: float, variance: float) -> None:
        """Take in a number; exact ones count alike."""
        own = 1.0 / variance if variance else 1.0
        self.whole, self.weight = self.whole + own * number, self.weight + own

    @property
    def value(self) -> float:
        """The mean."""
        return self.whole / self.weight

    @property
    def sd(self) -> float:
        """Its standard deviation; as if one, of exact numbers."""
        return 1.0 / math.sqrt(self.weight)


def learn(public: GeneralisedAgreement) -> Coordinating:
    """Ask for what a posterior needs."""
    link = Link(public.link, public.top)
    found = yield Ask("moments")
    sd = math.sqrt(public.moments_noise.variance() * len(found.sites))
    sd = sd if public.moments_noise.scale else 0.0
    moments = public.design.unpack(found.total["sum"], sd, None)
    stated = float(found.total["rows"][0]) if public.design.knows_rows else public.rows
    begin = _begin(public, moments, link, stated, math.sqrt(len(found.sites)))
    if not public.asked:
        alone = Rounds(link, begin.frame, begin.offset, _OFFSET_SD, begin.means)
        _at_once(public, moments, alone, begin)
        return _learned(alone, begin.frame)
    frame, size, residual = begin.frame, public.size, begin.residual
    rounds = _believed(public, moments, link, begin, stated)
    lengths, spreads, place = _Mean(), _Mean(), rounds.place
    for number, noise in enumerate(public.rounds_noise):
        scale = unit(noise.grid, size, public.link)
        asks: dict[str, Any] = {
            "frame": np.clip(frame.matrix / frame.clip, -LARGEST, LARGEST),
            "coefficients": np.clip(place * frame.clip, -LARGEST, LARGEST),
        }
        if public.link == "poisson":
            asks["residual"] = np.array([residual])
        found = yield Ask(f"gradient {number + 1}", **asks)
        variance = noise.variance() * len(found.sites) / scale**2 if noise.scale else 0.0
        told, unit_length = found.total["sum"] / scale, frame.clip * residual
        square = frame.clip**2 / LENGTH
        lengths.add(told[size] * square, variance * square**2)
        rounds.take(
            Round(
                place,
                direction(place),
                told[:size] * unit_length,
                variance * unit_length**2,
                lengths.value,
                lengths.sd if variance else 0.0,
                float(told[size + 1]) * square,
                math.sqrt(variance) * square,
            )
        )
        if public.link == "poisson":
            part = float(told[size + 2]) / DISPERSION  # Σ ρ²
            error = math.sqrt(variance) / DISPERSION
            if 2 * number >= public.asked:
                # the last rounds are asked next to the mode: Σ (y − μ)² = φ·Σ μ
                spreads.add(part * residual**2, (error * residual**2) ** 2)
            residual = _followed(residual, part, error, rounds.rows, public.top)
        place = rounds.place
    if public.link == "poisson":
        rounds.settle(max(1.0, spreads.value / rounds.total_mean(place)))
    return _learned(rounds, frame)


def _believed(
    public: GeneralisedAgreement,
    moments: Moments,
    link: Link,
    begin: _Start,
    stated: float | None,
) -> Wide | Filtered | Hypotheses:
    """Return what is believed before any round, with as many hypotheses as coefficients allow."""
    frame, size = begin.frame, public.size
    if public.wide:
        return Wide(link, frame, begin.offset, _OFFSET_SD, public.asked)
    if moments.gram_sd and size > SOME:
        return Filtered(link, frame, begin.offset, _OFFSET_SD, begin.means, stated=stated)
    count = count_for(size) if moments.gram_sd else len(SCALES[link.name]) * len(SHAPES)
    rng = generator(0, "spreads")
    drawn = drawn_grams(moments.gram, moments.gram_sd, frame.rows, count, rng)
    back = frame.matrix.copy()
    back[:, 0] /= public.design.constant
    return Hypotheses(link, frame, back @ drawn @ back.T, begin.offset, _OFFSET_SD, stated)


def _followed(residual: float, squares: float, error: float, rows: float, top: float) -> float:
    """Return the bound of the next residuals: three times their root mean square, by steps of two.

    Parameters
    ----------
    residual
        The bound R of the last ones.
    squares, error
        Σ ρ² of residuals over R, and the standard deviation of noise on it.
    rows
        About how many rows there are.
    top
        The largest response.
    """
    if error > _SURE * rows:
        return residual
    wanted = _RESIDUALS * residual * math.sqrt(max(squares / rows, 1e-12))
    return float(np.clip(np.clip(wanted, residual / 2.0, residual * 2.0), 1e-3 * top, top))


def _begin(
    public: GeneralisedAgreement,
    moments: Moments,
    link: Link,
    stated: float | None,
    sites: float,
) -> _Start:
    """Return the frame that moments give, and where rounds begin in it."""
    # what a multiple of the sensitivity is worth in lengths of one row
    noise = public.multiplier * sites * public.reach
    noise /= math.sqrt(public.shares)
    noisy = Noisy(moments.gram, moments.gram_sd, public.design.constant)
    frame = Frame.of_many(noisy, stated) if public.wide else Frame.of(noisy, noise, stated)
    if public.link == "logistic":
        return _Start(frame, 0.0, 1.0)
    return _counts(public, moments, frame, link)


def _counts(public: GeneralisedAgreement, moments: Moments, frame: Frame, link: Link) -> _Start:
    """Return where rounds of counts begin: at their mean, as noisy moments say.

    With rounds the response of the first release is t = log(1 + y)/log(1 + top), whose noise is a
    part of a mean of any size; y of a log-normal law then has the mean exp(E + V/2) − 1.
    """
    constant, half = public.design.constant, public.design.half[-1]
    # of rows as they were scaled, so that the count is theirs too
    rows = max(float(moments.gram[0, 0]) / constant**2, 5.0)
    first = float(np.clip(moments.cross[0] / constant / rows, 0.0, 1.0)) * half
    square = 0.0 if moments.square is None else float(moments.square) * half**2 / rows
    if not public.asked:
        mean, spread, error = first, max(square - first**2, 0.0), 0.0
    else:
        variance = min(max(square - first**2, _LEAST_SPREAD), _LOG_SPREAD)
        mean = math.exp(first + variance / 2.0) - 1.0
        spread = mean**2 * (math.exp(variance) - 1.0)
        error = moments.cross_sd * math.sqrt(0.5) / constant / rows * half
    mean = float(np.clip(mean, _LEAST * link.top, (1.0 - _LEAST) * link.top))
    residual = float(np.clip(_RESIDUALS * math.sqrt(mean + spread), 1e-3 * link.top, link.top))
    far = math.exp(min(_DOUBT + 3.0 * error, 5.0))
    return _Start(frame, link.inverse(mean), residual, (mean / far, mean * far))


def _at_once(
    public: GeneralisedAgreement, moments: Moments, rounds: Rounds, begin: _Start
) -> None:
    """Solve for coefficients by Σ z·y alone."""
    design, frame = public.design, begin.frame
    rows = frame.matrix.copy()
    rows[:, 0] /= design.constant
    half, middle = design.half[-1], design.middle[-1]
    # y = middle + half·t, and Σ a·t and Σ a have noise of their own, each of variance sd²/2
    responses = rows @ (half * moments.cross + middle / design.constant * moments.gram[:, 0])
    variance = moments.gram_sd**2 / 2.0 * (half**2 + (middle / design.constant) ** 2)
    rounds.solve(responses * frame.kept, variance * rows @ rows.T * frame.kept**2)


def _learned(rounds: Rounds | Filtered | Hypotheses | Wide, frame: Frame) -> Learned:
    """Return the posterior."""
    back, place = frame.matrix.T, rounds.place
    if isinstance(rounds, Wide):
        back, place = back @ rounds.turn, rounds.turn.T @ place
    return Learned(place, rounds.weights, *rounds.laws, back, rounds.dispersion)
