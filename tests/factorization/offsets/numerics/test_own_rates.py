"""What a holder's own counts say: conjugate updates, and never worse than what is free."""

import numpy as np
import pytest

from tacit.factorization.offsets.numerics import own_rates
from tacit.factorization.offsets.numerics.own_model import OwnRatesModel, Seen, leverage_of
from tacit.factorization.offsets.numerics.ridge import NEVER

SHAPE = (60, 25)


def simulated(seed, rank=3, share=0.25):
    """Return listed and other cells of a Poisson factorization, with counts, rates and V."""
    rng = np.random.default_rng(seed)
    rows, items = rng.gamma(1.0, 1.0, (SHAPE[0], rank)), rng.gamma(1.0, 1.0, (SHAPE[1], rank))
    rates = rows @ items.T
    counts, mask = rng.poisson(rates), rng.random(SHAPE) < share
    train, test = (np.argwhere(m).astype(np.int32) for m in (mask, ~mask))
    return train, counts[mask].astype(float), test, rates[~mask], items


def seen(index, values, features=None, **more):
    features = np.zeros((len(index), 0)) if features is None else features
    return Seen(index, SHAPE, 0, values, np.zeros(len(index)), features, **more)


def misfit(found, rates):
    return float(np.mean(found - rates * np.log(found)))


def test_effects_are_posterior_means_given_each_other(monkeypatch):
    train, x, _, _, items = simulated(0)
    shapes = np.array([2.0, 5.0, 3.0])
    model = {}

    def chosen(cells, relations, _):
        model["cells"] = cells
        return shapes, np.ones(len(cells.values))

    monkeypatch.setattr(own_rates, "_choose", chosen)
    OwnRatesModel({"x": seen(train, x, items[train[:, 1]])})
    found = own_rates._fit(model["cells"], 1, shapes, 400)
    member, item = found.effects
    rates = found.at(model["cells"])
    for i in range(0, SHAPE[0], 7):
        own = train[:, 0] == i
        expected = (2.0 + x[own].sum()) / (2.0 + (rates[own] / member[i]).sum())
        np.testing.assert_allclose(member[i], expected, rtol=1e-6)
        q = items[train[own, 1]]
        given = rates[own] / (q @ found.rows[i])
        common = own_rates._common_row(model["cells"], x, 400)
        allocated = (x[own] / (q @ found.rows[i])) @ q * found.rows[i]
        row = (3.0 + allocated) / (3.0 / common + given @ q)
        np.testing.assert_allclose(found.rows[i], row, rtol=1e-5)
    for j in range(SHAPE[1]):
        here = train[:, 1] == j
        expected = (5.0 + x[here].sum()) / (5.0 + (rates[here] / item[j]).sum())
        np.testing.assert_allclose(item[j], expected, rtol=1e-6)
    np.testing.assert_allclose(rates.sum(), x.sum())


@pytest.mark.parametrize("seed", range(4))
def test_factors_that_are_noise_do_no_harm(seed):
    train, x, test, rates, _ = simulated(seed)
    noise = np.random.default_rng(seed + 50).gamma(1.0, 1.0, (SHAPE[1], 3))
    free = OwnRatesModel({"x": seen(train, x)}).predict("x", test, noise[test[:, 1]][:, :0])
    with_noise = OwnRatesModel({"x": seen(train, x, noise[train[:, 1]])})
    assert misfit(with_noise.predict("x", test, noise[test[:, 1]]), rates) < (
        misfit(free, rates) + 0.01
    )


@pytest.mark.parametrize("seed", range(2))
def test_factors_that_others_learned_are_believed(seed):
    train, x, test, rates, items = simulated(seed)
    free = OwnRatesModel({"x": seen(train, x)}).predict("x", test, items[test[:, 1]][:, :0])
    model = OwnRatesModel({"x": seen(train, x, items[train[:, 1]])})
    assert model.believes
    assert misfit(model.predict("x", test, items[test[:, 1]]), rates) < misfit(free, rates) - 0.02


