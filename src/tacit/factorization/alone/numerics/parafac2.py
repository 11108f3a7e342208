"""PARAFAC2: slices with rows of their own, of any number, and columns in common.

Source: Harshman (1972); Kiers, ten Berge and Bro (1999). A cell of row i of slice s is
Σ_k U_s[i, k]·C[s, k]·V[j, k], where U_sᵀU_s is the same for all slices: U_s = P_s·B with
P_sᵀP_s = I. All rows lie below each other, so that the data are one sparse matrix X over (row,
column) and every step is a product with it:

1. Cells that were not observed are taken from the last estimates (a majorant of the loss over
   observed cells): X̃ = R + Û, with R = x − x̂ at observed cells only and Û of rank K.
2. P_s is the orthogonal factor of M_s = X̃_s·V·D_s·Bᵀ, D_s = diag(C[s]): the largest tr P_sᵀM_s.
3. B, V and C are least squares of Y_s = P_sᵀX̃_s, of which only products are formed: R·V and Rᵀ·U
   over observed cells, and K × K matrices W_s = P_sᵀÛ_s for the rest.

Each of them minimises the majorant over one block, so that the objective, half of the squared
errors and ρ/2 times the squares of B, V and C, never rises. No dense slice is ever formed. Two
such rounds are one step, from which B, V and C are followed further where that is better.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse

from tacit.factorization.alone.numerics.cells import Bank, estimate_cells
from tacit.factorization.arrays import Floats, Integers

__all__ = ["Ragged", "RaggedInfo", "RaggedState", "RaggedUpdates", "row_estimates"]

_SWEEPS = 3  # of coordinate descent over non-negative weights


class Ragged(NamedTuple):
    """Observed cells (row, column) with values, sorted by row, and the slice of every row."""

    cells: Integers
    values: Floats
    slices: Integers
    columns: int

    @property
    def starts(self) -> Integers:
        """The first row of every slice, and one past the last."""
        count = int(self.slices[-1]) + 1
        return np.searchsorted(self.slices, np.arange(count + 1))


class RaggedState(NamedTuple):
    """P of all rows, B, V and C, and how far the next extrapolation reaches."""

    rows: Floats
    shape: Floats
    columns: Floats
    weights: Floats
    reach: float = 2.0

    def scaled(self, slices: Integers) -> Floats:
        """Return P·B·D: what estimates multiply with V."""
        return np.asarray((self.rows @ self.shape) * self.weights[slices])


class RaggedInfo(NamedTuple):
    """The objective after a step."""

    objective: float


def row_estimates(data: Ragged, state: RaggedState, cells: Integers) -> Floats:
    """Return x̂ at cells (row, column)."""
    bank = Bank([len(data.slices), data.columns], state.columns.shape[1])
    bank.put(0, state.scaled(data.slices))
    bank.put(1, state.columns)
    return estimate_cells(np.ascontiguousarray(cells, np.int32), bank)


class RaggedUpdates:
    """A kernel: `init` starts from singular vectors or at random, `step` updates every block.

    Parameters
    ----------
    data
        The cells.
    rank, ridge
        K and ρ.
    nonnegative
        Whether weights C may not be negative.
    held
        B and V that are known, for new slices; None where they are learned.
    """

    def __init__(
        self,
        data: Ragged,
        rank: int,
        ridge: float = 0.0,
        *,
        nonnegative: bool = False,
        held: tuple[Floats, Floats] | None = None,
    ) -> None:
        self.data, self.rank, self.ridge, self.held = data, rank, ridge, held
        self.nonnegative = nonnegative
        counts = np.bincount(data.cells[:, 0], minlength=len(data.slices))
        self._indptr = np.concatenate([[0], np.cumsum(counts)])
        sizes = np.diff(data.starts)
        self._groups = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]

    def init(self, rng: np.random.Generator | None) -> RaggedState:
        """Return a start: of singular vectors where no generator is given."""
        data, k = self.data, self.rank
        count = int(data.slices[-1]) + 1
        if self.held is not None:
            shape, columns = self.held
        else:
            shape = np.eye(k)
            columns = self._leading() if rng is None else rng.random((data.columns, k))
        weights = np.ones((count, k))
        found = self._sparse(data.values) @ columns
        rows = self._orthogonal((found * weights[data.slices]) @ shape.T)
        state = RaggedState(rows, shape, columns, weights)
        estimates = row_estimates(data, state, data.cells)
        size = float(estimates @ data.values) / max(float(estimates @ estimates), 1e-300)
        return state._replace(weights=weights * max(size, 1e-6))

    def _leading(self) -> Floats:
        """Return the leading right singular vectors of the observed cells, zeros elsewhere."""
        matrix = self._sparse(self.data.values)
        gram = (matrix.T @ matrix).toarray() if self.data.columns <= 2000 else None
        if gram is None:
            return np.asarray(sparse.linalg.svds(matrix, self.rank, random_state=0)[2].T)
        return np.asarray(np.linalg.eigh(gram)[1][:, ::-1][:, : self.rank])

    def _sparse(self, values: Floats) -> sparse.csr_array:
        shape = (len(self.data.slices), self.data.columns)
        return sparse.csr_array((values, self.data.cells[:, 1], self._indptr), shape=shape)

    def _orthogonal(self, found: Floats) -> Floats:
        """Return the orthogonal factor of every slice's rows; slices of one size at once."""
        rows, starts = np.empty_like(found), self.data.starts
        for group in self._groups:
            size = int(starts[group[0] + 1] - starts[group[0]])
            where = starts[group][:, None] + np.arange(size)
            left, _, right = np.linalg.svd(found[where], full_matrices=False)
            rows[where] = left @ right
        return rows

    def _by_slice(self, values: Floats) -> Floats:
        return np.add.reduceat(values, self.data.starts[:-1], axis=0)

    sweeps = 2

    def step(
        self, state: RaggedState, *, objective: bool = True
    ) -> tuple[RaggedState, RaggedInfo]:
        """Update every block twice, and go further along the way if that is better."""
        once = self.updated(state)
        twice, reach = self.updated(once), state.reach
        learned = ("weights",) if self.held is not None else ("shape", "columns", "weights")
        ahead = {n: _beyond(getattr(once, n), getattr(twice, n), reach) for n in learned}
        if self.nonnegative:
            ahead["weights"] = np.maximum(ahead["weights"], 0.0)
        far = RaggedState(**{**twice._asdict(), **ahead})
        there, here = self.objective(far), self.objective(twice)
        if there < here:
            return far._replace(reach=1.5 * reach), RaggedInfo(there)
        return twice._replace(reach=max(1.0, reach / 2.0)), RaggedInfo(here)

    def updated(self, state: RaggedState) -> RaggedState:
        """Update P, then B, V and C."""
        data, ridge = self.data, self.ridge * np.eye(self.rank)
        slices = data.slices
        errors = data.values - row_estimates(data, state, data.cells)
        apart = self._sparse(errors)
        old, shape, columns, weights = state.columns, state.shape, state.columns, state.weights
        before = state.scaled(slices)  # Û without Vᵀ
        along = (apart @ columns + before @ (old.T @ columns)) * weights[slices]
        rows = self._orthogonal(along @ shape.T)
        # W_s·D_s of the majorant: what P_sᵀ makes of the estimates
        left = self._by_slice(rows[:, :, None] * before[:, None, :])
        if self.held is None:
            pulled = rows.T @ ((apart @ columns) * weights[slices])
            pulled += np.einsum("skl,lm,sm->km", left, old.T @ columns, weights)
            gram = (weights.T @ weights) * (columns.T @ columns)
            shape = _solved(gram + ridge, pulled)
            full = (rows @ shape) * weights[slices]
            pulled = apart.T @ full + old @ np.einsum("skl,km,sm->lm", left, shape, weights)
            gram = (weights.T @ weights) * (shape.T @ shape)
            columns = _solved(gram + ridge, pulled)
        pulled = self._by_slice((rows @ shape) * (apart @ columns))
        pulled += np.einsum("km,skl,lm->sm", shape, left, old.T @ columns)
        gram = (shape.T @ shape) * (columns.T @ columns)
        solve = partial(_descended, weights) if self.nonnegative else _solved
        weights = solve(gram + ridge, pulled)
        return RaggedState(rows, shape, columns, weights, state.reach)

    def objective(self, state: RaggedState) -> float:
        """Return half of the squared errors, and of ρ times the squares of B, V and C."""
        errors = self.data.values - row_estimates(self.data, state, self.data.cells)
        size = sum(float(np.vdot(part, part)) for part in state[1:4])
        return 0.5 * (float(errors @ errors) + self.ridge * size)


def _beyond(once: Floats, twice: Floats, reach: float) -> Floats:
    return np.asarray(twice + reach * (twice - once))


def _solved(gram: Floats, pulled: Floats) -> Floats:
    """Return pulled·gram⁻¹; a singular matrix is kept solvable, far below rounding of others."""
    little = 1e-12 * max(float(np.trace(gram)), 1e-300) * np.eye(len(gram))
    return np.asarray(np.linalg.solve(gram + little, pulled.T).T, np.float64)


def _descended(weights: Floats, gram: Floats, pulled: Floats) -> Floats:
    """Lower a quadratic function of non-negative rows, one column after the other."""
    found = np.maximum(weights, 0.0)
    for _ in range(_SWEEPS):
        for k in range(len(gram)):
            slope = pulled[:, k] - found @ gram[:, k]
            found[:, k] = np.maximum(found[:, k] + slope / max(gram[k, k], 1e-300), 0.0)
    return found
