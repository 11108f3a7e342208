"""`PrivatePosterior`: releases, certificates, budgets, calibration."""

import dataclasses
import json

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from tacit._core.rng import generator
from tacit.errors import BudgetExceeded, NotCertified, ParameterError, UnboundedData
from tacit.posterior.agreement import PosteriorAgreement
from tacit.posterior.numerics.infer import check_inference, choose_sampler, infer
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.populations.laws import (
    Bernoulli,
    CustomPopulation,
    Exponential,
    NormalMean,
    NormalVariance,
    Poisson,
    UniformWidth,
)
from tacit.posterior.numerics.priors import Beta, Gamma, Normal, Uniform
from tacit.posterior.numerics.statistics import Custom, OrderStatistic, Power, as_statistic
from tacit.posterior.sides import contribution
from tacit.privacy.events import REPLACE

CENTRAL = tc.Privacy(1.0, 1e-5, neighbours=REPLACE)
LOCAL = tc.Privacy(1.0, 1e-5, neighbours=REPLACE, trust="local")


TWICE = Custom(lambda x: np.stack([x, x], axis=-1), [(0, 1), (0, 1)], "twice")


def small(*args, **kwargs):
    kwargs = {"chains": 2, "draws": 200, "warmup": 200, "noise": "grid"} | kwargs
    return tc.PrivatePosterior(*args, **kwargs)


# --- the estimator -----------------------------------------------------------------------------


