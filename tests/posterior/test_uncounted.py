"""Several sites, and a private number of people: sensitivities, laws, certificates."""

import math

import numpy as np
import pytest
from scipy import special, stats

import tacit as tc
from tacit._core.rng import generator
from tacit.errors import BudgetExceeded, ParameterError
from tacit.estimators.gate import Gate
from tacit.mechanisms.noise import Noise
from tacit.posterior.numerics.counts import NoisyCount
from tacit.posterior.numerics.information import information
from tacit.posterior.numerics.likelihood import log_likelihood, moments
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.orders.ranks import Ranks
from tacit.posterior.numerics.populations.laws import (
    Bernoulli,
    CustomPopulation,
    Exponential,
    NormalMean,
)
from tacit.posterior.numerics.priors import Normal, Uniform
from tacit.posterior.numerics.statistics import Custom, as_statistic
from tacit.posterior.sides import Crowd, crowd_contribution
from tacit.posterior.uncounted import UncountedAgreement
from tacit.privacy.events import ADD_REMOVE, REPLACE

HERE = tc.Privacy(1.0, 1e-5, unit="row", neighbours=ADD_REMOVE)
EITHER = [HERE, tc.Privacy(1.0, 1e-5, unit="row", neighbours=REPLACE)]
PAIR = Custom(lambda x: np.stack([x, np.abs(x - 5.0)], axis=-1), [(0, 10), (0, 5)], "pair")


def small(*args, **kwargs):
    kwargs = {"chains": 2, "draws": 200, "warmup": 100, "noise": "grid"} | kwargs
    return tc.PrivatePosterior(*args, **kwargs)


# --- what is released, and how far one person moves it -----------------------------------------


@pytest.mark.parametrize("privacy", EITHER)
@pytest.mark.parametrize(
    ("statistic", "kind"),
    [("mean", "laplace"), ("|x|^2", "gaussian"), ("x^3", "laplace"), (PAIR, "gaussian")],
)
def test_no_person_moves_sums_and_count_by_more_than_the_sensitivity(privacy, statistic, kind):
    bounds = (0.0, 10.0) if statistic is PAIR else (-2.0, 3.0)
    plan = UncountedAgreement(as_statistic(statistic), bounds, privacy, kind, "grid")
    mechanism = plan.mechanism
    rng, far = generator(1, str(statistic)), 0.0
    wild = np.array([*bounds, 0.0, 1e300, -1e300, np.inf, np.nan, 1.7])
    for _ in range(150):
        x = rng.uniform(*bounds, 5)
        x[0] = rng.choice(wild)
        other = np.append(x[1:], rng.choice(wild)) if plan.counted else x[1:]
        gap = crowd_contribution(plan, x).integers - crowd_contribution(plan, other).integers
        far = max(far, float(np.linalg.norm(gap * mechanism.grid.step, mechanism.norm)))
    assert far <= mechanism.sensitivity + mechanism.size * mechanism.grid.step
    assert far > (0.85 if statistic is PAIR else 0.99) * mechanism.sensitivity  # half is caught


@pytest.mark.parametrize("statistic", ["median", "quantile 0.9", "quantile 0.2", "maximum"])
@pytest.mark.parametrize("privacy", EITHER)
def test_the_worst_neighbours_of_a_drawn_quantile_use_up_its_epsilon(statistic, privacy):
    plan = UncountedAgreement(as_statistic(statistic), (0.0, 1.0), privacy)
    data, other = plan.worst_case()
    draw, own = plan.mechanism, plan._epsilons["statistic"]
    at = np.array([[0.25], [0.75]])
    low, high = draw.log_density(data, at) - draw.log_density(other, at)
    assert 0.98 * own < abs(high - low) <= own  # reached where nearly all lies in one of two gaps
    assert sum(plan._epsilons.values()) <= privacy.epsilon


