"""The iterations behind `tacit.regression.numerics.hamiltonian.kernel`, of all chains in step.

Trajectories in two sets of coordinates take turns
(`tacit.regression.numerics.hamiltonian.coordinates`), as each is stiff where the other is not:
*own* ones are good where summaries say more about S_j than the other sites do, *common* ones where
noise hides what is each site's own. For common ones Σ is drawn from IW(A, F) first. The spread h
moves in two ways for the same reason: with the S_j held, and with what makes them differ held in
units of their spread.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import gammaln, multigammaln

from tacit._core.arrays import Array
from tacit.regression.numerics.hamiltonian.coordinates import Density, Law, Target, pack
from tacit.regression.numerics.start import Data

__all__ = ["MOVES", "Chains", "draw_frames", "freedoms", "log_spread", "stretch"]

MOVES = ("own", "common", "spread with S", "spread", "size of Λ", "coefficients")
TARGET, WALK_TARGET = 0.75, 0.44  # acceptance of trajectories, and of walks on log h and log ℓ
FIRST_WINDOW = 50  # iterations of warm-up before scales are first set
SPREAD_SCALE = 0.1  # half-Cauchy scale of √h, the relative difference between sites
SIZE_CENTER, SIZE_SD = math.log(0.01), math.log(100.0)  # normal prior of log ℓ, Λ in units ℓ


def freedoms(rows: Array, spread: Array | None, side: int) -> Array:
    """Return ν_j of every chain: n_j under normal features (no spread), else d + 1/(1/n_j + h)."""
    if spread is None:
        return np.maximum(rows, side + 1.0)
    return np.asarray(side + 1.0 / (1.0 / rows + spread[:, None]))


def stretch(square: Array, old: Array, new: Array) -> tuple[Array, Array]:
    """Map χ² of ``old`` degrees of freedom to about ``new`` ones (Wilson and Hilferty).

    Returns the image, and log of (density · derivative) new over old; NaN where there is none.
    """
    a, b = 2.0 / (9.0 * old), 2.0 / (9.0 * new)
    before = np.cbrt(square / old)
    root = 1.0 - b + (before - 1.0 + a) * np.sqrt(b / a)
    root = np.where(root > 0.0, root, np.nan)
    image = new * root**3
    value = 0.5 * (new - 2.0) * np.log(image) - 0.5 * image - gammaln(0.5 * new)
    value -= 0.5 * (old - 2.0) * np.log(square) - 0.5 * square - gammaln(0.5 * old)
    value -= 0.5 * math.log(2.0) * (new - old)
    # derivatives of image and square in the score: 3·ν·root²·√(2/(9ν))
    value += np.log(new * root**2 * np.sqrt(b)) - np.log(old * before**2 * np.sqrt(a))
    return image, value


def draw_frames(rng: np.random.Generator, factors: Array, freedom: Array) -> Array:
    """Draw C with CCᵀ ~ IW(RRᵀ, F) given each R: C·H = R where HᵀH ~ Wishart(I, F)."""
    d = factors.shape[-1]
    side = np.arange(d)
    half = np.tril(rng.standard_normal(factors.shape), -1)
    shape = 0.5 * (freedom[:, None] - d + 1.0 + side)
    half[:, side, side] = np.sqrt(2.0 * rng.standard_gamma(shape))
    frames = np.linalg.solve(half.transpose(0, 2, 1), factors.transpose(0, 2, 1))
    return np.tril(frames.transpose(0, 2, 1))


def log_spread_prior(spread: Array) -> Array:
    """Return the log density of log √h under a half-Cauchy law of √h."""
    return np.asarray(0.5 * np.log(spread) - np.log(1.0 + spread / SPREAD_SCALE**2))


def log_spread(data: Data, grams: Array, log_dets: Array, sized: Array, spread: Array) -> Array:
    """Return log p(S_1 … S_J | h) with all that depends on h, and its half-Cauchy prior on √h."""
    d = grams.shape[-1]
    freedom = freedoms(data.freedoms, spread, d)
    total = data.prior[0] + freedom.sum(axis=1)
    shares = freedom / data.rows
    nothing = np.empty(0)
    law = Law(freedom, shares, total, nothing, sized, nothing, nothing)
    each = 0.5 * (freedom - d - 1.0) * log_dets + 0.5 * d * freedom * np.log(shares)
    each -= multigammaln(0.5 * freedom, d)
    value = each.sum(axis=1) + multigammaln(0.5 * total, d)
    value -= 0.5 * total * np.linalg.slogdet(law.pooled(grams))[1]
    return np.asarray(value + log_spread_prior(spread))


class Chains:
    """All chains of a run, and the moves that change them.

    A state's arrays are changed in place: see `TiedState`.
    """

    def __init__(self, data: Data, state: Any, kernel: Any) -> None:
        self.data = data
        self.grams, self.beta, self.scales = state.grams, state.coefficients, state.scales
        self.tuning, self.widths, self.running = state.tuning, state.widths, state.running
        self.step, self.window = state.steps, state.window
        count, d = data.cross.shape
        self.free = data.noise[:, 0] > 0.0
        self.factors = np.tile(np.eye(d), (len(self.beta), count, 1, 1))
        self.factors[:, self.free] = np.linalg.cholesky(self.grams[:, self.free])
        self.density = Density(data, self.grams, self.factors, kernel)
        self.spreads, self.variances, self.sizes = (flag > 0.0 for flag in data.prior[4:7])
        self.apart = bool(data.axis.any())
        self.accepts = np.zeros(len(MOVES))

    def iterate(self, rng: np.random.Generator, adapt: bool) -> None:
        """Take one iteration of every chain."""
        gain = 1.0 / (1.0 + self.step - self.window) ** 0.6 if adapt else 0.0
        law = self._law()
        self._own(rng, law, gain, adapt)
        held = self._common(rng, law, gain, adapt) if self.free.any() else None
        self._coefficients(rng, law)
        if self.spreads and held is not None and self.free.all():
            law = self._spread_with_grams(rng, law, *held, gain)
        if self.sizes:
            law = self._size(rng, law, gain)
        if self.spreads:
            self._spread(rng, law, gain)
        if self.variances:
            self._variance(rng)
        self.step += 1
        since = self.step - self.window
        if adapt and since >= max(FIRST_WINDOW, self.window):  # each as long as all before it
            self._set_widths(since * len(self.beta))
            self.window = self.step

    def _law(self) -> Law:
        data, chains = self.data, len(self.beta)
        spread = np.exp(self.scales[:, 1]) if self.spreads else None
        freedom = np.broadcast_to(
            freedoms(data.freedoms, spread, self.beta.shape[1]), (chains, len(data.rows))
        )
        precision = np.exp(-self.scales[:, 2])
        return Law(
            freedom,
            freedom / data.rows,
            data.prior[0] + freedom.sum(axis=1),
            np.full(chains, data.prior[0]),
            np.exp(self.scales[:, 3])[:, None, None] * data.scale,
            precision,
            data.prior[3] - precision if self.apart else np.zeros(chains),
        )

    def _takes(self, rng: np.random.Generator, move: int, ratio: Array) -> Array:
        """Return which chains take a move with this log ratio; one that is no number is none."""
        took = np.log(rng.random(len(ratio))) < ratio
        self.accepts[move] += took.mean()
        return np.asarray(took)

    # --- trajectories --------------------------------------------------------------------------

    def _follow(
        self, rng: np.random.Generator, x: Array, target: Target, gain: float, adapt: bool
    ) -> Array:
        """Follow trajectories, and take what is accepted; return where the chains are then."""
        common = target.bases is not None
        kind, size = int(common), x.shape[1]
        d = self.beta.shape[1]
        widths = self.widths[kind, :size]
        steps = np.exp(self.tuning[:, kind])
        end, chance = self.density.travel(rng, target, x, widths, steps)
        took = rng.random(len(x)) < chance
        self.grams[took] = self.density.grams[took]
        self.factors[took] = self.density.factors[took]
        now = np.where(took[:, None], end, x)
        self.beta[:], self.scales[:, 0] = now[:, -d - 1 : -1], now[:, -1]
        self.accepts[kind] += took.mean()
        self.tuning[:, kind] += gain * (chance - TARGET)
        if adapt:
            # common: given T_j, which change from step to step; displacements do not see that
            if not common:
                self.running[kind, 0, :size] += now.sum(axis=0)
            moved = now - x if common else now
            self.running[kind, 1, :size] += np.square(moved).sum(axis=0)
        return now

    def _own(self, rng: np.random.Generator, law: Law, gain: float, adapt: bool) -> None:
        x = pack(self.factors, self.beta, self.scales[:, 0])
        self._follow(rng, x, self.density.target(law), gain, adapt)

    def _common(
        self, rng: np.random.Generator, law: Law, gain: float, adapt: bool
    ) -> tuple[Array, Array]:
        """Draw Σ = CCᵀ given the S_j, and move all S_j with it; return C and the T_j.

        Exact sites join the prior: κ and ℓΛ.
        """
        root = np.asarray(np.linalg.cholesky(law.pooled(self.grams)), np.float64)
        frames = draw_frames(rng, root, law.total_freedom)
        bases = np.tril(np.linalg.inv(frames)[:, None] @ self.factors)
        bases[:, ~self.free] = 0.0
        whole = law
        if not self.free.all():
            kappa = law.kappa + law.freedom[:, ~self.free].sum(axis=1)
            whole = law._replace(kappa=kappa, sized=law.pooled(self.grams, ~self.free))
        x = pack(frames[:, None], self.beta, self.scales[:, 0])
        return self._follow(rng, x, self.density.target(whole, bases), gain, adapt), bases

    # --- the other moves -----------------------------------------------------------------------

    def _coefficients(self, rng: np.random.Generator, law: Law) -> None:
        """Draw β given the S_j and σ² but for û (Proposition 3), and accept it by û.

        Trajectories alone are slow where the scale of β depends on S.
        """
        data, d = self.data, self.beta.shape[1]
        variance = np.exp(self.scales[:, 0])[:, None]
        noise = data.noise[:, 1]
        shifted = variance[..., None, None] * self.grams
        side = np.arange(d)
        shifted[..., side, side] += noise[:, None]
        try:
            inverse = np.linalg.inv(shifted)
            solved = self.grams @ inverse
            precision = (solved @ self.grams).sum(axis=1)
            precision = 0.5 * (precision + precision.transpose(0, 2, 1))
            precision[:, side, side] += law.precision[:, None]
            precision += law.extra[:, None, None] * np.outer(data.axis, data.axis)
            root = np.linalg.cholesky(precision)
        except np.linalg.LinAlgError:  # a site without noise on ẑ_j and with a singular S_j
            return
        linear = (solved @ data.cross[..., None]).sum(axis=1)[..., 0]
        linear += law.precision[:, None] * data.center
        linear += (law.extra * (data.center @ data.axis))[:, None] * data.axis
        mean = np.linalg.solve(precision, linear[..., None])
        white = rng.standard_normal(mean.shape)
        drawn = (mean + np.linalg.solve(root.transpose(0, 2, 1), white))[..., 0]
        ratio = np.zeros(len(drawn))
        for sign, beta in ((-1.0, self.beta), (1.0, drawn)):
            ratio += sign * self._squares(beta, inverse, variance)
        took = self._takes(rng, 5, ratio)
        self.beta[took] = drawn[took]

    def _squares(self, beta: Array, inverse: Array, variance: Array) -> Array:
        """Return Σ_j log p(û_j | ẑ_j, S_j, β, σ²), as `site_terms` has it."""
        data, noise = self.data, self.data.noise[:, 1]
        fitted = (self.grams @ beta[:, None, :, None])[..., 0]
        w = (inverse @ (data.cross - fitted)[..., None])[..., 0]
        p = (inverse @ beta[:, None, :, None])[..., 0]
        mean = (beta[:, None] * (2.0 * data.cross - fitted - 2.0 * noise[:, None] * w)).sum(axis=2)
        mean += data.known[:, 1] * variance
        spread = 4.0 * variance * noise * np.maximum((p * fitted).sum(axis=2), 0.0)
        spread += variance**2 * (2.0 * data.known[:, 1] + data.known[:, 3]) + data.known[:, 2]
        each = -0.5 * (np.log(spread) + np.square(data.known[:, 0] - mean) / spread)
        return np.asarray(np.where(np.isnan(data.known[:, 0]), 0.0, each).sum(axis=1))

    def _spread_with_grams(
        self, rng: np.random.Generator, law: Law, x: Array, bases: Array, gain: float
    ) -> Law:
        """Move log h with what is each site's own held in units of its spread.

        T_j keeps its place in its law: normals below the diagonal, and χ² on it.
        """
        data, d = self.data, self.beta.shape[1]
        walk = np.exp(self.tuning[:, 2]) * rng.standard_normal(len(x))
        spread, moved = np.exp(self.scales[:, 1]), np.exp(self.scales[:, 1] + walk)
        freedom = freedoms(data.freedoms, moved, d)
        out_of, into = np.sqrt(law.shares)[..., None], np.sqrt(data.rows / freedom)[..., None]
        side = np.arange(d)
        image, terms = stretch(
            np.square(bases[..., side, side] * out_of),
            law.freedom[..., None] - side,
            freedom[..., None] - side,
        )
        turned = bases * (out_of * into)[..., None]
        turned[..., side, side] = np.sqrt(image) * into
        ratio = terms.sum(axis=(1, 2)) + log_spread_prior(moved) - log_spread_prior(spread)
        x = x.copy()
        x[:, -d - 1 : -1] = self.beta
        ratio -= self.density.look(self.density.target(law, bases), x)[0]
        ratio += self.density.look(self.density.target(law, turned), x)[0]
        took = self._takes(rng, 2, ratio)
        self.tuning[:, 2] += gain * (took - WALK_TARGET)
        self.scales[took, 1] += walk[took]
        self.grams[took] = self.density.grams[took]
        self.factors[took] = self.density.factors[took]
        return self._law()

    def _size(self, rng: np.random.Generator, law: Law, gain: float) -> Law:
        """Move log ℓ, the size of Λ: how small the smallest directions of the features may be."""
        data, d = self.data, self.beta.shape[1]
        walk = np.exp(self.tuning[:, 4]) * rng.standard_normal(len(self.beta))
        moved = law._replace(sized=np.exp(walk)[:, None, None] * law.sized)
        both = np.stack([law.pooled(self.grams), moved.pooled(self.grams)])
        before, after = np.linalg.slogdet(both)[1]
        ratio = 0.5 * d * data.prior[0] * walk - 0.5 * law.total_freedom * (after - before)
        old = self.scales[:, 3] - SIZE_CENTER
        ratio -= 0.5 * (np.square(old + walk) - np.square(old)) / SIZE_SD**2
        took = self._takes(rng, 4, ratio)
        self.tuning[:, 4] += gain * (took - WALK_TARGET)
        self.scales[took, 3] += walk[took]
        return law._replace(sized=np.where(took[:, None, None], moved.sized, law.sized))

    def _spread(self, rng: np.random.Generator, law: Law, gain: float) -> None:
        """Move log h with the S_j held."""
        log_dets = np.linalg.slogdet(self.grams)[1]
        walk = np.exp(self.tuning[:, 3]) * rng.standard_normal(len(self.beta))
        ratio = np.zeros(len(walk))
        for sign, step in ((-1.0, 0.0), (1.0, walk)):
            spread = np.exp(self.scales[:, 1] + step)
            ratio += sign * log_spread(self.data, self.grams, log_dets, law.sized, spread)
        took = self._takes(rng, 3, ratio)
        self.tuning[:, 3] += gain * (took - WALK_TARGET)
        self.scales[took, 1] += walk[took]

    def _variance(self, rng: np.random.Generator) -> None:
        """Draw the prior variance of β: IG(2, 0.2), so that β is Student's t with four."""
        gap = self.beta - self.data.center
        norm = np.square(gap).sum(axis=1)
        if self.apart:
            norm = np.maximum(norm - np.square(gap @ self.data.axis), 0.0)
        slopes = gap.shape[1] - int(self.apart)  # coefficients whose variance is learned
        drawn = rng.standard_gamma(2.0 + 0.5 * slopes, len(gap))
        self.scales[:, 2] = np.log(0.2 + 0.5 * norm) - np.log(drawn)

    def _set_widths(self, count: int) -> None:
        """Set the coordinates' scales to what a window of warm-up shows, and start afresh."""
        mean = self.running[:, 0] / count
        square = np.maximum(self.running[:, 1] / count - np.square(mean), 0.0)
        smoothed = np.sqrt((count * square + 5.0 * np.square(self.widths)) / (count + 5.0))
        np.copyto(self.widths, smoothed, where=(square > 0.0) & (self.widths > 0.0))
        self.running[:] = 0.0
