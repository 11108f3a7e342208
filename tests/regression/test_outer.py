"""Sums of outer products are exact, and no row exceeds its norm."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit._core.kernels import compiled
from tacit.mechanisms.grid import Grid
from tacit.regression import outer
from tacit.regression.outer import ExactSum, OuterSum, RowMap, lattice_rows_reference, onto_grid

HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 0.0, 1.0, -1.0, 1.0 + 1e-15, 7.0]


def row_map(d, *, constant=0.5, norm=None, joint=True):
    norm = math.sqrt(constant**2 + (d + 1) / 3) if norm is None else norm
    return RowMap((0.0,) * (d + 1), (1.0,) * (d + 1), constant, norm, joint)


def total(rows, x, y, pieces=()):
    sums = OuterSum(rows)
    for part in np.split(np.arange(len(y)), sorted(pieces)):
        sums.add(x[part], y[part])
    return sums.result()


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_order_and_pieces_do_not_change_a_bit(data):
    d = data.draw(st.integers(1, 7))
    n = data.draw(st.integers(1, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, y = rng.normal(size=(n, d)), rng.normal(size=n)
    pieces = data.draw(st.lists(st.integers(0, n), max_size=4))
    rows = row_map(d, constant=data.draw(st.sampled_from([0.0, 0.5])))
    order = rng.permutation(n)
    first, second = total(rows, x, y), total(rows, x[order], y[order], pieces)
    assert (first.integers == second.integers).all()


def test_long_sums_are_those_of_python_integers(monkeypatch):
    """Also across the point where float totals are emptied."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (3000, 3)), rng.uniform(-1, 1, 3000)
    rows = row_map(3)
    lattice = lattice_rows_reference(x, y, rows).astype(np.int64).astype(object)
    lattice = lattice[:, [4, 0, 1, 2, 3]]  # the kernel puts the constant last
    monkeypatch.setattr(outer, "_FLUSH", 700)
    monkeypatch.setattr(outer, "PIECE", 256)
    assert (total(rows, x, y).integers == lattice.T @ lattice).all()


def test_the_largest_rows_add_up_exactly():
    """Every number at its limit, and all in one direction."""
    for norm in (1.0, 1.999999, 2.0, 3.9999):
        rows = row_map(1, constant=0.0, norm=norm, joint=False)
        x, y = np.full((5000, 1), 1e9), np.full(5000, 1e9)
        lattice = lattice_rows_reference(x[:1], y[:1], rows).astype(np.int64).astype(object)
        assert (total(rows, x, y).integers == 5000 * (lattice.T @ lattice)).all()
        assert max(abs(int(v)) for v in lattice.ravel()) <= 1 << 16


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_row_exceeds_its_norm(data):
    d = data.draw(st.integers(1, 30))
    norm = data.draw(st.floats(0.01, 20.0))
    joint = data.draw(st.booleans())
    rows = row_map(d, constant=data.draw(st.sampled_from([0.0, 0.5])), norm=norm, joint=joint)
    numbers = st.one_of(st.sampled_from(HOSTILE), st.floats(-2, 2))
    row = np.array(data.draw(st.lists(numbers, min_size=d + 1, max_size=d + 1)))
    with np.errstate(invalid="ignore", over="ignore"):
        found = total(rows, row[None, :-1], row[-1:])
    scale = 4**rows.exponent if rows.exponent >= 0 else 1
    divisor = 4 ** max(0, -rows.exponent)
    diagonal = [int(found.integers[i, i]) for i in range(rows.size)]
    counted = sum(diagonal) if joint else sum(diagonal[:-1])
    assert Fraction(counted * scale, divisor) <= Fraction(norm) ** 2
    if not joint:
        assert Fraction(diagonal[-1] * scale, divisor) <= 1


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize(("joint", "inner"), [(True, math.inf), (True, 0.8), (False, math.inf)])
@pytest.mark.parametrize(("product", "weights"), [
    (math.inf, ()), (0.4, ()), (0.4, (1.0, 0.5, 0.1, 1.0, 0.3)),
])  # fmt: skip
def test_the_kernel_agrees_with_its_twin(kind, joint, inner, product, weights):
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=(200, 5)) * 2).astype(kind), (rng.normal(size=200) * 2).astype(kind)
    rows = dataclasses.replace(
        row_map(5, joint=joint), inner=inner, product=product, weights=weights
    )
    out = np.zeros((200, rows.size))
    unit = math.ldexp(1.0, -rows.exponent)
    compiled(outer._lattice_rows, reassociate=True, unchecked=True)(
        x, y, np.array(rows.middle), 1.0 / np.array(rows.half),
        np.array(rows.weights or (1.0,) * 5), rows.constant, rows.limit,
        min(rows.inner, rows.limit), rows.joint, rows.factor, unit, out,
    )  # fmt: skip
    assert np.abs(out - lattice_rows_reference(x, y, rows)).max() <= 1.0  # the last bit may tie
    assert (out != lattice_rows_reference(x, y, rows)).mean() < 1e-3


def test_rows_whose_response_is_near_are_weighted_by_their_features_alone():
    rows = dataclasses.replace(row_map(2, norm=1.0), inner=0.6)
    x = np.array([[0.9, 0.7]] * 3)
    weights = [total(rows, x[:1], np.array([y])).value()[0, 0] for y in (0.0, 0.3, -0.3)]
    assert weights[0] == weights[1] == weights[2]
    far = total(rows, x[:1], np.array([1.0])).value()
    assert np.trace(far) <= 1.0


def test_rows_keep_their_direction():
    """Row and response are scaled together: the relation between them stays."""
    rows = row_map(2, norm=0.7)
    found = total(rows, np.array([[0.8, -0.4]]), np.array([0.2])).value()
    assert np.allclose(found[1:, 1:] / found[1, 1], np.outer([1, -0.5, 0.25], [1, -0.5, 0.25]),
                       atol=1e-3)  # fmt: skip
    assert np.trace(found) <= 0.49


def test_all_zero_rows_count_as_nothing():
    found = total(row_map(2, constant=0.0), np.zeros((3, 2)), np.zeros(3))
    assert not found.integers.any()


@settings(deadline=None)
@given(st.integers(-(10**18), 10**18), st.sampled_from([1.0, 2.0, 0.3]), st.integers(-30, 10))
def test_rounding_onto_the_grid_is_to_the_nearest(number, weight, exponent):
    found = int(onto_grid(ExactSum(np.array([[number]], object), -20, 3), [(0, 0)], [weight],
                          Grid(exponent)).integers[0])  # fmt: skip
    if abs(found) == 1 << 62:
        return
    step = Fraction(2) ** exponent
    true = Fraction(abs(number), 3) / 2**20 / step
    low, high = abs(found) - Fraction(1, 2), abs(found) + Fraction(1, 2)
    assert max(low, 0) ** 2 <= Fraction(weight) * true**2 <= high**2
    assert number * found >= 0
