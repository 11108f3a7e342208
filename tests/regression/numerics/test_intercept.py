"""The model of normal features beside a constant: its joint law, and that it finds the truth."""

import math

import numpy as np
import pytest

from tacit import Privacy, PrivateLinearRegression
from tacit.errors import ParameterError
from tacit.regression.numerics.intercept import InterceptSampler, with_constant
from tacit.regression.numerics.moments import Moments, Prior
from tacit.regression.numerics.posterior import posterior

CONSTANT, ROWS, SIDE = 0.5, 8.0, 2
PRIOR = Prior(sd=1.0, noise_shape=3.0, noise_scale=1.0, freedom=8.0, features=10.0 * np.eye(3))
GRAM_SD, CROSS_SD = 10.0, 5.0


def wishart(rng, freedom, scale):
    rows = rng.standard_normal((int(freedom), len(scale))) @ np.linalg.cholesky(scale).T
    return rows.T @ rows


def noisy(rng, gram, beta, variance):
    """Return what a site releases; the count stays public, whatever its prior."""
    z = gram @ beta + math.sqrt(variance) * np.linalg.cholesky(gram) @ rng.standard_normal(3)
    noise = np.triu(rng.standard_normal((3, 3)), 1) / math.sqrt(2.0)
    noise = noise + noise.T + np.diag(rng.standard_normal(3))
    cross = z + CROSS_SD * rng.standard_normal(3)
    return Moments(gram + GRAM_SD * noise, cross, ROWS, None, GRAM_SD, CROSS_SD, 0.0, 0.0)


def from_prior(rng):
    sigma = np.linalg.inv(wishart(rng, 8, 0.1 * np.eye(SIDE)))
    mean = rng.standard_normal(SIDE)
    b = mean + np.linalg.cholesky(sigma) @ rng.standard_normal(SIDE) / math.sqrt(ROWS)
    w = wishart(rng, ROWS - 1, sigma)
    return {"b": b, "w": w, "mean": mean, "sigma": sigma, "beta": rng.standard_normal(3),
            "variance": 1.0 / rng.gamma(3.0)}  # fmt: skip


def facts(b, w, mean, sigma, beta, variance):
    """Return numbers whose means and squares are compared."""
    found = [beta[0], beta[1], math.log(variance), b[0], mean[1], math.log(w[0, 0]),
             np.linalg.slogdet(sigma)[1], w[0, 1] / math.sqrt(w[0, 0] * w[1, 1])]  # fmt: skip
    return [*found, *(x * x for x in found[:6]), beta[0] * beta[1], b[0] * mean[0]]


def test_the_sampler_leaves_the_joint_law_of_model_and_data_as_it_is():
    """Geweke (2004): draws from the prior, and a chain that draws data and parameters in turn."""
    rng = np.random.default_rng(0)
    direct = np.array([facts(**from_prior(rng)) for _ in range(4000)])
    start, chain = from_prior(rng), []
    kernel = InterceptSampler([noisy(rng, np.eye(3) * ROWS, np.zeros(3), 1.0)], PRIOR, CONSTANT)
    state = kernel.init(rng)
    state = state._replace(
        counts=np.array([ROWS]), means=start["b"][None], spreads=start["w"][None],
        center=start["mean"], features=start["sigma"], coefficients=start["beta"],
        scale=math.log(start["variance"]), tuning=np.tile([-1.8, -0.5, 0.0, 0.0], (2, 1)),
    )  # fmt: skip
    for _ in range(2400):
        gram = with_constant(CONSTANT, ROWS, state.means[0], state.spreads[0])
        kernel.moments = [noisy(rng, gram, state.coefficients, math.exp(state.scale))]
        state, _ = kernel.run(rng, state, 1, thin=2)
        chain.append(facts(state.means[0], state.spreads[0], state.center, state.features,
                           state.coefficients, math.exp(state.scale)))  # fmt: skip
    chain = np.array(chain)
    batches = chain.reshape(12, 200, -1).mean(axis=1)  # for the error of a mean of the chain
    error = np.hypot(batches.std(axis=0, ddof=1) / math.sqrt(12),
                     direct.std(axis=0, ddof=1) / math.sqrt(len(direct)))  # fmt: skip
    gap = (chain.mean(axis=0) - direct.mean(axis=0)) / error
    assert np.abs(gap).max() < 4.5, gap.round(1)  # Student's law with eleven degrees


@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
def test_it_finds_an_intercept_through_the_estimator(neighbours):
    rng = np.random.default_rng(1)
    x = np.clip(0.2 + 0.3 * rng.standard_normal((4000, 2)), -1, 1)
    y = 0.3 + x @ [0.4, -0.2] + 0.05 * rng.standard_normal(4000)
    model = PrivateLinearRegression(
        method="MCMC-interceptX", bounds=[(-1, 1)] * 2, y_bounds=(-1, 1), chains=1, draws=100,
        warmup=100, noise="grid", random_state=1,
        privacy=Privacy(2.0, 1e-6, neighbours=neighbours),
    ).fit(x, y)  # fmt: skip
    gaps = np.array([model.intercept_ - 0.3, *(model.coef_ - [0.4, -0.2])])
    assert (np.abs(gaps) < 4.0 * np.array([model.intercept_sd_, *model.coef_sd_])).all()
    assert np.abs(gaps).max() < 0.1


def test_it_needs_an_intercept_and_a_feature():
    site = Moments(np.eye(1), np.ones(1), 10.0, None, 1.0, 1.0)
    with pytest.raises(ParameterError, match="a feature beside the constant"):
        posterior([site], "MCMC-interceptX")
    with pytest.raises(ParameterError, match="needs an intercept"):
        PrivateLinearRegression(method="MCMC-interceptX", bounds=[(-1, 1)], y_bounds=(-1, 1),
                                intercept=False, privacy=Privacy(1.0, 1e-6)).fit(
                                    np.zeros((9, 1)), np.zeros(9))  # fmt: skip
