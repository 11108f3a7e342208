"""Additive noise: calibration, symmetric arrays, two-sided geometric counts, no noise."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.errors import BudgetExceeded, NotCertified, NothingReleased, ParameterError
from tacit.mechanisms.base import Mechanism, privatize
from tacit.mechanisms.gaussian import Gaussian, SymmetricGaussian
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.knorm import KNorm
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.sampled import PoissonSampled
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.amounts import as_exact
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    pure_epsilon,
)
from tacit.privacy.ledger.ledger import Ledger

# --- calibration ------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 10),
    st.sampled_from([1e-8, 1e-5, 1e-2]),
    st.floats(1e-3, 1e3),
    st.integers(1, 10_000),
    st.sampled_from([ADD_REMOVE, REPLACE]),
    st.sampled_from(["grid", "exact"]),
)
def test_calibrated_gaussian_meets_its_target_and_wastes_little(
    epsilon, delta, sensitivity, size, neighbours, source
):
    mechanism = Gaussian.for_privacy(
        epsilon, delta, sensitivity, (size,), neighbours=neighbours, source=source
    )
    spent = epsilon_of(mechanism.event, delta)
    assert epsilon * (1 - 1e-2) < spent <= epsilon


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.05, 10),
    st.floats(1e-3, 1e3),
    st.integers(1, 1000),
    st.sampled_from([ADD_REMOVE, REPLACE]),
)
def test_calibrated_laplace_meets_its_target_exactly(epsilon, sensitivity, size, neighbours):
    mechanism = Laplace.for_privacy(epsilon, sensitivity, (size,), neighbours=neighbours)
    assert pure_epsilon(mechanism.event) <= as_exact(epsilon)
    assert Ledger.memory(epsilon=epsilon).admits(mechanism.event)


@given(st.floats(0.1, 50), st.floats(1e-3, 1e3), st.integers(1, 500))
def test_the_event_counts_what_rounding_adds(multiplier, sensitivity, size):
    mechanism = Gaussian.calibrated(multiplier, sensitivity, (size,))
    assert mechanism.noise_multiplier >= multiplier
    assert mechanism.scale > multiplier * sensitivity
    half_a_step_each = mechanism.grid.step * math.sqrt(size) / 2
    assert mechanism.event.noise_multiplier <= mechanism.scale / (sensitivity + half_a_step_each)


@pytest.mark.parametrize("kind", [Gaussian, Laplace])
def test_rounding_never_takes_neighbours_beyond_the_sensitivity(kind):
    """On a grid of a quarter of the sensitivity rounding moves values by a lot."""
    mechanism, rng = kind(2.0**18, 1.0, (3,)), np.random.default_rng(0)
    values, steps = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    steps /= np.linalg.norm(steps, ord=kind.norm, axis=1, keepdims=True)
    far = [mechanism.distance(x, x + step) for x, step in zip(values, steps, strict=True)]
    unrounded = 1.0 / (1.0 + mechanism.grid.growth(3, kind.norm, REPLACE))
    assert unrounded < max(far) <= 1.0


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize(("kind", "reach"), [(Gaussian, 100.0), (Laplace, 10_000.0)])
def test_a_whole_step_for_each_number_is_paid_for_under_either_relation(kind, reach, neighbours):
    """A float value may be a statistic, which is rounded on both sides."""
    mechanism = kind(8.0, 1.0, (10_000,), neighbours)
    expected = 8.0 / (1.0 + mechanism.grid.step * reach)
    assert mechanism.noise_multiplier == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("size", [1, 1000, 1_000_000])
def test_noise_within_a_clip_costs_what_was_asked_for_whatever_the_size(size):
    mechanism = Gaussian.within(2.0, 1.0, (size,))
    assert 2.0 <= mechanism.noise_multiplier <= 2.0 * (1.0 + 1e-12)
    assert mechanism.sensitivity < 1.0


@pytest.mark.parametrize("kind", [Gaussian, Laplace, KNorm])
def test_the_variance_is_in_squares_of_the_unit(kind):
    for unit in (2.0**-30, 2.0**30):
        there = kind(3.0 * unit, unit, (2,)).variance()
        assert there == kind(3.0, 1.0, (2,)).variance() * unit**2


def test_noise_too_fine_for_the_grid_is_refused():
    with pytest.raises(ParameterError, match="too fine for the grid"):
        Gaussian.calibrated(1e5, 1.0, (10_000,))


def test_rounding_may_take_up_to_half_of_the_room():
    assert Gaussian.calibrated(2.0**19, 1.0).noise_multiplier >= 2.0**19  # exactly half of it
    with pytest.raises(ParameterError, match="too fine for the grid"):
        Gaussian.calibrated(2.0**19 + 1.0, 1.0)


def test_an_infinite_multiplier_is_refused():
    with pytest.raises(ParameterError, match="releases nothing"):
        Gaussian.calibrated(math.inf, 1.0)


@pytest.mark.parametrize(
    "bad",
    [{"scale": -1.0}, {"scale": math.inf}, {"sensitivity": 0.0}, {"neighbours": "x"},
     {"source": "x"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kind", [Gaussian, Laplace, KNorm])
def test_bad_parameters_are_refused(kind, bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        kind(**{"scale": 1.0, "sensitivity": 1.0, **bad})


# --- no noise -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian.for_privacy(math.inf, 1e-6, 3.0, (3,)),
        Laplace.for_privacy(math.inf, 3.0, (3,)),
        KNorm.for_privacy(math.inf, 3.0, (3,)),
        SymmetricGaussian.for_privacy(math.inf, 1e-6, 3.0, order=2, dimension=2),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_infinite_epsilon_returns_the_value_and_charges_nothing(mechanism):
    value = np.array([0.1, -2.7182818, 2.9])
    assert mechanism.event == NonPrivateDpEvent()
    released = privatize(mechanism, value, ledger=None, rng=Noise("grid", seed=1))
    np.testing.assert_allclose(released, value, rtol=0, atol=3.0 * 2.0**-40)
    assert mechanism.variance() == 0.0


def test_infinite_epsilon_leaves_counts_alone():
    mechanism = TwoSidedGeometric(math.inf, 4, (3,))
    assert mechanism.event == NonPrivateDpEvent()
    released = privatize(mechanism, np.array([0, 4, -1]), ledger=None, rng=Noise("grid", seed=1))
    assert released.tolist() == [0, 4, -1]
    assert mechanism.alpha == mechanism.variance() == 0.0


def test_a_ledger_is_refused_where_there_is_nothing_to_charge():
    ledger = Ledger.memory(epsilon=1.0)
    with pytest.raises(ParameterError, match="no price"):
        privatize(Gaussian(0.0, 1.0), 1.0, ledger=ledger, rng=Noise())
    assert ledger.counter == 0


def test_no_noise_draws_no_words():
    noise = Noise("grid", seed=2)
    privatize(Gaussian(0.0, 1.0, (5,)), np.ones(5), ledger=None, rng=noise)
    np.testing.assert_array_equal(noise.stream.words(3), Noise("grid", seed=2).stream.words(3))


# --- two-sided geometric ------------------------------------------------------------------------


def geometric_pmf(k, epsilon, sensitivity):
    alpha = math.exp(-epsilon / sensitivity)
    return (1 - alpha) / (1 + alpha) * alpha ** np.abs(k)


def p_value(drawn, pmf, reach):
    """χ² of whole numbers against a symmetric pmf; the tails beyond ``reach`` are pooled."""
    k = np.arange(-reach, reach + 1)
    observed = np.array([(drawn == value).sum() for value in k])
    expected = drawn.size * pmf(k)
    observed = np.r_[observed, drawn.size - observed.sum()]
    expected = np.r_[expected, drawn.size - expected.sum()]
    return stats.chisquare(observed, expected).pvalue


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(1.0, 1), (0.3, 1), (2.0, 5), (4.0, 1)])
def test_counts_get_two_sided_geometric_noise(epsilon, sensitivity):
    mechanism = TwoSidedGeometric(epsilon, sensitivity, (400_000,))
    drawn = mechanism.draw(np.zeros(400_000, int), Noise("grid", seed=3))
    reach = int(6 * sensitivity / epsilon) + 1
    assert p_value(drawn, lambda k: geometric_pmf(k, epsilon, sensitivity), reach) > 1e-5
    assert mechanism.alpha == math.exp(-epsilon / sensitivity)


def test_geometric_noise_is_the_poisson_mixture_of_the_thesis():
    """PRIVACY B1: t ~ Exponential with mean α/(1−α), g ~ Poisson(t), τ = g₁ − g₂."""
    rng, count, epsilon = np.random.default_rng(4), 400_000, 0.8
    alpha = math.exp(-epsilon)
    g = rng.poisson(rng.exponential(alpha / (1 - alpha), (2, count)))
    mixture = g[0] - g[1]
    assert p_value(mixture, lambda k: geometric_pmf(k, epsilon, 1), 8) > 1e-5
    mechanism = TwoSidedGeometric(epsilon, 1, (count,))
    drawn = mechanism.draw(np.zeros(count, int), Noise("grid", seed=4))
    table = np.array([[(sample == k).sum() for k in range(-8, 9)] for sample in (mixture, drawn)])
    assert stats.chi2_contingency(table).pvalue > 1e-5


def test_noise_of_the_thesis_misprint_would_be_noticed():
    """The thesis writes ε where α belongs."""
    drawn = TwoSidedGeometric(0.4, 1, (100_000,)).draw(
        np.zeros(100_000, int), Noise("grid", seed=5)
    )
    wrong = 0.4

    def misprint(k):
        return (1 - wrong) / (1 + wrong) * wrong ** np.abs(k)

    assert p_value(drawn, misprint, 8) < 1e-9


@given(st.floats(0.01, 20), st.integers(1, 50))
def test_geometric_law_loses_at_most_epsilon(epsilon, sensitivity):
    """P(k)/P(k + Δ) = exp(ε), with the scale raised by 2⁻⁴⁰ against rounding."""
    mechanism = TwoSidedGeometric(epsilon, sensitivity)
    scale = sensitivity / epsilon * (1 + 2.0**-40)
    assert sensitivity / scale <= epsilon
    alpha = mechanism.alpha
    exact = 2 * alpha / (1 - alpha) ** 2
    assert mechanism.variance() == pytest.approx(exact, rel=1e-6)


# the parameter ε/Δ must be rounded down: the accountant multiplies it by Δ exactly
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, math.log(3)])
@pytest.mark.parametrize("sensitivity", [1, 2, 3, 7, 10, 49])
def test_a_ledger_of_epsilon_admits_one_release_of_counts(epsilon, sensitivity):
    assert Ledger.memory(epsilon=epsilon).admits(TwoSidedGeometric(epsilon, sensitivity).event)


def test_counts_stay_whole_numbers_of_any_integer_type():
    for kind in (np.int8, np.uint16, np.int64):
        released = TwoSidedGeometric(1.0, 1, (2,)).draw(
            np.array([3, 4], kind), Noise("grid", seed=6)
        )
        assert released.dtype == np.int64


# --- symmetric arrays -----------------------------------------------------------------------


def symmetrised(array):
    """The average over all permutations of the axes."""
    axes = list(itertools.permutations(range(array.ndim)))
    return sum(np.transpose(array, order) for order in axes) / len(axes)


def symmetric(order, dimension, scale=1.0):
    return SymmetricGaussian(scale, 1.0, order=order, dimension=dimension)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_packing_is_an_isometry_on_symmetric_arrays(order, dimension):
    rng = np.random.default_rng(7)
    mechanism = symmetric(order, dimension)
    a, b = (symmetrised(rng.normal(size=(dimension,) * order)) for _ in range(2))
    packed = mechanism.pack(a), mechanism.pack(b)
    assert packed[0].shape == mechanism.shape
    assert packed[0] @ packed[1] == pytest.approx(np.sum(a * b))
    np.testing.assert_allclose(mechanism.unpack(packed[0]), a, atol=1e-12)
    np.testing.assert_allclose(mechanism.pack(mechanism.unpack(packed[0])), packed[0])


@pytest.mark.parametrize("order", [2, 3])
def test_packing_takes_the_symmetric_part(order):
    array = np.random.default_rng(8).normal(size=(4,) * order)
    mechanism = symmetric(order, 4)
    np.testing.assert_allclose(mechanism.pack(array), mechanism.pack(symmetrised(array)))
    np.testing.assert_allclose(mechanism.unpack(mechanism.pack(array)), symmetrised(array))


@pytest.mark.parametrize(("order", "dimension"), [(2, 3), (3, 3), (2, 10), (3, 10)])
def test_number_of_coordinates_is_that_of_unique_entries(order, dimension):
    expected = math.comb(dimension + order - 1, order)
    assert symmetric(order, dimension).size == expected
    assert symmetric(order, dimension).shape == (expected,)


@pytest.mark.parametrize("order", [2, 3])
def test_entries_have_the_variances_of_the_symmetric_part_of_noise(order):
    """τ²/6, τ²/3 and τ² for three, two and one distinct indices; τ²/2 and τ² for matrices."""
    mechanism = symmetric(order, 4, scale=1.5)
    shares = {(2, 1): 1, (2, 2): 1 / 2, (3, 1): 1, (3, 2): 1 / 3, (3, 3): 1 / 6}
    found = mechanism.entry_variance()
    for index in itertools.product(range(4), repeat=order):
        expected = 1.5**2 * shares[order, len(set(index))]
        assert found[index] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("order", [2, 3])
def test_released_noise_has_the_law_of_symmetrised_noise(order):
    """All second moments of unpacked releases agree with those of a naive Sym(G)."""
    dimension, count, scale = 3, 8_000, 1.5
    mechanism, noise = symmetric(order, dimension, scale), Noise("grid", seed=9)
    zero = np.zeros(mechanism.shape)
    released = np.array([mechanism.unpack(mechanism.draw(zero, noise)) for _ in range(count)])
    rng = np.random.default_rng(9)
    naive = np.array(
        [symmetrised(rng.normal(0, scale, (dimension,) * order)) for _ in range(count)]
    )
    # exact covariance of Sym(G): the projection on symmetric arrays, times τ²
    entries = dimension**order
    basis = np.eye(entries).reshape(entries, *(dimension,) * order)
    exact = scale**2 * np.array([symmetrised(e).ravel() for e in basis])
    tolerance = 6 * 2 * scale**2 / math.sqrt(count)
    for sample in (released, naive):
        flat = sample.reshape(count, -1)
        np.testing.assert_allclose(flat.T @ flat / count, exact, atol=tolerance)
        assert np.abs(flat.mean(axis=0)).max() < 6 * scale / math.sqrt(count)
    frobenius = [np.square(sample).reshape(count, -1).sum(axis=1) for sample in (released, naive)]
    law = stats.chi2(mechanism.size, scale=scale**2)
    for squares in frobenius:
        assert stats.kstest(squares, law.cdf).pvalue > 1e-5
    for released_square in np.moveaxis(released, 0, -1).reshape(entries, count)[:3]:
        spread = released_square.std()
        assert stats.kstest(released_square / spread, stats.norm.cdf).pvalue > 1e-5


def test_antisymmetric_part_never_leaves():
    """The paper's symmetric noise leaves the antisymmetric part exposed; packing drops it."""
    rng = np.random.default_rng(10)
    array = rng.normal(size=(3, 3))
    mechanism = symmetric(2, 3)
    here, there = (mechanism.pack(m) for m in (array, array.T))
    np.testing.assert_allclose(here, there)


