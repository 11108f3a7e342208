"""The posterior of regression coefficients: limits, invariances, bad input."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from tacit._core.chains import autocorrelation, effective_samples, r_hat
from tacit._core.rng import generator
from tacit.errors import MissingExtra, ParameterError
from tacit.regression.numerics.moments import Moments, Prior, pooled
from tacit.regression.numerics.posterior import METHODS, posterior
from tests.oracles.regression import normal_sites

BETA = np.array([0.6, -0.4, 0.2])
FEATURES = np.array([[0.5, 0.1, 0.0], [0.1, 0.3, 0.05], [0.0, 0.05, 0.2]])
SAMPLERS = ("auto", "MCMC-normalX", "MCMC-fixedS", "MCMC-B&S")
SHORT = {"chains": 2, "draws": 800}


def sites(seed, rows=(2000, 3000), noise=20.0, variance=0.1):
    rng = np.random.default_rng(seed)
    return normal_sites(rng, BETA, FEATURES, variance, rows, noise)


def rng(seed=0):
    return np.random.default_rng(seed)


def agree(one, two, sd_ratio=0.12):
    """Means within Monte-Carlo error, spreads within a few per cent."""
    effective = min(p.diagnostics["effective_samples"].min() for p in (one, two)
                    if "effective_samples" in p.diagnostics)  # fmt: skip
    error = 5.0 * np.hypot(one.sd, two.sd) / np.sqrt(effective)
    assert (np.abs(one.mean - two.mean) < error).all()
    np.testing.assert_allclose(one.sd, two.sd, rtol=sd_ratio)


@pytest.mark.parametrize("method", ["auto", "MCMC-B&S"])
def test_without_noise_every_posterior_is_the_conjugate_one(method):
    """The noise is tiny, not zero: the samplers run. B&S's prior scales with σ: make it weak."""
    _, exact = sites(1)
    prior = Prior(sd=30.0)
    small = [replace(m, gram_sd=0.01, cross_sd=0.007, square_sd=0.01) for m in exact]
    agree(
        posterior(small, method, prior=prior, rng=rng(), **SHORT),
        posterior(exact, "conjugate", prior=prior, rng=rng(), draws=4000),
    )


@pytest.mark.parametrize("method", ["MCMC-normalX", "MCMC-fixedS"])
def test_without_noise_and_with_known_variance_the_others_agree_too(method):
    """They do not use yᵀy; a tight prior on σ² says the same."""
    _, exact = sites(1)
    prior = Prior(sd=30.0, noise_shape=2000.0, noise_scale=200.0)
    small = [replace(m, gram_sd=0.01, cross_sd=0.007) for m in exact]
    agree(
        posterior(small, method, prior=prior, rng=rng(), **SHORT),
        posterior(exact, "conjugate", prior=prior, rng=rng(), draws=4000),
    )


def test_exact_moments_give_the_conjugate_posterior_itself():
    _, exact = sites(2)
    auto = posterior(exact, rng=rng(3), draws=10)
    assert np.array_equal(auto.draws, posterior(exact, "conjugate", rng=rng(3), draws=10).draws)


def test_a_point_estimate_without_noise_is_least_squares():
    _, exact = sites(3)
    total = pooled(exact)
    expected = np.linalg.solve(total.gram, total.cross)
    for method in ("OLS", "adaSSP"):
        np.testing.assert_allclose(posterior(exact, method).mean, expected)
    fast = posterior(exact, "Bayes-fixedS-fast", prior=Prior(sd=1e4), rng=rng())
    np.testing.assert_allclose(fast.mean, expected, rtol=1e-6)


@pytest.mark.parametrize("method", SAMPLERS)
def test_the_order_of_sites_does_not_matter(method):
    seen, _ = sites(4)
    one = posterior(seen, method, prior=Prior(sd=1.0), rng=rng(1), thin=5, **SHORT)
    two = posterior(seen[::-1], method, prior=Prior(sd=1.0), rng=rng(2), thin=5, **SHORT)
    agree(one, two)


@pytest.mark.parametrize("method", ["OLS", "adaSSP", "Bayes-fixedS-fast"])
def test_the_order_of_sites_does_not_matter_in_closed_forms(method):
    seen, _ = sites(4)
    np.testing.assert_allclose(
        posterior(seen, method, rng=rng()).mean, posterior(seen[::-1], method, rng=rng()).mean
    )


@pytest.mark.parametrize("method", [m for m in METHODS if m != "MCMC-interceptX"])  # no constant
def test_more_noise_means_more_doubt_and_one_site_works(method):
    seen, _ = sites(5, rows=(4000,))
    found = posterior(seen, method, prior=Prior(sd=1.0), rng=rng(), **SHORT)
    assert found.mean.shape == (3,)
    assert np.abs(found.mean - BETA).max() < 0.2
    if method in ("auto", "MCMC-normalX"):
        more = [replace(m, gram_sd=300.0, cross_sd=200.0, square_sd=300.0) for m in seen]
        wide = posterior(more, method, prior=Prior(sd=1.0), rng=rng(), **SHORT)
        assert (wide.sd > 2 * found.sd).all()


