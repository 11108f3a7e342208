"""Moments against their definition, and what whitening makes of them."""

import itertools

import numpy as np
import pytest

from tacit.data.documents import Documents
from tacit.errors import ParameterError
from tacit.moments.numerics.gaussians import gaussian_moments
from tacit.moments.numerics.samples import SampleMoments
from tacit.moments.numerics.sums import SHRINK, DocumentMoments, entry_weights
from tacit.moments.numerics.whitening import noise_edge, onto_simplex, spread, whiten


def by_definition(counts):
    """Average over all ordered pairs and triples of different positions."""
    size = counts.shape[1]
    second, third = np.zeros((size,) * 2), np.zeros((size,) * 3)
    for row in counts:
        words = np.repeat(np.arange(size), row)
        length = len(words)
        if length < 3:
            continue
        for i, j in itertools.permutations(range(length), 2):
            second[words[i], words[j]] += 1 / (length * (length - 1))
        for i, j, k in itertools.permutations(range(length), 3):
            third[words[i], words[j], words[k]] += 1 / (length * (length - 1) * (length - 2))
    return second, third


def values(integers, exponent=-36):
    return np.ldexp(np.asarray(integers, dtype=np.float64), exponent)


@pytest.mark.parametrize("seed", range(4))
def test_documents_against_the_definition(seed):
    rng = np.random.default_rng(seed)
    size, rank = rng.integers(4, 8), rng.integers(1, 4)
    counts = rng.poisson(1.2, (30, size))
    second, third = by_definition(counts)
    moments = DocumentMoments(Documents.read(counts))
    np.testing.assert_allclose(values(moments.rows(0, size)), second, atol=1e-8)
    np.testing.assert_array_equal(moments.rows(2, 4), moments.rows(0, size)[2:4, 2:])
    np.testing.assert_allclose(spread(values(moments.whole_third()), size), third, atol=1e-8)
    basis = np.linalg.qr(rng.standard_normal((size, rank)))[0]
    projected = np.einsum("abc,ai,bj,ck->ijk", third, basis, basis, basis)
    found = spread(values(moments.third(basis)) / SHRINK, rank)
    np.testing.assert_allclose(found, projected, atol=1e-7)


def test_samples_against_the_definition():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((500, 4))
    moments = SampleMoments(samples, 2.0, 0.25)
    z = (samples - 0.25) / 2.0
    z *= np.minimum(1.0, 1.0 / np.linalg.norm(z, axis=1))[:, None]
    whole = np.column_stack([np.full(500, 0.5), z])
    np.testing.assert_allclose(values(moments.rows(0, 5), -30), whole.T @ whole, atol=5e-3)
    basis = np.linalg.qr(rng.standard_normal((4, 2)))[0]
    y = z @ basis
    found = spread(values(moments.third(basis)) / SHRINK, 2)
    np.testing.assert_allclose(found, np.einsum("na,nb,nc->abc", y, y, y), atol=5e-3)


def test_coordinates_keep_the_norm():
    rng = np.random.default_rng(0)
    entries = rng.standard_normal(20)  # a ≤ b ≤ c in 4 dimensions
    tensor = spread(entries, 4)
    for order in itertools.permutations(range(3)):
        np.testing.assert_array_equal(tensor, tensor.transpose(order))
    assert np.linalg.norm(tensor) == pytest.approx(np.linalg.norm(entries * entry_weights(4)))


def test_projected_noise_has_the_law_of_small_noise():
    """Sym(G)(U, U, U) for D = 6, K = 3: coordinates are independent with the same variance."""
    rng = np.random.default_rng(0)
    size, rank = 6, 3
    basis = np.linalg.qr(rng.standard_normal((size, rank)))[0]
    columns = []
    for unit in np.eye(56):  # every coordinate of symmetric 6 × 6 × 6 tensors
        tensor = spread(unit / entry_weights(size), size)
        small = np.einsum("abc,ai,bj,ck->ijk", tensor, basis, basis, basis)
        index = np.array(list(itertools.combinations_with_replacement(range(rank), 3))).T
        columns.append(small[tuple(index)] * entry_weights(rank))
    mapping = np.array(columns).T  # 10 × 56: noise N(0, τ²I) becomes N(0, τ²·M·Mᵀ)
    np.testing.assert_allclose(mapping @ mapping.T, np.eye(10), atol=1e-12)


