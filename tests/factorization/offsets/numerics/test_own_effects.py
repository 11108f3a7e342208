"""What members' own cells say: equal to a dense regression, never worse than own means."""

import numpy as np
import pytest

from tacit.factorization.offsets.numerics import own_effects
from tacit.factorization.offsets.numerics.own_model import OwnModel, Seen
from tacit.factorization.offsets.numerics.ridge import NEVER

SIZES = (12, 5, 4)


def cells(rng, share=0.5, sizes=SIZES):
    return np.argwhere(rng.random(sizes) < share).astype(np.int32)


def seen(index, values, base=None, features=None, sizes=SIZES, **more):
    base = np.zeros(len(index)) if base is None else base
    features = np.zeros((len(index), 0)) if features is None else features
    return Seen(index, sizes, 0, values, base, features, **more)


def design(index, features):
    """Return the dense table of one member's columns, and the kind of effect of each."""
    columns, kinds = [np.ones(len(index))], [0]
    for kind, mode in ((1, 1), (2, 2)):
        for j in np.unique(index[:, mode]):
            columns.append((index[:, mode] == j).astype(float))
            kinds.append(kind)
    return np.column_stack([*columns, features]), np.array([*kinds, *[3] * features.shape[1]])


def fitted_with(monkeypatch, penalties, common, found):
    """Return a model whose penalties are given rather than chosen."""
    monkeypatch.setattr(own_effects, "_choose", lambda _: (np.array(penalties), np.array(common)))
    return OwnModel({"x": found})


def test_effects_are_those_of_a_dense_ridge_regression(monkeypatch):
    rng = np.random.default_rng(0)
    index = cells(rng)
    values, base = rng.normal(size=len(index)), rng.normal(size=len(index))
    features = rng.normal(size=(len(index), 2))
    features /= np.sqrt(np.mean(features**2))
    penalties = np.array([2.0, 0.3, 5.0, 1.5])
    found = seen(index, values, base, features)
    model = fitted_with(monkeypatch, penalties, [0.7, 0.2], found)
    for i in range(SIZES[0]):
        own = index[:, 0] == i
        table, kinds = design(index[own], features[own])
        rest = values[own] - 0.2 - 0.7 * base[own]
        gram = table.T @ table + np.diag(penalties[kinds])
        expected = 0.2 + 0.7 * base[own] + table @ np.linalg.solve(gram, table.T @ rest)
        told = model.predict("x", index[own], base[own], features[own])
        np.testing.assert_allclose(told, expected, rtol=1e-6, atol=1e-7)


def test_leaving_a_cell_out_equals_a_fit_without_it():
    rng = np.random.default_rng(1)
    index = cells(rng, 0.6, (1, 5, 4))
    values, features = rng.normal(size=len(index)), rng.normal(size=(len(index), 2))
    sample = []
    captured = own_effects._sample

    def remember(found):
        sample.extend(captured(found))
        return sample

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_effects, "_sample", remember)
        OwnModel({"x": seen(index, values, features=features, sizes=(1, 5, 4))})
    penalties = np.array([1.0, 0.5, NEVER, 2.0])
    left = own_effects._left_out(sample, penalties)[:, 0]
    table, kinds = design(index, features / np.sqrt(np.mean(features**2)))
    for k in range(len(index)):
        rest = np.arange(len(index)) != k
        gram = table[rest].T @ table[rest] + np.diag(penalties[kinds])
        expected = values[k] - table[k] @ np.linalg.solve(gram, table[rest].T @ values[rest])
        np.testing.assert_allclose(left[k], expected, rtol=1e-8, atol=1e-9)


def halves(rng, sizes, make):
    """Return training and held-out cells of a simulated tensor, with their values."""
    index = cells(rng, 0.5, sizes)
    values = make(index)
    held = rng.random(len(index)) < 0.3
    return index[~held], values[~held], index[held], values[held]


def own_mean(index, values, at, members):
    counts = np.bincount(index[:, 0], minlength=members)
    centre = values.mean()
    return centre + np.bincount(index[:, 0], values - centre, members)[at[:, 0]] / (
        counts[at[:, 0]] + 2.0
    )


def test_members_at_one_place_are_alike_and_that_is_used():
    rng = np.random.default_rng(2)
    sizes = (60, 6, 4)
    effect = rng.normal(size=sizes[:2])
    train, x, test, y = halves(
        rng, sizes, lambda c: effect[c[:, 0], c[:, 1]] + 0.1 * rng.normal(size=len(c))
    )
    model = OwnModel({"x": seen(train, x, sizes=sizes)})
    ours = np.mean((model.predict("x", test, np.zeros(len(test))) - y) ** 2)
    assert ours < 0.5 * np.mean((own_mean(train, x, test, 60) - y) ** 2)


@pytest.mark.parametrize("seed", range(3))
def test_released_numbers_that_are_noise_do_no_harm(seed):
    rng = np.random.default_rng(seed)
    sizes = (40, 6, 4)
    offset = rng.normal(size=40)
    train, x, test, y = halves(rng, sizes, lambda c: offset[c[:, 0]] + rng.normal(size=len(c)))
    noise = rng.normal(0, 3, (2, 6, 4))
    told = [
        (noise[0][tuple(c[:, 1:].T)], noise[1][tuple(c[:, 1:].T)][:, None]) for c in (train, test)
    ]
    model = OwnModel({"x": seen(train, x, *told[0], sizes=sizes)})
    ours = np.mean((model.predict("x", test, *told[1]) - y) ** 2)
    assert ours < 1.05 * np.mean((own_mean(train, x, test, 40) - y) ** 2)


def test_a_members_row_is_learned_from_all_relations():
    rng = np.random.default_rng(4)
    rows, items = rng.normal(size=(80, 2)), rng.normal(size=(40, 2))
    rich, poor = cells(rng, 0.6, (80, 40)), cells(rng, 0.08, (80, 40))

    def value(c):
        return (rows[c[:, 0]] * items[c[:, 1]]).sum(axis=1) + 0.1 * rng.normal(size=len(c))

    relations = {
        name: Seen(c, (80, 40), 0, value(c), np.zeros(len(c)), items[c[:, 1]])
        for name, c in (("rich", rich), ("poor", poor))
    }
    test = cells(rng, 0.1, (80, 40))
    errors = [
        np.mean(
            (model.predict("poor", test, np.zeros(len(test)), items[test[:, 1]]) - value(test))
            ** 2
        )
        for model in (OwnModel(relations), OwnModel({"poor": relations["poor"]}))
    ]
    assert errors[0] < 0.3 * errors[1]


@pytest.mark.parametrize("count", [0, 1])
def test_without_two_cells_of_anybody_released_numbers_stand_alone(count):
    index = np.array([[3, 1, 2]], np.int32)[:count]
    model = OwnModel({"x": seen(index, np.full(count, 0.5), np.full(count, 0.5))})
    found = model.predict("x", np.array([[0, 0, 0]], np.int32), np.array([0.25]))
    np.testing.assert_allclose(found, 0.25)


def test_effects_of_many_modes_are_few():
    assert own_effects.mode_subsets(1) == [()]
    assert len(own_effects.mode_subsets(3)) == 7
    assert len(own_effects.mode_subsets(5)) == 1 + 5 + 5
