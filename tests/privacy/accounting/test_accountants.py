"""Accountants against known answers, closed forms, each other and dp_accounting."""

import math

import pytest
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant as LibraryPLD
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import NotCertified, ParameterError
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.accountants import (
    ACCOUNTANTS,
    accountant,
    concentration,
    epsilon_of,
)
from tacit.privacy.accounting.composition import convolved
from tacit.privacy.calibration import gaussian_event
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    DiscreteLaplaceDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    ZCDpEvent,
    compose,
    pure_epsilon,
    repeat,
    to_dp_accounting,
)

ALL = sorted(ACCOUNTANTS)
pure_events = st.one_of(
    st.builds(LaplaceDpEvent, st.floats(0.5, 50)),
    st.builds(ApproximateDpEvent, st.floats(0.01, 2)),
    st.builds(RandomizedResponseDpEvent, st.floats(0.2, 0.9), st.integers(2, 6)),
    st.builds(DiscreteLaplaceDpEvent, st.floats(0.05, 1), st.integers(1, 3)),
)
any_events = st.one_of(pure_events, st.builds(GaussianDpEvent, st.floats(1, 30)))


@pytest.mark.parametrize(
    ("rate", "steps", "sigma", "delta", "real"),
    [
        (0.01, 20_000, 3.23, 1e-4, 1.51),
        (0.01, 20_000, 2 * 3.23, 1e-4, 0.67),
        (0.01, 20_000, 10.88, 1e-4, 0.37),
        (0.02, 300, 2.87, 1e-3, 0.26),
        (0.02, 300, 8.14, 1e-3, 0.07),
    ],
)
def test_the_printed_noise_of_the_thesis_really_gives(rate, steps, sigma, delta, real):
    assert round(epsilon_of(gaussian_event(sigma, rate=rate, steps=steps), delta), 2) == real


def test_replacement_is_the_doubled_gaussian_and_rdp_is_never_used_for_it():
    assert epsilon_of(gaussian_event(2.0), 1e-5) == pytest.approx(1.993, abs=5e-4)
    assert epsilon_of(gaussian_event(2.0, neighbours=REPLACE), 1e-5) == pytest.approx(
        4.377, abs=5e-4
    )
    sampled = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0), REPLACE)
    with pytest.raises(NotCertified, match="rdp"):
        accountant("rdp").add(sampled)


@pytest.mark.parametrize(
    ("rate", "steps", "replaced", "added"), [(0.1, 100, 4.3681, 2.3374), (0.5, 1, 1.9484, 1.3536)]
)
def test_sampled_replacement_is_not_a_mere_doubling(rate, steps, replaced, added):
    real = epsilon_of(gaussian_event(2.0, rate=rate, steps=steps, neighbours=REPLACE), 1e-5)
    assert real == pytest.approx(replaced, abs=5e-4)
    assert epsilon_of(gaussian_event(2.0, rate=rate, steps=steps), 1e-5) == pytest.approx(
        added, abs=5e-4
    )
    doubled = epsilon_of(gaussian_event(1.0, rate=rate, steps=steps), 1e-5)
    assert abs(real - doubled) > 0.01
    library = LibraryPLD(NeighboringRelation.REPLACE_ONE)
    library.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(2.0)), steps)
    assert real == pytest.approx(library.get_epsilon(1e-5), rel=1e-6)


@pytest.mark.parametrize(
    ("event", "rho"),
    [
        (GaussianDpEvent(2.0), 1 / 8),
        (LaplaceDpEvent(2.0), 1 / 8),
        (ZCDpEvent(0.3), 0.3),
        (ApproximateDpEvent(0.5, 1e-9), 1 / 8),
        (DiscreteLaplaceDpEvent(0.5, 2), 1 / 2),
        (PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 1 / 8),
        (PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0), REPLACE), 1 / 2),
    ],
)
def test_rho_of_an_event_is_that_of_the_textbook(event, rho):
    """1/2σ² and ε²/2 (Bun & Steinke 2016); replacing one unit doubles the reach: four times ρ."""
    assert concentration(event)[0] == pytest.approx(rho, rel=1e-9)
    found = accountant("zcdp").add(event, 3).epsilon(1e-5)
    bound = gaussian.zcdp_to_dp(3 * rho, 1e-5 - 3 * concentration(event)[1])
    pure = pure_epsilon(event)
    assert found == pytest.approx(bound if pure is None else min(bound, float(3 * pure)), rel=1e-6)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("delta", [1e-8, 1e-5, 1e-2])