def test_where_noise_hides_everything_predictions_go_to_zero():
    seen, _ = sites(6, rows=(50, 50), noise=3e4)
    x = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    for prior in (None, Prior(sd=1.0)):
        found = posterior(seen, prior=prior, rng=rng(), **SHORT)
        assert np.abs(found.predict(x)).max() < 0.25


@pytest.mark.parametrize("method", SAMPLERS)
def test_a_site_with_fewer_rows_than_features_joins(method):
    generator = np.random.default_rng(7)
    seen, _ = normal_sites(generator, BETA, FEATURES, 0.1, (2000, 2), 20.0)
    found = posterior(seen, method, prior=Prior(sd=1.0), rng=rng(), **SHORT)
    assert np.abs(found.mean - BETA).max() < 0.2


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("OLS", "conjugate")])
def test_collinear_features_share_what_they_explain(method):
    generator = np.random.default_rng(8)
    x = generator.uniform(-1, 1, (3000, 2))
    x = np.column_stack([x, x[:, 1]])
    y = x @ [0.5, 0.3, 0.3] + 0.2 * generator.standard_normal(3000)
    m = Moments.of(x, y)
    noise = generator.normal(0.0, 5.0, (3, 3))
    seen = Moments(m.gram + 0.5 * (noise + noise.T), m.cross + generator.normal(0, 3.5, 3), 3000,
                   m.square, 5.0, 3.5, 5.0)  # fmt: skip
    found = posterior([seen], method, prior=Prior(sd=1.0), rng=rng(), **SHORT)
    assert found.mean[1] + found.mean[2] == pytest.approx(0.6, abs=0.1)
    exact = posterior([m], "conjugate", prior=Prior(sd=1.0), rng=rng(), draws=4000)
    assert exact.mean[1] == pytest.approx(exact.mean[2], abs=0.05)


def test_noisy_moments_that_cannot_be_exact_are_refused_by_the_conjugate_posterior():
    with pytest.raises(ParameterError, match="not positive semi-definite"):
        posterior([Moments(np.diag([5.0, -3.0]), np.ones(2), 10, 4.0)], "conjugate")


def test_a_noisy_count_widens_little():
    seen, _ = sites(9)
    one = posterior(seen, prior=Prior(sd=1.0), rng=rng(1), **SHORT)
    two = posterior(
        [replace(m, rows_sd=5.0) for m in seen], prior=Prior(sd=1.0), rng=rng(2), **SHORT
    )
    agree(one, two)


def test_predictive_intervals_hold_new_responses():
    seen, _ = sites(10)
    found = posterior(seen, prior=Prior(sd=1.0), rng=rng(), **SHORT)
    generator = np.random.default_rng(11)
    x = generator.standard_normal((4000, 3)) @ np.linalg.cholesky(FEATURES).T
    y = x @ BETA + np.sqrt(0.1) * generator.standard_normal(4000)
    low, high = found.predict_interval(x, 0.9).T
    assert ((low < y) & (y < high)).mean() == pytest.approx(0.9, abs=0.03)
    narrow = found.predict_interval(x, 0.9, noise=False)
    assert (narrow[:, 1] - narrow[:, 0] < high - low).all()
    assert found.interval(0.9).shape == (3, 2)


def test_a_point_estimate_has_no_interval():
    seen, _ = sites(12)
    found = posterior(seen, "adaSSP")
    assert found.point
    assert np.isnan(found.sd).all()
    with pytest.raises(ParameterError, match="point estimate"):
        found.interval()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "magic"}, "one of 'auto'"),
        ({"chains": 0}, "chains"),
        ({"draws": 1}, "draws"),
        ({"thin": 0}, "thin"),
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"method": "adaSSP", "ridges": [1.0]}, "one λ per site"),
        ({"prior": Prior(features=np.eye(2))}, "3 × 3"),
    ],
)
def test_bad_options_are_named(options, words):
    seen, _ = sites(13)
    with pytest.raises(ParameterError, match=words):
        posterior(seen, **options)


def test_methods_that_need_squared_responses_say_so():
    seen, _ = sites(14)
    for method in ("conjugate", "MCMC-B&S"):
        with pytest.raises(ParameterError, match="yᵀy"):
            posterior([replace(m, square=None) for m in seen], method)
    with pytest.raises(ParameterError, match="on all of S, z and u"):
        posterior([replace(m, cross_sd=0.0) for m in seen], "MCMC-B&S")


