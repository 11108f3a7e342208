"""Metrics of predictions, against scikit-learn and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

from experiments.metrics import auc, mae, poisson_log_likelihood, precision_at_k, rmse
from tacit.errors import ParameterError

quick = settings(deadline=None, derandomize=True)
numbers = st.floats(-1e6, 1e6)
pairs = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20).map(
    lambda rows: np.array(rows).T
)
# few different scores, so that there are ties
ranked = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=2, max_size=20).map(
    lambda rows: np.array(rows, float).T
)


@quick
@given(pairs)
def test_errors_agree_with_scikit_learn(pair):
    truth, predicted = pair
    assert rmse(truth, predicted) == pytest.approx(
        metrics.root_mean_squared_error(truth, predicted)
    )
    assert mae(truth, predicted) == pytest.approx(metrics.mean_absolute_error(truth, predicted))


@quick
@given(ranked.filter(lambda pair: 0 < pair[0].sum() < pair.shape[1]))
def test_auc_agrees_with_scikit_learn_also_with_ties(pair):
    labels, scores = pair
    assert auc(labels, scores) == pytest.approx(metrics.roc_auc_score(labels, scores))


def test_auc_is_that_of_any_count_above_zero():
    assert auc([0, 3, 0, 7], [0.1, 0.2, 0.3, 0.4]) == 0.75


@pytest.mark.parametrize("labels", [[0, 0], [1, 2]])
def test_auc_needs_both_kinds(labels):
    with pytest.raises(ParameterError, match="one positive and one negative"):
        auc(labels, [0.1, 0.2])


def test_precision_counts_the_hits_among_the_highest_scores():
    labels, scores = [1, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]
    assert [precision_at_k(labels, scores, k) for k in (1, 2, 3, 5)] == [1, 0.5, 2 / 3, 0.6]


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_precision_refuses_a_k_that_is_no_count(k):
    with pytest.raises(ParameterError, match="k must be a whole number"):
        precision_at_k([1], [0.5], k)


def test_log_likelihood_is_the_mean_poisson_log_probability():
    rng = np.random.default_rng(0)
    counts, rates = rng.poisson(3.0, 50), rng.gamma(2.0, 1.0, 50)
    expected = stats.poisson.logpmf(counts, rates).mean()
    assert poisson_log_likelihood(counts, rates) == pytest.approx(expected)
    assert poisson_log_likelihood([0], [0.0]) == 0.0


@pytest.mark.parametrize("metric", [rmse, mae, auc, poisson_log_likelihood])
def test_different_shapes_and_nothing_at_all_are_refused(metric):
    for truth, predicted in (([1.0, 0.0], [1.0]), ([], [])):
        with pytest.raises(ParameterError, match="one shape"):
            metric(truth, predicted)
