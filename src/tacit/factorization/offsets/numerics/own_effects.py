"""What a member's own cells say about its other cells: effects that need no privacy at all.

Cells of one person are alike, and those of one person at one place still more.
In a tensor (and over several relations) member i's cell k, about the tuple j of other members, is

    x_k = c + a·base_k + q_kᵀw_i + Σ_s b_s[i, j_s] + noise,

where base and features q come from what was released or is public, and s runs over the proper
subsets of the other modes: the empty one is the member's own offset, {place} what it does at one
place, whatever the activity. Effects are normal with a penalty λ_s (noise over effect) for each
subset, and w_i with one for all features, so that a member's cells have the covariance I + K with

    K_kl = q_kᵀq_l/λ_q + Σ_s [k and l agree in s]/λ_s,        α = (I + K)⁻¹(x − c − a·base),

and every effect is a sum of α: b_s = Σ α/λ_s over its cells, w_i = Σ q_k·α_k/λ_q. Left out, cell k
has the error α_k/((I + K)⁻¹)_kk. Penalties (from ladders that end with leaving an effect out), c
and 0 ≤ a ≤ 1 are those with the smallest such errors over a sample of members, so that released
numbers which do not help do no harm. All of that is one holder's own: nothing of it is released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import NEVER

__all__ = ["Effect", "OwnCells", "OwnEffects", "fit_own_effects", "mode_subsets"]

_LADDERS = {
    "offset": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, NEVER),
    "nested": (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, NEVER),
    "features": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, NEVER),
}
_MEMBERS, _CELLS = 200, 100  # that penalties are chosen on, and cells of each
_PASSES = 2  # over the penalties, one at a time
_BELIEVED = 5.0  # cells that speak for the base as it is
# standard errors by which an effect must help, against leaving it out; released features were
# learned from the same cells too, so that leaving one out flatters them
_GAINS = {"offset": 0.0, "nested": 1.0, "features": 3.0}


class Effect(NamedTuple):
    """One kind of effect: which cells have it, and the group of each of them."""

    kind: str  # "offset" or "nested"
    cells: Integers
    groups: Integers
    number: int  # of groups


class OwnCells(NamedTuple):
    """Cells sorted by member, with what is known of them; rows are scaled by their weight."""

    starts: Integers  # cells of member i are starts[i] … starts[i + 1]
    values: Floats
    common: Floats  # (cells, 1 + relations): base, and a column of ones per relation
    features: Floats  # q, (cells, features)
    weights: Floats  # of a cell's row: √ of its precision, relative to the others
    effects: Sequence[Effect]

    @property
    def owners(self) -> Integers:
        """The member of every cell."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


class OwnEffects(NamedTuple):
    """What was found: c and a, every member's row, and the effects of every group."""

    common: Floats
    rows: Floats
    effects: list[Floats]


def mode_subsets(modes: int) -> list[tuple[int, ...]]:
    """Return the subsets of other modes that have effects of their own, the empty one first.

    >>> mode_subsets(2)
    [(), (0,), (1,)]
    """
    sizes = range(modes) if modes <= 3 else (0, 1, modes - 1)
    return [subset for size in sizes for subset in combinations(range(modes), size)]


def fit_own_effects(cells: OwnCells) -> OwnEffects:
    """Return the effects of all members, penalties chosen by leaving cells out."""
    scale = np.sqrt(np.mean(cells.features**2)) if cells.features.size else 0.0
    cells = cells._replace(features=cells.features / scale if scale > 0.0 else cells.features)
    penalties, common = _choose(cells)
    alpha = _solve(cells, penalties, cells.values - cells.common @ common)
    effects = [
        np.bincount(e.groups, (cells.weights * alpha)[e.cells], e.number) / penalty
        for e, penalty in zip(cells.effects, penalties, strict=False)
    ]
    rows = _by_member(cells, alpha) / penalties[-1]
    return OwnEffects(common, rows / scale if scale > 0.0 else rows, effects)


def _by_member(cells: OwnCells, alpha: Floats) -> Floats:
    """Return Σ q_k·α_k for every member."""
    members, owners = len(cells.starts) - 1, cells.owners
    found = np.zeros((members, cells.features.shape[1]))
    for k in range(found.shape[1]):
        found[:, k] = np.bincount(owners, cells.features[:, k] * alpha, members)
    return found


