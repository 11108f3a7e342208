"""The sensitivity of weighted offsets, attacked through the code that runs at the raters."""

import math

import numpy as np
import pytest

import tacit as tc
from tacit.estimators import recommender_certified_parts
from tacit.estimators.recommender_certified import HeterogeneousOffsets
from tacit.estimators.recommender_certified_parts import KINDS, Raters
from tacit.estimators.recommender_method import Task
from tacit.inference.members import ByMember, by_member
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.conversions import gdp_to_dp
from tacit.rounds.messages import Message

BOUNDS = (1.0, 5.0)
OPEN = tc.Privacy(math.inf, 1e-6, unit="entry", trust="aggregator")


def task(users, items, weights, privacy=OPEN, bounds=BOUNDS):
    return Task(users, items, bounds, 2, privacy, weights)


def one_user(values):
    count = len(values)
    return ByMember(np.array([0, count]), np.arange(count, dtype=np.int32), np.asarray(values))


def answers(method, public, cells, mean):
    """Return every array that leaves the raters, by round."""
    raters = Raters(method, public, cells, None, Noise("exact", seed=0))
    # what the recommender might know of items by then, good or bad; the same for neighbours
    rng = np.random.default_rng(round(abs(np.nan_to_num(mean, posinf=0.0)) * 1e6) % 2**32)
    size = rng.choice([0.3, 1.0, 5.0])
    known = {"base": rng.uniform(-2, 2, public.items), "mean": np.array([mean]),
             "features": size * rng.normal(size=(public.items, public.rank))}  # fmt: skip
    return {
        "mean": raters.respond(Message(0, {"mean": np.zeros(1)}))["sum"],
        "offsets": raters.respond(Message(1, {"mean": np.array([mean])}))["sum"],
        "later": raters.respond(Message(2, {**known, "kind": np.array([KINDS.index("factors")])}))[
            "sum"
        ],
    }


def moved(method, public, first, second, mean):
    one, two = (answers(method, public, cells, mean) for cells in (first, second))
    return {name: float(np.linalg.norm(one[name] - two[name])) for name in one}


def neighbours(rng, users=3, items=12):
    """Return ratings of a few users that differ in one value, and which."""
    table = np.where(rng.random((users, items)) < rng.choice([0.2, 0.6, 1.0]), 3.0, np.nan)
    table[:, rng.integers(items)] = 3.0
    seen = np.argwhere(np.isfinite(table))
    kind = rng.integers(3)
    values = rng.choice([1.0, 5.0], len(seen)) if kind == 0 else rng.uniform(1, 5, len(seen))
    table[tuple(seen.T)] = 3.0 if kind == 2 else values
    user, item = seen[rng.integers(len(seen))]
    other = table.copy()
    table[user, item], other[user, item] = rng.permutation([1.0, 5.0])
    as_cells = [by_member(tc.Relation.from_dense(("user", "item"), t), "user")
                for t in (table, other)]  # fmt: skip
    return *as_cells, user, item


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"clip": 1.5, "prior_weight": 5.0},
        {"clip": 4.0, "prior_weight": 0.5},
        {"clip": 0.2},
    ],
)
def test_no_rating_moves_what_leaves_further_than_its_weight_allows(settings):
    method, rng = HeterogeneousOffsets(**settings), np.random.default_rng(3)
    largest = {"mean": 0.0, "offsets": 0.0, "later": 0.0}
    for _ in range(300):
        first, second, user, item = neighbours(rng)
        low = rng.choice([0.01, 0.5, 1.0])
        weights = tc.PrivacyWeights(rng.uniform(low, 1.0, 3), rng.uniform(low, 1.0, 12))
        public = task(3, 12, weights)
        bounds, own = method.sensitivities(), float(weights.of(user, item))
        for name, far in moved(method, public, first, second, rng.uniform(-2, 2)).items():
            assert far <= own * bounds[name] * (1 + 1e-6) + 1e-8, (name, own)
            largest[name] = max(largest[name], far / (own * bounds[name]))
    assert largest["mean"] > 0.99 and largest["offsets"] > 0.7  # the search is no pushover
    # own vectors are short where residuals are clipped early: see the directed search below
    assert largest["later"] > (0.2 if method.clip >= 1.0 else 0.05)


