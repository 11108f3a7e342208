"""Curves that a caller brings along: never below the truth, validated, and named as claims."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from tacit.errors import NotCertified, ParameterError, VerificationFailed
from tacit.privacy.accounting.accountants import accountant, epsilon_of
from tacit.privacy.calibration import calibrate
from tacit.privacy.certificate import Certificate
from tacit.privacy.claims import LossesDpEvent, RenyiDpEvent
from tacit.privacy.events import (
    ApproximateDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    compose,
    event_from_json,
    event_to_json,
    repeat,
    to_dp_accounting,
)
from tacit.privacy.groups import group_event
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

ORDERS = (1.25, 2.0, 3.0, 6.0, 12.0, 40.0, 200.0)


def gaussian_curve(sigma, orders=ORDERS):
    """The divergence of order α of Gaussian noise is α/(2σ²)."""
    return RenyiDpEvent("Gaussian noise", orders, tuple(a / (2 * sigma**2) for a in orders))


@pytest.mark.parametrize("sigma", [0.5, 2.0, 30.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
@pytest.mark.parametrize("name", ["pld", "rdp", "basic", "advanced"])
def test_a_curve_is_never_below_what_it_describes(sigma, delta, name):
    truth = epsilon_of(repeat(GaussianDpEvent(sigma), 5), delta)
    assert epsilon_of(repeat(gaussian_curve(sigma), 5), delta, name) >= truth


def test_a_fine_curve_gives_the_epsilon_of_renyi():
    orders = tuple(1.0 + np.geomspace(0.05, 500, 800))
    event = repeat(gaussian_curve(3.0, orders), 4)
    same = epsilon_of(repeat(GaussianDpEvent(3.0), 4), 1e-6, "rdp")
    assert epsilon_of(event, 1e-6) == pytest.approx(same, rel=1e-3)


def test_between_orders_the_moment_is_bounded_by_the_line_and_beyond_by_nothing():
    curve = gaussian_curve(2.0)
    for t in np.geomspace(1e-3, 199.0, 200):
        assert curve.log_moment(t) >= t * (1 + t) / 8
    for t in curve.excesses:
        assert curve.log_moment(t) == pytest.approx(t * (1 + t) / 8, rel=1e-9)
    assert math.isinf(curve.log_moment(199.5))


@pytest.mark.parametrize(
    "other",
    [
        GaussianDpEvent(1.0),
        LaplaceDpEvent(3.0),
        repeat(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 100),
        ApproximateDpEvent(0.5, 1e-8),
    ],
)
def test_curves_compose_with_the_rest(other):
    mixed = compose([repeat(gaussian_curve(2.0), 3), other])
    true = compose([repeat(GaussianDpEvent(2.0), 3), other])
    stated = epsilon_of(mixed, 1e-6)
    assert epsilon_of(true, 1e-6) <= stated
    assert stated <= epsilon_of(repeat(gaussian_curve(2.0), 3), 5e-7) + epsilon_of(other, 5e-7)


def test_epsilon_falls_with_delta_and_delta_answers_for_it():
    spent = accountant().add(compose([gaussian_curve(2.0), LaplaceDpEvent(2.0)]))
    found = [spent.epsilon(delta) for delta in (1e-12, 1e-8, 1e-6, 1e-3, 0.1)]
    assert found == sorted(found, reverse=True)
    assert spent.epsilon(spent.delta(found[2])) <= found[2] * (1 + 1e-6)
    assert math.isinf(spent.epsilon(0.0))


def test_a_group_is_counted_by_the_general_rule():
    moved = group_event(gaussian_curve(5.0), 2, 1e-6)
    truth = epsilon_of(GaussianDpEvent(2.5), 1e-6)
    assert epsilon_of(moved, 1e-6) >= truth


def test_noise_is_found_for_a_curve():
    sigma = calibrate(gaussian_curve, 1.0, 1e-6)
    assert epsilon_of(gaussian_curve(sigma), 1e-6) <= 1.0


def test_a_curve_survives_json_and_is_checked_again():
    curve = gaussian_curve(2.0)
    data = json.loads(json.dumps(event_to_json(curve)))
    assert event_from_json(data) == curve
    with pytest.raises(ParameterError, match="orders"):
        event_from_json({**data, "orders": [{"type": "NoOpDpEvent"}] * len(ORDERS)})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": " "}, "name"),
        ({"name": 3}, "name"),
        ({"orders": 2.0}, "orders"),
        ({"orders": ()}, "orders"),
        ({"orders": (1.0, 2.0)}, "orders"),
        ({"orders": (3.0, 2.0)}, "ascending"),
        ({"orders": (2.0, math.inf)}, "orders"),
        ({"orders": (2.0,)}, "as many"),
        ({"divergences": (0.1, -0.1)}, "divergences"),
        ({"divergences": (0.2, 0.1)}, "fall"),
        ({"divergences": (0.1, math.nan)}, "divergences"),
        ({"divergences": (0.1, "0.2")}, "divergences"),
        ({"divergences": (0.1, True)}, "divergences"),
    ],
)
def test_what_is_no_curve_is_refused_field_by_field(change, named):
    fields = {"name": "mine", "orders": (2.0, 3.0), "divergences": (0.1, 0.2)}
    with pytest.raises(ParameterError, match=named):
        RenyiDpEvent(**(fields | change))


def test_a_certificate_says_that_the_curve_is_a_claim():
    event = compose([gaussian_curve(2.0), LaplaceDpEvent(2.0)])
    stated = Certificate.issue(Privacy(5.0, 1e-6), event, assumptions=("n is public",))
    assert stated.assumptions == ("n is public", gaussian_curve(2.0).claim)
    assert "caller's own claim" in str(stated)
    assert Certificate.from_json(stated.to_json()).verify().epsilon == stated.epsilon
    silent = dataclasses.replace(stated, assumptions=("n is public",))
    with pytest.raises((NotCertified, VerificationFailed), match="claim"):
        silent.verify()


def test_a_ledger_charges_for_a_curve():
    ledger = Ledger.memory(epsilon=3.0, delta=1e-5)
    ledger.charge(gaussian_curve(2.0), purpose="mine", delta=1e-6)
    assert ledger.spent.epsilon >= epsilon_of(gaussian_curve(2.0), 1e-6)


# --- losses -----------------------------------------------------------------------------------


def lopsided():
    """P = (0.6, 0.3, 0.1, 0), Q = (0.2, 0.4, 0.399, 0.001): more to lose in one order."""
    p, q = np.array([0.1, 0.3, 0.6]), np.array([0.399, 0.4, 0.2])
    return LossesDpEvent("a table", tuple(np.log(p / q)), tuple(p), 0.0, 0.001)


def exact_delta(steps, epsilon):
    """The worse order of the table, by all outcomes of independent steps."""
    p, q = np.array([0.1, 0.3, 0.6, 0.0]), np.array([0.399, 0.4, 0.2, 0.001])
    one, two = np.ones(1), np.ones(1)
    for _ in range(steps):
        one, two = np.outer(one, p).ravel(), np.outer(two, q).ravel()
    grown = math.exp(epsilon)
    return max(np.maximum(one - grown * two, 0).sum(), np.maximum(two - grown * one, 0).sum())


@pytest.mark.parametrize("steps", [1, 2, 6])
@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_losses_give_the_worse_order_and_hardly_more(steps, delta):
    found = epsilon_of(repeat(lopsided(), steps), delta)
    assert exact_delta(steps, found) <= delta * (1 + 1e-12)
    assert exact_delta(steps, found * 0.999) > delta


def test_what_one_law_never_does_counts_in_full():
    assert math.isinf(epsilon_of(lopsided(), 0.0009))
    assert math.isfinite(epsilon_of(lopsided(), 0.0011))


def test_losses_of_a_known_mechanism_cost_as_much_and_compose():
    top = math.log(3)
    coin = LossesDpEvent("a coin", (-top, top), (0.25, 0.75))
    for other in (GaussianDpEvent(2.0), gaussian_curve(2.0)):
        ours = epsilon_of(compose([repeat(coin, 9), other]), 1e-6)
        theirs = epsilon_of(compose([repeat(RandomizedResponseDpEvent(0.5, 2), 9), other]), 1e-6)
        assert ours == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"name": ""}, "name"),
        ({"losses": (1.0, 0.0)}, "ascending"),
        ({"losses": (0.0, math.inf)}, "losses"),
        ({"losses": (0.0,)}, "as many"),
        ({"masses": (0.5, -0.5)}, "masses"),
        ({"masses": (0.5, 0.4)}, "masses"),
        ({"masses": (0.4, 0.6)}, "infinite_swapped"),
        ({"infinite": 0.1}, "infinite"),
        ({"infinite": math.nan}, "infinite"),
        ({"infinite_swapped": 0.1}, "infinite_swapped"),
    ],
)
def test_what_is_no_pair_of_laws_is_refused_field_by_field(change, named):
    top = math.log(3)
    fields = {"name": "mine", "losses": (-top, top), "masses": (0.25, 0.75)}
    with pytest.raises(ParameterError, match=named):
        LossesDpEvent(**(fields | change))


def test_a_certificate_says_that_the_losses_are_a_claim():
    stated = Certificate.issue(Privacy(5.0, 0.01), lopsided())
    assert lopsided().claim in stated.assumptions
    assert Certificate.from_json(stated.to_json()).verify() == stated
    with pytest.raises(NotCertified, match="claim"):
        dataclasses.replace(stated, assumptions=()).verify()


@pytest.mark.parametrize("event", [lopsided(), gaussian_curve(2.0)], ids=["losses", "curve"])
def test_dp_accounting_has_no_such_event(event):
    with pytest.raises(NotCertified, match="dp_accounting"):
        to_dp_accounting(event)
