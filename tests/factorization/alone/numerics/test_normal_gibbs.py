"""Gibbs sampling of Normal–Normal models: joint-distribution tests, exact laws, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit import CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.normal_gibbs import NormalGibbs, NormalState
from tacit.factorization.alone.numerics.normal_prior import MEANS
from tacit.factorization.alone.numerics.sums import Expanded, estimates_at
from tests.oracles.dense import MASKS, MODELS, engine_of, make

COPIES, SHAPE, MEAN = 150, 6.0, 2.0


class Joint:
    """Geweke's test: rows, data, components and noise are drawn in turn from their full
    conditionals, so the chain keeps the joint law, whose moments are those of the prior."""

    def __init__(self, seed, break_it=None):
        self.rng = np.random.default_rng(seed)
        cells = np.argwhere(np.kron(np.eye(COPIES), np.ones((2, 2))) > 0)
        values = np.zeros(len(cells))
        relation = Relation.from_cells("ab", cells, values, shape=(2 * COPIES,) * 2)
        self.engine = engine_of(CoupledModel({"x": "a:k b:k"}, 2, 0.0), {"x": relation})
        stated = dict.fromkeys("ab", (SHAPE, MEAN))
        self.kernel = NormalGibbs(self.engine, stated, {"x"})
        self.noise = self.kernel.prior.noise["x"]._replace(shape=8.0, rate=4.0)
        self.kernel.prior.noise["x"] = self.noise
        if break_it:
            break_it(self.kernel)

    def prior(self):
        rng, factors = self.rng, {}
        for name in "ab":
            precision = rng.gamma(SHAPE, MEAN / SHAPE, 2)
            mean = rng.normal(0, 1 / np.sqrt(MEANS * precision))
            factors[name] = mean + rng.normal(size=(2 * COPIES, 2)) / np.sqrt(precision)
        return NormalState(factors, {}, {"x": 4.0 / rng.gamma(8.0)})

    def data(self, state):
        found = self.engine.data["x"]
        rate = estimates_at(self.engine.model, "x", state.factors, found.indices)
        found.values[:] = rate + np.sqrt(state.dispersions["x"]) * self.rng.normal(size=len(rate))
        found.__dict__.pop("layouts", None)

    def trace(self, starts, steps):
        """Return statistics of many short chains, each started from the joint law itself."""
        kept = []
        for _ in range(starts):
            state = self.prior()
            for _ in range(steps):
                self.data(state)
                state, _ = self.kernel.step(self.rng, state)
            rows = [state.factors[n] for n in "ab"]
            precision = [state.components[n].precision.mean() for n in "ab"]
            within = [np.log(theta.var(axis=0)).mean() for theta in rows]
            kept.append([*precision, *within, np.log(state.dispersions["x"]),
                         sum(np.tanh(theta.mean()) for theta in rows)])  # fmt: skip
        return np.array(kept)


def scores(seed, steps, break_it=None, starts=60):
    """Return z-scores of chains after some steps against draws of the prior alone."""
    after = Joint(seed, break_it).trace(starts, steps)
    rng = np.random.default_rng(seed + 1)
    many = 20_000
    precision = rng.gamma(SHAPE, MEAN / SHAPE, (many, 2, 2))
    log_variance = np.log(rng.chisquare(2 * COPIES - 1, (many, 2, 2)) / (2 * COPIES) / precision)
    noise = np.log(4.0 / rng.gamma(8.0, size=many))
    expected = np.column_stack([precision.mean(axis=2), log_variance.mean(axis=2), noise])
    error = after[:, :5].std(axis=0, ddof=1) / np.sqrt(starts)
    z = (after[:, :5].mean(axis=0) - expected.mean(axis=0)) / error
    return np.append(z, after[:, 5].mean() / (after[:, 5].std(ddof=1) / np.sqrt(starts)))


def test_a_chain_keeps_the_joint_distribution():
    assert np.abs(scores(1, 6)).max() < 4.5


def twice_the_noise(kernel):
    whole = kernel.prior.noise["x"]
    kernel.prior.noise["x"] = whole._replace(rate=4.0 * whole.rate)


def no_prior_mean(kernel):
    whole = kernel.prior.components

    def broken(rng, name, table):
        found = whole(rng, name, table)
        return found._replace(precision=0.5 * found.precision)

    kernel.prior.components = broken


@pytest.mark.parametrize("broken", [twice_the_noise, no_prior_mean])
def test_a_broken_chain_is_caught(broken):
    assert np.abs(scores(1, 6, broken)).max() > 6


def test_rows_follow_their_exact_conditional_law():
    """A one-mode relation: θ_i ~ N(P⁻¹(x/φ + λμ), P⁻¹) with the components of the same step."""
    x = np.array([-2.0, 0.5, 3.0])
    relation = Relation.from_dense("a", x)
    engine = engine_of(CoupledModel({"x": "a:k"}, 1, 0.0, 0.7), {"x": relation})
    kernel, rng, ranks = NormalGibbs(engine), np.random.default_rng(0), []
    state = kernel.init(rng)
    for _ in range(800):
        state, _ = kernel.step(rng, state)
        mean, precision = state.components["a"]
        total = 1 / 0.7 + precision
        centre = (x[:, None] / 0.7 + precision * mean) / total
        ranks.append(stats.norm(centre, total**-0.5).cdf(state.factors["a"]).ravel())
    assert stats.kstest(np.ravel(ranks), "uniform").pvalue > 1e-5


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_and_mask_can_be_sampled(name, mask):
    model, data = make(name, mask, 0.0)
    kernel = NormalGibbs(engine_of(model, data), learned=set(data))
    rng = np.random.default_rng(0)
    state = kernel.init(rng)
    for _ in range(3):
        before = state
        state, info = kernel.step(rng, state)
    assert all(np.isfinite(theta).all() for theta in state.factors.values())
    expanded = Expanded(kernel.engine.model, state.factors)
    misfit = sum(
        2 * kernel.engine.cost(expanded, r) / before.dispersions[r.name]
        for r in kernel.engine.model.relations
    )
    assert info.misfit == pytest.approx(misfit, rel=1e-9)


def test_noise_and_components_of_planted_data_are_found():
    rng = np.random.default_rng(0)
    truth = rng.normal(1.0, 1.0, (80, 2)) @ rng.normal(0.0, 1.0, (60, 2)).T - 5.0
    data = {"x": Relation.from_dense("ab", truth + 0.5 * rng.normal(size=truth.shape))}
    engine = engine_of(CoupledModel({"x": "a:k b:k"}, 4, 0.0), data)
    kernel = NormalGibbs(engine, learned={"x"})
    state, kept = kernel.init(rng), []
    for step in range(200):
        state, _ = kernel.step(rng, state)
        if step >= 100:
            kept.append(state.dispersions["x"])
    assert np.mean(kept) == pytest.approx(0.25, rel=0.1)


def test_relations_that_are_not_gaussian_are_refused():
    with pytest.raises(ParameterError, match=r"divergence='euclidean' .*'x' has p = 1"):
        NormalGibbs(engine_of(*make("matrix")))
