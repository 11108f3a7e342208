"""The sensitivity of weighted offsets, attacked through the code that runs at the raters."""

import math

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from tacit.errors import RequestRefused
from tacit.estimators.gate import Gate
from tacit.factorization.offsets.numerics.ridge import ByMember, by_member
from tacit.factorization.offsets.sides import Own
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.gaussian import gdp_to_dp
from tacit.privacy.calibration import gaussian_sigma
from tacit.recommender.agreement import HeterogeneousOffsets
from tacit.recommender.method import Rated, Task
from tacit.recommender.sides import Raters
from tacit.rounds.messages import Message

BOUNDS = (1.0, 5.0)
OPEN = tc.Privacy(math.inf, 1e-6, unit="entry", trust="aggregator")
REQUEST = tc.Privacy(1.0, 1e-5, unit="entry", trust="aggregator")


def agreed(items, item_weights=None, privacy=OPEN, rank=2, **settings):
    weights = tuple(np.ones(items) if item_weights is None else item_weights)
    task = Task(None, items, BOUNDS, rank, privacy, weights)
    return HeterogeneousOffsets(**settings).agree(task)


def one_user(values):
    count = len(values)
    return ByMember(np.array([0, count]), np.arange(count, dtype=np.int32), np.asarray(values))


def contribution(agreement, rated, step, kind="", raters=Raters, **arrays):
    """Return what raters contribute to a step, as it comes to the gate."""
    found = agreement.step(step)
    if found.kinds:
        arrays["kind"] = np.array([list(found.kinds).index(kind)])
    asked = found.read(Message(0, {n: np.asarray(a) for n, a in arrays.items()}, step))
    holder = raters(agreement, "the raters", rated, Gate(None, Noise("exact", seed=0)))
    sent = holder.contribute(found, asked, {}, holder.shards[0], np.arange(0))
    value = holder.completed(found, asked, sent)
    return value.value() if isinstance(value, GridSum) else value


def sums(agreement, cells, openness, mean):
    """Return every array that leaves the raters, by kind of sum."""
    # what the recommender might know of items by then, good or bad; the same for neighbours
    rng = np.random.default_rng(round(abs(mean) * 1e6) % 2**32)
    size = rng.choice([0.3, 1.0, 5.0])
    base = rng.uniform(-2, 2, agreement.items)
    features = np.clip(size * rng.normal(size=(agreement.items, agreement.rank)), -50, 50)
    rated = Rated(cells, np.asarray(openness))
    return {
        "mean": contribution(agreement, rated, "mean"),
        "offsets": contribution(agreement, rated, "offsets", mean=[mean]),
        "later offsets": contribution(agreement, rated, "later", "offsets", mean=[mean]),
        "later factors": contribution(
            agreement, rated, "later", "damped factors", base=base, features=features
        ),
    }


def bound_of(agreement, name):
    return agreement.sensitivities[name.split()[-1].replace("factors", "damped factors")]


def moved(agreement, first, second, openness, mean):
    one, two = (sums(agreement, cells, openness, mean) for cells in (first, second))
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
    as_cells = [
        by_member(tc.Relation.from_dense(("user", "item"), t), "user") for t in (table, other)
    ]
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
    rng = np.random.default_rng(3)
    largest = dict.fromkeys(("mean", "offsets", "later offsets", "later factors"), 0.0)
    for _ in range(300):
        first, second, user, item = neighbours(rng)
        low = rng.choice([0.01, 0.5, 1.0])
        weights = tc.PrivacyWeights(rng.uniform(low, 1.0, 3), rng.uniform(low, 1.0, 12))
        public, own = agreed(12, weights.items, **settings), float(weights.of(user, item))
        mean = rng.uniform(-2, 2)
        for name, far in moved(public, first, second, weights.users, mean).items():
            bound = own * bound_of(public, name)
            assert far <= bound * (1 + 1e-6) + 1e-8, (name, own)
            largest[name] = max(largest[name], far / bound)
    assert largest["mean"] > 0.99 and largest["offsets"] > 0.7  # the search is no pushover
    # own vectors are short where residuals are clipped early: see the directed search below
    assert largest["later factors"] > (0.2 if public.clip >= 1.0 else 0.05)


def test_the_bound_is_reached():
    """One rating of any weight among about κ others of weight 1, which only its mean moves."""
    best = 0.0
    for count in range(2, 40):
        for own in (1.0, 0.02):
            item_weights = np.ones(count)
            item_weights[0] = own
            public = agreed(count, item_weights, clip=1.0, prior_weight=10.0)
            first, second = np.full(count, 3.0), np.full(count, 3.0)
            first[0], second[0] = 1.0, 5.0
            far = moved(public, one_user(first), one_user(second), [1.0], 0.0)["offsets"]
            assert far <= own * public.sensitivities["offsets"] * (1 + 1e-6)
            best = max(best, far / (own * public.sensitivities["offsets"]))
    assert best > 0.99


