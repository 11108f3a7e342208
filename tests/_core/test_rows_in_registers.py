"""Row products in registers agree with NumPy, for every width."""

import numpy as np
import pytest
from numba import njit

from tacit._core.rng import generator
from tacit._core.rows_in_registers import (
    LANES,
    add_product,
    add_product_twice,
    add_row,
    dot,
    padded,
    product_dot,
)


@njit
def _all(x, y, z, i, j, k, scale):
    simple = dot(x, i, y, j)
    triple = product_dot(x, i, y, j, z, k)
    first, second = x.copy(), x.copy()
    add_row(first, i, y, j, scale)
    add_product(second, i, y, j, z, k, scale)
    both = x.copy()
    add_product_twice(both, y, j, z, k, scale, 1.0 - scale)
    return simple, triple, first, second, both


@pytest.mark.parametrize("width", [1, 3, 4, 5, 8, 10, 33])
def test_they_agree_with_numpy(width):
    rng = generator(width)
    tables = [rng.normal(size=(rows, width)) for rows in (4, 5, 6)]
    x, y, z = (padded(table) for table in tables)
    simple, triple, first, second, both = _all(x, y, z, 3, 4, 2, 0.7)
    np.testing.assert_allclose(simple, x[3] @ y[4], rtol=1e-13)
    np.testing.assert_allclose(triple, (x[3] * y[4]) @ z[2], rtol=1e-12, atol=1e-14)
    expected = x.copy()
    expected[3] += 0.7 * y[4]
    np.testing.assert_allclose(first, expected, rtol=1e-13, atol=1e-15)
    expected = x.copy()
    expected[3] += 0.7 * y[4] * z[2]
    np.testing.assert_allclose(second, expected, rtol=1e-13, atol=1e-15)
    expected = x.copy()
    expected[:2] += np.outer([0.7, 0.3], y[4] * z[2])
    np.testing.assert_allclose(both, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("width", range(1, 10))
def test_padding_adds_zeros_up_to_whole_registers(width):
    table = np.ones((3, width))
    wide = padded(table)
    assert wide.shape[1] % LANES == 0
    assert wide.flags.c_contiguous
    assert wide.sum() == table.sum()
    assert (wide is table) == (width % LANES == 0)


def test_other_tables_are_refused_at_compilation():
    @njit
    def wrong(x, y):
        return dot(x, 0, y, 0)

    with pytest.raises(Exception, match="dot"):
        wrong(np.ones((2, 4), np.float32), np.ones((2, 4)))
    with pytest.raises(Exception, match="dot"):
        wrong(np.ones((4, 4)).T, np.ones((2, 4)))
