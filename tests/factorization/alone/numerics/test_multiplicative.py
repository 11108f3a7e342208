"""Multiplicative updates: against the dense formula, never uphill, sparse like dense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit.factorization.alone.numerics.multiplicative as updates_module
from tacit import CoupledModel, Relation
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.multiplicative import (
    FLOOR,
    AcceleratedUpdates,
    MultiplicativeUpdates,
    UpdateState,
)
from tacit.factorization.alone.numerics.sums import Engine, Expanded, fresh_factors
from tests.oracles.dense import (
    MASKS,
    MODELS,
    Oracle,
    as_dense,
    engine_of,
    make,
    random_factors,
    random_relation,
)
from tests.oracles.factors import factor_match_score

POWERS = [0.0, 0.5, 1.0, 1.5, 2.0]
MIXED = {
    "coupled cp": {"x": 1.0, "y": 0.0, "z": 2.0},
    "coupled tucker": {"x": 0.5, "y": 1.0, "z": 1.5},
}
DISPERSION = {"x": 0.5, "y": 10.0, "z": 2.0}


def powers_for(mask):
    """Only Euclidean and KL costs go with observed zeros."""
    return [0.0, 1.0] if mask.startswith("zeros") else POWERS


def dispersion_for(name):
    return {v: DISPERSION[v] for v in MODELS[name][0]}


def exponent(model, factor, oracle, shape=1.0, rate=0.0):
    """γ = 1/(max s − min t), written out as a table by divergence."""
    outer = {0.0: (2, 1), 0.5: (1.5, 0.5), 1.0: (1, 0), 1.5: (1, -0.5), 2.0: (1, -1)}
    pairs = [outer[model.powers[v]] for v in oracle.using(factor)]
    pairs += [(0, 0)] if shape > 1 else []
    pairs += [(1, 1)] if rate > 0 else []
    return 1.0 / (max(s for s, _ in pairs) - min(t for _, t in pairs))


def dense_step(model, oracle, factors, shape=1.0, rate=0.0):
    """θ ← θ·((Σ Δ(x·x̂^−p)/φ + (a − 1)/θ) / (Σ Δ(x̂^(1−p))/φ + b))^γ, one factor after another."""
    factors = dict(factors)
    for name, theta in factors.items():
        up, down = (shape - 1.0) / theta, np.full_like(theta, rate)
        for v in oracle.using(name):
            power, phi = model.powers[v], model.dispersions[v]
            up = up + oracle.numerator(v, name, factors, power) / phi
            down = down + oracle.denominator(v, name, factors, power) / phi
        untouched = (up == 0) & (down == 0)
        ratio = np.where(untouched, 1.0, up / np.where(untouched, 1.0, down))
        ratio = ratio ** exponent(model, name, oracle, shape, rate)
        factors[name] = np.maximum(theta * ratio, FLOOR)
    return factors


def assert_one_step_is_dense(model, data, shape=1.0, rate=0.0):
    engine, oracle = engine_of(model, data), Oracle(model, data)
    kernel = MultiplicativeUpdates(engine, shape, rate)
    start = random_factors(engine)
    state, info = kernel.step(UpdateState(start))
    expected = dense_step(model, oracle, start, shape, rate)
    for name in start:
        np.testing.assert_allclose(state.factors[name], expected[name], rtol=1e-8, atol=1e-10)
    assert info.objective == pytest.approx(oracle.objective(expected, shape, rate), rel=1e-8)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_one_step_equals_the_dense_formula(name, mask):
    for power in powers_for(mask):
        assert_one_step_is_dense(*make(name, mask, power, dispersion_for(name)))


@pytest.mark.parametrize("prior", [(1.0, 0.7), (2.5, 0.0), (2.5, 0.7)])
@pytest.mark.parametrize("name", MIXED)
def test_one_step_with_mixed_divergences_and_a_prior_equals_the_dense_formula(name, prior):
    assert_one_step_is_dense(*make(name, "full", MIXED[name], dispersion_for(name)), *prior)


def assert_never_uphill(model, data, shape=1.0, rate=0.0, steps=25):
    engine, oracle = engine_of(model, data), Oracle(model, data)
    kernel = MultiplicativeUpdates(engine, shape, rate)
    state = UpdateState(random_factors(engine, seed=5))
    last = oracle.objective(state.factors, shape, rate)
    first = last
    for _ in range(steps):
        state, _ = kernel.step(state, objective=False)
        now = oracle.objective(state.factors, shape, rate)
        assert now <= last + 1e-9 * (1.0 + abs(last))
        last = now
    assert kernel.objective(state) == pytest.approx(last, rel=1e-8, abs=1e-8)
    assert last < first


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_the_objective_never_increases(name, mask):
    for power in powers_for(mask):
        assert_never_uphill(*make(name, mask, power, dispersion_for(name)))


@pytest.mark.parametrize("prior", [(1.0, 0.0), (1.0, 0.7), (2.5, 0.0), (2.5, 0.7)])
@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("mask", MASKS)
def test_the_objective_never_increases_with_mixed_divergences_and_a_prior(name, prior, mask):
    powers = {"x": 1.0, "y": 0.0, "z": 1.0} if mask.startswith("zeros") else MIXED[name]
    assert_never_uphill(*make(name, mask, powers, dispersion_for(name)), *prior)


def test_single_factor_updates_never_increase_the_objective_either():
    """The exponent is right for every factor, not only on average over a step."""
    model, data = make("coupled cp", "missing", MIXED["coupled cp"])
    engine, oracle = engine_of(model, data), Oracle(model, data)
    kernel, factors = MultiplicativeUpdates(engine), random_factors(engine)
    last = oracle.objective(factors)
    for _ in range(5):
        for name in factors:
            expanded = Expanded(engine.model, factors)
            factors[name] = kernel.update(expanded, name, factors[name])
            now = oracle.objective(factors)
            assert now <= last + 1e-9 * (1 + abs(last))
            last = now


def test_negative_values_under_the_euclidean_cost_never_go_uphill():
    model, data = make("matrix", "missing", 0.0)
    shifted = data["x"].values - 2.0
    data = {"x": Relation.from_cells("ab", data["x"].indices, shifted, shape=data["x"].shape)}
    assert_never_uphill(model, data)


@pytest.mark.parametrize("prior", [(1.0, 0.0), (2.5, 0.7)])
def test_negative_values_coupled_to_counts_never_go_uphill(prior):
    model = CoupledModel({"x": "a:k", "y": "a:k"}, 1, {"x": 0.0, "y": 1.0})
    data = {v: Relation.from_dense("a", [value]) for v, value in (("x", -5.0), ("y", 1.0))}
    kernel = MultiplicativeUpdates(engine_of(model, data), *prior)
    state = UpdateState({"a": np.ones((1, 1))})
    before = kernel.objective(state)
    after = kernel.step(state)[1].objective
    assert after <= before


# --- masks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["zeros", "zeros with held-out cells"])
@pytest.mark.parametrize("power", [0.0, 1.0])
@pytest.mark.parametrize("name", MODELS)
def test_observed_zeros_equal_the_dense_relation_with_explicit_zeros(name, power, mask):
    model, data = make(name, mask, power)
    explicit = {v: Relation.from_dense(r.entities, as_dense(r)) for v, r in data.items()}
    kernels = [MultiplicativeUpdates(engine_of(model, d)) for d in (data, explicit)]
    states = [UpdateState(random_factors(kernels[0].engine))] * 2
    for _ in range(5):
        states, infos = zip(
            *(k.step(s) for k, s in zip(kernels, states, strict=True)), strict=True
        )
    assert infos[0].objective == pytest.approx(infos[1].objective, rel=1e-8)
    for factor in states[0].factors:
        np.testing.assert_allclose(
            states[0].factors[factor], states[1].factors[factor], rtol=1e-7, atol=1e-10
        )


@pytest.mark.parametrize("power", POWERS)
def test_rows_without_data_keep_what_they_have(power):
    relation = Relation.from_cells("ab", [[0, 0], [2, 1]], [1.0, 2.0], shape=(4, 3))
    model = CoupledModel({"x": "a:k b:k"}, 2, power)
    kernel = MultiplicativeUpdates(engine_of(model, {"x": relation}))
    start = UpdateState(random_factors(kernel.engine))
    state = start
    for _ in range(50):
        state, info = kernel.step(state)
        assert np.isfinite(info.objective)
    assert all(np.isfinite(theta).all() for theta in state.factors.values())
    np.testing.assert_array_equal(state.factors["a"][[1, 3]], start.factors["a"][[1, 3]])
    np.testing.assert_array_equal(state.factors["b"][2], start.factors["b"][2])


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_rows_that_are_held_out_altogether_keep_what_they_have(power):
    shape = (40, 9, 8)
    apart = np.argwhere(np.ones(shape))
    apart = apart[apart[:, 0] >= 20]
    rng = np.random.default_rng(0)
    listed = np.column_stack([np.arange(20), rng.integers(0, 8, (20, 2))])
    relation = Relation.from_cells(
        "abc", listed, rng.gamma(1.0, 1.0, 20), shape=shape, zeros="observed", held_out=apart
    )
    kernel = MultiplicativeUpdates(
        engine_of(CoupledModel({"x": "a:k b:k c:k"}, 3, power), {"x": relation})
    )
    start = UpdateState(random_factors(kernel.engine))
    state, _ = kernel.step(start)
    np.testing.assert_allclose(state.factors["a"][20:], start.factors["a"][20:])


def test_rows_without_data_stay_finite_under_a_prior_without_a_mean():
    relation = Relation.from_dense("ab", [[1.0, 2.0], [np.nan, np.nan]])
    model = CoupledModel({"x": "a:k b:k"}, 1)
    kernel = MultiplicativeUpdates(engine_of(model, {"x": relation}), shape=2.0)
    state = UpdateState(random_factors(kernel.engine))
    for _ in range(10):
        state, _ = kernel.step(state)
    assert state.factors["a"].max() < 1e6


def test_a_relation_without_cells_leaves_the_others_alone():
    full = Relation.from_dense("ab", np.ones((3, 4)))
    nothing = Relation.from_cells("ac", np.empty((0, 2), int), np.empty(0), shape=(3, 2))
    model = CoupledModel({"x": "a:k b:k", "y": "a:k c:k"}, 2)
    kernel = MultiplicativeUpdates(engine_of(model, {"x": full, "y": nothing}))
    state = UpdateState(random_factors(kernel.engine))
    for _ in range(100):
        state, info = kernel.step(state)
    assert info.objective == pytest.approx(0.0, abs=1e-3)


# --- starts, states, answers -----------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mask", MASKS)
def test_fresh_factors_are_positive_and_of_the_size_of_the_data(name, mask):
    model, data = make(name, mask)
    engine, oracle = engine_of(model, data), Oracle(model, data)
    factors = fresh_factors(engine, np.random.default_rng(0))
    assert all((theta > 0).all() for theta in factors.values())
    observed = oracle.mask["x"]
    mean = oracle.values["x"][observed].mean()
    assert mean / 2 < oracle.estimate("x", factors)[observed].mean() < 2 * mean


def test_a_step_leaves_its_input_alone_and_can_be_repeated():
    kernel = MultiplicativeUpdates(engine_of(*make("coupled tucker")))
    start = kernel.init(np.random.default_rng(0))
    copies = {name: theta.copy() for name, theta in start.factors.items()}
    once, _ = kernel.step(start)
    twice, _ = kernel.step(start)
    for name in copies:
        np.testing.assert_array_equal(start.factors[name], copies[name])
        np.testing.assert_array_equal(once.factors[name], twice.factors[name])


def test_an_interrupted_step_leaves_the_kernel_usable(monkeypatch):
    engine = engine_of(*make("coupled cp"))
    kernel = MultiplicativeUpdates(engine)
    state, info = kernel.step(UpdateState(random_factors(engine)))
    update = kernel.update

    def interrupted(expanded, name, theta):
        if name == "c":
            raise KeyboardInterrupt
        return update(expanded, name, theta)

    monkeypatch.setattr(kernel, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        kernel.step(state)
    assert kernel.objective(state) == pytest.approx(info.objective, rel=1e-12)


@pytest.mark.parametrize("power", [0.0, 1.0])
@pytest.mark.parametrize("mask", ["full", "missing", "zeros"])
def test_a_planted_cp_model_is_found(mask, power):
    rng = np.random.default_rng(1)
    shape, rank = {"a": 12, "b": 11, "c": 10}, 3
    truth = {n: rng.gamma(0.7, 1.0, (size, rank)) + 0.01 for n, size in shape.items()}
    tensor = np.einsum("ik,jk,lk->ijl", *truth.values())
    if mask == "missing":
        tensor[rng.random(tensor.shape) < 0.4] = np.nan
    data = Relation.from_dense(tuple("abc"), tensor)
    if mask == "zeros":
        truth["a"][:6] = 0.0
        tensor[:6] = 0.0
        where = np.argwhere(tensor > 0)
        data = Relation.from_cells(
            "abc", where, tensor[tuple(where.T)], shape=tensor.shape, zeros="observed"
        )
    model = CoupledModel({"x": "a:k b:k c:k"}, rank, power)
    kernel = MultiplicativeUpdates(engine_of(model, {"x": data}))
    best, best_objective = None, np.inf
    for seed in range(3):
        state = kernel.init(np.random.default_rng(seed))
        for _ in range(800):
            state, _ = kernel.step(state, objective=False)
        if (objective := kernel.objective(state)) < best_objective:
            best, best_objective = state, objective
    assert factor_match_score(best.factors, truth) > 0.99


def test_a_gamma_prior_pulls_factors_to_its_mode():
    """Without data worth mentioning, the mode (a − 1)/b of the prior is the answer."""
    relation = Relation.from_dense("ab", [[1.0]])
    model = CoupledModel({"x": "a:k b:k"}, 1, dispersion=1e9)
    kernel = MultiplicativeUpdates(engine_of(model, {"x": relation}), shape=3.0, rate=4.0)
    state = UpdateState(random_factors(kernel.engine))
    for _ in range(100):
        state, _ = kernel.step(state)
    np.testing.assert_allclose([theta[0, 0] for theta in state.factors.values()], 0.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"shape": 0.5}, "shape"), ({"shape": np.nan}, "shape"), ({"rate": -1.0}, "rate")],
)
def test_a_prior_that_has_no_mode_is_refused(options, name):
    with pytest.raises(ParameterError, match=f"{name} must be a number"):
        MultiplicativeUpdates(engine_of(*make("matrix")), **options)


def test_entries_never_leave_the_positive_numbers():
    rng = np.random.default_rng(4)
    relation = random_relation(rng, ["a", "b"], [5, 5], "zeros")
    kernel = MultiplicativeUpdates(engine_of(CoupledModel({"x": "a:k b:k"}, 4), {"x": relation}))
    state = kernel.init(rng)
    for _ in range(300):
        state, info = kernel.step(state)
    assert np.isfinite(info.objective)
    assert all((theta >= FLOOR).all() for theta in state.factors.values())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.7, 1.0, 1.4, 2.0]), st.floats(1.5, 1e4))
def test_an_accelerated_step_is_never_worse_than_where_it_came_from(seed, power, reach):
    rng = generator(seed)
    data = {"x": Relation.from_dense(("a", "b"), rng.gamma(1.0, 1.0, (6, 5)) + 1e-3)}
    engine = Engine(CoupledModel({"x": "a:k b:k"}, 2, power).bind(data), data)
    kernel = AcceleratedUpdates(MultiplicativeUpdates(engine))
    state = kernel.init(rng)._replace(reach=reach)
    value = kernel.objective(state)
    for _ in range(6):
        state, info = kernel.step(state)
        assert info.objective <= value + 1e-9 * abs(value)
        assert all((theta > 0).all() for theta in state.factors.values())
        assert info.objective == pytest.approx(kernel.objective(state), rel=1e-10, abs=1e-12)
        value = info.objective


def test_a_step_too_far_is_taken_back_and_the_reach_halved(monkeypatch):
    rng = generator(1)
    data = {"x": Relation.from_dense(("a", "b"), rng.gamma(1.0, 1.0, (6, 5)))}
    engine = Engine(CoupledModel({"x": "a:k b:k"}, 2).bind(data), data)
    kernel = AcceleratedUpdates(MultiplicativeUpdates(engine))
    state = kernel.init(rng)
    plain = MultiplicativeUpdates(engine)
    expected, _ = plain.step(plain.step(state)[0])

    def absurd(start, once, twice, reach, real):
        return 64.0, {name: np.full_like(theta, 1e3) for name, theta in start.items()}

    monkeypatch.setattr(updates_module, "_extrapolation", absurd)
    after, info = kernel.step(state)
    np.testing.assert_allclose(after.factors["a"], expected.factors["a"], rtol=1e-12)
    assert after.reach == 32.0
    assert info.objective == pytest.approx(plain.objective(expected), rel=1e-10)
