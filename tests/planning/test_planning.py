"""Plans: simulated accuracy behaves as theory says, searches end, choosing is priced."""

import math

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.planning import Facts, choose_rank, error_of, kinds, plan, price_of_choosing
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import GaussianDpEvent, repeat
from tacit.privacy.guarantee import Privacy


def test_the_answer_reaches_what_was_wanted_and_a_little_less_does_not():
    found = plan("summary", "epsilon", 0.01, Facts(rows=500), repeats=8)
    errors = {value: error for value, error, _ in found.table}
    assert errors[found.value] <= 0.01
    below = [value for value in errors if value < found.value]
    assert below
    assert errors[max(below)] > 0.01
    assert found.value / max(below) <= 1.1 + 1e-9


def test_the_mean_needs_as_many_rows_as_its_noise_says():
    """The noise on a mean of n numbers in half-ranges has scale about 1/(n·ε): E|error| = b."""
    rows = plan("summary", "rows", 0.01, Facts(epsilon=0.5), repeats=15).value
    again = plan("summary", "rows", 0.01, Facts(epsilon=1.0), repeats=15).value
    assert 1.5 < rows / again < 2.7


@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("regression", Facts(rows=300)),
        ("factorization", Facts(rows=200, features=20)),
        ("recommender", Facts(rows=200, features=20)),
        ("topics", Facts(rows=2000, features=4, rank=2)),
    ],
)
def test_more_privacy_costs_accuracy(kind, facts):
    from dataclasses import replace

    strict = error_of(kind, replace(facts, epsilon=0.05), 3, 0)[0]
    loose = error_of(kind, replace(facts, epsilon=50.0), 3, 0)[0]
    assert loose < strict
    assert kind in kinds()


def test_what_cannot_be_reached_is_said():
    found = plan("regression", "epsilon", 1e-6, Facts(rows=40), repeats=2)
    assert found.value is None
    assert "no epsilon between 0.01 and 100 reaches" in str(found)


def test_a_rank_is_chosen_by_simulation_and_costs_nothing():
    best, table = choose_rank("factorization", [1, 2], Facts(rows=200, features=20), repeats=2)
    assert best in (1, 2)
    assert [row[0] for row in table] == [1, 2]
    assert all(np.isfinite(row[1]) for row in table)


def test_choosing_on_private_data_is_priced_by_composition():
    found = price_of_choosing(Privacy(1.0, 1e-6), 9)
    event = GaussianDpEvent(gaussian_sigma(1.0, 1e-6))
    assert found.total == pytest.approx(epsilon_of(repeat(event, 9), 1e-6), rel=1e-6)
    thrice = GaussianDpEvent(3.0 * event.noise_multiplier)
    assert epsilon_of(repeat(thrice, 9), 1e-6) <= 1.0 + 1e-3
    assert found.each == pytest.approx(epsilon_of(thrice, 1e-6), rel=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: plan("magic", "epsilon", 0.1),
        lambda: plan("summary", "colour", 0.1),
        lambda: plan("summary", "epsilon", 0.0),
        lambda: Facts(rows=2, sites=3),
        lambda: Facts(epsilon=math.nan),
        lambda: choose_rank("factorization", []),
        lambda: price_of_choosing(Privacy(1.0), 3),
    ],
)
def test_nonsense_is_refused(call):
    with pytest.raises(ParameterError):
        call()