def test_symmetric_noise_is_calibrated_like_a_gaussian_on_its_coordinates():
    mechanism = SymmetricGaussian.for_privacy(1.0, 1e-5, 2.0, order=3, dimension=5)
    assert mechanism.shape == (35,)
    assert 0.99 < epsilon_of(mechanism.event, 1e-5) <= 1.0


@pytest.mark.parametrize("bad", [{"order": 4}, {"order": 1}, {"dimension": 0}], ids=str)
def test_symmetric_noise_refuses_other_orders(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        SymmetricGaussian(1.0, 1.0, **bad)


# --- Poisson sampling -----------------------------------------------------------------------


def test_sampled_event_names_rate_and_relation():
    mechanism = PoissonSampled(Gaussian(2.0, 1.0), 0.1, REPLACE)
    event = mechanism.event
    assert isinstance(event, PoissonSampledDpEvent)
    assert (event.sampling_probability, event.neighbours) == (0.1, REPLACE)
    assert event.event == mechanism.mechanism.event


def test_sampling_amplifies():
    inner = Gaussian(2.0, 1.0)
    sampled = epsilon_of(PoissonSampled(inner, 0.1).event, 1e-5)
    assert sampled < 0.5 * epsilon_of(inner.event, 1e-5)


def test_sampled_sensitivity_is_stated_for_one_unit():
    with pytest.raises(ParameterError, match="adding or removing one unit"):
        PoissonSampled(Gaussian(1.0, 1.0, (), REPLACE), 0.1)


def test_sampling_without_noise_is_not_private():
    assert PoissonSampled(Gaussian(0.0, 1.0), 0.1).event == NonPrivateDpEvent()


def test_what_cannot_be_accounted_for_is_refused_before_the_charge():
    ledger = Ledger.memory(epsilon=10.0, delta=0.1)
    with pytest.raises(NotCertified, match="Poisson sampling"):
        privatize(PoissonSampled(KNorm(1.0, 1.0), 0.1), 0.0, ledger=ledger, rng=Noise())
    assert ledger.counter == 0


@pytest.mark.parametrize("rate", [0.0, 1.5, -0.1])
def test_rate_is_a_probability(rate):
    with pytest.raises(ParameterError, match="rate"):
        PoissonSampled(Gaussian(1.0, 1.0), rate)


# --- the gate ---------------------------------------------------------------------------------


class Failing(Mechanism):
    """Fails after the charge, with private content in its reason."""

    event = GaussianDpEvent(10.0)

    def check(self, value):
        pass

    def draw(self, value, noise):
        raise ValueError(f"the private value is {value}")

    def bias(self, value):
        return 0.0

    def variance(self, value):
        return 0.0


def test_a_failed_draw_spends_and_keeps_its_reason_inside():
    ledger = Ledger.memory(epsilon=10.0, delta=0.1)
    with pytest.raises(NothingReleased) as caught:
        privatize(Failing(), 1234567, ledger=ledger, rng=Noise(), delta=1e-3)
    assert ledger.counter == 1
    assert "1234567" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "1234567" in caught.value.reason  # for the holder, who has it anyway
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.reason == ""


def test_a_reservation_pays_for_its_steps_only():
    mechanism = Laplace(2.0, 1.0)
    ledger = Ledger.memory(epsilon=10.0)
    reservation = ledger.reserve(mechanism.event, purpose="one step")
    privatize(mechanism, 0.0, ledger=reservation, rng=Noise())
    with pytest.raises(BudgetExceeded):
        privatize(mechanism, 0.0, ledger=reservation, rng=Noise())


@pytest.mark.parametrize("bad", [None, 3, np.random.default_rng(1)], ids=["None", "int", "numpy"])
def test_noise_comes_from_a_noise_source_only(bad):
    ledger = Ledger.memory(epsilon=10.0)
    with pytest.raises(ParameterError, match="rng must be"):
        privatize(Laplace(1.0, 1.0), 0.0, ledger=ledger, rng=bad)
    assert ledger.counter == 0
