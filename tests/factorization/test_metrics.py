"""Rankings against scikit-learn, calibration against what was simulated, matched components."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score

from tacit import CoupledFactorization, Relation
from tacit.errors import ParameterError
from tacit.factorization.matching import agreement_of_fits, factor_match
from tacit.factorization.metrics import calibration, ranking
from tests.oracles.factors import factor_match_score


def clicks(seed=0):
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.5, 1.0, (30, 3)) @ rng.gamma(0.5, 1.0, (3, 25))
    seen = rng.poisson(rates).astype(float)
    late = rng.poisson(rates).astype(float)
    return Relation.from_dense(("user", "item"), seen), late


def test_rankings_are_those_of_scikit_learn():
    seen, late = clicks()
    fitted = CoupledFactorization("user:k item:k", rank=3, random_state=0).fit(seen)
    late[4] = 0.0  # nothing to be found: no list
    held = Relation.from_cells(("user", "item"), np.argwhere(late > 0), late[late > 0],
                               shape=late.shape)  # fmt: skip
    scores = fitted.predict("data", np.argwhere(late >= 0)).reshape(late.shape)
    rows = late.sum(axis=1) > 0
    found = ranking(fitted, "data", held, member="user", item="item", n=10)
    assert found.members == rows.sum()
    assert found.ndcg == pytest.approx(ndcg_score(late[rows], scores[rows], k=10))
    whole = ranking(fitted, "data", held, member="user", item="item", n=25)
    expected = [average_precision_score(a > 0, b) for a, b in
                zip(late[rows], scores[rows], strict=True)]  # fmt: skip
    assert whole.average_precision == pytest.approx(np.mean(expected))
    assert (whole.recall, whole.coverage) == (1.0, 1.0)
    assert "NDCG" in str(found.summary())


def test_what_was_seen_is_left_out_and_lists_need_two_modes():
    seen, _ = clicks()
    fitted = CoupledFactorization("user:k item:k", rank=3, random_state=0).fit(seen)
    same = ranking(fitted, "data", seen, member="user", item="item", n=5,
                   seen=seen.subset(np.flatnonzero(seen.values > 0)))  # fmt: skip
    assert same.recall == 0.0
    with pytest.raises(ParameterError, match="member and item must be two of"):
        ranking(fitted, "data", seen, member="user", item="user")


def test_intervals_hold_what_they_state_and_probabilities_too():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 50)) + rng.normal(0, 0.7, (60, 50))
    hidden = rng.random(values.shape) < 0.3
    fitted = CoupledFactorization(
        "a:k b:k", rank=2, divergence="euclidean", inference="gibbs", random_state=0
    ).fit(np.where(hidden, np.nan, values))
    late = Relation.from_cells(("a", "b"), np.argwhere(hidden), values[hidden], shape=(60, 50))
    found = calibration(fitted, "data", late)
    np.testing.assert_allclose(found.coverage, found.levels, atol=0.05)
    assert found.gap < 0.04 and "stated" in str(found.summary())
    chances = 1 / (1 + np.exp(-values))
    happened = (rng.random(values.shape) < chances).astype(float)
    odds = CoupledFactorization("a:k b:k", rank=2, divergence="logit", random_state=0)
    odds.fit(np.where(hidden, np.nan, happened))
    late = Relation.from_cells(("a", "b"), np.argwhere(hidden), happened[hidden], shape=(60, 50))
    found = calibration(odds, "data", late)
    assert len(found.levels) == 10 and list(found.levels) == sorted(found.levels)
    assert found.gap < 0.1


def test_components_are_matched_up_to_order_signs_and_sizes():
    rng = np.random.default_rng(2)
    a = {n: rng.gamma(1.0, 1.0, (size, 3)) for n, size in (("u", 9), ("v", 7))}
    b = {n: rng.gamma(1.0, 1.0, (size, 3)) for n, size in (("u", 9), ("v", 7))}
    assert factor_match(a, b) == pytest.approx(factor_match_score(a, b))
    fewer = {n: table[:, :2] for n, table in a.items()}
    assert factor_match(a, fewer) == pytest.approx(2 / 3)
    seen, _ = clicks()
    chains = [
        CoupledFactorization(
            "user:k item:k", rank=2, inference="gibbs", iterations=150, random_state=k
        ).fit(seen)
        for k in range(2)
    ]
    assert agreement_of_fits(*chains, {"data": seen}) > 0.9