def test_a_fit_is_charged_once_and_certified(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "ledger.db", neighbours=REPLACE, epsilon=1.5, delta=1e-4)
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
    assert model.record_.rounds == 1
    assert json.loads(certificate.to_json())["delta"] == 1e-5
    # the analyst needs the noisy number only
    again = small(NormalVariance(), random_state=1).infer(model.released_)
    assert again.mean_[0] == pytest.approx(model.mean_[0], rel=0.2)
    assert [one.name for one in again.summary().tables] == ["parameters", "released"]


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
        (NormalMean(), "mean", (0, 10), "laplace", CENTRAL, "inversion"),
        (NormalVariance(), "median |x|", (-10, 10), "auto", CENTRAL, "inversion"),
        (Bernoulli(), "mean", (0, 1), "randomized-response", LOCAL, "inversion"),
        (Exponential(), "mean", (0, 30), "gaussian", LOCAL, "inversion"),
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
    assert choose_sampler([few, few], Bernoulli()) == "inversion"
    many = NoisyStatistic(Power(), (0, 1), 50, NoiseLaw("gaussian", 0.1), [0.5])
    assert choose_sampler([many, few], Bernoulli()) == "mhaar"
    assert choose_sampler([many, two], Bernoulli()) == "mhaar-rb"
    median = NoisyStatistic(OrderStatistic(), (0, 1), 50, NoiseLaw("smooth", 1.0, 0.1), [0.5])
    assert choose_sampler([many, median], NormalMean()) == "inversion"
    assert choose_sampler([few, median], NormalMean()) == "mhaar"
    assert check_inference([median, median], NormalMean())[0] == "inversion"
    with pytest.raises(ParameterError, match="has no formula: of several"):
        check_inference([two, two], Bernoulli())
    with pytest.raises(ParameterError, match="for one parameter"):
        check_inference([median], CustomPopulation(lambda theta, z: z, scales=("real",) * 2),
                        [Normal(0.0, 1.0)] * 2, "inversion")  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"bounds": None}, UnboundedData, "bounds must be given"),
        ({"bounds": (1, 0)}, ParameterError, "bounds"),
        ({"statistic": "nonsense"}, ParameterError, "a statistic must be"),
        ({"privacy": tc.Privacy(1.0, 1e-5, neighbours="add-remove-one"), "size": 40},
         ParameterError, "replace-one"),
        ({"privacy": tc.Privacy(1.0, neighbours=REPLACE), "mechanism": "gaussian"},
         ParameterError, "delta > 0"),
        ({"population": None}, ParameterError, "population"),
        ({"statistic": "maximum", "mechanism": "laplace"}, ParameterError, "smooth"),
        ({"statistic": "median", "privacy": LOCAL}, ParameterError, "alone"),
        ({"mechanism": "randomized-response"}, ParameterError, "local"),
        ({"size": 7}, ParameterError, "7 people"),
        ({"statistic": Custom(lambda x: 2 * x, (0, 1))}, ParameterError, "leaves its declared"),
        ({"sampler": "mh", "mechanism": "laplace", "statistic": TWICE,
          "privacy": tc.Privacy(1.0, neighbours=REPLACE)}, ParameterError, "has no formula"),
        ({"sampler": "gibbs", "privacy": LOCAL}, ParameterError, "own answer"),
        ({"population": CustomPopulation(lambda theta, z: z)}, ParameterError, "prior must be"),
        ({"prior": [Beta(1.0, 1.0)] * 2}, ParameterError, "prior must hold 1"),
        ({"prior": Uniform(2.0, 3.0)}, ParameterError, "leaves the parameter's range"),
        ({"sampler": "mhaar", "particles": 1}, ParameterError, "two particles"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anybody_pays(changes, error, match):
    ledger = tc.Ledger.memory(neighbours=REPLACE, epsilon=10.0, delta=1e-3)
    settings = {"population": Bernoulli(), "bounds": (0, 1), "privacy": CENTRAL} | changes
    population = settings.pop("population")
    with pytest.raises(error, match=match):
        small(population, ledger=ledger, **settings).fit(np.ones(40))
    assert ledger.remaining.epsilon == 10.0


def test_shapes_are_refused_and_values_are_not_looked_at():
    model = small(NormalMean(), bounds=(0, 1), privacy=CENTRAL)
    for bad in (np.ones((3, 2)), []):
        with pytest.raises(ParameterError, match="data must hold"):
            model.fit(bad)
    with pytest.raises(ParameterError, match="row 1: 'a'; the table, row 2: 'b'"):
        model.fit(["a", "b"])
    # no check before the charge may depend on private values: what is no number counts as low
    plan = PosteriorAgreement(Power(), (0.0, 1.0), 40, CENTRAL, "gaussian", "grid")
    wild = np.r_[np.nan, np.inf, -np.inf, np.full(37, 0.5)]
    tame = np.r_[0.0, 1.0, 0.0, np.full(37, 0.5)]
    np.testing.assert_array_equal(
        contribution(plan, wild).integers, contribution(plan, tame).integers
    )
    response = PosteriorAgreement(Power(), (0.0, 1.0), 4, LOCAL, "randomized-response")
    np.testing.assert_array_equal(
        contribution(response, np.array([np.nan, 0.7, 9.0, -1])), [0, 1, 1, 0]
    )
    assert any("0 or 1" in note for note in response.assumptions)


@pytest.mark.slow
def test_arviz_agrees_with_our_diagnostics():
    import arviz

    share = NoisyStatistic(Power(), (0, 1), 1000, NoiseLaw("gaussian", 0.01), [0.3])
    found = infer(share, Bernoulli(), chains=4, draws=1000, rng=generator(11))
    data = found.to_arviz()
    assert data.posterior["probability"].shape == (4, 1000)
    (hat,), (size,) = (found.diagnostics[key] for key in ("r_hat", "effective_samples"))
    assert float(arviz.rhat(data)["probability"]) == pytest.approx(hat, abs=2e-3)
    assert float(arviz.ess(data, method="mean")["probability"]) == pytest.approx(size, rel=0.1)
    assert data.attrs["autocorrelation_time"] == pytest.approx([4000 / size])
    assert data.attrs["sampler"] == "inversion"


def test_a_prior_that_excludes_the_data_is_named():
    release = NoisyStatistic(Power(1.0, False), (0, 100), 100, NoiseLaw("gaussian", 0.1), [50.0])
    with pytest.raises(ParameterError, match="the prior excludes the data"):
        infer(release, NormalMean(), Uniform(0.0, 1.0))
    far = NoisyStatistic(Power(), (0, 10), 100, NoiseLaw("laplace", 0.1), [9.0])
    with pytest.raises(ParameterError, match="the prior excludes the data"):
        infer(far, Exponential(), Uniform(0.0, 1.0))
    near = far.replace([5.0])
    assert infer(near, Exponential(), chains=1, draws=50, warmup=50).mean[0] > 4


@pytest.mark.parametrize(
    ("population", "statistic", "bounds", "options"),
    [
        (NormalMean(2.0), "|x|^0.123456789", (0, 10), {"prior": Normal(4.0, 3.0)}),
        (NormalVariance(), "quantile 0.7 |x|", (-10, 10), {"particles": 10}),
        (Bernoulli(), "mean", (0, 1), {"mechanism": "randomized-response", "privacy": LOCAL}),
        (Exponential(), "mean", (0, 30), {"mechanism": "gaussian", "privacy": LOCAL}),
    ],
)
def test_a_release_is_read_back_and_inferred_from(
    tmp_path, population, statistic, bounds, options
):
    theta = np.array([0.6 if isinstance(population, Bernoulli) else 4.0])
    x = population.simulate(theta, generator(7).standard_normal(300))
    model = small(population, statistic, **({"bounds": bounds, "privacy": CENTRAL} | options))
    model.fit(x)
    model.release(tmp_path / "release")
    read = tc.PrivatePosterior.from_release(tmp_path / "release")
    np.testing.assert_array_equal(read.released_.values, model.released_.values)
    for name in ("statistic", "bounds", "size", "noise", "local"):
        assert getattr(read.released_, name) == getattr(model.released_, name)
    np.testing.assert_array_equal(read.mean_, model.mean_)
    assert read.population == population
    assert read.prior == model.prior
    assert str(read.certificate_) == str(model.certificate_)
    np.testing.assert_array_equal(read.interval(), model.interval())
    assert read.posterior_.diagnostics.keys() == model.posterior_.diagnostics.keys()
    read.set_params(chains=2, draws=200, warmup=200, particles=10).infer()
    assert abs(read.mean_[0] - model.mean_[0]) < model.sd_[0]
    kinds = {name.split("/")[0] for name in read.shared_}
    assert kinds == {"values", "mean", "sd", "posterior", "diagnostics"}


def two_holders():
    """Return two fits of different people at different ε."""
    x = generator(7).normal(4, 1, 200)
    privacy = [tc.Privacy(epsilon, 1e-6, neighbours="replace-one") for epsilon in (0.5, 8.0)]
    return [
        small(NormalMean(), "mean", bounds=(0, 10), privacy=asked).fit(tc.Site(name, part))
        for name, part, asked in zip(("A", "B"), (x[:100], x[100:]), privacy, strict=True)
    ]


def test_a_posterior_from_two_releases_carries_both_certificates(tmp_path):
    """Every number of a release is covered by a certificate in it."""
    one, two = two_holders()
    alone = one.mean_
    one.infer([one.released_, two.released_])
    assert [t.name for t in one.summary().tables] == ["parameters", "released 1", "released 2"]
    assert one.mean_ != alone
    assert one.certificates_ == {**two.certificates_, "A": one.certificates_["A"]}
    assert one.certificate_.epsilon > 7.0
    read = tc.PrivatePosterior.from_release(one.release(tmp_path / "release"))
    np.testing.assert_array_equal(read.mean_, one.mean_)
    assert read.certificates_ == one.certificates_
    promises = tc.read_release(tmp_path / "release").manifest["promises"]
    assert [found["certificates"] for found in promises] == [["A"], ["B"]]
    read.infer(read._sources[1])
    assert set(read.certificates_) == {"B"}
    read.infer()
    assert set(read.certificates_) == {"A"}


def test_two_releases_of_one_holder_are_promised_together(tmp_path):
    x = generator(7).normal(4, 1, 100)
    ledger = tc.Ledger.open(tmp_path / "l.db", epsilon=20.0, delta=1e-4, neighbours="replace-one")
    models = [
        small(NormalMean(), "mean", bounds=(0, 10), privacy=CENTRAL, ledger=ledger).fit(x)
        for _ in range(2)
    ]
    models[0].infer([model.released_ for model in models]).release(tmp_path / "release")
    (promise,) = tc.read_release(tmp_path / "release").manifest["promises"]
    assert promise["certificates"] == ["the data", "the data (2)"]
    assert models[0].certificate_.epsilon < promise["epsilon"] <= 2.0


def test_what_nothing_certifies_cannot_be_released_with_the_rest(tmp_path):
    one, two = two_holders()
    one.infer([one.released_, two.released_.replace([4.0])])
    assert not one.certificate_.is_private
    with pytest.raises(NotCertified, match="without a certificate"):
        one.release(tmp_path / "release")


def test_a_fit_that_nothing_is_inferred_from_leaves_its_release_and_nothing_older(tmp_path):
    """Numbers of a fit without noise must not be written under a later certificate."""
    x = generator(7).normal(4, 1, 400)
    model = small(NormalMean(), "mean", bounds=(0, 10)).fit(x)
    raw = model.shared_["values"]
    model.set_params(privacy=CENTRAL, prior=Uniform(9.0, 9.5))
    assert "the prior excludes the data" in model.fit(x).unexplained_  # paid: it does not raise
    assert "Nothing could be inferred: the prior" in str(model.summary())
    for asked in (model.infer, model.interval):
        with pytest.raises(ParameterError, match="the prior excludes the data"):
            asked()
    assert not hasattr(model, "posterior_")
    assert model.certificate_.is_private
    model.release(tmp_path / "release")
    read = tc.PrivatePosterior.from_release(tmp_path / "release")
    assert set(read.shared_) == {"values"}
    with pytest.raises(ParameterError, match="there are no draws here"):
        read.interval()
    assert read.released_.values != raw
    read.set_params(prior=None, chains=1, draws=50, warmup=50).infer()
    assert abs(read.mean_[0] - 4.0) < 1.0


def test_a_release_of_a_function_is_read_back_without_it(tmp_path):
    pair = Custom(lambda x: np.stack([x, x**2], axis=-1), [(0.0, 10.0), (0.0, 100.0)], "pair")
    model = small(NormalMean(), pair, bounds=(0, 10), privacy=CENTRAL)
    model.fit(generator(7).normal(4, 1, 200)).release(tmp_path / "release")
    read = tc.PrivatePosterior.from_release(tmp_path / "release")
    with pytest.raises(ParameterError, match="not part of a release"):
        read.infer()
    np.testing.assert_array_equal(read.interval(), model.interval())
    again = tc.PrivatePosterior.from_release(tmp_path / "release", statistic=pair)
    assert abs(again.infer().mean_[0] - 4.0) < 1.0
    for other in (dataclasses.replace(pair, label="other"), Custom(pair.function, (0, 1), "pair")):
        with pytest.raises(ParameterError, match="statistic must be 'pair' with the ranges"):
            tc.PrivatePosterior.from_release(tmp_path / "release", statistic=other)


def test_a_price_changes_nothing_and_needs_the_number_of_people():
    model = small(NormalMean(), bounds=(0, 1), privacy=CENTRAL, size=40)
    before = dict(vars(model))
    assert model.price().sites[0].epsilon == pytest.approx(1.0, rel=1e-3)
    assert model.price(tc.Site("A", np.ones(40))).sites[0].site == "A"
    assert vars(model) == before


@pytest.mark.parametrize("kind", [tc.PrivatePosterior, tc.StatisticSelector])
def test_several_holders_are_refused(kind):
    model = kind(NormalMean(), bounds=(0, 1), privacy=CENTRAL.fixed())
    sites = [tc.Site(name, np.ones(40)) for name in "AB"]
    with pytest.raises(ParameterError, match=r"nobody who sees all rows|at least one"):
        model.fit(sites)
    local = kind(NormalMean(), *([["mean"]] if kind is tc.StatisticSelector else []),
                 bounds=(0, 1), privacy=LOCAL)  # fmt: skip
    with pytest.raises(ParameterError, match=r"pass one table, or one site|several sites add"):
        local.fit(sites)


# --- simulation-based calibration of the default ------------------------------------------------

CALIBRATION = [
    (NormalMean(), Normal(5.0, 1.0), "mean", (0.0, 10.0)),
    (NormalVariance(), Gamma(4.0, 0.5), "|x|", (-10.0, 10.0)),
    (UniformWidth(), Gamma(9.0, 0.4), "|x|^0.5", (-10.0, 10.0)),
    (Bernoulli(), Beta(2.0, 2.0), "mean", (0.0, 1.0)),
    (Exponential(), Gamma(9.0, 0.3), "mean", (0.0, 15.0)),
    (Poisson(), Gamma(9.0, 0.4), "mean", (0.0, 20.0)),
]


def truth_among_draws(case, mechanism, runs, changed=lambda draws: draws):
    """Return the p-value of uniform ranks of the truth among draws, over simulated releases."""
    population, prior, statistic, bounds = case
    rng, levels = generator(10, type(population).__name__ + mechanism), []
    privacy = tc.Privacy(1.0, 1e-5, neighbours=REPLACE)
    plan = PosteriorAgreement(as_statistic(statistic), bounds, 100, privacy, mechanism, "grid")
    for _ in range(runs):
        theta = prior.sample(rng, 1)
        x = population.simulate(theta, rng.standard_normal(100))
        release = plan.planned.replace(plan.planned.simulate(rng, x))
        found = infer(release, population, prior, chains=1, draws=200, warmup=300, rng=rng)
        draws = found.flat[:: max(1, round(found.diagnostics["autocorrelation_time"][0]))]
        levels.append((np.sum(changed(draws) < theta) + rng.random()) / (len(draws) + 1))
    return stats.kstest(levels, "uniform").pvalue


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("case", CALIBRATION, ids=lambda case: type(case[0]).__name__)
@pytest.mark.slow
def test_the_default_is_calibrated(case, mechanism):
    """The rank of the truth among draws is uniform when truth and data come from the model."""
    assert truth_among_draws(case, mechanism, 150) > 1e-3


@pytest.mark.parametrize(
    ("case", "mechanism"),
    [(CALIBRATION[0], "gaussian"), (CALIBRATION[4], "laplace")],
    ids=lambda value: value if isinstance(value, str) else type(value[0]).__name__,
)
def test_the_default_is_calibrated_in_short(case, mechanism):
    assert truth_among_draws(case, mechanism, 40) > 1e-3


@pytest.mark.parametrize(
    "changed",
    [
        lambda draws: draws.mean() + (draws - draws.mean()) / 5,
        lambda draws: draws + 2 * draws.std(),
    ],
    ids=["too sure", "shifted"],
)
def test_short_calibration_sees_a_wrong_posterior(changed):
    assert truth_among_draws(CALIBRATION[0], "gaussian", 40, changed) < 1e-3
