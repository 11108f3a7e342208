"""Plans: simulated accuracy behaves as theory says, searches end, choosing is priced."""

import math

import numpy as np
import pytest

import tacit as tc
from tacit import CoupledFactorization
from tacit.data.synthetic import simulated_ratings
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
    found = choose_rank("factorization", [1, 2], Facts(rows=200, features=20), repeats=2)
    assert found.rank in (1, 2) and not found.raw
    assert [row[0] for row in found.table] == [1, 2]
    assert all(np.isfinite(row[1]) for row in found.table)


def test_a_holder_chooses_a_rank_by_three_signs_and_the_choice_is_marked():
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.5, 4.0, (60, 3)) @ rng.gamma(0.5, 2.0, (3, 40)))
    model = CoupledFactorization("user:k item:k", inference="vb", iterations=150)
    found = choose_rank(model, [1, 2, 3, 6], counts.astype(float), repeats=3, restarts=2)
    assert found.rank == 3 and found.raw and found.price is None
    rows = {row[0]: row for row in found.table}
    assert rows[3][1] == pytest.approx(min(row[1] for row in found.table), rel=0.05)
    assert max(rows, key=lambda rank: rows[rank][3]) == 3  # the evidence agrees
    assert rows[3][4] > 0.95  # and components are found again
    assert "raw data" in str(found.summary())


def test_a_rank_of_a_private_fit_is_chosen_where_nothing_is_secret():
    private = tc.PrivateFactorization(
        "user:k item:k", bounds=(1, 5), privacy=Privacy(1.0, 1e-6, unit="entry", trust="site")
    )
    with pytest.raises(ParameterError, match="public or simulated"):
        choose_rank(private, [1, 2], np.ones((3, 3)))
    public = simulated_ratings(100, 20, per_user=8)
    found = choose_rank(private, [1, 2], public, repeats=1)
    assert found.rank in (1, 2) and not found.raw
    assert found.price.candidates == 2 and found.price.total > 1.0
    assert "costs no ε" in str(found.summary())


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