def test_nothing_that_is_agreed_on_depends_on_a_private_number_of_people():
    for statistic in ("mean", "median", PAIR):
        model = small(NormalMean(), statistic, bounds=(0, 10), privacy=HERE)
        found = {model._agreed(model._as_sites(np.full(n, 4.0))).digest for n in (0, 1, 50)}
        assert len(found) == 1
    assert not any("number of people" in note for note in model._agree([None]).assumptions)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_nobody_at_all_is_no_reason_to_fail(statistic):
    model = small(NormalMean(), statistic, bounds=(0, 10), privacy=HERE).fit(np.empty(0))
    assert model.certificate_.epsilon <= 1.0 and np.isfinite(model.mean_).all()
    assert model.sd_[0] > 1.0  # as good as nothing is known


def test_shards_of_a_site_release_what_one_table_does():
    plan = UncountedAgreement(as_statistic("mean"), (0.0, 10.0), HERE, noise="grid")
    x = generator(3).normal(4.0, 1.0, 200)

    def released(parts):
        side = Crowd(plan, "A", parts, Gate(None, Noise("grid", seed=5)))
        step = plan.steps[0]
        return side._merged(step, step.read(_request(plan))).integers

    np.testing.assert_array_equal(released([x]), released([x[:50], x[50:]]))


def _request(plan):
    from tacit.rounds.messages import Message

    return Message(0, {}, plan.steps[0].name)


# --- what is inferred ---------------------------------------------------------------------------


@pytest.mark.parametrize(("statistic", "kind"), [("mean", "laplace"), ("mean", "gaussian"),
                                                 (PAIR, "gaussian")])  # fmt: skip
def test_the_likelihood_is_the_sum_over_how_many_people_there_may_be(statistic, kind):
    """Against a sum over n of densities that scipy knows, at each θ up to one constant."""
    statistic, law, theta = as_statistic(statistic), NormalMean(), np.array([[3.0], [4.0], [4.6]])
    count, k = NoisyCount(33.4, kind, 4.0), statistic.dimension((0.0, 10.0))
    release = NoisyStatistic(statistic, (0.0, 10.0), 33, NoiseLaw(kind, 0.3), np.full(k, 4.1)[:k],
                             count=count)  # fmt: skip
    total, tau = (release.values - release.middle) * 33, 0.3 * 33
    n = np.arange(1.0, 250.0)
    logs = (stats.norm if kind == "gaussian" else stats.laplace).logpdf(33.4, n, 4.0)
    known = []
    for at in theta:
        mean, cov = moments(law, statistic, (0.0, 10.0), at)
        drift = mean - release.middle
        if kind == "gaussian":
            spread = [m * cov + tau**2 * np.eye(k) for m in n]
            laws = [
                stats.multivariate_normal(m * drift, v) for m, v in zip(n, spread, strict=True)
            ]
            parts = [one.logpdf(total) for one in laws]
        else:
            u = np.linspace(-12, 12, 2001)
            seen = [total[0] - m * drift[0] - u * math.sqrt(m * cov[0, 0]) for m in n]
            each = [stats.norm.pdf(u) * stats.laplace.pdf(one, scale=tau) for one in seen]
            parts = [math.log(np.trapezoid(one, u)) for one in each]
        known.append(special.logsumexp(logs + np.array(parts)))
    ours = np.array([log_likelihood(release, law, at) for at in theta])
    np.testing.assert_allclose(np.diff(ours), np.diff(known), atol=2e-3)


