"""When a coordinator has seen enough products to settle on eigenvectors."""

import numpy as np
import pytest

from tacit.errors import SiteFailure
from tacit.moments import sides
from tacit.moments.agreement import TopicAgreement
from tacit.moments.sides import Spectrum
from tacit.rounds.sides import Collected

SIZE = 520  # more words than are seen at once


def spectrum(rank=2):
    return Spectrum(TopicAgreement(SIZE, rank, None), np.random.default_rng(0))


def ask(found, **matrices):
    """Let sites with these second moments answer the next request."""
    replies = {name: {"product": matrix @ found.sent} for name, matrix in matrices.items()}
    found.take_products(Collected(tuple(matrices), {}, replies))


def with_eigenvalues(*values):
    vectors = np.linalg.qr(np.random.default_rng(1).standard_normal((SIZE, len(values))))[0]
    return (vectors * values) @ vectors.T


def test_strong_topics_settle_after_four_rounds_and_not_before():
    found, matrix = spectrum(), with_eigenvalues(9.0, 4.0)
    for rounds in range(1, 5):
        assert found.basis is None, rounds
        ask(found, north=matrix)
    np.testing.assert_allclose(found.values, [9.0, 4.0])
    np.testing.assert_allclose(matrix @ found.basis, found.basis * found.values, atol=1e-9)


def test_a_site_that_is_lost_changes_the_values_and_one_goes_on():
    found, matrix = spectrum(), with_eigenvalues(9.0, 4.0)
    for _ in range(3):
        ask(found, north=matrix, south=matrix)
    ask(found, north=matrix)  # half of what was seen: smaller is a change as well
    assert found.basis is None
    ask(found, north=matrix)
    np.testing.assert_allclose(found.values, [9.0, 4.0])


def test_a_site_cannot_be_taken_out_of_a_sum_that_nobody_sees_through():
    found, matrix = spectrum(), with_eigenvalues(9.0, 4.0)
    product = {"product": matrix @ found.sent}
    found.take_products(Collected(("north", "south"), product, None))
    with pytest.raises(SiteFailure, match="begin a new run"):
        found.take_products(Collected(("north",), product, None))
    with pytest.raises(SiteFailure, match="begin a new run"):
        found.take_third(Collected(("north",), {}, None))


def test_what_does_not_settle_is_over_after_the_last_round(monkeypatch):
    monkeypatch.setattr(sides, "MOST_ROUNDS", 5)
    found, matrix = spectrum(), with_eigenvalues(9.0, 4.0)
    for rounds in range(5):
        assert found.basis is None, rounds
        found.values = np.full(2, np.inf)  # whatever comes is a change
        ask(found, north=matrix)
    assert found.basis is not None


def test_a_change_counts_against_the_largest_value_of_either_sign():
    """One value among −100s changes by a hundredth of itself, less than one in 1,000 of 100."""
    found, matrix = spectrum(), with_eigenvalues(105.0) - 100.0 * np.eye(SIZE)
    for _ in range(3):
        ask(found, north=matrix)
    found.values = np.array([4.95, -100.0])
    ask(found, north=matrix)
    assert found.basis is not None
