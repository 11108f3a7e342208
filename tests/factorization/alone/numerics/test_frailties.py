"""Negative binomial counts and gamma values: joint laws, exact posteriors, bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from tacit import CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.gibbs import GibbsSampler
from tacit.factorization.alone.numerics.langevin import LangevinSampler
from tacit.factorization.alone.numerics.sums import Engine, estimates_at
from tacit.factorization.alone.numerics.variational import VariationalBayes, variance_of_estimates
from tests.oracles.dense import MODELS, engine_of, make

SHAPE, MEAN = 2.0, 1.5
LAWS = {
    "negative-binomial": lambda x, mean, phi: stats.nbinom(1 / phi, 1 / (1 + phi * mean)).pmf(x),
    "gamma": lambda x, mean, phi: stats.gamma(1 / phi, scale=phi * mean).pdf(x),
    1.5: None,  # up to a constant, by its divergence
    "euclidean": lambda x, mean, phi: stats.norm(mean, phi**0.5).pdf(x),
}


def single(divergence, phi, x, rows):
    """Return an engine of rows with one cell each, of mean θ; evidence and moments of θ."""
    data = {"x": Relation.from_cells("a", np.arange(rows)[:, None], np.full(rows, x))}
    engine = engine_of(CoupledModel({"x": "a:k"}, 1, divergence, phi), data)
    prior = stats.gamma(SHAPE, scale=MEAN / SHAPE)

    def density(theta):
        if LAWS[divergence] is None:  # p = 1.5: d = 2·(√x − √θ)²/√θ
            return prior.pdf(theta) * np.exp(-2 * (x**0.5 - theta**0.5) ** 2 / theta**0.5 / phi)
        return prior.pdf(theta) * LAWS[divergence](x, theta, phi)

    whole, first, second = (
        integrate.quad(lambda t, k=k: t**k * density(t), 1e-9, 60, limit=200)[0] for k in range(3)
    )
    mean = first / whole
    return engine, whole, mean, np.sqrt(second / whole - mean**2)


# --- Langevin: a pace that follows the row would change the law ---------------------------------


@pytest.mark.parametrize(
    ("divergence", "phi"),
    [("negative-binomial", 1.0), ("gamma", 1.0), (1.5, 0.5), ("euclidean", 1.0)],
)
def test_langevin_draws_have_the_exact_posterior_as_steps_get_small(divergence, phi):
    engine, _, mean, deviation = single(divergence, phi, 3.0, 1_500)
    sampler = LangevinSampler(engine, {"a": (SHAPE, MEAN)}, step=0.05)
    rng, kept = np.random.default_rng(0), []
    state = sampler.init(rng)
    for step in range(500):
        state, _ = sampler.step(rng, state)
        if step >= 200 and step % 20 == 0:
            kept.append(state.factors["a"])
    assert np.mean(kept) == pytest.approx(mean, rel=0.025)
    assert np.std(kept) == pytest.approx(deviation, rel=0.04)


# --- Gibbs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("phi", "x"), [(1.0, 3.0), (0.3, 0.0), (4.0, 7.0)])
def test_gibbs_draws_of_negative_binomial_counts_have_the_exact_posterior(phi, x):
    engine, _, mean, deviation = single("negative-binomial", phi, x, 2_000)
    sampler, rng, kept = GibbsSampler(engine, SHAPE, MEAN), np.random.default_rng(1), []
    state = sampler.init(rng)
    for step in range(60):
        state, _ = sampler.step(rng, state)
        if step >= 30:
            kept.append(state.factors["a"])
    assert np.mean(kept) == pytest.approx(mean, rel=0.025)
    assert np.std(kept) == pytest.approx(deviation, rel=0.025)


COPIES = 150


def joint_scores(seed, broken=None, steps=6, starts=40):
    """Return z-scores of Geweke's test: 2 × 2 blocks of counts beside Poisson ones of the rows."""
    rng, size = np.random.default_rng(seed), (2 * COPIES, 2 * COPIES)
    blocks = np.argwhere(np.kron(np.eye(COPIES), np.ones((2, 2))) > 0)
    names = {"x": ("a", "b"), "y": ("a", "c")}
    data = {
        v: Relation.from_cells(modes, blocks, np.zeros(len(blocks)), shape=size)
        for v, modes in names.items()
    }
    forms = {"x": "a:k b:k", "y": "a:k c:k"}
    losses = {"x": "negative-binomial", "y": "kl"}
    model = CoupledModel(forms, 2, losses, {"x": 0.8, "y": 1.0})
    engine = engine_of(model, data)
    sampler, kept = GibbsSampler(engine, SHAPE, MEAN), []
    if broken:
        broken(sampler)
    for _ in range(starts):
        state = sampler.prior(rng)
        for _ in range(steps):
            for name, found in data.items():
                rate = estimates_at(engine.model, name, state.factors, found.indices)
                if name == "x":
                    rate = rate * rng.gamma(1 / 0.8, 0.8, len(rate))
                found.values[:] = rng.poisson(rate)
                found.__dict__.pop("layouts", None)
            state, _ = sampler.step(rng, state)
        rows = [state.factors[n] for n in "abc"]
        kept.append([*(r.mean() for r in rows), *(np.log(r).mean() for r in rows)])
    expected = [MEAN] * 3 + [special.digamma(SHAPE) + np.log(MEAN / SHAPE)] * 3
    trace = np.array(kept)
    return (trace.mean(axis=0) - expected) / (trace.std(axis=0, ddof=1) / np.sqrt(starts))


