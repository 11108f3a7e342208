"""What every mechanism has to keep to; found automatically, so a new one joins by existing."""

from __future__ import annotations

import dataclasses
import inspect
import json

import numpy as np
import pytest

from tacit.errors import BudgetExceeded, ParameterError
from tacit.mechanisms.base import privatize
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import ADD_REMOVE, DpEvent, event_from_json, event_to_json

from .examples import EXAMPLES, in_one_shape
from .support import (
    CountedNoise,
    concrete_mechanisms,
    empty_ledger,
    goodness_of_fit,
    rich_ledger,
)

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
exact_examples = pytest.mark.parametrize(
    "example",
    [example for example in EXAMPLES if example.has_exact_source],
    ids=lambda example: example.name,
)


def release(example, value=None, *, ledger=None, noise=None, mechanism=None):
    released = privatize(
        mechanism or example.mechanism,
        example.value if value is None else value,
        ledger=ledger or rich_ledger(mechanism or example.mechanism),
        rng=noise or Noise("grid"),
        delta=1e-6 if example.delta == 0.0 else example.delta,
    )
    return example.numbers(released)


@pytest.mark.parametrize("kind", concrete_mechanisms(), ids=lambda kind: kind.__name__)
def test_every_mechanism_has_an_example(kind):
    assert any(type(example.mechanism) is kind for example in EXAMPLES), (
        f"{kind.__module__}.{kind.__name__} has no example: add an Example to "
        "tests/contracts/examples.py with a value, a neighbour and the exact law"
    )


def test_discovery_finds_mechanisms():
    assert len(concrete_mechanisms()) >= 10


@pytest.mark.parametrize("kind", concrete_mechanisms(), ids=lambda kind: kind.__name__)
def test_a_relation_that_is_not_stated_is_to_add_or_remove_one(kind):
    makers = [kind, *(getattr(kind, name, None) for name in ("for_privacy", "calibrated"))]
    for make in filter(None, makers):
        stated = inspect.signature(make).parameters.get("neighbours")
        assert stated is None or stated.default in (ADD_REMOVE, inspect.Parameter.empty)


# --- before any data ------------------------------------------------------------------------


@every_example
def test_event_is_known_before_data_and_survives_json(example):
    event = example.mechanism.event
    assert isinstance(event, DpEvent)
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event
    assert example.mechanism.event == event


@every_example
def test_mechanisms_are_frozen_hashable_values(example):
    twin = dataclasses.replace(example.mechanism)
    assert twin == example.mechanism
    assert hash(twin) == hash(example.mechanism)
    field = dataclasses.fields(example.mechanism)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(example.mechanism, field, 1)


@every_example
def test_assumptions_are_sentences(example):
    assert all(isinstance(line, str) and line for line in example.mechanism.assumptions)


# --- the gate ---------------------------------------------------------------------------------


@every_example
def test_release_has_the_right_shape_and_type(example):
    released = release(example)
    assert np.shape(released) == example.shape
    assert np.asarray(released).dtype.kind == example.kind


@every_example
def test_release_charges_exactly_its_event(example):
    ledger = rich_ledger(example.mechanism)
    release(example, ledger=ledger)
    (row,) = ledger.rows()
    assert event_from_json(json.loads(row.event)) == example.mechanism.event


@every_example
def test_input_is_left_alone(example):
    before = np.array(example.value, copy=True)
    release(example)
    np.testing.assert_array_equal(before, example.value)


@every_example
def test_wrong_shapes_are_refused_before_charge_and_draw(example):
    for misfit in example.misfits:
        ledger, noise = rich_ledger(example.mechanism), CountedNoise("grid")
        with pytest.raises(ParameterError):
            release(example, misfit, ledger=ledger, noise=noise)
        assert ledger.counter == 0
        assert noise.asked == 0


# warnings are errors here: not even a RuntimeWarning may tell what the value was
@every_example
def test_private_content_never_shows(example):
    for value in example.nasty:
        ledger = rich_ledger(example.mechanism)
        released = release(example, value, ledger=ledger)
        assert np.shape(released) == example.shape
        assert np.all(np.isfinite(released))
        assert ledger.counter == 1


@every_example
def test_a_refused_charge_consumes_no_randomness(example):
    noise, ledger = CountedNoise("grid"), empty_ledger(example.mechanism)
    with pytest.raises(BudgetExceeded):
        release(example, ledger=ledger, noise=noise)
    assert noise.asked == 0
    assert ledger.counter == 0


@every_example
def test_a_missing_ledger_is_refused_before_the_draw(example):
    noise = CountedNoise("grid")
    with pytest.raises(ParameterError, match="ledger must be given"):
        privatize(example.mechanism, example.value, ledger=None, rng=noise)
    assert noise.asked == 0