def test_the_bound_is_reached():
    """One rating of any weight among about κ others of weight 1, which only its mean moves."""
    method = HeterogeneousOffsets(clip=1.0, prior_weight=10.0)
    best = 0.0
    for count in range(2, 40):
        for own in (1.0, 0.02):
            item_weights = np.ones(count)
            item_weights[0] = own
            public = task(1, count, tc.PrivacyWeights([1.0], item_weights))
            first, second = np.full(count, 3.0), np.full(count, 3.0)
            first[0], second[0] = 1.0, 5.0
            far = moved(method, public, one_user(first), one_user(second), 0.0)["offsets"]
            assert far <= own * method.sensitivities()["offsets"] * (1 + 1e-6)
            best = max(best, far / (own * method.sensitivities()["offsets"]))
    assert best > 0.99


class PlainMean(Raters):
    """The mistake that PRIVACY B2 warns of: the own mean is not weighted."""

    def _offsets(self, mechanism, request):
        plain = self._cells
        weights = self._weights
        own = (plain.sums(plain.values)) / (np.diff(plain.starts) + self._method.prior_weight)
        rest = np.clip(plain.values - own[plain.owners], -self._method.clip, self._method.clip)
        return mechanism.grid.sum((weights * rest)[None, :])


def test_the_search_catches_an_own_mean_without_weights():
    method = HeterogeneousOffsets()
    count, own = 11, 0.02
    item_weights = np.ones(count)
    item_weights[0] = own
    public = task(1, count, tc.PrivacyWeights([1.0], item_weights))
    sums = []
    for value in (1.0, 5.0):
        values = np.full(count, 3.0)
        values[0] = value
        raters = PlainMean(method, public, one_user(values), None, Noise("exact", seed=0))
        sums.append(raters.respond(Message(1, {"mean": np.zeros(1)}))["sum"])
    far = np.linalg.norm(sums[0] - sums[1])
    assert far > 5 * own * method.sensitivities()["offsets"]


def test_the_search_catches_a_bound_that_forgets_the_own_mean():
    method = HeterogeneousOffsets(clip=1.0, prior_weight=10.0)
    public = task(1, 11, tc.PrivacyWeights.equal(1, 11))
    first, second = np.full(11, 3.0), np.full(11, 3.0)
    first[0], second[0] = 1.0, 5.0
    far = moved(method, public, one_user(first), one_user(second), 0.0)["offsets"]
    assert far > min(2 * method.clip, 4.0)  # what a bound on the own message alone would say


class Undamped(Raters):
    """A mistake: the user's vector is taken as fixed, so nothing damps what it carries."""

    def _summed(self, mechanism, messages):
        return super()._summed(mechanism, messages._replace(scales=self._weights))


def test_the_search_catches_a_factor_round_that_forgets_the_own_vector():
    """One rating turns the user's vector, and that the messages of all other items."""
    method, count, caught, reached = HeterogeneousOffsets(), 30, 0.0, 0.0
    public = Task(1, count, BOUNDS, 1, OPEN, tc.PrivacyWeights.equal(1, count))
    known = {"base": np.zeros(count), "mean": np.zeros(1), "kind": np.array([1])}
    for size in np.geomspace(0.05, 2.0, 12):
        features = np.full((count, 1), size)
        features[0] = -3.0  # the changed rating has a say, the others a common taste
        for level in (3.5, 4.0, 4.5):
            sums = {}
            for kind in (Raters, Undamped):
                for value in (1.0, 5.0):
                    values = np.where(np.arange(count) % 2, level, 6.0 - level)
                    values[0] = value
                    signed = np.where(np.arange(count) % 2, 1.0, -1.0)[:, None] * features
                    raters = kind(method, public, one_user(values), None, Noise("exact", seed=0))
                    sent = raters.respond(Message(2, {**known, "features": signed}))
                    sums[kind, value] = sent["sum"]
            bound = method.sensitivities()["later"]
            far = {k: np.linalg.norm(sums[k, 1.0] - sums[k, 5.0]) for k in (Raters, Undamped)}
            assert far[Raters] <= bound * (1 + 1e-6)
            caught = max(caught, far[Undamped] / bound)
            reached = max(reached, far[Raters] / bound)
    assert caught > 1.1 and reached > 0.3, (caught, reached)


