"""Normal equations of rows against the dense cost, and solving them against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import CoupledModel, Relation
from tacit.factorization.alone.numerics import normal_rows as module
from tacit.factorization.alone.numerics.normal_rows import (
    normal_equations,
    row_chunks,
    solve_rows,
)
from tacit.factorization.alone.numerics.sums import Expanded
from tests.oracles.dense import MASKS, MODELS, Oracle, engine_of, make

PHI = {"x": 0.5, "y": 10.0, "z": 2.0}


def whole(left):
    """Return symmetric precisions from their upper triangles."""
    columns = left.shape[1]
    upper = np.triu(left[:, :, :columns])
    return upper + np.triu(upper, 1).transpose(0, 2, 1)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_normal_equations_are_those_of_the_cost(name, mask):
    """cost(θ) = cost(0) − b·θ + θᵀPθ/2 for every row, all other rows at zero."""
    rng = np.random.default_rng(0)
    model, data = make(name, mask, 0.0)
    engine, oracle = engine_of(model, data), Oracle(model, data)
    factors = {n: rng.normal(size=spec.table) for n, spec in engine.model.factors.items()}
    expanded = Expanded(engine.model, factors)
    for factor, spec in engine.model.factors.items():
        left, right = normal_equations(engine, expanded, factor, PHI, slice(0, spec.rows))
        precisions = whole(left)
        nothing = np.zeros(spec.table)

        def cost(table, factor=factor):
            moved = {**factors, factor: table}
            return sum(oracle.cost(v, moved) / PHI[v] for v in oracle.using(factor))

        table = rng.normal(size=spec.table)
        quadratic = 0.5 * np.einsum("ik,ikl,il", table, precisions, table)
        expected = cost(nothing) - (right * table).sum() + quadratic
        assert cost(table) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        for row in range(spec.rows):
            alone = nothing.copy()
            alone[row] = table[row]
            change = 0.5 * table[row] @ precisions[row] @ table[row] - right[row] @ table[row]
            assert cost(alone) - cost(nothing) == pytest.approx(change, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("columns", [1, 3, 4, 8, 13, 40])
def test_rows_are_solved_with_noise_of_their_covariance(columns):
    rng, rows = np.random.default_rng(columns), 19  # not a multiple of those solved together
    root = rng.normal(size=(rows, columns + 2, columns))
    precisions = np.einsum("rck,rcl->rkl", root, root)
    wide = np.full((rows, columns, -(-columns // 8) * 8), 1e3)  # below the diagonal anything
    wide[:, :, columns:] = 0.0
    upper = np.triu_indices(columns)
    wide[:, upper[0], upper[1]] = precisions[:, upper[0], upper[1]]
    diagonal, right = rng.gamma(1.0, 1.0, columns) + 0.1, rng.normal(size=(rows, columns))
    noise = rng.normal(size=(rows, columns))
    found = solve_rows(wide, diagonal, right, noise)
    for row in range(rows):
        precision = precisions[row] + np.diag(diagonal)
        upper_root = np.linalg.cholesky(precision).T
        expected = np.linalg.solve(precision, right[row]) + np.linalg.solve(upper_root, noise[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-8, atol=1e-10)


def test_long_rows_and_many_columns_are_added_up_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 500))
    data = {"x": Relation.from_dense("ab", x)}
    engine = engine_of(CoupledModel({"x": "a:k b:k"}, 19, 0.0), data)
    b = rng.normal(size=(500, 19))
    expanded = Expanded(engine.model, {"a": rng.normal(size=(3, 19)), "b": b})
    monkeypatch.setattr(module, "_AT_ONCE", 2 * 19**2)
    parts = list(row_chunks(3, 19))
    assert [(p.start, p.stop) for p in parts] == [(0, 2), (2, 3)]
    for part in parts:
        left, right = normal_equations(engine, expanded, "a", {"x": 1.0}, part)
        np.testing.assert_allclose(whole(left), np.stack([b.T @ b] * len(left)), rtol=1e-10)
        np.testing.assert_allclose(right, x[part] @ b, rtol=1e-9, atol=1e-9)