def test_convolved_gaussians_agree_with_the_closed_form(sigma, delta):
    """The grid of losses is only used for mixtures, so force it here."""
    curve = convolved(((GaussianDpEvent(sigma), 7),), False, round(-math.log10(delta)))
    exact = gaussian.gdp_to_dp(math.sqrt(7) / sigma, delta)
    assert exact <= curve.epsilon(delta) <= exact * (1 + 1e-4)


@pytest.mark.parametrize("scale", [0.5, 1.0, 5.0])
def test_one_laplace_has_its_closed_hockey_stick(scale):
    """δ(t) = 1 − exp((t − 1/b)/2) for one Laplace release of scale b."""
    spent = accountant("pld").add(LaplaceDpEvent(scale))
    for share in (0.2, 0.5, 0.9):
        level = share / scale
        exact = 1 - math.exp((level - 1 / scale) / 2)
        assert spent.delta(level) == pytest.approx(exact, rel=1e-2)
        assert spent.delta(level) >= exact - 1e-12


def test_one_randomized_response_has_its_closed_hockey_stick():
    event = RandomizedResponseDpEvent(0.5, 2)  # truth with probability 3/4, ε = ln 3
    for level in (0.1, 0.5, 1.0):
        exact = 0.75 - math.exp(level) * 0.25
        assert accountant("pld").add(event).delta(level) == pytest.approx(exact, rel=1e-3)


def test_repeated_randomized_response_is_counted_every_time():
    """dp_accounting 0.6 forgets the count here; the walker multiplies."""
    event = RandomizedResponseDpEvent(0.5, 2)
    once, ten = epsilon_of(event, 1e-6), epsilon_of(repeat(event, 10), 1e-6)
    assert ten > 5 * once
    library = LibraryPLD(NeighboringRelation.REPLACE_ONE)
    for _ in range(10):
        library.compose(dp_event.RandomizedResponseDpEvent(0.5, 2))
    assert ten == pytest.approx(library.get_epsilon(1e-6), rel=1e-3)


@pytest.mark.parametrize(
    "event",
    [
        repeat(PoissonSampledDpEvent(0.05, GaussianDpEvent(1.5)), 200),
        repeat(LaplaceDpEvent(8.0), 30),
        compose([GaussianDpEvent(3.0), LaplaceDpEvent(2.0), LaplaceDpEvent(2.0)]),
        repeat(DiscreteLaplaceDpEvent(0.2, 2), 5),
    ],
)
def test_distributions_agree_with_dp_accountings_own_accountant(event):
    library = LibraryPLD().compose(to_dp_accounting(event))
    assert epsilon_of(event, 1e-6) == pytest.approx(library.get_epsilon(1e-6), rel=2e-3)


@pytest.mark.parametrize("name", ALL)
def test_pure_events_add_up_at_delta_zero(name):
    spent = accountant(name).add(LaplaceDpEvent(3.0), 3)
    assert spent.epsilon(0.0) == 1.0
    assert accountant(name).add(GaussianDpEvent(1.0)).epsilon(0.0) == math.inf


@pytest.mark.parametrize("name", ALL)
def test_nothing_costs_nothing_and_no_privacy_costs_everything(name):
    assert accountant(name).epsilon(1e-6) == 0.0
    assert accountant(name).add(NonPrivateDpEvent()).epsilon(1e-6) == math.inf
    assert accountant(name).add(NonPrivateDpEvent()).delta(5.0) == 1.0


@settings(max_examples=15, deadline=None)
@given(st.lists(any_events, min_size=1, max_size=3), st.sampled_from(ALL))
def test_adding_more_never_costs_less_and_removing_undoes_it(parts, name):
    spent = accountant(name)
    before = 0.0
    for part in parts:
        spent = spent.add(part, 2)
        after = spent.epsilon(1e-5)
        assert after >= before - 1e-9
        before = after
    for part in parts:
        spent = spent.remove(part, 2)
    assert spent.epsilon(1e-5) == 0.0


