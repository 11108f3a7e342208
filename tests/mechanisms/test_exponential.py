"""The exponential mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.errors import ParameterError
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of

utilities = hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(-50, 50))


@given(utilities, st.floats(0.01, 5), st.floats(0.1, 10))
def test_probabilities_are_proportional_to_exp_of_utility(utility, epsilon, sensitivity):
    mechanism = Exponential(epsilon, sensitivity, utility.size)
    loss = epsilon * (utility.max() - utility) / (2 * sensitivity)
    exact = np.exp(-loss) / np.exp(-loss).sum()
    found = mechanism.probabilities(utility)
    assert found.sum() == pytest.approx(1.0)
    # ε gives way by 2⁻¹⁸ for the rounding of losses to 2⁻²⁰
    common = exact > 1e-200
    np.testing.assert_allclose(
        np.log(found[common]), np.log(exact[common]), atol=1e-5 + 4e-6 * loss.max() / epsilon
    )


@settings(max_examples=300, deadline=None)
@given(utilities, st.floats(0.01, 5), st.floats(0.1, 10), st.data())
def test_no_neighbour_changes_a_probability_by_more_than_e_to_the_epsilon(
    utility, epsilon, sensitivity, data
):
    moves = hnp.arrays(np.float64, utility.size, elements=st.sampled_from([-1.0, 0.0, 1.0]))
    neighbour = utility + sensitivity * data.draw(moves)
    mechanism = Exponential(epsilon, sensitivity, utility.size)
    here, there = mechanism.probabilities(utility), mechanism.probabilities(neighbour)
    # floating-point sums of the utilities themselves are the caller's: allow their rounding
    assert np.all(np.log(here) - np.log(there) <= epsilon * (1 + 1e-9))


def test_worst_neighbours_reach_epsilon():
    """One candidate up, all others down, and it is rare: the bound is tight."""
    utility = np.array([0.0, *[12.0] * 9])
    neighbour = np.array([1.0, *[11.0] * 9])
    mechanism = Exponential(1.0, 1.0, 10)
    ratio = mechanism.probabilities(neighbour)[0] / mechanism.probabilities(utility)[0]
    assert math.log(ratio) == pytest.approx(1.0, abs=0.01)


def test_capping_the_loss_keeps_the_sensitivity():
    """Losses beyond 512 are capped; across the cap a step still costs at most ε."""
    mechanism = Exponential(1.0, 1.0, 2)
    for gap in np.arange(1020.0, 1030.0, 0.5):
        here = mechanism.probabilities([0.0, gap])
        there = mechanism.probabilities([1.0, gap - 1.0])
        assert abs(np.log(here[0]) - np.log(there[0])) <= 1.0


def test_event_is_pure():
    assert epsilon_of(Exponential(0.7, 2.0, 5).event, 0.0) == 0.7


def test_the_best_candidate_wins_when_it_is_far_ahead():
    mechanism, noise = Exponential(1.0, 1.0, 4), Noise("grid", seed=1)
    utility = [0.0, 200.0, 10.0, 100.0]
    assert {mechanism.draw(utility, noise) for _ in range(50)} == {1}


def test_a_single_candidate_is_always_chosen():
    assert Exponential(1.0, 1.0, 1).draw([-3.0], Noise("grid", seed=2)) == 0


def test_equal_candidates_are_chosen_alike():
    mechanism, noise = Exponential(1.0, 1.0, 3), Noise("grid", seed=3)
    counts = np.bincount([mechanism.draw([5.0, 5.0, 5.0], noise) for _ in range(3000)])
    assert np.all(np.abs(counts - 1000) < 6 * math.sqrt(1000))


def test_not_a_number_is_the_worst_utility():
    mechanism = Exponential(1.0, 1.0, 3)
    found = mechanism.probabilities([math.nan, 0.0, 0.0])
    assert found[0] < 1e-200
    assert found[1:] == pytest.approx([0.5, 0.5])
    assert mechanism.probabilities([math.nan] * 3) == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("utility", [[math.inf, 0.0], [-math.inf, 0.0], [1e308, -1e308]], ids=str)
def test_infinite_utilities_are_ordered(utility):
    best = int(np.argmax(utility))
    assert Exponential(1.0, 1.0, 2).probabilities(utility)[best] == pytest.approx(1.0)


def test_moments_are_finite_where_the_law_is():
    mechanism = Exponential(1.0, 1.0, 3)
    utility = [math.nan, 0.0, 1.0]
    assert math.isfinite(mechanism.bias(utility))
    assert math.isfinite(mechanism.variance(utility))


def test_bias_and_variance_by_hand():
    mechanism = Exponential(2.0, 1.0, 2)
    better = math.e / (1 + math.e)
    assert mechanism.bias([0.0, 1.0]) == pytest.approx(better - 1, rel=1e-4)
    assert mechanism.variance([0.0, 1.0]) == pytest.approx(better * (1 - better), rel=1e-4)


def test_many_candidates_take_several_batches():
    mechanism = Exponential(1.0, 1.0, 5000)
    utility = np.zeros(5000)
    utility[4321] = 200.0
    assert mechanism.draw(utility, Noise("grid", seed=4)) == 4321


@pytest.mark.parametrize(
    "bad", [{"epsilon": 0.0}, {"sensitivity": 0.0}, {"candidates": 0}], ids=str
)
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        Exponential(**{"epsilon": 1.0, "sensitivity": 1.0, "candidates": 2, **bad})


def test_losses_are_rounded_up_to_the_grid():
    mechanism = Exponential(1.0, 1.0, 3)
    rate = (1.0 - 4.0 * 2.0**-20) / 2.0
    utility = -np.array([0.0, 10.5, 10.0]) * 2.0**-20 / rate
    assert mechanism._losses(utility)[:2].tolist() == [0, 11]
