"""Joint computations over bytes: the same results as in one process, faults, policies."""

import numpy as np
import pytest

from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal
from tacit.privacy.ledger import Ledger

from .support import (
    FACTORIZATION,
    INFERENCE,
    REGRESSION,
    ROW,
    SITES,
    USER,
    Direct,
    factorization_in_one_process,
    regression_in_one_process,
    services,
)

REGRESSION_RUN = Proposal("regression", REGRESSION | INFERENCE, ROW, SITES, "run r", seed=7)
FACTORIZATION_RUN = Proposal("factorization", FACTORIZATION, USER, SITES, "run f", seed=7)


def spent(folder, site):
    return Ledger.open(folder / site / "ledger.db").spent.epsilon


def test_regression_equals_the_run_in_one_process(tmp_path):
    result = run_proposal(REGRESSION_RUN, Direct(services(tmp_path)))
    expected = regression_in_one_process(7)
    assert np.array_equal(result.model.coef_, expected.coef_)
    assert result.model.intercept_ == expected.intercept_
    assert set(result.certificates) == set(SITES)
    for site in SITES:
        assert result.certificates[site].epsilon == expected.certificates_[site].epsilon
        assert spent(tmp_path, site) == 1.0


@pytest.mark.parametrize("threshold", [None, 2])
def test_factorization_equals_the_run_in_one_process(tmp_path, threshold):
    proposal = Proposal("factorization", FACTORIZATION, USER, SITES, "run", threshold, 7)
    found = services(tmp_path)
    result = run_proposal(proposal, Direct(found))
    expected = factorization_in_one_process(7)
    for name, factor in expected.shared_factors_.items():
        assert np.array_equal(result.model.shared_factors_[name], factor)
    cells = np.array([[0, 1], [3, 2]], np.int32)
    for site in SITES:  # predictions are made at the site
        there = found[site].result.predict("ratings", cells)
        assert np.array_equal(there, expected.predict(site, cells))