def test_the_edge_is_where_noise_ends_and_levels_are_what_is_left_in_the_subspace():
    rng = np.random.default_rng(0)
    size, sd = 400, 2.0
    noise = rng.standard_normal((size, size)) * sd
    noise = (noise + noise.T) / 2.0
    edge = noise_edge(sd, size)
    assert np.linalg.eigvalsh(noise)[-1] == pytest.approx(edge, rel=0.04)
    direction = np.linalg.qr(rng.standard_normal((size, 1)))[0]
    signal = 0.9 * edge * direction @ direction.T
    found, vectors = np.linalg.eigh(signal + noise)
    white = whiten(found[-1:], vectors[:, -1:], edge)
    inside = float((vectors[:, -1] @ signal @ vectors[:, -1]).item())
    assert white.values[0] > edge
    assert np.sqrt(white.values[0] ** 2 - edge**2) == pytest.approx(inside, rel=0.15)


def test_hidden_directions_whiten_with_the_floor_and_add_nothing_to_components():
    values, basis = np.array([5.0, 2.0, -4.0]), np.eye(4)[:, :3]
    white = whiten(values, basis, 3.0)
    np.testing.assert_allclose(white.levels, [4.0, 3.0, 3.0])
    np.testing.assert_allclose(white.inside, [4.0, 0.0, 0.0])
    assert white.hidden == 2
    found = white.components(np.array([0.5]), np.full((1, 3), np.sqrt(1 / 3)))
    np.testing.assert_allclose(found, [[0.5 * 2.0 * np.sqrt(1 / 3), 0, 0, 0]])


def test_simplex_projection_is_the_nearest_point():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 6))
    found = onto_simplex(rows)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert (found >= 0.0).all()
    others = rng.dirichlet(np.ones(6), (50, 200))
    gaps = np.linalg.norm(others - rows[:, None], axis=2).min(axis=1)
    assert (np.linalg.norm(found - rows, axis=1) <= gaps + 1e-12).all()


def test_spherical_moments_of_an_exact_mixture():
    rng = np.random.default_rng(1)
    means, weights, variance = rng.standard_normal((3, 6)), np.array([0.5, 0.3, 0.2]), 0.4
    count, mean = 1000.0, weights @ means
    square = np.einsum("k,ka,kb->ab", weights, means, means) + variance * np.eye(6)
    matrix = np.block([[np.array([[0.25]]), 0.5 * mean[None]], [0.5 * mean[:, None], square]])
    found = gaussian_moments(count * matrix, 3)
    assert found.variance == pytest.approx(variance)
    placed = variance * np.einsum("a,bc->abc", mean, np.eye(6))
    third = np.einsum("k,ka,kb,kc->abc", weights, means, means, means)
    third += placed + placed.transpose(1, 0, 2) + placed.transpose(1, 2, 0)
    u = found.basis
    inside = np.einsum("abc,ai,bj,ck->ijk", count * third, u, u, u)
    m = means @ u
    exact = count * np.einsum("k,ka,kb,kc->abc", weights, m, m, m)
    np.testing.assert_allclose(found.corrected(inside), exact, atol=1e-9)


@pytest.mark.parametrize(("documents", "vocabulary", "message"), [
    ([[0, 1, 5]], 3, "0 … 2"), ([[0, -1, 1]], 3, "0 … 2"), ([[0.5, 1.0]], 3, "whole"),
    ([[0, 1, 2]], None, "vocabulary must be given"), ([], 3, "no documents"),
    (np.array([[1, -1, 3]]), None, "negative"), (np.array([[0.5, 1, 1]]), None, "whole numbers"),
    (np.array([[np.nan, 1.0]]), None, "finite"), (np.ones((2, 3), int), 4, "vocabulary has 4"),
    (np.zeros((0, 4), int), None, "no documents"), ("abc", 3, "no such file"),
    (np.array([["a"]]), None, "numbers"), (np.array([[2**20, 1, 1]]), None, "split it"),
])  # fmt: skip
def test_bad_documents_are_refused(documents, vocabulary, message):
    with pytest.raises(ParameterError, match=message):
        Documents.read(documents, vocabulary)


def test_all_forms_of_documents_are_one():
    from scipy.sparse import coo_array, csc_array

    words = [[0, 2, 2], [], [1, 1, 0, 2]]
    table = np.array([[1, 0, 2], [0, 0, 0], [1, 2, 1]])
    twice = coo_array(([1, 1, 1, 1, 1, 1, 1], ([0, 0, 0, 2, 2, 2, 2], [0, 2, 2, 0, 1, 1, 2])))
    forms = [words, table, table.astype(float), csc_array(table), twice, [table[:1], table[1:]],
             (part for part in (table[:2], table[2:])), Documents.read(table)]  # fmt: skip
    for form in forms:
        found = Documents.read(form, 3)
        for part in ("starts", "words", "counts"):
            np.testing.assert_array_equal(
                getattr(found, part), getattr(Documents.read(table), part)
            )
    assert Documents.read(table)[1:3].lengths.tolist() == [0, 4]