def _solve(cells: OwnCells, penalties: Floats, right: Floats) -> Floats:
    """Return (I + K)⁻¹·right for all members at once, by conjugate gradients."""
    from scipy.sparse.linalg import LinearOperator, cg

    owners, used = cells.owners, penalties < NEVER

    def times(vector: Floats) -> Floats:
        total = vector.copy()
        weighted = cells.weights * vector
        for effect, penalty in zip(cells.effects, penalties, strict=False):
            if penalty < NEVER:
                sums = np.bincount(effect.groups, weighted[effect.cells], effect.number) / penalty
                total[effect.cells] += cells.weights[effect.cells] * sums[effect.groups]
        if used[-1]:
            rows = _by_member(cells, vector) / penalties[-1]
            total += (cells.features * rows[owners]).sum(axis=1)
        return total

    if not len(right):
        return right
    operator = LinearOperator((len(right), len(right)), matvec=times, dtype=np.float64)
    return np.asarray(cg(operator, right, rtol=1e-9, maxiter=5_000)[0])


# -- choosing penalties ------------------------------------------------------------------------


class _Member(NamedTuple):
    """One member of the sample: K's parts by penalty, and what is to be explained."""

    kernels: NDArray[np.float64]  # (effects and features, cells, cells)
    known: Floats  # (cells, 1 + common): values and common columns


def _sample(cells: OwnCells) -> list[_Member]:
    """Return some members with two cells at least, evenly spaced: no draw is needed."""
    filled = np.flatnonzero(np.diff(cells.starts) > 1)
    if len(filled) > _MEMBERS:
        filled = filled[np.linspace(0, len(filled) - 1, _MEMBERS).astype(np.int64)]
    groups = np.full((len(cells.effects), len(cells.values)), -1, np.int64)
    for s, effect in enumerate(cells.effects):
        groups[s, effect.cells] = effect.groups
    known = np.column_stack([cells.values, cells.common])
    found = []
    for i in filled:
        own = np.arange(cells.starts[i], cells.starts[i + 1])
        if len(own) > _CELLS:
            own = own[np.linspace(0, len(own) - 1, _CELLS).astype(np.int64)]
        same = (groups[:, own, None] == groups[:, None, own]) & (groups[:, own, None] >= 0)
        kernels = same * np.outer(cells.weights[own], cells.weights[own])
        products = cells.features[own] @ cells.features[own].T
        found.append(_Member(np.concatenate([kernels, products[None]]), known[own]))
    return found


def _left_out(sample: Sequence[_Member], penalties: Floats) -> Floats:
    """Return what leaving out each cell of the sample leaves of values and common columns."""
    found = []
    for member in sample:
        covariance = np.eye(len(member.known)) + np.tensordot(1.0 / penalties, member.kernels, 1)
        inverse = np.linalg.inv(covariance)
        found.append(inverse @ member.known / np.diag(inverse)[:, None])
    return np.concatenate(found)


def _errors(left: Floats) -> tuple[Floats, Floats]:
    """Return the squared error of every cell, and a and c under which they are smallest.

    The base counts in full unless cells say otherwise: a = 1 weighs as much as a few cells.
    """
    values, base, ones = left[:, 0], left[:, 1], left[:, 2:]
    believed = math.sqrt(_BELIEVED * float(np.mean(base**2))) if len(base) else 1.0
    table = np.vstack([left[:, 1:], [believed, *np.zeros(ones.shape[1])]])
    share = np.linalg.lstsq(table, np.append(values, believed), rcond=None)[0][0]
    share = float(np.clip(share, 0.0, 1.0)) if base.any() else 1.0
    centre = np.linalg.lstsq(ones, values - share * base, rcond=None)[0]
    errors = values - share * base - ones @ centre
    return np.square(errors), np.concatenate([[share], centre])


def _choose(cells: OwnCells) -> tuple[Floats, Floats]:
    """Return a penalty per kind of effect and one for the features, and c and a."""
    kinds = [*(effect.kind for effect in cells.effects), "features"]
    best = np.array([4.0 if kind == "offset" else NEVER for kind in kinds])
    sample = _sample(cells)
    if not sample:  # nobody has two cells: nothing can be left out
        share = np.append(1.0, np.zeros(cells.common.shape[1] - 1))
        rest = cells.values - cells.common @ share
        share[1:] = np.linalg.lstsq(cells.common[:, 1:], rest, rcond=None)[0]
        return best, share
    searched = [k for k, kind in enumerate(kinds) if kind != "features" or cells.features.any()]
    for k in searched * _PASSES:  # features last: own effects are nearer, and not flattered
        ladder = np.tile(best, (len(_LADDERS[kinds[k]]), 1))
        ladder[:, k] = _LADDERS[kinds[k]]
        errors = [_errors(_left_out(sample, tried))[0] for tried in ladder]
        found = int(np.argmin([error.sum() for error in errors]))
        gains = errors[-1] - errors[found]
        margin = _GAINS[kinds[k]] * math.sqrt(float(np.square(gains - gains.mean()).sum()))
        best = ladder[found] if gains.sum() > margin else ladder[-1]
    return best, _errors(_left_out(sample, best))[1]
