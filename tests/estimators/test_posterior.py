"""`PrivatePosterior` and `StatisticSelector`: releases, certificates, budgets, calibration."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from tacit._core.rng import generator
from tacit.errors import BudgetExceeded, NotCertified, ParameterError, UnboundedData
from tacit.estimators.ranking import _left
from tacit.estimators.statistic_release import plan_release
from tacit.inference.posterior import check_inference, choose_sampler, infer
from tacit.mechanisms.noise import Noise
from tacit.models.populations import (
    Bernoulli,
    CustomPopulation,
    Exponential,
    NormalMean,
    NormalVariance,
    Poisson,
    UniformWidth,
)
from tacit.models.priors import Beta, Gamma, Normal, Uniform
from tacit.models.releases import NoiseLaw, NoisyStatistic
from tacit.models.statistics import Custom, OrderStatistic, Power, as_statistic
from tacit.privacy.conversions import gdp_to_dp
from tacit.privacy.events import REPLACE, GaussianDpEvent

CENTRAL = tc.Privacy(1.0, 1e-5, neighbours=REPLACE)
LOCAL = tc.Privacy(1.0, 1e-5, neighbours=REPLACE, trust="local")


def small(*args, **kwargs):
    kwargs = {"chains": 2, "draws": 200, "warmup": 200, "noise": "grid"} | kwargs
    return tc.PrivatePosterior(*args, **kwargs)


# --- what is released --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mean", "|x|^0.5", "x^3", "|x|^2"])
@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("bounds", [(-2.0, 3.0), (1.0, 4.0)])
def test_no_neighbour_moves_a_mean_by_more_than_its_sensitivity(name, kind, bounds):
    n = 7
    plan = plan_release(as_statistic(name), bounds, n, CENTRAL, kind, "grid")
    norm = 2 if kind == "gaussian" else 1
    rng = generator(1, name)
    step = plan.mechanism.grid.step
    far = 0.0
    wild = np.array([*bounds, 0.0, 1e300, -1e300, np.inf, -np.inf, np.nan, 1.7])
    for _ in range(400):
        x = rng.uniform(*bounds, n)
        other, who = x.copy(), rng.integers(n)
        x[who], other[who] = rng.choice(wild, 2)
        gap = (plan.value(x).integers - plan.value(other).integers) * step
        far = max(far, float(np.linalg.norm(gap, norm)))
    assert far <= plan.mechanism.sensitivity + step
    assert far > 0.99 * plan.mechanism.sensitivity  # tight: half of it would be caught


def test_no_neighbour_moves_a_vector_by_more_than_its_sensitivity():
    pair = Custom(lambda x: np.stack([x, -(x**2)], axis=-1), [(-1.0, 1.0), (-1.0, 0.0)], "pair")
    for kind, norm in (("gaussian", 2), ("laplace", 1)):
        plan = plan_release(pair, (-1.0, 1.0), 5, CENTRAL, kind, "grid")
        rng, far = generator(2), 0.0
        for _ in range(500):
            x = rng.uniform(-1.5, 1.5, 5)
            other = x.copy()
            other[0] = rng.choice([-1.0, 0.0, 1.0, rng.uniform(-1, 1)])
            gap = (plan.value(x).integers - plan.value(other).integers) * plan.mechanism.grid.step
            far = max(far, float(np.linalg.norm(gap, norm)))
        assert far <= plan.mechanism.sensitivity + 2 * plan.mechanism.grid.step
        width = {2: math.sqrt(5) / 5, 1: 3 / 5}[norm]
        assert plan.mechanism.sensitivity == pytest.approx(width)


def test_a_function_that_leaves_its_bounds_on_private_data_is_clipped():
    rough = Custom(lambda x: np.where(x == 0.123, 1e9, x), (0.0, 1.0), "rough")
    plan = plan_release(rough, (0.0, 1.0), 4, CENTRAL, "gaussian", "grid")
    x = np.array([0.5, 0.5, 0.5, 0.123])
    gap = plan.value(x).value() - plan.value(np.array([0.5, 0.5, 0.5, 0.0])).value()
    assert abs(gap[0]) <= plan.mechanism.sensitivity * (1 + 1e-9)


def test_an_answer_of_one_person_moves_one_number():
    plan = plan_release(Power(1.0), (-3.0, 2.0), 6, LOCAL, "laplace", "grid")
    assert plan.mechanism.sensitivity == 3.0
    assert plan.mechanism.shape == (6,)
    x = np.linspace(-3, 2, 6)
    other = x.copy()
    other[2] = 99.0
    gap = plan.value(x) - plan.value(other)
    assert np.count_nonzero(gap) == 1 and np.abs(gap).max() <= 3.0


def test_the_noise_is_that_of_the_request():
    plan = plan_release(Power(1.0), (-10.0, 10.0), 100, CENTRAL, "gaussian", "grid")
    assert isinstance(plan.mechanism.event, GaussianDpEvent)
    from tacit.privacy.accounting import epsilon_of

    assert epsilon_of(plan.mechanism.event, 1e-5) == pytest.approx(1.0, rel=1e-3)
    assert plan.planned.noise.scale == pytest.approx(plan.mechanism.scale)
    smooth = plan_release(OrderStatistic(0.5, Power()), (-10.0, 10.0), 100, CENTRAL)
    assert smooth.planned.noise.beta == pytest.approx(1 / (2 * math.log(2 / 1e-5)))
    response = plan_release(Power(), (0.0, 1.0), 100, LOCAL, "randomized-response")
    assert response.planned.noise.scale == pytest.approx(math.e / (1 + math.e))
    # auto takes the least noise: Laplace for one number at a small δ
    tiny = tc.Privacy(1.0, 1e-12, neighbours=REPLACE)
    assert plan_release(Power(), (0, 1), 10, tiny).name == "laplace"
    assert plan_release(Power(), (0, 1), 10, None).planned.noise.scale < 1e-8


def test_a_release_has_the_law_that_inference_is_told():
    x = generator(4).normal(0, 1, 50)
    plan = plan_release(Power(1.0), (-4.0, 4.0), 50, tc.Privacy(1.0, neighbours=REPLACE),
                        "laplace", "grid")  # fmt: skip
    truth, source = np.abs(np.clip(x, -4, 4)).mean(), Noise("grid", seed=3)
    ledger = tc.Ledger.memory(epsilon=1e6)
    draws = [plan.release(x, ledger, source).values[0] for _ in range(300)]
    law = stats.laplace(truth, plan.planned.noise.scale)
    assert stats.kstest(draws, law.cdf).pvalue > 1e-3
    assert stats.kstest(draws, stats.laplace(truth, law.kwds.get("scale", law.args[1]) / 2).cdf
                        ).pvalue < 1e-3  # fmt: skip


# --- the estimator -----------------------------------------------------------------------------


def test_a_fit_is_charged_once_and_certified(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "ledger.db", epsilon=1.5, delta=1e-4)
    x = generator(5).normal(0, 1.5, 400)
    model = small(NormalVariance(), "|x|", bounds=(-10, 10), privacy=CENTRAL, ledger=ledger)
    with pytest.raises(ParameterError, match="size must be given"):
        model.price()
    model.fit(x)
    certificate = model.certificate_.verify(ledger)
    assert certificate.epsilon == pytest.approx(1.0, rel=1e-3)
    assert certificate.neighbours == REPLACE
    assert any("400" in note for note in certificate.assumptions)
    assert ledger.remaining.epsilon == pytest.approx(0.5, abs=1e-3)
    with pytest.raises(BudgetExceeded):
        model.fit(x)
    assert model.mean_[0] == pytest.approx(2.25, abs=1.5)
    low, high = model.interval(0.9)[0]
    assert low < model.mean_[0] < high
    assert max(model.posterior_.diagnostics["r_hat"]) < 1.1
    model.release(tmp_path / "release")
    assert tc.read_release(tmp_path / "release").arrays["values"].shape == (1,)
    assert json.loads(certificate.to_json())["delta"] == 1e-5
    # the analyst needs the noisy number only
    again = small(NormalVariance(), random_state=1).infer(model.released_)
    assert again.mean_[0] == pytest.approx(model.mean_[0], rel=0.2)


def test_seeded_noise_is_not_for_release(tmp_path):
    x = generator(6).random(100)
    model = small(Bernoulli(), bounds=(0, 1), privacy=CENTRAL, random_state=3).fit((x < 0.4) * 1.0)
    with pytest.raises(NotCertified, match="seeded"):
        model.release(tmp_path / "release")
    other = small(Bernoulli(), bounds=(0, 1), privacy=CENTRAL, random_state=3).fit((x < 0.4) * 1.0)
    np.testing.assert_array_equal(model.posterior_.draws, other.posterior_.draws)


@pytest.mark.parametrize(
    ("population", "statistic", "bounds", "mechanism", "privacy", "sampler"),
    [
        (NormalMean(), "mean", (0, 10), "laplace", CENTRAL, "mh"),
        (NormalVariance(), "median |x|", (-10, 10), "auto", CENTRAL, "mhaar"),
        (Bernoulli(), "mean", (0, 1), "randomized-response", LOCAL, "mh"),
        (Exponential(), "mean", (0, 30), "gaussian", LOCAL, "mh"),
    ],
)
def test_the_default_picks_a_sampler_for_the_case(
    population, statistic, bounds, mechanism, privacy, sampler
):
    theta = {NormalMean: 4.0, NormalVariance: 2.0, Bernoulli: 0.6, Exponential: 3.0}
    truth = theta[type(population)]
    x = population.simulate(np.array([truth]), generator(7).standard_normal(300))
    model = small(
        population, statistic, bounds=bounds, mechanism=mechanism, privacy=privacy, particles=10
    ).fit(x)
    assert model.posterior_.sampler == sampler
    assert abs(model.mean_[0] - truth) < 6 * model.sd_[0]
    assert model.certificate_.epsilon <= 1.0 + 1e-6


def test_the_default_for_few_people_vectors_and_several_releases():
    few = NoisyStatistic(Power(), (0, 1), 5, NoiseLaw("gaussian", 0.1), [0.5])
    assert choose_sampler([few], Bernoulli()) == "mhaar"
    pair = Custom(lambda x: np.stack([x, x], axis=-1), [(0, 1), (0, 1)])
    two = NoisyStatistic(pair, (0, 1), 50, NoiseLaw("laplace", 0.1), [0.5, 0.5])
    assert choose_sampler([two], Bernoulli()) == "mhaar-rb"
    assert choose_sampler([few, few], Bernoulli()) == "mh"
    many = NoisyStatistic(Power(), (0, 1), 50, NoiseLaw("gaussian", 0.1), [0.5])
    assert choose_sampler([many, few], Bernoulli()) == "mhaar"
    assert choose_sampler([many, two], Bernoulli()) == "mhaar-rb"
    median = NoisyStatistic(OrderStatistic(), (0, 1), 50, NoiseLaw("smooth", 1.0, 0.1), [0.5])
    assert choose_sampler([many, median], NormalMean()) == "mhaar"
    with pytest.raises(ParameterError, match="both not known"):
        check_inference([median, median], NormalMean())


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"bounds": None}, UnboundedData, "bounds must be given"),
        ({"bounds": (1, 0)}, ParameterError, "bounds"),
        ({"statistic": "nonsense"}, ParameterError, "a statistic must be"),
        ({"privacy": tc.Privacy(1.0, 1e-5)}, ParameterError, "replace-one"),
        ({"privacy": tc.Privacy(1.0, neighbours=REPLACE), "mechanism": "gaussian"},
         ParameterError, "delta > 0"),
        ({"population": None}, ParameterError, "population"),
        ({"statistic": "maximum", "mechanism": "laplace"}, ParameterError, "smooth"),
        ({"statistic": "median", "privacy": LOCAL}, ParameterError, "alone"),
        ({"mechanism": "randomized-response"}, ParameterError, "local"),
        ({"size": 7}, ParameterError, "7 people"),
        ({"statistic": Custom(lambda x: 2 * x, (0, 1))}, ParameterError, "leaves its declared"),
        ({"sampler": "mh", "statistic": "median"}, ParameterError, "not known"),
        ({"sampler": "gibbs", "privacy": LOCAL}, ParameterError, "own answer"),
        ({"population": CustomPopulation(lambda theta, z: z)}, ParameterError, "prior must be"),
        ({"prior": [Beta(1.0, 1.0)] * 2}, ParameterError, "prior must hold 1"),
        ({"prior": Uniform(2.0, 3.0)}, ParameterError, "leaves the parameter's range"),
        ({"sampler": "mhaar", "particles": 1}, ParameterError, "two particles"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anybody_pays(changes, error, match):
    ledger = tc.Ledger.memory(epsilon=10.0, delta=1e-3)
    settings = {"population": Bernoulli(), "bounds": (0, 1), "privacy": CENTRAL} | changes
    population = settings.pop("population")
    with pytest.raises(error, match=match):
        small(population, ledger=ledger, **settings).fit(np.ones(40))
    assert ledger.remaining.epsilon == 10.0


def test_shapes_are_refused_and_values_are_not_looked_at():
    model = small(NormalMean(), bounds=(0, 1), privacy=CENTRAL)
    for bad in (["a", "b"], np.ones((3, 2)), []):
        with pytest.raises(ParameterError, match="data must hold"):
            model.fit(bad)
    # no check before the charge may depend on private values: what is no number counts as low
    plan = plan_release(Power(), (0.0, 1.0), 40, CENTRAL, "gaussian", "grid")
    wild = np.r_[np.nan, np.inf, -np.inf, np.full(37, 0.5)]
    tame = np.r_[0.0, 1.0, 0.0, np.full(37, 0.5)]
    np.testing.assert_array_equal(plan.value(wild).integers, plan.value(tame).integers)
    response = plan_release(Power(), (0.0, 1.0), 4, LOCAL, "randomized-response")
    np.testing.assert_array_equal(response.value(np.array([np.nan, 0.7, 9.0, -1])), [0, 1, 1, 0])
    assert any("0 or 1" in note for note in response.assumptions)


def test_gaussian_privacy_is_asked_for_by_its_epsilon_and_delta():
    mu, delta = 0.7, 1e-5
    privacy = tc.Privacy(gdp_to_dp(mu, delta), delta, neighbours=REPLACE)
    plan = plan_release(Power(), (-5.0, 5.0), 100, privacy, "gaussian", "grid")
    assert plan.planned.noise.scale == pytest.approx(5.0 / 100 / mu, rel=1e-3)


@pytest.mark.slow
def test_arviz_agrees_with_our_diagnostics():
    import arviz

    share = NoisyStatistic(Power(), (0, 1), 1000, NoiseLaw("gaussian", 0.01), [0.3])
    found = infer(share, Bernoulli(), chains=4, draws=1000, warmup=300, rng=generator(11))
    data = found.to_arviz()
    assert data.posterior["probability"].shape == (4, 1000)
    (hat,), (size,) = (found.diagnostics[key] for key in ("r_hat", "effective_samples"))
    assert float(arviz.rhat(data)["probability"]) == pytest.approx(hat, abs=2e-3)
    assert float(arviz.ess(data, method="mean")["probability"]) == pytest.approx(size, rel=0.1)
    assert data.attrs["autocorrelation_time"] == pytest.approx([4000 / size])
    assert data.attrs["sampler"] == "mh"


def test_a_prior_that_excludes_the_data_is_named():
    release = NoisyStatistic(Power(1.0, False), (0, 100), 100, NoiseLaw("gaussian", 0.1), [50.0])
    with pytest.raises(ParameterError, match="the prior excludes the data"):
        infer(release, NormalMean(), Uniform(0.0, 1.0))
    far = NoisyStatistic(Power(), (0, 10), 100, NoiseLaw("laplace", 0.1), [9.0])
    with pytest.raises(ParameterError, match="the prior excludes the data"):
        infer(far, Exponential(), Uniform(0.0, 1.0))
    near = far.replace([5.0])
    assert infer(near, Exponential(), chains=1, draws=50, warmup=50).mean[0] > 4


# --- the selector ------------------------------------------------------------------------------


def test_the_ranking_of_the_thesis_and_its_advice():
    settings = {"bounds": (-10, 10), "size": 100, "parameters": [2.0]}
    tight = tc.StatisticSelector(NormalVariance(), ["|x|^2", "|x|"], privacy=CENTRAL, **settings)
    ranking = tight.rank()
    assert [c.name for c in ranking.candidates] == ["|x|", "|x|^2"]
    assert ranking.advice.startswith("Release |x| with")
    loose = tc.Privacy(1e4, 1e-5, neighbours=REPLACE)
    free = tc.StatisticSelector(NormalVariance(), ["|x|^2", "|x|"], privacy=loose, **settings)
    assert free.rank().best.name == "|x|^2"
    assert len(ranking.table()) == 2
    assert len(ranking.plot().get_lines()) == 2


def test_no_candidate_is_informative_says_so():
    nothing = tc.Privacy(1e-4, 1e-9, neighbours=REPLACE)
    selector = tc.StatisticSelector(
        NormalMean(), ["mean", "x^3"], bounds=(0, 10), size=50, privacy=nothing, noise="grid"
    )
    ranking = selector.rank()
    assert not ranking.informative
    assert ranking.advice.startswith("No candidate is informative at ε = 0.0001")
    ledger = tc.Ledger.memory(epsilon=1.0, delta=1e-3)
    selector.set_params(ledger=ledger)
    with pytest.raises(ParameterError, match="No candidate is informative"):
        selector.fit(np.full(50, 5.0))
    assert ledger.remaining.epsilon == 1.0


def adaptive(ledger, **changes):
    settings = {
        "bounds": (-10, 10), "privacy": tc.Privacy(2.0, 1e-4, neighbours=REPLACE), "chains": 2,
        "draws": 200, "warmup": 200, "noise": "grid", "first_statistic": "|x|",
        "candidates": [f"|x|^{a}" for a in (0.1, 0.5, 1, 2)],
    } | changes  # fmt: skip
    return tc.StatisticSelector(UniformWidth(), ledger=ledger, **settings)


def test_disjoint_chunks_cost_one_release(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "ledger.db", epsilon=2.5, delta=1e-3)
    x = generator(8).uniform(-6, 6, 300)
    model = adaptive(ledger).fit(x)
    assert [r.size for r in model.releases_] == [30, 270]
    assert model.selected_.name == model.ranking_.best.name
    assert model.certificate_.verify(ledger).epsilon == pytest.approx(2.0, rel=1e-6)
    assert ledger.remaining.epsilon == pytest.approx(0.5, abs=1e-6)
    assert abs(model.mean_[0] - 6.0) < 6 * model.sd_[0]
    with pytest.raises(BudgetExceeded):
        model.fit(x)
    assert "disjoint" in str(model.certificate_)


def test_each_chunk_depends_on_its_own_people_only():
    """A neighbour in one chunk leaves the other chunk's release as it was, given the first."""
    x = generator(9).uniform(-6, 6, 200)
    base = adaptive(None, random_state=5).fit(x)
    late = x.copy()
    late[150] = 10.0
    moved = adaptive(None, random_state=5).fit(late)
    np.testing.assert_array_equal(base.releases_[0].values, moved.releases_[0].values)
    assert base.selected_ == moved.selected_
    assert base.releases_[1].values != moved.releases_[1].values
    # negative control: charging both chunks to one purse is refused
    plan = plan_release(Power(), (-10, 10), 20, CENTRAL, "gaussian", "grid")
    purse = tc.Ledger.memory(epsilon=1.0, delta=1e-5)
    held = purse.reserve(plan.mechanism.event, purpose="one", delta=1e-5, asked=1.0)
    plan.release(x[:20], held, Noise("grid"))
    with pytest.raises(BudgetExceeded):
        plan.release(x[20:40], held, Noise("grid"))


