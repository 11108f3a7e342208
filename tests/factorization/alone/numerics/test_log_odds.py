"""Log odds of real factors: joint-distribution tests, exact posteriors, bounds, zeros unlisted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, special, stats

from tacit import CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics import normal_gibbs
from tacit.factorization.alone.numerics.langevin import LangevinSampler
from tacit.factorization.alone.numerics.log_odds import (
    Precisions,
    deviance,
    log_cosh,
    starting_precisions,
)
from tacit.factorization.alone.numerics.normal_gibbs import NormalGibbs, NormalState
from tacit.factorization.alone.numerics.normal_prior import MEANS, Components
from tacit.factorization.alone.numerics.normal_variational import NormalBayes, expected_chances
from tacit.factorization.alone.numerics.sums import Engine, Expanded, estimates_at
from tests.oracles.dense import MODELS, engine_of, make, random_factors

COPIES, SHAPE, MEAN, NOISE = 150, 6.0, 2.0, 0.5


class Joint:
    """Geweke's test of a logit relation whose factor ``a`` also stands in a Gaussian one.

    Whatever the data, the joint law is kept: a chain that draws them anew in each step keeps the
    prior, and the law of what joins factors and data.
    """

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        blocks = np.argwhere(np.kron(np.eye(COPIES), np.ones((2, 2))) > 0)
        size = (2 * COPIES, 2 * COPIES)
        links = Relation.from_cells("ab", blocks, np.zeros(len(blocks)), shape=size)
        beside = Relation.from_cells(("a", "c"), blocks, np.zeros(len(blocks)), shape=size)
        forms = {"x": "a:k b:k", "y": "a:k c:k"}
        model = CoupledModel(forms, 2, {"x": "logit", "y": 0.0}, {"x": 0.5, "y": NOISE})
        self.engine = engine_of(model, {"x": links, "y": beside})
        self.kernel = NormalGibbs(self.engine, dict.fromkeys("abc", (SHAPE, MEAN)))

    def prior(self):
        rng, factors = self.rng, {}
        for name in "abc":
            precision = rng.gamma(SHAPE, MEAN / SHAPE, 2)
            mean = rng.normal(0, 1 / np.sqrt(MEANS * precision))
            factors[name] = mean + rng.normal(size=(2 * COPIES, 2)) / np.sqrt(precision)
        return NormalState(factors, {}, {"x": 0.5, "y": NOISE})

    def data(self, state):
        for name in "xy":
            found, model = self.engine.data[name], self.engine.model
            estimate = estimates_at(model, name, state.factors, found.indices)
            if name == "x":  # of weight 2: the mean of two tosses has that likelihood, squared
                found.values[:] = self.rng.binomial(2, special.expit(estimate)) / 2.0
            else:
                found.values[:] = estimate + np.sqrt(NOISE) * self.rng.normal(size=len(estimate))
            found.__dict__.pop("layouts", None)
            self.engine._whole[name] = found.layouts[0]

    def trace(self, starts, steps):
        kept = []
        for _ in range(starts):
            state = self.prior()
            for _ in range(steps):
                self.data(state)
                state, _ = self.kernel.step(self.rng, state)
            rows = [state.factors[n] for n in "abc"]
            kept.append(
                [state.components[n].precision.mean() for n in "abc"]
                + [np.log(theta.var(axis=0)).mean() for theta in rows]
            )
        return np.array(kept)


def scores(seed, starts=40, steps=5):
    """Return z-scores of chains after some steps against draws of the prior alone."""
    after = Joint(seed).trace(starts, steps)
    rng, many = np.random.default_rng(seed + 1), 20_000
    precision = rng.gamma(SHAPE, MEAN / SHAPE, (many, 3, 2))
    within = np.log(rng.chisquare(2 * COPIES - 1, (many, 3, 2)) / (2 * COPIES) / precision)
    expected = np.column_stack([precision.mean(axis=2), within.mean(axis=2)])
    error = after.std(axis=0, ddof=1) / np.sqrt(starts)
    return (after.mean(axis=0) - expected.mean(axis=0)) / error


def test_a_chain_keeps_the_joint_distribution():
    assert np.abs(scores(1)).max() < 4.5


def of_half_the_weight(whole):
    def broken(*arguments):
        return {n: Precisions(found.listed / 2) for n, found in whole(*arguments).items()}

    return broken


def of_too_large_odds(whole):
    def broken(rng, engine, expanded, name):
        for bank in expanded.banks.values():
            bank.weights = 3.0 * bank.weights
        found = whole(rng, engine, expanded, name)
        for bank in expanded.banks.values():
            bank.weights = bank.weights / 3.0
        return found

    return broken


@pytest.mark.parametrize("broken", [of_half_the_weight, of_too_large_odds])
def test_a_broken_chain_is_caught(broken, monkeypatch):
    whole = normal_gibbs.drawn_precisions
    monkeypatch.setattr(normal_gibbs, "drawn_precisions", broken(whole))
    assert np.abs(scores(1)).max() > 6


# --- one row, one cell, a known prior -----------------------------------------------------------

ROWS, LEVEL = 3_000, Components(np.array([0.4]), np.array([0.7]))


def single(x, weight=1.0):
    """Return an engine of rows that have one cell each, of log odds 2·θ, and their posterior."""
    cells = np.column_stack([np.arange(ROWS), np.zeros(ROWS, int)])
    data = {"x": Relation.from_cells("ab", cells, np.full(ROWS, x), shape=(ROWS, 1))}
    engine = engine_of(CoupledModel({"x": "a:k b:k"}, 1, "logit", 1 / weight), data)

    def density(theta):
        prior = stats.norm(LEVEL.mean[0], LEVEL.precision[0] ** -0.5).pdf(theta)
        return prior * np.exp(weight * (x * 2 * theta - np.logaddexp(0, 2 * theta)))

    whole, first, second = (
        integrate.quad(lambda t, k=k: t**k * density(t), -12, 12)[0] for k in range(3)
    )
    mean = first / whole
    return engine, whole, mean, np.sqrt(second / whole - mean**2)


def settled(kernel, steps, kept):
    """Return rows at stationarity, under a prior that is known instead of learned."""
    chain = kernel if isinstance(kernel, NormalGibbs) else kernel.normal
    prior = chain.prior if isinstance(kernel, NormalGibbs) else chain
    prior.components = lambda *_: LEVEL
    rng, found = np.random.default_rng(5), []
    state = kernel.init(rng)
    for step in range(steps):
        state, _ = kernel.step(rng, state)
        if step >= steps - kept:
            found.append(state.factors["a"].ravel())
    return np.concatenate(found)


@pytest.mark.parametrize(("x", "weight"), [(1.0, 1.0), (0.0, 3.0), (0.3, 1.0)])
def test_gibbs_draws_have_the_exact_posterior(x, weight):
    engine, _, mean, deviation = single(x, weight)
    drawn = settled(NormalGibbs(engine, fixed={"b": np.array([[2.0]])}), 30, 12)
    assert drawn.mean() == pytest.approx(mean, abs=0.03)
    assert drawn.std() == pytest.approx(deviation, rel=0.03)


def test_langevin_draws_have_the_exact_posterior_as_steps_get_small():
    engine, _, mean, deviation = single(1.0, 2.5)
    fixed = {"b": np.array([[2.0]])}
    drawn = settled(LangevinSampler(engine, prior="normal", step=0.05, fixed=fixed), 300, 30)
    assert drawn.mean() == pytest.approx(mean, abs=0.04)
    assert drawn.std() == pytest.approx(deviation, rel=0.04)
    by_default = LangevinSampler(engine, prior="normal", fixed=fixed)
    assert by_default.share(1) == 0.2


def test_expected_chances_are_those_of_quadrature():
    means, variances = np.array([-2.0, 0.0, 5.0]), np.array([0.1, 4.0, 25.0])
    found = expected_chances(means, variances)
    for k, law in enumerate(stats.norm(m, v**0.5) for m, v in zip(means, variances, strict=True)):
        first = law.expect(special.expit)
        second = law.expect(lambda t, first=first: (special.expit(t) - first) ** 2)
        assert found[0][k] == pytest.approx(first, abs=2e-3)
        assert found[1][k] == pytest.approx(second, abs=2.5e-3)


# --- the variational bound ----------------------------------------------------------------------


def chances(name, mask, seed=0):
    """Return a model with a logit link, and with a Gaussian relation beside it if there is one."""
    model, data = make(name, mask, 0.0)
    model = CoupledModel(
        MODELS[name][0], {"k": 2, "l": 3, "m": 2}, {v: "logit" if v == "x" else 0.0 for v in data}
    )
    rng = np.random.default_rng(seed)
    links = data["x"]
    values = np.where(rng.random(links.cells) < 0.8, 1.0, 0.0)
    if links.zeros == "observed":
        values[:] = 1.0
    return model, {**data, "x": replace(links, values=values)}


@pytest.mark.parametrize("mask", ["missing", "zeros", "zeros with held-out cells"])
@pytest.mark.parametrize("name", ["tensor train", "coupled tucker"])
def test_the_bound_never_decreases(name, mask):
    model, data = chances(name, mask)
    engine = Engine(model.bind(data), data, bounded=True)
    kernel = NormalBayes(engine, learned=set(data) - {"x"})
    state, last = kernel.init(np.random.default_rng(0)), -np.inf
    for _ in range(15):
        state, info = kernel.step(state)
        assert info.bound >= last - 1e-8 * (1 + abs(last))
        last = info.bound
    assert np.isfinite(last)
    assert info.bound == pytest.approx(kernel.bound(state), rel=1e-10)


@pytest.mark.parametrize("x", [1.0, 0.3])
def test_the_bound_stays_below_the_exact_evidence_and_comes_near(x):
    engine, whole, mean, _ = single(x)
    kernel = NormalBayes(engine, fixed={"b": np.array([[2.0]])})
    state = kernel.init(np.random.default_rng(0))
    columns = state.columns["a"]._replace(
        mean=LEVEL.mean, variance=np.zeros(1), shape=1e9 * LEVEL.precision, rate=np.full(1, 1e9)
    )
    kernel._columns = lambda *_: columns
    state = state._replace(columns={**state.columns, "a": columns})
    for _ in range(50):
        state, _ = kernel.step(state, objective=False)
    assert state.means["a"] == pytest.approx(mean, abs=0.1)
    plain, squared = kernel._expanded(state)
    cells = kernel._odds_bound(plain, squared, engine.model.relation("x"))
    apart = state.means["a"] - LEVEL.mean
    second = apart**2 + state.covariances["a"][:, :, 0]
    prior = 0.5 * np.log(LEVEL.precision / (2 * np.pi)) - 0.5 * LEVEL.precision * second
    entropy = 0.5 * np.log(2 * np.pi * np.e * state.covariances["a"][:, :, 0])
    bound = (cells + float((prior + entropy).sum())) / ROWS
    assert np.log(whole) - 0.12 < bound <= np.log(whole)


@pytest.mark.parametrize("mask", ["zeros", "zeros with held-out cells"])
def test_zeros_that_are_not_listed_are_bounded_all_at_once(mask):
    """One ξ for all: below the bound of each cell's own, and equal where all log odds are."""
    model, data = chances("three-way cp", mask)
    listed = {"x": data["x"].listed()}
    engines = [Engine(model.bind(d), d, bounded=True) for d in (data, listed)]
    kernels = [NormalBayes(engine) for engine in engines]
    state, _ = kernels[1].step(kernels[1].init(np.random.default_rng(0)))
    bounds = [kernel.bound(state) for kernel in kernels]
    assert bounds[0] < bounds[1]
    alike = state._replace(
        means={n: np.full_like(m, 0.7) for n, m in state.means.items()},
        covariances={
            n: np.zeros_like(s) + 1e-12 * np.eye(2) for n, s in state.covariances.items()
        },
    )
    assert kernels[0].bound(alike) == pytest.approx(kernels[1].bound(alike), rel=1e-9)
    both = [kernel.step(alike, objective=False)[0].means["a"] for kernel in kernels]
    np.testing.assert_allclose(*both, rtol=1e-7)


