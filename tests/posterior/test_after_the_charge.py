"""A posterior's fit ends once it has paid, whatever n, prior, statistic and noise are."""

import itertools

import numpy as np
import pytest

import tacit as tc
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.posterior.numerics.populations.laws import (
    Bernoulli,
    CustomPopulation,
    Exponential,
    NormalMean,
    NormalVariance,
    Poisson,
    UniformWidth,
)
from tacit.posterior.numerics.priors import Beta, Gamma, InverseGamma, Normal, Uniform
from tacit.posterior.numerics.statistics import Custom
from tacit.privacy.events import REPLACE

# population, bounds, truth, priors: the default, ones that exclude it, ones that hardly know it
POPULATIONS = {
    "NormalMean": (NormalMean(2.0), (-20.0, 20.0), 4.0,
                   [None, Uniform(8.0, 9.0), Normal(0.0, 1e6), Uniform(3.99, 4.01)]),
    "NormalVariance": (NormalVariance(), (-10.0, 10.0), 2.0,
                       [None, Uniform(50.0, 60.0), InverseGamma(1e-2, 1e-2), Gamma(1e-2, 1e4)]),
    "UniformWidth": (UniformWidth(), (-10.0, 10.0), 6.0, [None, Uniform(1.0, 2.0)]),
    "Bernoulli": (Bernoulli(), (0.0, 1.0), 0.3, [None, Beta(1e3, 10.0), Beta(0.01, 0.01)]),
    "Exponential": (Exponential(), (0.0, 30.0), 3.0, [None, Uniform(20.0, 25.0)]),
    "Poisson": (Poisson(), (0.0, 40.0), 6.0, [None, Uniform(20.0, 25.0), Gamma(0.01, 1e4)]),
    "Custom": (CustomPopulation(lambda theta, z: theta[0] + z), (-20.0, 20.0), 4.0,
               [Normal(0.0, 10.0), Uniform(8.0, 9.0)]),
}  # fmt: skip
PAIR = Custom(
    lambda x: np.stack([np.abs(x), np.minimum(x * x, 100.0)], axis=-1), [(0, 40), (0, 100)], "pair"
)
RELEASES = [
    ("mean", "laplace", "central"), ("mean", "gaussian", "central"),
    ("|x|^0.5", "auto", "central"), ("x^3 ∧ 27", "auto", "central"),
    ("median", "exponential", "central"), ("median", "smooth", "central"),
    ("maximum |x|", "auto", "central"), ("minimum", "smooth", "central"),
    ("quantile 0.9 x^2", "auto", "central"), ("mean", "laplace", "local"),
    ("|x|^2", "gaussian", "local"), ("mean", "randomized-response", "local"),
    (PAIR, "gaussian", "central"), (PAIR, "laplace", "central"),
]  # fmt: skip


def tried(name, size, release, prior, epsilon=1.0):
    """Fit, and return the model; None where it was refused before anybody paid."""
    population, bounds, truth, _ = POPULATIONS[name]
    statistic, mechanism, trust = release
    x = population.simulate(np.array([truth]), generator(1, name).standard_normal(size))
    ledger = tc.Ledger.memory(neighbours=REPLACE, epsilon=100.0, delta=1e-3)
    model = tc.PrivatePosterior(
        population, statistic, bounds=bounds, prior=prior, mechanism=mechanism, ledger=ledger,
        privacy=tc.Privacy(epsilon, 1e-6, neighbours=REPLACE, trust=trust),
        noise="grid", chains=2, draws=100, warmup=100,
    )  # fmt: skip
    try:
        model.fit(x)
    except ParameterError:
        assert ledger.remaining.epsilon == 100.0
        return None
    assert ledger.remaining.epsilon < 100.0
    if hasattr(model, "unexplained_"):
        assert "the prior excludes the data" in model.unexplained_
    else:
        assert np.isfinite(model.mean_).all() and np.isfinite(model.sd_).all()
        assert model.interval()[0, 0] < model.interval()[0, 1]
    return model


