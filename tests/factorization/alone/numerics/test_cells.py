"""The compiled sweep against its NumPy twin and against dense einsum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Relation
from tacit.factorization.alone.numerics import cells as module
from tacit.factorization.alone.numerics.cells import (
    FLOOR,
    Bank,
    cell_divergence,
    estimate_cells,
    sweep,
)
from tacit.factorization.alone.numerics.sums import Expanded
from tests.oracles.dense import MASKS, MODELS, Oracle, engine_of, make, random_factors

POWERS = [0.0, 0.5, 1.0, 1.5, 2.0]


def sweep_reference(layout, bank, own, weights, skip, power):
    """NumPy twin of `sweep`."""
    product = np.tile(weights, (len(layout.values), 1))
    for m in range(layout.indices.shape[1]):
        if m != skip:
            product *= bank.mode(m)[layout.indices[:, m]]
    row = np.repeat(np.arange(len(layout.starts) - 1), np.diff(layout.starts))
    estimate = (own[row] * product).sum(axis=1)
    estimate = estimate if power == 0.0 else np.maximum(estimate, FLOOR)
    a, b = layout.values * estimate**-power, estimate ** (1.0 - power)
    numerator, denominator = np.zeros_like(own), np.zeros_like(own)
    np.add.at(numerator, row, a[:, None] * product)
    np.add.at(denominator, row, b[:, None] * product)
    return numerator, denominator


@pytest.fixture(params=["serial", "parallel", "python"])
def threads(request, monkeypatch):
    """Compiled on one core, compiled on all, and the same source as plain Python."""
    monkeypatch.setattr(module, "_SMALL", 10**12 if request.param == "serial" else 0)
    if request.param == "python":
        monkeypatch.setattr(module.kernels, "compiled", lambda function, **_: function)
        for name in ("dot", "product_dot", "add_row", "add_product", "copy_row", "multiply_row"):
            monkeypatch.setattr(module, name, globals()[f"_{name}"])
        monkeypatch.setattr(module, "add_product_twice", _add_product_twice)
    return request.param


def _dot(x, i, y, j):
    return x[i] @ y[j]


def _product_dot(x, i, y, j, z, k):
    return (x[i] * y[j]) @ z[k]


def _copy_row(x, i, y, j):
    x[i] = y[j]


def _multiply_row(x, i, y, j):
    x[i] *= y[j]


def _add_row(x, i, y, j, scale):
    x[i] += scale * y[j]


def _add_product(x, i, y, j, z, k, scale):
    x[i] += scale * y[j] * z[k]


def _add_product_twice(x, y, j, z, k, a, b):
    x[:2] += np.outer([a, b], y[j] * z[k])


def random_bank(rng, shape, combinations):
    bank = Bank(list(shape), combinations)
    bank.rows[:] = rng.uniform(0.2, 1.5, bank.rows.shape)
    return bank


def random_relation(rng, shape, count):
    codes = rng.choice(int(np.prod(shape)), count, replace=False)
    cells = np.column_stack(np.unravel_index(codes, shape))
    values = rng.gamma(1.0, 2.0, count) * (rng.random(count) > 0.2)
    return Relation.from_cells("abcdef"[: len(shape)], cells, values, shape=shape)


def assert_twins_agree(relation, combinations, power, rng):
    bank = random_bank(rng, relation.shape, combinations)
    weights = rng.uniform(0.5, 1.5, combinations)
    for mode, layout in enumerate(relation.layouts):
        arguments = (layout, bank, bank.mode(mode), weights, mode, power)
        up, down = sweep(*arguments)
        expected_up, expected_down = sweep_reference(*arguments)
        np.testing.assert_allclose(up, expected_up, rtol=1e-11)
        np.testing.assert_allclose(down, expected_down, rtol=1e-11)
        alone, _ = sweep(*arguments, with_denominator=False)
        np.testing.assert_allclose(alone, expected_up, rtol=1e-11)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("modes", [1, 2, 3, 4, 5, 6])
def test_the_sweep_equals_its_twin(modes, power):
    rng = np.random.default_rng([modes, int(10 * power)])
    for _ in range(3):
        shape = tuple(rng.integers(2, 6, modes))
        count = int(rng.integers(1, np.prod(shape) + 1))
        relation = random_relation(rng, shape, min(count, 300))
        assert_twins_agree(relation, int(rng.integers(1, 6)), power, rng)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("modes", [1, 2, 3, 4])
def test_the_sweep_of_a_core_equals_its_twin(modes):
    rng = np.random.default_rng(modes)
    relation = random_relation(rng, (4,) * modes, 4**modes // 2)
    bank = random_bank(rng, relation.shape, 3)
    whole = relation.layouts[0]._replace(starts=np.array([0, relation.cells]))
    core, others = rng.uniform(0.5, 1.5, (1, 3)), rng.uniform(0.5, 1.5, 3)
    for got, expected in zip(
        sweep(whole, bank, core, others, -1, 1.5),
        sweep_reference(whole, bank, core, others, -1, 1.5),
        strict=True,
    ):
        assert got.shape == (1, 3)
        np.testing.assert_allclose(got, expected, rtol=1e-11)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("modes", [2, 3, 4])
def test_rows_that_cross_many_blocks_add_up(modes):
    """One row holds nearly all cells, its neighbours few or none."""
    rng = np.random.default_rng(7)
    sides = {2: (900,), 3: (30, 30), 4: (30, 6, 5)}[modes]
    others = np.column_stack(np.unravel_index(np.arange(900), sides))
    big = np.column_stack([np.full(900, 2), others])
    few = np.column_stack([[0, 4, 5, 5], others[[0, 1, 2, 3]]])
    shape = (7, *sides)
    cells = np.concatenate([big, few])
    relation = Relation.from_cells("abcd"[:modes], cells, rng.gamma(1.0, 1.0, 904), shape=shape)
    assert_twins_agree(relation, 3, 1.0, rng)
    bank = random_bank(rng, shape, 3)
    up, down = sweep(relation.layouts[0], bank, bank.mode(0), np.ones(3), 0, 1.0)
    assert not up[[1, 3, 6]].any() and not down[[1, 3, 6]].any()


@pytest.mark.usefixtures("threads")
@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 40), min_size=1, max_size=30))
def test_any_distribution_of_cells_over_rows_adds_up(seed, lengths):
    """Rows of any length against any cut into blocks."""
    rng = np.random.default_rng(seed)
    pairs = [(row, column) for row, length in enumerate(lengths) for column in range(length)]
    cells = np.array(pairs, int).reshape(-1, 2)
    shape = (len(lengths), 40)
    relation = Relation.from_cells("ab", cells, rng.gamma(1.0, 1.0, len(cells)), shape=shape)
    assert_twins_agree(relation, 2, 1.0, rng)


@pytest.mark.usefixtures("threads")
def test_permuting_cells_changes_no_bit():
    rng = np.random.default_rng(3)
    relation = random_relation(rng, (6, 7, 5), 120)
    order = rng.permutation(120)
    shuffled = Relation.from_cells(
        "abc", relation.indices[order], relation.values[order], shape=relation.shape
    )
    bank = random_bank(rng, relation.shape, 4)
    for mode in range(3):
        for one, other in zip(
            sweep(relation.layouts[mode], bank, bank.mode(mode), np.ones(4), mode, 1.5),
            sweep(shuffled.layouts[mode], bank, bank.mode(mode), np.ones(4), mode, 1.5),
            strict=True,
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("threads")
def test_no_cells_give_zeros():
    relation = Relation.from_cells("ab", np.empty((0, 2), int), shape=(3, 2))
    bank = random_bank(np.random.default_rng(0), (3, 2), 2)
    for mode in range(2):
        for got in sweep(relation.layouts[mode], bank, bank.mode(mode), np.ones(2), mode, 1.0):
            assert got.shape == (relation.shape[mode], 2)
            assert not got.any()
    assert estimate_cells(relation.indices, bank).shape == (0,)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("power", [0.5, 1.0, 1.5])
def test_an_estimate_of_zero_divides_nothing_by_zero(power):
    relation = Relation.from_cells("ab", [[0, 0], [0, 1]], [0.0, 1.0])
    bank = random_bank(np.random.default_rng(0), relation.shape, 2)
    bank.mode(0)[:] = 0.0
    for got in sweep(relation.layouts[0], bank, bank.mode(0), np.ones(2), 0, power):
        assert np.isfinite(got).all()
    assert np.isfinite(cell_divergence(relation.values, np.zeros(2), power))


def test_estimates_of_many_cells_are_the_same_in_parallel(threads):
    rng = np.random.default_rng(5)
    bank = random_bank(rng, (9, 8, 7, 3), 5)
    bank.weights = rng.uniform(0.5, 1.5, 5)
    cells = np.argwhere(np.ones((9, 8, 7, 3))).astype(np.int32)
    dense = np.einsum("r,ir,jr,kr,lr->ijkl", bank.weights, *(bank.mode(m) for m in range(4)))
    np.testing.assert_allclose(estimate_cells(cells, bank), dense.ravel(), rtol=1e-12)


# --- numerators, denominators and costs, against dense einsum --------------------------------


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_the_engine_equals_the_dense_reference(name, mask):
    for power in (0.0, 1.0) if mask.startswith("zeros") else POWERS:
        model, data = make(name, mask, power)
        engine, oracle = engine_of(model, data), Oracle(model, data)
        factors = random_factors(engine)
        expanded = Expanded(engine.model, factors)
        for relation in engine.model.relations:
            assert engine.cost(expanded, relation) == pytest.approx(
                oracle.cost(relation.name, factors), rel=1e-9
            )
            estimate = oracle.estimate(relation.name, factors)
            assert engine.total_estimate(expanded, relation) == pytest.approx(
                estimate[oracle.mask[relation.name]].sum(), rel=1e-9
            )
            for position, factor in enumerate(relation.factors):
                up, down = engine.both(expanded, relation, position)
                expected_up = oracle.numerator(relation.name, factor, factors, power)
                expected_down = oracle.denominator(relation.name, factor, factors, power)
                np.testing.assert_allclose(up, expected_up, rtol=1e-9, atol=1e-12)
                same_rows = np.broadcast_to(down, expected_down.shape)  # one row if all are alike
                np.testing.assert_allclose(same_rows, expected_down, rtol=1e-9, atol=1e-9)
                alone = engine.numerator(expanded, relation, position)
                np.testing.assert_allclose(alone, expected_up, rtol=1e-9, atol=1e-12)
                alone = engine.denominator(expanded, relation, position)
                np.testing.assert_array_equal(alone, down)