def without_frailty(sampler):
    sampler._frailties = lambda rng, expanded, relation, position: np.ones(4 * COPIES)


def with_the_prior_of_frailties(sampler):
    sampler._frailties = lambda rng, expanded, relation, position: rng.gamma(
        1 / 0.8, 0.8, 4 * COPIES
    )


def test_a_chain_keeps_the_joint_distribution():
    assert np.abs(joint_scores(1)).max() < 4.5


@pytest.mark.parametrize("broken", [without_frailty, with_the_prior_of_frailties])
def test_a_broken_chain_is_caught(broken):
    assert np.abs(joint_scores(1, broken)).max() > 6


def test_gamma_values_have_no_gibbs_sampler():
    engine, *_ = single("gamma", 1.0, 3.0, 2)
    with pytest.raises(ParameterError, match="p = 2 has no conjugate law: pass inference='vb'"):
        GibbsSampler(engine)


# --- variational Bayes ---------------------------------------------------------------------------

LOSSES = {
    "overdispersed": {"x": "negative-binomial", "y": "kl", "z": "negative-binomial"},
    "gamma": {"x": "gamma", "y": "gamma", "z": "gamma"},
    "mixed": {"x": "gamma", "y": "negative-binomial", "z": "kl"},
}


def of(name, losses, mask="missing"):
    model, data = make(name, mask)
    used = {v: LOSSES[losses][v] for v in data}
    model = CoupledModel(MODELS[name][0], {"k": 2, "l": 3, "m": 2}, used, dict.fromkeys(used, 0.6))
    counts = {v: loss != "gamma" for v, loss in used.items()}
    return model, {
        v: Relation.from_cells(
            found.entities, found.indices,
            np.round(3 * found.values) if counts[v] else found.values, shape=found.shape,
        )
        for v, found in data.items()
    }  # fmt: skip


@pytest.mark.parametrize("losses", LOSSES)
@pytest.mark.parametrize(("name", "adapt"), [("tensor train", False), ("coupled tucker", True)])
def test_the_bound_never_decreases(name, losses, adapt):
    model, data = of(name, losses)
    kernel = VariationalBayes(engine_of(model, data), 0.8, 2.0, adapt=adapt)
    state, last = kernel.init(np.random.default_rng(0)), -np.inf
    for _ in range(20):
        state, info = kernel.step(state)
        assert info.bound >= last - 1e-7 * (1 + abs(last))
        last = info.bound
    assert np.isfinite(last)
    assert info.bound == pytest.approx(kernel.bound(state), rel=1e-9)


@pytest.mark.parametrize(
    ("divergence", "phi", "x", "near"),
    [("negative-binomial", 1.0, 3.0, 0.2), ("gamma", 1.0, 3.0, 0.2), ("gamma", 0.2, 0.7, 0.35)],
)
def test_the_bound_stays_below_the_exact_evidence_and_comes_near(divergence, phi, x, near):
    engine, whole, mean, deviation = single(divergence, phi, x, 3)
    kernel = VariationalBayes(engine, SHAPE, MEAN)
    state = kernel.init(np.random.default_rng(0))
    for _ in range(300):
        state, info = kernel.step(state)
    assert np.log(whole) - near < info.bound / 3 <= np.log(whole)
    np.testing.assert_allclose(state.means["a"], mean, rtol=0.1)
    # of one row the bounds of the likelihood are tight at its mean: q is narrower, not wider
    assert (state.deviations["a"] < 1.05 * deviation).all()
    assert (state.deviations["a"] > 0.5 * deviation).all()


def test_predicted_variances_are_those_of_q():
    model, data = of("three-way cp", "gamma")
    kernel = VariationalBayes(engine_of(model, data), 0.8, 2.0)
    state = kernel.init(np.random.default_rng(0))
    for _ in range(10):
        state, _ = kernel.step(state, objective=False)
    rng, product = np.random.default_rng(1), 1.0
    cells = data["x"].indices[:4]
    for position, name in enumerate("abc"):  # θ^(ν−1)·e^(−ρθ−τ/θ), as SciPy names it
        law = state.law(name)
        root = np.sqrt(law.pull / law.scale)
        drawn = stats.geninvgauss(law.shape, 2 * root).rvs(
            size=(60_000, *law.shape.shape), random_state=rng
        )
        product = product * (drawn * root * law.scale)[:, cells[:, position]]
    found = variance_of_estimates(state, kernel.engine.model.relations[0], cells)
    np.testing.assert_allclose(product.sum(axis=2).var(axis=0), found, rtol=0.1)
    np.testing.assert_allclose(
        product.sum(axis=2).mean(axis=0),
        estimates_at(kernel.engine.model, "x", state.means, cells), rtol=0.03,
    )  # fmt: skip


def test_zeros_that_are_not_listed_stay_refused():
    _, data = make("matrix", "zeros")
    model = CoupledModel(MODELS["matrix"][0], 2, "negative-binomial")
    with pytest.raises(ParameterError, match="without visiting them"):
        Engine(model.bind(data), data, bounded=True)
