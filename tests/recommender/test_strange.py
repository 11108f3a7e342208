"""What a stranger passes to recommenders: refused in words before anybody pays, or as meant."""

import numpy as np
import pytest
import scipy.sparse as sp

import tacit as tc
from tacit.data.synthetic import simulated_ratings
from tacit.errors import ParameterError, TacitError
from tacit.recommender import ImplicitFeedback, LocalGroups
from tacit.recommender.local.hierarchy import levels_of

RATINGS = simulated_ratings(40, 12, per_user=5, seed=0)
WEIGHTS = np.random.default_rng(0).uniform(0.1, 1, (40, 12))


class Odd:
    """Raises what it likes."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("12345")


def fit(data, method, *, unit, trust="aggregator", **more):
    """Fit with a ledger that nothing was taken from where it fails."""
    relation = "replace-one"
    delta = 0.0 if trust == "local" else 1e-5
    privacy = tc.Privacy(5.0, delta, unit=unit, neighbours=relation, trust=trust)
    ledger = tc.Ledger.memory(epsilon=20, delta=1e-2, unit=unit, neighbours=relation)
    bounds = () if isinstance(method, ImplicitFeedback) else ((1, 5),)
    model = tc.PrivateRecommender(
        *bounds, items=12, rank=2, method=method, privacy=privacy, ledger=ledger, random_state=0
    )
    try:
        return model.fit(data, **more)
    except TacitError:
        assert ledger.remaining.epsilon == 20
        raise


@pytest.mark.parametrize("bad", [
    {"g": [0] * 11}, {"g": [np.nan] * 12}, {"g": [None] * 12}, {"g": np.zeros((12, 2))},
    {"g": [[1], [2]] * 6}, {"g": [{}] * 12}, {"g": []}, {"": [0, 1] * 6}, {3: [0, 1] * 6},
    {"g": "abcabcabcabc"}, {"g": set(range(12))}, {"g": {k: "a" for k in range(12)}},
    {"g": Odd()}, {"g": (k for k in range(12))}, {"g": [1j] * 12}, 7, [("g", [0] * 12, 1)],
    [["g", ["a", "b"] * 6], ["g", ["c", "d"] * 6]], {"g": 5},
])  # fmt: skip
def test_a_hierarchy_that_is_none_is_refused_in_words(bad):
    with pytest.raises(ParameterError, match="level"):
        fit(RATINGS, LocalGroups(bad), unit="user", trust="local")


@pytest.mark.parametrize(("labels", "groups"), [
    ([1, "1", 1.0, np.int8(1)] * 3, 1),  # as ids of items are compared
    (["é", "e\u0301", "e", "é "] * 3, 2),
    ([np.datetime64("2020-01-01"), np.datetime64("2021-01-01")] * 6, 2),
    ([10**30, -5, 0.5, np.inf] * 3, 4),
])  # fmt: skip
def test_labels_of_groups_are_compared_as_names_are(labels, groups):
    (level,) = levels_of({"g": labels})
    assert level.size == groups
    assert levels_of([level]) == (level,)


@pytest.mark.parametrize("bad", [
    WEIGHTS.T, WEIGHTS[:30], np.where(WEIGHTS > 0.8, np.nan, WEIGHTS), WEIGHTS * 0, WEIGHTS + 1,
    -WEIGHTS, WEIGHTS + 1j, np.full(WEIGHTS.shape, None), WEIGHTS[0], WEIGHTS[:, :, None],
    sp.csr_matrix(WEIGHTS), Odd(), np.full(WEIGHTS.shape, "much"),
    np.ma.masked_array(WEIGHTS, mask=WEIGHTS > 0.5), [[0.5], [0.5, 0.5]],
], ids=range(15))  # fmt: skip
@pytest.mark.parametrize("method", ["private-weights", "heterogeneous"])
def test_weights_that_are_none_are_refused_in_words(bad, method):
    with pytest.raises(TacitError):
        fit(RATINGS, method, unit="entry", weights=bad)


@pytest.mark.parametrize("bad", [
    np.full((40, 12), np.inf), np.ones((40, 12)) + 1j, np.full((40, 12), "yes"), Odd(),
    np.full((40, 12), np.nan), np.zeros((0, 12)), np.ones((40, 13)), np.ones(12),
    sp.csr_matrix(WEIGHTS), [[1.0], [1.0, 2.0]],
], ids=range(10))  # fmt: skip
def test_clicks_that_are_none_are_refused_in_words(bad):
    with pytest.raises(TacitError):
        fit(bad, ImplicitFeedback(), unit="user")


def test_what_is_masked_is_missing():
    table = np.full((40, 12), 3.0)
    hidden = np.ma.masked_array(table, mask=np.tile(np.arange(12) > 5, (40, 1)))
    assert tc.Relation.from_dense(("user", "item"), hidden).cells == 40 * 6
