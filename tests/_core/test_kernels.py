"""Compiled kernels against their NumPy twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit._core import exact, kernels
from tacit._core.rng import WordStream
from tests.oracles.kernels import (
    round_directions_reference,
    round_scaled_reference,
    square_norms_reference,
    sum_on_grid_reference,
)


@st.composite
def contributions(draw):
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=12))
    number = st.floats(-1e6, 1e6) | st.just(math.nan) | st.sampled_from([0.5, -0.5, 1.5, -1.5])
    rows = draw(hnp.arrays(np.float64, shape, elements=number))
    scales = draw(hnp.arrays(np.float64, shape[0], elements=st.floats(0, 1)))
    return rows, scales, math.ldexp(1.0, draw(st.integers(-10, 20)))


@settings(max_examples=150, deadline=None)
@given(contributions())
def test_sum_on_grid_equals_its_twin(case):
    rows, scales, inverse_grid = case
    out = np.zeros(rows.shape[1], np.int64)
    kernels.sum_on_grid(rows, scales, inverse_grid, out)
    np.testing.assert_array_equal(out, sum_on_grid_reference(rows, scales, inverse_grid))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1000, 3), (3, 1000), (257, 129), (300, 1000)])
def test_sum_on_grid_equals_its_twin_on_larger_arrays(shape, kind):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=shape).astype(kind)
    rows[rng.random(shape) < 0.1] = np.nan
    scales = rng.random(shape[0])
    out = np.zeros(shape[1], np.int64)
    kernels.sum_on_grid(rows, scales, 2.0**20, out)
    np.testing.assert_array_equal(out, sum_on_grid_reference(rows, scales, 2.0**20))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_square_norms_equal_their_twin_and_add_to_what_is_there(kind):
    rows = np.random.default_rng(1).normal(size=(37, 501)).astype(kind)
    rows[3, 4], rows[5, 6], rows[7] = np.nan, np.inf, 1e-30
    out = np.ones(37)
    kernels.square_norms(rows, out)
    np.testing.assert_allclose(out, 1.0 + square_norms_reference(rows), rtol=1e-13)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("one", [False, True])
def test_rounded_directions_equal_their_twin(kind, one):
    rows = np.random.default_rng(1).normal(size=(40, 33)).astype(kind)
    rows[3, 4], rows[5, 6], rows[7] = np.nan, np.inf, 0.0
    out, lengths = np.full((40, 33 + one), 7.0), np.zeros(40)
    kernels.round_directions(rows, one, 2.0**22, out, lengths)
    wanted, norms = round_directions_reference(rows, one, 2.0**22)
    np.testing.assert_allclose(lengths, norms, rtol=1e-14)
    # a number halfway between two may go either way with the last bit of the norm
    assert np.abs(out - wanted).max() <= 1.0 and (out != wanted).mean() < 0.001


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rounded_rows_equal_their_twin(kind):
    rng = np.random.default_rng(1)
    rows, factors = rng.normal(size=(40, 33)).astype(kind), 100.0 * rng.random(40)
    rows[3, 4], rows[5, 6], factors[[3, 5, 7]] = np.nan, np.inf, 0.0
    out = np.full((40, 33), 7.0)
    kernels.round_scaled(rows, factors, out)
    np.testing.assert_array_equal(out, round_scaled_reference(rows, factors))


def test_sum_on_grid_adds_to_what_is_there():
    out = np.array([10], np.int64)
    kernels.sum_on_grid(np.array([[2.0], [3.0]]), np.ones(2), 1.0, out)
    assert out.tolist() == [15]


def test_infinite_rows_with_factor_zero_count_as_zero():
    """What `clip_factors` does to a row that is not finite."""
    out = np.zeros(2, np.int64)
    kernels.sum_on_grid(np.array([[np.inf, 1.0], [4.0, -np.inf]]), np.zeros(2), 1.0, out)
    assert out.tolist() == [0, 0]


def test_compiled_kernels_equal_their_own_source():
    """Numba and Python agree on what the code means (also for unsigned words)."""
    law = exact.half_normal()
    words = WordStream(1).words(300)
    words[:3] = 0, 2**64 - 1, int(law._high[700]) << 1  # both ends, and a bin edge
    results = []
    for kernel in (kernels._invert_words, kernels.compiled(kernels._invert_words)):
        out, unsure = np.zeros(words.size, np.int64), np.zeros(words.size, np.int64)
        pending = kernel(
            words, law._high, *law._tilt, law._curvature, law.width, law._guide,
            1000.0, 0.5, True, out, unsure,
        )  # fmt: skip
        assert pending >= 3
        results.append((pending, out, unsure))
    for source, machine in zip(*results, strict=True):
        np.testing.assert_array_equal(source, machine)

    rows = np.random.default_rng(1).normal(size=(20, 3))
    rows[3, 1] = np.nan
    sums = np.zeros((2, 3), np.int64)
    kernels._sum_on_grid(rows, np.ones(20), 1024.0, sums[0])
    kernels.sum_on_grid(rows, np.ones(20), 1024.0, sums[1])
    np.testing.assert_array_equal(sums[0], sums[1])


def test_a_kernel_is_compiled_once():
    assert kernels.compiled(kernels._sum_on_grid) is kernels.compiled(kernels._sum_on_grid)
