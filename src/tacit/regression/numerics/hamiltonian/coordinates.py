"""The density of ``auto`` in two sets of coordinates, and trajectories of all chains along it.

**Own coordinates**: S_j = L_jL_jᵀ with Σ integrated out. The Wishart law and the Jacobian of
S ↦ (log L_ii, L_ik) leave Π_i L_ii^(ν_j−i), i from 0, times |A|^(−F/2) with
A = ℓΛ + Σ_j (ν_j/n_j)·S_j and F = κ + Σν_j.

**Common coordinates**: Σ = CCᵀ, and L_j = C·T_j with the T_j held: all S_j move as one. The
inverse Wishart law and the Jacobian leave Π_i C_ii^(−κ−i)·exp(−½tr(ℓΛΣ⁻¹)), of slope
Σ⁻¹·ℓΛ·C⁻ᵀ in C. Sites whose S_j is exact stay, and join the prior of Σ: ℓΛ gains (ν_j/n_j)·S_j, κ
gains ν_j.

A position of a chain is the L_j or C with logs on the diagonal, then β, then log σ². What lies
above a diagonal has no width, and so never moves. Chains go in step: all of them take a leap at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit.regression.numerics.start import Data

__all__ = ["Density", "Law", "Target", "pack"]

LENGTH, MOST_STEPS = 1.6, 20  # time of a trajectory in units of the tuned scales; leapfrog steps
_FARTHEST = 300.0  # logarithms beyond are cut: e³⁰⁰ squared is still a number


class Law(NamedTuple):
    """What a trajectory holds of every chain: ν_j, ν_j/n_j, F, κ, ℓΛ, the precision of β.

    That of an intercept differs by ``extra``: C⁻¹ = precision·I + extra·q·qᵀ along its axis q.
    """

    freedom: Array
    shares: Array
    total_freedom: Array
    kappa: Array
    sized: Array
    precision: Array
    extra: Array

    def pooled(self, grams: Array, sites: Any = slice(None)) -> Array:
        """Return ℓΛ + Σ_j (ν_j/n_j)·S_j of these sites."""
        chains, _, d, _ = grams.shape
        flat = grams[:, sites].reshape(chains, -1, d * d)
        return np.asarray(
            self.sized + (self.shares[:, None, sites] @ flat).reshape(chains, d, d), np.float64
        )


def pack(factors: Array, coefficients: Array, scale: Array) -> Array:
    """Return positions, (chains, numbers), of L_j or C, (chains, blocks, d, d), β and log σ².

    >>> pack(np.eye(2)[None, None], np.ones((1, 2)), np.zeros(1)).tolist()
    [[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]]
    """
    blocks = factors.copy()
    side = np.arange(factors.shape[-1])
    blocks[..., side, side] = np.log(factors[..., side, side])
    return np.concatenate([blocks.reshape(len(blocks), -1), coefficients, scale[:, None]], axis=1)


def _inverse(matrices: Array) -> Array:
    """Return inverses; NaN of what has none, so that one chain that is lost stops no other."""
    try:
        return np.asarray(np.linalg.inv(matrices), np.float64)
    except np.linalg.LinAlgError:
        out = np.full_like(matrices, np.nan)
        for k, matrix in enumerate(matrices):
            with suppress(np.linalg.LinAlgError):
                out[k] = np.linalg.inv(matrix)
        return out


class Target(NamedTuple):
    """What trajectories of all chains hold: see `Density.target`."""

    law: Law
    bases: Array | None
    powers: Array
    matrices: Array
    shares: Array


class Density:
    """The log density of every chain and its slope, for chains that start with some S_j and L_j.

    ``kernel`` is `site_slopes`, compiled or not. After a look at positions ``grams`` and
    ``factors`` are theirs; those of exact sites stay as they are.
    """

    def __init__(
        self, data: Data, grams: Array, factors: Array, kernel: Callable[..., Any]
    ) -> None:
        self.data, self.kernel = data, kernel
        self.grams, self.factors = grams.copy(), factors.copy()
        chains, count, d, _ = grams.shape
        self.free = data.noise[:, 0] > 0.0
        self.all_free = bool(self.free.all())
        released = data.seen.reshape(count * d, d), data.cross, data.known, data.noise
        self.released = tuple(np.ascontiguousarray(one, float) for one in released)
        self.slopes, self.totals = np.zeros_like(grams), np.empty((chains, d + 2))
        self.room = np.empty((chains * count * d, d)), np.empty((7, d)), np.empty(d)
        self.side, self.diagonal = np.arange(d), np.arange(d) * (d + 1)
        self.apart = bool(data.axis.any())

    def target(self, law: Law, bases: Array | None = None) -> Target:
        """Return what is looked at: in own coordinates, or in common ones with these T_j.

        The T_j are zero of exact sites.
        """
        chains, count, d, _ = self.grams.shape
        if bases is None:
            powers = (law.freedom * self.free)[..., None] - self.side * self.free[:, None]
            shares = 0.5 * law.total_freedom[:, None] * law.shares
        else:
            powers = (-law.kappa[:, None] - self.side)[:, None]
            shares = np.zeros((chains, count))
        return Target(law, bases, powers, np.zeros((chains * d, d)), shares)

    def look(self, target: Target, x: Array, valued: bool = True) -> tuple[Array, Array]:
        """Return the log density and its slope at positions; NaN where a chain cannot be.

        Where it is not valued the first is no density, and only says where it is NaN.
        """
        law, bases = target.law, target.bases
        chains, count, d, _ = self.grams.shape
        blocks = count if bases is None else 1
        edge = blocks * d * d
        factors = x[:, :edge].reshape(chains, blocks, d * d)  # a copy, as β is left out
        if np.may_share_memory(factors, x):
            factors = factors.copy()
        logs = factors[..., self.diagonal].clip(-_FARTHEST, _FARTHEST)
        diagonals = np.exp(logs)
        factors[..., self.diagonal] = diagonals
        frame = factors.reshape(chains, blocks, d, d)
        places = x[:, edge:].copy()
        places[:, d].clip(-_FARTHEST, _FARTHEST, out=places[:, d])
        matrices = target.matrices
        if bases is None:
            self._take(frame)
            whole = law.pooled(self.grams)
            matrices = _inverse(whole).reshape(chains * d, d)
        else:
            self._take(frame @ bases)
            turn = _inverse(frame[:, 0])
            turned = turn.transpose(0, 2, 1)
            inner = turned @ turn @ law.sized  # Σ⁻¹·ℓΛ
        rows = self.grams.reshape(-1, d), self.factors.reshape(-1, d)
        pull = matrices, target.shares
        out = self.slopes.reshape(-1, d)
        self.kernel(self.released, places, *rows, pull, self.room, out, self.totals)
        value = self.totals[:, 0].copy()
        slope = np.empty_like(x)
        own = slope[:, :edge].reshape(chains, blocks, d * d)
        if bases is None:
            own[:] = self.slopes.reshape(own.shape)
        else:
            sums = (self.slopes @ bases.transpose(0, 1, 3, 2)).sum(axis=1) + inner @ turned
            own[:] = sums.reshape(own.shape)
        own[..., self.diagonal] = own[..., self.diagonal] * diagonals + target.powers
        pull_back, rest = self._prior(law, places, slope[:, edge:])
        if valued:
            value += (target.powers * logs).sum(axis=(1, 2)) - rest
            value += pull_back - self.data.prior[1] * places[:, d]
            if bases is None:
                value -= 0.5 * law.total_freedom * np.linalg.slogdet(whole)[1]
            else:
                value -= 0.5 * np.trace(inner, axis1=1, axis2=2)
        return value, slope

    def _take(self, factors: Array) -> None:
        """Write L_j and S_j of all sites that move."""
        if self.all_free:
            self.factors = factors
            np.matmul(factors, factors.transpose(0, 1, 3, 2), out=self.grams)
            return
        some = factors[:, self.free]
        self.factors[:, self.free] = some
        self.grams[:, self.free] = some @ some.transpose(0, 1, 3, 2)

    def _prior(self, law: Law, places: Array, slope: Array) -> tuple[Array, Array]:
        """Write the slopes in β and log σ²; return the log prior of β, and b/σ²."""
        data, d = self.data, self.grams.shape[-1]
        gap = places[:, :d] - data.center
        pull = law.precision[:, None] * gap
        if self.apart:
            pull += (law.extra * (gap @ data.axis))[:, None] * data.axis
        rest = data.prior[2] * np.exp(-places[:, d])
        slope[:] = self.totals[:, 1:]
        slope[:, :d] -= pull
        slope[:, d] += rest - data.prior[1]
        return -0.5 * (pull * gap).sum(axis=1), rest

    def travel(
        self, rng: np.random.Generator, target: Target, x: Array, widths: Array, steps: Array
    ) -> tuple[Array, Array]:
        """Follow a trajectory of every chain; return its end, and the chance that it is accepted.

        Momenta are in units of the widths. Chains take a random number of leaps, in proportion
        to what their step asks for.
        """
        momentum = rng.standard_normal(x.shape)
        most = np.clip(LENGTH / steps, 1.0, MOST_STEPS).astype(int)
        leaps = 1 + (rng.random() * (2 * most - 1)).astype(int)
        last = int(leaps.max())
        reach = steps[:, None] * widths
        energy = 0.5 * np.square(momentum).sum(axis=1)
        lost = np.zeros(len(x), bool)
        for leap in range(last + 1):
            value, slope = self.look(target, x, valued=leap in (0, last))
            lost |= ~np.isfinite(value)
            if leap == 0:
                energy -= value
            going = leap < leaps
            kick = np.where(leap > leaps, 0.0, np.where((leap > 0) & going, 1.0, 0.5))
            momentum += kick[:, None] * reach * slope
            if leap < last:
                x = x + going[:, None] * reach * momentum
        energy += value - 0.5 * np.square(momentum).sum(axis=1)
        chance = np.exp(np.minimum(energy, 0.0))
        return x, np.where(lost | np.isnan(energy), 0.0, chance)
