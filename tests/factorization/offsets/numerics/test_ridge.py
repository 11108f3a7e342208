"""Members' regressions, scaled messages, pattern features and shrinkage, against plain NumPy."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import Relation
from tacit.factorization.offsets.numerics.contributions import (
    LATTICE,
    isometric,
    lattice_gram,
    message_scales,
    sum_messages,
)
from tacit.factorization.offsets.numerics.pattern import (
    edge_of_chance,
    pattern_basis,
    pattern_features,
    pattern_product,
    pattern_sums,
    standing_out,
    trace_seen,
)
from tacit.factorization.offsets.numerics.ridge import (
    NEVER,
    averaged_rows,
    by_member,
    choose_penalties,
    leave_one_out,
    residuals,
    ridge_rows,
)
from tacit.factorization.offsets.numerics.shrinkage import (
    eigen_features,
    scaled_columns,
    shrink,
    spread_of_items,
)


def some(seed=0, members=7, items=5, share=0.6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(members, items))
    x[rng.random(x.shape) > share] = np.nan
    x[2] = np.nan  # a member without any cell
    return x, by_member(Relation.from_dense(("user", "item"), x), "user")


@pytest.mark.parametrize("entity", ["user", "item"])
def test_cells_are_sorted_by_the_members_of_either_entity(entity):
    x, _ = some()
    cells = by_member(Relation.from_dense(("user", "item"), x), entity)
    table = x if entity == "user" else x.T
    assert cells.members == len(table)
    for i, row in enumerate(table):
        here = slice(cells.starts[i], cells.starts[i + 1])
        np.testing.assert_array_equal(cells.items[here], np.flatnonzero(np.isfinite(row)))
        np.testing.assert_array_equal(cells.values[here], row[np.isfinite(row)])
    np.testing.assert_allclose(cells.sums(cells.values), np.nansum(table, axis=1))


def test_some_members_bring_their_own_cells():
    x, cells = some()
    kept = np.array([1, 2, 5])
    expected = by_member(Relation.from_dense(("user", "item"), x[kept]), "user")
    for found, plain in zip(cells.of(kept), expected, strict=True):
        np.testing.assert_array_equal(found, plain)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_parts_hold_every_member_once(size):
    x, cells = some()
    parts = list(cells.parts(size))
    assert [first for first, _ in parts] == [0, *(last for _, last in parts[:-1])]
    assert parts[-1][1] == cells.members
    found = [cells.between(*part) for part in parts]
    np.testing.assert_array_equal(np.concatenate([one.values for one in found]), cells.values)
    for (first, last), one in zip(parts, found, strict=True):
        np.testing.assert_array_equal(one.sums(one.values), np.nansum(x, axis=1)[first:last])
    nobody = cells.between(0, 0)
    assert list(nobody.parts(size)) == [(0, 0)] and nobody.members == 0


def test_residuals_are_what_rows_leave():
    _, cells = some()
    rng = np.random.default_rng(1)
    features, rows = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    plain = cells.values - (rows[cells.owners] * features[cells.items]).sum(axis=1)
    np.testing.assert_allclose(residuals(cells, features, rows), plain, atol=1e-12)


def test_ridge_rows_are_ridge_regressions():
    x, cells = some()
    features = np.random.default_rng(1).normal(size=(5, 3))
    penalties = np.array([0.5, 2.0, NEVER])
    rows = ridge_rows(cells, features, penalties)
    for i, row in enumerate(x):
        f, y = features[np.isfinite(row)], row[np.isfinite(row)]
        expected = np.linalg.solve(f.T @ f + np.diag(penalties), f.T @ y)
        np.testing.assert_allclose(rows[i], expected, atol=1e-10)


def test_leaving_one_out_is_refitting_without_it():
    x, cells = some(3)
    features = np.random.default_rng(1).normal(size=(5, 2))
    penalties = np.array([[0.5, 0.5], [3.0, 1.0]])
    members = np.flatnonzero(np.diff(cells.starts) > 1)
    expected = np.zeros(2)
    for p, penalty in enumerate(penalties):
        for i in members:
            seen = np.flatnonzero(np.isfinite(x[i]))
            for j in seen:
                f, y = features[seen[seen != j]], x[i, seen[seen != j]]
                w = np.linalg.solve(f.T @ f + np.diag(penalty), f.T @ y)
                expected[p] += (x[i, j] - features[j] @ w) ** 2
    np.testing.assert_allclose(leave_one_out(cells, members, features, penalties), expected)


def test_features_that_say_nothing_are_left_out_and_those_that_do_are_used():
    rng = np.random.default_rng(4)
    features = np.column_stack([np.ones(40), rng.normal(size=(40, 2)), rng.normal(size=(40, 2))])
    taste = rng.normal(size=(200, 2))
    x = taste @ features[:, 1:3].T + rng.normal(size=(200, 1)) + 0.5 * rng.normal(size=(200, 40))
    x[rng.random(x.shape) > 0.5] = np.nan
    cells = by_member(Relation.from_dense(("user", "item"), x), "user")
    penalties = choose_penalties(cells, features, np.array([0, 1, 1, 2, 2]))
    assert penalties[1] == penalties[2] < 50.0
    assert penalties[3] == penalties[4] > 100.0


def test_without_cells_only_an_offset_is_left():
    cells = by_member(
        Relation.from_cells(("user", "item"), np.empty((0, 2), int), [], shape=(3, 4)), "user"
    )
    penalties = choose_penalties(cells, np.ones((4, 3)), np.array([0, 1, 2]))
    assert penalties[0] < 10.0 and (penalties[1:] == NEVER).all()
    assert (ridge_rows(cells, np.ones((4, 3)), penalties) == 0.0).all()


def sum_messages_reference(items, size, left, right, which, scales, inverse_grid):
    """NumPy twin of `sum_messages`."""
    tables = (scales[:, None] * left * inverse_grid)[:, :, None] * right[which][:, None, :]
    rounded = np.floor(tables + 0.5).astype(np.int64).reshape(len(items), -1)
    out = np.zeros((size, rounded.shape[1]), np.int64)
    np.add.at(out, items, rounded)
    return out


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), a=st.integers(1, 3), b=st.integers(1, 4))
def test_messages_are_those_of_the_twin_and_no_member_exceeds_one(seed, a, b):
    rng = np.random.default_rng(seed)
    _, cells = some(seed % 50)
    count = len(cells.items)
    left = rng.normal(size=(count, a)) * 10.0 ** rng.integers(-3, 4)
    right = rng.normal(size=(cells.members, b)) * 10.0 ** rng.integers(-3, 4)
    scales = message_scales(cells, left, right, cells.owners, 0.5)
    both = [
        f(cells.items, 5, left, right, cells.owners, scales, 2.0**20)
        for f in (sum_messages, sum_messages_reference)
    ]
    np.testing.assert_array_equal(*both)
    parts = (scales[:, None] * left)[:, :, None] * right[cells.owners][:, None, :]
    assert (np.sqrt(cells.sums((parts**2).sum(axis=(1, 2)))) <= 1.0).all()


def test_a_number_that_is_none_counts_as_nothing():
    _, cells = some()
    left = np.ones((len(cells.items), 1))
    left[0] = np.nan
    scales = np.ones(len(left))
    total = sum_messages(cells.items, 5, left, np.ones((1, 1)), cells.owners * 0, scales, 1.0)
    assert total.sum() == len(left) - 1


def test_a_gram_on_the_lattice_is_exact_and_bounded():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(400, 30))
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True)) * (1.0 + 1e-9)
    total = lattice_gram(rows)
    shuffled = sum(lattice_gram(part) for part in np.array_split(rows[rng.permutation(400)], 7))
    np.testing.assert_array_equal(total, shuffled)  # in whatever order, bit for bit
    np.testing.assert_allclose(np.ldexp(total, LATTICE), rows.T @ rows, atol=400 * 2.0**-13)
    for row in rows[:50]:
        assert np.linalg.norm(np.ldexp(lattice_gram(row[None]), LATTICE)) <= 1.0


def test_a_gram_of_more_rows_than_a_float_holds_is_exact():
    once = np.zeros((1, 2))
    once[0] = 0.99, 0.1
    one, many = lattice_gram(once), 3 << 21  # 2^23 rows were the most before
    np.testing.assert_array_equal(lattice_gram(np.repeat(once, many, axis=0)), many * one)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-(2**62) + 1, 2**62 - 1), min_size=1, max_size=6),
    st.integers(-50, 90),
    st.booleans(),
)
def test_coordinates_of_whole_sums_are_rounded_exactly(numbers, shift, wide):
    steps = np.array(numbers, object if wide else np.int64)
    twice = np.arange(len(steps)) % 2 == 1
    found = isometric(steps, twice, shift)
    for x, root, y in zip(numbers, twice, found.tolist(), strict=True):
        factor = Fraction(math.isqrt(1 << 61), 1 << 30) if root else Fraction(1)
        assert y == math.floor(x * factor / Fraction(2) ** shift + Fraction(1, 2))


def product(cells, counts, block):
    (sums,) = pattern_sums(cells, counts, block)
    return pattern_product(sums, counts)


def test_the_pattern_gives_the_same_bits_on_any_number_of_threads(monkeypatch):
    from tacit.factorization.offsets.numerics import pattern

    _, cells = some(members=40, items=9)
    rng = np.random.default_rng(0)
    counts = np.bincount(cells.items, minlength=9)
    block = np.linalg.qr(rng.normal(size=(9, 5)))[0]
    (expected,) = pattern_sums(cells, counts, block)
    monkeypatch.setattr(pattern, "_FEW", 0)
    for workers in ("1", "3"):
        monkeypatch.setenv("TACIT_NUM_THREADS", workers)
        found = pattern_sums(cells, counts, block)
        assert len(found) == int(workers)
        np.testing.assert_array_equal(sum(found), expected)


def test_pattern_features_are_singular_vectors_of_the_pattern_over_any_sites():
    rng = np.random.default_rng(6)
    pattern = rng.random((60, 25)) < rng.random(25) * rng.random((60, 1))
    pattern[:30, :10] |= rng.random((30, 10)) < 0.5
    parts = [
        by_member(Relation.from_dense(("u", "i"), np.where(p, 1.0, np.nan)), "u")
        for p in (pattern[:20], pattern[20:])
    ]
    counts = sum(np.bincount(part.items, minlength=25) for part in parts)
    np.testing.assert_array_equal(counts, pattern.sum(axis=0))
    basis = pattern_basis(counts, rng.normal(size=(25, 12)))
    for _ in range(60):
        basis = pattern_basis(counts, sum(product(p, counts, basis) for p in parts))
    found = pattern_features(basis, sum(product(p, counts, basis) for p in parts), 3)
    sizes = np.maximum(pattern.sum(axis=1, keepdims=True), 1)
    scaled = pattern / np.sqrt(sizes) / np.sqrt(np.maximum(counts, 1))
    _, lengths, right = np.linalg.svd(scaled)
    assert lengths[0] == pytest.approx(1.0)
    for k in range(3):
        expected = right[k + 1] * 5.0 * lengths[k + 1] / lengths[1]
        assert abs(found[:, k] @ expected) == pytest.approx(expected @ expected, rel=1e-3)


@pytest.mark.parametrize(
    ("members", "items", "each"), [(400, 150, 20), (1500, 60, 8), (80, 900, 60)]
)
@pytest.mark.parametrize("communities", [1, 4])
def test_features_beyond_chance_are_counted(members, items, each, communities):
    rng = np.random.default_rng(items)
    popular = rng.pareto(2.0, items) + 0.2
    ours, theirs = rng.integers(0, communities, members), rng.integers(0, communities, items)
    pattern = np.full((members, items), np.nan)
    for i in range(members):
        chances = popular * np.where(theirs == ours[i], 12.0, 1.0)
        pattern[i, rng.choice(items, each, replace=False, p=chances / chances.sum())] = 1.0
    cells = by_member(Relation.from_dense(("u", "i"), pattern), "u")
    counts = np.bincount(cells.items, minlength=items).astype(float)
    basis = pattern_basis(counts, rng.standard_normal((items, 30)))
    found = product(cells, counts, basis)
    edge = edge_of_chance(trace_seen(basis, found), counts)
    for _ in range(5):
        basis = pattern_basis(counts, found)
        found = product(cells, counts, basis)
    assert standing_out(basis, found, edge) == communities - 1


def test_shrinkage_is_the_posterior_mean_under_the_most_likely_spread():
    rng = np.random.default_rng(7)
    weights = rng.integers(1, 80, 3000).astype(float)
    truth = rng.normal(0.0, 0.4, 3000)
    sums = weights * truth + rng.normal(size=3000) * np.sqrt(weights * 0.8 + 25.0)
    assert spread_of_items(sums, weights, 25.0, 0.8) == pytest.approx(0.16, rel=0.2)
    found = shrink(sums, weights, 25.0, 0.8)
    best = np.inf
    for factor in (0.7, 0.9, 1.0, 1.1, 1.3):
        error = np.mean((factor * found - truth) ** 2)
        if error < best:
            best, at = error, factor
    assert 0.9 <= at <= 1.1
    columns = shrink(np.column_stack([sums, sums]), weights, 25.0, 0.8)
    np.testing.assert_allclose(columns[:, 0], found, rtol=1e-12)


def test_a_covariance_gives_its_directions_back():
    rng = np.random.default_rng(8)
    direction = rng.normal(size=(40, 2))
    noise = rng.normal(size=(40, 40))
    matrix = 30.0 * direction @ direction.T + (noise + noise.T) / 2.0
    matrix += np.diag(rng.uniform(0, 200, 40))  # every row's own noise
    found = eigen_features(matrix, 2, 1.0)
    left = np.linalg.qr(direction)[0]
    assert np.linalg.norm(left.T @ np.linalg.qr(found)[0]) == pytest.approx(np.sqrt(2), rel=0.02)


def test_columns_are_orthogonal_and_the_first_has_size_one():
    rows = np.random.default_rng(9).normal(size=(50, 4))
    found = scaled_columns(rows, 50)
    gram = found.T @ found
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0.0, atol=1e-9)
    assert gram[0, 0] == pytest.approx(50.0) and (np.diff(np.diag(gram)) <= 0).all()


def test_averaged_rows_weigh_penalties_by_each_member_s_own_errors():
    x, cells = some(4, members=6, items=8, share=0.9)
    features = np.random.default_rng(5).normal(size=(8, 2))
    penalties = np.array([[0.5, 0.5], [2.0, 2.0], [2.0, NEVER]])
    found = averaged_rows(cells, features, penalties, 0.7)
    for i in range(6):
        errors = leave_one_out(cells, np.array([i]), features, penalties)
        shares = np.exp(-(errors - errors.min()) / 1.4)
        rows = [ridge_rows(cells, features, p)[i] for p in penalties]
        np.testing.assert_allclose(found[i], shares / shares.sum() @ rows, atol=1e-12)
    # nothing is pooled: another member's cells change nothing
    x[0] += 3.0
    other = by_member(Relation.from_dense(("user", "item"), x), "user")
    np.testing.assert_array_equal(averaged_rows(other, features, penalties, 0.7)[1:], found[1:])


def test_features_of_a_whole_pattern_are_its_singular_vectors():
    _, cells = some(6, members=60, items=12, share=0.4)
    counts = np.bincount(cells.items, minlength=12)
    basis = pattern_basis(counts, np.random.default_rng(0).standard_normal((12, 11)))
    for _ in range(6):
        basis = pattern_basis(counts, product(cells, counts, basis))
    found = pattern_features(basis, product(cells, counts, basis), 3)
    pattern = np.zeros((60, 12))
    pattern[cells.owners, cells.items] = 1.0
    rows, columns = np.maximum(pattern.sum(axis=1), 1), np.maximum(pattern.sum(axis=0), 1)
    _, _, right = np.linalg.svd(pattern / np.sqrt(rows)[:, None] / np.sqrt(columns))
    lengths = np.linalg.norm(found, axis=0)
    inner = np.abs((found / lengths).T @ right[1:4].T)
    np.testing.assert_allclose(np.diag(inner), 1.0, atol=0.02)
