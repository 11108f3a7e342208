"""Point estimates of every loss and form: gradients, falling objectives, known answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.linear_model import LogisticRegression

from tacit import CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.constraints import Constraints, given_factor, graph_of
from tacit.factorization.alone.numerics.multiplicative import (
    AcceleratedUpdates,
    MultiplicativeUpdates,
)
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tests.oracles.dense import Oracle, random_factors

LOSSES = {
    "euclidean": 1.0,
    "kl": 1.0,
    "is": 1.0,
    "inverse-gaussian": 2.0,
    0.5: 1.0,
    1.5: 0.7,
    "negative-binomial": 0.6,
    "logit": 1.0,
}
FORMS = {
    "symmetric": ("a:k a:k", ("a", "a_2")),
    "asymmetric": ("a:k a:l g:kl", ("a", "a_2")),
    "over time": ("a:k a:k t:k", ("a", "a_2", "t")),
    "thrice": ("a:k a:k a:k", ("a", "a_2", "a_3")),
    "apart": ("a:k b:k", ("a", "b")),
    "beside another": ("a:k a:l b:kl", ("a", "a_2", "b")),
}
SIZES = {"a": 6, "a_2": 6, "a_3": 6, "b": 5, "t": 4}


def make(form, divergence, seed=0, share=0.6, zeros="missing"):
    """A model of one relation with random data of the loss's range, some cells missing."""
    rng = np.random.default_rng(seed)
    text, entities = FORMS[form]
    shape = [SIZES[e] for e in entities]
    cells = np.argwhere(rng.random(shape) < share)
    values = rng.gamma(2.0, 1.0, len(cells)) + 0.05
    if divergence == "logit":
        values = (values > 1.5).astype(float)
    elif divergence == "negative-binomial":
        values = np.floor(values)
    data = {"x": Relation.from_cells(entities, cells, values, shape=shape, zeros=zeros)}
    model = CoupledModel({"x": text}, {"k": 2, "l": 2}, divergence, LOSSES[divergence])
    return Engine(model.bind(data), data)


def total(engine, factors):
    expanded = Expanded(engine.model, factors)
    return sum(r.weight * engine.cost(expanded, r) for r in engine.model.relations)


@pytest.mark.parametrize("divergence", LOSSES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_the_cost_also_where_a_factor_stands_twice(form, divergence):
    engine = make(form, divergence)
    factors = random_factors(engine, low=0.3)
    expanded = Expanded(engine.model, factors)
    for name, theta in factors.items():
        found = np.zeros_like(theta)
        for relation, position in engine.model.using(name):
            up, down = engine.both(expanded, relation, position)
            found += relation.weight * (down - up)
        for i, j in ((0, 0), (len(theta) - 1, theta.shape[1] - 1)):
            ends = []
            for step in (1e-6, -1e-6):
                moved = theta.copy()
                moved[i, j] += step
                ends.append(total(engine, {**factors, name: moved}))
            assert found[i, j] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("divergence", ["euclidean", "kl"])
@pytest.mark.parametrize("form", ["symmetric", "asymmetric"])
def test_observed_zeros_of_an_entity_with_itself_are_those_of_a_dense_array(form, divergence):
    engine = make(form, divergence, zeros="observed")
    factors = random_factors(engine)
    listed = {"x": engine.data["x"].listed()}
    dense = Engine(engine.model, listed)
    assert total(engine, factors) == pytest.approx(total(dense, factors), rel=1e-10)
    pair = Expanded(engine.model, factors), Expanded(engine.model, factors)
    for relation, position in engine.model.using("a"):
        for ours, theirs in zip(
            engine.both(pair[0], relation, position),
            dense.both(pair[1], relation, position),
            strict=True,
        ):
            np.testing.assert_allclose(np.broadcast_to(ours, theirs.shape), theirs, rtol=1e-9)


def constraints_of(engine, kind):
    names = list(engine.model.factors)
    if kind == "real":
        return Constraints(real=frozenset(names))
    if kind == "one real":
        return Constraints(real=frozenset(names[-1:]))
    if kind == "smooth":
        return Constraints(graphs={"a": graph_of("a", 0.7, 6)})
    if kind == "smooth and real":
        return Constraints(real=frozenset(["a"]), graphs={"a": graph_of("a", 0.7, 6)})
    if kind == "fixed":
        given = random_factors(engine, seed=5)
        return Constraints(fixed={names[0]: given[names[0]]})
    return Constraints()


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize(
    "kind", ["plain", "real", "one real", "smooth", "smooth and real", "fixed"]
)
@pytest.mark.parametrize("divergence", LOSSES, ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_the_objective_never_rises(form, divergence, kind, accelerated):
    engine = make(form, divergence, seed=3)
    constraints = constraints_of(engine, kind)
    if kind == "fixed" and len(engine.model.factors) == 1:
        return
    build = (engine, 1.5, 0.3, constraints)
    if constraints.real and divergence not in ("euclidean", "logit"):
        with pytest.raises(ParameterError, match="may not be negative"):
            MultiplicativeUpdates(*build)
        return
    kernel = MultiplicativeUpdates(*build)
    kernel = AcceleratedUpdates(kernel) if accelerated else kernel
    state = kernel.init(np.random.default_rng(1))
    before = kernel.objective(state)
    for _ in range(12):
        state, info = kernel.step(state)
        assert info.objective <= before + 1e-9 * abs(before)
        before = info.objective
    for name, table in constraints.fixed.items():
        np.testing.assert_array_equal(state.factors[name], table)
    for name in set(engine.model.factors) - constraints.real - constraints.fixed.keys():
        assert (state.factors[name] > 0.0).all()


# --- known answers of one factor, the other one given ----------------------------------------


def rows_of(divergence, values, design, real, rate=0.0, graph=None, dispersion=1.0):
    """The rows that many updates end in, where the other factor is given."""
    data = {"x": Relation.from_dense(("a", "b"), values)}
    model = CoupledModel({"x": "a:k b:k"}, design.shape[1], divergence, dispersion)
    engine = Engine(model.bind(data), data)
    constraints = Constraints(
        {"b": design}, frozenset(["a"] if real else []) | ({"b"} if (design < 0).any() else set()),
        {} if graph is None else {"a": graph},
    )  # fmt: skip
    kernel = AcceleratedUpdates(MultiplicativeUpdates(engine, 1.0, rate, constraints))
    state = kernel.init(np.random.default_rng(0))
    for _ in range(400):
        state, _ = kernel.step(state)
    return state.factors["a"]


def test_log_odds_with_a_given_factor_are_logistic_regression():
    rng = np.random.default_rng(0)
    design = rng.normal(size=(80, 3))
    chances = 1.0 / (1.0 + np.exp(-design @ [1.0, -2.0, 0.5]))
    happened = (rng.random(80) < chances).astype(float)
    found = rows_of("logit", happened[None], design, real=True, rate=0.5)
    peer = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10).fit(design, happened)
    np.testing.assert_allclose(found[0], peer.coef_[0], rtol=1e-4)


def test_non_negative_rows_beside_a_real_factor_are_non_negative_least_squares():
    rng = np.random.default_rng(1)
    design, values = rng.normal(size=(30, 3)), rng.normal(size=(2, 30))
    found = rows_of("euclidean", values, design, real=False)
    for row, value in zip(found, values, strict=True):
        np.testing.assert_allclose(row, optimize.nnls(design, value)[0], atol=1e-4)


def test_smooth_real_rows_solve_one_linear_system():
    rng = np.random.default_rng(2)
    design, values = rng.normal(size=(20, 2)), rng.normal(size=(7, 20))
    weights = rng.random((7, 7))
    weights = weights + weights.T
    np.fill_diagonal(weights, 0.0)
    graph = graph_of("a", (sparse.csr_array(weights), 3.0), 7)
    found = rows_of("euclidean", values, design, real=True, rate=0.4, graph=graph)
    laplacian = 3.0 * (np.diag(weights.sum(axis=0)) - weights)
    left = np.kron(np.eye(7), design.T @ design + 0.4 * np.eye(2)) + np.kron(laplacian, np.eye(2))
    expected = np.linalg.solve(left, (values @ design).ravel())
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-6, atol=1e-9)
    pairs = sum(
        3.0 * weights[i, j] * np.sum((found[i] - found[j]) ** 2)
        for i in range(7)
        for j in range(i)
    )
    assert graph.penalty(found) == pytest.approx(0.5 * pairs)