SHORT = [
    ("Exponential", 100_000, RELEASES[0], 0), ("Exponential", 4000, RELEASES[0], 1),
    ("NormalMean", 10, RELEASES[4], 2), ("NormalMean", 100_000, RELEASES[4], 1),
    ("NormalMean", 4000, RELEASES[1], 3), ("NormalVariance", 4000, RELEASES[1], 3),
    ("NormalVariance", 100_000, RELEASES[2], 2), ("UniformWidth", 4000, RELEASES[6], 1),
    ("Bernoulli", 100_000, RELEASES[11], 1), ("Bernoulli", 10, RELEASES[5], 2),
    ("Poisson", 4000, RELEASES[8], 2), ("Poisson", 100_000, RELEASES[9], 1),
    ("Custom", 4000, RELEASES[3], 1), ("NormalVariance", 10, RELEASES[0], 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "size", "release", "prior"), SHORT)
def test_a_fit_that_has_paid_ends(name, size, release, prior):
    assert tried(name, size, release, POPULATIONS[name][3][prior]) is not None


@pytest.mark.parametrize("size", [10, 100, 4000, 100_000, 1_000_000])
@pytest.mark.parametrize("name", list(POPULATIONS))
@pytest.mark.slow
def test_every_fit_that_has_paid_ends(name, size):
    levels = (0.1, 10.0) if size < 10**4 else (1.0,)
    if name == "Custom" and size > 10**5:
        pytest.skip("sixteen thousand strata of a simulator of one's own, many times")
    cases = itertools.product(RELEASES, POPULATIONS[name][3], levels)
    done = [tried(name, size, *case) for case in cases if size < 10**5 or case[0][0] is not PAIR]
    assert sum(model is not None for model in done) > len(done) // 2


def test_a_narrow_posterior_is_found_in_a_wide_prior():
    """A prior a million times wider than the posterior, and two peaks far apart."""
    model = tried("NormalMean", 100_000, RELEASES[0], Normal(0.0, 1e6))
    assert abs(model.mean_[0] - 4.0) < 6 * model.sd_[0] < 0.1
    twice = tc.PrivatePosterior(
        NormalMean(), "|x|", bounds=(-20, 20), prior=Uniform(-7.0, 20.0), noise="grid",
        privacy=tc.Privacy(1.0, neighbours=REPLACE),
    )  # fmt: skip
    twice.fit(generator(2).normal(4.0, 1.0, 20_000))
    share = float(np.mean(twice.posterior_.flat > 0.0))
    assert abs(share - 0.5) < 0.05  # the mean of |x| cannot tell −4 from 4
    assert np.abs(twice.posterior_.flat).std() < 0.05


@pytest.mark.parametrize("error", [np.linalg.LinAlgError, FloatingPointError, ValueError])
def test_an_error_of_another_library_leaves_the_release(monkeypatch, error):
    """Whatever inference raises: the fit ends, the release is there, and another try is free."""
    from tacit.posterior import estimator

    def fails(*given, **more):
        raise error("did not converge")

    ledger = tc.Ledger.memory(neighbours=REPLACE, epsilon=1.0)
    model = tc.PrivatePosterior(
        NormalMean(), bounds=(0, 10), ledger=ledger, noise="grid", chains=1, draws=20,
        privacy=tc.Privacy(1.0, neighbours=REPLACE),
    )  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(estimator, "infer", fails)
        model.fit(np.full(400, 4.0))
    assert "did not converge" in model.unexplained_
    assert "did not converge" in str(model.summary())
    assert model.certificate_.verify(ledger).epsilon == 1.0
    assert abs(model.infer().mean_[0] - 4.0) < 1.0 and not hasattr(model, "unexplained_")


def test_a_selector_ends_whatever_inference_raises(monkeypatch):
    from tacit.posterior.ranking import Comparison

    def fails(*given, **more):
        raise np.linalg.LinAlgError("did not converge")

    selector = tc.StatisticSelector(
        NormalVariance(), ["|x|", "|x|^2"], bounds=(-10, 10), parameters=[2.0], noise="grid",
        privacy=tc.Privacy(2.0, 1e-5, neighbours=REPLACE), chains=1, draws=40, warmup=4,
    )  # fmt: skip
    x = generator(3).normal(0.0, 1.4, 400)
    with monkeypatch.context() as patch:
        patch.setattr(Comparison, "infer", fails)
        selector.fit(x)
    assert "did not converge" in selector.unexplained_ and len(selector.releases_) == 2
    assert selector.infer().mean_[0] > 0.5
