"""Simulation of the regression models, written independently of the samplers."""

from __future__ import annotations

import numpy as np

from tacit.regression.numerics.moments import Moments


def symmetric_noise(rng, side, sd):
    """Sym(G): variance sd² on the diagonal and sd²/2 off it."""
    noise = rng.normal(0.0, sd, (side, side))
    return 0.5 * (noise + noise.T)


def released(rng, gram, cross, rows, square, gram_sd, cross_sd, square_sd, rows_sd=0.0):
    """Return moments with fresh noise of the stated sizes."""
    d = len(cross)
    return Moments(
        gram + symmetric_noise(rng, d, gram_sd),
        cross + rng.normal(0.0, cross_sd, d) if cross_sd else cross,
        rows,
        square + rng.normal(0.0, square_sd) if square_sd else square,
        gram_sd, cross_sd, square_sd, rows_sd,
    )  # fmt: skip


def normal_sites(rng, coefficients, features, variance, rows, noise):
    """Return noisy moments of sites with normal features, and the exact ones."""
    root = np.linalg.cholesky(features)
    seen, exact = [], []
    for n in rows:
        x = rng.standard_normal((n, len(coefficients))) @ root.T
        y = x @ coefficients + np.sqrt(variance) * rng.standard_normal(n)
        exact.append(Moments.of(x, y))
        m = exact[-1]
        seen.append(
            released(rng, m.gram, m.cross, n, m.square, noise, noise / np.sqrt(2.0), noise)
        )
    return seen, exact


def scores(reference, copies):
    """Return z-scores of P(X ≤ x) and its square over independent copies.

    reference: (draws, statistics) of the prior. copies: (copies, steps, statistics).
    """
    out = []
    for k in range(reference.shape[1]):
        ordered = np.sort(reference[:, k])
        place = np.searchsorted(ordered, copies[:, :, k]) / len(ordered)
        for value, expected in ((place, 0.5), ((2 * place - 1) ** 2, 1 / 3)):
            mean = value.mean(axis=1)
            error = np.hypot(mean.std(ddof=1) / np.sqrt(len(mean)), 0.3 / np.sqrt(len(ordered)))
            out.append((mean.mean() - expected) / error)
    return np.array(out)


def wishart(rng, scale, freedom):
    """Draw from Wishart(scale, freedom), by Bartlett's decomposition."""
    side = len(scale)
    lower = np.tril(rng.standard_normal((side, side)), -1)
    lower += np.diag(np.sqrt(rng.chisquare(freedom - np.arange(side))))
    root = np.linalg.cholesky(scale) @ lower
    return root @ root.T


def inverse_wishart(rng, scale, freedom):
    return np.linalg.inv(wishart(rng, np.linalg.inv(scale), freedom))
