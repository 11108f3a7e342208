"""Fisher information of a release about θ: how much a noisy statistic can tell.

| release | method |
|---|---|
| additive, Gaussian noise | closed form of a normal law (Malagò & Pistone 2015), any dimension |
| additive, Laplace noise; each person's own answer | quadrature over one number y |
| order statistic | quadrature over y, of the likelihoods of `orders` |
| additive, non-Gaussian noise | Monte Carlo, thesis Algorithm 6 |
| any statistic, exact marginal | Monte Carlo, Algorithm 7 |
| each person's own answer | Monte Carlo, Algorithm 8 |

Where the number of people is private, it is one more parameter, of which the noisy count tells as
well. What is left about θ is F_θθ − F_θn·F_nn⁻¹·F_nθ. Of an order statistic, n decides how far a
draw may lie from where θ has it and hardly where: F_θn counts as 0.

Monte Carlo stands in `tacit.posterior.numerics.information_simulated`; its values come with their
standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError
from tacit.posterior.numerics.information_simulated import importance, simulated
from tacit.posterior.numerics.likelihood import marginal, moments, moments_and_slopes
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic, normal_laplace
from tacit.posterior.numerics.orders.information import order_information
from tacit.posterior.numerics.populations.base import Population, slopes
from tacit.posterior.numerics.statistics import Additive

__all__ = ["Information", "information", "normal_information"]

METHODS = ("auto", "closed", "quadrature", "monte-carlo", "exact")
_OUTER, _INNER = 1000, 400  # values of y; particles for each, in two halves
_BLOCK = 2_000_000  # numbers held at once


@dataclass(frozen=True)
class Information:
    """F(θ), (p, p), with standard errors (0 where nothing is simulated) and the method."""

    matrix: Array
    error: Array
    method: str

    @property
    def value(self) -> float:
        """F of a single parameter."""
        return float(self.matrix[0, 0])

    @property
    def variance(self) -> float:
        """The trace of F⁻¹, which the posterior variance approaches; ∞ if F is singular."""
        levels = np.linalg.eigvalsh(self.matrix)
        return float(np.sum(1.0 / levels)) if levels[0] > 0.0 else float("inf")


def information(
    release: NoisyStatistic,
    population: Population,
    theta: Any,
    method: str = "auto",
    *,
    rng: np.random.Generator | None = None,
    outer: int = _OUTER,
    inner: int = _INNER,
) -> Information:
    """Return the Fisher information of a planned release at θ.

    Parameters
    ----------
    release
        What would be released; its values are not used.
    population, theta
        The law of the data.
    method
        ``"closed"``, ``"quadrature"``, ``"monte-carlo"`` (Algorithms 6 and 8), ``"exact"``
        (Algorithm 7), or ``"auto"``: the first of these that applies.
    rng, outer, inner
        For Monte Carlo: a generator, values of y, and particles for each.

    Examples
    --------
    >>> from tacit.posterior.numerics.populations.laws import NormalVariance
    >>> from tacit.posterior.numerics.noisy_statistic import NoiseLaw
    >>> from tacit.posterior.numerics.statistics import Power
    >>> plan = NoisyStatistic.planned(Power(2.0), (-50, 50), 100, NoiseLaw("gaussian", 1e-6))
    >>> round(information(plan, NormalVariance(), [2.0]).value, 3)  # n/(2θ²) and a half more
    13.0
    """
    check("method", method, OneOf(*METHODS))
    check("outer", outer, Integer(2))
    check("inner", inner, Integer(4))
    theta = np.atleast_1d(np.asarray(theta, np.float64))
    population.check_theta(theta)
    one_number = len(release.values) == 1 or release.local
    normal = release.additive and not release.local
    if method == "auto":
        if normal and release.noise.kind == "gaussian":
            method = "closed"
        else:
            method = "quadrature" if one_number else "monte-carlo"
    if release.count is not None and method in ("monte-carlo", "exact"):
        raise ParameterError("Monte Carlo is for a public number of people: pass method='auto'")
    if method == "closed":
        if not (normal and release.noise.kind == "gaussian"):
            raise ParameterError("the closed form is for additive statistics with Gaussian noise")
        return normal_information(release, population, theta)
    if method == "quadrature":
        if not one_number:
            raise ParameterError("quadrature is for one number, not for a vector")
        if not release.additive:
            return Information(*order_information(release, population, theta), method)
        value = (
            _local(release, population, theta)
            if release.local
            else _normal_laplace(release, population, theta)
        )
        return Information(value, np.zeros_like(value), method)
    if release.noise.kind == "exponential":
        raise ParameterError(
            "Monte Carlo is for noise that is added: pass method='quadrature' for a draw of the "
            "exponential mechanism"
        )
    if rng is None:
        raise ParameterError("Monte Carlo needs rng: pass a generator")
    estimate = simulated if method == "exact" or not normal else importance
    return Information(*estimate(release, population, theta, rng, outer, inner), method)


def normal_information(
    release: NoisyStatistic, population: Population, theta: Array
) -> Information:
    """Return ∂μᵀH⁻¹∂μ + ½·tr(H⁻¹∂H·H⁻¹∂H) with H = Σ/n + σ²I."""
    assert isinstance(release.statistic, Additive)
    mean, cov, mean_slopes, cov_slopes = moments_and_slopes(
        population, release.statistic, release.bounds, theta
    )
    total = cov / release.size + release.noise.scale**2 * np.eye(len(mean))
    inverse = np.linalg.inv(total)
    if release.count is not None:  # t/N has n(μ − m)/N and nΣ/N², which grow with n
        mean_slopes = np.vstack([mean_slopes, (mean - release.middle) / release.size])
        cov_slopes = np.concatenate([cov_slopes, cov[None] / release.size])
    turned = inverse @ (cov_slopes / release.size)  # (p, k, k)
    value = mean_slopes @ inverse @ mean_slopes.T
    value = value + 0.5 * np.einsum("iab,jba->ij", turned, turned)
    if release.count is not None:
        value = _without_number(value, release.count.information)
    return Information(value, np.zeros_like(value), "closed")


def _without_number(whole: Array, counted: float) -> Array:
    """Return what is left about θ where n, the last parameter, is told by a count alone."""
    across = whole[:-1, -1]
    return np.asarray(whole[:-1, :-1] - np.outer(across, across) / (whole[-1, -1] + counted))


# --- quadrature --------------------------------------------------------------------------------


def _pieces(edges: Array, nodes: int) -> tuple[Array, Array]:
    """Return Gauss–Legendre nodes and weights on consecutive pieces."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    edges = np.unique(edges)
    width = np.diff(edges)[:, None]
    return (np.ravel(edges[:-1, None] + width * (t + 1.0) / 2.0), np.ravel(width * w / 2.0))


