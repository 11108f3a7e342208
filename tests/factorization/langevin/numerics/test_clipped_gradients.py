"""Clipped gradient sums: the kernels against their NumPy twins, and against finite differences."""

import numpy as np
import pytest

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.langevin.numerics import clipped_gradients as clipped
from tacit.factorization.langevin.numerics.clipped_gradients import Layout, OwnerRule, cell_table
from tacit.factorization.language.structure import CoupledModel
from tests.oracles import clipped as clipped_reference

FORMS = {
    "matrix": {"data": "user:k item:k"},
    "tensor": {"data": "user:k place:k act:k"},
    "tucker": {"data": "user:k place:l act:m core:klm"},
    "coupled": {"data": "user:k place:k act:k", "more": "user:k item:k"},
    "scalar": {"data": "user:k item:l core:kl"},
}
SIZES = {"user": 7, "item": 5, "place": 4, "act": 3}
RANKS = {"k": 3, "l": 2, "m": 2}


def problem(form, power, seed=0, owner=None, empty=False):
    rng = np.random.default_rng(seed)
    model = CoupledModel(FORMS[form], RANKS, power)
    relations = {}
    for name, tokens in model.forms.items():
        entities = [f for f, _ in tokens if f != "core"]
        shape = tuple(SIZES[e] for e in entities)
        values = rng.poisson(2.0, shape).astype(float)
        values[rng.random(shape) < 0.4] = np.nan
        if empty:
            values[2] = np.nan  # a user without cells
        relations[name] = Relation.from_dense(entities, values)
    bound = model.bind(relations)
    shapes = {n: (s.rows, s.columns) for n, s in bound.factors.items() if n != owner}
    layout = Layout(shapes)
    cells = {n: (r.indices, r.values, 0.7) for n, r in relations.items()}
    theta = rng.uniform(0.2, 1.0, layout.size)
    if power == "euclidean":
        theta *= rng.choice([-1.0, 1.0], layout.size)
    return cell_table(bound, cells, layout, owner), theta, layout, bound, relations


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("power", ["euclidean", "kl"])
@pytest.mark.parametrize("clip", [0.3, 5.0, np.inf])
@pytest.mark.parametrize("grid", [0.0, 2.0**30])
def test_entries_equal_their_numpy_twin(form, power, clip, grid):
    table, theta, _, _, _ = problem(form, power)
    rng = np.random.default_rng(1)
    picks = np.sort(rng.permutation(len(table.values))[: len(table.values) // 2])
    free = (rng.random(len(theta)) < 0.8).astype(float)
    counted = np.ones(table.widths.shape, bool)
    counted[:, 0] = clip != 5.0
    arguments = (picks, table, theta, free, counted, clip, grid)
    ours, twin = clipped.entry_sums(*arguments), clipped_reference.entry_sums_reference(*arguments)
    assert ours.dtype == twin.dtype
    np.testing.assert_allclose(ours, twin, rtol=1e-10, atol=len(picks) if grid else 1e-11)
    assert not ours[free == 0.0].any()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("power", ["euclidean", "kl"])
@pytest.mark.parametrize("clip", [0.3, np.inf])
@pytest.mark.parametrize("grid", [0.0, 2.0**30])
def test_owners_equal_their_numpy_twin(form, power, clip, grid):
    table, theta, _, bound, _ = problem(form, power, owner="user", empty=True)
    width = bound.factors["user"].columns
    free = np.ones(len(theta))
    free[::5] = 0.0
    own_free = np.ones(width)
    own_free[0] = 0.0
    rule = OwnerRule(own_free, np.full(width, 0.9), 0.8, 1.5, 0.6, 4, 0.7)
    picks = np.array([0, 2, 3, 6])
    rows = clipped.owner_rows(picks, table, theta, rule)
    twin_rows = clipped_reference.owner_rows_reference(picks, table, theta, rule)
    np.testing.assert_allclose(rows, twin_rows, rtol=1e-8, atol=1e-10)
    assert (rows[:, 0] == 0.9).all()
    arguments = (picks, table, theta, free, rule, clip, grid)
    ours, twin = clipped.owner_sums(*arguments), clipped_reference.owner_sums_reference(*arguments)
    np.testing.assert_allclose(ours, twin, rtol=1e-8, atol=10 * len(picks) if grid else 1e-9)


def test_threads_change_nothing(monkeypatch):
    """In whole numbers the order of summation does not matter."""
    table, theta, _, bound, _ = problem("coupled", "euclidean", owner="user")
    picks = np.arange(SIZES["user"])
    width = bound.factors["user"].columns
    rule = OwnerRule(np.ones(width), np.zeros(width))
    arguments = (picks, table, theta, np.ones(len(theta)), rule, 0.5, 2.0**35)
    one = clipped.owner_sums(*arguments)
    monkeypatch.setattr(clipped, "_SMALL", 0)
    assert (clipped.owner_sums(*arguments) == one).all()
    table, theta, _, _, _ = problem("tucker", "kl")
    picks = np.arange(len(table.values))
    every = np.ones(table.widths.shape, bool)
    arguments = (picks, table, theta, np.ones(len(theta)), every, 0.5, 2.0**35)
    two = clipped.entry_sums(*arguments)
    monkeypatch.setattr(clipped, "_SMALL", 1 << 60)
    assert (clipped.entry_sums(*arguments) == two).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("power", ["euclidean", "kl"])
def test_without_a_clip_it_is_the_gradient_of_the_likelihood(form, power):
    table, theta, layout, bound, relations = problem(form, power)

    def likelihood(vector):
        total = 0.0
        for relation in bound.relations:
            rows = relations[relation.name].indices
            product = np.ones((len(rows), relation.combinations))
            for p, name in enumerate(relation.factors):
                index = rows[:, p] if p < relation.modes else np.zeros(len(rows), int)
                product *= layout.view(vector, name)[index][:, relation.columns[p]]
            estimate, x = product.sum(axis=1), relations[relation.name].values
            if power == "kl":
                total += 0.7 * (x * np.log(estimate) - estimate).sum()
            else:
                total -= 0.35 * np.square(x - estimate).sum()
        return total

    picks = np.arange(len(table.values))
    every = np.ones(table.widths.shape, bool)
    found = clipped.entry_sums(picks, table, theta, np.ones(len(theta)), every, np.inf, 0.0)
    step = 1e-6
    numeric = np.array([
        (likelihood(theta + step * e) - likelihood(theta - step * e)) / (2 * step)
        for e in np.eye(len(theta))
    ])  # fmt: skip
    np.testing.assert_allclose(found, numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_what_is_not_finite_counts_as_nothing(bad):
    table, theta, _, bound, _ = problem("matrix", "euclidean")
    table.values[3] = bad
    every = np.ones(table.widths.shape, bool)
    picks = np.arange(len(table.values))
    rest = np.delete(picks, 3)
    free = np.ones(len(theta))
    with_it = clipped.entry_sums(picks, table, theta, free, every, 1.0, 2.0**30)
    assert (with_it == clipped.entry_sums(rest, table, theta, free, every, 1.0, 2.0**30)).all()
    owned, theta, _, bound, _ = problem("matrix", "euclidean", owner="user")
    width = bound.factors["user"].columns
    rule = OwnerRule(np.ones(width), np.zeros(width))
    owned.values[owned.owner_starts[4]] = bad
    members = np.arange(SIZES["user"])
    free = np.ones(len(theta))
    whole = clipped.owner_sums(members, owned, theta, free, rule, 1.0, 2.0**30)
    others = clipped.owner_sums(np.delete(members, 4), owned, theta, free, rule, 1.0, 2.0**30)
    assert (whole == others).all()


def test_no_cells_give_zeros():
    table, theta, _, _, _ = problem("matrix", "kl")
    nothing = np.empty(0, np.int64)
    every = np.ones(table.widths.shape, bool)
    sums = clipped.entry_sums(nothing, table, theta, np.ones(len(theta)), every, 1.0, 4.0)
    assert sums.dtype == np.int64 and not sums.any()


def test_a_relation_without_the_owner_is_refused():
    model = CoupledModel({"a": "user:k item:k", "b": "item:k tag:k"}, 2)
    relations = {"a": Relation.from_dense(("user", "item"), np.ones((2, 3))),
                 "b": Relation.from_dense(("item", "tag"), np.ones((3, 2)))}  # fmt: skip
    bound = model.bind(relations)
    layout = Layout({n: (s.rows, s.columns) for n, s in bound.factors.items()})
    cells = {n: (r.indices, r.values, 1.0) for n, r in relations.items()}
    with pytest.raises(ParameterError, match="must name the entity 'user'"):
        cell_table(bound, cells, layout, "user")