@pytest.mark.slow
def test_a_median_may_be_chosen_after_a_first_mean():
    x = generator(12).uniform(-6, 6, 120)
    model = adaptive(None, candidates=["median |x|"], parameters=[6.0], random_state=2,
                     privacy=tc.Privacy(5.0, 1e-3, neighbours=REPLACE)).fit(x)  # fmt: skip
    assert model.selected_ == OrderStatistic(0.5, Power())
    assert model.posterior_.sampler == "mhaar"
    assert abs(model.mean_[0] - 6.0) < 6 * model.sd_[0]


def test_two_medians_are_refused_before_anybody_pays():
    ledger = tc.Ledger.memory(epsilon=9.0, delta=1e-3)
    model = adaptive(ledger, candidates=["|x|", "median |x|"], first_statistic="median |x|")
    with pytest.raises(ParameterError, match="both not known"):
        model.fit(generator(13).uniform(-6, 6, 300))
    assert ledger.remaining.epsilon == 9.0


def test_noise_of_monte_carlo_never_makes_a_posterior_certain():
    assert _left(np.array([[-5.0]]), np.array([2.0])) == 0.5  # F below 0 tells nothing
    assert _left(np.array([[3.0]]), np.array([2.0])) == pytest.approx(0.2)


def test_selectors_refuse_what_makes_no_sense():
    with pytest.raises(ParameterError, match="at least one"):
        tc.StatisticSelector(NormalMean(), [], bounds=(0, 1), size=5, privacy=CENTRAL).rank()
    with pytest.raises(ParameterError, match="size must be given"):
        tc.StatisticSelector(NormalMean(), ["mean"], bounds=(0, 1), privacy=CENTRAL).rank()
    with pytest.raises(ParameterError, match="too few"):
        adaptive(None, privacy=tc.Privacy(100.0, 1e-4, neighbours=REPLACE)).fit([1.0, 2.0, 3.0])


