"""Events are frozen, say all an accountant needs, and survive JSON."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from tacit.errors import NotCertified, ParameterError
from tacit.privacy import claims, events
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    ComposedDpEvent,
    DiscreteGaussianDpEvent,
    DiscreteLaplaceDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
    compose,
    event_from_json,
    event_to_json,
    leaves,
    pure_epsilon,
    repeat,
    to_dp_accounting,
)

simple = st.one_of(
    st.builds(GaussianDpEvent, st.floats(0.1, 100)),
    st.builds(LaplaceDpEvent, st.floats(0.1, 100)),
    st.builds(ApproximateDpEvent, st.floats(0, 5), st.floats(0, 0.1)),
    st.builds(DiscreteLaplaceDpEvent, st.floats(0.1, 5), st.integers(1, 5)),
    st.builds(DiscreteGaussianDpEvent, st.floats(0.1, 5), st.integers(1, 5)),
    st.builds(
        SampledWithoutReplacementDpEvent,
        st.integers(10, 100),
        st.integers(1, 9),
        st.builds(GaussianDpEvent, st.floats(0.5, 5)),
    ),
    st.builds(
        lambda gains: claims.RenyiDpEvent(
            "a curve", tuple(1.5 + k for k in range(len(gains))), tuple(np.cumsum(gains).tolist())
        ),
        st.lists(st.floats(0, 5), min_size=1, max_size=4),
    ),
    st.builds(
        lambda x: claims.LossesDpEvent("a coin", (-x, x), tuple(special.expit((-x, x)).tolist())),
        st.floats(0.01, 5),
    ),
    st.builds(RandomizedResponseDpEvent, st.floats(0.1, 1.0), st.integers(2, 10)),
    st.builds(ZCDpEvent, st.floats(0, 2)),
    st.builds(
        PoissonSampledDpEvent, st.floats(0.01, 0.9), st.builds(GaussianDpEvent, st.just(2.0))
    ),
    st.just(NoOpDpEvent()),
    st.just(NonPrivateDpEvent()),
)
nested = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(SelfComposedDpEvent, inner, st.integers(0, 5)),
        st.builds(lambda parts: ComposedDpEvent(tuple(parts)), st.lists(inner, max_size=3)),
    ),
    max_leaves=8,
)


@given(nested)
def test_json_round_trip(event):
    assert event_from_json(event_to_json(event)) == event


def test_every_kind_is_exercised_by_the_round_trip():
    assert set(events.DpEvent.kinds) == {
        name
        for name in (*events.__all__, *claims.__all__)
        if name.endswith("DpEvent") and name != "DpEvent"
    } | {"NoOpDpEvent", "NonPrivateDpEvent", "ZCDpEvent"}


@given(nested, st.integers(0, 4))
def test_the_walker_multiplies(event, times):
    once, many = leaves(event), leaves(repeat(event, times))
    assert many == {leaf: n * times for leaf, n in once.items() if n * times}


@given(st.lists(simple, max_size=4))
def test_composition_keeps_leaves(parts):
    assert leaves(compose(parts)) == leaves(ComposedDpEvent(tuple(parts)))


def test_sampling_everything_is_no_sampling_and_replacement_moves_twice_as_far():
    assert leaves(PoissonSampledDpEvent(1.0, GaussianDpEvent(2.0))) == {GaussianDpEvent(2.0): 1}
    assert leaves(PoissonSampledDpEvent(1.0, GaussianDpEvent(2.0), REPLACE)) == {
        GaussianDpEvent(1.0): 1
    }
    assert leaves(PoissonSampledDpEvent(0.0, GaussianDpEvent(2.0))) == {}


def test_pure_epsilon_is_exact():
    assert pure_epsilon(LaplaceDpEvent(3.0)) * 3 == 1
    assert pure_epsilon(DiscreteLaplaceDpEvent(0.1, 3)) * 10 == 3
    assert float(pure_epsilon(RandomizedResponseDpEvent(0.5, 2))) == pytest.approx(math.log(3))
    assert pure_epsilon(GaussianDpEvent(1.0)) is None


def test_unknown_events_are_refused_by_name():
    with pytest.raises(NotCertified, match="TeleportationDpEvent"):
        event_from_json({"type": "TeleportationDpEvent"})
    with pytest.raises(NotCertified, match="noise_multiplier"):
        event_from_json({"type": "GaussianDpEvent", "sigma": 1.0})


def test_sampling_that_cannot_be_accounted_for_is_refused_when_built():
    with pytest.raises(NotCertified, match="LaplaceDpEvent"):
        PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0), REPLACE)
    with pytest.raises(NotCertified, match="RandomizedResponse"):
        PoissonSampledDpEvent(0.1, RandomizedResponseDpEvent(0.5, 2))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, "2", None])
def test_bad_noise_is_refused(bad):
    with pytest.raises(ParameterError, match="noise_multiplier"):
        GaussianDpEvent(bad)


def test_events_rebuild_in_dp_accounting():
    event = repeat(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 3)
    rebuilt = to_dp_accounting(event)
    assert rebuilt.count == 3
    assert rebuilt.event.event.noise_multiplier == 2.0
    with pytest.raises(NotCertified):
        to_dp_accounting(ApproximateDpEvent(1.0, 0.1))
    with pytest.raises(NotCertified, match="replaced"):
        to_dp_accounting(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0), REPLACE))


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int32, np.int64, int])
def test_counts_of_any_integer_type_multiply_as_whole_numbers(kind):
    """NumPy's integers wrap around: 16 × 16 releases would cost nothing at all."""
    once = SelfComposedDpEvent(GaussianDpEvent(np.float32(1.0)), kind(16))
    event = SelfComposedDpEvent(SelfComposedDpEvent(once, kind(16)), kind(100))
    assert leaves(event) == {GaussianDpEvent(1.0): 25_600}
    assert all(type(count) is int for count in leaves(event).values())
    assert type(once.count) is int and type(once.event.noise_multiplier) is float


@pytest.mark.parametrize(
    "make",
    [
        lambda: SelfComposedDpEvent(GaussianDpEvent(1.0), True),
        lambda: SelfComposedDpEvent("GaussianDpEvent", 2),
        lambda: GaussianDpEvent("1"),
        lambda: GaussianDpEvent(10**400),
        lambda: GaussianDpEvent(np.True_),
        lambda: ComposedDpEvent([GaussianDpEvent(1.0)]),
        lambda: SelfComposedDpEvent(GaussianDpEvent(1.0), -1),
        lambda: SelfComposedDpEvent(GaussianDpEvent(1.0), 2.0),
    ],
)
def test_what_is_no_number_or_no_event_is_refused(make):
    with pytest.raises(ParameterError):
        make()


@pytest.mark.parametrize("bad", [("gaussian",), (GaussianDpEvent(1.0), 2.0), (None,)])
def test_only_events_are_composed(bad):
    with pytest.raises(ParameterError, match="events must be"):
        ComposedDpEvent(bad)
