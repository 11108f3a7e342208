"""Rows from arrays of any kind: the same numbers, or a clear error to the holder."""

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.regression.outer import OuterSum, RowMap
from tacit.regression.rows import check_piece, row_pieces

X = np.array([[1, 2], [3, 4], [5, 7]])
Y = np.array([1, 0, 2])
ROWS = RowMap((4.0, 4.0, 1.0), (4.0, 4.0, 2.0), constant=0.5, norm=1.3)


def total(x, y):
    added = OuterSum(ROWS)
    for part in row_pieces((x, y), 2):
        added.add(*part)
    return added.result().value()


@pytest.mark.parametrize("kind", [
    "u1", "i2", "i8", "u8", "f2", "f4", "f8", "g", ">f8", ">i4", ">f4", object,
])  # fmt: skip
def test_every_kind_of_number_gives_the_same_sums(kind):
    assert np.array_equal(total(X.astype(kind), Y.astype(kind)), total(X.astype(float), Y))
    assert np.array_equal(total(np.asfortranarray(X.astype(kind)), Y[:, None]), total(X, Y))


def test_what_is_masked_is_missing():
    masked = np.ma.masked_array(X, mask=X == 4)
    ((x, y),) = row_pieces((masked, Y), 2)
    with pytest.raises(ParameterError, match="row 1 has no finite value of b"):
        check_piece(x, y, 0, ("a", "b"))


@pytest.mark.parametrize("x", [
    X + 0j, X.astype("m8[s]"), X.astype("M8[s]"), X.astype(str), [[1, 2], [3], [4, 5]],
    np.array([[1, 2], [3, "a name"], [4, 5]], object), np.array([[1, 10**400]] * 3, object), X[0],
], ids=["complex", "span", "date", "text", "ragged", "mixed", "huge", "one axis"])  # fmt: skip
def test_what_holds_no_numbers_is_refused_without_quoting_it(x):
    with pytest.raises(ParameterError) as refused:
        list(row_pieces((x, Y), 2))
    assert "a name" not in str(refused.value)


def test_a_sparse_matrix_is_refused():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ParameterError, match="must hold numbers"):
        list(row_pieces((sparse.csr_matrix(X), Y), 2))