def test_negative_binomial_rows_are_the_minimum_that_a_general_search_finds():
    rng = np.random.default_rng(3)
    design, phi = rng.gamma(1.0, 1.0, (60, 2)), 0.8
    counts = rng.negative_binomial(1 / phi, 1 / (1 + phi * (design @ [2.0, 0.5]))).astype(float)
    found = rows_of("negative-binomial", counts[None], design, real=False, dispersion=phi)[0]

    def loss(log):
        y = design @ np.exp(log)
        return np.sum((counts + 1 / phi) * np.log1p(phi * y) - counts * np.log(y))

    best = optimize.minimize(loss, np.zeros(2), tol=1e-12)
    np.testing.assert_allclose(found, np.exp(best.x), rtol=1e-4)


def test_a_planted_network_is_found_again_symmetric_or_not():
    rng = np.random.default_rng(4)
    rows = rng.gamma(1.0, 1.0, (30, 2))
    data = {"x": Relation.from_dense(("a", "a"), rng.poisson(400 * rows @ rows.T))}
    engine = Engine(CoupledModel({"x": "a:k a:k"}, 2).bind(data), data)
    kernel = AcceleratedUpdates(MultiplicativeUpdates(engine))
    state = kernel.init(rng)
    for _ in range(150):
        state, _ = kernel.step(state)
    found = state.factors["a"] @ state.factors["a"].T / 400
    assert np.abs(found - rows @ rows.T).mean() < 0.02 * (rows @ rows.T).mean()


def test_a_bound_model_agrees_with_a_dense_one_where_an_entity_stands_twice():
    engine = make("apart", "kl")
    oracle = Oracle(CoupledModel({"x": "a:k b:k"}, 2), engine.data)
    factors = random_factors(engine)
    assert total(engine, factors) == pytest.approx(oracle.cost("x", factors))
    twice = make("asymmetric", "euclidean")
    own = random_factors(twice)
    dense = own["a"] @ own["g"].reshape(2, 2) @ own["a"].T
    cells = twice.data["x"]
    errors = cells.values - dense[tuple(cells.indices.T)]
    assert total(twice, own) == pytest.approx(0.5 * errors @ errors)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (-1.0, "smooth of 'a' must be"),
        ((np.ones((2, 2)), 1.0), r"weights of shape \(3, 3\)"),
        (([[0, 1, 0], [0, 0, 0], [0, 0, 0]], 1.0), "symmetric weights"),
        (([[0, -1, 0], [-1, 0, 0], [0, 0, 0]], 1.0), "symmetric weights ≥ 0"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(stated, message):
    with pytest.raises(ParameterError, match=message):
        graph_of("a", stated, 3)


def test_a_given_factor_must_fit():
    bound = make("apart", "kl").model
    for values, message in ((np.ones((6, 3)), "shape"), (-np.ones((6, 2)), "≥ 0")):
        with pytest.raises(ParameterError, match=message):
            given_factor(bound, "a", values, True)