@settings(max_examples=15, deadline=None)
@given(st.floats(1.0, 10.0), st.floats(1.05, 3.0), st.sampled_from(ALL))
def test_more_noise_costs_less(sigma, factor, name):
    cost = [
        accountant(name).add(GaussianDpEvent(s), 5).epsilon(1e-6) for s in (sigma, sigma * factor)
    ]
    assert cost[1] < cost[0]


@settings(max_examples=10, deadline=None)
@given(st.lists(any_events, min_size=1, max_size=3))
def test_order_does_not_matter(parts):
    forward, backward = accountant("pld"), accountant("pld")
    for part in parts:
        forward = forward.add(part)
    for part in reversed(parts):
        backward = backward.add(part)
    assert forward.epsilon(1e-6) == pytest.approx(backward.epsilon(1e-6), rel=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.lists(any_events, min_size=1, max_size=3), st.integers(1, 20))
def test_every_bound_is_above_the_headline(parts, times):
    event = repeat(compose(parts), times)
    headline = epsilon_of(event, 1e-6)
    for name in ("rdp", "zcdp", "advanced", "basic"):
        assert epsilon_of(event, 1e-6, name) >= headline * (1 - 1e-3) - 2e-4


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("delta", [1e-8, 1e-4])
def test_epsilon_and_delta_are_inverse(name, delta):
    spent = accountant(name).add(GaussianDpEvent(2.0), 4).add(LaplaceDpEvent(4.0), 2)
    assert spent.delta(spent.epsilon(delta)) == pytest.approx(delta, rel=1e-2)


def test_split_laplace_noise_never_costs_more_than_one_coordinate():
    """An L1 sensitivity may be spread over coordinates: the event covers the worst case."""
    whole = accountant("pld").add(LaplaceDpEvent(1.0))
    for share in (0.1, 0.3, 0.5):
        parts = (
            accountant("pld").add(LaplaceDpEvent(1 / share)).add(LaplaceDpEvent(1 / (1 - share)))
        )
        for level in (0.2, 0.5, 0.8):
            assert parts.delta(level) <= whole.delta(level) * (1 + 1e-3)


def test_tiny_losses_are_not_rounded_up_to_the_grid():
    assert epsilon_of(repeat(ApproximateDpEvent(1e-7), 10), 1e-9) <= 1.01e-6
    assert epsilon_of(repeat(LaplaceDpEvent(1e4), 100), 1e-9) < 0.01


def test_very_small_delta_falls_back_to_a_bound():
    event = repeat(PoissonSampledDpEvent(0.01, GaussianDpEvent(2.0)), 100)
    assert epsilon_of(event, 1e-12) < epsilon_of(event, 1e-13) < 10.0


def test_unsupported_events_fail_by_name_before_anything_changes():
    spent = accountant("pld").add(GaussianDpEvent(1.0))
    with pytest.raises(NotCertified, match="ZCDpEvent"):
        spent.add(compose([GaussianDpEvent(1.0), ZCDpEvent(0.1)]))
    assert dict(spent.counts) == {GaussianDpEvent(1.0): 1}
    with pytest.raises(ParameterError, match="not added that often"):
        spent.remove(GaussianDpEvent(1.0), 2)
    with pytest.raises(ParameterError, match="one of"):
        accountant("magic")


@pytest.mark.parametrize("bad", [-1e-9, 1.0, math.nan, "0.1"])
def test_bad_delta_is_refused(bad):
    with pytest.raises(ParameterError, match="delta"):
        accountant("pld").add(GaussianDpEvent(1.0)).epsilon(bad)


@pytest.mark.parametrize(("epsilon", "count"), [(0.01, 100), (0.1, 1000), (0.5, 200), (2.0, 3)])
def test_advanced_composition_is_the_formula_or_the_sum(epsilon, count):
    """Σ ε·tanh(ε/2) + √(2·ln(1/δ')·Σ ε²) at δ' = 0.95·δ, where that is less than Σ ε."""
    delta = 1e-5
    formula = count * epsilon * math.tanh(epsilon / 2.0)
    formula += epsilon * math.sqrt(2.0 * count * math.log(1.0 / (0.95 * delta)))
    found = epsilon_of(repeat(LaplaceDpEvent(1.0 / epsilon), count), delta, "advanced")
    assert found == pytest.approx(min(formula, count * epsilon), rel=1e-9)