class PlainMean(Raters):
    """The mistake that PRIVACY B2 warns of: the own mean is not weighted."""

    def _offsets(self, asked, shard, mechanism):
        plain, public = shard.cells, self.agreement
        own = plain.sums(plain.values) / (np.diff(plain.starts) + public.prior_weight)
        rest = np.clip(plain.values - own[plain.owners], -public.clip, public.clip)
        return mechanism.grid.sum((shard.weights * rest)[None, :])


def test_the_search_catches_an_own_mean_without_weights():
    count, own = 11, 0.02
    item_weights = np.ones(count)
    item_weights[0] = own
    public, found = agreed(count, item_weights), []
    for value in (1.0, 5.0):
        values = np.full(count, 3.0)
        values[0] = value
        rated = Rated(one_user(values), np.ones(1))
        found.append(contribution(public, rated, "offsets", raters=PlainMean, mean=[0.0]))
    far = np.linalg.norm(found[0] - found[1])
    assert far > 5 * own * public.sensitivities["offsets"]


def test_the_search_catches_a_bound_that_forgets_the_own_mean():
    public = agreed(11, clip=1.0, prior_weight=10.0)
    first, second = np.full(11, 3.0), np.full(11, 3.0)
    first[0], second[0] = 1.0, 5.0
    far = moved(public, one_user(first), one_user(second), [1.0], 0.0)["offsets"]
    assert far > min(2 * public.clip, 4.0)  # what a bound on the own message alone would say


class Undamped(Raters):
    """A mistake: the user's vector is taken as fixed, so nothing damps what it carries."""

    def _summed(self, mechanism, cells, which, sent):
        scales = self.weights_of(self.everybody)
        return super()._summed(mechanism, cells, which, sent._replace(scales=scales))


def test_the_search_catches_a_factor_round_that_forgets_the_own_vector():
    """One rating turns the user's vector, and that the messages of all other items."""
    count, caught, reached = 30, 0.0, 0.0
    public = agreed(count, rank=1)
    bound = public.sensitivities["damped factors"]
    for size in np.geomspace(0.05, 2.0, 12):
        features = np.full((count, 1), size)
        features[0] = -3.0  # the changed rating has a say, the others a common taste
        for level in (3.5, 4.0, 4.5):
            found = {}
            for kind in (Raters, Undamped):
                for value in (1.0, 5.0):
                    values = np.where(np.arange(count) % 2, level, 6.0 - level)
                    values[0] = value
                    signed = np.where(np.arange(count) % 2, 1.0, -1.0)[:, None] * features
                    found[kind, value] = contribution(
                        public, Rated(one_user(values), np.ones(1)), "later", "damped factors",
                        raters=kind, base=np.zeros(count), features=signed,
                    )  # fmt: skip
            far = {k: np.linalg.norm(found[k, 1.0] - found[k, 5.0]) for k in (Raters, Undamped)}
            assert far[Raters] <= bound * (1 + 1e-6)
            caught = max(caught, far[Undamped] / bound)
            reached = max(reached, far[Raters] / bound)
    assert caught > 1.1 and reached > 0.3, (caught, reached)


@pytest.mark.parametrize("sent", [np.nan, np.inf, -1e300, 1e17, 2.1])
def test_a_mean_out_of_its_range_is_refused(sent):
    rated = Rated(one_user([1.0, 5.0]), np.ones(1))
    with pytest.raises(RequestRefused, match="mean"):
        contribution(agreed(2), rated, "offsets", mean=[sent])


def test_features_of_another_shape_or_size_are_refused():
    public, rated = agreed(4), Rated(one_user([1.0, 5.0, 3.0, 3.0]), np.ones(1))
    for features in (np.zeros((3, 2)), np.zeros((4, 1)), np.zeros((4, 3)), np.full((4, 2), 51.0)):
        with pytest.raises(RequestRefused, match="features"):
            contribution(
                public, rated, "later", "damped factors", base=np.zeros(4), features=features
            )


def test_values_out_of_bounds_are_clipped_where_they_are_sent():
    public = agreed(3)
    wild = sums(public, one_user([1e9, -np.inf, np.nan]), [1.0], 0.0)
    tame = sums(public, one_user([5.0, 1.0, 3.0]), [1.0], 0.0)
    for name, sent in wild.items():
        np.testing.assert_array_equal(sent, tame[name])


def table(seed=0):
    rng = np.random.default_rng(seed)
    found = np.where(rng.random((30, 9)) < 0.6, rng.integers(1, 6, (30, 9)), np.nan)
    found[:, 0] = 3.0
    return found


