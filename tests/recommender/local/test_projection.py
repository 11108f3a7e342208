"""The projection that is never stored: entries, blocks, pseudo-inverse and gradients."""

import numpy as np
from scipy import stats

from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.recommender.local import projection as module
from tacit.recommender.local.projection import Projection, projected_gradients


def test_entries_are_normal_follow_from_the_seed_and_do_not_depend_on_blocks():
    first, again, other = Projection(60, 300, 5), Projection(60, 300, 5), Projection(60, 300, 6)
    whole = first.block(0, 300)
    np.testing.assert_array_equal(whole[:, 100:140], again.block(100, 140))
    assert not np.allclose(whole, other.block(0, 300))
    assert stats.kstest(whole.ravel() * np.sqrt(60), "norm").pvalue > 1e-4
    for axis in (whole, whole.T):
        among = np.corrcoef(axis)[np.triu_indices(len(axis), 1)]
        assert abs(among.mean()) < 0.01 and among.std() < 1.2 / np.sqrt(axis.shape[1])


def test_the_kernel_is_its_plain_form():
    found = Projection(4, 9, 11).block(0, 9) * 2.0
    with np.errstate(over="ignore"):
        plain = [[module._entry(np.uint64(11), s, j) for j in range(9)] for s in range(4)]
    np.testing.assert_allclose(found, plain, rtol=1e-12)


def test_back_is_the_pseudo_inverse(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 37)
    phi = Projection(20, 100, 1)
    x = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_allclose(phi.back(x), np.linalg.pinv(phi.block(0, 100)) @ x, atol=1e-9)


def test_a_coordinate_of_a_projected_gradient():
    rng = np.random.default_rng(2)
    phi = Projection(6, 10, 3)
    starts, items = np.array([0, 3, 3, 7]), np.array([1, 4, 9, 0, 2, 3, 8], np.int32)
    errors, rows, sizes = rng.normal(size=7), np.array([5, 0, 2]), rng.normal(size=3)
    found = projected_gradients(ByMember(starts, items, errors), rows, sizes, phi)
    whole = phi.block(0, 10)
    plain = [-2 * sizes[i] * sum(whole[rows[i], items[k]] * errors[k]
             for k in range(starts[i], starts[i + 1])) for i in range(3)]  # fmt: skip
    np.testing.assert_allclose(found, plain, atol=1e-12)
