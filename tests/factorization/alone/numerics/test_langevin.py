"""SGLD: gradients, minibatches, step sizes, and the laws that its exact transitions keep."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit import CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.langevin import (
    LangevinSampler,
    LangevinState,
    _cox_ingersoll_ross,
)
from tacit.factorization.alone.numerics.sums import Expanded
from tests.oracles.dense import MASKS, MODELS, Oracle, engine_of, make, random_factors

POWERS = [0.0, 0.5, 1.0, 1.5, 2.0]
DISPERSION = {"x": 0.5, "y": 10.0, "z": 2.0}


def assert_gradients(model, data, prior):
    """The slopes are the gradient of log p(x | θ), and of a gamma prior's rate."""
    engine, oracle = engine_of(model, data), Oracle(model, data)
    factors = random_factors(engine)
    rng = np.random.default_rng(3)
    if prior == "normal":
        factors = {n: theta * rng.choice([-1, 1], theta.shape) for n, theta in factors.items()}
    stated = dict.fromkeys(factors, (1.7, 0.6))
    sampler = LangevinSampler(engine, stated, prior=prior)
    expanded, exact = Expanded(engine.model, factors), dict.fromkeys(data, 1.0)
    for name, theta in factors.items():
        rising, falling = sampler.slopes(engine, exact, expanded, {}, name)
        direction, sides = rng.normal(size=theta.shape), []
        for step in (1e-5, -1e-5):
            moved = {**factors, name: theta + step * direction}
            total = -sum(oracle.cost(v, moved) / phi for v, phi in model.dispersions.items())
            total -= (1.7 / 0.6) * moved[name].sum() if prior == "gamma" else 0.0
            sides.append(total)
        slope = (sides[0] - sides[1]) / 2e-5
        found = ((rising - falling) * direction).sum()
        assert found == pytest.approx(slope, rel=1e-5, abs=1e-4)
        assert prior == "normal" or ((rising >= 0).all() and (falling >= 0).all())


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
    factors, rng = random_factors(engine), np.random.default_rng(1)
    expanded = Expanded(engine.model, factors)

    def gradient(sampler):
        batch, scales = sampler._minibatch(rng)
        slopes = [sampler.slopes(batch, scales, expanded, {}, name) for name in factors]
        return np.concatenate([(up - down).ravel() for up, down in slopes])

    expected = gradient(LangevinSampler(engine))
    sampled = np.array([gradient(LangevinSampler(engine, batch=2)) for _ in range(600)])
    spread = sampled.std(axis=0)
    error = spread / np.sqrt(len(sampled))
    np.testing.assert_array_less(np.abs(sampled.mean(axis=0) - expected), 5 * error + 1e-9)
    assert spread.max() > 0


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


def test_small_batches_take_smaller_steps_in_the_end():
    cells = np.argwhere(np.ones((40, 50)))
    relation = Relation.from_cells("ab", cells, np.ones(2000))
    engine = engine_of(CoupledModel({"x": "a:k b:k"}, 2), {"x": relation})
    whole, part = LangevinSampler(engine), LangevinSampler(engine, batch=100)
    assert whole.share(10**6) == whole.share(1) == 1.0
    assert part.share(1) == pytest.approx(1 / 20)
    assert part.share(10**6) == pytest.approx(0.3 / 19)


def test_non_negative_factors_stay_positive_and_real_ones_cross_zero():
    for prior in ("gamma", "normal"):
        sampler = LangevinSampler(engine_of(*make("coupled cp", divergence=0.0)), prior=prior)
        rng = np.random.default_rng(0)
        state = sampler.init(rng)
        for _ in range(20):
            state, _ = sampler.step(rng, state)
        entries = np.concatenate([theta.ravel() for theta in state.factors.values()])
        assert np.isfinite(entries).all()
        assert (entries > 0).all() == (prior == "gamma")


@pytest.mark.parametrize("prior", ["gamma", "normal"])
@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_no_scale_of_the_data_or_step_makes_a_chain_diverge(prior, scale):
    model, data = make("coupled tucker", divergence=0.0)
    data = {name: found.scaled(scale) for name, found in data.items()}
    data["x"] = data["x"].scaled(-1.0) if prior == "normal" else data["x"]
    learned = set(data) if prior == "normal" else set()
    sampler = LangevinSampler(engine_of(model, data), {}, learned, prior=prior, step=50.0)
    rng = np.random.default_rng(0)
    state = sampler.init(rng)
    for _ in range(30):
        state, _ = sampler.step(rng, state)
    assert all(np.isfinite(theta).all() for theta in state.factors.values())


# --- laws ---------------------------------------------------------------------------------------

ROWS = 4000  # independent copies of a one-parameter model, one per row


