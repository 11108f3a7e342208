"""Sites' noisy moments as arrays in one basis, and a place for a chain over them to start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit.regression.numerics.moments import Moments, Prior, nearest_psd, pooled

__all__ = ["Data", "SiteArrays", "Start"]


class Data(NamedTuple):
    """What the sites released, in the sampler's basis, and what is fixed of the prior.

    seen, cross: Ŝ_j, ẑ_j. known: û_j (NaN: none), n_j, noise variances of û_j and n_j.
    noise: τ_j² (0: S_j stays), τ_z². rows, freedoms: n_j, and n_j as degrees of freedom. scale: Λ.
    center: m. axis: where the intercept lies, 0 if it is one of the coefficients. prior: κ, a, b,
    the precision along the axis, and what else a sampler reads of it.
    """

    seen: Any
    cross: Any
    known: Any
    noise: Any
    rows: Any
    freedoms: Any
    scale: Any
    center: Any
    axis: Any
    prior: Any


class Start(NamedTuple):
    """Where a chain starts: the S_j, β and σ²."""

    grams: Array
    coefficients: Array
    variance: float


class SiteArrays:
    """What the sites released, in the basis of the pooled summary: isotropic noise looks the same.

    A sampler may read ``more`` of the prior than κ, a, b and the intercept's. It says whether yᵀy
    is used where it was released (``squares``), and whether every S_j is held at the nearest
    positive semi-definite matrix (``fixed``).
    """

    def __init__(
        self,
        moments: Sequence[Moments],
        prior: Prior,
        *more: float,
        squares: bool,
        fixed: bool = False,
    ) -> None:
        d = moments[0].dimension
        total = pooled(moments)
        # the largest direction first: a Cholesky factor then divides by what is known best
        self.basis = np.asarray(np.linalg.eigh(total.gram)[1][:, ::-1])
        q = self.basis
        seen = np.array([q.T @ m.gram @ q for m in moments])
        cross = np.array([q.T @ m.cross for m in moments])
        rows = np.array([max(float(m.rows), 1.0) for m in moments])
        # a count with noise is one more reason for S_j to differ from n_jΣ
        rows_sd = np.array([m.rows_sd for m in moments])
        freedoms = 1.0 / (1.0 / rows + (rows_sd / rows) ** 2)
        noise = np.array([[0.0 if fixed else m.gram_sd**2, m.cross_sd**2] for m in moments])
        used = [m.square if squares and m.square is not None else np.nan for m in moments]
        square_sd = np.array([m.square_sd for m in moments])
        known = np.column_stack([used, rows, square_sd**2, rows_sd**2])
        size = max(np.trace(total.gram) / d, total.gram_sd, 1e-12) / rows.sum()
        features = np.eye(d) * size if prior.features is None else prior.features
        scale = np.asarray(q.T @ np.asarray(features, float) @ q)
        # a common prior mean m·1 is not a common mean in the new basis
        center = q.T @ np.full(d, prior.mean)
        kappa = d + 1.0 if prior.freedom is None else float(prior.freedom)
        apart = prior.intercept_sd is not None
        axis = q[0].copy() if apart else np.zeros(d)
        own = float(prior.precision(d)[0, 0]) if apart else 0.0
        settings = np.array([kappa, prior.noise_shape, prior.noise_scale, own, *more])
        self.data = Data(seen, cross, known, noise, rows, freedoms, scale, center, axis, settings)
        self.total, self.size, self.prior, self.fixed = total, size, prior, fixed

    def start(self, rng: np.random.Generator) -> Start:
        """Return a place near the pooled summary, elsewhere for each chain."""
        data = self.data
        seen, cross, known, gram_var = data.seen, data.cross, data.known, data.noise[:, 0]
        sites, d = cross.shape
        n = data.rows.sum()
        noise = self.total.gram_sd
        grams = np.empty((sites, d, d))
        smallest = 1e-10 * max(np.trace(seen.sum(axis=0)) / d, 1e-12)
        floor = max(0.5 * noise * np.sqrt(d), smallest)
        common = nearest_psd(seen.sum(axis=0), floor) / n
        for j in range(sites):
            if gram_var[j] == 0.0:
                grams[j] = nearest_psd(seen[j], 0.0 if self.fixed else smallest)
            else:
                # between the site's own summary and what all say, as noise allows, off by noise
                expected = common * data.rows[j]
                tau = np.sqrt(gram_var[j])
                size = 0.1 * np.trace(expected) / d
                own = size**2 / (size**2 + tau**2)
                wobble = rng.standard_normal((d, d))
                wobble = 0.5 * tau * (wobble + wobble.T) / 2.0
                blend = own * (seen[j] + wobble) + (1.0 - own) * expected
                lowest = max(0.1 * tau * np.sqrt(d), smallest)
                grams[j] = nearest_psd(blend, lowest) * np.exp(0.05 * (1 - own) * rng.normal())
        a, b = self.prior.noise_shape, self.prior.noise_scale
        variance = b / (a + 1.0)
        squares = known[:, 0]
        released = not np.isnan(squares).any()
        if released:
            variance = max(0.5 * squares.sum() / n, variance)
        coefficients = self.conditional(grams, variance)[0]
        # two turns of β and its residual: a chain that starts with far too large a σ² may stay
        # there for long, with S to match
        for _ in range(2 if released else 0):
            fitted = sum(
                coefficients @ g @ coefficients - 2.0 * coefficients @ c
                for g, c in zip(grams, cross, strict=True)
            )
            residual = (squares.sum() + float(fitted)) / n
            spread = np.sqrt(np.sum(known[:, 2])) / n
            variance = float(np.clip(residual, max(spread, 1e-4 * variance), variance))
            coefficients = self.conditional(grams, variance)[0]
        return Start(grams, coefficients, variance * np.exp(0.3 * rng.standard_normal()))

    def conditional(self, grams: Array, variance: float) -> tuple[Array, Array]:
        """Return the mean and the precision of β given S_j and σ² (Proposition 3)."""
        data, d = self.data, len(self.data.center)
        smallest = 1e-10 * max(np.trace(data.seen.sum(axis=0)) / d, 1e-12)
        precision = self.basis.T @ self.prior.precision(d) @ self.basis
        linear = precision @ data.center
        for gram, cross, (_, cross_var) in zip(grams, data.cross, data.noise, strict=True):
            solved = np.linalg.solve(
                variance * gram + (cross_var + smallest) * np.eye(d),
                np.column_stack([gram, cross]),
            )
            precision = precision + gram @ solved[:, :d]
            linear = linear + gram @ solved[:, d]
        return np.asarray(np.linalg.solve(precision, linear)), precision
