"""The power method against exact decompositions."""

import numpy as np
import pytest

from tacit._core.kernels import compiled
from tacit.errors import ParameterError
from tacit.moments.numerics.power import (
    Factored,
    _iterate,
    _iterate_function,
    power_method,
    symmetrise,
)
from tacit.moments.tensor import OrthogonalDecomposition


def orthogonal(size, rank, seed):
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.standard_normal((size, rank)))[0].T
    weights = np.sort(rng.uniform(0.5, 3.0, rank))[::-1]
    return weights, vectors, np.einsum("k,ka,kb,kc->abc", weights, vectors, vectors, vectors)


def check_same(weights, vectors, found_weights, found_vectors, tolerance=1e-7):
    order = np.argsort(-np.asarray(found_weights))
    np.testing.assert_allclose(np.asarray(found_weights)[order], weights, atol=tolerance)
    np.testing.assert_allclose(np.asarray(found_vectors)[order], vectors, atol=tolerance)


@pytest.mark.parametrize(("size", "rank"), [(2, 1), (3, 3), (8, 5), (20, 20)])
def test_orthogonal_tensors_are_decomposed_exactly(size, rank):
    weights, vectors, tensor = orthogonal(size, rank, size)
    rng = np.random.default_rng(0)
    for given in (tensor, Factored(weights, vectors)):
        found = power_method(given, rank, rng)
        check_same(weights, vectors, found.values, found.vectors)


def test_a_function_is_as_good_as_an_array():
    weights, vectors, tensor = orthogonal(6, 3, 1)
    model = OrthogonalDecomposition(3, dimension=6, random_state=0)
    model.fit(lambda batch: np.einsum("abc,nb,nc->na", tensor, batch, batch))
    check_same(weights, vectors, model.weights_, model.components_)


@pytest.mark.parametrize("form", ["array", "factors", "function"])
def test_whitening_finds_components_that_are_not_orthogonal(form):
    rng = np.random.default_rng(2)
    truth = rng.dirichlet(np.ones(7), 4)
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    tensor = np.einsum("k,ka,kb,kc->abc", weights, truth, truth, truth)
    second = np.einsum("k,ka,kb->ab", weights, truth, truth)
    given = {"array": tensor, "factors": (weights, truth), "function": Factored(weights, truth)}
    model = OrthogonalDecomposition(4, random_state=0).fit(given[form], second)
    check_same(weights, truth, model.weights_, model.components_, 1e-6)


def test_the_kernel_and_its_twin_agree():
    rng = np.random.default_rng(3)
    tensor = symmetrise(rng.standard_normal((5, 5, 5)))
    start = rng.standard_normal((4, 5))
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    batch, score = start.copy(), np.empty(4)
    compiled(_iterate, reassociate=True)(tensor, batch, 7, 0.0, score)
    twin, twin_score = _iterate_function(
        lambda u: np.einsum("abc,nb,nc->na", tensor, u, u), start, 7
    )
    np.testing.assert_allclose(batch, twin, atol=1e-9)
    np.testing.assert_allclose(score, twin_score, atol=1e-9)


def test_small_noise_moves_little():
    weights, vectors, tensor = orthogonal(8, 4, 5)
    noise = symmetrise(np.random.default_rng(0).standard_normal((8, 8, 8)))
    found = power_method(tensor + 1e-3 * noise, 4, np.random.default_rng(0))
    check_same(weights, vectors, found.values, found.vectors, 2e-2)


@pytest.mark.parametrize(("tensor", "second", "options", "message"), [
    (np.zeros((2, 2, 3)), None, {}, "shape"),
    (np.arange(8.0).reshape(2, 2, 2), None, {}, "not symmetric"),
    (np.full((2, 2, 2), np.nan), None, {}, "finite"),
    (np.zeros((3, 3, 3)), None, {}, "zero"),
    (np.einsum("a,b,c->abc", *[np.eye(3)[0]] * 3), None, {}, "rank 1"),
    (np.zeros((2, 2, 2)), None, {"rank": 3}, "at most the dimension"),
    (np.einsum("a,b,c->abc", *[np.eye(3)[0]] * 3), np.diag([1.0, 0, 0]), {}, "rank 1"),
    (np.zeros((3, 3, 3)), np.triu(np.ones((3, 3))), {}, "symmetric matrix"),
    (lambda u: u, None, {}, "size must be given"),
    ((np.ones(2), np.ones((3, 3))), None, {}, "factors"),
])  # fmt: skip
def test_bad_tensors_are_refused(tensor, second, options, message):
    model = OrthogonalDecomposition(**{"rank": 2, "random_state": 0, **options})
    with pytest.raises(ParameterError, match=message):
        model.fit(tensor, second)