def test_nothing_leaves_but_what_passed_the_gate_or_is_public(monkeypatch):
    gated, sent = [], []
    release, respond = Gate.release, Raters.respond
    monkeypatch.setattr(
        Gate, "release", lambda *a, **k: gated.append(release(*a, **k)) or gated[-1]
    )
    monkeypatch.setattr(
        Raters, "respond", lambda self, r: sent.append(respond(self, r)) or sent[-1]
    )
    ratings = table()
    fitted = tc.PrivateRecommender(BOUNDS, privacy=REQUEST, rank=2, random_state=0).fit(ratings)
    noisy = [reply for reply in sent if reply.step not in ("counts", "pattern")]
    assert len(gated) == len(noisy) == 3 and len(sent) == 11
    for reply, released in zip(noisy, gated, strict=True):
        assert list(reply.arrays) == ["sum"]
        np.testing.assert_array_equal(reply["sum"], released)
    # the rest is a function of the pattern: other values, the same replies
    answers, public = iter(sent), sent[:8]
    monkeypatch.setattr(Raters, "respond", lambda self, r: next(answers))
    other = np.where(np.isfinite(ratings), 6.0 - ratings, np.nan)
    again = tc.PrivateRecommender(BOUNDS, privacy=REQUEST, rank=2, random_state=0).fit(other)
    for name, array in fitted.shared_.items():
        np.testing.assert_array_equal(array, again.shared_[name])
    seen = []
    monkeypatch.setattr(
        Raters, "respond", lambda self, r: seen.append(respond(self, r)) or seen[-1]
    )
    tc.PrivateRecommender(BOUNDS, privacy=REQUEST, rank=2, random_state=0).fit(other)
    assert [reply.to_bytes() for reply in seen[:8]] == [reply.to_bytes() for reply in public]


def test_no_array_is_about_single_users():
    """What is open has a row per item: nobody is told who rated what, or how open a user is."""
    public = agreed(9, privacy=REQUEST)
    for step in public.steps:
        for spec in step.replies.values():
            assert spec.shape[0] in (1, 9, 18)


def test_a_rating_of_small_weight_sees_noise_that_much_larger():
    public = agreed(50, privacy=REQUEST)
    assert epsilon_of(public.event, 1e-5) <= 1.0
    mu = 1.0 / gaussian_sigma(1.0, 1e-5)
    for weight in (0.01, 0.1, 0.37, 0.9, 1.0):
        found = epsilon_of(public.scaled(weight), 1e-5)
        assert found == pytest.approx(gdp_to_dp(weight * mu, 1e-5), rel=2e-3)
        assert found <= weight * 1.0 + 1e-9


def test_shares_of_the_raters_add_up_to_the_central_noise():
    """n shares of variance σ²/n, on the mechanism's grid, add up to the law of one draw."""
    mechanism = agreed(4, privacy=REQUEST).mechanisms["offsets"]
    steps, raters = math.ldexp(mechanism.scale, -mechanism.grid.exponent), 25
    source = Noise("grid", seed=1)
    shares = source.gaussian(20_000 * raters, steps / math.sqrt(raters)).reshape(-1, raters)
    total = shares.sum(axis=1) / steps
    assert stats.kstest(total, "norm").pvalue > 1e-4
    assert abs(total.std() - 1.0) < 0.03


def test_weights_and_no_weights_are_one_method():
    """With weight 1 everywhere the sums are those of least squares over sites, bit for bit."""
    from tacit.factorization.language.structure import CoupledModel
    from tacit.factorization.offsets.agreement import AlternatingLeastSquares
    from tacit.factorization.together.problem import state_problem

    relation = tc.Relation.from_dense(("user", "item"), table())
    request = tc.Privacy(math.inf, 1e-6, unit="entry", trust="site")
    problem = state_problem(
        CoupledModel("user:k item:k", 2, "euclidean"), [{"data": relation}], bounds=BOUNDS,
        privacy=request,
    )  # fmt: skip
    plain = AlternatingLeastSquares(clip=1.0, prior_weight=10.0).agree(problem)
    holder = plain.holder("A", {"data": relation}, Gate(None, Noise("grid", seed=0)), None)
    weighted = agreed(9, clip=1.0, prior_weight=10.0)
    rated = Rated(by_member(relation, "user"), np.ones(30))
    for step, arrays in (("mean", {}), ("offsets", {"mean": np.array([0.3])})):
        asked = plain.step(step).read(Message(0, arrays, step))
        shard = holder.shards[0]
        assert isinstance(shard, Own)
        ours = holder.contribute(plain.step(step), asked, {}, shard, np.arange(0)).value()
        assert np.array_equal(ours, contribution(weighted, rated, step, **arrays))
