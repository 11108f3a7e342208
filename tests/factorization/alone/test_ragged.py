"""Ragged slices: against a dense twin and TensorLy's figures, and as a user has them."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import Relation
from tacit.errors import ParameterError, VerificationFailed
from tacit.factorization import Parafac2
from tacit.factorization.alone.numerics.parafac2 import (
    Ragged,
    RaggedState,
    RaggedUpdates,
    row_estimates,
)


def planted(noise=0.05):
    """Twenty slices of 4 to 11 rows, rank 3."""
    rng = np.random.default_rng(0)
    shape, columns = rng.normal(size=(3, 3)), rng.normal(size=(12, 3))
    weights = rng.uniform(0.5, 2.0, (20, 3))
    slices = []
    for own in weights:
        rows = np.linalg.qr(rng.normal(size=(rng.integers(4, 12), 3)))[0]
        slices.append((rows @ shape * own) @ columns.T)
    truth = np.vstack(slices)
    noisy = truth + noise * np.random.default_rng(1).normal(size=truth.shape)
    return truth, noisy, np.repeat(np.arange(20), [len(one) for one in slices])


def ragged(values, slices, share=1.0):
    mask = np.random.default_rng(2).random(values.shape) < share
    return Ragged(np.argwhere(mask), values[mask], slices, values.shape[1]), mask


def test_the_optimum_is_that_of_tensorly():
    _, noisy, slices = planted()
    kernel = RaggedUpdates(ragged(noisy, slices)[0], 3)
    state = kernel.init(None)
    for _ in range(300):
        state, info = kernel.step(state)
    # tensorly 0.10.0, parafac2(init="svd", linesearch=True, n_iter_max=2000, tol=1e-12)
    assert info.objective == pytest.approx(2.1045273918558736, rel=1e-6)


def naive(values, mask, slices, state, ridge):
    """One round of updates slice by slice on dense arrays, missing cells from the estimates."""
    rows, shape, columns, weights = state[:4]
    count = len(weights)
    estimate = ((rows @ shape) * weights[slices]) @ columns.T
    filled = np.where(mask, values, estimate)
    fresh, small = np.empty_like(rows), []
    for s in range(count):
        own = slices == s
        left, _, right = np.linalg.svd(
            filled[own] @ columns @ np.diag(weights[s]) @ shape.T, full_matrices=False
        )
        fresh[own] = left @ right
        small.append(fresh[own].T @ filled[own])
    tensor, eye = np.array(small), ridge * np.eye(len(shape))  # (slice, k, column)
    gram = (weights.T @ weights) * (columns.T @ columns) + eye
    shape = np.einsum("skj,jr,sr->kr", tensor, columns, weights) @ np.linalg.inv(gram)
    gram = (weights.T @ weights) * (shape.T @ shape) + eye
    columns = np.einsum("skj,kr,sr->jr", tensor, shape, weights) @ np.linalg.inv(gram)
    gram = (shape.T @ shape) * (columns.T @ columns) + eye
    weights = np.einsum("skj,kr,jr->sr", tensor, shape, columns) @ np.linalg.inv(gram)
    return RaggedState(fresh, shape, columns, weights)


@pytest.mark.parametrize("share", [1.0, 0.6])
def test_sparse_rounds_are_those_of_dense_slices(share):
    _, noisy, slices = planted()
    data, mask = ragged(noisy, slices, share)
    kernel = RaggedUpdates(data, 3, 0.2)
    state = kernel.init(np.random.default_rng(3))
    for _ in range(3):
        expected = naive(noisy, mask, slices, state, 0.2)
        state = kernel.updated(state)
        for ours, theirs in zip(state[:4], expected[:4], strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_the_objective_never_rises_and_hidden_cells_are_found(nonnegative, ridge):
    truth, noisy, slices = planted()
    data, mask = ragged(noisy, slices, 0.7)
    kernel = RaggedUpdates(data, 3, ridge, nonnegative=nonnegative)
    state = kernel.init(None)
    before = kernel.objective(state)
    for _ in range(150):
        state, info = kernel.step(state)
        assert info.objective <= before * (1.0 + 1e-12)
        before = info.objective
    assert not nonnegative or (state.weights >= 0.0).all()
    own = [state.rows[slices == s] for s in range(20)]
    np.testing.assert_allclose([p.T @ p for p in own], np.tile(np.eye(3), (20, 1, 1)), atol=1e-9)
    hidden = row_estimates(data, state, np.argwhere(~mask))
    assert np.sqrt(np.mean((hidden - truth[~mask]) ** 2)) < 0.4 * truth.std()


def patients(share=1.0):
    truth, noisy, slices = planted()
    shown = np.where(np.random.default_rng(2).random(noisy.shape) < share, noisy, np.nan)
    arrays = {f"p{s}": shown[slices == s] for s in range(20)}
    return {n: truth[slices == int(n[1:])] for n in arrays}, arrays


def test_visits_of_patients_go_by_names_and_come_from_tables(tmp_path):
    truth, arrays = patients(0.8)
    fitted = Parafac2("patient", rows="visit", columns="lab", rank=3).fit(arrays)
    found = fitted.predict([["p3", 1, 7], ["p4", 0, 2]])
    np.testing.assert_allclose(found, [truth["p3"][1, 7], truth["p4"][0, 2]], atol=0.5)
    cells = [(n, i, j) for n, a in arrays.items() for i, j in np.argwhere(~np.isnan(a))]
    table = {
        "patient": [n for n, _, _ in cells],
        "visit": [int(i) for _, i, _ in cells],
        "lab": [f"l{j:02}" for *_, j in cells],
        "value": [float(arrays[n][i, j]) for n, i, j in cells],
    }
    named = Parafac2("patient", rows="visit", columns="lab", rank=3).fit(table)
    assert named.history_[-1] == pytest.approx(fitted.history_[-1], rel=1e-3)
    best = named.top({"patient": "p3", "visit": 1}, 3)
    assert [name for name, _ in best] == [
        f"l{j:02}" for j in np.argsort(-named.slice_rows("p3")[1] * named.factors_["weights"][
            list(named.labels_["patient"]).index("p3")] @ named.factors_["columns"].T)[:3]
    ]  # fmt: skip
    assert "lab" in str(named.summary()) and named.score(table) > -0.01
    np.testing.assert_allclose(np.linalg.norm(fitted.factors_["columns"], axis=0), 1.0)
    named.save(tmp_path / "p.npz")
    loaded = Parafac2.load(tmp_path / "p.npz")
    row = {"patient": ["p3"], "visit": [1], "lab": ["l07"]}
    np.testing.assert_array_equal(loaded.predict(row), named.predict(row))
    new = {"patient": ["x"] * 60, "visit": [k // 12 for k in range(60)],
           "lab": [f"l{k % 12:02}" for k in range(60)],
           "value": arrays_of(truth)[:60].tolist()}  # fmt: skip
    folded = loaded.fold_in(new)
    np.testing.assert_array_equal(folded._state.columns, loaded._state.columns)
    assert folded.score(new) > -0.02
    with pytest.raises(ParameterError, match="fold new slices in first"):
        named.predict([[min(truth, key=lambda name: len(truth[name])), 10, "l00"]])


def arrays_of(truth):
    return truth["p0"][:5].ravel() if len(truth["p0"]) >= 5 else truth["p1"][:5].ravel()


def test_what_is_no_ragged_data_is_refused(tmp_path):
    _, arrays = patients()
    with pytest.raises(ParameterError, match="fewer rows than the rank, 5"):
        Parafac2(rank=5).fit(arrays)
    with pytest.raises(ParameterError, match="the same columns"):
        Parafac2(rank=1).fit({"a": np.ones((3, 2)), "b": np.ones((3, 4))})
    with pytest.raises(ParameterError, match="must have the modes"):
        Parafac2(rank=1).fit(Relation.from_dense(("a", "b", "c"), np.ones((2, 2, 2))))
    (tmp_path / "no.npz").write_bytes(b"no")
    with pytest.raises(VerificationFailed, match="is not a saved Parafac2"):
        Parafac2.load(tmp_path / "no.npz")