def test_a_drawn_quantile_sums_over_how_many_people_there_may_be():
    count, theta = NoisyCount(40.0, "laplace", 15.0), np.linspace(3.6, 5.0, 3)[:, None]
    law = NoiseLaw("exponential", 1.05)
    release = NoisyStatistic(as_statistic("median"), (0.0, 10.0), 40, law, [4.3], count=count)
    n = np.unique(np.rint(np.geomspace(1, 200, 24)))
    people, logs = count.numbers()
    inside = people <= 200
    known = []
    for at in theta:
        each = [Ranks(release.domain, int(m), 0.5, 1 / 1.05, 4.3).log_density(NormalMean(), at)
                for m in n]  # fmt: skip
        given = np.interp(np.log(people[inside]), np.log(n), each)
        known.append(special.logsumexp(logs[inside] + given))
    ours = np.array([log_likelihood(release, NormalMean(), at) for at in theta])
    np.testing.assert_allclose(ours - ours.max(), np.array(known) - max(known), atol=0.08)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_information_is_what_is_left_when_the_number_of_people_is_not_known(kind):
    law = NoiseLaw(kind, 0.05)
    plan = {
        sd: NoisyStatistic.planned(as_statistic("mean"), (0.0, 10.0), 500, law, count=count)
        for sd, count in ((0.0, None), (1e-6, NoisyCount(500.0, kind, 1e-6)),
                          (9.0, NoisyCount(500.0, kind, 9.0)))
    }  # fmt: skip
    at = {sd: [information(one, NormalMean(), [m]).value for m in (3.0, 5.0)]
          for sd, one in plan.items()}  # fmt: skip
    np.testing.assert_allclose(at[1e-6], at[0.0], rtol=1e-6)
    assert at[9.0][1] == pytest.approx(at[0.0][1])  # in the middle the number says nothing
    assert at[9.0][0] < 0.85 * at[0.0][0]
    if kind == "gaussian":  # of a quotient of two normal numbers, by its variance
        noise = 1 / 500 + 0.05**2 + (2.0 * 9.0 / 500) ** 2
        assert at[9.0][0] == pytest.approx(1.0 / noise, rel=0.02)


def ranks_of_truth(population, prior, statistic, bounds, privacy, sizes, sets, seed):
    """Return the share of posterior draws below truths that were drawn from the prior."""
    rng, found = generator(seed), []
    for _ in range(sets):
        theta = prior.sample(rng, 1)
        tables = {
            f"S{k}": population.simulate(theta, rng.standard_normal(int(rng.integers(*size))))
            for k, size in enumerate(sizes)
        }
        model = small(population, statistic, bounds=bounds, prior=prior, privacy=privacy)
        model.fit([tc.Site(name, x) for name, x in tables.items()])
        found.append(np.mean(model.posterior_.flat < theta[0]))
    return np.array(found)


PARTS = ((300, 900), (40, 200))


@pytest.mark.parametrize("privacy", EITHER)
def test_posteriors_of_sites_are_calibrated(privacy):
    """Of those of sums, for some truths from the prior; the slow test has all."""
    levels = ranks_of_truth(
        NormalMean(2.0), Uniform(2.0, 8.0), "mean", (0, 10), privacy, PARTS, 40, 4
    )
    assert stats.kstest(levels, "uniform").pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("privacy", EITHER)
@pytest.mark.parametrize(
    ("population", "prior", "statistic", "bounds"),
    [
        (NormalMean(2.0), Uniform(2.0, 8.0), "mean", (0, 10)),
        (NormalMean(2.0), Uniform(2.0, 8.0), "median", (0, 10)),
        (NormalMean(2.0), Normal(4.0, 1.0), PAIR, (0, 10)),
        (Exponential(), Uniform(1.0, 6.0), "|x|^0.5", (0, 30)),
        (Exponential(), Uniform(1.0, 6.0), "quantile 0.8", (0, 30)),
        (Bernoulli(), Uniform(0.05, 0.95), "mean", (0, 1)),
    ],
)
@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_all_posteriors_of_sites_are_calibrated(
    population, prior, statistic, bounds, privacy, epsilon
):
    asked = tc.Privacy(epsilon, 1e-5, unit="row", neighbours=privacy.neighbours)
    levels = ranks_of_truth(population, prior, statistic, bounds, asked, PARTS, 300, 5)
    assert stats.kstest(levels, "uniform").pvalue > 1e-3


def test_several_parameters_are_walked_over_from_all_sites():
    law = CustomPopulation(lambda theta, z: theta[0] + theta[1] * z,
                           scales=("real", "positive"), names=("mean", "sd"))  # fmt: skip
    rng = generator(6)
    sites = [tc.Site(name, rng.normal(4.0, 1.5, n)) for name, n in (("A", 800), ("B", 400))]
    model = small(law, PAIR, bounds=(0, 10), prior=[Uniform(0, 10), Uniform(0.1, 5)],
                  privacy=tc.Privacy(8.0, 1e-5), draws=50, warmup=60).fit(sites)  # fmt: skip
    assert model.posterior_.sampler == "mh"
    assert abs(model.mean_[0] - 4.0) < 5 * model.sd_[0] < 1.5


