"""Tuning on data that is no secret charges nothing; on private data every fit does."""

import numpy as np
import pytest
from sklearn.base import clone

import tacit as tc
from tacit.data.synthetic import simulated_ratings
from tacit.errors import ParameterError
from tacit.factorization import AlternatingLeastSquares
from tacit.planning.tuning import tune


def model(**options):
    request = tc.Privacy(2.0, 1e-6, unit="user", trust="site")
    return tc.PrivateFactorization("user:k item:k", bounds=(1, 5), privacy=request, **options)


def test_the_best_of_the_choices_is_returned_and_no_budget_is_spent():
    ledger = tc.Ledger.memory(unit="user", epsilon=2.0, delta=1e-5)
    public = simulated_ratings(300, 30, per_user=10)
    choices = [AlternatingLeastSquares(clip=0.02), AlternatingLeastSquares(factors=False)]
    found = tune(model(ledger=ledger), public, {"method": choices}, sites=2, repeats=2)
    assert found.best["method"] == choices[1] == found.estimator.method
    assert [error for _, error in found.table] == sorted(error for _, error in found.table)
    assert ledger.remaining.epsilon == 2.0
    again = tune(model(ledger=ledger), public, {"method": choices}, sites=2, repeats=2)
    assert again.table == found.table


def test_trying_settings_on_private_data_charges_each_time():
    ledger = tc.Ledger.memory(unit="user", epsilon=5.0, delta=1e-4)
    site = tc.Site("A", simulated_ratings(100, 20, per_user=8), ledger)
    for rank in (1, 2):
        clone(model()).set_params(rank=rank).fit([site])
    assert ledger.remaining.epsilon == pytest.approx(1.0)


def test_data_without_the_protected_entity_is_refused():
    with pytest.raises(ParameterError, match="not 'user'"):
        tune(model(), tc.Relation.from_dense(("a", "b"), np.eye(3)), {"rank": [1]})


def test_simulated_ratings_have_the_stated_shape():
    found = simulated_ratings(400, 50, per_user=12, seed=3)
    sizes = np.bincount(found.indices[:, 0], minlength=400)
    assert sizes.min() >= 5 and sizes.max() <= 25 and 9 <= np.median(sizes) <= 15
    assert set(np.unique(found.values)) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    counts = np.sort(np.bincount(found.indices[:, 1], minlength=50))
    assert counts[-1] > 5 * counts[0]
