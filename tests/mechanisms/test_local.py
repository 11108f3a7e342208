"""Local mechanisms: randomized response, one-bit mean, piecewise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tacit.errors import NotCertified, ParameterError
from tacit.mechanisms import local
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.hybrid import Hybrid
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.one_bit import OneBitMean
from tacit.mechanisms.piecewise import Piecewise
from tacit.mechanisms.quantiles import Quantiles
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.sampled import PoissonSampled
from tacit.mechanisms.shuffled import Shuffled
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import pure_epsilon
from tacit.privacy.ledger.ledger import Ledger

EPSILONS = [0.05, 0.5, 1.0, 3.0, 8.0]


class FixedWords(Noise):
    """A source whose words are given."""

    def __init__(self, words):
        super().__init__("grid", seed=0)
        given = np.array(words, dtype=np.uint64)
        self.stream.words = lambda count: np.resize(given, count)


# --- coins ----------------------------------------------------------------------------------


def test_coins_never_come_up_more_often_than_stated():
    """A word below ⌊p·2⁵³⌋ steps is heads: at most p."""
    for probability in (0.0, 2.0**-53, 0.3, 0.5, 1.0 - 2.0**-53):
        steps = int(probability * 2**53)
        edge = FixedWords([max(steps - 1, 0) << 11, steps << 11 if steps < 2**53 else 0])
        heads = local._coins(edge, np.full(2, probability), 2)
        assert heads.tolist() == [steps > 0, False]


def test_rare_coins_come_up_at_least_as_often_as_stated():
    threshold = math.ceil(1e-18 * 2**64)
    heads = local._rare_coins(FixedWords([threshold - 1, threshold]), 1e-18, 2)
    assert heads.tolist() == [True, False]


def test_a_certain_rare_coin_is_as_good_as_certain():
    assert local._rare_coins(FixedWords([0, 2**64 - 2]), 1.0, 2).all()


@pytest.mark.parametrize("limit", [1, 2, 3, 1000, 2**20])
def test_uniform_is_the_floor_of_word_times_limit(limit):
    words = [0, 1, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 123456789 << 30]
    expected = [word * limit >> 64 for word in words]
    assert local._uniform(FixedWords(words), limit, len(words)).tolist() == expected


# --- randomized response ----------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", [2, 3, 50])
def test_response_probabilities_have_odds_of_e_to_the_epsilon(epsilon, categories):
    mechanism = RandomizedResponse(epsilon, categories)
    truth = 1 - mechanism.lie + mechanism.lie / categories
    other = mechanism.lie / categories
    assert math.log(truth / other) <= epsilon
    assert math.log(truth / other) == pytest.approx(epsilon, rel=1e-8)
    assert truth + (categories - 1) * other == pytest.approx(1.0)
    assert mechanism.truth == pytest.approx(truth)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", [2, 3, 50])
def test_response_event_costs_its_epsilon(epsilon, categories):
    event = RandomizedResponse(epsilon, categories).event
    assert float(pure_epsilon(event)) == pytest.approx(epsilon, rel=1e-8)


# stating p = k/(e^ε + k − 1) as a float must not cost more than ε, not even 1e-15 more
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("categories", [2, 5])
def test_a_ledger_of_epsilon_admits_one_response_at_epsilon(epsilon, categories):
    assert Ledger.memory(epsilon=epsilon).admits(RandomizedResponse(epsilon, categories).event)


def test_frequencies_are_unbiased():
    mechanism = RandomizedResponse(1.0, 4)
    truth = np.repeat([0, 1, 3], [50_000, 30_000, 20_000])
    answers = mechanism.draw(truth, Noise("grid", seed=1))
    found = mechanism.frequencies(answers)
    spread = np.sqrt(mechanism.variance(truth))
    assert found.sum() == pytest.approx(1.0)
    assert np.all(np.abs(found - [0.5, 0.3, 0.0, 0.2]) < 5 * spread)


def test_unknown_categories_count_as_zero():
    mechanism = RandomizedResponse(20.0, 3)
    answers = mechanism.draw(np.array([-1, 3, 2**60, 2]), Noise("grid", seed=2))
    assert answers.tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize("value", [[0, 1, -1], [0, 1, 5]], ids=str)
def test_bias_and_variance_take_unknown_categories_as_zero_too(value):
    mechanism = RandomizedResponse(1.0, 3)
    known = np.array([0, 1, 0])
    np.testing.assert_allclose(mechanism.bias(value), mechanism.bias(known))
    np.testing.assert_allclose(mechanism.variance(value), mechanism.variance(known))


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"epsilon": 31.0}, {"categories": 1}], ids=str)
def test_response_refuses_bad_parameters(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        RandomizedResponse(**{"epsilon": 1.0, **bad})


# --- one bit ----------------------------------------------------------------------------------


def probability_of_plus(mechanism, x):
    """The exact P(+B): the share of 64-bit words that give it, found by halving."""
    low, high = 0, 2**64
    while low < high:
        middle = (low + high) // 2
        plus = mechanism.draw(np.array([x]), FixedWords([middle]))[0] > 0
        low, high = (middle + 1, high) if plus else (low, middle)
    return Fraction(low, 2**64)


def check_odds(mechanism, epsilon):
    up, down = (probability_of_plus(mechanism, x) for x in (1.0, -1.0))
    assert (up - down) / down <= Fraction(math.expm1(epsilon))
    assert (up - down) / (1 - up) <= Fraction(math.expm1(epsilon))
    assert float(up / down) == pytest.approx(math.exp(epsilon), rel=1e-6 if epsilon < 20 else 1)


@pytest.mark.parametrize("epsilon", [1e-3, *EPSILONS, 30.0])
def test_one_bit_odds_are_e_to_the_epsilon(epsilon):
    check_odds(OneBitMean(epsilon), epsilon)


# P(±B) is a multiple of 2⁻⁵³, which a tiny ε can feel
@pytest.mark.parametrize("epsilon", [1e-4, 1e-6, 1e-9])
def test_one_bit_odds_hold_for_tiny_epsilon(epsilon):
    try:
        mechanism = OneBitMean(epsilon)
    except ParameterError:
        return  # refusing it is an answer too
    check_odds(mechanism, epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_one_bit_releases_only_plus_and_minus_b(epsilon):
    mechanism = OneBitMean(epsilon)
    released = mechanism.draw(np.linspace(-2, 2, 1000), Noise("grid", seed=3))
    expected = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
    np.testing.assert_allclose(np.abs(released), expected, rtol=1e-11)
    assert epsilon_of(mechanism.event, 0.0) == epsilon


def test_one_bit_mean_is_unbiased_for_a_crowd():
    values = np.random.default_rng(4).uniform(-1, 1, 200_000)
    mechanism = OneBitMean(1.0)
    released = mechanism.draw(values, Noise("grid", seed=4))
    error = math.sqrt(mechanism.variance(values).mean() / values.size)
    assert abs(released.mean() - values.mean()) < 5 * error


# --- piecewise --------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_piecewise_cells_stay_within_e_to_the_epsilon(epsilon):
    mechanism = Piecewise(epsilon)
    inside, window = int(mechanism._inside * 2**53) / 2**53, mechanism._window
    per_cell = inside / window, (1 - inside) / (mechanism.cells - window)
    assert math.log(per_cell[0] / per_cell[1]) <= epsilon
    assert math.log(per_cell[0] / per_cell[1]) == pytest.approx(epsilon, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("x", [-1.0, -0.3, 0.0, 1.0])
def test_piecewise_is_unbiased_with_the_published_variance(epsilon, x):
    mechanism, count = Piecewise(epsilon), 200_000
    released = mechanism.draw(np.full(count, x), Noise("grid", seed=5))
    half = math.exp(epsilon / 2)
    # Wang et al. (2019), Lemma 1
    variance = x**2 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)
    assert abs(released.mean() - x) < 5 * math.sqrt(variance / count)
    assert released.var() == pytest.approx(variance, rel=0.02)
    assert mechanism.variance([x])[0] == pytest.approx(variance, rel=1e-5)  # cells are discrete


class FewCells(Piecewise):
    """So few cells that every one of them can be looked at."""

    cells = 16


@pytest.mark.parametrize("x", [-1.0, -0.37, 0.0, 0.93, 1.0])
def test_piecewise_draws_every_cell_as_often_as_its_law_says(x):
    mechanism, count = FewCells(1.0), 200_000
    cells, window, inside = np.arange(16), mechanism._window, mechanism._inside
    rest, (constant, slope) = 16 - window, mechanism._affine()
    place = (x + 1.0) / 2.0 * rest
    first, law = math.floor(place), np.zeros(16)
    for start, weight in ((first, 1.0 - place + first), (min(first + 1, rest), place - first)):
        law += weight * np.where((cells >= start) & (cells < start + window),
                                 inside / window, (1.0 - inside) / rest)  # fmt: skip
    numbers = 2.0 / rest * (cells - constant) / slope - 1.0
    assert law @ numbers == pytest.approx(x, abs=1e-12)
    assert mechanism.variance([x])[0] == pytest.approx(law @ numbers**2 - x**2, rel=1e-12)
    released = mechanism.draw(np.full(count, x), Noise("grid", seed=10))
    drawn = np.rint((released + 1.0) / 2.0 * rest * slope + constant).astype(int)
    assert stats.chisquare(np.bincount(drawn, minlength=16), law * count).pvalue > 1e-3


def test_piecewise_releases_lie_within_the_published_range():
    for epsilon in (0.5, 2.0):
        released = Piecewise(epsilon).draw(np.linspace(-1, 1, 50_000), Noise("grid", seed=6))
        bound = (math.exp(epsilon / 2) + 1) / (math.exp(epsilon / 2) - 1)
        assert np.abs(released).max() <= bound * (1 + 1e-5)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 7.0])
def test_piecewise_clips_what_is_out_of_bounds(bad):
    clipped = {math.inf: 1.0, -math.inf: -1.0, 7.0: 1.0}.get(bad, 0.0)
    mechanism = Piecewise(1.0)
    here, there = (mechanism.draw(np.full(1000, x), Noise("grid", seed=7)) for x in (bad, clipped))
    np.testing.assert_array_equal(here, there)


def test_piecewise_refuses_an_epsilon_beyond_its_grid():
    with pytest.raises(ParameterError, match="epsilon"):
        Piecewise(30.0)
    Piecewise(20.0)


# the window is rounded to few cells: 3.9 → 4 at ε = 25, 0.5 → 1 at ε = 29
@pytest.mark.parametrize("epsilon", [25.0, 29.0])
def test_piecewise_variance_is_right_for_large_epsilon_too(epsilon):
    mechanism = Piecewise(epsilon)
    window, inside, rest = mechanism._window, mechanism._inside, mechanism.cells
    constant, slope = mechanism._affine()
    rest -= window
    cells = np.arange(mechanism.cells)
    start = 0.5 * rest  # x = 0, half a cell up or down
    probability = np.zeros(mechanism.cells)
    for first in (math.floor(start), math.ceil(start)):
        law = np.full(mechanism.cells, (1 - inside) / rest)
        law[first : first + window] = inside / window
        probability += law / 2
    released = 2.0 / rest * (cells - constant) / slope - 1.0
    exact = probability @ released**2 - (probability @ released) ** 2
    assert mechanism.variance([0.0])[0] == pytest.approx(exact, rel=0.02)


# --- all ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [OneBitMean(1.0), Piecewise(1.0), RandomizedResponse(1.0)])
def test_persons_are_randomised_independently(mechanism):
    value = np.zeros(100_000, int if isinstance(mechanism, RandomizedResponse) else float)
    released = mechanism.draw(value, Noise("grid", seed=8)).astype(float)
    lag = stats.pearsonr(released[1:], released[:-1]).statistic
    assert abs(lag) < 5 / math.sqrt(value.size)


@pytest.mark.parametrize("mechanism", [OneBitMean(1.0), Piecewise(1.0), RandomizedResponse(1.0)])
def test_a_crowd_of_nobody_is_fine(mechanism):
    empty = np.zeros(0, int if isinstance(mechanism, RandomizedResponse) else float)
    assert mechanism.draw(empty, Noise("grid", seed=9)).shape == (0,)


@pytest.mark.parametrize("mechanism", [OneBitMean(1.0), Piecewise(1.0)])
def test_answers_beyond_the_bounds_are_those_at_the_bounds(mechanism):
    assert mechanism.distance([7.0, -0.5, -9.0], [1.0, -0.5, -1.0]) == 0.0
    assert mechanism.distance([7.0, -0.5], [1.0, 0.5]) == 1.0


def test_answers_are_as_far_apart_as_people_answer_differently():
    mechanism = RandomizedResponse(1.0, 3)
    assert mechanism.distance(np.array([0, 1, 2]), np.array([0, 2, 2])) == 1.0
    assert mechanism.distance(np.array([0, 1, 2]), np.array([7, 1, 2])) == 0.0  # counts as 0


# --- what a mechanism is, and who asks -------------------------------------------------------


def test_a_shuffler_refuses_what_people_do_not_draw_apart():
    """Laplace noise on one sum of ε = 0.5 would have been stated as 0.077."""
    for central in (
        Laplace(2.0, 1.0, (1000,)),
        TwoSidedGeometric(0.5, 1, (1000,)),
        Quantiles(0.5, (0.0, 1.0)),
        Exponential(0.5, 1.0, 3),
    ):
        with pytest.raises(NotCertified, match="draws apart"):
            Shuffled(central, 1000)


def test_sampling_refuses_what_adds_no_noise_to_a_sum():
    with pytest.raises(ParameterError, match="adds noise to a sum"):
        PoissonSampled(OneBitMean(1.0), 0.1)


def test_local_mechanisms_answer_for_each_person_apart():
    """Whatever another person says, one person's answer has the same law: the same draw here."""
    for mechanism, ours, theirs in (
        (OneBitMean(1.0), [0.3, -1.0], [0.3, 1.0]),
        (RandomizedResponse(1.0), [0, 0], [0, 1]),
        (Piecewise(1.0), [0.3, -1.0], [0.3, 1.0]),
        (Hybrid(1.0), [0.3, -1.0], [0.3, 1.0]),
    ):
        assert mechanism.local
        for seed in range(20):
            first, second = (
                mechanism.draw(np.array(value), Noise("grid", seed=seed))
                for value in (ours, theirs)
            )
            assert first[0] == second[0]


def test_every_mechanism_knows_whether_it_needs_a_delta():
    assert float(Laplace(2.0, 1.0).pure_epsilon) == pytest.approx(0.5, rel=1e-5)
    assert float(OneBitMean(1.0).pure_epsilon) == 1.0
    assert Gaussian(2.0, 1.0).pure_epsilon is None
