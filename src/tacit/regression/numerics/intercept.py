"""``MCMC-interceptX``: normal features beside a constant (Alparslan 2023, section 5.2.4.2).

With a constant c in front of a row S holds the number of rows and the mean of the features,

    S₀ = [[c²n, c·n·bᵀ], [c·n·b, W + n·b·bᵀ]],   b | μ, Σ ~ N(μ, Σ/n),   W | Σ ~ Wishart(n − 1, Σ),

independent of one another where features are normal: a constant is no normal feature, as which
``MCMC-normalX`` treats it. Σ ~ IW(Λ, κ) and μ ~ N(0, I), on the scale on which features lie in
[−1, 1], are drawn from their conditionals, β as in Proposition 3, σ² by a random walk on its log.
Of every site b, W and, where the count is noisy, n are moved by random walks: W by a symmetric
one, refused where it leaves the cone, and by a Wishart proposal in turn, with its ratio; b alone,
with Σ x·xᵀ held, or all b with μ. The thesis has no sampler for it. The noise on S₀ is the
isotropic one that was added; a site without noise stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from tacit._core.arrays import Array
from tacit.errors import ParameterError
from tacit.regression.numerics.moments import Moments, Prior, nearest_psd
from tacit.regression.numerics.wishart.kernel import GibbsInfo

__all__ = ["InterceptSampler", "InterceptState", "with_constant"]

_WALKS = ("mean", "spread", "shape", "count")  # of every site
_TARGET = 0.3
_MOST = 1e4  # degrees of freedom of a Wishart proposal


class InterceptState(NamedTuple):
    """A chain: n_j, b_j, W_j, then μ, Σ, β and log σ², and the steps that were tuned."""

    counts: Array
    means: Array
    spreads: Array
    center: Array
    features: Array
    coefficients: Array
    scale: float
    tuning: Array
    steps: int


class InterceptSampler:
    """A kernel: β, σ², and what every site's S₀ is made of.

    ``constant`` is c. A prior of its own is that of Λ and κ for the features alone.
    """

    in_step = False  # whether one state holds all chains

    def __init__(self, moments: Sequence[Moments], prior: Prior, constant: float) -> None:
        self.moments, self.constant, self.prior = list(moments), constant, prior
        d = self.moments[0].dimension
        if d < 2:
            raise ParameterError("MCMC-interceptX needs a feature beside the constant")
        self.side = d - 1
        self.precision = prior.precision(d)
        self.linear = self.precision @ np.full(d, prior.mean)
        self.freedom = self.side + 2.0 if prior.freedom is None else float(prior.freedom)
        if prior.features is None:
            rows = sum(max(m.rows, 1.0) for m in self.moments)
            size = sum(float(np.trace(m.gram[1:, 1:])) for m in self.moments) / (self.side * rows)
            self.scatter = np.eye(self.side) * min(max(size, 1e-4), 1.0)
        else:
            self.scatter = np.asarray(prior.features, float)[1:, 1:]

    def init(self, rng: np.random.Generator) -> InterceptState:
        """Start near the summaries, each chain elsewhere."""
        counts, means, spreads = [], [], []
        for site in self.moments:
            n = max(float(site.rows), self.side + 3.0)
            b = np.clip(site.gram[0, 1:] / (self.constant * n), -1.0, 1.0)
            w = site.gram[1:, 1:] - n * np.outer(b, b)
            floor = max(0.5 * site.gram_sd * math.sqrt(self.side), 1e-6 * n)
            spreads.append(nearest_psd(w, floor) * math.exp(0.05 * rng.standard_normal()))
            counts.append(n)
            means.append(b)
        sigma = (np.sum(spreads, axis=0) + self.scatter) / (sum(counts) + self.freedom)
        scale = math.log(self.prior.noise_scale / (self.prior.noise_shape + 1.0))
        state = InterceptState(
            np.array(counts),
            np.array(means),
            np.array(spreads),
            np.mean(means, axis=0),
            sigma,
            np.zeros(self.side + 1),
            scale + 0.3 * float(rng.standard_normal()),
            np.zeros((len(counts) + 1, len(_WALKS))),
            0,
        )
        return state._replace(coefficients=self._coefficients(rng, state))

    def run(
        self,
        rng: np.random.Generator,
        state: InterceptState,
        draws: int,
        *,
        adapt: bool = False,
        thin: int = 1,
    ) -> tuple[InterceptState, GibbsInfo]:
        """Take ``draws``·``thin`` iterations and keep each ``thin``-th."""
        beta, scales = np.empty((draws, self.side + 1)), np.empty((draws, 1))
        state = state._replace(tuning=state.tuning.copy())
        took = np.zeros(len(_WALKS) + 2)
        for step in range(draws * thin):
            gain = 3.0 / (1.0 + state.steps) ** 0.6 if adapt else 0.0
            # what a computer cannot hold is an error, and the caller says what it means
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                state = self._sweep(rng, state, gain, took)
            if (step + 1) % thin == 0:
                beta[step // thin], scales[step // thin, 0] = state.coefficients, state.scale
        names = (*_WALKS, "shift", "noise")
        share = {n: float(x) / max(draws * thin, 1) for n, x in zip(names, took, strict=True)}
        return state, GibbsInfo(beta, scales, share)

    # -- one iteration ---------------------------------------------------------------------

    def _sweep(
        self, rng: np.random.Generator, state: InterceptState, gain: float, took: Array
    ) -> InterceptState:
        counts, means = state.counts.copy(), state.means.copy()
        spreads, tuning = state.spreads.copy(), state.tuning
        factor = np.asarray(np.linalg.cholesky(state.features), np.float64)
        for j, site in enumerate(self.moments):
            if site.gram_sd == 0.0:
                continue
            current = self._site(j, counts[j], means[j], spreads[j], state, factor)
            for k, walk in enumerate(_WALKS):
                if walk == "count" and site.rows_sd == 0.0:
                    continue
                n, b, w, ratio = self._proposed(
                    rng, walk, site, counts[j], means[j], spreads[j], math.exp(tuning[j, k])
                )
                value = self._site(j, n, b, w, state, factor)
                taken = math.log(rng.random()) < value - current + ratio
                if taken:
                    counts[j], means[j], spreads[j], current = n, b, w, value
                tuning[j, k] += gain * (taken - _TARGET)
                took[k] += taken / len(self.moments)
        state = state._replace(counts=counts, means=means, spreads=spreads, steps=state.steps + 1)
        state = self._features(rng, self._shifted(rng, state, factor, gain, took))
        state = state._replace(coefficients=self._coefficients(rng, state))
        moved = state.scale + 0.5 * math.exp(tuning[-1, 0]) * float(rng.standard_normal())
        taken = math.log(rng.random()) < self._scaled(state, moved) - self._scaled(
            state, state.scale
        )
        tuning[-1, 0] += gain * (taken - _TARGET)
        took[-1] += taken
        return state._replace(scale=moved) if taken else state

    def _shifted(
        self,
        rng: np.random.Generator,
        state: InterceptState,
        factor: Array,
        gain: float,
        took: Array,
    ) -> InterceptState:
        """Move μ and every b with it: where noise hides b, each alone would follow the other."""
        reach = max(m.gram_sd / (self.constant * max(m.rows, 1.0)) for m in self.moments)
        if reach == 0.0 or any(m.gram_sd == 0.0 for m in self.moments):
            return state
        step = math.exp(state.tuning[-1, 1]) * min(reach, 1.0)
        shift = step * rng.standard_normal(self.side)
        moved = state._replace(means=state.means + shift, center=state.center + shift)

        def total(one: InterceptState) -> float:
            parts = zip(one.counts, one.means, one.spreads, strict=True)
            sites = [self._site(j, *part, one, factor) for j, part in enumerate(parts)]
            return sum(sites) - 0.5 * float(one.center @ one.center)

        taken = math.log(rng.random()) < total(moved) - total(state)
        state.tuning[-1, 1] += gain * (taken - _TARGET)
        took[-2] += taken
        return moved if taken else state

    def _proposed(
        self,
        rng: np.random.Generator,
        walk: str,
        site: Moments,
        n: float,
        b: Array,
        w: Array,
        step: float,
    ) -> tuple[float, Array, Array, float]:
        """Return a site's proposal, and the log ratio of proposing back and forth."""
        side = self.side
        if walk == "mean":
            sd = min(step * site.gram_sd / (self.constant * n), 1.0)
            moved = b + sd * rng.standard_normal(side)
            if rng.random() < 0.5:  # with Σ x·xᵀ = W + n·b·bᵀ as it is: a shear, of determinant 1
                return n, moved, w + n * (np.outer(b, b) - np.outer(moved, moved)), 0.0
            return n, moved, w, 0.0
        if walk == "count":
            return n + step * site.rows_sd * float(rng.standard_normal()), b, w, 0.0
        if walk == "spread":
            turn = rng.standard_normal((side, side))
            return n, b, w + step * site.gram_sd * (turn + turn.T) / (2.0 * side), 0.0
        freedom = side + 1.0 + min(50.0 / step**2, _MOST)
        lower = np.tril(rng.standard_normal((side, side)), -1)
        lower[np.diag_indices(side)] = np.sqrt(rng.chisquare(freedom - np.arange(side)))
        root = np.linalg.cholesky(w) @ lower / math.sqrt(freedom)
        drawn = root @ root.T
        # q(W | W')/q(W' | W): |W'|/|W| to the freedom − (side + 1)/2, and the traces
        dets = 2.0 * float(np.log(np.diag(root)).sum()) - _log_det(w)
        traces = np.trace(np.linalg.solve(w, drawn)) - np.trace(np.linalg.solve(drawn, w))
        ratio = (0.5 * (side + 1.0) - freedom) * dets + 0.5 * freedom * float(traces)
        return n, b, drawn, ratio

    def _whole(self, n: float, b: Array, w: Array) -> Array:
        """Return S₀."""
        return with_constant(self.constant, n, b, w)

    def _site(
        self, j: int, n: float, b: Array, w: Array, state: InterceptState, factor: Array
    ) -> float:
        """Return all terms of a site's n, b and W; −∞ outside."""
        side, site = self.side, self.moments[j]
        if n <= side + 1.0:
            return -math.inf
        try:
            root = np.linalg.cholesky(w)
        except np.linalg.LinAlgError:
            return -math.inf
        whole = self._whole(n, b, w)
        gap = (site.gram - whole) / site.gram_sd
        value = -0.5 * float(np.square(gap).sum())
        value += self._cross(site, whole, state.coefficients, math.exp(state.scale))
        # N(b; μ, Σ/n) and Wishart(W; n − 1, Σ), with all that depends on n, b or W
        away = solve_triangular(factor, b - state.center, lower=True)
        value += 0.5 * side * math.log(n) - 0.5 * n * float(away @ away)
        own, common = (2.0 * float(np.log(np.diag(one)).sum()) for one in (root, factor))
        inner = solve_triangular(factor, root, lower=True)
        value += 0.5 * (n - side - 2.0) * own - 0.5 * float(np.square(inner).sum())
        value -= 0.5 * (n - 1.0) * (common + side * math.log(2.0))
        return value - sum(math.lgamma(0.5 * (n - 1.0 - i)) for i in range(side))

    def _cross(self, site: Moments, whole: Array, beta: Array, variance: float) -> float:
        """Return log N(ẑ; S₀β, σ²S₀ + τ_z²I)."""
        covariance = variance * whole
        covariance[np.diag_indices(len(beta))] += site.cross_sd**2
        try:
            root = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return -math.inf
        white = solve_triangular(root, site.cross - whole @ beta, lower=True)
        return -float(np.log(np.diag(root)).sum()) - 0.5 * float(white @ white)

    def _features(self, rng: np.random.Generator, state: InterceptState) -> InterceptState:
        """Draw Σ given all b and W and μ, and then μ."""
        gaps = state.means - state.center
        scatter = self.scatter + state.spreads.sum(axis=0) + (gaps.T * state.counts) @ gaps
        freedom = self.freedom + float(state.counts.sum())
        lower = np.tril(rng.standard_normal((self.side, self.side)), -1)
        lower[np.diag_indices(self.side)] = np.sqrt(rng.chisquare(freedom - np.arange(self.side)))
        # Σ⁻¹ = (R⁻ᵀ·L)(R⁻ᵀ·L)ᵀ with RRᵀ the scatter, so Σ = CCᵀ with C = R·L⁻ᵀ
        root = np.linalg.cholesky(scatter)
        half = solve_triangular(lower, root.T, lower=True).T
        sigma = half @ half.T
        inverse = np.linalg.inv(sigma)
        precision = float(state.counts.sum()) * inverse + np.eye(self.side)
        mean = np.asarray(np.linalg.solve(precision, inverse @ (state.counts @ state.means)))
        drawn = _drawn(rng, mean, np.asarray(precision, np.float64))
        return state._replace(features=0.5 * (sigma + sigma.T), center=drawn)

    def _coefficients(self, rng: np.random.Generator, state: InterceptState) -> Array:
        """Draw β given every S₀ (Proposition 3)."""
        precision, linear = self.precision.copy(), self.linear.copy()
        variance, smallest = math.exp(state.scale), 1e-12
        for site, n, b, w in zip(
            self.moments, state.counts, state.means, state.spreads, strict=True
        ):
            whole = site.gram if site.gram_sd == 0.0 else self._whole(n, b, w)
            noise = site.cross_sd**2 + smallest * float(np.trace(whole))
            root = np.linalg.cholesky(variance * whole + noise * np.eye(len(whole)))
            precision += whole @ cho_solve((root, True), whole)
            linear += whole @ cho_solve((root, True), site.cross)
        return _drawn(rng, np.linalg.solve(precision, linear), precision)

    def _scaled(self, state: InterceptState, scale: float) -> float:
        """Return all terms of log σ²."""
        value = -self.prior.noise_shape * scale - self.prior.noise_scale / math.exp(scale)
        for site, n, b, w in zip(
            self.moments, state.counts, state.means, state.spreads, strict=True
        ):
            whole = site.gram if site.gram_sd == 0.0 else self._whole(n, b, w)
            value += self._cross(site, whole, state.coefficients, math.exp(scale))
        return value


def with_constant(constant: float, n: float, b: Array, w: Array) -> Array:
    """Return S₀ of so many rows with a constant in front, of their mean and their scatter.

    >>> with_constant(0.5, 4.0, np.array([1.0]), np.array([[2.0]])).tolist()
    [[1.0, 2.0], [2.0, 6.0]]
    """
    whole = np.empty((len(b) + 1, len(b) + 1))
    whole[0, 0] = constant**2 * n
    whole[0, 1:] = whole[1:, 0] = constant * n * b
    whole[1:, 1:] = w + n * np.outer(b, b)
    return whole


def _log_det(matrix: Array) -> float:
    return 2.0 * float(np.log(np.diag(np.linalg.cholesky(matrix))).sum())


def _drawn(rng: np.random.Generator, mean: Array, precision: Array) -> Array:
    """Return a draw of a normal law with this mean and precision."""
    root = np.linalg.cholesky(0.5 * (precision + precision.T))
    white = rng.standard_normal(len(mean))
    return np.asarray(mean + solve_triangular(root, white, lower=True, trans="T"))
