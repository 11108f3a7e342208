"""`Privacy(ε, δ)` is enough for every estimator and method: what is filled in is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tacit as tc
from tacit.factorization import AlternatingLeastSquares, Langevin, LocalCounts
from tacit.recommender.agreement import METHODS
from tests.contracts.test_raw_state import RATINGS, fits

BARE = tc.Privacy(4.0, 1e-5)
FACTORIZATIONS = {
    "least squares": AlternatingLeastSquares(),
    "Langevin": Langevin(rounds=2),
    "counts": LocalCounts(burn_in=1, draws=1, thin=1),
    "counts of users": LocalCounts(burn_in=1, draws=1, thin=1, cells=8),
}


def cases() -> dict[str, Any]:
    """Return every estimator, and every method of those that have some, with its data."""
    found = fits(BARE)
    documents = np.random.default_rng(0).integers(0, 3, (200, 4))
    found["topics"] = (tc.SingleTopicModel(1, vocabulary=4, privacy=BARE), (documents,))
    found["orthogonal"] = (
        tc.OrthogonalDecomposition(1, sensitivity=0.1, dimension=2, privacy=BARE),
        (np.zeros((2, 2, 2)),),
    )
    for name in METHODS:
        if name != "gd-dr":  # as gd, for at least a hundred items
            model = tc.PrivateRecommender((1, 5), rank=2, method=name, privacy=BARE)
            found[f"recommender, {name}"] = (model, (RATINGS,))
    for name, method in FACTORIZATIONS.items():
        counts = "counts" in name
        divergence = "kl" if counts else "euclidean"
        factorization = tc.PrivateFactorization(
            "user:k item:k", rank=2, bounds=(1, 5), divergence=divergence, method=method,
            privacy=BARE,
        )  # fmt: skip
        data = np.nan_to_num(np.round(RATINGS), nan=1.0) if counts else RATINGS
        found[f"factorization, {name}"] = (factorization, (data,))
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", cases())
def test_what_was_filled_in_is_said_by_the_price_and_stated_by_the_certificate(name: str) -> None:
    model, data = cases()[name]
    whole = data[0] if len(data) == 1 else data
    sites = whole if "recommender" in name else tc.Site("the data", whole)
    price = model.price(sites)
    assert price.filled_in == ("unit", "neighbours", "trust")
    assert "filled in: unit, neighbours, trust" in str(price)
    certificate = model.fit(*data).certificate_
    for word, said in price.promise.items():
        assert getattr(certificate, word) == said


def test_what_was_stated_is_not_filled_in() -> None:
    stated = tc.Privacy(1.0, 1e-6, unit="row", neighbours="replace-one", trust="central")
    price = tc.PrivateSummary({"x": (0, 1)}, privacy=stated).price()
    assert price.filled_in == ()
    assert "filled in" not in str(price) and "one row is replaced" in str(price)
    free = tc.PrivateSummary({"x": (0, 1)}).price()
    assert not free.promise and "trust" not in str(free)
