"""Draws of what rows' sums of products may be, given noisy ones.

Released is M = Γ + E with Γ = Σ a·aᵀ and symmetric noise E, of variance s² on the diagonal and
s²/2 elsewhere: its density is that of ‖M − Γ‖²/(2s²), the Frobenius norm. Γ is positive
semi-definite, and that says most about it where noise exceeds what rows spread by.

Let the eigenvectors of M be parted into known ones, whose eigenvalues are far above the noise, and
hidden ones. Where they are known Γ is M less a draw of the noise, and so between the two. What is
left of the hidden part, the Schur complement S = Γ_hh − Γ_hk·Γ_kk⁻¹·Γ_kh, is positive
semi-definite exactly if Γ is: S = L·Lᵀ with a square L of normal numbers of variance τ² each, τ²
of any magnitude that features in [−1, 1] can have. L is drawn by Hamiltonian Monte Carlo, τ² by
Gibbs' sampler, every draw from a chain of its own.
"""

from __future__ import annotations

import math

import numpy as np

from tacit._core.arrays import Array

__all__ = ["drawn_grams"]

_KNOWN = 4.0  # of the level below which noise alone has eigenvalues
_TURNS, _LEAPS = 30, 10
_STEP = 0.6  # of the length at which a leap along the stiffest direction is stable
_MAGNITUDES = np.exp(np.linspace(math.log(1e-3), 0.0, 19))  # of S, relative to the largest one
_USUAL = 1.0 / 3.0  # variance of a feature that is uniform in [−1, 1]


def drawn_grams(
    gram: Array, sd: float, rows: float, count: int, rng: np.random.Generator
) -> Array:
    """Return draws of sums of products, (count, p, p).

    Parameters
    ----------
    gram, sd
        The noisy sums, and the standard deviation of noise on the diagonal.
    rows
        About how many rows there are.
    count
        How many draws.
    rng
        For the draws.

    Examples
    --------
    >>> drawn = drawn_grams(np.diag([90.0, 0.1]), 1.0, 100.0, 50, np.random.default_rng(0))
    >>> bool(np.all(np.linalg.eigvalsh(drawn) > 0.0)), bool(abs(drawn[:, 0, 0].mean() - 90.0) < 1)
    (True, True)
    """
    size = len(gram)
    if sd <= 0.0:
        return np.broadcast_to(gram, (count, size, size)).copy()
    values, vectors = np.linalg.eigh((gram + gram.T) / 2.0)
    hidden = int(np.sum(values <= _KNOWN * sd * math.sqrt(2.0 * size)))
    noise = rng.standard_normal((count, size, size)) * sd
    noise = (noise + noise.transpose(0, 2, 1)) / 2.0
    found = np.diag(values) - noise
    if hidden:
        known = found[:, hidden:, hidden:]
        between = found[:, hidden:, :hidden]
        explained = between.transpose(0, 2, 1) @ np.linalg.solve(known, between)
        explained = (explained + explained.transpose(0, 2, 1)) / 2.0
        rest = (np.diag(values[:hidden]) - explained) / sd
        factors = _factors(rest, _USUAL * rows / sd, rng)
        found[:, :hidden, :hidden] = explained + sd * factors @ factors.transpose(0, 2, 1)
    return np.asarray(vectors @ found @ vectors.T)


def _factors(rest: Array, largest: float, rng: np.random.Generator) -> Array:
    """Return draws of L given N = L·Lᵀ + noise of variance one.

    The log density is −‖N − L·Lᵀ‖²/2 − ‖L‖²/(2τ²), with the gradient 2·(N − L·Lᵀ)·L − L/τ².
    """
    count, size, _ = rest.shape
    values, vectors = np.linalg.eigh(rest)
    level = math.sqrt(2.0 * size)
    begin = np.clip(values, 0.1 * min(level, largest), None)
    place = vectors * np.sqrt(begin)[:, None, :]
    magnitudes = largest * _MAGNITUDES / size
    tau = np.full(count, magnitudes[-1])
    # second derivatives are at most 6·‖L‖² + 2·‖N‖, and N may be far below zero too
    stiff = 6.0 * np.maximum(np.abs(values).max(axis=1), level) + 1.0
    squares = np.sum(np.square(place), axis=(1, 2))

    def slope(at: Array) -> Array:
        left = rest - at @ at.transpose(0, 2, 1)
        return np.asarray(2.0 * left @ at - at / tau[:, None, None])

    def density(at: Array) -> Array:
        left = rest - at @ at.transpose(0, 2, 1)
        whole = np.sum(np.square(left), axis=(1, 2)) + np.sum(np.square(at), axis=(1, 2)) / tau
        return np.asarray(-0.5 * whole)

    for _ in range(_TURNS):
        logs = -0.5 * size**2 * np.log(magnitudes) - 0.5 * squares[:, None] / magnitudes
        chances = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
        picked = np.sum(chances < rng.random((count, 1)) * chances[:, -1:], axis=1)
        place, picked = _scaled(rest, place, picked, rng)
        tau = magnitudes[picked]
        length = _STEP * rng.uniform(0.5, 1.0, count) / np.sqrt(stiff + 1.0 / tau)
        length = length[:, None, None]
        moving = rng.standard_normal(place.shape)
        before = density(place) - 0.5 * np.sum(np.square(moving), axis=(1, 2))
        at, speed = place, moving + 0.5 * length * slope(place)
        for leap in range(_LEAPS):
            at = at + length * speed
            speed = speed + (0.5 if leap == _LEAPS - 1 else 1.0) * length * slope(at)
        after = density(at) - 0.5 * np.sum(np.square(speed), axis=(1, 2))
        took = np.log(rng.random(count)) < after - before
        place = np.where(took[:, None, None], at, place)
        squares = np.sum(np.square(place), axis=(1, 2))
    return np.asarray(place)


def _scaled(
    rest: Array, place: Array, picked: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Scale L and τ together: what is believed of L/τ, and of log τ, does not change by that."""
    squares = place @ place.transpose(0, 2, 1)
    whole = np.sum(np.square(squares), axis=(1, 2))
    along = np.sum(rest * squares, axis=(1, 2))
    steps = math.log(_MAGNITUDES[1] / _MAGNITUDES[0])  # of log τ², from one to the next
    now = np.zeros(len(place), int)
    for far in (1, 2, 4, 8, 1, 2, 4, 8):
        other = now + far * rng.choice([-1, 1], len(place))
        one, two = np.exp(steps * now), np.exp(steps * other)
        gain = (two - one) * along - 0.5 * (two**2 - one**2) * whole
        inside = (picked + other >= 0) & (picked + other < len(_MAGNITUDES))
        now = np.where(inside & (np.log(rng.random(len(place))) < gain), other, now)
    return place * np.exp(0.5 * steps * now)[:, None, None], picked + now
