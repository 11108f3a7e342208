"""Variational Bayes for Normal–Normal models: the bound, exact cases, moments of q."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from tacit import CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.normal_prior import MEANS
from tacit.factorization.alone.numerics.normal_variational import (
    NormalBayes,
    variance_of_products,
)
from tests.oracles.dense import MASKS, MODELS, engine_of, make


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_the_bound_never_decreases(name, mask):
    model, data = make(name, mask, 0.0)
    signed = {v: found.scaled(-3.0) if v == "x" else found for v, found in data.items()}
    kernel = NormalBayes(engine_of(model, signed), learned={"x"})
    state, last = kernel.init(np.random.default_rng(0)), -np.inf
    for _ in range(12):
        state, info = kernel.step(state)
        assert info.bound >= last - 1e-8 * (1 + abs(last))
        last = info.bound
    assert np.isfinite(last)
    assert info.bound == pytest.approx(kernel.bound(state), rel=1e-10)


def test_listed_and_unlisted_zeros_are_the_same_data():
    model, data = make("coupled tucker", "zeros with held-out cells", 0.0)
    listed = {v: found.listed() for v, found in data.items()}
    bounds = []
    for form in (data, listed):
        kernel = NormalBayes(engine_of(model, form), learned=set(data))
        state = kernel.init(np.random.default_rng(0))
        for _ in range(4):
            state, info = kernel.step(state)
        bounds.append(info.bound)
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-8)


def test_the_bound_stays_below_the_exact_evidence_and_comes_near():
    """x_i ~ N(θ_i, φ), θ_i ~ N(μ, 1/λ): θ and μ integrate out, λ by quadrature."""
    x, phi, shape, mean = np.array([1.2, -0.3, 0.8, 2.0]), 0.5, 3.0, 2.0
    engine = engine_of(CoupledModel({"x": "a:k"}, 1, 0.0, phi), {"x": Relation.from_dense("a", x)})
    kernel = NormalBayes(engine, {"a": (shape, mean)})
    state = kernel.init(np.random.default_rng(0))
    for _ in range(300):
        state, info = kernel.step(state)

    def density(rate):
        spread = (phi + 1 / rate) * np.eye(4) + 1 / (MEANS * rate)
        return stats.multivariate_normal(np.zeros(4), spread).pdf(x) * stats.gamma(
            shape, scale=mean / shape
        ).pdf(rate)

    evidence = np.log(integrate.quad(density, 1e-6, 40.0, limit=200)[0])
    assert evidence - 1.5 < info.bound <= evidence + 1e-6


def test_noise_of_planted_data_is_found_and_variances_fit_the_errors():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(60, 2)) @ rng.normal(size=(50, 2)).T - 1.0
    seen = truth + 0.5 * rng.normal(size=truth.shape)
    missing = rng.random(truth.shape) < 0.3
    seen[missing] = np.nan
    engine = engine_of(
        CoupledModel({"x": "a:k b:k"}, 4, 0.0), {"x": Relation.from_dense("ab", seen)}
    )
    kernel = NormalBayes(engine, learned={"x"})
    state = kernel.init(rng)
    for _ in range(150):
        state, _ = kernel.step(state, objective=False)
    assert state.dispersions["x"] == pytest.approx(0.25, rel=0.15)
    cells = np.argwhere(missing).astype(np.int32)
    mean = (state.means["a"] @ state.means["b"].T)[missing]
    variance = variance_of_products(state, engine.model, "x", cells)
    score = np.sqrt(np.mean((mean - truth[missing]) ** 2 / variance))
    assert 0.5 < score < 2.0
    assert np.sqrt(np.mean((mean - truth[missing]) ** 2)) < 0.4


@pytest.mark.parametrize("name", ["matrix", "tucker", "tensor train"])
def test_predicted_variances_are_those_of_q(name):
    model, data = make(name, "missing", 0.0)
    kernel = NormalBayes(engine_of(model, data))
    rng = np.random.default_rng(1)
    state = kernel.init(rng)
    for _ in range(5):
        state, _ = kernel.step(state)
    roots = {n: np.linalg.cholesky(s) for n, s in state.covariances.items()}
    cells, bound = data["x"].indices[:4], kernel.engine.model.relations[0]
    product = np.ones((40_000, len(cells), bound.combinations))
    for position, factor in enumerate(bound.factors):
        noise = rng.normal(size=(40_000, *state.means[factor].shape))
        drawn = state.means[factor] + np.einsum("ikl,dil->dik", roots[factor], noise)
        rows = cells[:, position] if position < bound.modes else np.zeros(len(cells), int)
        product *= drawn[:, rows][:, :, bound.columns[position]]
    found = variance_of_products(state, kernel.engine.model, "x", cells)
    np.testing.assert_allclose(product.sum(axis=2).var(axis=0), found, rtol=0.1)


def test_too_many_latent_combinations_are_refused():
    ranks = {"k": 40, "l": 40, "m": 40}
    model = CoupledModel({"x": "a:k b:l c:m g:klm"}, ranks, 0.0)
    with pytest.raises(ParameterError, match="64000 latent combinations, too many"):
        NormalBayes(engine_of(model, {"x": Relation.from_dense("abc", np.ones((2, 2, 2)))}))
