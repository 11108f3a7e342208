"""SGLD: gradients, minibatches, step sizes, and a bias that shrinks with the step."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit import CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.langevin import LangevinSampler, LangevinState
from tests.oracles.dense import MASKS, MODELS, Oracle, engine_of, make, random_factors

POWERS = [0.0, 0.5, 1.0, 1.5, 2.0]
DISPERSION = {"x": 0.5, "y": 10.0, "z": 2.0}


def log_posterior(oracle, factors, prior, shape, mean, precisions):
    """log p(x | θ) + log p(θ), up to a constant, from the dense costs."""
    total = -sum(oracle.cost(v, factors) / phi for v, phi in oracle.model.dispersions.items())
    for name, theta in factors.items():
        if prior == "gamma":
            total += stats.gamma(shape, scale=mean / shape).logpdf(theta).sum()
        else:
            total += stats.norm(0, precisions[name] ** -0.5).logpdf(theta).sum()
    return total


def assert_gradients(model, data, prior):
    engine, oracle = engine_of(model, data), Oracle(model, data)
    factors = random_factors(engine)
    if prior == "normal":
        rng = np.random.default_rng(3)
        factors = {n: theta * rng.choice([-1, 1], theta.shape) for n, theta in factors.items()}
    precisions = {n: 0.5 + i for i, n in enumerate(factors)}
    sampler = LangevinSampler(engine, prior=prior, shape=1.7, mean=0.6)
    rng = np.random.default_rng(0)
    gradients = sampler.gradients(rng, LangevinState(factors, precisions, 0))
    for name, theta in factors.items():
        direction, sides = rng.normal(size=theta.shape), []
        for step in (1e-5, -1e-5):
            moved = {**factors, name: theta + step * direction}
            sides.append(log_posterior(oracle, moved, prior, 1.7, 0.6, precisions))
        slope = (sides[0] - sides[1]) / 2e-5
        assert (gradients[name] * direction).sum() == pytest.approx(slope, rel=1e-5, abs=1e-4)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_log_posterior(name, mask):
    phi = {v: DISPERSION[v] for v in MODELS[name][0]}
    for power in (0.0, 1.0) if mask.startswith("zeros") else POWERS:
        assert_gradients(*make(name, mask, power, phi), "gamma")
    assert_gradients(*make(name, mask, 0.0, phi), "normal")


@pytest.mark.parametrize(
    ("mask", "power"),
    [("missing", 0.0), ("missing", 1.5), ("zeros", 1.0), ("zeros with held-out cells", 0.0)],
)
def test_minibatch_gradients_are_unbiased(mask, power):
    model, data = make("coupled cp", mask, power)
    engine = engine_of(model, data)
    state = LangevinState(random_factors(engine), {}, 0)
    rng = np.random.default_rng(1)
    whole = LangevinSampler(engine).gradients(rng, state)
    part = LangevinSampler(engine, batch=2)
    draws = [part.gradients(rng, state) for _ in range(600)]
    for name, expected in whole.items():
        sampled = np.array([draw[name] for draw in draws])
        spread = sampled.std(axis=0)
        error = spread / np.sqrt(len(draws))
        np.testing.assert_array_less(np.abs(sampled.mean(axis=0) - expected), 5 * error + 1e-9)
        assert spread.max() > 0


def test_a_batch_of_everything_is_the_whole_gradient():
    model, data = make("coupled cp")
    engine = engine_of(model, data)
    state, rng = LangevinState(random_factors(engine), {}, 0), np.random.default_rng(0)
    largest = max(r.cells for r in data.values())
    first = LangevinSampler(engine, batch=largest).gradients(rng, state)
    second = LangevinSampler(engine, batch=10**9).gradients(rng, state)
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


# --- steps --------------------------------------------------------------------------------------


def test_the_step_size_falls_as_stated():
    sampler = LangevinSampler(engine_of(*make("matrix")), step=0.01, decay=0.6)
    state, rng = sampler.init(np.random.default_rng(0)), np.random.default_rng(1)
    sizes = []
    for _ in range(5):
        state, info = sampler.step(rng, state)
        sizes.append(info.step_size)
    np.testing.assert_allclose(sizes, 0.01 / np.arange(1, 6) ** 0.6)
    assert state.steps == 5


def test_a_step_moves_along_the_gradient_with_noise_of_variance_two_kappa():
    engine = engine_of(*make("matrix", divergence=0.0))
    sampler = LangevinSampler(engine, prior="normal", step=1e-3, decay=0.0)
    state = LangevinState(random_factors(engine), {"a": 2.0, "b": 3.0}, 0)
    rng = np.random.default_rng(0)
    gradients = sampler.gradients(rng, state)
    moves = [sampler.step(rng, state)[0].factors["a"] - state.factors["a"] for _ in range(1500)]
    noise = (np.array(moves) - 1e-3 * gradients["a"]) / np.sqrt(2e-3)
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-5


def test_non_negative_factors_are_reflected_at_zero():
    """Moves that cross zero come back by as much as they overshot."""
    engine = engine_of(*make("coupled cp"))
    options = {"step": 1.0, "decay": 0.0}
    start = LangevinState(random_factors(engine), dict.fromkeys("abcde", 1.0), 0)
    sampler = LangevinSampler(engine, prior="gamma", **options)
    # gradients are taken at least a step away from zero
    away = {name: np.maximum(theta, np.sqrt(2.0)) for name, theta in start.factors.items()}
    gradients = sampler.gradients(np.random.default_rng(0), start._replace(factors=away))
    state, _ = sampler.step(np.random.default_rng(4), start)
    rng, crossed = np.random.default_rng(4), 0
    for name, theta in start.factors.items():
        moved = theta + gradients[name] + np.sqrt(2.0) * rng.standard_normal(theta.shape)
        np.testing.assert_allclose(state.factors[name], np.abs(moved))
        crossed += (moved < 0).sum()
    assert crossed > 0


def test_real_factors_cross_zero():
    engine = engine_of(*make("matrix", divergence=0.0))
    sampler = LangevinSampler(engine, prior="normal", step=0.05)
    rng = np.random.default_rng(0)
    state = sampler.init(rng)
    for _ in range(20):
        state, _ = sampler.step(rng, state)
    assert any((theta < 0).any() for theta in state.factors.values())


def test_the_precision_is_drawn_from_its_conditional_law():
    """Gamma(shape + n/2, rate + Σθ²/2), given the factor after its move."""
    relation = Relation.from_dense("a", np.zeros(40))
    engine = engine_of(CoupledModel({"x": "a:k"}, 1, 0.0), {"x": relation})
    sampler = LangevinSampler(engine, prior="normal", shape=3.0, mean=50.0, step=1e-3)
    rng, state = np.random.default_rng(0), LangevinState({"a": np.ones((40, 1))}, {"a": 1.0}, 0)
    ranks = []
    for _ in range(600):
        after, _ = sampler.step(rng, state)
        rate = 50.0 + (after.factors["a"] ** 2).sum() / 2
        ranks.append(stats.gamma(3.0 + 20.0, scale=1 / rate).cdf(after.precisions["a"]))
    assert stats.kstest(ranks, "uniform").pvalue > 1e-5


# --- bias ---------------------------------------------------------------------------------------

ROWS = 4000  # independent copies of a one-parameter model, one per row


def stationary(sampler, state, steps, burn_in, fix=None):
    """Return the factor's draws after burn-in, (kept, rows)."""
    rng, kept = np.random.default_rng(11), []
    for step in range(steps):
        state, _ = sampler.step(rng, state)
        if fix is not None:
            state = state._replace(precisions=fix)
        if step >= burn_in and step % 2 == 0:
            kept.append(state.factors["a"][:, 0])
    return np.array(kept)