# --- what a person uses -------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_sites_pay_each_from_their_own_ledger_and_share_one_posterior(
    tmp_path, statistic, neighbours
):
    rng, sites = generator(7), []
    for name, n, budget in (("North", 500, 1.5), ("South", 150, 5.0)):
        ledger = tc.Ledger.open(
            tmp_path / f"{name}.db", neighbours=neighbours, epsilon=budget, delta=1e-4
        )
        sites.append(tc.Site(name, rng.normal(4.0, 1.0, n), ledger))
    asked = tc.Privacy(1.0, 1e-5, neighbours=neighbours)
    model = small(NormalMean(), statistic, bounds=(0, 10), privacy=asked).fit(sites)
    assert sorted(model.certificates_) == ["North", "South"]
    for site, one in zip(sites, model.released_, strict=True):
        ((holder, certificate),) = one.certificates
        assert holder == site.name and certificate.verify(site.ledger).trust == "site"
        assert certificate.neighbours == neighbours
        assert (one.count is None) == (neighbours == REPLACE)
        if neighbours == REPLACE:
            assert one.size == len(site.data)
    assert abs(model.mean_[0] - 4.0) < 6 * model.sd_[0]
    read = tc.PrivatePosterior.from_release(model.release(tmp_path / "release"))
    assert [r.count for r in read.released_] == [r.count for r in model.released_]
    assert read.certificates_ == model.certificates_
    np.testing.assert_array_equal(read.mean_, model.mean_)
    if statistic == "mean":
        again = read.set_params(chains=2, draws=200).infer()
        assert abs(again.mean_[0] - model.mean_[0]) < model.sd_[0]
        assert model.sd_[0] < again.infer(model.released_[1]).sd_[0]
    assert [t.name for t in model.summary().tables] == ["parameters", "released 1", "released 2"]
    with pytest.raises(BudgetExceeded, match="No site was charged"):
        model.fit(sites)
    assert sites[1].ledger.remaining.epsilon == pytest.approx(4.0, abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"size": 40}, "under add-remove-one it is private"),
        ({"mechanism": "smooth", "statistic": "median"}, "needs a number of people"),
        ({"mechanism": "laplace", "statistic": PAIR}, "needs delta > 0"),
        ({"mechanism": "gaussian", "privacy": tc.Privacy(1.0, neighbours=ADD_REMOVE)},
         "needs delta > 0"),
        ({"mechanism": "laplace", "statistic": "median"}, "smooth"),
        ({"mechanism": "randomized-response"}, "Gaussian or Laplace"),
        ({"privacy": tc.Privacy(1.0, trust="local", neighbours=ADD_REMOVE)}, "seen to answer"),
        ({"privacy": tc.Privacy(1.0, trust="aggregator")}, "'site' or 'local'"),
        ({"sampler": "mhaar", "privacy": HERE}, "nobody is simulated"),
    ],
)  # fmt: skip
def test_what_is_not_given_is_refused_before_anybody_pays(changes, match):
    ledger = tc.Ledger.memory(epsilon=10.0, delta=1e-3, neighbours=ADD_REMOVE)
    settings = {"statistic": "mean", "privacy": HERE, "bounds": (0, 10)} | changes
    with pytest.raises(ParameterError, match=match):
        small(NormalMean(), ledger=ledger, **settings).fit(np.full(40, 4.0))
    assert ledger.counter == 0


def test_sites_are_refused_where_one_party_is_needed():
    sites = [tc.Site(name, np.full(40, 4.0)) for name in "AB"]
    asked = tc.Privacy(1.0, 1e-5, neighbours=REPLACE)
    for statistic, more, match in (
        ("mean", {"size": 40}, "size is for one holder"),
        ("mean", {"privacy": tc.Privacy(1.0, 1e-5, neighbours=REPLACE, trust="local")}, "several"),
        ("median", {"mechanism": "smooth"}, "one holder"),
        (PAIR, {"mechanism": "laplace"}, "has no formula"),
    ):
        with pytest.raises(ParameterError, match=match):
            small(NormalMean(), statistic, bounds=(0, 10), **{"privacy": asked} | more).fit(sites)
