"""`PrivateRecommender`: use, exactness, certificates, devices and bad input."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tacit as tc
from tacit.data.split import hold_out_per_member
from tacit.data.synthetic import simulated_ratings
from tacit.errors import (
    BudgetExceeded,
    NotCertified,
    ParameterError,
    SiteFailure,
    UnboundedData,
)
from tacit.estimators.agreement import Start
from tacit.estimators.fit import reserve
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.numerics.shrinkage import shrink_towards
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import REPLACE
from tacit.recommender import sides
from tacit.recommender.agreement import METHODS, HeterogeneousOffsets, WeightedOffsetsAgreement
from tacit.recommender.sides import Items
from tacit.rounds.sides import Collected
from tests.contracts.hostile import play

BOUNDS = (1.0, 5.0)
OPENED = ("sum", "weights", "squares", "reach", "spread")  # what is public about who rated what


def privacy(epsilon=1.0, **more):
    return tc.Privacy(epsilon, 1e-5, **{"unit": "entry", "trust": "aggregator", **more})


def recommender(epsilon=1.0, **options):
    options = {"rank": 3, "random_state": 0, "privacy": privacy(epsilon), **options}
    return tc.PrivateRecommender(BOUNDS, **options)


@pytest.fixture(scope="module")
def ratings():
    return simulated_ratings(400, 60, per_user=20, seed=1)


@pytest.fixture(scope="module")
def weights():
    return tc.PrivacyWeights.drawn(400, 60, np.random.default_rng(0))


def mse(fitted, cells, values):
    return float(np.mean((fitted.predict(cells) - values) ** 2))


# --- use -------------------------------------------------------------------------------------


def test_it_beats_knowing_nothing_and_features_help(ratings, weights):
    train, cells, values = hold_out_per_member(ratings, "user", 5, np.random.default_rng(0))
    errors = {m: mse(recommender(method=m).fit(train, weights=weights), cells, values)
              for m in ("offsets", "heterogeneous")}  # fmt: skip
    assert errors["heterogeneous"] < errors["offsets"] < 0.9 * values.var()


@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_features_made_of_chance_cost_nobody_accuracy(epsilon):
    """Who rated what at random, and liked nothing in particular, is told by the own mean alone."""
    rng = np.random.default_rng(5)
    users, items, each = 400, 150, 20
    rated = np.stack([rng.choice(items, each, replace=False) for _ in range(users)])
    cells = np.column_stack([np.repeat(np.arange(users), each), rated.ravel()])
    own, noise = rng.normal(0.0, 0.5, users), rng.normal(0.0, 0.7, len(cells))
    values = np.clip(3.2 + own[cells[:, 0]] + noise, *BOUNDS)
    train = rng.random(len(cells)) < 0.8
    table = tc.Relation.from_cells(
        ("user", "item"), cells[train], values[train], shape=(users, items)
    )
    fitted = recommender(epsilon, rank=10).fit(table)
    sums = np.bincount(cells[train, 0], values[train], users)
    counts = np.bincount(cells[train, 0], minlength=users)
    free = ((sums + 2.0 * 3.0) / (counts + 2.0))[cells[~train, 0]]
    errors = np.square(fitted.predict(cells[~train]) - values[~train])
    gap = errors - np.square(free - values[~train])
    assert gap.mean() <= 2.0 * gap.std() / math.sqrt(len(gap))


def test_price_certificate_and_ledger(ratings, weights, tmp_path):
    ledger = tc.Ledger.open(tmp_path / "raters.db", unit="entry", epsilon=1.5, delta=1e-4)
    model = recommender(random_state=None, ledger=ledger)
    price = model.price(ratings)
    assert price.affordable and price.sites[0].epsilon <= 1.0
    assert str(price) == str(model.price((400, 60)))
    assert ledger.remaining.epsilon == 1.5
    model.fit(ratings, weights=weights)
    assert ledger.remaining.epsilon == pytest.approx(0.5)
    certificate = model.certificate_.verify(ledger)
    assert (certificate.unit, certificate.neighbours) == ("entry", "replace-one")
    assert certificate.epsilon <= 1.0
    for name, (_, epsilon) in certificate.groups.items():
        assert epsilon <= float(name.split("≤")[1]) * 1.001
    assert "who rated what is public" in str(certificate)
    with pytest.raises(BudgetExceeded):
        model.fit(ratings, weights=weights)


def test_a_user_reads_its_own_guarantee(ratings, weights):
    fitted = recommender().fit(ratings, weights=weights)
    careful, open_ = int(np.argmin(weights.users)), int(np.argmax(weights.users))
    assert fitted.certificate_of(careful).epsilon < 0.2 < fitted.certificate_of(open_).epsilon
    assert fitted.certificate_of(open_).verify().epsilon <= fitted.certificate_.epsilon
    with pytest.raises(ParameterError, match="user"):
        fitted.certificate_of(400)


def test_a_device_predicts_what_the_batch_predicts_and_sends_nothing(ratings):
    fitted = recommender().fit(ratings)
    device = fitted.device(7)
    items = np.arange(60)
    batch = fitted.predict(np.column_stack([np.full(60, 7), items]))
    np.testing.assert_allclose(device.predict(items), batch, atol=1e-9)
    rated = set(ratings.indices[ratings.indices[:, 0] == 7, 1].tolist())
    top = device.top(5)
    assert len(top) == 5 and not rated & {item for item, _ in top}
    assert [s for _, s in top] == sorted((s for _, s in top), reverse=True)


def test_a_new_user_starts_from_a_release(ratings, tmp_path):
    fitted = recommender(random_state=None).fit(ratings)
    device = tc.Device.from_release(fitted.release(tmp_path / "release"), [3, 4], [5.0, 5.0])
    before = device.predict([0])[0]
    np.testing.assert_allclose(tc.Device(fitted.shared_, BOUNDS).predict([0]),
                               np.clip(fitted.shared_["base"][:1], *BOUNDS))  # fmt: skip
    device.rate(5, 1.0)
    assert device.predict([0])[0] != before
    with pytest.raises(ParameterError, match="items"):
        device.predict([60])
    with pytest.raises(ParameterError, match="rating"):
        device.rate(1, 6.0)


def test_a_release_round_trips_into_one_that_recommends(ratings, weights, tmp_path):
    fitted = recommender(random_state=None).fit(ratings, weights=weights)
    again = tc.PrivateRecommender.from_release(fitted.release(tmp_path / "release"))
    own = {3: 5.0, 4: 1.0}
    assert again.recommend(own, 5) == fitted.recommend(own, 5) == fitted.device(own).top(5)
    assert (again.bounds, again.rank, again.method) == (BOUNDS, 3, HeterogeneousOffsets())
    assert again.certificate_.epsilon == fitted.certificate_.epsilon
    with pytest.raises(ParameterError, match="stayed at their sites"):
        again.predict([[0, 1]])
    with pytest.raises(ParameterError, match="stayed at their sites"):
        again.device(0)


def test_a_price_changes_nothing(ratings):
    model = recommender()
    before = dict(vars(model))
    model.price(ratings)
    assert vars(model) == before


def test_seeded_noise_is_not_released(ratings, tmp_path):
    with pytest.raises(NotCertified, match="seeded"):
        recommender().fit(ratings).release(tmp_path)


# --- exactness -------------------------------------------------------------------------------


def test_without_noise_the_base_is_that_by_hand(ratings, weights):
    fitted = recommender(math.inf, method="offsets").fit(ratings, weights=weights)
    x, w = np.zeros((400, 60)), np.zeros((400, 60))
    users, items = ratings.indices.T
    x[users, items], w[users, items] = ratings.values - 3.0, weights.of(users, items)
    mean = (w * x).sum() / w.sum()
    own = ((w * x).sum(axis=1) + 20.0 * mean) / (w.sum(axis=1) + 20.0)
    rest = np.clip(x - own[:, None], -1.0, 1.0)
    counts = np.bincount(items, minlength=60)
    offsets = shrink_towards((w * rest).sum(axis=0), w.sum(axis=0), 0.0,
                             0.8 * (w**2).sum(axis=0), np.log1p(counts)[:, None])  # fmt: skip
    np.testing.assert_allclose(fitted.shared_["base"], 3.0 + mean + offsets, atol=1e-6)
    assert not fitted.certificate_.is_private


def test_no_request_and_an_infinite_one_are_the_same(ratings):
    first = recommender(privacy=None).fit(ratings)
    second = recommender(math.inf).fit(ratings)
    for name, array in first.shared_.items():
        np.testing.assert_array_equal(array, second.shared_[name])


def test_the_noise_in_the_sums_is_what_the_certificate_says(ratings):
    model = recommender()
    sites = model._as_sites(ratings)
    agreement = model._agreed(sites)
    data, errors = model._read(sites[0].data, agreement), []
    requests = [r for r in play(agreement, data).requests if r.step != "later"]
    step, last = agreement.step("offsets"), requests[-1]
    for seed in range(40):
        gate = Gate(reserve(agreement, sites, "test")["the raters"], Noise("exact", seed=seed))
        holder = agreement.holder("the raters", data, gate, 0)
        sums = [holder.respond(request)["sum"] for request in requests]
        exact = holder.contribute(step, step.read(last), {}, holder.shards[0], np.arange(0))
        errors.append(sums[-1] - exact.value())
    spread = np.std(np.array(errors), axis=0, ddof=1).mean()
    assert spread == pytest.approx(agreement.mechanisms["offsets"].scale, rel=0.05)


def test_two_sums_of_offsets_count_by_their_precision():
    public = next(WeightedOffsetsAgreement.examples())
    ones = np.ones(public.items)
    known = Items(public, dict.fromkeys(OPENED, ones), 1)
    known.take("offsets", 3.0 * ones, 4.0)
    known.take("offsets", ones, 1.0)
    np.testing.assert_allclose(known._averaged.sums, (3.0 / 4.0 + 1.0) / 1.25)
    assert known._averaged._precision == 1.25


def test_whether_factors_stand_out_is_told_by_the_standard_deviation(monkeypatch):
    public = replace(next(WeightedOffsetsAgreement.examples()), factors="auto")
    ones, told = np.ones(public.items), []
    known = Items(public, dict.fromkeys(("sum", "weights", "squares", "reach", "spread"), ones), 3)
    monkeypatch.setattr(sides, "factors_stand_out", lambda *given: told.append(given[2]))
    monkeypatch.setattr(Items, "noise", lambda self, step: 9.0)
    assert known.kind("later") == "offsets"
    assert told == [3.0]


def test_an_infinite_epsilon_adds_no_noise_and_needs_no_delta():
    free = tc.Privacy(math.inf, unit="entry", trust="aggregator")
    for public in WeightedOffsetsAgreement.examples():
        without = replace(public, privacy=free, task=replace(public.task, privacy=free))
        assert {mechanism.scale for mechanism in without.mechanisms.values()} == {0.0}


def test_every_release_under_weights_is_accounted_as_a_replaced_rating():
    for public in WeightedOffsetsAgreement.examples():
        assert {mechanism.neighbours for mechanism in public.mechanisms.values()} == {REPLACE}


def test_gaussian_noise_needs_a_delta(ratings):
    pure = tc.Privacy(1.0, 0.0, unit="entry", trust="aggregator")
    with pytest.raises(ParameterError, match="adds Gaussian noise"):
        recommender(privacy=pure).fit(ratings)


def test_factors_start_from_the_pattern():
    with pytest.raises(ParameterError, match="factors need pattern=True"):
        HeterogeneousOffsets(factors=True, pattern=False)
    for factors in ("auto", False):
        assert not HeterogeneousOffsets(factors=factors, pattern=False).pattern


def test_a_clip_lies_within_the_range_of_ratings():
    for clip in (1e-3, 2.0, 3.5, 4.0):  # ratings lie in a range of 4
        assert HeterogeneousOffsets(clip=clip).clip == clip
    for clip in (0.0, -1.0, 4.001):
        with pytest.raises(ParameterError, match="clip"):
            HeterogeneousOffsets(clip=clip)


def test_a_site_that_is_lost_after_its_counts_stops_the_run():
    """What was summed before holds its part, and cannot be taken out again."""
    public = next(
        a for a in WeightedOffsetsAgreement.examples() if a.sites == 3 and not a.products
    )
    ones, running = np.ones(public.items), sides.coordinate(public, Start(0))
    next(running)
    everybody = Collected(("A", "B", "C"), dict.fromkeys(OPENED, ones), None)
    assert running.send(everybody).step == "mean"
    assert running.send(Collected(("A", "B", "C"), {"sum": ones}, None)).step == "offsets"
    with pytest.raises(SiteFailure, match="a site was lost"):
        running.send(Collected(("A", "C"), {"sum": ones}, None))


def test_a_site_that_is_lost_among_the_products_stops_the_run_at_once():
    public = next(a for a in WeightedOffsetsAgreement.examples() if a.sites == 3 and a.products)
    ones, running = np.ones(public.items), sides.coordinate(public, Start(0))
    next(running)
    asked = running.send(Collected(("A", "B", "C"), dict.fromkeys(OPENED, ones), None))
    assert asked.step != "mean"
    with pytest.raises(SiteFailure, match="a site was lost"):
        running.send(Collected(("A", "C"), {"products": np.zeros((public.items, 1))}, None))


def test_ratings_in_other_units_give_the_same_in_those():
    """Ten times the ratings in ten times the bounds: ten times the base, 100 times the spread."""
    ratings = simulated_ratings(60, 15, per_user=6, seed=1)
    tenfold = tc.Relation.from_cells(
        ratings.entities, ratings.indices, 10.0 * ratings.values, shape=ratings.shape
    )
    ours, theirs = (
        tc.PrivateRecommender(tuple(unit * b for b in BOUNDS), rank=3, privacy=None,
                              random_state=0).fit(data).shared_
        for unit, data in ((1.0, ratings), (10.0, tenfold))
    )  # fmt: skip
    np.testing.assert_allclose(theirs["base"], 10.0 * ours["base"])
    np.testing.assert_allclose(theirs["features"], ours["features"])
    np.testing.assert_allclose(theirs["spread"], 100.0 * ours["spread"])


def test_shrinking_towards_covariates_finds_them():
    rng = np.random.default_rng(0)
    z = np.clip(rng.normal(size=(2000, 1)), -1.9, 1.9)
    q = 0.3 - 0.4 * z[:, 0] + 0.1 * rng.normal(size=2000)
    weights = np.full(2000, 20.0)
    sums = weights * q + np.sqrt(weights * 0.8 + 25.0) * rng.normal(size=2000)
    found = shrink_towards(sums, weights, 25.0, weights * 0.8, z)
    # the posterior variance were τ² and the coefficients known: 1/(1/τ² + C²/(C·s + σ²))
    known = 1.0 / (1.0 / 0.1**2 + 400.0 / 41.0)
    assert np.mean((found - q) ** 2) < 1.1 * known
    assert np.mean((found - q) ** 2) < 0.2 * np.mean((sums / weights - q) ** 2)


@pytest.mark.parametrize("seed", range(5))
def test_what_noise_says_of_popular_items_is_not_carried_on_to_others(seed):
    """Ten popular items and 990 that nobody has rated, sums that are mostly noise."""
    rng = np.random.default_rng(seed)
    weights = np.r_[np.full(10, 300.0), np.full(990, 1.0)]
    sums = 300.0 * rng.normal(size=1000)
    found = shrink_towards(sums, weights, 300.0**2, weights, np.log1p(weights)[:, None])
    assert np.abs(found[10:]).max() < 0.5  # a slope without a prior gives several stars


# --- bad input -------------------------------------------------------------------------------


def test_bad_ratings_and_weights_are_refused_by_name(ratings):
    table = np.full((3, 4), np.nan)
    table[0, 1], table[1, 2] = 3.0, 4.0
    with pytest.raises(ParameterError, match="user 2 has no ratings"):
        recommender().fit(table)
    table[2, 0] = 9.0
    with pytest.raises(ParameterError, match=r"user 2 rates item 0 with 9, outside"):
        recommender().fit(table)
    for bad in (0.0, -0.1, 1.5, np.nan):
        with pytest.raises(ParameterError, match=r"\(0, 1\]"):
            tc.PrivacyWeights([0.5, bad], [1.0])
    with pytest.raises(ParameterError, match="weights are for"):
        recommender().fit(ratings, weights=tc.PrivacyWeights.equal(3, 3))
    with pytest.raises(ParameterError, match="leaves a group nothing"):
        tc.PrivacyWeights.drawn(9, 9, np.random.default_rng(0), lowest=0.0)
    with pytest.raises(ParameterError, match="at most 1"):
        tc.PrivacyWeights.drawn(9, 9, np.random.default_rng(0), conservative=0.8)


def test_bad_requests_are_refused_by_name(ratings):
    with pytest.raises(UnboundedData, match="bounds"):
        tc.PrivateRecommender().fit(ratings)
    for request, said in [
        (tc.Privacy(1.0, 1e-5, unit="user", trust="aggregator"), "unit"),
        (tc.Privacy(1.0, 0.0, unit="entry", trust="aggregator"), "delta"),
        (tc.Privacy(1.0, 1e-5, unit="entry", trust="local"), "trust"),
        (tc.Privacy(1.0, 1e-5, unit="entry", neighbours="add-remove-one", trust="aggregator"),
         "neighbours"),
    ]:  # fmt: skip
        with pytest.raises(ParameterError, match=said):
            recommender(privacy=request).fit(ratings)
    with pytest.raises(ParameterError, match="price"):
        recommender().price()


def test_unknown_users_and_items_are_refused(ratings):
    fitted = recommender().fit(ratings)
    for cells in ([[0, 60]], [[400, 0]], [[-1, 0]], [[0.5, 1]], [0, 1]):
        with pytest.raises(ParameterError, match="cells"):
            fitted.predict(cells)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_parameters_are_checked_by_their_table(name, ratings):
    for parameter, constraint in tc.PrivateRecommender._constraints.items():
        for bad in constraint.bad_values():
            with pytest.raises(ParameterError):
                recommender(**{"method": name, parameter: bad}).fit(ratings)


@pytest.mark.parametrize("traits", [2, 8])
def test_as_many_features_of_the_pattern_shrink_offsets_as_are_asked_for(traits, monkeypatch):
    """Offsets follow from a few traits or from many, and who rates what from the same ones."""
    rng, users, items, each = np.random.default_rng(5), 1200, 200, 30
    taste, trait = rng.standard_normal((users, traits)), rng.standard_normal((items, traits))
    along = rng.standard_normal(traits)
    liked = 0.5 * trait @ along / np.linalg.norm(along)
    asked = 1.5 * taste @ trait.T / np.sqrt(traits) - 0.7 * np.log(np.arange(1, items + 1))
    taken = np.argsort(-(asked + rng.gumbel(size=(users, items))), axis=1)[:, :each]
    index = np.column_stack([np.repeat(np.arange(users), each), taken.ravel()])
    own = 3.4 + 0.4 * rng.standard_normal(users)[index[:, 0]] + liked[index[:, 1]]
    values = np.clip(own + 0.8 * rng.standard_normal(len(index)), 1, 5)
    held = rng.random(len(index)) < 0.1
    ratings = tc.Relation.from_cells(("user", "item"), index[~held], values[~held],
                                     shape=(users, items))  # fmt: skip
    privacy = tc.Privacy(0.1, 1e-5, unit="entry", trust="aggregator")
    shrunk, errors = sides.shrunk_towards, {}
    for width in (0, 3, None):  # None: all that the method takes
        kept = None if width is None else 1 + width
        monkeypatch.setattr(
            sides, "shrunk_towards", lambda *a, kept=kept: shrunk(*a[:-1], a[-1][:, :kept])
        )
        model = tc.PrivateRecommender((1, 5), privacy=privacy, random_state=0).fit(ratings)
        found = model.predict(index[held], positions=True)
        errors[width] = np.mean((found - values[held]) ** 2)
    assert errors[None] < 0.99 * errors[0]
    # three would be 2 % better where there are two traits, and more than that worse with eight
    assert errors[None] < (1.02 if traits == 2 else 0.99) * errors[3]