@pytest.fixture(scope="module")
def gaussian_spread():
    """Variances of a Gaussian posterior, x_i ~ N(θ_i, φ), θ_i ~ N(0, 1/λ), by step size."""
    x, phi, precision = 1.5, 0.5, 2.0
    model = CoupledModel({"x": "a:k"}, 1, 0.0, phi)
    engine = engine_of(model, {"x": Relation.from_dense("a", np.full(ROWS, x))})
    found = {}
    for size in (0.3, 0.15, 0.03):
        sampler = LangevinSampler(engine, prior="normal", step=size, decay=0.0)
        start = LangevinState({"a": np.zeros((ROWS, 1))}, {"a": precision}, 0)
        steps = int(20 / size)
        draws = stationary(sampler, start, steps, steps // 3, {"a": precision})
        found[size] = draws.mean(), draws.var()
    return found, x / phi, 1 / phi + precision


def test_the_mean_of_a_gaussian_posterior_is_found_at_any_step_size(gaussian_spread):
    found, pull, total = gaussian_spread
    for mean, _ in found.values():
        assert mean == pytest.approx(pull / total, abs=0.01)


def test_the_variance_has_the_known_bias_of_the_step_size(gaussian_spread):
    """θ' = θ − κPθ + N(0, 2κ) settles at variance 1/(P·(1 − κP/2))."""
    found, _, total = gaussian_spread
    for size, (_, variance) in found.items():
        assert variance == pytest.approx(1 / (total * (1 - size * total / 2)), rel=0.03)


def test_the_bias_of_the_variance_shrinks_with_the_step_size(gaussian_spread):
    found, _, total = gaussian_spread
    biases = [abs(variance - 1 / total) for _, variance in found.values()]
    assert biases[0] > 2 * biases[1] > 8 * biases[2]


def conjugate(x, shape, mean, size, steps, burn_in):
    """Draw θ_i given x_i ~ Poisson(θ_i), θ_i ~ Gamma(A, rate A/B); return draws and exact law."""
    engine = engine_of(
        CoupledModel({"x": "a:k"}, 1), {"x": Relation.from_dense("a", np.full(ROWS, x))}
    )
    law = stats.gamma(shape + x, scale=1 / (shape / mean + 1))
    sampler = LangevinSampler(engine, shape=shape, mean=mean, step=size, decay=0.0)
    start = LangevinState({"a": np.full((ROWS, 1), law.mean())}, {}, 0)
    return stationary(sampler, start, steps, burn_in), law


def test_the_bias_of_mean_and_variance_shrinks_on_a_gamma_posterior():
    errors = []
    for size in (8.0, 2.0, 0.5):
        draws, law = conjugate(30.0, 10.0, 10.0, size, int(400 / size), int(40 / size))
        errors.append((abs(draws.mean() / law.mean() - 1), abs(draws.var() / law.var() - 1)))
    means, variances = np.transpose(errors)
    assert means[0] > 2 * means[1] > 3 * means[2]
    assert variances[0] > 2 * variances[1] > 4 * variances[2]
    assert means[2] < 0.003 and variances[2] < 0.05


@pytest.mark.parametrize(("x", "shape", "tolerance"), [(0.0, 0.5, 0.5), (1.0, 2.0, 0.1)])
def test_entries_near_zero_are_not_thrown_far_out(x, shape, tolerance):
    draws, law = conjugate(x, shape, 2.0, 0.01, 1500, 500)
    assert draws.mean() == pytest.approx(law.mean(), rel=tolerance)
    assert draws.max() < law.isf(1e-12)


def test_minibatches_keep_the_mean_of_the_posterior():
    """Noise of the batches widens the posterior, but does not move a Gaussian one."""
    x = np.random.default_rng(0).normal(1.0, 1.0, 60)
    cells = np.column_stack([np.zeros(60, int), np.arange(60)])
    relation = Relation.from_cells("ab", cells, x, shape=(1, 60))
    model = CoupledModel({"x": "a:k b:k"}, 1, 0.0)
    sampler = LangevinSampler(
        engine_of(model, {"x": relation}), prior="normal", step=1e-3, decay=0.0, batch=6
    )
    fixed = {"b": np.ones((60, 1))}
    rng = np.random.default_rng(1)
    state = LangevinState({"a": np.ones((1, 1)), **fixed}, {"a": 1.0, "b": 1.0}, 0)
    draws = []
    for _ in range(2000):
        state, _ = sampler.step(rng, state)
        state = state._replace(
            factors={"a": state.factors["a"], **fixed}, precisions={"a": 1.0, "b": 1.0}
        )
        draws.append(state.factors["a"][0, 0])
    assert np.mean(draws[300:]) == pytest.approx(x.sum() / 61.0, abs=0.05)


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"prior": "cauchy"},
        {"shape": 0.0},
        {"mean": -1.0},
        {"batch": 0},
        {"step": 0.0},
        {"step": np.nan},
        {"decay": 1.5},
        {"decay": -0.1},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(options):
    with pytest.raises(ParameterError, match=f"{next(iter(options))} must be"):
        LangevinSampler(engine_of(*make("matrix")), **options)


def test_real_factors_need_the_euclidean_divergence():
    with pytest.raises(ParameterError, match="real factors need divergence='euclidean'"):
        LangevinSampler(engine_of(*make("matrix", divergence=1.0)), prior="normal")