def stationary(sampler, state, steps):
    """Return the factor's draws of the second half, (kept, rows)."""
    rng, kept = np.random.default_rng(11), []
    for step in range(steps):
        state, _ = sampler.step(rng, state)
        if step >= steps // 2 and step % 4 == 0:
            kept.append(state.factors["a"][:, 0])
    return np.array(kept)


@pytest.mark.parametrize("size", [3.0, 0.3])
def test_a_gaussian_posterior_is_kept_at_any_step_size(size):
    """x_i ~ N(θ_i, φ), θ_i ~ N(μ, 1/λ): given μ and λ of the last step, exact for all cells."""
    relation = Relation.from_dense("a", np.full(ROWS, 1.5))
    engine = engine_of(CoupledModel({"x": "a:k"}, 1, 0.0, 0.5), {"x": relation})
    sampler = LangevinSampler(engine, {"a": (1e7, 2.0)}, prior="normal", step=size)
    draws = stationary(sampler, sampler.init(np.random.default_rng(0)), int(40 / size) + 40)
    spread = 1.0 / (1.0 / 0.5 + 2.0)  # λ is known to be 2, μ follows the data
    assert draws.var(axis=1).mean() == pytest.approx(spread, rel=0.03)


@pytest.mark.parametrize("size", [3.0, 0.3])
@pytest.mark.parametrize(("x", "shape"), [(0.0, 0.5), (1.0, 2.0), (30.0, 10.0)])
def test_a_gamma_posterior_is_kept_at_any_step_size(x, shape, size):
    """θ_i given x_i ~ Poisson(θ_i): with one component all counts are its own, and a is exact."""
    relation = Relation.from_dense("a", np.full(ROWS, x))
    engine = engine_of(CoupledModel({"x": "a:k"}, 1), {"x": relation})
    law = stats.gamma(shape + x, scale=1 / (shape / 2.0 + 1))
    sampler = LangevinSampler(engine, {"a": (shape, 2.0)}, step=size)
    start = LangevinState({"a": np.full((ROWS, 1), law.mean())}, {}, {}, 0)
    last = stationary(sampler, start, int(30 / size) + 4)[-1]
    assert stats.kstest(last, law.cdf).pvalue > 1e-5


def test_the_transition_has_the_known_moments():
    """E[θ' | θ] = θ·e^(−bh) + (a/b)(1 − e^(−bh)), and its variance."""
    rng, size = np.random.default_rng(0), 200_000
    theta, a, b, h = 0.7, 1.3, 2.0, 0.4
    rising = np.full(size, 0.5)
    found = _cox_ingersoll_ross(rng, np.full(size, theta), a, rising, np.full(size, b), h)
    a, decay = a + theta * 0.5, np.exp(-b * h)
    mean = theta * decay + a / b * (1 - decay)
    variance = 2 * theta / b * (decay - decay**2) + a / b**2 * (1 - decay) ** 2
    assert found.mean() == pytest.approx(mean, abs=5 * np.sqrt(variance / size))
    assert found.var() == pytest.approx(variance, rel=0.03)


def test_minibatches_keep_the_mean_of_the_posterior():
    """Noise of the batches widens the posterior, but does not move a Gaussian one."""
    x = np.random.default_rng(0).normal(1.0, 1.0, 60)
    cells = np.column_stack([np.zeros(60, int), np.arange(60)])
    relation = Relation.from_cells("ab", cells, x, shape=(1, 60))
    engine = engine_of(CoupledModel({"x": "a:k b:k"}, 1, 0.0), {"x": relation})
    stated = {"a": (1e9, 1.0), "b": (1.0, 1.0)}
    sampler = LangevinSampler(engine, stated, prior="normal", step=0.05, batch=6)
    fixed, rng, draws = {"b": np.ones((60, 1))}, np.random.default_rng(1), []
    state = LangevinState({"a": np.ones((1, 1)), **fixed}, {}, {"x": 1.0}, 0)
    for _ in range(3000):
        state, _ = sampler.step(rng, state)
        state = state._replace(factors={"a": state.factors["a"], **fixed})
        draws.append(state.factors["a"][0, 0])
    assert np.mean(draws[300:]) == pytest.approx(x.mean(), abs=0.06)


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"prior": "cauchy"},
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


@pytest.mark.parametrize("stated", [{"a": (0.0, 1.0)}, {"a": (1.0, -1.0)}])
def test_impossible_priors_are_refused(stated):
    with pytest.raises(ParameterError, match="of the prior of 'a' must be a number"):
        LangevinSampler(engine_of(*make("matrix")), stated)


def test_real_factors_need_the_euclidean_divergence():
    with pytest.raises(ParameterError, match="real factors need divergence='euclidean'"):
        LangevinSampler(engine_of(*make("matrix", divergence=1.0)), prior="normal")
