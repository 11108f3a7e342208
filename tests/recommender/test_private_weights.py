"""Weights that nobody is told: the joint change of a rating and its weight, through real code."""

import math

import numpy as np
import pytest

import tacit as tc
from tacit.data.synthetic import simulated_ratings
from tacit.errors import ParameterError
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.published.hua2015_hu2023 import GradientRecommender
from tacit.recommender.agreement import HeterogeneousOffsets
from tacit.recommender.method import Rated, Task
from tacit.recommender.private_sides import PrivateRaters
from tests.recommender.test_sensitivity import contribution

BOUNDS = (1.0, 5.0)
OPEN = tc.Privacy(math.inf, 1e-6, unit="entry", trust="aggregator")
REQUEST = tc.Privacy(1.0, 1e-5, unit="entry", trust="aggregator")


def agreed(items, **settings):
    task = Task(None, items, BOUNDS, 2, OPEN)
    return HeterogeneousOffsets(public_weights=False, **settings).agree(task)


def sent(public, values, weights, mean, raters=PrivateRaters):
    count = len(values)
    cells = ByMember(np.array([0, count]), np.arange(count, dtype=np.int32), np.asarray(values))
    rated = Rated(cells, np.ones(1), np.asarray(weights, np.float64))
    return {
        "mean": contribution(public, rated, "mean", raters=raters),
        "offsets": contribution(public, rated, "offsets", raters=raters, mean=[mean]),
    }


def searched(public, rng, raters=PrivateRaters, tries=400):
    """Return the largest change found, as a share of max(W, W')·Δ, by step."""
    best = {"mean": 0.0, "offsets": 0.0}
    for _ in range(tries):
        count = int(rng.integers(1, 60))
        values = rng.choice([1.0, 3.0, 5.0], count)
        others = rng.choice([1e-3, 0.3, 1.0])
        weights = np.clip(rng.uniform(others, 1.0, count), 1e-6, 1.0)
        other_values, other_weights = values.copy(), weights.copy()
        values[0], other_values[0] = rng.choice([1.0, 2.0, 5.0], 2)
        weights[0], other_weights[0] = rng.choice([1e-6, 0.1, 0.5, 1.0], 2)
        if rng.random() < 0.3:
            other_weights[0] = weights[0]  # the first statement: the weight stays
        mean = float(rng.choice([-2.0, 0.0, 2.0]))
        one = sent(public, values, weights, mean, raters)
        two = sent(public, other_values, other_weights, mean, raters)
        most = max(weights[0], other_weights[0])
        for name in best:
            far = float(np.linalg.norm(one[name] - two[name]))
            best[name] = max(best[name], (far - 1e-9) / (most * public.sensitivities[name]))
    return best


@pytest.mark.parametrize("settings", [{}, {"clip": 2.0, "prior_weight": 1.0}, {"clip": 0.3}])
def test_a_rating_and_its_weight_together_stay_within_the_larger_weight(settings):
    best = searched(agreed(60, **settings), np.random.default_rng(0))
    assert best["mean"] <= 1.0 + 1e-6 and best["offsets"] <= 1.0 + 1e-6, best
    assert best["mean"] > 0.99 and best["offsets"] > 0.9  # the search is no pushover


class Undivided(PrivateRaters):
    """A mistake: the own mean's denominator counts ratings, and its numerator weights."""

    def _offsets(self, asked, shard, mechanism):
        cells, weights, public = shard.cells, shard.weights, self.agreement
        own = cells.sums(cells.values) / (np.diff(cells.starts) + public.prior_weight)
        rest = np.clip(cells.values - own[cells.owners], -public.clip, public.clip)
        padded = np.zeros(mechanism.size)
        padded[0 : 2 * len(rest) : 2] = weights * rest
        return mechanism.grid.sum(padded[None, :])


def test_the_search_catches_an_own_mean_that_forgets_the_weights():
    assert searched(agreed(60), np.random.default_rng(1), Undivided)["offsets"] > 1.5


class Heavier(PrivateRaters):
    """A mistake: sums of weights count for more than the bound has room for."""

    def _mean(self, asked, shard, mechanism):
        values = np.column_stack([shard.cells.values, np.full(len(shard.weights), 6.0)])
        return mechanism.grid.sum(values, shard.weights)


