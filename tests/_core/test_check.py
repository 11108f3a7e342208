"""Declarative checks: every constraint refuses its own bad values, by name."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tacit._core.check import (
    AnyOf,
    Bounds,
    Constraint,
    InstanceOf,
    Integer,
    OneOf,
    Real,
    Text,
    as_bounds,
    check,
    check_table,
)
from tacit.errors import ParameterError, UnboundedData

# one entry per kind and per shape of its interval: (constraint, values it accepts)
GOOD = [
    (Text(), ["", "mean age", "ε"]),
    (Real(), [0, -1.5, 1e300, np.float32(2), np.int64(3), Fraction(1, 3)]),
    (Real(0), [0, 0.0, 1e-300]),
    (Real(0, open_low=True), [1e-300, 1]),
    (Real(0, 1), [0, 1, 0.5]),
    (Real(0, 1, open_low=True, open_high=True), [1e-300, 0.999]),
    (Real(0, allow_inf=True), [math.inf, 3]),
    (Integer(), [-3, 0, 10**30, np.int8(4)]),
    (Integer(1), [1, 2]),
    (Integer(high=5), [5, -100]),
    (Integer(2, 4), [2, 3, 4]),
    (OneOf("a", "b"), ["a", "b"]),
    (OneOf(1, 2), [1, 2]),
    (InstanceOf(str), ["x"]),
    (InstanceOf(str, bytes, text="text"), ["x", b"x"]),
    (AnyOf(Integer(0), None), [0, None]),
    (AnyOf(Real(0, 1), OneOf("auto")), [0.5, "auto"]),
    (Bounds(), [(0, 1), [-1.5, 2], (np.float64(0), 1e300)]),
]
CASES = [pytest.param(constraint, good, id=repr(constraint)) for constraint, good in GOOD]


def test_every_kind_of_constraint_is_here():
    here = {kind for kind in Constraint.__subclasses__() if kind.__module__ == "tacit._core.check"}
    assert {type(constraint) for constraint, _ in GOOD} == here


@pytest.mark.parametrize(("constraint", "good"), CASES)
def test_good_values_pass(constraint, good):
    for value in good:
        check("x", value, constraint)


@pytest.mark.parametrize(("constraint", "good"), CASES)
def test_bad_values_are_refused_with_name_value_and_remedy(constraint, good):
    bad = constraint.bad_values()
    assert bad
    for value in bad:
        with pytest.raises(ParameterError) as caught:
            check("parameter", value, constraint)
        message = str(caught.value)
        assert message.startswith("parameter must be ")
        assert constraint.describe() in message
        assert message.endswith(f"got {value!r}") or "..." in message


@pytest.mark.parametrize(
    ("constraint", "value"),
    [
        (Real(), math.inf),
        (Real(), np.bool_(True)),
        (Real(), np.array([1.0])),
        (Integer(), 2.0),
        (Integer(), np.float64(2)),
        (OneOf(1, 2), True),
        (OneOf(1, 2), 1.0),
        (Bounds(), np.array([0, 1])),
        (Bounds(), ("0", "1")),
        (Bounds(), None),
    ],
    ids=repr,
)
def test_near_misses_are_refused(constraint, value):
    assert not constraint.accepts(value)


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["huge", "negative"])
def test_a_number_too_large_for_a_float_is_refused_by_name(value):
    with pytest.raises(ParameterError, match="epsilon must be a number"):
        check("epsilon", value, Real(0))


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Real(), "a number in (-inf, inf)"),
        (Real(0, 1, open_low=True), "a number in (0, 1]"),
        (Real(0, allow_inf=True), "a number in [0, inf]"),
        (Integer(), "a whole number"),
        (Integer(1), "a whole number of at least 1"),
        (Integer(high=5), "a whole number of at most 5"),
        (Integer(2, 4), "a whole number from 2 to 4"),
        (OneOf("a", 1), "one of 'a', 1"),
        (InstanceOf(int, str), "of type int or str"),
        (AnyOf(Integer(0), None), "a whole number of at least 0 or None"),
    ],
    ids=repr,
)
def test_constraints_describe_themselves(constraint, words):
    assert constraint.describe() == words


def test_long_values_are_shortened():
    with pytest.raises(ParameterError) as caught:
        check("x", "y" * 1000, Integer())
    assert len(str(caught.value)) < 130
    assert str(caught.value).endswith("...")


def test_a_table_checks_each_name_and_ignores_the_rest():
    table = {"rank": Integer(1), "scale": Real(0)}
    check_table({"rank": 2, "scale": 0.0, "other": object()}, table)
    with pytest.raises(ParameterError, match=r"scale must be .* got -1"):
        check_table({"rank": 2, "scale": -1}, table)


def test_bounds_become_floats():
    low, high = as_bounds("bounds", [0, 5], "the range")
    assert (low, high) == (0.0, 5.0)
    assert isinstance(low, float)


def test_missing_bounds_say_what_to_pass():
    with pytest.raises(UnboundedData, match=r"pass limits=\(low, high\), the range of an age"):
        as_bounds("limits", None, "the range of an age")


@pytest.mark.parametrize("value", Bounds().bad_values(), ids=repr)
def test_bad_bounds_are_refused(value):
    with pytest.raises(ParameterError, match="bounds must be a pair"):
        as_bounds("bounds", value, "the range")