def test_the_default_works_without_squared_responses():
    seen, _ = sites(15)
    without = [replace(m, square=None) for m in seen]
    found = posterior(without, prior=Prior(sd=1.0), rng=rng(), **SHORT)
    assert np.abs(found.mean - BETA).max() < 0.2
    assert found.diagnostics["r_hat"].max() < 1.1


# --- diagnostics --------------------------------------------------------------------------------


def autoregressive(memory, chains=4, draws=4000):
    generator = np.random.default_rng(1)
    noise = generator.standard_normal((chains, draws))
    out = np.zeros((chains, draws))
    out[:, 0] = noise[:, 0] / np.sqrt(1 - memory**2)
    for t in range(1, draws):
        out[:, t] = memory * out[:, t - 1] + noise[:, t]
    return out


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9, -0.3])
def test_effective_samples_of_an_autoregressive_chain(memory):
    chains = autoregressive(memory)
    expected = chains.size * (1 - memory) / (1 + memory)
    assert effective_samples(chains) == pytest.approx(expected, rel=0.2)


def test_r_hat_sees_a_chain_that_stands_elsewhere():
    chains = autoregressive(0.3)
    assert r_hat(chains) < 1.01
    chains[0] += 2.0
    assert r_hat(chains) > 1.1
    spread = autoregressive(0.3)
    spread[0] *= 3.0
    assert r_hat(spread) > 1.1
    assert r_hat(np.ones((2, 10))) == 1.0
    with pytest.raises(ParameterError, match="four draws"):
        r_hat(np.ones(10))


ARVIZ = importlib.util.find_spec("arviz") is not None


@pytest.mark.skipif(not ARVIZ, reason="needs arviz")
def test_diagnostics_equal_those_of_arviz():
    import arviz

    chains = autoregressive(0.7)
    assert r_hat(chains) == pytest.approx(float(arviz.rhat(chains)), abs=1e-3)
    assert effective_samples(chains) == pytest.approx(
        float(arviz.ess(chains, method="mean")), rel=0.02
    )
    seen, _ = sites(16)
    found = posterior(seen, rng=rng(), chains=2, draws=50)
    assert found.to_arviz().posterior["coefficients"].shape == (2, 50, 3)


@pytest.mark.skipif(ARVIZ, reason="arviz is here")
def test_without_arviz_the_error_names_the_extra():
    seen, _ = sites(16)
    with pytest.raises(MissingExtra, match="diagnostics"):
        posterior(seen, "OLS").to_arviz()


@pytest.mark.parametrize("seed", [0, 1])
def test_chains_start_near_the_summaries_where_noise_is_small(seed):
    """A chain that starts with S off by more than its noise gets stuck at a large σ²."""
    rng = generator(seed, "near")
    beta = np.r_[np.zeros(8), 0.4, 1.0]
    sites = []
    for _ in range(5):
        x = rng.beta(1.0, 4.0, (2000, 10)) * 2.0 - 1.0
        exact = Moments.of(x, x @ beta + 0.02 * rng.standard_normal(2000))
        noise = 2.4 * rng.standard_normal((10, 10))
        sites.append(
            Moments(
                exact.gram + 0.5 * (noise + noise.T),
                exact.cross + 1.7 * rng.standard_normal(10),
                2000, exact.square + 2.4 * rng.standard_normal(), 2.4, 1.7, 2.4,
            )
        )  # fmt: skip
    found = posterior(sites, draws=100, rng=rng)
    assert (np.median(found.noise_variance, axis=1) < 0.1**2).all()
    assert np.abs(found.mean - beta).max() < 0.1


def test_chains_that_disagree_are_extended(monkeypatch):
    import tacit.regression.numerics.running as module

    x = generator(0).standard_normal((400, 2))
    exact = Moments.of(x, x @ [1.0, -1.0] + 0.1 * generator(1).standard_normal(400))
    site = Moments(exact.gram, exact.cross, 400, exact.square, 5.0, 3.5, 5.0)
    values = iter([2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr(module, "r_hat", lambda chain: next(values, 1.0))
    found = posterior([site], draws=20, rng=generator(2))
    plain = posterior([site], draws=20, rng=generator(2))
    assert found.diagnostics["converged"]
    assert found.diagnostics["thin"] == 2 * plain.diagnostics["thin"]
    assert posterior([site], draws=20, thin=1, rng=generator(2)).diagnostics["thin"] == 1


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_diagnostics_do_not_depend_on_the_unit(unit):
    chains = np.random.default_rng(0).standard_normal((4, 200)).cumsum(axis=1)
    assert effective_samples(unit * chains) == pytest.approx(effective_samples(chains), rel=1e-9)
    assert np.allclose(autocorrelation(unit * chains, 5), autocorrelation(chains, 5))