@pytest.mark.parametrize("sent", [np.nan, np.inf, -1e300, 1e17])
def test_whatever_the_server_sends_the_bound_holds(sent):
    method, rng = HeterogeneousOffsets(), np.random.default_rng(4)
    for _ in range(20):
        first, second, user, item = neighbours(rng)
        weights = tc.PrivacyWeights(rng.uniform(0.1, 1.0, 3), rng.uniform(0.1, 1.0, 12))
        far = moved(method, task(3, 12, weights), first, second, sent)["offsets"]
        own = float(weights.of(user, item))
        assert far <= own * method.sensitivities()["offsets"] * (1 + 1e-6) + 1e-8


def test_values_out_of_bounds_are_clipped_where_they_are_sent():
    method = HeterogeneousOffsets()
    public = task(1, 3, tc.PrivacyWeights.equal(1, 3))
    wild = answers(method, public, one_user([1e9, -np.inf, np.nan]), 0.0)
    tame = answers(method, public, one_user([5.0, 1.0, 3.0]), 0.0)
    for name, sent in wild.items():
        np.testing.assert_array_equal(sent, tame[name])


def test_nothing_leaves_but_what_passed_the_gate(monkeypatch):
    gated, sent = [], []
    gate = recommender_certified_parts.privatize
    monkeypatch.setattr(recommender_certified_parts, "privatize",
                        lambda *a, **k: gated.append(gate(*a, **k)) or gated[-1])  # fmt: skip
    respond = Raters.respond
    monkeypatch.setattr(Raters, "respond",
                        lambda self, r: sent.append(respond(self, r)) or sent[-1])  # fmt: skip
    rng = np.random.default_rng(0)
    table = np.where(rng.random((30, 9)) < 0.6, rng.integers(1, 6, (30, 9)), np.nan)
    table[:, 0] = 3.0
    request = tc.Privacy(1.0, 1e-6, unit="entry", trust="aggregator")
    fitted = tc.PrivateRecommender(BOUNDS, privacy=request, rank=2, random_state=0).fit(table)
    assert len(gated) == len(sent) == 3
    for reply, released in zip(sent, gated, strict=True):
        assert list(reply.arrays) == ["sum"]
        np.testing.assert_array_equal(reply["sum"], released)
    # what is shared is a function of those and of the pattern: other values, the same releases
    answers = iter(sent)
    monkeypatch.setattr(Raters, "respond", lambda self, r: next(answers))
    other = np.where(np.isfinite(table), 6.0 - table, np.nan)
    again = tc.PrivateRecommender(BOUNDS, privacy=request, rank=2, random_state=0).fit(other)
    for name, array in fitted.shared_.items():
        np.testing.assert_array_equal(array, again.shared_[name])


def test_a_rating_of_small_weight_sees_noise_that_much_larger():
    request = tc.Privacy(1.0, 1e-5, unit="entry", trust="aggregator")
    method, public = HeterogeneousOffsets(), task(9, 50, tc.PrivacyWeights.equal(9, 50), request)
    whole = epsilon_of(method.schedule(public), 1e-5)
    assert whole <= 1.0
    mu = 1.0 / tc_sigma()
    for weight in (0.01, 0.1, 0.37, 0.9, 1.0):
        found = epsilon_of(method.scaled(public, weight), 1e-5)
        assert found == pytest.approx(gdp_to_dp(weight * mu, 1e-5), rel=2e-3)
        assert found <= weight * 1.0 + 1e-9


def tc_sigma():
    from tacit.privacy.calibration import gaussian_sigma

    return gaussian_sigma(1.0, 1e-5)


def test_shares_of_the_raters_add_up_to_the_central_noise():
    """n shares of variance σ²/n, on the mechanism's grid, add up to the law of one draw."""
    from scipy import stats

    request = tc.Privacy(1.0, 1e-5, unit="entry", trust="aggregator")
    public = task(9, 4, tc.PrivacyWeights.equal(9, 4), request)
    mechanism = HeterogeneousOffsets().mechanisms(public)["offsets"]
    steps, raters = math.ldexp(mechanism.scale, -mechanism.grid.exponent), 25
    source = Noise("grid", seed=1)
    shares = source.gaussian(20_000 * raters, steps / math.sqrt(raters)).reshape(-1, raters)
    total = shares.sum(axis=1) / steps
    assert stats.kstest(total, "norm").pvalue > 1e-4
    assert abs(total.std() - 1.0) < 0.03