def test_the_search_catches_sums_of_weights_that_are_too_large():
    assert searched(agreed(60), np.random.default_rng(2), Heavier)["mean"] > 1.2


def test_no_weight_leaves_but_behind_noise():
    """What is open does not change with weights, and neither do certificates' groups."""
    ratings = simulated_ratings(60, 20, per_user=8)
    fits = []
    for level in (0.2, 1.0):
        model = tc.PrivateRecommender(
            BOUNDS, method="private-weights", privacy=REQUEST, rank=2, random_state=0
        )
        fits.append(model.fit(ratings, weights=np.full(ratings.shape, level)))
    one, two = fits
    assert str(one.certificate_).split("ledger")[0] == str(two.certificate_).split("ledger")[0]
    assert not one.certificate_.groups
    assert any("weights are not" in note for note in one.certificate_.assumptions)
    assert one.certificate_of(0).epsilon < 0.3 < two.certificate_of(0).epsilon  # a user's own


def test_weights_are_an_array_a_relation_or_a_product():
    ratings = simulated_ratings(80, 20, per_user=8)
    product = tc.PrivacyWeights.drawn(80, 20, np.random.default_rng(0), middle_item=0.3)
    table = np.outer(product.users, product.items)
    listed = tc.Relation.from_cells(
        ratings.entities, ratings.indices, table[tuple(ratings.indices.T)], shape=ratings.shape
    )
    found = [
        tc.PrivateRecommender(BOUNDS, privacy=REQUEST, rank=2, random_state=0)
        .fit(ratings, weights=weights)
        .shared_["base"]
        for weights in (product, table, listed)
    ]
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)
    np.testing.assert_allclose(found[2], found[0], atol=1e-12)


def test_weights_that_are_missing_or_out_of_range_are_refused():
    ratings = simulated_ratings(30, 12, per_user=5)
    model = tc.PrivateRecommender(BOUNDS, method="private-weights", privacy=REQUEST, rank=2)
    for bad, what in ((np.full(ratings.shape, 1.5), "in \\(0, 1\\]"), (np.ones((3, 12)), "users")):
        with pytest.raises(ParameterError, match=what):
            model.fit(ratings, weights=bad)
    sparse = np.full(ratings.shape, np.nan)
    sparse[0, 0] = 0.5
    with pytest.raises(ParameterError, match="no weight"):
        model.fit(ratings, weights=sparse)
    with pytest.raises(ParameterError, match="public"):
        GradientRecommender(BOUNDS, method="pdpmf", privacy=REQUEST).fit(
            ratings, weights=np.full(ratings.shape, 0.5)
        )


def test_the_published_method_needs_no_public_weights():
    ratings = simulated_ratings(60, 20, per_user=8)
    rng = np.random.default_rng(3)
    model = GradientRecommender(BOUNDS, privacy=REQUEST, rank=2, random_state=0)
    model.fit(ratings, weights=rng.uniform(0.2, 1.0, ratings.shape))
    assert not model.certificate_.groups and model.certificate_.claimed_epsilon == 1.0
    assert model.predict([[0, 1]]).shape == (1,)


def test_sites_have_weights_of_their_own():
    ratings = simulated_ratings(40, 12, per_user=6)
    parts = {"A": range(20), "B": range(20, 40)}
    asked = tc.Privacy(2.0, 1e-5, unit="entry", trust="site")
    sites, weights = [], {}
    for name, users in parts.items():
        kept = np.flatnonzero(np.isin(ratings.indices[:, 0], users))
        index = ratings.indices[kept] - [users[0], 0]
        own = tc.Relation.from_cells(("user", "item"), index, ratings.values[kept], shape=(20, 12))
        sites.append(tc.Site(name, own))
        weights[name] = np.full((20, 12), 0.5)
    model = tc.PrivateRecommender(
        BOUNDS, items=12, method="private-weights", privacy=asked, rank=2, random_state=0
    )
    assert model.fit(sites, weights=weights).predict([[0, 1], [39, 2]], positions=True).shape == (
        2,
    )