@pytest.mark.parametrize("mask", ["zeros", "zeros with held-out cells"])
def test_starts_treat_listed_and_unlisted_zeros_alike(mask):
    model, data = chances("tucker", mask)
    found = []
    for form in (data, {"x": data["x"].listed()}):
        engine = Engine(model.bind(form), form, bounded=True)
        factors = {n: np.full_like(m, 0.3) for n, m in random_factors(engine).items()}
        expanded = Expanded(engine.model, factors)
        chain = NormalGibbs(engine, exact=False)
        drawn = []
        for name, width in (("a", 2), ("g", 12)):
            prior = Components(np.full(width, 0.1), np.ones(width))
            rng = np.random.default_rng(3)
            drawn.append(chain._rows(rng, expanded, name, prior, {"x": 1.0}, 0.0))
        found.append([*drawn, deviance(engine, expanded, engine.model.relation("x"))])
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-7)


def test_the_deviance_is_that_of_the_likelihood():
    model, data = chances("matrix", "missing")
    engine = engine_of(model, data)
    factors = random_factors(engine)
    odds = estimates_at(engine.model, "x", factors, data["x"].indices)
    logs = stats.bernoulli(special.expit(odds)).logpmf(data["x"].values)
    expanded = Expanded(engine.model, factors)
    assert deviance(engine, expanded, engine.model.relation("x")) == pytest.approx(-2 * logs.sum())
    np.testing.assert_allclose(log_cosh(odds), np.log(2 * np.cosh(odds / 2)))
    found = starting_precisions(engine, expanded, "a")["x"]
    assert found.unlisted == 0.25 and (found.listed <= 0.25).all()


def test_weights_that_are_no_whole_numbers_have_no_exact_draw():
    model, data = chances("matrix", "missing")
    model = CoupledModel(MODELS["matrix"][0], 2, "logit", 0.4)
    with pytest.raises(ParameterError, match="counts a cell a whole number of times"):
        NormalGibbs(engine_of(model, data))
    assert NormalBayes(engine_of(model, data)).engine


def test_zeros_that_are_not_listed_are_refused_by_a_chain():
    model, data = chances("matrix", "zeros")
    with pytest.raises(ParameterError, match="Pass inference='vb', which bounds them all at once"):
        engine_of(model, data)
