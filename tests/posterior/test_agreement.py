"""What is released of a statistic: sensitivities, laws, and what a function may see."""

import math

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.mechanisms.base import privatize
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.quantiles import Quantiles
from tacit.posterior.agreement import PosteriorAgreement
from tacit.posterior.numerics.statistics import Custom, OrderStatistic, Power, as_statistic
from tacit.posterior.sides import contribution
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.gaussian import gdp_to_dp
from tacit.privacy.events import REPLACE, GaussianDpEvent

CENTRAL = tc.Privacy(1.0, 1e-5, neighbours=REPLACE)
LOCAL = tc.Privacy(1.0, 1e-5, neighbours=REPLACE, trust="local")


@pytest.mark.parametrize("name", ["mean", "|x|^0.5", "x^3", "|x|^2"])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("bounds", [(-2.0, 3.0), (1.0, 4.0)])
def test_no_neighbour_moves_a_mean_by_more_than_its_sensitivity(name, kind, bounds):
    n = 7
    plan = PosteriorAgreement(as_statistic(name), bounds, n, CENTRAL, kind, "grid")
    norm = 2 if kind == "gaussian" else 1
    rng = generator(1, name)
    step = plan.mechanism.grid.step
    far = 0.0
    wild = np.array([*bounds, 0.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 1.7])
    for _ in range(400):
        x = rng.uniform(*bounds, n)
        other, who = x.copy(), rng.integers(n)
        x[who], other[who] = rng.choice(wild, 2)
        gap = (contribution(plan, x).integers - contribution(plan, other).integers) * step
        far = max(far, float(np.linalg.norm(gap, norm)))
    assert far <= plan.mechanism.sensitivity + step
    assert far > 0.99 * plan.mechanism.sensitivity  # tight: half of it would be caught


def test_no_neighbour_moves_a_vector_by_more_than_its_sensitivity():
    pair = Custom(lambda x: np.stack([x, -(x**2)], axis=-1), [(-1.0, 1.0), (-1.0, 0.0)], "pair")
    for kind, norm in (("gaussian", 2), ("laplace", 1)):
        plan = PosteriorAgreement(pair, (-1.0, 1.0), 5, CENTRAL, kind, "grid")
        rng, far = generator(2), 0.0
        for _ in range(500):
            x = rng.uniform(-1.5, 1.5, 5)
            other = x.copy()
            other[0] = rng.choice([-1.0, 0.0, 1.0, rng.uniform(-1, 1)])
            gap = (
                contribution(plan, x).integers - contribution(plan, other).integers
            ) * plan.mechanism.grid.step
            far = max(far, float(np.linalg.norm(gap, norm)))
        assert far <= plan.mechanism.sensitivity + 2 * plan.mechanism.grid.step
        width = {2: math.sqrt(5) / 5, 1: 3 / 5}[norm]
        assert plan.mechanism.sensitivity == pytest.approx(width)


def test_a_function_that_leaves_its_bounds_on_private_data_is_clipped():
    rough = Custom(lambda x: np.where(x == 0.123, 1e9, x), (0.0, 1.0), "rough")
    plan = PosteriorAgreement(rough, (0.0, 1.0), 4, CENTRAL, "gaussian", "grid")
    x = np.array([0.5, 0.5, 0.5, 0.123])
    gap = (
        contribution(plan, x).value() - contribution(plan, np.array([0.5, 0.5, 0.5, 0.0])).value()
    )
    assert abs(gap[0]) <= plan.mechanism.sensitivity * (1 + 1e-9)


def test_an_answer_of_one_person_moves_one_number():
    plan = PosteriorAgreement(Power(1.0), (-3.0, 2.0), 6, LOCAL, "laplace", "grid")
    assert plan.mechanism.sensitivity == 3.0
    assert plan.mechanism.shape == (6,)
    x = np.linspace(-3, 2, 6)
    other = x.copy()
    other[2] = 99.0
    gap = contribution(plan, x) - contribution(plan, other)
    assert np.count_nonzero(gap) == 1 and np.abs(gap).max() <= 3.0


def test_an_answer_is_yes_from_one_half_on():
    plan = next(a for a in PosteriorAgreement.examples() if a.planned.noise.kind == "response")
    assert plan.bounds == (0.0, 1.0)
    answers = contribution(plan, np.array([0.0, np.nextafter(0.5, 0.0), 0.5, 1.0]))
    assert answers.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("privacy", [CENTRAL, LOCAL])
def test_what_is_told_is_on_the_scale_of_the_data(privacy):
    """An order statistic and local answers are released as they are, a sum from its least on."""
    bounds, n = (10.0, 20.0), 4
    for statistic in (as_statistic("mean"), *((OrderStatistic(),) if privacy is CENTRAL else ())):
        plan = PosteriorAgreement(statistic, bounds, n, privacy, "auto", "grid")
        summed = plan.merge == "sum"
        released = np.full(plan.width, 3.0 if summed else 13.0)
        np.testing.assert_allclose(plan.told(released).values, 13.0)


def test_no_neighbour_replaces_more_than_one_number_of_an_order_statistic():
    """What the exponential mechanism sees of a person is a function of that person alone."""
    rng = generator(8)
    wild = np.array([np.nan, np.inf, -np.inf, 1e300, -7.3, 0.0, 2.5])
    for name, spacing in (("median x^2", 0.0), ("quantile 0.7", 1.0), ("maximum |x|", 0.0)):
        plan = PosteriorAgreement(as_statistic(name), (-3.0, 8.0), 12, CENTRAL, spacing=spacing)
        assert isinstance(plan.mechanism, Quantiles)
        assert plan.mechanism.epsilon == CENTRAL.epsilon and plan.mechanism.neighbours == REPLACE
        for _ in range(300):
            x = np.where(rng.random(12) < 0.3, rng.choice(wild, 12), rng.normal(0, 5, 12))
            other = x.copy()
            other[rng.integers(12)] = rng.choice(wild)
            values = contribution(plan, x), contribution(plan, other)
            assert all(np.isfinite(value).all() for value in values)
            assert plan.mechanism.distance(*values) <= 1.0
        far = (
            contribution(plan, np.full(12, 8.0)),
            contribution(plan, np.r_[0.0, np.full(11, 8.0)]),
        )
        assert plan.mechanism.distance(*far) == 1.0


