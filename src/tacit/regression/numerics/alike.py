"""Which sites' summaries may be added up: where that loses next to nothing about the coefficients.

**What a sum keeps.** z_j = S_jβ + N(0, σ²S_j) holds at every site with its own S_j, and so for
sums: Σẑ_j = (ΣS_j)β + noise, ΣŜ_j = ΣS_j + noise, whatever the S_j are and however they differ.
The posterior given a sum is a posterior: calibrated, of one site instead of J. What it loses is
the weight that each site could have had. Given the S_j, with M_j = σ²S_j + t_j·I the noise of ẑ_j,

    precision of β, apart:   ΣS_jM_j⁻¹S_j,
    precision of β, summed:  (ΣS_j)(ΣM_j)⁻¹(ΣS_j),

the second never larger (the matrix form of Cauchy and Schwarz), and equal if and only if all
S_jM_j⁻¹ are: sites alike in size and features, or noise that hides nothing, or that hides all.

**What is measured.** Both, at estimates: S_j is what the sites say together in proportion to n_j,
and as much of a site's own summary as stands out of noise and chance (as James and Stein shrink).
To τ_z² in t_j comes ½τ_j²·E‖β‖², what the noise on Ŝ_j makes of S_jβ. Sites are added up where in
every direction at least `_KEPT` of the precision is left, prior included: intervals are at most
one per cent wider. Else they are cut in two by what they know, tr S_jM_j⁻¹, and both halves looked
at. Only released numbers are read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from tacit._core.arrays import Array
from tacit.regression.numerics.moments import Moments, Prior, nearest_psd, pooled

__all__ = ["alike_summed"]

Positions = NDArray[np.intp]

_KEPT = 0.98  # of the precision, in every direction


def alike_summed(moments: Sequence[Moments], prior: Prior) -> list[Moments]:
    """Return summaries, those of alike sites added up.

    Where the law of the features is stated (``prior.features``) each site stays, as it says
    something about each.

    >>> site = Moments(100 * np.eye(2), np.ones(2), 300, 9.0, 4.0, 3.0, 4.0)
    >>> large = Moments(9000 * np.eye(2), np.ones(2), 27_000, 900.0, 4.0, 3.0, 4.0)
    >>> [len(alike_summed(sites, Prior())) for sites in ([site] * 5, [site, large, site])]
    [1, 2]
    """
    noisy = [m.gram_sd > 0.0 and m.cross_sd > 0.0 and m.rows >= 1.0 for m in moments]
    if len(moments) == 1 or prior.features is not None or sum(noisy) < 2:
        return list(moments)
    out = [m for m, some in zip(moments, noisy, strict=True) if not some]
    for released in (True, False):  # whether yᵀy is known of a sum is whether it is of all
        some = [
            m
            for m, one in zip(moments, noisy, strict=True)
            if one and (m.square is not None) == released
        ]
        if some:
            known = _Known(some, prior)
            groups = known.groups(np.argsort(known.weights, kind="stable").astype(np.intp))
            out += [pooled([some[k] for k in group]) for group in groups]
    return out


class _Known:
    """What some sites know of the coefficients, at estimates of all that is unknown."""

    def __init__(self, moments: Sequence[Moments], prior: Prior) -> None:
        total = pooled(moments)
        d, n = total.dimension, float(total.rows)
        floor = max(0.5 * total.gram_sd * np.sqrt(d), 1e-10 * abs(np.trace(total.gram)) / d)
        common = nearest_psd(total.gram, floor)
        self.prior, self.rows = prior.precision(d), n
        if prior.sd is None:
            self.prior = np.eye(d)  # it is learned: of the size that coefficients have
        self.variance, reach = _residual(total, common, self.prior, prior)
        self.grams, self.noises = np.empty((len(moments), d, d)), np.empty(len(moments))
        for j, site in enumerate(moments):
            expected = common * (site.rows / n)
            gap = site.gram - expected
            of_noise = 0.5 * d * (d + 1.0) * site.gram_sd**2
            of_rows = (np.trace(expected) ** 2 + np.square(expected).sum()) / site.rows
            # by chance it is larger by one standard deviation, of χ² of d(d + 1)/2
            chance = (of_noise + of_rows) * (1.0 + 2.0 / math.sqrt(d * (d + 1.0)))
            share = max(0.0, 1.0 - chance / max(float(np.square(gap).sum()), 1e-300))
            self.grams[j] = nearest_psd(expected + share * gap, 1e-10 * np.trace(expected) / d)
            self.noises[j] = site.cross_sd**2 + 0.5 * site.gram_sd**2 * reach
        shifted = self.variance * self.grams + self.noises[:, None, None] * np.eye(d)
        solved = np.linalg.solve(shifted, self.grams)
        self.precisions = self.grams @ solved
        self.weights = np.trace(solved, axis1=1, axis2=2)
        self.shares = np.array([m.rows for m in moments]) / n

    def kept(self, group: Positions) -> float:
        """Return the least share of the precision, over directions, that a sum keeps."""
        gram, d = self.grams[group].sum(axis=0), self.grams.shape[1]
        shifted = self.variance * gram + self.noises[group].sum() * np.eye(d)
        prior = self.prior * self.shares[group].sum()
        summed = gram @ np.linalg.solve(shifted, gram)
        apart = self.precisions[group].sum(axis=0)
        pair = summed + prior, apart + prior
        if not np.isfinite(pair).all():
            return 0.0
        return float(eigh(*pair, eigvals_only=True)[0])

    def groups(self, order: Positions) -> list[Positions]:
        """Return which sites are added up, in this order of what they know."""
        if len(order) == 1 or self.kept(order) >= _KEPT:
            return [order]
        half = len(order) // 2
        return [*self.groups(order[:half]), *self.groups(order[half:])]


def _residual(total: Moments, gram: Array, precision: Array, prior: Prior) -> tuple[float, float]:
    """Return about σ², and E‖β‖², from a sum."""
    d, n = total.dimension, max(float(total.rows), 1.0)
    variance = prior.noise_scale / (prior.noise_shape + 1.0)
    if total.square is not None:
        variance = max(total.square / n, variance)
    reach = 0.0
    for _ in range(3):
        shifted = variance * gram + total.cross_sd**2 * np.eye(d)
        solved = np.linalg.solve(shifted, np.column_stack([gram, total.cross]))
        spread = np.linalg.inv(gram @ solved[:, :d] + precision)
        beta = spread @ (gram @ solved[:, d])
        reach = float(beta @ beta + np.trace(spread))
        if total.square is not None:
            left = (total.square + beta @ gram @ beta - 2.0 * beta @ total.cross) / n
            variance = float(np.clip(left, 1e-3 * variance, variance))
    return variance, reach