def _from_densities(
    log_density: Any, scales: Sequence[str], theta: Array, weights: Array
) -> Array:
    """Return ∫ (∂p)(∂p)ᵀ/p dy from log densities at nodes, differentiated in θ."""
    centre = np.exp(log_density(theta))
    stacked = np.array(slopes(lambda at: np.exp(log_density(at)), theta, scales))
    inverse = np.where(centre > 1e-290, 1.0 / np.maximum(centre, 1e-290), 0.0)
    return np.asarray((stacked * weights * inverse) @ stacked.T)


def _normal_laplace(release: NoisyStatistic, population: Population, theta: Array) -> Array:
    """Integrate over y with S_n normal."""
    statistic = release.statistic
    assert isinstance(statistic, Additive)
    mean, cov = moments(population, statistic, release.bounds, theta)
    sd, scale = float(np.sqrt(cov[0, 0] / release.size)), release.noise.scale
    steps = np.array([0.5, 1, 2, 3, 4.5, 6, 9]) * sd
    tails = 9.0 * sd + np.array([0.25, 0.5, 1, 2, 4, 8, 16, 32, 45]) * scale
    reach = np.concatenate([steps, tails])
    y, weights = _pieces(mean[0] + np.concatenate([-reach, [0.0], reach]), 24)

    def log_density(at: Array) -> Array:
        moved = moments(population, statistic, release.bounds, at)
        return np.asarray(marginal(release, *moved)(y[:, None]))

    if (count := release.count) is None:
        return _from_densities(log_density, population.scales, theta, weights)

    def of_people(at: Array) -> Array:
        """Return the same with n people, the last parameter, as a share of the nearest number."""
        moved, moved_cov = moments(population, statistic, release.bounds, at[:-1])
        drift, people = moved - release.middle, float(at[-1])
        spread = math.sqrt(people * float(moved_cov[0, 0]) / release.size)
        gap = y - release.middle[0] - people * drift[0]
        return normal_laplace(gap, spread, release.noise.scale)

    whole = _from_densities(
        of_people, (*population.scales, "positive"), np.append(theta, 1.0), weights
    )
    return _without_number(whole, count.information * release.size**2)


def _local(release: NoisyStatistic, population: Population, theta: Array) -> Array:
    """Integrate over one person's answer, and count n of them."""
    statistic = release.statistic
    assert isinstance(statistic, Additive)
    low, high = (float(end[0]) for end in statistic.range(release.bounds))
    scale = release.noise.scale
    if release.noise.kind == "response":
        y, weights = np.array([0.0, 1.0]), np.ones(2)
    else:
        pieces = int(np.clip((high - low) / scale, 16, 400))
        tail = np.array([0.5, 1, 2, 4, 8, 16, 32, 45]) * scale
        inner = np.linspace(low, high, pieces + 1)
        atoms = statistic.values(
            population.nodes(theta, statistic.within(release.bounds))[0], release.bounds
        )[:, 0]
        if len(atoms) <= 256:  # a discrete law: Laplace noise has a corner at each value
            inner = np.concatenate([inner, atoms])
        y, weights = _pieces(np.concatenate([low - tail, inner, high + tail]), 12)

    def log_density(at: Array) -> Array:
        x, mass = population.nodes(at, statistic.within(release.bounds))
        s = statistic.values(x, release.bounds)[:, 0]
        out = np.empty(len(y))
        chunk = max(1, _BLOCK // len(s))
        for start in range(0, len(y), chunk):
            part = slice(start, start + chunk)
            terms = release.noise.log_density(y[part, None] - s)
            with np.errstate(divide="ignore"):
                out[part] = np.log(np.exp(terms) @ mass)
        return out

    return release.size * _from_densities(log_density, population.scales, theta, weights)