def test_a_drawn_order_statistic_has_the_law_that_inference_is_told():
    x = generator(9).normal(1.0, 2.0, 60)
    for name, spacing in (("median x^2", 0.0), ("quantile 0.7", 1.0)):
        plan = PosteriorAgreement(as_statistic(name), (-3.0, 8.0), 60, CENTRAL, spacing=spacing)
        data = np.round(x) if spacing else x
        noise = Noise(seed=3)
        value = contribution(plan, data)
        real = [plan.told(plan.mechanism.draw(value, noise)).values[0] for _ in range(1200)]
        simulated = plan.planned.simulate(generator(4), np.tile(data, (1200, 1)))[:, 0]
        assert stats.ks_2samp(real, simulated).pvalue > 1e-3


def test_the_noise_is_that_of_the_request():
    plan = PosteriorAgreement(Power(1.0), (-10.0, 10.0), 100, CENTRAL, "gaussian", "grid")
    assert isinstance(plan.mechanism.event, GaussianDpEvent)
    assert epsilon_of(plan.mechanism.event, 1e-5) == pytest.approx(1.0, rel=1e-3)
    assert plan.planned.noise.scale == pytest.approx(plan.mechanism.scale)
    median = OrderStatistic(0.5, Power())
    smooth = PosteriorAgreement(median, (-10.0, 10.0), 100, CENTRAL, "smooth")
    assert smooth.planned.noise.beta == pytest.approx(1 / (2 * math.log(2 / 1e-5)))
    response = PosteriorAgreement(Power(), (0.0, 1.0), 100, LOCAL, "randomized-response")
    assert response.planned.noise.scale == pytest.approx(math.e / (1 + math.e))
    # auto takes the least noise: Laplace for one number at a small δ
    tiny = tc.Privacy(1.0, 1e-12, neighbours=REPLACE)
    assert PosteriorAgreement(Power(), (0, 1), 10, tiny).planned.noise.name == "laplace"
    assert PosteriorAgreement(Power(), (0, 1), 10, None).planned.noise.scale < 1e-8


def test_a_release_has_the_law_that_inference_is_told():
    x = generator(4).normal(0, 1, 50)
    plan = PosteriorAgreement(Power(1.0), (-4.0, 4.0), 50, tc.Privacy(1.0, neighbours=REPLACE),
                        "laplace", "grid")  # fmt: skip
    truth, source = np.abs(np.clip(x, -4, 4)).mean(), Noise("grid", seed=3)
    ledger = tc.Ledger.memory(neighbours=REPLACE, epsilon=1e6)
    value = contribution(plan, x)
    draws = [
        plan.told(privatize(plan.mechanism, value, ledger=ledger, rng=source)).values[0]
        for _ in range(300)
    ]
    law = stats.laplace(truth, plan.planned.noise.scale)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3
    assert stats.kstest(draws, stats.laplace(truth, law.kwds.get("scale", law.args[1]) / 2).cdf
                        ).pvalue < 1e-3  # fmt: skip


def test_a_function_sees_one_person_at_a_time(monkeypatch):
    seen, evaluate = [], Custom.evaluate

    def watched(self, x):  # a function that kept what it saw would be refused
        seen.append(x.copy())
        return evaluate(self, x)

    x = np.linspace(0.0, 1.0, 7)
    plan = PosteriorAgreement(Custom(lambda v: v**2, (0.0, 1.0)), (0.0, 1.0), 7, CENTRAL)
    monkeypatch.setattr(Custom, "evaluate", watched)
    found = contribution(plan, x)
    assert [part.shape for part in seen] == [(1,)] * 7
    assert found.value()[0] == pytest.approx(np.mean(x**2), abs=1e-6)
    assert any("remembers nothing" in note for note in plan.assumptions)


def test_a_function_of_several_people_is_refused():
    for centred in (lambda x: np.clip(x - x.mean(), -1, 1), lambda x: x / max(x.max(), 1e-9)):
        with pytest.raises(ParameterError, match="one person's number"):
            PosteriorAgreement(Custom(centred, (-1.0, 1.0)), (0.0, 1.0), 7, CENTRAL)


def test_a_function_that_fails_on_private_data_says_nothing_about_them():
    def fails(x):
        if 0.1234 in x:
            raise ValueError("a secret")
        return x

    plan = PosteriorAgreement(Custom(fails, (0.0, 1.0)), (0.0, 1.0), 2, CENTRAL)
    found, low = (contribution(plan, np.array([0.5, other])) for other in (0.1234, 0.0))
    np.testing.assert_array_equal(found.integers, low.integers)


def test_gaussian_privacy_is_asked_for_by_its_epsilon_and_delta():
    mu, delta = 0.7, 1e-5
    privacy = tc.Privacy(gdp_to_dp(mu, delta), delta, neighbours=REPLACE)
    plan = PosteriorAgreement(Power(), (-5.0, 5.0), 100, privacy, "gaussian", "grid")
    assert plan.planned.noise.scale == pytest.approx(5.0 / 100 / mu, rel=1e-3)