# a public mistake must not cost budget (PRIVACY A2, step 1)
@pytest.mark.parametrize(
    "example",
    [e for e in EXAMPLES if hasattr(getattr(e.mechanism, "mechanism", e.mechanism), "source")],
    ids=lambda example: example.name,
)
def test_the_wrong_kind_of_source_is_refused_before_the_charge(example):
    ledger, noise = rich_ledger(example.mechanism), CountedNoise("exact")
    with pytest.raises(ParameterError, match="source"):
        release(example, ledger=ledger, noise=noise)
    assert ledger.counter == 0
    assert noise.asked == 0


@every_example
def test_two_releases_differ(example):
    noise = Noise("grid")
    drawn = {np.asarray(release(example, noise=noise)).tobytes() for _ in range(150)}
    assert len(drawn) > 1


@every_example
def test_seeded_releases_are_reproducible(example):
    first, second = (release(example, noise=Noise("grid", seed=3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


# --- the law --------------------------------------------------------------------------------


def check_law(example, mechanism, count, noise, least_p):
    for value in (example.value, example.neighbour):
        drawn = example.sample(mechanism, value, count, noise)
        assert drawn.shape == (count, int(np.prod(example.shape)))
        assert goodness_of_fit(example, value, drawn[:, 0]) > least_p


def check_moments(example, count, noise):
    """Compare with `bias` and `variance`, within six standard errors."""
    value = example.value
    drawn = example.sample(example.mechanism, value, count, noise)
    errors = example.error(drawn, value)
    bias = np.ravel(example.mechanism.bias(value))[0]
    assert abs(errors.mean() - bias) < 6 * errors.std() / np.sqrt(count)
    estimates = example.estimate(drawn, value)
    squares = np.square(estimates - estimates.mean())
    variance = np.ravel(example.mechanism.variance(value))[0]
    assert abs(squares.mean() - variance) < 6 * squares.std() / np.sqrt(count)


@every_example
def test_releases_follow_the_exact_law(example):
    check_law(example, example.mechanism, example.draws, example.noise(seed=11), 1e-6)


@every_example
def test_bias_and_variance_are_what_they_say(example):
    check_moments(example, min(example.draws, 300_000), example.noise(seed=12))


@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if e.name != "exponential"], ids=lambda example: example.name
)
def test_the_distance_of_neighbours_has_no_direction_and_fills_the_sensitivity(example):
    mechanism, value, other = example.mechanism, example.value, example.neighbour
    assert mechanism.distance(value, value) == 0.0
    assert mechanism.distance(value, other) == mechanism.distance(other, value)
    assert 0.999 < mechanism.distance(value, other) <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "example", [e for e in EXAMPLES if e.draws < 10**6], ids=lambda example: example.name
)
def test_releases_follow_the_exact_law_in_many_draws(example):
    count = 10**6 if example.draws > 10**5 else 10**5
    check_law(example, example.mechanism, count, Noise("grid", seed=13), 1e-6)


def test_the_law_test_notices_a_scale_off_by_two_percent():
    example = EXAMPLES[0]
    wrong = dataclasses.replace(example.mechanism, scale=example.mechanism.scale * 1.02)
    drawn = example.sample(wrong, example.value, example.draws, Noise("grid", seed=11))
    assert goodness_of_fit(example, example.value, drawn[:, 0]) < 1e-6


# --- the exact source: OpenDP's samplers cannot be seeded, so the bar is lower -------------


def with_exact_source(example):
    return dataclasses.replace(example.mechanism, source="exact")


@exact_examples
def test_exact_source_follows_the_same_law(example):
    check_law(example, with_exact_source(example), 2_000, Noise("exact"), 1e-9)


@pytest.mark.slow
@exact_examples
def test_exact_source_follows_the_same_law_in_many_draws(example):
    check_law(example, with_exact_source(example), 10**5, Noise("exact"), 1e-9)


@exact_examples
def test_exact_source_is_charged_before_it_draws(example):
    noise, ledger = CountedNoise("exact"), empty_ledger(example.mechanism)
    with pytest.raises(BudgetExceeded):
        release(example, ledger=ledger, noise=noise, mechanism=with_exact_source(example))
    assert noise.asked == 0
    release(example, noise=noise, mechanism=with_exact_source(example))
    assert noise.asked > 0


def test_exact_source_draws_a_whole_vector():
    example = next(e for e in EXAMPLES if e.name == "gaussian-vector")
    mechanism = dataclasses.replace(example.mechanism, source="exact")
    drawn = in_one_shape(mechanism, example.value, 500, Noise("exact"))
    assert len(np.unique(drawn)) == drawn.size
