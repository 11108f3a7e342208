"""The mean of randomized answers (thesis Example 6): information, likelihood, release."""

import math

import numpy as np
import pytest
from scipy import special, stats

import tacit as tc
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.fit import Place, fit
from tacit.estimators.site import Site
from tacit.posterior.agreement import PosteriorAgreement
from tacit.posterior.numerics.information import information
from tacit.posterior.numerics.likelihood import log_likelihood
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.populations.laws import Bernoulli
from tacit.posterior.numerics.statistics import Power, as_statistic
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.gaussian import gdp_to_dp
from tacit.privacy.events import REPLACE

ASKED = tc.Privacy(2.0, 1e-5, neighbours=REPLACE, trust="local")


def planned(privacy, how, size=100):
    return PosteriorAgreement(as_statistic("mean"), (0.0, 1.0), size, privacy, how, "grid").planned


@pytest.mark.parametrize("theta", [0.1, 0.3, 0.5])
def test_the_information_is_that_of_example_6_as_corrected(theta):
    """F₂ and F₃ with v = θ(1 − θ) + 1/ε² and 1/(nε²), ε that of Gaussian privacy."""
    n, mu, delta = 100, 0.8, 1e-5
    for trust, how, v in (
        ("local", "averaged", theta * (1 - theta) + mu**-2),
        ("central", "gaussian", theta * (1 - theta) + mu**-2 / n),
    ):
        asked = tc.Privacy(gdp_to_dp(mu, delta), delta, neighbours=REPLACE, trust=trust)
        found = information(planned(asked, how), Bernoulli(), theta, "closed").value
        known = n / v + (1 - 2 * theta) ** 2 / (2 * v * v)
        assert found == pytest.approx(known, rel=2e-3)


def test_at_one_epsilon_and_delta_the_mean_of_answers_tells_no_more_than_the_answers():
    """F₃ of a curator, F₁ of randomized response, all Gaussian answers, and their mean F₂."""
    selector = tc.StatisticSelector(
        Bernoulli(), [("mean", how) for how in ("averaged", "gaussian", "randomized-response")],
        bounds=(0, 1), size=100, parameters=[0.3], privacy=ASKED,
    )  # fmt: skip
    ranking = selector.rank()
    left = {one.place: 1.0 / one.variance for one in ranking.candidates}
    assert left[2] > left[1] >= left[0] * (1 - 1e-3) and ranking.best.place == 2
    curated = tc.Privacy(2.0, 1e-5, neighbours=REPLACE)
    assert information(planned(curated, "gaussian"), Bernoulli(), 0.3).value > left[2]
    with pytest.raises(ParameterError, match="mechanism of a candidate"):
        tc.StatisticSelector(
            Bernoulli(), [("mean", "loud")], bounds=(0, 1), size=100, privacy=ASKED
        ).rank()


@pytest.mark.parametrize("size", [3, 40, 100_000])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_likelihood_of_a_mean_of_0_and_1_is_the_sum_over_who_says_yes(size, kind):
    release = NoisyStatistic(Power(), (0, 1), size, NoiseLaw(kind, 0.4 / math.sqrt(size)), [0.35])
    k = np.arange(size + 1)
    law = (stats.norm if kind == "gaussian" else stats.laplace)(scale=0.4 / math.sqrt(size))
    for theta in (0.02, 0.34, 0.9):
        terms = stats.binom.logpmf(k, size, theta) + law.logpdf(0.35 - k / size)
        found, known = log_likelihood(release, Bernoulli(), np.array([theta])), terms.max()
        if known > -700.0:  # a chance that a double can hold
            assert found == pytest.approx(special.logsumexp(terms), abs=1e-3)
        else:
            assert found < -700.0


def test_what_leaves_has_the_law_that_inference_is_told():
    """The mean of n answers, each with the noise of its own guarantee."""
    own = PosteriorAgreement(as_statistic("mean"), (0.0, 1.0), 50, ASKED, "averaged", "grid")
    data = {"A": np.repeat([0.0, 1.0], [35, 15])}
    place = Place("averaged", noise="grid")
    outcomes = [fit(own, [Site("A", None)], data, place) for _ in range(80)]
    released = [one.result for one in outcomes]
    assert released[0].values.shape == (1,) and not released[0].local
    scale = released[0].noise.scale
    found = np.array([one.values[0] for one in released])
    assert stats.kstest((found - 0.3) / scale, "norm").pvalue > 1e-3
    certificate = outcomes[0].certificates["A"]
    assert certificate.trust == "local" and certificate.epsilon <= 2.0
    assert any("only their mean leaves" in note for note in certificate.assumptions)
    assert own.mechanism.scale == pytest.approx(scale * math.sqrt(50))
    assert epsilon_of(own.mechanism.event, 1e-5) <= 2.0


def test_posteriors_are_calibrated():
    rng, found = generator(8), []
    for _ in range(30):
        theta = rng.random()
        model = tc.PrivatePosterior(
            Bernoulli(), bounds=(0, 1), mechanism="averaged", privacy=ASKED, noise="grid",
            chains=1, draws=200,
        ).fit((rng.random(400) < theta) * 1.0)  # fmt: skip
        found.append(float(np.mean(model.posterior_.flat < theta)))
    assert stats.kstest(found, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    ("privacy", "match"),
    [(tc.Privacy(1.0, 1e-5, neighbours=REPLACE), "who answer alone"),
     (tc.Privacy(1.0, neighbours=REPLACE, trust="local"), "delta > 0")],
)  # fmt: skip
def test_it_needs_people_who_answer_alone_and_a_delta(privacy, match):
    with pytest.raises(ParameterError, match=match):
        planned(privacy, "averaged")
