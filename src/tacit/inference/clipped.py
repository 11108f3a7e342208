"""Sums of per-unit clipped gradients on a grid: the numerics of private stochastic gradients.

A cell's estimate is x̂ = Σ_r Π_p θ_p[i_p, column_p(r)], over the factors p of its relation and the
combinations r of latent indices. Its gradient of −d_p(x, x̂)/φ along the row of factor p is

    (x − x̂)·x̂^(−p)/φ · q_p,   q_p[k] = Σ over r with column_p(r) = k of Π_{p' ≠ p} θ_{p'}.

All factors lie in one vector θ, and a `CellTable` lists every cell of every relation by where its
rows start in it, so that one kernel serves matrices, tensors, cores and several relations at once.

*Entries* (`entry_sums`): one cell's gradient over all its factors is one contribution.
*Owners* (`owner_sums`): all cells of one member of the protected entity are one contribution. Its
own row is solved from its cells and θ alone (ridge for p = 0, multiplicative steps for p = 1), and
the contribution is the gradient over all other factors, added up over the member's cells.

A contribution is scaled to an L2 norm of at most ``clip``, rounded to a grid by floor(x/g + ½) and
added up in int64; one that is not finite counts as nothing. Nothing here draws a random number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core import kernels, threads
from tacit.inference.clipped_cells import CellTable, OwnerRule
from tacit.inference.clipped_kernels import entry_kernel, owner_kernel, rows_kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["entry_sums", "owner_rows", "owner_sums"]

_SMALL = 100_000  # below this many multiplications threads cost more than they bring


def _plan(work: int, weights: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Return the cuts between the threads' shares of the picks."""
    blocks = threads.threads() if work > _SMALL else 1
    if isinstance(weights, int):
        return np.arange(blocks + 1) * weights // blocks
    ends = np.concatenate([[0], np.cumsum(weights)])
    shares = np.arange(blocks + 1) * int(ends[-1]) / blocks
    cuts = np.searchsorted(ends, shares)
    cuts[0], cuts[-1] = 0, len(weights)
    return cuts.astype(np.int64)


def _run(kernel: Any, cuts: NDArray[np.int64], *args: Any) -> None:
    """Run a kernel over the blocks between the cuts."""
    form = kernels.compiled(kernel, reassociate=True, unchecked=True)
    threads.over_range(form, len(cuts) - 1, *args)


def _outputs(
    blocks: int, size: int, inverse_grid: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    whole = (blocks, size) if inverse_grid > 0.0 else (blocks, 0)
    real = (blocks, 0) if inverse_grid > 0.0 else (blocks, size)
    return np.zeros(whole, np.int64), np.zeros(real)


def _added(totals: NDArray[np.int64], plain: NDArray[np.float64]) -> NDArray[Any]:
    parts: NDArray[Any] = totals if totals.shape[1] else plain
    total: NDArray[Any] = parts[0]
    for part in parts[1:]:
        total += part
    return total


def entry_sums(
    picks: NDArray[np.int64],
    table: CellTable,
    theta: NDArray[np.float64],
    free: NDArray[np.float64],
    counted: NDArray[np.bool_],
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """Return the sum over picked cells of their clipped gradients.

    Parameters
    ----------
    picks
        Which cells.
    table, theta
        The cells, and all factors.
    free
        1 for every number of θ that may move, else 0.
    counted
        Which factors of which relation belong to a contribution, (relations, factors).
    clip
        The largest norm of a contribution; infinity leaves them as they are.
    inverse_grid
        One over the grid step: the result is int64 in steps. 0 adds up floats instead.
    """
    work = len(picks) * table.columns.shape[1] * table.columns.shape[2]
    cuts = _plan(work, len(picks))
    totals, plain = _outputs(len(cuts) - 1, len(theta), inverse_grid)
    if len(picks):
        # sampled cells lie far apart: fetching them together hides most of the waiting
        table = table._replace(
            values=table.values[picks], kinds=table.kinds[picks], starts=table.starts[picks]
        )
        _run(
            entry_kernel, cuts, table, theta, free, counted, float(clip), float(inverse_grid),
            cuts, totals, plain,
        )  # fmt: skip
    return _added(totals, plain)


def owner_sums(
    picks: NDArray[np.int64],
    table: CellTable,
    theta: NDArray[np.float64],
    free: NDArray[np.float64],
    rule: OwnerRule,
    clip: float,
    inverse_grid: float,
) -> NDArray[Any]:
    """Return the sum over picked owners of their clipped gradients; see `entry_sums`."""
    held = table.owner_starts[picks + 1] - table.owner_starts[picks]
    work = int(held.sum()) * table.columns.shape[1] * table.columns.shape[2] * len(rule.free)
    cuts = _plan(work, held)
    totals, plain = _outputs(len(cuts) - 1, len(theta), inverse_grid)
    if len(picks):
        _run(
            owner_kernel, cuts, picks, table, theta, free, rule, float(clip), float(inverse_grid),
            cuts, totals, plain,
        )  # fmt: skip
    return _added(totals, plain)


def owner_rows(
    picks: NDArray[np.int64], table: CellTable, theta: NDArray[np.float64], rule: OwnerRule
) -> NDArray[np.float64]:
    """Return the solved rows of picked owners."""
    out = np.zeros((len(picks), len(rule.free)))
    held = table.owner_starts[picks + 1] - table.owner_starts[picks]
    work = int(held.sum()) * table.columns.shape[1] * table.columns.shape[2] * len(rule.free)
    cuts = _plan(work, held)
    if len(picks):
        _run(rows_kernel, cuts, picks, table, theta, rule, cuts, out)
    return out