# --- simulation-based calibration of the default ------------------------------------------------

CALIBRATION = [
    (NormalMean(), Normal(5.0, 1.0), "mean", (0.0, 10.0)),
    (NormalVariance(), Gamma(4.0, 0.5), "|x|", (-10.0, 10.0)),
    (UniformWidth(), Gamma(9.0, 0.4), "|x|^0.5", (-10.0, 10.0)),
    (Bernoulli(), Beta(2.0, 2.0), "mean", (0.0, 1.0)),
    (Exponential(), Gamma(9.0, 0.3), "mean", (0.0, 15.0)),
    (Poisson(), Gamma(9.0, 0.4), "mean", (0.0, 20.0)),
]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(
    ("population", "prior", "statistic", "bounds"), CALIBRATION,
    ids=[type(case[0]).__name__ for case in CALIBRATION],
)  # fmt: skip
@pytest.mark.slow
def test_the_default_is_calibrated(population, prior, statistic, bounds, mechanism):
    """The rank of the truth among draws is uniform when truth and data come from the model."""
    rng, levels = generator(10, type(population).__name__ + mechanism), []
    privacy = tc.Privacy(1.0, 1e-5, neighbours=REPLACE)
    plan = plan_release(as_statistic(statistic), bounds, 100, privacy, mechanism, "grid")
    for _ in range(150):
        theta = prior.sample(rng, 1)
        x = population.simulate(theta, rng.standard_normal(100))
        release = plan.planned.replace(plan.planned.simulate(rng, x))
        found = infer(release, population, prior, chains=1, draws=200, warmup=300, rng=rng)
        draws = found.flat[:: max(1, round(found.diagnostics["autocorrelation_time"][0]))]
        levels.append((np.sum(draws < theta) + rng.random()) / (len(draws) + 1))
    assert stats.kstest(levels, "uniform").pvalue > 1e-3
