"""Sums of several sites with noise of their own: how much of each counts.

A site's sum about item j is S_sj = C_sj·q_j + error, with C_sj the weight of its cells. Its error
has a sampling variance of C_sj·v, noise of a public variance σ_s², and C_sj²·τ² where sites differ
in what they think of an item. Of all weighted sums Σ_s a_sj·S_sj the most is told by

    a_sj ∝ 1/(v + σ_s²/C_sj + C_sj·τ²),

the inverse variances of S_sj/C_sj times C_sj. They are scaled so that the largest is one: then the
weighted sums are like sums of one site with fewer cells. τ² is that of DerSimonian & Laird (1986):
the one under which the sites' estimates are as far apart as they were found to be. All of it works
on what was released.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.factorization.arrays import Floats

__all__ = [
    "Pooled",
    "between_sites",
    "pooled",
    "shares_of_gradients",
    "shares_of_sites",
    "sizes_of_sites",
]

_LEAST = 1e-3  # of a weight of cells: an item that a site hardly has


class Pooled(NamedTuple):
    """Weighted sums over sites: of S, of C, and the variance of what is not C·q."""

    sums: Floats
    weights: Floats
    variance: Floats


def pooled(sums: Floats, weights: Floats, noise: Floats, within: Floats | float) -> Pooled:
    """Return sums over sites by item, each site weighted by what it tells.

    Parameters
    ----------
    sums
        S, (sites, items) or (sites, items, columns).
    weights
        C ≥ 0, (sites, items).
    noise
        σ² of each site.
    within
        v, the sampling variance per unit of weight.
    """
    if len(sums) == 1:
        return Pooled(sums[0], weights[0], weights[0] * within + noise[0])
    known = np.maximum(weights, _LEAST)
    table = sums if sums.ndim == 3 else sums[:, :, None]
    spread = between_sites(table, known, known * within + noise[:, None])
    shares = 1.0 / (within + noise[:, None] / known + known * spread)
    shares /= shares.max(axis=0)
    variance = known * within + noise[:, None] + known**2 * spread
    return Pooled(
        np.asarray((shares[:, :, None] * table).sum(axis=0).reshape(sums.shape[1:])),
        np.asarray((shares * weights).sum(axis=0)),
        np.asarray((shares**2 * variance).sum(axis=0)),
    )


def between_sites(sums: Floats, weights: Floats, variance: Floats) -> float:
    """Return τ², how far sites differ in q_j beyond the variance of their sums.

    ``sums`` is (sites, items, columns); ``weights`` and ``variance`` are (sites, items).

    >>> rng = np.random.default_rng(0)
    >>> apart = 3.0 * rng.standard_normal((4, 2000, 1)) + rng.standard_normal((4, 2000, 1))
    >>> ones = np.ones((4, 2000))
    >>> bool(8.0 < between_sites(apart, ones, ones) < 10.0)
    True
    """
    precision = weights**2 / np.maximum(variance, 1e-300)
    whole = precision.sum(axis=0)
    found = sums / weights[:, :, None]
    middle = (precision[:, :, None] * found).sum(axis=0) / whole[:, None]
    apart = (precision[:, :, None] * (found - middle) ** 2).sum() / sums.shape[2]
    free = (len(sums) - 1.0) * sums.shape[1]
    room = (whole - (precision**2).sum(axis=0) / whole).sum()
    return float(max(apart - free, 0.0) / max(room, 1e-300))


def shares_of_sites(noise: Floats, sizes: Floats, within: float) -> Floats:
    """Return a weight for each site, the largest one, where a sum is about all items alike.

    ``noise`` is σ² of its numbers, ``sizes`` how many members a site has, ``within`` the sampling
    variance of a number per member.
    """
    if len(noise) == 1:
        return np.ones(1)
    # without any noise at all, all sites count alike
    variance = np.maximum(within + noise / sizes, 1e-12)
    return np.asarray(variance.min() / variance)


def shares_of_gradients(each: Floats, noise: Floats) -> Floats:
    """Return a weight for each site's gradient, (sites, rows, columns), the largest one.

    They are estimates of one direction that differ between sites, and by noise σ².
    """
    if len(each) == 1:
        return np.ones(1)
    table = each.reshape(len(each), -1, 1)
    ones = np.ones(table.shape[:2])
    spread = between_sites(table, ones, ones * np.maximum(noise, 1e-12)[:, None])
    variance = np.maximum(noise + spread, 1e-12)
    return np.asarray(variance.min() / variance)


def sizes_of_sites(counts: Floats, noise: Floats) -> Floats:
    """Return how many members sites have, from noisy counts: posterior means.

    Beforehand each has what they have on average, give or take as much.
    """
    if len(counts) == 1:
        return np.maximum(counts, 1.0)
    precision = 1.0 / (noise + max(float(np.mean(counts)), 1.0) ** 2)
    middle = max(float((precision * counts).sum() / precision.sum()), 1.0)
    gain = middle**2 / (middle**2 + noise)
    return np.maximum(middle + gain * (counts - middle), 1.0)