def flattered(train, x, rank=8, steps=60):
    """Return factors that were fitted to the very cells: they know their noise."""
    rng = np.random.default_rng(0)
    rows, items = rng.gamma(2.0, 0.5, (SHAPE[0], rank)), rng.gamma(2.0, 0.5, (SHAPE[1], rank))
    for _ in range(steps):
        for ours, theirs, mode in ((rows, items, 0), (items, rows, 1)):
            other = theirs[train[:, 1 - mode]]
            ratio = x / np.maximum((ours[train[:, mode]] * other).sum(axis=1), 1e-9)
            top, bottom = np.zeros_like(ours), np.zeros_like(ours)
            np.add.at(top, train[:, mode], other * ratio[:, None])
            np.add.at(bottom, train[:, mode], other)
            ours *= (0.1 + top) / (0.1 + bottom)
    return items


@pytest.mark.parametrize("seed", range(3))
def test_factors_that_know_the_cells_are_not_flattered(seed):
    train, x, test, rates, _ = simulated(seed)
    items = flattered(train, x)
    free = OwnRatesModel({"x": seen(train, x)}).predict("x", test, items[test[:, 1]][:, :0])
    told = leverage_of(train, {1: items.shape[1]})
    careful = OwnRatesModel({"x": seen(train, x, items[train[:, 1]], leverage=told)})
    found = careful.predict("x", test, items[test[:, 1]])
    assert misfit(found, rates) < misfit(free, rates) + 0.01


def test_leverage_is_the_share_of_free_numbers():
    index = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 1], [3, 1], [4, 1]], np.int32)
    found = leverage_of(index, {1: 0.5})
    np.testing.assert_allclose(found, [0.5 / 3] * 3 + [0.1] * 5)
    np.testing.assert_allclose(leverage_of(index, {}, 2.0), 0.25)
    assert leverage_of(index, {0: 5.0}).max() == 0.5


@pytest.mark.parametrize("count", [0, 1, 5])
def test_hardly_any_cells_are_no_problem(count):
    train, x, test, _, items = simulated(0)
    model = OwnRatesModel({"x": seen(train[:count], x[:count], items[train[:count, 1]])})
    found = model.predict("x", test, items[test[:, 1]])
    assert np.isfinite(found).all() and (found >= 0.0).all()


def test_relations_have_centres_of_their_own_and_share_rows():
    rng = np.random.default_rng(1)
    rows, items = rng.gamma(1.0, 1.0, (60, 3)), rng.gamma(1.0, 1.0, (25, 3))
    mask = rng.random(SHAPE) < 0.5
    index = np.argwhere(mask).astype(np.int32)
    rates = (rows @ items.T)[mask]
    features = items[index[:, 1]]
    relations = {
        "rare": seen(index, rng.poisson(0.2 * rates).astype(float), features),
        "often": seen(index, rng.poisson(8.0 * rates).astype(float), features),
    }
    model = OwnRatesModel(relations)
    rare, often = (model.predict(name, index, features) for name in relations)
    assert 0.1 < rare.mean() / rates.mean() < 0.4 and 6.0 < often.mean() / rates.mean() < 10.0
    alone = OwnRatesModel({"rare": relations["rare"]}).predict("rare", index, features)
    truth = 0.2 * rates
    assert np.mean((rare - truth) ** 2) < np.mean((alone - truth) ** 2)


def test_shapes_that_never_help_are_left_out():
    rng = np.random.default_rng(3)
    index = np.argwhere(rng.random(SHAPE) < 0.5).astype(np.int32)
    values = rng.poisson(3.0, len(index)).astype(float)
    captured = []
    choose = own_rates._choose

    def remember(*given):
        captured.append(choose(*given))
        return captured[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_rates, "_choose", remember)
        OwnRatesModel({"x": seen(index, values)})
    assert (captured[0][0] >= 32.0).all() and captured[0][0][-1] == NEVER
